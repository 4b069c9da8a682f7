//! Writes procedures: labels in the one function that every unit runs, and an explicit stack.
//!
//! A call saves the live values on the unit's own stack, assigns the parameters, pushes the return
//! address and jumps to the procedure's label. Buffers of an activation lie in its frame: all
//! units' frame pointers move alike.
//!
//! On units with lanes, one lane writes the stack, whose first levels are in shared memory; the deeper ones are in the units' own global memory,
//! as all are while no kernel runs. Every call polls, and every return begins with a barrier of the lanes: so all lanes have read a level before
//! it is written again, and find it written where they read.
//!
//! At a fork each unit jumps to the call of its team. The first team continues in the frame memory
//! of the whole team; the others use that of their first units.

use heddle_ir::Entity;
use heddle_uprogram::layout::Stack;
use heddle_uprogram::program::{Buffer, Call, CallId, ProcedureId};

use crate::program::Writer;
use crate::scalar::{bare, name};
use crate::text::plain;

/// Bytes of shared memory for the first levels of a unit's stack. The rest of a block's static shared memory is that of tiles.
const SHARED_LEVELS: usize = 4096;

/// The variable for the bytes that an activation uses of a segment of its procedure.
pub(crate) fn used(segment: Buffer) -> String {
    format!("used{}", segment.index())
}

/// One of the calls of a fork.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) number: usize,
    pub(crate) of_all: usize,
}

/// The variables that describe a team.
const TEAM: [&str; 4] = ["first", "worker", "workers", "frame"];

