//! Verifies schedules: conflicting accesses are ordered, and no unit waits forever. It shares no
//! reasoning with the scheduler.
//!
//! Proven for any number of units and any sizes of a launch:
//!
//! 1. A split covers its operator: blocks divide the axis, and shares have at least one place; a
//!    grid splits two different axes. Pieces of a share cover it; since any unit may take them,
//!    their operator's accesses have no owner.
//! 2. For each two conflicting accesses (read after write, write after read, write after write), on
//!    each path from one to the other, through back edges, swaps, calls and reused frames: either
//!    both touch each element on the same unit, or synchronisations on the path order the units of
//!    the first before those of the second. Accesses conflict unless constants show that they touch different elements.
//! 3. Within one operator no unit writes an element that another one reads. A point may read the one that it writes.
//! 4. No call of a fork writes memory that another one touches, and none has results in variables.
//!    Accesses before a fork are visible to all units at it, since units are renumbered inside;
//!    accesses inside are visible to no other unit after it.
//! 5. A unit reads results of its own ([`Share::Every`](crate::program::Share::Every)) only where it has run the operator
//!    before on every path, and since the number of units may last have changed.
//! 6. One unit touches each element of an array in the units' shared memory, under all names that it is exchanged with.
//! 7. Each unit that touches an array of which a cluster's units have copies is one of them, under all names of the array. A store is one to
//!    all of them. It comes after a synchronisation of all of them, since each must have begun, and one stands between it and the end
//!    of the program, since each must still be there.
//! 8. Each unit that takes numbers of a gathering has given some, or said that it has none, so that all come to it before any is at the one
//!    after the next, and memory for two suffices. What a gathering leaves is each unit's own, see 5.
//! 9. If units have lanes, a synchronisation of the lanes lies between conflicting accesses on the
//!    same unit, unless both touch each element in the same lane. That of each warp's lanes suffices if lanes of the same warp touch each
//!    element in both, those of a group that works on the element's point.
//!
//! Memory has a scope: a lane (rows), a unit (rows that lanes share, what each unit has for itself), a cluster, or all units. So has a
//! synchronisation, by the units at its ends: a warp's or a unit's lanes, a cluster, or any units. An access is visible within the scope of the
//! synchronisations behind it only, so 2 asks for one that holds both ends of an edge, and 6 and 7 for ends within the memory's scope.
//!
//! Schedules cannot deadlock, by construction: all units execute the same statements in the same
//! order, because they compute conditions and trip counts from the same values (whose loads are
//! accesses of all units, see 2), and a unit signals before it waits itself. In a fork, each unit
//! runs the calls of its team and waits for its team only. So among waiting units, those at the
//! earliest statement can proceed. The units of a cluster come to its barrier as they come to a wait for
//! all of them; where calls part the units there is none.
//!
//! Assumed of lowering: an operator writes each element once, and offsets are in bounds.

mod body;
mod forks;
mod frames;
mod gathered;
mod mirrors;
mod own;
mod owner;
mod paths;
mod polynomial;
mod program;
mod reach;
mod residents;
mod types;

pub use program::{Fault, ProgramError, verify_program};

use heddle_ir::Entity;

use crate::expr::ExprId;
use crate::program::{Buffer, OperatorId, Stmt, UProgram};

/// The ways in which a schedule can be unsound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// Conflicting accesses may be concurrent.
    #[error(
        "{first} and {second} are not ordered on {buffer}: a unit may be at the one while another is at the other"
    )]
    Unordered {
        /// The first access.
        first: String,
        /// The second access.
        second: String,
        /// The memory.
        buffer: String,
    },
    /// An operator reads on one unit what it writes on another.
    #[error("{operator} reads on other units what it writes to {buffer}")]
    Inside {
        /// The operator.
        operator: String,
        /// The memory.
        buffer: String,
    },
    /// Concurrent calls conflict.
    #[error("{first} and {second} run at the same time and are not independent on {buffer}")]
    Beside {
        /// The first call.
        first: String,
        /// The second call.
        second: String,
        /// The memory.
        buffer: String,
    },
    /// A concurrent call has results in variables, which only its own team would have.
    #[error("{call} runs beside other calls and gives results in variables")]
    Variables {
        /// The call.
        call: String,
    },
    /// A unit may read its own results of an operator before it has run it.
    #[error("{reader} reads {buffer}, which the unit itself may not have computed")]
    Own {
        /// The reader: an operator, a call or a statement.
        reader: String,
        /// The memory.
        buffer: String,
    },
    /// Several units touch an element of an array of which each has its own.
    #[error(
        "{first} and {second} may touch the same elements of {buffer} on different units, each of which has its own"
    )]
    Shared {
        /// An access.
        first: String,
        /// Another one, or the same.
        second: String,
        /// The memory.
        buffer: String,
    },
    /// A unit touches an array of which only the units of a cluster or team have copies.
    #[error("{reader} touches {buffer} on units that have no copy of it")]
    Outside {
        /// An access.
        reader: String,
        /// The memory.
        buffer: String,
    },
    /// An operator's split does not cover its points exactly once.
    #[error("the units' shares of {operator} do not cover it exactly once")]
    Share {
        /// The operator.
        operator: String,
    },
}

/// Proves that a scheduled program is sound on units with this number of lanes.
pub fn verify_schedule(program: &UProgram, lanes: usize) -> Result<(), ScheduleError> {
    owner::verify_shares(program)?;
    forks::verify_forks(program)?;
    own::verify_own(program)?;
    residents::verify_residents(program)?;
    mirrors::verify_mirrors(program)?;
    paths::verify_paths(program, lanes > 1)
}

/// An operator's name in messages: its number in the printed schedule, and the model's node.
/// Expressions that all units read where a statement runs: its own, those that its calls pass, and the sizes of its operator.
fn read_by_all(program: &UProgram, stmt: &Stmt) -> Vec<ExprId> {
    let mut read = stmt.exprs();
    for call in stmt.calls() {
        read.extend(program.calls[*call].lets.iter().map(|(_, value)| *value));
    }
    if let Stmt::Run(id) = stmt {
        read.extend(program.operators[*id].axes.iter().map(|axis| axis.1));
    }
    read
}

fn operator_name(program: &UProgram, id: OperatorId) -> String {
    format!("op{} ({})", id.index(), program.operators[id].name)
}

/// A buffer's name in messages.
fn buffer_name(program: &UProgram, id: Buffer) -> String {
    format!("b{} of {}", id.index(), program.buffers[id].name)
}
