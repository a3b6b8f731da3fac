//! The harness of the end-to-end tests: a sandbox of real parts, and eyes on it that aren't Drover's own.
//!
//! A test binary shares one [`Sandbox`], each test has a [`Namespace`] of its own, and a test that has a vCenter
//! misbehave takes a [`VCenter`] for itself. What a test asserts it reads as an outsider would, with kubectl and govc.
//! What takes time is asserted with [`eventually`].

// A harness fails its test by panicking; saying so of each function would say nothing.
#![allow(clippy::missing_panics_doc)]

mod account;
mod api;
mod before;
pub mod borders;
mod chance;
mod collector;
mod discretion;
#[cfg(test)]
mod documentation;
mod eventually;
mod gate;
mod group;
mod http;
mod log;
pub mod measurement;
mod node;
mod operator;
mod page;
pub mod process;
mod program;
mod prometheus;
mod rest;
mod rolls;
mod sandbox;
mod shell;
mod skip;
mod strangers;
mod tenant;
mod terminal;
mod untouched;
mod vcenter;
pub mod webhook;
mod world;

pub use account::{Account, relative_config};
pub use before::Before;
pub use chance::Chance;
pub use collector::{Collector, Span};
pub use eventually::eventually;
pub use gate::{Fate, Gate, GateRule, Requests};
pub use group::{Group, SOON};
pub use log::repeated;
pub use node::Traces;
pub use operator::{Operator, binary, built};
pub use page::{Page, Running};
pub use program::{Failure, Program};
pub use prometheus::Prometheus;
pub use rest::at_rest;
pub use rolls::{have_rolled, roll};
pub use sandbox::{Namespace, Sandbox, vm_group};
pub use shell::Shell;
pub use strangers::Strangers;
pub use tenant::Tenant;
pub use terminal::Terminal;
pub use untouched::Untouched;
pub use vcenter::{MachineCounts, PowerChange, Rule, Touch, VCenter};
pub use world::{Vm, World};
