//! The harness of the end-to-end tests: a sandbox of real parts, and eyes on it that aren't Drover's own.
//!
//! A test binary shares one [`Sandbox`], each test has a [`Namespace`] of its own, and a test that has a vCenter
//! misbehave takes a [`VCenter`] for itself. What a test asserts it reads as an outsider would, with kubectl and govc.
//! What takes time is asserted with [`eventually`].

// A harness fails its test by panicking; saying so of each function would say nothing.
#![allow(clippy::missing_panics_doc)]

mod api;
mod discretion;
mod eventually;
mod gate;
mod group;
mod http;
mod log;
mod node;
mod operator;
pub mod process;
mod program;
mod rest;
mod sandbox;
mod shell;
mod skip;
mod vcenter;

pub use eventually::eventually;
pub use gate::{Fate, Gate, GateRule, Requests};
pub use group::{Group, SOON};
pub use log::repeated;
pub use node::Traces;
pub use operator::{Operator, binary, built};
pub use program::{Failure, Program};
pub use rest::at_rest;
pub use sandbox::{Namespace, Sandbox, vm_group};
pub use shell::Shell;
pub use vcenter::{MachineCounts, Rule, VCenter};
