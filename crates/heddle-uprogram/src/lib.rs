//! The uProgram: control flow that every unit executes itself, and uOperators whose uTasks are split
//! among the units. Lowering makes it, passes change it, an emitter writes it as source text.
//!
//! Architecture invariant: nothing here knows what a unit is; an emitter says so.

pub mod calls;
mod compact;
pub mod contract;
pub mod expr;
pub mod layout;
pub mod live;
pub mod program;
pub mod renamed;
pub mod step;
pub mod text;
pub mod verify;

pub use expr::{Expr, ExprId, Pool};
pub use layout::{Layout, LayoutError, layout};
pub use live::kept_over_calls;
pub use program::UProgram;
pub use verify::{ProgramError, ScheduleError, verify_program, verify_schedule};
