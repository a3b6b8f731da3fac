//! What is decided of groups: what is declared, what is true, what to do next, what is under way, and what is said of it all.

pub mod adapters;
pub mod desired;
pub mod drift;
pub mod events;
pub mod extra_config;
pub mod faults;
pub mod forecast;
pub mod guest;
pub mod identity;
pub mod in_flight;
pub mod inventory;
pub mod marker;
pub mod membership;
pub mod observed;
pub mod outcome;
pub mod placement;
pub mod plan;
pub mod progress;
pub mod queue;
pub mod record;
pub mod recorded;
pub mod report;
pub mod room;
pub mod status;
pub mod take_over;
pub mod trouble;
pub mod view;

pub use desired::{DeletionPolicy, Desired, ScaleIn, Slots, Strategy, UpdatePolicy};
pub use observed::{
    Folder, FolderId, Hardware, Held, HeldFor, HotAdd, Lookalikes, MachineId, Member, Observed, Power, Refusal,
    Revision, Size,
};
pub use room::Room;
