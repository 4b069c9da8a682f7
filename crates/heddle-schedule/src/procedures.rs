//! What crosses a call.
//!
//! An activation's buffers lie in a frame of its own, so names of buffers of a cycle of procedures mean other memory in the callee:
//! its own are new — but they may lie where frames that are gone lay, which other units may not have left yet —
//! and its parameters are what the caller says. What all other names mean stays the same.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::effects::Effects;
use crate::place_syncs::State;
use heddle_uprogram::program::{Buffer, BufferKind, Call, ProcedureId, UProgram};

/// What is known of procedures so far; it grows until it covers all calls.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Known {
    /// Where each one begins: all its calls together.
    pub(super) starts: BTreeMap<ProcedureId, State>,
    /// Where each one ends.
    pub(super) ends: BTreeMap<ProcedureId, State>,
    /// For each the procedures that it calls and that call it back, and itself.
    cycles: BTreeMap<ProcedureId, BTreeSet<ProcedureId>>,
    /// What calls touch, of a program with forks.
    effects: Rc<Effects>,
}

impl Known {
    pub(super) fn new(program: &UProgram) -> Known {
        let callees: BTreeMap<_, _> = program
            .procedures
            .keys()
            .map(|id| (id, program.callees(id)))
            .collect();
        let cycle = |id: ProcedureId| {
            let back = |other: &ProcedureId| callees[other].contains(&id);
            let mut cycle: BTreeSet<_> = callees[&id].iter().copied().filter(back).collect();
            cycle.insert(id);
            cycle
        };
        Known {
            starts: BTreeMap::new(),
            ends: BTreeMap::new(),
            cycles: callees.keys().map(|&id| (id, cycle(id))).collect(),
            effects: match program.has_forks() {
                true => Rc::new(Effects::new(program)),
                false => Rc::default(),
            },
        }
    }

    /// Goes through a call: notes what its procedure begins with; gives what holds after it. A procedure whose end
    /// is not known yet has not been seen to return.
    pub(super) fn call(&mut self, program: &UProgram, call: &Call, before: &State) -> State {
        let cycle = &self.cycles[&call.procedure];
        let theirs = |b: Buffer| {
            let owner = program.buffers[b].procedure;
            owner.is_some_and(|p| cycle.contains(&p))
        };
        let mut start = State {
            gone: before.gone.clone(),
            ..State::default()
        };
        for (&buffer, pending) in before.buffers.iter().filter(|(b, _)| !theirs(**b)) {
            start.note(buffer, pending);
        }
        for buffer in program.frame(call.procedure) {
            start.note(buffer, &before.gone);
        }
        for (param, arg) in &call.buffers {
            if let Some(pending) = before.buffers.get(arg) {
                start.note(*param, pending);
            }
        }
        let first = self.starts.entry(call.procedure).or_insert(start.clone());
        *first = first.join(&start);

        let Some(end) = self.ends.get(&call.procedure) else {
            return State {
                synced: true,
                ..State::default()
            };
        };
        let mut after = State {
            gone: end.gone.clone(),
            synced: before.synced || end.synced,
            ..State::default()
        };
        for (&buffer, pending) in &end.buffers {
            let data = &program.buffers[buffer];
            let own = data.procedure == Some(call.procedure);
            match own && matches!(data.kind, BufferKind::Scratch) {
                true => after.leave(pending),
                false if theirs(buffer) => {}
                false => after.note(buffer, pending),
            }
        }
        // The caller's own names, if it is of the cycle: nobody touched them but by parameters.
        if !end.synced {
            for (&buffer, pending) in before.buffers.iter().filter(|(b, _)| theirs(**b)) {
                after.note(buffer, pending);
            }
        }
        for (param, arg) in &call.buffers {
            if let Some(pending) = end.buffers.get(param) {
                after.note(*arg, pending);
            }
        }
        after
    }

    /// Goes through calls that run at the same time. Who waits for whom inside is nothing to those outside. All know what was before,
    /// but for who read the arguments.
    pub(super) fn fork(&mut self, program: &UProgram, calls: &[&Call], before: &State) -> State {
        let mut after = State {
            synced: before.synced,
            ..State::default()
        };
        let mut returns = true;
        for call in calls {
            returns &= self.ends.contains_key(&call.procedure);
            self.call(program, call, before);
            let touched = self.effects.of(program, call);
            after.come_together(&touched, self.effects.has_frames(call));
        }
        // Each team read its own arguments.
        for (&buffer, pending) in &before.buffers {
            after.note(buffer, pending);
        }
        match returns {
            true => after,
            false => State {
                synced: true,
                ..State::default()
            },
        }
    }

    /// With what was known of ends before: a procedure that synchronises more than before would otherwise be taken back
    /// and forth.
    pub(super) fn with_ends_of(mut self, before: &Known) -> Known {
        for (id, end) in &before.ends {
            let joined = self.ends.get(id).map_or(end.clone(), |e| e.join(end));
            self.ends.insert(*id, joined);
        }
        self
    }
}
