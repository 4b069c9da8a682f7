//! Writes contractions: loops around the kernels of `prelude/contract.h`.

use std::collections::BTreeSet;

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Entity};
use heddle_uprogram::contract::{Access, Contract, FEW_ROWS, panel_width};
use heddle_uprogram::program::{Body, Buffer, Lanes, Local};
use heddle_uprogram::step::Step;
use heddle_uprogram::{Expr, ExprId, UProgram};

use crate::dialect::Dialect;
use crate::nest::{Level, unmerged};
use crate::operator::Writer;
use crate::peel::Loops;
use crate::ranges::Ranges;
use crate::scalar::{Scalars, Site, bare, combine, name};
use crate::text::Text;
use crate::windows::{longest_run, read_windows};

/// Writes the kernels for each type that the program contracts.
pub fn write_kernels(text: &mut Text, program: &UProgram, dialect: &Dialect) {
    let Some(kernels) = dialect.contract else {
        return;
    };
    let contracts = || {
        let bodies = program.operators.iter().map(|(_, op)| &op.body);
        bodies.filter_map(|body| match body {
            Body::Contract(c) => Some(c),
            _ => None,
        })
    };
    if contracts().any(|c| matches!(c.a.access, Access::Rows { .. })) {
        text.line("#define HEDDLE_ROWS_ANYWHERE");
    }
    for dtype in contracts().map(|c| c.dtype).collect::<BTreeSet<DType>>() {
        let (ty, t) = ((dialect.type_name)(dtype), dtype.name());
        text.line("");
        text.line(format!("#define HEDDLE_T {ty}"));
        text.line(format!("#define HEDDLE_NAME(name) heddle_##name##_{t}"));
        let longest = longest_run(program, dtype);
        begin_panels(text, ty, t);
        text.line(kernels.trim_end());
        text.line(BLOCKS.trim_end());
        if let Some(longest) = longest {
            text.line(format!("#define HEDDLE_ZEROS {longest}"));
            text.line(include_str!("prelude/windows.h").trim_end());
            text.line(WINDOW_BLOCKS.trim_end());
        }
        end_panels(text);
        let of_type = contracts().filter(|c| c.dtype == dtype);
        let stored = of_type.filter_map(|c| stored_weights(program, c));
        for stored in stored.collect::<BTreeSet<_>>() {
            let suffix = kernels_of(dtype, Some(stored));
            begin_panels(text, dialect.stored(stored), &suffix);
            text.line(include_str!("prelude/weights.h").trim_end());
            text.line(BLOCKS.trim_end());
            if longest.is_some() {
                text.line(WINDOW_BLOCKS.trim_end());
            }
            end_panels(text);
        }
        if longest.is_some() {
            text.line("#undef HEDDLE_ZEROS");
        }
        text.line("#undef HEDDLE_T");
        text.line("#undef HEDDLE_NAME");
    }
}

const BLOCKS: &str = include_str!("prelude/blocks.h");
const WINDOW_BLOCKS: &str = include_str!("prelude/window_blocks.h");

/// Defines the words of kernels that read panels of a type.
fn begin_panels(text: &mut Text, ty: &str, suffix: &str) {
    text.line(format!("#define HEDDLE_W {ty}"));
    text.line(format!("#define HEDDLE_OF(name) heddle_##name##_{suffix}"));
    text.line("#define HEDDLE_PLACES ((int)(sizeof(HEDDLE_T) / sizeof(HEDDLE_W)))");
}

fn end_panels(text: &mut Text) {
    for word in ["HEDDLE_W", "HEDDLE_OF", "HEDDLE_PLACES"] {
        text.line(format!("#undef {word}"));
    }
}

/// The suffix of kernels that compute in a type, and read panels that are stored in another.
fn kernels_of(dtype: DType, stored: Option<DType>) -> String {
    match stored {
        Some(stored) => format!("{}_{}", dtype.name(), stored.name()),
        None => dtype.name().into(),
    }
}

