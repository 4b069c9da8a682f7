//! Places synchronisations exactly where a dependence (read after write, write after read, write
//! after write) crosses units; each of the weakest kind that covers it.
//!
//! The walk keeps, for each buffer, the accesses not yet visible to all units: their partitions,
//! and the units that have waited for them. Accesses with equal partitions need no synchronisation,
//! since the same unit makes both (Rammer §3.2: data-flow edges whose tasks are aligned need no
//! barrier). Loops are walked until the state at the head covers the back edge; procedures until
//! the state at entry covers all calls.

mod loops;
mod procedures;
mod state;
mod walk;

pub(super) use self::state::State;
pub(super) use self::walk::LOOK_AHEAD;

use heddle_machine::Machine;

use self::procedures::Known;
use self::walk::Walk;
use crate::memo::Memo;
use heddle_uprogram::program::{ProcedureId, Stmt, UProgram};

/// Places the program's synchronisations.
pub fn place_syncs(program: &mut UProgram, machine: &Machine) {
    place_syncs_with(program, machine, &Memo::default());
}

/// The same with a cache.
pub(super) fn place_syncs_with(program: &mut UProgram, machine: &Machine, memo: &Memo) {
    let placed = Placed::new(program, machine, memo);
    program.body = placed.body;
    for (id, body) in placed.procedures {
        program.procedures[id].body = body;
    }
}

/// The program's statements with synchronisations.
pub(super) struct Placed {
    pub(super) body: Vec<Stmt>,
    /// Without procedures that no call reaches.
    pub(super) procedures: Vec<(ProcedureId, Vec<Stmt>)>,
}

impl Placed {
    pub(super) fn new(program: &UProgram, machine: &Machine, memo: &Memo) -> Self {
        let mut known = Known::new(program);
        loop {
            let mut walk = Walk {
                program,
                memo,
                lanes: machine.synced_lanes() > 1,
                known: known.clone(),
                state: State::default(),
            };
            let placed = walk.program();
            let next = walk.known.with_ends_of(&known);
            if next == known {
                return placed;
            }
            known = next;
        }
    }
}

/// Places the synchronisations of a program without procedures, statement by statement.
pub(super) struct Placer<'p>(Walk<'p>);

impl<'p> Placer<'p> {
    /// Continues from this state.
    pub(super) fn new(
        program: &'p UProgram,
        machine: &Machine,
        memo: &'p Memo,
        state: State,
    ) -> Self {
        Self(Walk {
            program,
            memo,
            lanes: machine.synced_lanes() > 1,
            known: Known::new(program),
            state,
        })
    }

    /// The current state.
    pub(super) fn state(&self) -> &State {
        &self.0.state
    }

    /// Statement `k` of the program's body with its synchronisations.
    pub(super) fn place(&mut self, body: &[Stmt], k: usize) -> Vec<Stmt> {
        let mut out = vec![];
        self.0.stmt(&mut out, body, k);
        out
    }
}
