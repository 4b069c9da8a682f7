//! Writes contractions whose results the lanes of a unit compute in tiles.
//!
//! Lanes go along the depth together, some places at a time. Each evaluates a few elements of both operands for the next places, adds
//! products of the shared elements of these places to the sums of its rectangle, and then shares the elements that it has evaluated: one
//! half of the shared memory is read while the other is written. An operand is an expression, so windows of a convolution are as good
//! as a matrix. Sums are added up in the order of the depth, as by one lane.

use heddle_ir::op::BinaryOp;
use heddle_uprogram::ExprId;
use heddle_uprogram::contract::Contract;
use heddle_uprogram::program::{Local, Tile};
use heddle_uprogram::step::{Step, offsets};

use crate::operator::Writer;
use crate::scalar::{Scalars, bare, combine, name};

const DEPTH: u32 = Tile::DEPTH;

/// An operand's part of a tile.
struct Side {
    /// `a` or `b`.
    role: &'static str,
    value: ExprId,
    /// Its rows or columns.
    axis: Local,
    /// Those of the tile, and those of a lane.
    places: u32,
    own: u32,
    /// C variables: the first one of the tile, the end of this unit's, the first of this lane in the tile.
    from: &'static str,
    until: &'static str,
    mine: &'static str,
    /// The first word of its shared elements in each half.
    first_word: u32,
}

impl Side {
    /// Words from a place of the depth to the next.
    fn pitch(&self) -> u32 {
        self.places + Tile::PAD
    }
}

