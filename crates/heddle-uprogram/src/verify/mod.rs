//! Verifies schedules: no unit may touch what another one touches before it knows that the other is done, and none may
//! wait for ever. Shares no reasoning with the scheduler.
//!
//! What is proven, for any number of units and any sizes of a launch:
//!
//! 1. An operator that is dealt out is dealt out whole: its blocks divide the axis, shares have at least one place; a grid
//!    of units splits two different axes.
//! 2. Of two accesses to the same memory of which one writes (read after write, write after read, write after
//!    write), on each path of the program from one to the other, over back edges of loops, exchanges of names, calls, and frames
//!    that lie where others lay: either
//!    both touch an element on the same unit, or synchronisations on the path tell the units of the second that
//!    those of the first have done it.
//! 3. Within one operator no unit writes an element that another one reads.
//! 4. Of calls that run at the same time none writes what another one touches, and none has results in variables. What was done
//!    before they begin is known to all units, whose numbers are others inside; what was done inside is known to
//!    nobody outside.
//! 5. Where units have lanes, a synchronisation of the lanes lies between accesses on the same unit.
//!
//! No schedule can deadlock, by its form: all units execute the same statements in the same order, because conditions
//! and trip counts are computed alike from the same values (their reads of memory are accesses of all units, see 2), and
//! whoever is waited for tells so before it waits itself. Where units
//! part, each goes to the calls of its team and waits for its team only, which does the same. So of the units that wait, those at the earliest statement can go on.
//!
//! Taken for granted of lowering: what an operator writes it writes once per element, and offsets lie inside their buffers.

mod body;
mod forks;
mod frames;
mod owner;
mod paths;
mod polynomial;
mod program;
mod types;

pub use program::{Fault, ProgramError, verify_program};

use heddle_ir::Entity;

use crate::program::{Buffer, OperatorId, UProgram};

/// What is wrong with a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// Units may be at both at the same time.
    #[error(
        "{first} and {second} are not ordered on {buffer}: a unit may be at the one while another is at the other"
    )]
    Unordered {
        /// The access that comes first.
        first: String,
        /// The one that must come after.
        second: String,
        /// What both touch.
        buffer: String,
    },
    /// Units write what others read in the same operator.
    #[error("{operator} reads on other units what it writes to {buffer}")]
    Inside {
        /// The operator.
        operator: String,
        /// What it touches.
        buffer: String,
    },
    /// Calls that run at the same time touch the same memory, and one of them writes it.
    #[error("{first} and {second} run at the same time and are not independent on {buffer}")]
    Beside {
        /// The one call.
        first: String,
        /// The other.
        second: String,
        /// What both touch.
        buffer: String,
    },
    /// A call that runs beside others gives results that only the units have that were in it.
    #[error("{call} runs beside other calls and gives results in variables")]
    Variables {
        /// The call.
        call: String,
    },
    /// Not all of an operator is run, or some of it twice.
    #[error("{operator} is not dealt out whole")]
    Share {
        /// The operator.
        operator: String,
    },
}

/// Proves that a scheduled program is sound on units of so many lanes, or says what is not.
pub fn verify_schedule(program: &UProgram, lanes: usize) -> Result<(), ScheduleError> {
    owner::verify_shares(program)?;
    forks::verify_forks(program)?;
    paths::verify_paths(program, lanes > 1)
}

/// An operator as messages name it: by its number in the printed schedule, and the model's node.
fn operator_name(program: &UProgram, id: OperatorId) -> String {
    format!("op{} ({})", id.index(), program.operators[id].name)
}

/// A buffer as messages name it.
fn buffer_name(program: &UProgram, id: Buffer) -> String {
    format!("b{} of {}", id.index(), program.buffers[id].name)
}