/// The type of a second operand's panels, if a kernel widens it.
fn stored_weights(program: &UProgram, c: &Contract) -> Option<DType> {
    let Access::Panels { buffer, .. } = c.b.access else {
        return None;
    };
    let stored = program.buffers[buffer].dtype;
    (stored != c.dtype && c.tile > 1).then_some(stored)
}

impl<'a> Writer<'a> {
    /// A contraction.
    pub fn contract(&mut self, c: &Contract) {
        match (self.dialect.contract, self.op.lanes) {
            (Some(_), _) if c.tile > 1 => self.by_kernels(c),
            (None, Lanes::Tile(tile)) => self.by_tiles(c, tile),
            _ => self.by_points(c),
        }
    }

    /// Plain loops over points, where no kernel was selected.
    fn by_points(&mut self, c: &Contract) {
        let levels = 0..self.op.axes.len();
        let levels: Vec<_> = levels.map(|k| Level { first: k, last: k }).collect();
        let (ty, sum) = ((self.dialect.type_name)(c.dtype), name(c.sum));
        let k = name(c.depth.0);
        let mut s = Scalars::new(
            self.program,
            self.dialect,
            Site::Parameter,
            &[c.a.value, c.b.value],
        );
        let quads = self.quads(c);
        let resident = self.resident();
        match (&quads, &resident) {
            (Some(quads), _) => quads
                .iter()
                .for_each(|quad| s.know(quad.load, quad.number())),
            (None, Some((load, copy))) => s.know(*load, copy.clone()),
            (None, None) => {}
        }
        self.open(&levels, &mut s, &[], &[]);
        // The last part of the depth axis may be smaller.
        let depth = self.size(c.depth.1);
        self.text.line(format!("{ty} {sum} = 0;"));
        match &quads {
            // The four places of each are written out, and what is computed for each of them.
            Some(quads) if quads.len() == 1 => self.rolled(),
            _ => self.rolled_in_part(),
        }
        match &quads {
            Some(quads) => self.open_quads(c, quads),
            None => self.text.line(match self.is_joined() {
                true => format!("for (int64_t {k} = member; {k} < {depth}; {k} += members) {{"),
                false => format!("for (int64_t {k} = 0; {k} < {depth}; {k}++) {{"),
            }),
        }
        let (a, b) = (s.write(self.text, c.a.value), s.write(self.text, c.b.value));
        let product = combine(self.dialect, BinaryOp::Mul, c.dtype, &a, &b);
        let next = combine(self.dialect, BinaryOp::Add, c.dtype, &sum, &product);
        self.text.line(format!("{sum} = {};", bare(&next)));
        self.text.line("}");
        if quads.is_some() {
            self.text.line("}");
        }
        let joined = combine(self.dialect, BinaryOp::Add, c.dtype, "a", "b");
        self.join(&sum, ty, &joined);
        self.open_store();
        let s = self.epilogue(c);
        self.store_finished(c, s);
        self.close_store();
        self.close(&levels);
    }

    /// The suffix of the kernels that read a contraction's second operand.
    pub(crate) fn kernels(&self, c: &Contract) -> String {
        kernels_of(c.dtype, stored_weights(self.program, c))
    }