impl Writer<'_> {
    /// The types of saved values.
    pub(crate) fn kept(&mut self) {
        if self.program.procedures.is_empty() {
            return;
        }
        self.text.line("/* What a unit keeps over a call. */");
        self.text.line("union heddle_kept {");
        let ids: Vec<_> = self.layout.calls.to.values().flatten().copied().collect();
        for id in ids {
            self.text.line("struct {");
            self.text.line("int32_t back;");
            if self.layout.calls.parts.contains(&id) {
                self.text.line("int32_t first, worker, workers;");
                self.text.line("uint8_t *frame;");
            }
            let kept = self.layout.calls.kept.get(&id).cloned().unwrap_or_default();
            for local in kept.locals {
                let ty = (self.dialect.type_name)(self.program.locals[local].dtype);
                self.text.line(format!("{ty} {};", name(local)));
            }
            for buffer in kept.buffers {
                let ty = self.dialect.stored(self.program.buffers[buffer].dtype);
                self.text.line(format!("{ty} *b{};", buffer.index()));
            }
            let callee = self.program.calls[id].procedure;
            for segment in self.program.segments(callee) {
                self.text.line(format!("int64_t {};", used(segment)));
            }
            self.text
                .line(format!("}} c{};", self.layout.calls.places[&id]));
        }
        self.text.line("};");
        if let Some(Stack {
            kept: bytes @ 1.., ..
        }) = self.layout.stack
        {
            self.text.line(format!(
                "HEDDLE_ASSERT(sizeof(union heddle_kept) == {bytes}, \"planned so\");"
            ));
        }
        self.text.line("");
    }

    /// The unit's stack, and the base of the frames.
    pub(crate) fn stack(&mut self) {
        let Some(Stack {
            base, units, unit, ..
        }) = self.layout.stack
        else {
            return;
        };
        self.text.line("int32_t back = 0;");
        self.text.line("int64_t depth = 1;");
        self.text.line(format!(
            "uint8_t *frame = env->scratch + env->table[{base}];"
        ));
        let own = format!(
            "(union heddle_kept *)(env->scratch + env->table[{units}] + {} * env->table[{unit}])",
            self.own()
        );
        if self.dialect.lanes.is_some() {
            self.text
                .line(format!("union heddle_kept *const deep = {own};"));
            let levels = self.shared_levels();
            if levels > 0 {
                self.text.line(format!(
                    "HEDDLE_SHARED(union heddle_kept, heddle_stack, {levels});"
                ));
                self.text.line(format!(
                    "#define heddle_level(depth) ((depth) <= {levels} ? &heddle_stack[(depth) - 1] : deep + (depth) - 1)"
                ));
            } else {
                self.text
                    .line("#define heddle_level(depth) (deep + (depth) - 1)");
            }
            self.text
                .line("union heddle_kept *top = heddle_level(depth);");
        } else {
            self.text.line(format!("union heddle_kept *top = {own};"));
        }
        if !self.layout.calls.parts.is_empty() {
            self.text
                .line("int32_t first = 0; /* unit of the team, whose numbers begin there */");
            self.text.line("(void)first;");
        }
    }

    /// Levels of a unit's stack in shared memory.
    pub(crate) fn shared_levels(&self) -> usize {
        let kept = self.layout.stack.as_ref().map_or(0, |stack| stack.kept);
        match self.dialect.lanes {
            Some(_) if kept > 0 => SHARED_LEVELS / kept as usize,
            _ => 0,
        }
    }

    /// A call from a procedure or from the main program; `part` if it belongs to a fork.
    pub(crate) fn call(&mut self, id: CallId, from: Option<ProcedureId>, part: Option<Part>) {
        let call = &self.program.calls[id];
        let site = self.site(&call.name);
        let k = self.layout.calls.places[&id];
        let kept = self.layout.calls.kept.get(&id).cloned().unwrap_or_default();
        let names: Vec<_> = kept
            .locals
            .iter()
            .map(|&l| name(l))
            .chain(kept.buffers.iter().map(|b| format!("b{}", b.index())))
            .chain(self.program.segments(call.procedure).map(used))
            .collect();
        let stack = self.layout.stack.as_ref();
        let frame = from.and_then(|p| Some(format!("env->table[{}]", stack?.frames[&p])));
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
        self.arguments(call, site);
        let lanes = self.dialect.lanes.as_ref();
        if let Some(lanes) = lanes {
            self.text.line(format!("if ({} == 0) {{", lanes.index));
        }
        self.keep(k, "back");
        names.iter().for_each(|name| self.keep(k, name));
        if part.is_some() {
            TEAM.iter().for_each(|name| self.keep(k, name));
        }
        if lanes.is_some() {
            self.text.line("}");
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
            self.text.line("const int32_t was_first = first;");
            self.text
                .line(format!("heddle_part(&first, &worker, &workers, {part});"));
            if let Some(Stack { teams, team, .. }) = stack {
                self.text.line(format!(
                    "if (first != was_first) frame = env->scratch + env->table[{teams}] + (first - 1) * env->table[{team}];"
                ));
            }
        }
        self.text.line(match lanes {
            None => format!("top++, depth++, back = {k};"),
            Some(_) => format!("depth++, back = {k}, top = heddle_level(depth);"),
        });
        self.text
            .line(format!("goto proc{};", call.procedure.index()));
        self.text.line("}");
        self.text.line(format!("back{k}:;"));
        if lanes.is_some() {
            self.text.line("depth--, top = heddle_level(depth);");
            self.text.line(self.dialect.unit_sync);
        } else {
            self.text.line("top--, depth--;");
        }
        if part.is_some() {
            TEAM.iter().for_each(|name| self.take_back(k, name));
        } else if let Some(frame) = &frame {
            self.text.line(format!("frame -= {frame};"));
        }
        self.take_back(k, "back");
        names.iter().for_each(|name| self.take_back(k, name));
        if part.is_some() {
            self.text.line("}");
        }
    }

    /// Saves a variable over a call.
    fn keep(&mut self, k: usize, name: &str) {
        self.text.line(format!("top->c{k}.{name} = {name};"));
    }

    /// Takes it back.
    fn take_back(&mut self, k: usize, name: &str) {
        self.text.line(format!("{name} = top->c{k}.{name};"));
    }

    /// Evaluates the arguments of a call into `a0`, `a1`, …, and its buffers into `p0`, `p1`, ….
    fn arguments(&mut self, call: &Call, site: u32) {
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
    }

    /// Begins an activation's parts of segments, behind the earlier ones'. Elements that are masked
    /// out are loaded from the beginning.
    fn enter_segments(&mut self, id: ProcedureId) {
        let segments: Vec<_> = self.program.segments(id).collect();
        for segment in segments {
            let data = &self.program.buffers[segment];
            let (b, used) = (segment.index(), used(segment));
            let ty = self.dialect.stored(data.dtype);
            let site = self.site(&data.name);
            self.text.line(format!(
                "b{b} = ({ty} *)((uint8_t *)b{b} + ({used} + 63) / 64 * 64);"
            ));
            self.text.line(format!("{used} = 0;"));
            let place = self.commit(site, &format!("b{b}"), "64", Some(id));
            self.left_label(place);
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
                let word = self.layout.offsets[&buffer];
                let ty = self.dialect.stored(self.program.buffers[buffer].dtype);
                self.text.line(format!(
                    "b{} = ({ty} *)(frame + env->table[{word}]);",
                    buffer.index()
                ));
            }
            self.enter_segments(id);
            self.scoped_block(&procedure.body, Some(id));
            let calls = self.layout.calls.to.get(&id).cloned().unwrap_or_default();
            let Some((last, rest)) = calls.split_last() else {
                continue;
            };
            self.text.line("switch (back) {");
            for call in rest {
                let k = self.layout.calls.places[call];
                self.text.line(format!("case {k}: goto back{k};"));
            }
            self.text.line(format!(
                "default: goto back{};",
                self.layout.calls.places[last]
            ));
            self.text.line("}");
        }
    }
}
