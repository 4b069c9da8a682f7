//! Side effects of calls on their callers' memory.

use std::collections::{BTreeMap, BTreeSet};

use heddle_uprogram::live::Names;
use heddle_uprogram::program::{
    Buffer, BufferKind, Call, OperatorId, ProcedureId, Stmt, UProgram, for_each_stmt,
};

/// Touched buffers; true if written.
pub(super) type Touched = BTreeMap<Buffer, bool>;

/// Buffers that each procedure touches, transitively, by its own names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Effects {
    procedures: BTreeMap<ProcedureId, Touched>,
    /// Procedures that have a frame, or call one that has.
    framed: BTreeSet<ProcedureId>,
}

impl Effects {
    pub(super) fn new(program: &UProgram) -> Self {
        let mut effects = Self::default();
        for (id, procedure) in program.procedures.iter() {
            let mut touched = Touched::new();
            for_each_stmt(&procedure.body, &mut |stmt| {
                add(&mut touched, &touched_by(program, stmt));
            });
            effects.procedures.insert(id, touched);
            let closure = program.callees(id).into_iter().chain([id]);
            let has_frame = |p: ProcedureId| program.memory(p).next().is_some();
            if closure.into_iter().any(has_frame) {
                effects.framed.insert(id);
            }
        }
        loop {
            let before = effects.procedures.clone();
            for (id, procedure) in program.procedures.iter() {
                let mut touched = before[&id].clone();
                for_each_stmt(&procedure.body, &mut |stmt| {
                    for call in stmt.calls() {
                        add(&mut touched, &effects.of(program, &program.calls[*call]));
                    }
                    // Swapped names alias.
                    if let Stmt::Swap(a, b) = stmt {
                        let both = [*a, *b].map(|x| touched.get(&x).copied());
                        if let Some(write) = both.into_iter().flatten().reduce(|x, y| x | y) {
                            touched.extend([(*a, write), (*b, write)]);
                        }
                    }
                });
                effects.procedures.insert(id, touched);
            }
            if effects.procedures == before {
                return effects;
            }
        }
    }

    /// Buffers that a call touches, by its caller's names.
    pub(super) fn of(&self, program: &UProgram, call: &Call) -> Touched {
        let mut touched = Touched::new();
        for (&buffer, &write) in &self.procedures[&call.procedure] {
            let data = &program.buffers[buffer];
            match data.kind {
                BufferKind::Scratch if data.procedure == Some(call.procedure) => {}
                BufferKind::Param if data.procedure == Some(call.procedure) => {
                    let args = call.buffers.iter().filter(|(param, _)| *param == buffer);
                    let args: Touched = args.map(|(_, arg)| (*arg, write)).collect();
                    add(&mut touched, &args);
                }
                _ => add(&mut touched, &Touched::from([(buffer, write)])),
            }
        }
        touched
    }

    /// True if a call uses frames, whose memory others reuse afterwards.
    pub(super) fn has_frames(&self, call: &Call) -> bool {
        self.framed.contains(&call.procedure)
    }
}

/// Buffers that a statement touches, without its callees.
pub(super) fn touched_by(program: &UProgram, stmt: &Stmt) -> Touched {
    let mut names = Names::default();
    names.used_by(program, stmt);
    let seen = |b: &Buffer| program.buffers[*b].kind.is_written();
    let named = names.buffers.into_iter().filter(seen);
    let mut touched: Touched = named.map(|b| (b, false)).collect();
    if let Stmt::Run(id) = stmt {
        touched.insert(stored(program, *id), true);
    }
    touched
}

/// True if the two may neither be reordered nor run concurrently.
pub(super) fn conflict(a: &Touched, b: &Touched) -> bool {
    a.iter()
        .any(|(buffer, write)| b.get(buffer).is_some_and(|other| *write || *other))
}

fn stored(program: &UProgram, id: OperatorId) -> Buffer {
    program.operators[id].body.store().buffer
}

fn add(touched: &mut Touched, more: &Touched) {
    for (&buffer, &write) in more {
        *touched.entry(buffer).or_default() |= write;
    }
}
