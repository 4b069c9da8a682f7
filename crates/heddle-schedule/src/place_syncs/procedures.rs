//! The state across calls.
//!
//! Each activation has its own frame. So buffers of a recursion name other memory in the callee:
//! its own are new, but may reuse the memory of earlier frames that other units have not left yet;
//! its parameters are the caller's arguments. All other names keep their memory.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::State;
use crate::effects::Effects;
use heddle_uprogram::program::{Buffer, Call, ProcedureId, UProgram};

/// States at the ends of procedures; grows until it covers all calls.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Known {
    /// State at entry: the join over all calls.
    pub(super) starts: BTreeMap<ProcedureId, State>,
    /// State at return.
    pub(super) ends: BTreeMap<ProcedureId, State>,
    /// For each procedure itself and the procedures on a call cycle with it.
    cycles: BTreeMap<ProcedureId, BTreeSet<ProcedureId>>,
    /// The memory of an activation of each procedure that has any.
    memory: Rc<BTreeMap<ProcedureId, Vec<Buffer>>>,
    /// Effects of calls, for a program with forks.
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
            memory: Rc::new(program.memory_by_procedure()),
            cycles: callees.keys().map(|&id| (id, cycle(id))).collect(),
            effects: match program.has_forks() {
                true => Rc::new(Effects::new(program)),
                false => Rc::default(),
            },
        }
    }

    /// Joins the state into the callee's entry and returns the state after the call. A procedure
    /// without a known end does not return yet.
    pub(super) fn call(&mut self, program: &UProgram, call: &Call, before: &State) -> State {
        let cycle = &self.cycles[&call.procedure];
        let theirs = |b: Buffer| {
            let owner = program.buffers[b].procedure;
            owner.is_some_and(|p| cycle.contains(&p))
        };
        let mut start = State {
            popped: before.popped.clone(),
            ..State::default()
        };
        for (buffer, pending) in before.buffers.iter().filter(|(b, _)| !theirs(*b)) {
            start.note(buffer, [pending]);
        }
        for &buffer in self.memory.get(&call.procedure).into_iter().flatten() {
            start.note(buffer, &before.popped);
        }
        for (param, arg) in &call.buffers {
            start.note(*param, before.buffers.of(*arg));
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
            popped: end.popped.clone(),
            synced: before.synced || end.synced,
            ..State::default()
        };
        for (buffer, pending) in end.buffers.iter() {
            let data = &program.buffers[buffer];
            let own = data.procedure == Some(call.procedure);
            match own && data.kind.is_reused() {
                true => after.pop_frame(pending),
                false if theirs(buffer) => {}
                false => after.note(buffer, [pending]),
            }
        }
        // Within a recursion, the caller's own buffers are touched only through parameters.
        if !end.synced {
            for (buffer, pending) in before.buffers.iter().filter(|(b, _)| theirs(*b)) {
                after.note(buffer, [pending]);
            }
        }
        for (param, arg) in &call.buffers {
            after.note(*arg, end.buffers.of(*param));
        }
        // A caller's part of a segment grows where a callee's was.
        let popped = after.popped.clone();
        for segment in program.all_segments() {
            after.note(segment, &popped);
        }
        after
    }

    /// The state after concurrent calls. Synchronisations inside a team mean nothing outside. All
    /// earlier accesses are visible, but for the reads of arguments.
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
            after.join_fork(&touched, self.effects.has_frames(call));
        }
        // Each team reads its own arguments.
        for (buffer, pending) in before.buffers.iter() {
            after.note(buffer, [pending]);
        }
        match returns {
            true => after,
            false => State {
                synced: true,
                ..State::default()
            },
        }
    }

    /// Joins the previous ends: otherwise a procedure that gains synchronisations could make the
    /// iteration oscillate.
    pub(super) fn with_ends_of(mut self, before: &Known) -> Known {
        for (id, end) in &before.ends {
            let joined = self.ends.get(id).map_or(end.clone(), |e| e.join(end));
            self.ends.insert(*id, joined);
        }
        self
    }
}
