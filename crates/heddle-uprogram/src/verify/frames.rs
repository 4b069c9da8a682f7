//! Names of memory in other activations of procedures.
//!
//! Names of buffers in a recursion refer to the latest activation. A call hides the caller's,
//! except for those it passes; a return frees its frame, which the next call reuses.

use std::collections::{BTreeMap, BTreeSet};

use crate::program::{Buffer, CallId, ProcedureId, Stmt, UProgram};

/// The name of touched memory at the current point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// This buffer.
    Named(Buffer),
    /// Possibly part of this buffer, in reused memory.
    Reused(Buffer),
    /// Outside of all live frames.
    Freed,
}

impl Place {
    /// True if it may be the buffer.
    pub fn is(self, buffer: Buffer) -> bool {
        matches!(self, Place::Named(b) | Place::Reused(b) if b == buffer)
    }

    /// True if elements may have other places than before.
    pub fn is_reused(self) -> bool {
        !matches!(self, Place::Named(_))
    }

    /// After a swap.
    pub fn swapped(self, a: Buffer, b: Buffer) -> Place {
        self.renamed(|x| match x {
            x if x == a => b,
            x if x == b => a,
            x => x,
        })
    }

    fn buffer(self) -> Option<Buffer> {
        match self {
            Place::Named(b) | Place::Reused(b) => Some(b),
            Place::Freed => None,
        }
    }

    fn renamed(self, name: impl Fn(Buffer) -> Buffer) -> Place {
        match self {
            Place::Named(b) => Place::Named(name(b)),
            Place::Reused(b) => Place::Reused(name(b)),
            Place::Freed => Place::Freed,
        }
    }
}

/// Recursions, and the procedures that contain a barrier (of the team) on every path.
#[derive(Default)]
pub struct Frames {
    cycles: BTreeMap<ProcedureId, BTreeSet<ProcedureId>>,
    synced: BTreeSet<ProcedureId>,
}

impl Frames {
    pub fn new(program: &UProgram) -> Frames {
        let ids: Vec<_> = program.procedures.keys().collect();
        let calls: BTreeMap<_, _> = ids.iter().map(|&id| (id, program.callees(id))).collect();
        let cycle = |id: ProcedureId| {
            let mutual = |other: &ProcedureId| {
                *other == id || calls[&id].contains(other) && calls[other].contains(&id)
            };
            ids.iter().copied().filter(mutual).collect()
        };
        // Greatest fixpoint: a terminating path has a call that does not recurse further.
        let mut synced: BTreeSet<_> = ids.iter().copied().collect();
        loop {
            let next: BTreeSet<_> = synced
                .iter()
                .copied()
                .filter(|&id| is_synced(program, &program.procedures[id].body, &synced))
                .collect();
            if next == synced {
                break;
            }
            synced = next;
        }
        Frames {
            cycles: ids.iter().map(|&id| (id, cycle(id))).collect(),
            synced,
        }
    }

    /// The names of a place inside the callee.
    pub fn entered(&self, program: &UProgram, call: CallId, place: Place) -> Vec<Place> {
        let call = &program.calls[call];
        let Some(buffer) = place.buffer() else {
            let frame = program.memory(call.procedure).map(Place::Reused);
            return frame.chain([Place::Freed]).collect();
        };
        let passed = call.buffers.iter().filter(|(_, arg)| *arg == buffer);
        let passed = passed.map(|(param, _)| place.renamed(|_| *param));
        let same = (!self.is_of(program, buffer, call.procedure)).then_some(place);
        passed.chain(same).collect()
    }

    /// The name of a place in the caller's frame after the call, if the callee reaches it only
    /// through other names.
    pub fn kept(&self, program: &UProgram, call: CallId, place: Place) -> Option<Place> {
        let callee = program.calls[call].procedure;
        self.is_of(program, place.buffer()?, callee)
            .then_some(place)
    }

    /// True if every path through the callee contains a barrier.
    pub fn has_barrier(&self, program: &UProgram, call: CallId) -> bool {
        self.synced.contains(&program.calls[call].procedure)
    }

    /// The name of a place when its procedure returns.
    pub fn out_of(&self, program: &UProgram, id: ProcedureId, place: Place) -> Place {
        match place.buffer().map(|b| &program.buffers[b]) {
            Some(b) if b.procedure == Some(id) && b.kind.is_reused() => Place::Freed,
            _ => place,
        }
    }

    /// The caller's names of a place in the callee.
    pub fn back(&self, program: &UProgram, call: CallId, place: Place) -> Vec<Place> {
        let call = &program.calls[call];
        let Some(buffer) = place.buffer() else {
            // A caller's part of a segment grows where a callee's was.
            let segments = program.all_segments();
            return segments.map(Place::Reused).chain([place]).collect();
        };
        if !self.is_of(program, buffer, call.procedure) {
            return vec![place];
        }
        let given = call.buffers.iter().filter(|(param, _)| *param == buffer);
        given.map(|(_, arg)| place.renamed(|_| *arg)).collect()
    }

    /// True if a name belongs to a procedure's recursion.
    fn is_of(&self, program: &UProgram, buffer: Buffer, procedure: ProcedureId) -> bool {
        let owner = program.buffers[buffer].procedure;
        owner.is_some_and(|p| self.cycles[&procedure].contains(&p))
    }
}

/// True if every path through a block contains a barrier.
fn is_synced(program: &UProgram, block: &[Stmt], synced: &BTreeSet<ProcedureId>) -> bool {
    block.iter().any(|stmt| match stmt {
        Stmt::Sync(sync) => sync.is_of_all(),
        Stmt::Call(id) => synced.contains(&program.calls[*id].procedure),
        Stmt::If {
            then, otherwise, ..
        } => is_synced(program, then, synced) && is_synced(program, otherwise, synced),
        _ => false,
    })
}
