//! Writes procedures: labels in the one function that every unit runs, and a stack that the program keeps itself.
//!
//! A call saves what the caller looks at afterwards in the unit's own stack, sets the parameters, notes where to come back to and
//! goes to the procedure's label. Buffers of an activation lie in its frame: all units' frame pointers move alike.
//!
//! At a fork each unit goes to the call of its part of the team. The first part goes on where the frames of all were; the others
//! have theirs in memory of their first units.
//!
//! The table has, after the offsets of buffers, the bytes of each procedure's frame, the offset of the frames, the offset of those
//! of teams that do not begin with unit 0, the bytes of one team's, the offset of the units' stacks, and the bytes of
//! one unit's stack.

use std::collections::{BTreeMap, BTreeSet};

use heddle_ir::Entity;
use heddle_uprogram::UProgram;
use heddle_uprogram::live::Names;
use heddle_uprogram::program::{CallId, ProcedureId, Stmt, for_each_stmt};

use crate::program::Writer;
use crate::scalar::{bare, name};
use crate::text::plain;

/// What is known of a program's calls.
pub(crate) struct Calls {
    kept: BTreeMap<CallId, Names>,
    /// Calls by procedure that they are of.
    to: BTreeMap<ProcedureId, Vec<CallId>>,
    /// Calls that stand in forks.
    parts: BTreeSet<CallId>,
    /// Procedures that teams may be in.
    pub(crate) in_teams: BTreeSet<ProcedureId>,
}

/// One of the calls of a fork.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) number: usize,
    pub(crate) of_all: usize,
}

impl Calls {
    pub(crate) fn new(program: &UProgram) -> Calls {
        let mut to: BTreeMap<ProcedureId, Vec<CallId>> = BTreeMap::new();
        let mut parts = BTreeSet::new();
        let bodies = program.procedures.iter().map(|(_, p)| &p.body);
        for body in bodies.chain([&program.body]) {
            for_each_stmt(body, &mut |stmt| {
                for id in stmt.calls() {
                    to.entry(program.calls[*id].procedure)
                        .or_default()
                        .push(*id);
                    if matches!(stmt, Stmt::Fork(_)) {
                        parts.insert(*id);
                    }
                }
            });
        }
        Calls {
            kept: heddle_uprogram::kept_over_calls(program),
            to,
            in_teams: in_teams(program, &parts),
            parts,
        }
    }

    /// Words of the table.
    pub(crate) fn words(&self, program: &UProgram) -> usize {
        match program.procedures.is_empty() {
            true => 0,
            false => program.procedures.len() + 5,
        }
    }
}

/// The procedures that these calls are of, and all that those call.
fn in_teams(program: &UProgram, parts: &BTreeSet<CallId>) -> BTreeSet<ProcedureId> {
    let called = parts.iter().map(|id| program.calls[*id].procedure);
    let called: BTreeSet<_> = called.collect();
    let inner = called.iter().flat_map(|id| program.callees(*id));
    inner.chain(called.iter().copied()).collect()
}

/// What says where a team is.
const TEAM: [&str; 4] = ["first", "worker", "workers", "frame"];

