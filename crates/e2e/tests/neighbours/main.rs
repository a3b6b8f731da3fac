//! Many share one operator. What one of them declares hurts that one alone.

mod admitted;
mod fuzz;
mod stored;
mod tenant;
