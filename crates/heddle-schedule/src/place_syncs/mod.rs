//! Places synchronisations: where data that a unit wrote is about to be read or overwritten by another, or data that one
//! reads is about to be overwritten, and nowhere else; each of the weakest kind that covers what crosses there.
//!
//! The walk keeps, for each buffer, the accesses that are not known to everybody: how they deal out its elements, and which
//! named units know of them. An access on the unit that made the other one needs nothing: both deal out the elements
//! alike (Rammer §3.2: data-flow edges whose tasks are aligned need no barrier). A loop is walked until what is known at its
//! head covers its back edge; procedures are walked until what is known where each begins covers all its calls.

mod loops;
mod state;
mod walk;

pub(super) use self::state::State;
pub(super) use self::walk::LOOK_AHEAD;

use heddle_machine::Machine;

use self::walk::Walk;
use crate::memo::Memo;
use crate::procedures::Known;
use heddle_uprogram::program::{ProcedureId, Stmt, UProgram};

/// Places the program's synchronisations.
pub fn place_syncs(program: &mut UProgram, machine: &Machine) {
    place_syncs_with(program, machine, &Memo::default());
}

/// The same with what is remembered of the program.
pub(super) fn place_syncs_with(program: &mut UProgram, machine: &Machine, memo: &Memo) {
    let placed = Placed::new(program, machine, memo);
    program.body = placed.body;
    for (id, body) in placed.procedures {
        program.procedures[id].body = body;
    }
}

/// What a program's statements are with its synchronisations.
pub(super) struct Placed {
    pub(super) body: Vec<Stmt>,
    /// Procedures that no call reaches are left out.
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
    /// Goes on from a place where this is known.
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

    /// What is known here.
    pub(super) fn state(&self) -> &State {
        &self.0.state
    }

    /// What a statement of the program's body is with its synchronisations.
    pub(super) fn place(&mut self, body: &[Stmt], k: usize) -> Vec<Stmt> {
        let mut out = vec![];
        self.0.stmt(&mut out, body, k);
        out
    }
}