impl Writer<'_> {
    /// A contraction by tiles.
    pub fn by_tiles(&mut self, c: &Contract, tile: Tile) {
        let Some(rows) = c.rows else {
            return;
        };
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
            first_word: DEPTH * a.pitch(),
        };
        let (lanes, half) = (tile.lanes(), tile.words() / 2);
        let ty = (self.dialect.type_name)(c.dtype);
        self.open_products(c);
        let across = b.places / b.own;
        for line in [
            format!("const bool works = heddle_lane < {lanes};"),
            format!(
                "const int32_t lane = (int32_t)heddle_lane, own_row = lane / {across} * {}, own_column = lane % {across} * {};",
                a.own, b.own
            ),
            format!(
                "for (int64_t row = first_row; row < last_row; row += {}) {{",
                a.places
            ),
            format!(
                "for (int64_t start = first; start < last; start += {}) {{",
                b.places
            ),
            format!("{ty} sum[{}][{}];", a.own, b.own),
        ] {
            self.text.line(line);
        }
        self.each("i", a.own);
        self.each("j", b.own);
        self.text.line("sum[i][j] = 0;");
        self.text.line("}");
        self.text.line("}");
        // Places are fetched a round before they are used.
        self.text.line(format!(
            "for (int64_t place = -{DEPTH}; place < depth; place += {DEPTH}) {{"
        ));
        self.text
            .line(format!("const int64_t ahead = place + {DEPTH};"));
        for side in [&a, &b] {
            let count = self.fetched(side, lanes);
            self.text.line(format!("{ty} next_{}[{count}];", side.role));
        }
        self.text.line("if (works && ahead < depth) {");
        for side in [&a, &b] {
            self.fetch(c, side, lanes);
        }
        self.text.line("}");
        self.text.line("if (works && place >= 0) {");
        self.text.line(format!(
            "const int32_t now = (int32_t)(place / {DEPTH} % 2) * {half};"
        ));
        self.add_products(c, &a, &b, ty);
        self.text.line("}");
        self.text.line("if (works && ahead < depth) {");
        self.text.line(format!(
            "const int32_t then = (int32_t)(ahead / {DEPTH} % 2) * {half};"
        ));
        for side in [&a, &b] {
            self.share_fetched(c, side, lanes, ty);
        }
        self.text.line("}");
        self.text.line(self.dialect.unit_sync);
        self.text.line("}");
        self.store_sums(c, &a, &b, ty);
        self.text.line("}");
        self.text.line("}");
        self.close_products(c);
    }

    /// A loop whose trip count is a constant, and small.
    fn each(&mut self, variable: &str, count: u32) {
        self.text.line("HEDDLE_UNROLL");
        self.text.line(format!(
            "for (int32_t {variable} = 0; {variable} < {count}; {variable}++) {{"
        ));
    }

    /// Elements of an operand that a lane evaluates for some places of the depth.
    fn fetched(&self, side: &Side, lanes: u32) -> u32 {
        (DEPTH * side.places).div_ceil(lanes)
    }

    /// Opens the loop over the elements that a lane evaluates: of place `k` of the depth and place `p` of the tile. Neighbouring lanes have
    /// neighbouring elements in memory, if that can be known.
    fn each_fetched(&mut self, c: &Contract, side: &Side, lanes: u32) {
        let count = self.fetched(side, lanes);
        self.each("i", count);
        self.text
            .line(format!("const int32_t at = lane + i * {lanes};"));
        let places = side.places;
        self.text.line(match self.is_along_depth(c, side) {
            true => format!("const int32_t k = at % {DEPTH}, p = at / {DEPTH};"),
            false => format!("const int32_t k = at / {places}, p = at % {places};"),
        });
    }

    /// Are elements of neighbouring places of the depth next to each other, or those of neighbouring rows or columns further apart?
    fn is_along_depth(&self, c: &Contract, side: &Side) -> bool {
        let found = offsets(self.program, side.value, &[]).unwrap_or_default();
        let beside = |axis: Local| {
            let step = |&at| Step::of(self.program, at, axis);
            let near = |at| step(at).is_some_and(|s| s == Step::STILL || s == Step::by(1));
            found.iter().all(near)
        };
        beside(c.depth.0) && !beside(side.axis)
    }

    /// Evaluates this lane's elements.
    fn fetch(&mut self, c: &Contract, side: &Side, lanes: u32) {
        let (p, k) = (name(side.axis), name(c.depth.0));
        self.each_fetched(c, side, lanes);
        self.text.line(format!(
            "const int64_t {p} = {} + p, {k} = ahead + k;",
            side.from
        ));
        self.text.line(format!("next_{}[i] = 0;", side.role));
        self.text.line(format!(
            "if (k < {DEPTH} && p < {} && {p} < {} && {k} < depth) {{",
            side.places, side.until
        ));
        let mut s = Scalars::new(self.program, self.dialect, self.site, &[side.value]);
        let value = s.write(self.text, side.value);
        self.text
            .line(format!("next_{}[i] = {};", side.role, bare(&value)));
        self.text.line("}");
        self.text.line("}");
    }

    /// Shares them.
    fn share_fetched(&mut self, c: &Contract, side: &Side, lanes: u32, ty: &str) {
        self.each_fetched(c, side, lanes);
        let at = format!("then + {} + k * {} + p", side.first_word, side.pitch());
        self.text.line(format!(
            "if (k < {DEPTH} && p < {}) heddle_row<{ty}>({at}) = next_{}[i];",
            side.places, side.role
        ));
        self.text.line("}");
    }

    /// Adds the products of the shared elements to the sums of this lane.
    fn add_products(&mut self, c: &Contract, a: &Side, b: &Side, ty: &str) {
        self.each("k", DEPTH);
        for side in [a, b] {
            let Side { role, own, .. } = side;
            self.text.line(format!("{ty} {role}[{own}];"));
            self.each("i", *own);
            let at = format!(
                "now + {} + k * {} + {} + i",
                side.first_word,
                side.pitch(),
                side.mine
            );
            self.text
                .line(format!("{role}[i] = heddle_row<{ty}>({at});"));
            self.text.line("}");
        }
        self.each("i", a.own);
        self.each("j", b.own);
        let product = combine(self.dialect, BinaryOp::Mul, c.dtype, "a[i]", "b[j]");
        let next = combine(self.dialect, BinaryOp::Add, c.dtype, "sum[i][j]", &product);
        self.text.line(format!("sum[i][j] = {};", bare(&next)));
        (0..3).for_each(|_| self.text.line("}"));
    }

    /// Stores the results of this lane that exist.
    fn store_sums(&mut self, c: &Contract, a: &Side, b: &Side, ty: &str) {
        self.text.line("if (works) {");
        for (side, variable) in [(a, "i"), (b, "j")] {
            let v = name(side.axis);
            self.each(variable, side.own);
            self.text.line(format!(
                "const int64_t {v} = {} + {} + {variable};",
                side.from, side.mine
            ));
            self.text.line(format!("if ({v} < {}) {{", side.until));
        }
        self.text
            .line(format!("const {ty} {} = sum[i][j];", name(c.sum)));
        let s = self.epilogue(c);
        self.store_finished(c, s);
        (0..5).for_each(|_| self.text.line("}"));
    }
}
