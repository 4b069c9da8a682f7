//! The launch interface: data that an emitted program, the scheduler that lays its memory out, and the runtime share.
//!
//! [`schema`] lists the structures that they share, for all languages. A [`Plan`] is the memory plan as data: expressions over the sizes of a launch, evaluated by [`Launch`]. This crate knows
//! no graph, no source text and no device.

pub mod plan;
pub mod schema;

pub use plan::{Launch, Plan, PlanError, PlanFault};
