//! What keeps one object from hurting others, and the operator from standing still in silence.

mod kinds;
mod loops;
mod observed;
mod operations;
mod reading;
mod strangers;
mod watches;
