//! Writes contractions whose results the lanes of a unit compute in tiles.
//!
//! Lanes go along the depth together, some places at a time. Each evaluates a few elements of both operands for the next places, adds
//! products of the shared elements of these places to the sums of its rectangle, and then shares the elements that it has evaluated: one
//! half of the shared memory is read while the other is written. An operand is an expression, so windows of a convolution are as good
//! as a matrix. Sums are added up in the order of the depth, as by one lane.
//!
//! Elements of an operand that lie in memory as they are shared, four at a time, are copied there by themselves while lanes multiply: they
//! pass through no register, and no lane waits for them before the round ends.
//!
//! If operands may be rounded, warps multiply rectangles on their tensor cores instead: lanes then have the fragments of PTX's
//! `mma.sync` for 16 rows and 8 columns, of which a rectangle has several. Larger rectangles are multiplied by warpgroups
//! (`warpgroups.rs`).

use heddle_ir::op::BinaryOp;
use heddle_uprogram::contract::{Contract, Rounding};
use heddle_uprogram::program::{Buffer, Local, Multiplier, Resident, Tile};
use heddle_uprogram::step::{Step, offsets};
use heddle_uprogram::{Expr, ExprId};

use crate::operator::Writer;
use crate::quads::lies_in_fours;
use crate::scalar::{Scalars, Site, bare, combine, element, name};

/// An operand's part of a tile.
pub(crate) struct Side {
    /// `a` or `b`.
    pub role: &'static str,
    pub value: ExprId,
    /// Its rows or columns.
    pub axis: Local,
    /// Those of the tile, and those of a rectangle.
    pub places: u32,
    pub own: u32,
    /// C variables: the first one of the tile, the end of this unit's, the first of this rectangle in the tile.
    pub from: &'static str,
    pub until: &'static str,
    pub mine: &'static str,
    /// The first word of its shared elements in each half, and words from a place of the depth to the next.
    pub first_word: u32,
    pitch: u32,
    /// The array and the offset of elements that are copied by fours.
    copied: Option<(Buffer, ExprId)>,
}

/// A contraction by tiles.
pub(crate) struct Tiled<'c> {
    pub c: &'c Contract,
    pub a: Side,
    pub b: Side,
    /// Lanes with results.
    pub lanes: u32,
    by: By,
    /// Places of the depth that are shared at a time, and words for them.
    pub depth: u32,
    half: u32,
    /// The C type of sums.
    pub ty: &'static str,
}

/// Multipliers of rectangles, each with the type to which it rounds operands.
#[derive(Clone, Copy)]
enum By {
    Lanes,
    Warps(Rounding),
    Warpgroups(Rounding),
}

impl<'c> Tiled<'c> {
    fn new(c: &'c Contract, tile: Tile, rows: Local, ty: &'static str) -> Self {
        let (depth, pad) = (tile.depth(c.rounding), tile.pad());
        let by = match (tile.by, c.rounding) {
            (Multiplier::Lane, _) | (_, None) => By::Lanes,
            (Multiplier::Warp, Some(to)) => By::Warps(to),
            (Multiplier::Warpgroup, Some(to)) => By::Warpgroups(to),
        };
        let half = tile.words(c.rounding) / 2;
        // Words of all rows and columns, in their ratio.
        let first_column = half / (tile.rows + tile.columns + 2 * pad) * (tile.rows + pad);
        let a = Side {
            role: "a",
            value: c.a.value,
            axis: rows,
            places: tile.rows,
            own: tile.own_rows,
            from: "row",
            until: "last_row",
            mine: "own_row",
            first_word: 0,
            pitch: tile.rows + pad,
            copied: None,
        };
        let b = Side {
            role: "b",
            value: c.b.value,
            axis: c.columns,
            places: tile.columns,
            own: tile.own_columns,
            from: "start",
            until: "last",
            mine: "own_column",
            first_word: first_column,
            pitch: tile.columns + pad,
            copied: None,
        };
        Self {
            c,
            a,
            b,
            lanes: tile.lanes(),
            by,
            depth,
            half,
            ty,
        }
    }

