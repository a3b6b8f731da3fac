//! What Drover decides, and nothing that acts.
//!
//! The heart is a pure function, [`plan()`]: from what is declared of a group, what is true of it and the time, to what to do
//! next. Around it are the rules it is made of, each a small function whose name says the rule, and the names that keep two
//! operators from making two machines. No tokio, no Kubernetes client, no vSphere client, no clock and no randomness: all of
//! that comes in as arguments, so that thousands of histories can be played through it in a test.

pub mod backoff;
pub mod binding;
pub mod brake;
pub mod budget;
pub mod conditions;
pub mod desired;
pub mod drift;
pub mod faults;
pub mod figures;
pub mod forecast;
pub mod group;
pub mod identity;
pub mod in_flight;
pub mod inventory;
pub mod names;
pub mod news;
pub mod placement;
pub mod plan;
pub mod progress;
pub mod publication;
pub mod reasons;
pub mod record;
pub mod recorded;
pub mod roll;
pub mod shell;
pub mod take_over;
pub mod tenancy;
pub mod throttle;
pub mod verdict;
pub mod view;

pub use forecast::forecast;
pub use plan::{Action, Counts, Plan, Subject, plan};
pub use verdict::{Trouble, Verdict, verdict};
