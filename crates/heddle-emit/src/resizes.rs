//! Writes points at which the number of workers may change: the head of a loop of the main program.
//!
//! All workers have the same variables there. A worker that joins the run takes them over from the
//! others and jumps in front of the loop. Its own memory is that of its slot, whatever its number.

use std::collections::BTreeSet;

use heddle_ir::Entity;
use heddle_uprogram::UProgram;
use heddle_uprogram::program::{Buffer, LocalKind, Stmt, Sync, for_each_stmt};

use crate::program::Writer;
use crate::scalar::name;

/// The points of a program.
#[derive(Debug, Default)]
pub(crate) struct Resizes {
    count: usize,
    /// Those written so far.
    written: usize,
    /// Buffers of the main program whose memory changes.
    swapped: BTreeSet<Buffer>,
}

impl Resizes {
    pub(crate) fn of(program: &UProgram) -> Resizes {
        let mut found = Resizes::default();
        for_each_stmt(&program.body, &mut |stmt| match stmt {
            Stmt::Sync(Sync::Resize) => found.count += 1,
            Stmt::Swap(a, b) => found.swapped.extend([*a, *b]),
            _ => {}
        });
        found
    }
}

impl Writer<'_> {
    /// The number of the worker's own memory.
    pub(crate) fn own(&self) -> &'static str {
        match self.resizes.count {
            0 => "worker",
            _ => "slot",
        }
    }

    pub(crate) fn slot(&mut self) {
        if self.resizes.count > 0 {
            self.text
                .line("const int32_t slot = heddle_slot(env, worker);");
        }
    }

    /// The type of the variables at a point.
    pub(crate) fn state(&mut self) {
        if self.resizes.count == 0 {
            return;
        }
        self.text
            .line("/* The variables at a point at which workers may join. */");
        self.text.line("struct heddle_state {");
        self.text.line("uint64_t epoch, passed;");
        for (ty, name) in self.variables_kept() {
            self.text.line(format!("{ty}{name};"));
        }
        self.text.line("};");
        self.text.line("");
    }

    /// Types and names of the variables that change.
    fn variables_kept(&self) -> Vec<(String, String)> {
        let phase = self
            .has_pieces()
            .then(|| ("uint32_t ".into(), "phase".into()));
        let locals = self.program.locals.iter();
        let locals = locals.filter(|(_, data)| data.kind == LocalKind::Variable);
        let locals = locals.map(|(id, data)| {
            let ty = (self.dialect.type_name)(data.dtype);
            (format!("{ty} "), name(id))
        });
        let swapped = self.resizes.swapped.iter().map(|&id| {
            let ty = self.dialect.stored(self.program.buffers[id].dtype);
            (format!("{ty} *"), format!("b{}", id.index()))
        });
        locals.chain(swapped).chain(phase).collect()
    }

    /// The beginning of a worker that joins a run.
    pub(crate) fn join(&mut self) {
        if self.resizes.count == 0 {
            return;
        }
        self.text
            .line("uint64_t passed = 0; /* points at which the team may change */");
        self.text.line("if (worker < 0) {");
        self.text.line("HEDDLE_TRY(heddle_join(env, slot));");
        self.text.line(
            "const struct heddle_state *state = (const struct heddle_state *)heddle_state_of(env);",
        );
        self.text.line("epoch = state->epoch;");
        self.text.line("passed = state->passed;");
        for (_, name) in self.variables_kept() {
            self.text.line(format!("{name} = state->{name};"));
        }
        self.text
            .line("const uint32_t point = heddle_point_of(env);");
        // Whoever lent its variables goes when the run fails.
        self.text.line("HEDDLE_TRY(heddle_poll(env));");
        self.text.line("switch (point) {");
        for number in 0..self.resizes.count {
            self.text.line(format!("case {number}: goto join{number};"));
        }
        self.text.line("default: return HEDDLE_LEFT;");
        self.text.line("}");
        self.text.line("}");
    }

    /// In front of a loop: the point at its head, if there is one, which begins the iterations.
    pub(crate) fn enter(&mut self, iteration: &str, body: &[Stmt]) -> Option<usize> {
        let resizes = matches!(body.first(), Some(Stmt::Sync(Sync::Resize)));
        if !resizes || self.resizes.count == 0 {
            return None;
        }
        let number = self.resizes.written;
        self.resizes.written += 1;
        self.text.line(format!("{iteration} = 0;"));
        self.text.line(format!("join{number}:;"));
        Some(number)
    }

    /// The point itself.
    pub(crate) fn resize(&mut self, number: usize) {
        self.text
            .line("if (HEDDLE_UNLIKELY(worker < 0 || heddle_changes(env, worker, &passed))) {");
        let names = self.variables_kept().into_iter().map(|(_, name)| name);
        let values: Vec<_> = ["epoch", "passed"]
            .map(String::from)
            .into_iter()
            .chain(names)
            .collect();
        let values = values.join(", ");
        self.text
            .line(format!("const struct heddle_state state = {{{values}}};"));
        self.text.line(format!(
            "HEDDLE_TRY(heddle_gather(env, slot, &worker, &workers, passed, {number}, &state));"
        ));
        self.text.line("}");
    }
}
