//! What Drover decides, and nothing that acts.
//!
//! The heart is a pure function, [`plan()`]: from what is declared of a group, what is true of it and the time, to what to do
//! next. Around it are the rules it is made of, each a small function whose name says the rule, and the names that keep two
//! operators from making two machines. No tokio, no Kubernetes client, no vSphere client, no clock and no randomness: all of
//! that comes in as arguments, so that thousands of histories can be played through it in a test.

pub mod conditions;
pub mod events;
pub mod info;
pub mod names;
pub mod reasons;
pub mod shell;
pub mod status;
pub mod tenancy;
pub mod throttle;
pub mod vcenter;
pub mod vmgroup;

pub use jiff::Timestamp;

pub use vmgroup::{
    forecast::forecast,
    plan::{Action, Counts, Plan, Subject, plan},
    trouble::Trouble,
};