impl Writer<'_> {
    /// The types of what units save.
    pub(crate) fn kept(&mut self) {
        if self.program.procedures.is_empty() {
            return;
        }
        self.text.line("/* What a unit keeps over a call. */");
        self.text.line("union heddle_kept {");
        let ids: Vec<_> = self.calls.to.values().flatten().copied().collect();
        for id in ids {
            self.text.line("struct {");
            self.text.line("int32_t back;");
            if self.calls.parts.contains(&id) {
                self.text.line("int32_t first, worker, workers;");
                self.text.line("uint8_t *frame;");
            }
            let kept = self.calls.kept.get(&id).cloned().unwrap_or_default();
            for local in kept.locals {
                let ty = (self.dialect.type_name)(self.program.locals[local].dtype);
                self.text.line(format!("{ty} {};", name(local)));
            }
            for buffer in kept.buffers {
                let ty = self.dialect.stored(self.program.buffers[buffer].dtype);
                self.text.line(format!("{ty} *b{};", buffer.index()));
            }
            self.text.line(format!("}} c{};", id.index()));
        }
        self.text.line("};");
        self.text.line("");
    }

    /// Plans frames and stacks: as many as the depth limit allows.
    pub(crate) fn plan_calls(&mut self) {
        if self.program.procedures.is_empty() {
            return;
        }
        let first = self.call_words();
        let count = self.program.procedures.len();
        self.text
            .line("int64_t largest = 0, team_largest = 0, team = 0, stack = 0;");
        for id in self.program.procedures.keys() {
            let title = plain(&self.program.procedures[id].name);
            self.text.line(format!("bytes = 0; /* frame of {title} */"));
            let frame: Vec<_> = self.program.frame(id).collect();
            for buffer in frame {
                let word = self.word(buffer);
                self.text.line(format!("table[{word}] = bytes;"));
                self.reserve("bytes", buffer);
            }
            self.text.line("if (bytes < 0) return -1;");
            let word = first + id.index();
            self.text.line(format!("table[{word}] = bytes;"));
            let mut maxima = vec!["largest"];
            if self.calls.in_teams.contains(&id) {
                maxima.push("team_largest");
            }
            for max in maxima {
                self.text
                    .line(format!("{max} = bytes > {max} ? bytes : {max};"));
            }
        }
        let sizes = self.program.sizes.len();
        let (workers, depth) = (format!("sizes[{sizes}]"), format!("sizes[{}]", sizes + 1));
        let word = first + count;
        self.text.line(format!("table[{word}] = total;"));
        self.text
            .line(format!("heddle_reserve(&total, {depth}, largest);"));
        self.text
            .line(format!("heddle_reserve(&team, {depth}, team_largest);"));
        self.text.line("if (team < 0) return -1;");
        self.text.line(format!("table[{}] = total;", word + 1));
        self.text.line(format!("table[{}] = team;", word + 2));
        self.text
            .line(format!("heddle_reserve(&total, {workers} - 1, team);"));
        self.text.line(format!(
            "heddle_reserve(&stack, {depth}, sizeof(union heddle_kept));"
        ));
        self.text.line("if (stack < 0) return -1;");
        self.text.line(format!("table[{}] = total;", word + 3));
        self.text.line(format!("table[{}] = stack;", word + 4));
        self.text
            .line(format!("heddle_reserve(&total, {workers}, stack);"));
    }

    /// The unit's stack, and where frames begin.
    pub(crate) fn stack(&mut self) {
        if self.program.procedures.is_empty() {
            return;
        }
        let word = self.call_words() + self.program.procedures.len();
        self.text.line("int32_t back = 0;");
        self.text.line("int64_t depth = 1;");
        self.text.line(format!(
            "uint8_t *frame = env->scratch + env->table[{word}];"
        ));
        self.text.line(format!(
            "union heddle_kept *top = (union heddle_kept *)(env->scratch + env->table[{}] + worker * env->table[{}]);",
            word + 3,
            word + 4
        ));
        if !self.calls.parts.is_empty() {
            self.text
                .line("int32_t first = 0; /* unit of the team, whose numbers begin there */");
            self.text.line("(void)first;");
        }
    }

    /// A call of a procedure from another one, or from the program; which part of a fork it is, if it is.
    pub(crate) fn call(&mut self, id: CallId, from: Option<ProcedureId>, part: Option<Part>) {
        let call = &self.program.calls[id];
        let site = self.site(&call.name);
        let k = id.index();
        let kept = self.calls.kept.get(&id).cloned().unwrap_or_default();
        let names: Vec<_> = kept
            .locals
            .iter()
            .map(|&l| name(l))
            .chain(kept.buffers.iter().map(|b| format!("b{}", b.index())))
            .collect();
        let frame = from.map(|p| format!("env->table[{}]", self.call_words() + p.index()));
        self.text.line(format!("/* {} */", plain(&call.name)));
        let part = part.map(|p| format!("{}, {}", p.number, p.of_all));
        if let Some(part) = &part {
            self.text.line(format!(
                "if (heddle_takes_part(worker, workers, {part})) {{"
            ));
        }
        self.text
            .line(format!("HEDDLE_TRY(heddle_depth(env, {site}, depth + 1));"));
        self.text.line("{");
        for (i, &(local, value)) in call.lets.iter().enumerate() {
            let ty = (self.dialect.type_name)(self.program.locals[local].dtype);
            self.text.line(format!("{ty} a{i};"));
            self.text.line("{");
            let value = self.expr(value, site);
            self.text.line(format!("a{i} = {};", bare(&value)));
            self.text.line("}");
        }
        for (i, (param, arg)) in call.buffers.iter().enumerate() {
            let ty = self.dialect.stored(self.program.buffers[*param].dtype);
            self.text
                .line(format!("{ty} *p{i} = ({ty} *)b{};", arg.index()));
        }
        self.text.line(format!("top->c{k}.back = back;"));
        for name in &names {
            self.text.line(format!("top->c{k}.{name} = {name};"));
        }
        if part.is_some() {
            for name in TEAM {
                self.text.line(format!("top->c{k}.{name} = {name};"));
            }
        }
        for (i, (local, _)) in call.lets.iter().enumerate() {
            self.text.line(format!("{} = a{i};", name(*local)));
        }
        for (i, (param, _)) in call.buffers.iter().enumerate() {
            self.text.line(format!("b{} = p{i};", param.index()));
        }
        if let Some(frame) = &frame {
            self.text.line(format!("frame += {frame};"));
        }
        if let Some(part) = &part {
            self.text
                .line(format!("heddle_part(&first, &worker, &workers, {part});"));
            let word = self.call_words() + self.program.procedures.len();
            self.text.line(format!(
                "if (first != top->c{k}.first) frame = env->scratch + env->table[{}] + (first - 1) * env->table[{}];",
                word + 1,
                word + 2
            ));
        }
        self.text.line(format!("top++, depth++, back = {k};"));
        self.text
            .line(format!("goto proc{};", call.procedure.index()));
        self.text.line("}");
        self.text.line(format!("back{k}:;"));
        self.text.line("top--, depth--;");
        if part.is_some() {
            for name in TEAM {
                self.text.line(format!("{name} = top->c{k}.{name};"));
            }
        } else if let Some(frame) = &frame {
            self.text.line(format!("frame -= {frame};"));
        }
        self.text.line(format!("back = top->c{k}.back;"));
        for name in &names {
            self.text.line(format!("{name} = top->c{k}.{name};"));
        }
        if part.is_some() {
            self.text.line("}");
        }
    }

    /// All procedures.
    pub(crate) fn procedures(&mut self) {
        for (id, procedure) in self.program.procedures.iter() {
            self.text.line("");
            self.text.line(format!("/* {} */", plain(&procedure.name)));
            self.text.line(format!("proc{}:;", id.index()));
            let frame: Vec<_> = self.program.frame(id).collect();
            for buffer in frame {
                let word = self.word(buffer);
                let ty = self.dialect.stored(self.program.buffers[buffer].dtype);
                self.text.line(format!(
                    "b{} = ({ty} *)(frame + env->table[{word}]);",
                    buffer.index()
                ));
            }
            self.block(&procedure.body, Some(id));
            let calls = self.calls.to.get(&id).cloned().unwrap_or_default();
            let Some((last, rest)) = calls.split_last() else {
                continue;
            };
            self.text.line("switch (back) {");
            for call in rest {
                let k = call.index();
                self.text.line(format!("case {k}: goto back{k};"));
            }
            self.text
                .line(format!("default: goto back{};", last.index()));
            self.text.line("}");
        }
    }
}