    pub fn sides(&self) -> [&Side; 2] {
        [&self.a, &self.b]
    }

    /// Numbers of rows and columns of which a lane has sums.
    fn sums(&self) -> [u32; 2] {
        let own = [self.a.own, self.b.own];
        match self.by {
            By::Lanes => own,
            // Two rows and two columns of each 16 x 8.
            By::Warps(_) => [own[0] / 8, own[1] / 4],
            By::Warpgroups(_) => [own[0] / 32, own[1] / 4],
        }
    }

    /// The sizes of the array of sums.
    fn array(&self) -> [u32; 2] {
        let [rows, columns] = self.sums();
        match self.by {
            By::Lanes | By::Warps(_) => [rows, columns],
            By::Warpgroups(_) => {
                let products = self.products();
                [products[0] * products[1], self.together() / 2]
            }
        }
    }

    /// The sum of row `i` and column `j` of this lane.
    fn sum(&self) -> String {
        match self.by {
            By::Lanes | By::Warps(_) => "sum[i][j]".into(),
            By::Warpgroups(_) => {
                let (across, quarter) = (self.products()[1], self.together() / 4);
                format!(
                    "sum[i / 2 * {across} + j / {quarter}][j % {quarter} / 2 * 4 + i % 2 * 2 + j % 2]"
                )
            }
        }
    }

    /// C expressions of row `i` and column `j` in the tile.
    fn places(&self) -> [&'static str; 2] {
        match self.by {
            By::Lanes => ["own_row + i", "own_column + j"],
            By::Warps(_) => [
                "own_row + i / 2 * 16 + i % 2 * 8 + part / 4",
                "own_column + j / 2 * 8 + part % 4 * 2 + j % 2",
            ],
            By::Warpgroups(_) => [
                "own_row + i / 2 * 64 + part / 32 * 16 + i % 2 * 8 + part % 32 / 4",
                "own_column + j / 2 * 8 + part % 4 * 2 + j % 2",
            ],
        }
    }
}

