//! Writes places at which a program ends because it needs memory that a running program cannot commit, and goes on there
//! when it is launched again.
//!
//! All units find the same bytes missing. They meet, so that no work of another unit is left undone, unit 0 keeps the
//! variables, and the launch ends. The next one takes the variables over and jumps behind the place. Where units may have
//! variables of their own (in teams), and where a jump would pass by the definition of a name, the next launch begins anew:
//! programs only read their inputs.

use std::collections::BTreeSet;

use heddle_ir::Entity;
use heddle_uprogram::program::{Buffer, BufferKind, LocalKind, ProcedureId, Stmt, for_each_stmt};

use crate::calls::used;
use crate::program::Writer;
use crate::scalar::name;

/// The places written so far.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    places: usize,
    /// Names defined so far in the scopes around.
    pub(crate) names: usize,
}

impl Writer<'_> {
    /// Word of the launch table with the offset of the kept variables, if the program may leave.
    fn left(&self) -> Option<usize> {
        (!self.dialect.commits)
            .then_some(self.layout.left)
            .flatten()
    }

    /// The type of the variables that are kept.
    pub(crate) fn left_type(&mut self) {
        if self.left().is_none() {
            return;
        }
        self.text
            .line("/* What is kept between two launches of a run. */");
        self.text.line("struct heddle_left {");
        for (ty, name) in self.kept_between_launches() {
            self.text.line(format!("{ty}{name};"));
        }
        self.text.line("};");
        let bytes = heddle_uprogram::layout::left_bytes(self.program);
        self.text.line(format!(
            "HEDDLE_ASSERT(sizeof(struct heddle_left) <= {bytes}, \"planned so\");"
        ));
        self.text.line("");
    }

    /// Types and names of the variables that change.
    fn kept_between_launches(&self) -> Vec<(String, String)> {
        let mut kept = vec![];
        for (id, data) in self.program.locals.iter() {
            if data.kind == LocalKind::Variable {
                let ty = (self.dialect.type_name)(data.dtype);
                kept.push((format!("{ty} "), name(id)));
            }
        }
        let moving = self.moving_buffers();
        for &id in &moving {
            let ty = self.dialect.stored(self.program.buffers[id].dtype);
            kept.push((format!("{ty} *"), format!("b{}", id.index())));
        }
        let bits = 0..self.pairs.bits;
        kept.extend(bits.map(|bit| ("int32_t ".into(), format!("swapped{bit}"))));
        let segments = moving.into_iter().filter(|id| self.is_in_parts(*id));
        kept.extend(segments.map(|id| ("int64_t ".into(), used(id))));
        if self.layout.stack.is_some() {
            kept.push(("int64_t ".into(), "depth".into()));
            kept.push(("uint8_t *".into(), "frame".into()));
            kept.push(("int32_t ".into(), "back".into()));
        }
        kept
    }

    /// Buffers whose memory changes while the program runs, except swapped pairs.
    pub(crate) fn moving_buffers(&self) -> BTreeSet<Buffer> {
        let mut moving = BTreeSet::new();
        let mut swapped = |stmt: &Stmt| {
            if let Stmt::Swap(a, b) = stmt
                && self.pairs.get(*a).is_none()
            {
                moving.extend([*a, *b]);
            }
        };
        for_each_stmt(&self.program.body, &mut swapped);
        for (_, procedure) in self.program.procedures.iter() {
            for_each_stmt(&procedure.body, &mut swapped);
        }
        let own = self.program.buffers.keys();
        moving.extend(own.filter(|&id| self.in_frames(id) || self.is_in_parts(id)));
        moving
    }

    /// True for the segments of which each activation of a procedure has a part.
    fn is_in_parts(&self, id: Buffer) -> bool {
        let data = &self.program.buffers[id];
        matches!(data.kind, BufferKind::Segment) && data.procedure.is_some()
    }

    /// Behind the variables' definitions.
    pub(crate) fn resume(&mut self) {
        if self.left().is_some() {
            self.text.line(
                "int64_t lacking = 0, left_at = 0; /* bytes, and where the program goes on */",
            );
            self.text.line("uint32_t lacking_site = 0;");
            self.text.line("const void *lacking_place = 0;");
            self.text
                .line("(void)lacking, (void)left_at, (void)lacking_site, (void)lacking_place;");
            self.text.line("if (env->sync->point) goto resume;");
        }
    }

    /// Statements in a scope of their own, so that jumps do not pass by the names that they define.
    pub(crate) fn scoped_block(&mut self, stmts: &[Stmt], of: Option<ProcedureId>) {
        let braces = self.left().is_some();
        if braces {
            self.text.line("{");
        }
        self.block(stmts, of);
        if braces {
            self.text.line("}");
        }
    }

    /// Behind everything: keeps the variables and ends the launch; and takes over those of the last launch, and goes on where it left.
    pub(crate) fn leaves_and_resumes(&mut self) {
        let (Some(word), Some(lanes)) = (self.left(), &self.dialect.lanes) else {
            return;
        };
        let kept = self.kept_between_launches();
        if self.leaving.places > 0 {
            self.text.line("");
            self.text.line("leave:;");
            self.text
                .line(format!("if (worker == 0 && {} == 0) {{", lanes.index));
            let values: Vec<_> = kept.iter().map(|(_, name)| name.as_str()).collect();
            self.text.line(format!(
                "const struct heddle_left left = {{{}}};",
                values.join(", ")
            ));
            self.text.line(format!(
                "*(struct heddle_left *)(env->scratch + env->table[{word}]) = left;"
            ));
            self.text.line("}");
            self.move_levels(|level| format!("deep[{level}] = heddle_stack[{level}];"));
            self.text.line(self.dialect.sync);
            self.text
                .line("return heddle_leave(env, lacking_site, left_at, lacking_place, lacking);");
        }
        self.text.line("");
        self.text.line("resume:;");
        self.text.line("{");
        self.text.line(format!(
            "const struct heddle_left *left = (const struct heddle_left *)(env->scratch + env->table[{word}]);"
        ));
        self.text.line("(void)left;");
        for (_, name) in kept {
            self.text.line(format!("{name} = left->{name};"));
        }
        // Stacks are each unit's own, and equally deep.
        if self.layout.stack.is_some() {
            self.move_levels(|level| format!("heddle_stack[{level}] = deep[{level}];"));
            self.text.line("top = heddle_level(depth);");
            self.text.line(self.dialect.unit_sync);
        }
        self.text.line("}");
        self.text.line("switch (env->sync->point) {");
        for number in 1..=self.leaving.places {
            self.text.line(format!("case {number}: goto left{number};"));
        }
        self.text
            .line("default: return heddle_fail(env, HEDDLE_SEGMENT, 0, 0, 0);");
        self.text.line("}");
    }

    /// For each level of a unit's stack in shared memory that is in use.
    fn move_levels(&mut self, line: impl Fn(&str) -> String) {
        let (levels, lanes) = (self.shared_levels(), self.dialect.lanes.as_ref());
        if let Some(lanes) = lanes.filter(|_| levels > 0) {
            let (index, count) = (lanes.index, lanes.count);
            self.text.line(self.dialect.unit_sync);
            self.text.line(format!(
                "for (int64_t level = {index}; level < depth - 1 && level < {levels}; level += {count}) {{"
            ));
            self.text.line(line("level"));
            self.text.line("}");
        }
    }

    /// Ensures that bytes of a segment from `place` on can be written. Gives the number of the place at which the program
    /// goes on, whose [label](Writer::left_label) belongs behind the scope.
    pub(crate) fn commit(
        &mut self,
        site: u32,
        place: &str,
        bytes: &str,
        of: Option<ProcedureId>,
    ) -> Option<usize> {
        let in_team = of.is_some_and(|p| self.layout.calls.in_teams.contains(&p));
        if self.left().is_none() || in_team || self.leaving.names > 0 {
            self.text.line(format!(
                "HEDDLE_TRY(heddle_grow(env, {site}, {place}, {bytes}));"
            ));
            return None;
        }
        self.leaving.places += 1;
        let number = self.leaving.places;
        self.text
            .line(format!("if (heddle_lacks(env, {place}, {bytes})) {{"));
        self.text.line(format!(
            "left_at = {number}, lacking_site = {site}, lacking_place = {place}, lacking = {bytes};"
        ));
        self.text.line("goto leave;");
        self.text.line("}");
        Some(number)
    }

    /// The label at which the program goes on.
    pub(crate) fn left_label(&mut self, number: Option<usize>) {
        if let Some(number) = number {
            self.text.line(format!("left{number}:;"));
        }
    }
}
