//! The vSphere API on the wire: generated types, SOAP both ways, and faults that know their ancestry.
//!
//! A method of the API is a struct in [`methods`], with its parameters as fields. [`to_envelope`] writes it, and
//! [`read_response`] reads what vCenter answers: the method's [`Response`](Method::Response) or a typed
//! [`Fault`].
//!
//! ```
//! use vim25::{methods::PowerOnVMTask, read_response, refs::VirtualMachineRef, to_envelope};
//!
//! let request = PowerOnVMTask { this: VirtualMachineRef::new("vm-42"), host: None };
//! let body = to_envelope(&request)?;
//! assert!(String::from_utf8_lossy(&body).contains(r#"<_this type="VirtualMachine">vm-42</_this>"#));
//!
//! let answer = br#"<Envelope><Body><PowerOnVM_TaskResponse>
//!     <returnval type="Task">task-7</returnval></PowerOnVM_TaskResponse></Body></Envelope>"#;
//! let task = read_response::<PowerOnVMTask>(answer)?;
//! assert_eq!(task.value(), "task-7");
//! # Ok::<(), vim25::Error>(())
//! ```
//!
//! What a newer vCenter sends and this crate does not know is never an error: elements are skipped, enum values are
//! kept as `Other`, and a subtype is kept as the base its slot has, with the type's name. An element that the API
//! requires and an older vCenter leaves out reads as its type's default.

pub mod any;
pub mod client;
pub mod collector;
mod error;
pub mod fault;
#[allow(
    missing_docs,
    unused_imports,
    clippy::doc_markdown,
    clippy::enum_glob_use,
    clippy::struct_excessive_bools,
    clippy::struct_field_names,
    clippy::upper_case_acronyms,
    clippy::wildcard_imports,
    reason = "generated from the API's own names"
)]
mod generated;
pub mod inventory;
mod property;
mod reference;
pub mod wire;

pub use any::{Any, FromAny};
pub use client::{Client, Credentials, Endpoint, Settings, Thumbprint, TransportError, Trust};
pub use collector::{Collector, Event, Scope, Update, Updates, Watch, WatchId};
pub use error::{Error, Result};
pub use fault::{Fault, FaultType, LocalizedMethodFault, SoapFault};
pub use generated::{API_VERSION, enums, faults, methods, props, refs, types};
pub use inventory::{Inventory, LookupError};
pub use jiff::Timestamp;
#[doc(hidden)]
pub use property::keyed_path;
pub use property::{Property, PropertyError, PropertyPath};
pub use reference::{ManagedObject, ManagedObjectReference, WrongType};
pub use wire::{
    Binary, Envelope, Limits, Method, ReadError, Secret, WriteError, read_response, read_response_within, to_envelope,
};
