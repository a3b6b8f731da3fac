//! What keeps one object from hurting others, and the operator from standing still in silence.

mod loops;
mod operations;
mod reading;
mod watches;