    pub(crate) fn epilogue(&self, c: &Contract) -> Scalars<'a> {
        let roots = [c.finish, c.store.offset];
        let mut s = Scalars::new(self.program, self.dialect, Site::Parameter, &roots);
        s.ranges = self.ranges(&[Loops {
            axes: &self.op.axes,
            levels: &unmerged(&self.op.axes),
        }]);
        s
    }

    /// The ranges of columns that the epilogue tells apart, each with the bounds of its loop over the places behind column `start`.
    pub(crate) fn columns_in_ranges(
        &self,
        c: &Contract,
        ranges: &Ranges,
        [from, to]: [&str; 2],
    ) -> Vec<(Ranges, [String; 2])> {
        let axes: Vec<_> = self
            .op
            .axes
            .iter()
            .filter(|a| a.0 == c.columns)
            .copied()
            .collect();
        let (levels, roots) = (unmerged(&axes), [c.finish, c.store.offset]);
        let [level] = levels[..] else {
            return vec![(ranges.clone(), [from, to].map(str::to_owned))];
        };
        let loops = Loops {
            axes: &axes,
            levels: &levels,
        };
        let mut cut = ranges.clone();
        self.cut(&mut cut, &[loops], Some(c.columns), &roots);
        let parts = self.parts((&axes, level), &roots, &cut, [from, to], " - start");
        parts
            .into_iter()
            .map(|part| (part.ranges, part.ends))
            .collect()
    }

    /// Stores the epilogue of a sum.
    pub(crate) fn store_finished(&mut self, c: &Contract, mut s: Scalars) {
        let value = s.write(self.text, c.finish);
        let offset = s.write(self.text, c.store.offset);
        self.store(c.store.buffer, &offset, &value);
    }

    /// By kernels.
    fn by_kernels(&mut self, c: &Contract) {
        let (ty, t) = ((self.dialect.type_name)(c.dtype), c.dtype.name());
        let [rows, columns] = self.rows_and_columns(c);
        self.open_products(c);
        let [a, b] = self.operands(c, ty);
        let all = columns.map_or("1".into(), |k| self.size(self.op.axes[k].1));
        let strided = matches!(c.b.access, Access::Strided { .. });
        let open = rows.is_some_and(|k| self.program.pool.as_int(self.op.axes[k].1).is_none());
        if let Some(windows) = read_windows(c) {
            self.by_windows(c, windows, ty, t);
        } else if strided && c.own.is_none() {
            self.by_rows(c, a, b, ty, t);
        } else if open && c.reads_vectors(&self.program.pool) {
            self.text
                .line(format!("if (last_row - first_row <= {FEW_ROWS}) {{"));
            self.by_rows(c, a.clone(), b.clone(), ty, t);
            self.text.line("} else {");
            self.by_panels(c, a, b, &all, ty, t);
            self.text.line("}");
        } else {
            self.by_panels(c, a, b, &all, ty, t);
        }
        self.close_products(c);
    }

    /// The positions of a contraction's rows and columns among the operator's axes.
    fn rows_and_columns(&self, c: &Contract) -> [Option<usize>; 2] {
        let position = |local: Local| self.op.axes.iter().position(|a| a.0 == local);
        [c.rows.and_then(position), position(c.columns)]
    }

    /// The other axes.
    fn batch(&self, c: &Contract) -> Vec<usize> {
        let product = self.rows_and_columns(c);
        let axes = 0..self.op.axes.len();
        axes.filter(|&k| !product.contains(&Some(k))).collect()
    }

    /// Opens the loops around a product of matrices, and declares its `depth` and the bounds of this unit's rows and columns.
    pub(crate) fn open_products(&mut self, c: &Contract) {
        for k in self.batch(c) {
            let (from, to) = self.bounds(k);
            let v = name(self.op.axes[k].0);
            self.rolled();
            self.text
                .line(format!("for (int64_t {v} = {from}; {v} < {to}; {v}++) {{"));
        }
        let one = || ("0".into(), "1".into());
        let [row_bounds, column_bounds] = self
            .rows_and_columns(c)
            .map(|axis| axis.map_or_else(one, |k| self.bounds(k)));
        let depth = self.size(c.depth.1);
        for (what, value) in [
            ("depth", &depth),
            ("first_row", &row_bounds.0),
            ("last_row", &row_bounds.1),
            ("first", &column_bounds.0),
            ("last", &column_bounds.1),
        ] {
            self.text
                .line(format!("const int64_t {what} = {};", bare(value)));
        }
        self.text
            .line("if (first < last && first_row < last_row) {");
    }

    /// Closes them.
    pub(crate) fn close_products(&mut self, c: &Contract) {
        let axes = 0..self.op.axes.len();
        let blocks = axes.filter(|&k| self.has_blocks(k)).count();
        (0..self.batch(c).len() + blocks + 1).for_each(|_| self.text.line("}"));
    }

    /// By rows, for an operand that is contiguous along columns or depth: some columns of a row at
    /// a time.
    fn by_rows(
        &mut self,
        c: &Contract,
        (a_row, a_step): (String, String),
        (b_column, b_step): (String, String),
        ty: &str,
        t: &str,
    ) {
        const SOME: i64 = 1024;
        self.text.line(format!(
            "for (int64_t start = first; start < last; start += {SOME}) {{"
        ));
        self.text.line(format!(
            "const int64_t count = last - start < {SOME} ? last - start : {SOME};"
        ));
        self.text
            .line("for (int64_t row = first_row; row < last_row; row++) {");
        self.poll();
        self.text
            .line(format!("{ty} tile[{SOME}] __attribute__((aligned(64)));"));
        if let Some(rows) = c.rows {
            self.text
                .line(format!("const int64_t {} = row;", name(rows)));
        }
        let a = match c.a.access {
            Access::Rows { at, .. } => {
                self.text.line("int64_t at;");
                self.text.line("{");
                self.first_of_row("at", at);
                self.text.line("}");
                "a + at".into()
            }
            _ => format!("a + row * {a_row}"),
        };
        self.text.line(match b_column.as_str() {
            "1" => {
                format!("heddle_over_{t}(count, depth, {a}, {a_step}, b + start, {b_step}, tile);")
            }
            _ => format!(
                "heddle_along_{t}(count, depth, {a}, b + start * {b_column}, {b_column}, tile);"
            ),
        });
        self.finish_row(c, ty, ["0", "count"], "c");
        self.text.line("}");
        self.text.line("}");
    }

    /// By panels: some panels of columns are applied to all rows of a block before the next ones.
    /// Panels packed by the kernel are packed in parts, and all rows use each part.
    fn by_panels(
        &mut self,
        c: &Contract,
        (a_row, a_step): (String, String),
        b: (String, String),
        all: &str,
        ty: &str,
        t: &str,
    ) {
        let width = panel_width(c.dtype);
        let kernels = self.kernels(c);
        self.text.line(format!(
            "const int64_t end = (last + {}) / {width};",
            width - 1
        ));
        // A part of the depth axis may cover only a run of each packed panel.
        let whole = match c.b.access {
            Access::Panels { depth, .. } if depth != c.depth.1 => self.size(depth),
            _ => "depth".into(),
        };
        let panels = match c.own {
            Some(own) => {
                self.text.line("const int64_t some = heddle_block(depth);");
                self.text.line(format!(
                    "for (int64_t next = first / {width}; next < end; next += some) {{"
                ));
                self.text
                    .line("const int64_t until = next + some < end ? next + some : end;");
                match c.b.access {
                    Access::Strided { .. } => self.pack_strided(own.index(), b, width, all, t),
                    _ => self.pack_computed(c, own.index(), width, all),
                }
                format!("b{} + (panel - next)", own.index())
            }
            None => {
                self.text.line(format!(
                    "const int64_t next = first / {width}, until = end;"
                ));
                "b + panel".into()
            }
        };
        let (most, at_most) = match c.rows {
            Some(_) => (
                format!("heddle_block_rows(last_row - first_row, depth * sizeof({ty}))"),
                "HEDDLE_BLOCK_ROWS",
            ),
            None => ("1".into(), "1"),
        };
        let out = self.direct_store(c);
        let epilogue_operand = match self.epilogue_operand(c) {
            Some(first) => format!("{first} + row * beside_row + start, beside_row"),
            None => "0, 0".into(),
        };
        self.text.line(format!("const int64_t most = {most};"));
        self.text
            .line("for (int64_t row = first_row; row < last_row; row += most) {");
        self.text
            .line("const int64_t rows = last_row - row < most ? last_row - row : most;");
        let (kernel, a) = match c.a.access {
            Access::Rows { at, .. } => {
                self.find_rows(c, at);
                ("block_of_rows", "at, rows, panels, depth, a".into())
            }
            _ => ("block", format!("rows, panels, depth, a + row * {a_row}")),
        };
        self.text
            .line("for (int64_t panel = next; panel < until; panel += HEDDLE_PANELS) {");
        self.poll();
        self.text.line(
            "const int64_t panels = until - panel < HEDDLE_PANELS ? until - panel : HEDDLE_PANELS;",
        );
        self.text.line(format!(
            "const int64_t start = panel * {width}, ahead = last - start;"
        ));
        let block = format!(
            "heddle_{kernel}_{kernels}({a}, {a_row}, {a_step}, {panels} * {width} * {whole}, {whole}"
        );
        if let Some(out) = &out {
            self.text.line(format!(
                "if (panels == HEDDLE_PANELS && first <= start && HEDDLE_PANELS * {width} <= ahead) {{"
            ));
            self.text.line(format!(
                "{block}, {out} + row * out_row + start, out_row, 0, 0);"
            ));
            self.text.line("continue;");
            self.text.line("}");
        }
        self.text.line(format!(
            "{ty} tile[{at_most} * HEDDLE_PANELS * {width}] __attribute__((aligned(64)));"
        ));
        self.text.line(format!(
            "{block}, tile, HEDDLE_PANELS * {width}, {epilogue_operand});"
        ));
        match self.turned_rows(c) {
            Some((rows, offsets)) => self.finish_columns(c, ty, (rows, &offsets)),
            None => self.finish(c, width, ty),
        }
        let loops = if c.own.is_some() { 3 } else { 2 };
        (0..loops).for_each(|_| self.text.line("}"));
    }

    /// Declares the first elements of a block's rows.
    fn find_rows(&mut self, c: &Contract, at: ExprId) {
        self.text.line("int64_t at[HEDDLE_BLOCK_ROWS];");
        self.text.line("for (int64_t r = 0; r < rows; r++) {");
        if let Some(rows) = c.rows {
            self.text
                .line(format!("const int64_t {} = row + r;", name(rows)));
        }
        self.first_of_row("at[r]", at);
        self.text.line("}");
    }

    /// Assigns the first element of a row.
    fn first_of_row(&mut self, to: &str, at: ExprId) {
        let mut s = Scalars::new(self.program, self.dialect, Site::Parameter, &[at]);
        let first = s.write(self.text, at);
        self.text.line(format!("{to} = {};", bare(&first)));
    }

    /// The destination of row and column 0, if sums are stored without epilogue and columns are
    /// contiguous; declares the row stride.
    fn direct_store(&mut self, c: &Contract) -> Option<String> {
        if self.program.pool[c.finish] != Expr::Local(c.sum) {
            return None;
        }
        self.rows_at(c, c.store.buffer, c.store.offset, "out")
    }

    /// The start of an array that the epilogue combines with the sums, if it has the same rows and
    /// columns: it is as large as the result, and prefetched. Declares its row stride.
    fn epilogue_operand(&mut self, c: &Contract) -> Option<String> {
        let program = self.program;
        let loads = program.pool.loads([c.finish]);
        loads.into_iter().find_map(|(buffer, offset)| {
            let alike = program.buffers[buffer].dtype.bits() == c.dtype.bits();
            let moves = Step::of(program, offset, c.rows?) != Some(Step::STILL);
            (alike && moves).then(|| self.rows_at(c, buffer, offset, "beside"))?
        })
    }

    /// The place of row and column 0 in an array with contiguous columns; declares its row stride.
    fn rows_at(&mut self, c: &Contract, buffer: Buffer, at: ExprId, what: &str) -> Option<String> {
        let step = |local| Step::of(self.program, at, local);
        let rows = c.rows.map(step);
        if rows == Some(None) || step(c.columns) != Some(Step::by(1)) {
            return None;
        }
        let locals = [c.rows, Some(c.columns)];
        for (place, row) in [("first", 0), ("second", 1)] {
            self.text.line(format!("int64_t {what}_{place};"));
            self.text.line("{");
            for (local, value) in locals.into_iter().zip([row, 0]) {
                if let Some(local) = local {
                    self.text
                        .line(format!("const int64_t {} = {value};", name(local)));
                }
            }
            let mut s = Scalars::new(self.program, self.dialect, Site::Parameter, &[at]);
            let offset = s.write(self.text, at);
            self.text
                .line(format!("{what}_{place} = {};", bare(&offset)));
            self.text.line("}");
        }
        self.text.line(format!(
            "const int64_t {what}_row = {what}_second - {what}_first;"
        ));
        Some(format!("b{} + {what}_first", buffer.index()))
    }

    /// Declares a pointer to each operand's first element; returns it with its strides along rows
    /// or columns and along the depth.
    fn operands(&mut self, c: &Contract, ty: &str) -> [(String, String); 2] {
        let mut s = Scalars::new(self.program, self.dialect, Site::Parameter, &[]);
        [("a", c.a), ("b", c.b)].map(|(role, operand)| {
            let (buffer, base, strides) = match operand.access {
                Access::Strided {
                    buffer,
                    base,
                    outer,
                    depth,
                } => (buffer, base, [Some(outer), Some(depth)]),
                Access::Rows { buffer, .. } => {
                    let pointer = format!("const {ty} *const {role} = b{};", buffer.index());
                    self.text.line(pointer);
                    return ("0".into(), "1".into());
                }
                Access::Windows { buffer, base } | Access::Panels { buffer, base, .. } => {
                    (buffer, base, [None; 2])
                }
                Access::Computed => return Default::default(),
            };
            let base = s.write(self.text, base);
            let ty = match role {
                "b" => {
                    stored_weights(self.program, c).map_or(ty, |stored| self.dialect.stored(stored))
                }
                _ => ty,
            };
            let pointer = format!("const {ty} *const {role} = b{} + {base};", buffer.index());
            self.text.line(pointer);
            let [outer, depth] =
                strides.map(|e| e.map_or(String::new(), |e| s.write(self.text, e)));
            (outer, depth)
        })
    }

    /// Packs some panels of a strided operand.
    fn pack_strided(
        &mut self,
        own: usize,
        (b_column, b_step): (String, String),
        width: i64,
        all: &str,
        t: &str,
    ) {
        self.text.line(format!(
            "const int64_t columns = until * {width} < {all} ? until * {width} : {all};"
        ));
        self.text.line(format!(
            "heddle_pack_{t}(columns - next * {width}, depth, b + next * {width} * {b_column}, {b_column}, {b_step}, b{own});"
        ));
    }

    /// Packs some panels of an operand that is given by an expression. Divisions that depend only
    /// on the column, or only on the place of the depth axis, are computed once for several panels.
    fn pack_computed(&mut self, c: &Contract, own: usize, width: i64, all: &str) {
        self.text
            .line("for (int64_t panel = next; panel < until; panel += HEDDLE_PANELS) {");
        self.text.line(
            "const int64_t panels = until - panel < HEDDLE_PANELS ? until - panel : HEDDLE_PANELS;",
        );
        let (k, j) = (name(c.depth.0), name(c.columns));
        let mut s = Scalars::new(self.program, self.dialect, Site::Parameter, &[c.b.value]);
        let mut columns = s.clone();
        let divided = self.divided_columns(c);
        for (i, &id) in divided.iter().enumerate() {
            self.text
                .line(format!("int64_t place{i}[HEDDLE_PANELS * {width}];"));
            self.text.line(format!(
                "for (int64_t c = 0; c < HEDDLE_PANELS * {width}; c++) {{"
            ));
            let column = format!("panel * {width} + c");
            self.text.line(format!(
                "const int64_t {j} = {column} < {all} ? {column} : {all} - 1;"
            ));
            let value = columns.clone().write(self.text, id);
            self.text.line(format!("place{i}[c] = {};", bare(&value)));
            self.text.line("}");
            // Later ones may use earlier ones.
            columns.know(id, format!("place{i}[c]"));
            s.know(id, format!("place{i}[p * {width} + c]"));
        }
        for full in [true, false] {
            self.text.line(match full {
                true => format!("if ({all} - panel * {width} >= panels * {width}) {{"),
                false => "} else {".into(),
            });
            self.text
                .line(format!("for (int64_t {k} = 0; {k} < depth; {k}++) {{"));
            let mut s = s.clone();
            s.hoist(self.text, &[c.b.value], &[c.columns], &self.op.body);
            self.text.line("for (int64_t p = 0; p < panels; p++) {");
            self.text
                .line(format!("for (int64_t c = 0; c < {width}; c++) {{"));
            // Columns beyond the last repeat it; their sums are unused.
            let column = format!("(panel + p) * {width} + c");
            self.text.line(match full {
                true => format!("const int64_t {j} = {column};"),
                false => format!("const int64_t {j} = {column} < {all} ? {column} : {all} - 1;"),
            });
            let value = s.write(self.text, c.b.value);
            self.text.line(format!(
                "b{own}[((panel - next + p) * depth + {k}) * {width} + c] = {};",
                bare(&value)
            ));
            (0..3).for_each(|_| self.text.line("}"));
        }
        self.text.line("}");
        self.text.line("}");
    }

    /// Quotients and remainders in the second operand that depend on the column and not on the
    /// depth.
    fn divided_columns(&self, c: &Contract) -> Vec<ExprId> {
        let (pool, mut found) = (&self.program.pool, vec![]);
        pool.walk(c.b.value, &mut |id, e| {
            if let Expr::Binary(BinaryOp::Div | BinaryOp::Mod, DType::I64, ..) = e {
                let locals = self.program.locals_of(id);
                if locals.contains(&c.columns) && !locals.contains(&c.depth.0) {
                    found.push(id);
                }
            }
        });
        found
    }

    /// The epilogue of a block's sums.
    fn finish(&mut self, c: &Contract, width: i64, ty: &str) {
        for line in [
            "const int64_t low = first > start ? first - start : 0;".into(),
            format!("const int64_t high = ahead < panels * {width} ? ahead : panels * {width};"),
            "for (int64_t r = 0; r < rows; r++) {".into(),
        ] {
            self.text.line(line);
        }
        if let Some(rows) = c.rows {
            self.text
                .line(format!("const int64_t {} = row + r;", name(rows)));
        }
        let place = format!("r * HEDDLE_PANELS * {width} + c");
        self.finish_row(c, ty, ["low", "high"], &place);
        self.text.line("}");
    }

    /// The epilogue of a row's sums, which are at these places of the tile. Parts that are the same
    /// for all columns, such as the index of a row that is gathered, are computed before.
    pub(crate) fn finish_row(
        &mut self,
        c: &Contract,
        ty: &str,
        [from, to]: [&str; 2],
        place: &str,
    ) {
        let mut s = self.epilogue(c);
        let roots = [c.finish, c.store.offset];
        s.hoist(self.text, &roots, &[c.columns, c.sum], &self.op.body);
        for (ranges, [from, to]) in self.columns_in_ranges(c, &s.ranges, [from, to]) {
            let mut s = s.clone();
            s.ranges = ranges;
            // Clang 19 writes the columns of a panel out, and then computes rows side by side, whose
            // results lie apart.
            self.text.line("HEDDLE_ROLLED");
            self.text
                .line(format!("for (int64_t c = {from}; c < {to}; c++) {{"));
            self.text
                .line(format!("const int64_t {} = start + c;", name(c.columns)));
            self.text
                .line(format!("const {ty} {} = tile[{place}];", name(c.sum)));
            self.store_finished(c, s);
            self.text.line("}");
        }
    }
}