impl Writer<'_> {
    /// A contraction by tiles.
    pub fn by_tiles(&mut self, c: &Contract, tile: Tile) {
        let Some(rows) = c.rows else {
            return;
        };
        let mut t = Tiled::new(c, tile, rows, (self.dialect.type_name)(c.dtype));
        // Tensor cores of a warpgroup read shared elements themselves, so lanes have rounded them.
        if !matches!(t.by, By::Warpgroups(_)) {
            t.a.copied = self.copied(&t.a);
            t.b.copied = self.copied(&t.b);
        }
        let (depth, half) = (t.depth, t.half);
        let evaluated = || t.sides().into_iter().filter(|s| s.copied.is_none());
        let copied = || t.sides().into_iter().filter(|s| s.copied.is_some());
        self.open_products(c);
        self.rectangle(&t);
        for side in t.sides() {
            let Side { from, until, .. } = side;
            let first = if side.role == "a" {
                "first_row"
            } else {
                "first"
            };
            self.rolled();
            self.text.line(format!(
                "for (int64_t {from} = {first}; {from} < {until}; {from} += {}) {{",
                side.places
            ));
        }
        let [rows, columns] = t.array();
        self.text.line(format!("{} sum[{rows}][{columns}];", t.ty));
        self.each("i", rows);
        self.each("j", columns);
        self.text.line("sum[i][j] = 0;");
        self.text.line("}");
        self.text.line("}");
        // Places are fetched a round before they are used.
        self.rolled();
        self.text.line(format!(
            "for (int64_t place = -{depth}; place < depth; place += {depth}) {{"
        ));
        self.text
            .line(format!("const int64_t ahead = place + {depth};"));
        self.text.line(format!(
            "const int32_t then = (int32_t)(ahead / {depth} % 2) * {half};"
        ));
        for side in evaluated() {
            let next = format!("{} next_{}", t.ty, side.role);
            self.text.line(match t.by {
                By::Lanes | By::Warps(_) => {
                    let count = (depth * side.places).div_ceil(t.lanes);
                    format!("{next}[{count}];")
                }
                By::Warpgroups(to) => {
                    let [count, elements] = t.rows_of_lane(side, to);
                    format!("{next}[{count}][{elements}];")
                }
            });
        }
        self.text.line("if (works && ahead < depth) {");
        for side in copied() {
            self.copy(&t, side);
        }
        for side in evaluated() {
            match t.by {
                By::Lanes | By::Warps(_) => self.fetch(&t, side),
                By::Warpgroups(to) => self.fetch_rows(&t, side, to),
            }
        }
        self.text.line("}");
        self.text.line("if (works && place >= 0) {");
        self.text.line(format!(
            "const int32_t now = (int32_t)(place / {depth} % 2) * {half};"
        ));
        match t.by {
            By::Lanes => self.add_products(&t),
            By::Warps(to) => self.add_by_cores(&t, to),
            By::Warpgroups(to) => self.begin_products(&t, to),
        }
        self.text.line("}");
        if evaluated().next().is_some() {
            self.text.line("if (works && ahead < depth) {");
            for side in evaluated() {
                match t.by {
                    By::Lanes | By::Warps(_) => self.share_fetched(&t, side),
                    By::Warpgroups(to) => self.share_rows(&t, side, to),
                }
            }
            self.text.line("}");
        }
        if copied().next().is_some() {
            self.text.line("heddle_copy_wait(0);");
        }
        if matches!(t.by, By::Warpgroups(_)) {
            self.end_products();
        }
        self.text.line(self.dialect.unit_sync);
        self.text.line("}");
        self.store_sums(&t);
        self.text.line("}");
        self.text.line("}");
        self.close_products(c);
    }

    /// Declares this lane's rectangle, or its warp's and the lane's part of it.
    fn rectangle(&mut self, t: &Tiled) {
        let across = t.b.places / t.b.own;
        let group = match t.by {
            By::Lanes => None,
            By::Warps(_) => Some(Multiplier::Warp.lanes()),
            By::Warpgroups(_) => Some(Multiplier::Warpgroup.lanes()),
        };
        let number = group.map_or("lane".into(), |lanes| format!("(lane / {lanes})"));
        self.text
            .line(format!("const bool works = heddle_lane < {};", t.lanes));
        self.text.line(format!(
            "const int32_t lane = (int32_t)heddle_lane, own_row = {number} / {across} * {}, own_column = {number} % {across} * {};",
            t.a.own, t.b.own
        ));
        if let Some(lanes) = group {
            self.text
                .line(format!("const int32_t part = lane % {lanes};"));
        }
    }

    /// A loop whose trip count is a constant, and small.
    pub(crate) fn each(&mut self, variable: &str, count: u32) {
        self.text.line("HEDDLE_UNROLL");
        self.text.line(format!(
            "for (int32_t {variable} = 0; {variable} < {count}; {variable}++) {{"
        ));
    }

    /// Opens the loop over the elements that a lane evaluates: of place `k` of the depth and place `p` of the tile. Neighbouring lanes have
    /// neighbouring elements in memory, if that can be known.
    fn each_fetched(&mut self, t: &Tiled, side: &Side) {
        let (places, depth) = (side.places, t.depth);
        self.each("i", (depth * places).div_ceil(t.lanes));
        self.text
            .line(format!("const int32_t at = lane + i * {};", t.lanes));
        self.text.line(match self.is_along_depth(t.c, side) {
            true => format!("const int32_t k = at % {depth}, p = at / {depth};"),
            false => format!("const int32_t k = at / {places}, p = at % {places};"),
        });
    }

    /// Are elements of neighbouring places of the depth next to each other, or those of neighbouring rows or columns further apart?
    pub(crate) fn is_along_depth(&self, c: &Contract, side: &Side) -> bool {
        let found = offsets(self.program, side.value, &[]).unwrap_or_default();
        let beside = |axis: Local| {
            let step = |&at| Step::of(self.program, at, axis);
            let near = |at| step(at).is_some_and(|s| s == Step::STILL || s == Step::by(1));
            found.iter().all(near)
        };
        beside(c.depth.0) && !beside(side.axis)
    }

    /// The array and the offset of an operand that is nothing but its elements, of which fours that the tile has side by side lie side by
    /// side, at multiples of four.
    fn copied(&self, side: &Side) -> Option<(Buffer, ExprId)> {
        let Expr::Load(buffer, offset) = self.program.pool[side.value] else {
            return None;
        };
        // Copies are from global memory.
        let is_global = self.program.buffers[buffer].kind.first_word().is_none();
        let is_whole = i64::from(side.places) % Resident::QUAD == 0;
        let fits = is_global && is_whole && lies_in_fours(self.program, buffer, offset, side.axis);
        fits.then_some((buffer, offset))
    }

    /// Begins the copies of this lane's fours; of single elements at the end, and in units whose first place is no multiple of four.
    /// Elements that do not exist are zero.
    fn copy(&mut self, t: &Tiled, side: &Side) {
        let Some((buffer, offset)) = side.copied else {
            return;
        };
        let (places, depth, quad) = (side.places, t.depth, Resident::QUAD as u32);
        let (v, k) = (name(side.axis), name(t.c.depth.0));
        self.each("i", (depth * places / quad).div_ceil(t.lanes));
        for line in [
            format!("const int32_t at = (lane + i * {}) * {quad};", t.lanes),
            format!("const int32_t k = at / {places}, p = at % {places};"),
            format!("const int64_t {k} = ahead + k;"),
            format!(
                "const int32_t to = then + {} + k * {} + p;",
                side.first_word, side.pitch
            ),
            format!("if (k < {depth}) {{"),
            format!(
                "if ({from} % {quad} == 0 && {from} + p + {} < {} && {k} < depth) {{",
                quad - 1,
                side.until,
                from = side.from
            ),
            format!("const int64_t {v} = {} + p;", side.from),
        ] {
            self.text.line(line);
        }
        let mut s = Scalars::new(self.program, self.dialect, Site::Parameter, &[offset]);
        let at = s.write(self.text, offset);
        let first = element(self.program, self.dialect, buffer, &at);
        self.text.line(format!(
            "heddle_copy_async(&heddle_row<{}>(to), &{first}, {} * sizeof({}));",
            t.ty, quad, t.ty
        ));
        self.text.line("} else {");
        self.each("j", quad);
        self.text
            .line(format!("const int64_t {v} = {} + p + j;", side.from));
        self.text
            .line(format!("if ({v} < {} && {k} < depth) {{", side.until));
        let mut s = Scalars::new(self.program, self.dialect, Site::Parameter, &[offset]);
        let at = s.write(self.text, offset);
        let one = element(self.program, self.dialect, buffer, &at);
        self.text.line(format!(
            "heddle_copy_async(&heddle_row<{ty}>(to + j), &{one}, sizeof({ty}));",
            ty = t.ty
        ));
        self.text.line("} else {");
        self.text.line(format!("heddle_row<{}>(to + j) = 0;", t.ty));
        (0..5).for_each(|_| self.text.line("}"));
        self.text.line("heddle_copy_close();");
    }

    /// Evaluates this lane's elements.
    fn fetch(&mut self, t: &Tiled, side: &Side) {
        self.each_fetched(t, side);
        self.evaluate(t, side, "k", "i");
        self.text.line("}");
    }

    /// Evaluates the element at row or column `p` and a place of the depth, by its number in the round, as element `at` of what comes next: zero if
    /// there is none.
    pub(crate) fn evaluate(&mut self, t: &Tiled, side: &Side, place: &str, at: &str) {
        let (p, k) = (name(side.axis), name(t.c.depth.0));
        for line in [
            format!(
                "const int64_t {p} = {} + p, {k} = ahead + {place};",
                side.from
            ),
            format!("next_{}[{at}] = 0;", side.role),
            format!(
                "if (k < {} && p < {} && {p} < {} && {k} < depth) {{",
                t.depth, side.places, side.until
            ),
        ] {
            self.text.line(line);
        }
        let mut s = Scalars::new(self.program, self.dialect, Site::Parameter, &[side.value]);
        let value = s.write(self.text, side.value);
        self.text
            .line(format!("next_{}[{at}] = {};", side.role, bare(&value)));
        self.text.line("}");
    }

    /// Shares them.
    fn share_fetched(&mut self, t: &Tiled, side: &Side) {
        self.each_fetched(t, side);
        let at = format!("then + {} + k * {} + p", side.first_word, side.pitch);
        self.text.line(format!(
            "if (k < {} && p < {}) heddle_row<{}>({at}) = next_{}[i];",
            t.depth, side.places, t.ty, side.role
        ));
        self.text.line("}");
    }

    /// Adds the products of the shared elements to the sums of this lane.
    fn add_products(&mut self, t: &Tiled) {
        self.each("k", t.depth);
        for side in t.sides() {
            let Side { role, own, .. } = side;
            self.text.line(format!("{} {role}[{own}];", t.ty));
            self.each("i", *own);
            self.text.line(format!(
                "{role}[i] = heddle_row<{}>(now + {} + k * {} + {} + i);",
                t.ty, side.first_word, side.pitch, side.mine
            ));
            self.text.line("}");
        }
        self.each("i", t.a.own);
        self.each("j", t.b.own);
        let product = combine(self.dialect, BinaryOp::Mul, t.c.dtype, "a[i]", "b[j]");
        let next = combine(
            self.dialect,
            BinaryOp::Add,
            t.c.dtype,
            "sum[i][j]",
            &product,
        );
        self.text.line(format!("sum[i][j] = {};", bare(&next)));
        (0..3).for_each(|_| self.text.line("}"));
    }

    /// The same by tensor cores. A lane has neighbouring places of the depth: one of tf32, two of 16 bits; behind four times as many it has
    /// the next ones, and of the first operand the same of the row 8 further down.
    fn add_by_cores(&mut self, t: &Tiled, rounding: Rounding) {
        let wide = t.depth / 8;
        let [rows, columns] = [t.a.own / 16, t.b.own / 8];
        for (side, count, elements, at) in [
            (
                &t.a,
                rows,
                t.depth / 2,
                format!(
                    "(e / {} * 4 + part % 4) * {wide} + e % {wide}) * {} + {} + i * 16 + e / {wide} % 2 * 8 + part / 4",
                    2 * wide,
                    t.a.pitch,
                    t.a.mine
                ),
            ),
            (
                &t.b,
                columns,
                t.depth / 4,
                format!(
                    "(e / {wide} * 4 + part % 4) * {wide} + e % {wide}) * {} + {} + i * 8 + part / 4",
                    t.b.pitch, t.b.mine
                ),
            ),
        ] {
            let role = side.role;
            self.text
                .line(format!("float {role}[{count}][{elements}];"));
            self.each("i", count);
            self.each("e", elements);
            self.text.line(format!(
                "{role}[i][e] = heddle_row<float>(now + {} + ({at});",
                side.first_word
            ));
            self.text.line("}");
            self.text.line("}");
        }
        self.each("i", rows);
        self.each("j", columns);
        let of = |row: u32, column: u32| format!("sum[2 * i + {row}][2 * j + {column}]");
        let sums = [of(0, 0), of(0, 1), of(1, 0), of(1, 1)];
        self.text
            .line(format!("float d[4] = {{{}}};", sums.join(", ")));
        self.text
            .line(format!("heddle_mma_{}(d, a[i], b[j]);", rounding.name()));
        for (k, sum) in sums.iter().enumerate() {
            self.text.line(format!("{sum} = d[{k}];"));
        }
        self.text.line("}");
        self.text.line("}");
    }

    /// Stores the results of this lane that exist.
    fn store_sums(&mut self, t: &Tiled) {
        self.text.line("if (works) {");
        for (((side, variable), count), place) in [(&t.a, "i"), (&t.b, "j")]
            .into_iter()
            .zip(t.sums())
            .zip(t.places())
        {
            let v = name(side.axis);
            self.each(variable, count);
            self.text
                .line(format!("const int64_t {v} = {} + {place};", side.from));
            self.text.line(format!("if ({v} < {}) {{", side.until));
        }
        self.text
            .line(format!("const {} {} = {};", t.ty, name(t.c.sum), t.sum()));
        let s = self.epilogue(t.c);
        self.store_finished(t.c, s);
        (0..5).for_each(|_| self.text.line("}"));
    }
}
