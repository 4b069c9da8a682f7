//! What memory is called in other activations of procedures.
//!
//! Names of buffers that belong to a cycle of procedures are of the latest activation. A call leaves the caller's behind, but for
//! what it passes; an end gives its frame up, and whoever is called next has its frame there.

use std::collections::{BTreeMap, BTreeSet};

use crate::program::{Buffer, BufferKind, CallId, ProcedureId, Stmt, Sync, UProgram};

/// What memory that was touched is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// It is this buffer.
    Named(Buffer),
    /// It may be a part of this buffer, which lies where another one lay.
    Reused(Buffer),
    /// It is in no activation's frame.
    Gone,
}

impl Place {
    /// Whether it may be the buffer.
    pub fn is(self, buffer: Buffer) -> bool {
        matches!(self, Place::Named(b) | Place::Reused(b) if b == buffer)
    }

    /// Whether where an element lay says nothing any more.
    pub fn is_reused(self) -> bool {
        !matches!(self, Place::Named(_))
    }

    /// After an exchange of names.
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
            Place::Gone => None,
        }
    }

    fn renamed(self, name: impl Fn(Buffer) -> Buffer) -> Place {
        match self {
            Place::Named(b) => Place::Named(name(b)),
            Place::Reused(b) => Place::Reused(name(b)),
            Place::Gone => Place::Gone,
        }
    }
}

/// The cycles of procedures, and those in which all units (of the team that is there) wait for all on every way.
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
        // Of a way that ends, some call on it does not call the same procedure again: what holds if it holds for the
        // calls holds.
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

    /// What a place is called in the procedure that is called.
    pub fn entered(&self, program: &UProgram, call: CallId, place: Place) -> Vec<Place> {
        let call = &program.calls[call];
        let Some(buffer) = place.buffer() else {
            let frame = program.frame(call.procedure).map(Place::Reused);
            return frame.chain([Place::Gone]).collect();
        };
        let passed = call.buffers.iter().filter(|(_, arg)| *arg == buffer);
        let passed = passed.map(|(param, _)| place.renamed(|_| *param));
        let same = (!self.is_of(program, buffer, call.procedure)).then_some(place);
        passed.chain(same).collect()
    }

    /// What a place of the caller's frame is called after the call, which does not touch it but by other names.
    pub fn kept(&self, program: &UProgram, call: CallId, place: Place) -> Option<Place> {
        let callee = program.calls[call].procedure;
        self.is_of(program, place.buffer()?, callee)
            .then_some(place)
    }

    /// Whether all units wait for all on every way through the procedure that is called.
    pub fn tells_all(&self, program: &UProgram, call: CallId) -> bool {
        self.synced.contains(&program.calls[call].procedure)
    }

    /// What a place is called when its procedure has ended.
    pub fn out_of(&self, program: &UProgram, id: ProcedureId, place: Place) -> Place {
        match place.buffer().map(|b| &program.buffers[b]) {
            Some(b) if b.procedure == Some(id) && matches!(b.kind, BufferKind::Scratch) => {
                Place::Gone
            }
            _ => place,
        }
    }

    /// What a place that was named in a procedure is called by its caller.
    pub fn back(&self, program: &UProgram, call: CallId, place: Place) -> Vec<Place> {
        let call = &program.calls[call];
        let Some(buffer) = place.buffer() else {
            return vec![place];
        };
        if !self.is_of(program, buffer, call.procedure) {
            return vec![place];
        }
        let given = call.buffers.iter().filter(|(param, _)| *param == buffer);
        given.map(|(_, arg)| place.renamed(|_| *arg)).collect()
    }

    /// Whether a name belongs to a procedure's cycle.
    fn is_of(&self, program: &UProgram, buffer: Buffer, procedure: ProcedureId) -> bool {
        let owner = program.buffers[buffer].procedure;
        owner.is_some_and(|p| self.cycles[&procedure].contains(&p))
    }
}

/// Whether all units wait for all on every way through a block.
fn is_synced(program: &UProgram, block: &[Stmt], synced: &BTreeSet<ProcedureId>) -> bool {
    block.iter().any(|stmt| match stmt {
        Stmt::Sync(sync) => *sync == Sync::ALL,
        Stmt::Call(id) => synced.contains(&program.calls[*id].procedure),
        Stmt::If {
            then, otherwise, ..
        } => is_synced(program, then, synced) && is_synced(program, otherwise, synced),
        _ => false,
    })
}
