//! The uProgram: control flow that every unit executes itself, and uOperators whose uTasks are
//! split among the units. Lowering makes it, passes change it, an emitter writes it as source text.
//!
//! Layers, each of which imports only from those above it:
//!
//! 1. `ids`, then [`expr`] (scalar expressions), then [`contract`] (contractions and the layouts of
//!    their operands);
//! 2. [`program`]: operators, statements, procedures;
//! 3. analyses and edits: [`live`], [`calls`], [`step`], [`renamed`], `compact`, `tables`;
//! 4. [`layout`](mod@layout) (the memory plan), [`text`] (printer and parser), [`verify`] (form of
//!    programs, soundness of schedules).
//!
//! Architecture invariant: nothing here knows what a unit is; only emitters do.

pub mod calls;
mod compact;
pub mod contract;
pub mod expr;
mod ids;
pub mod layout;
pub mod live;
pub mod neutral;
pub mod program;
pub mod renamed;
pub mod step;
mod tables;
pub mod text;
pub mod verify;

pub use expr::{Expr, ExprId, Pool};
pub use layout::{Layout, LayoutError, layout};
pub use live::kept_over_calls;
pub use program::UProgram;
pub use verify::{ProgramError, ScheduleError, verify_program, verify_schedule};
