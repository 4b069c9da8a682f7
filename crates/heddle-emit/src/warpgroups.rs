//! Tiles of which warpgroups multiply rectangles: four warps together, whose tensor cores read both operands from shared memory while lanes
//! evaluate and share the elements of the next round.
//!
//! Shared elements have the type to which operands are rounded, in the order that a descriptor without swizzling describes: 16 bytes of a
//! row or column, along the depth, below those of the next one. A lane evaluates such 16 bytes, and stores them at once. Neighbouring lanes
//! store next to each other, so that none waits for a bank; where elements lie in memory along the depth, eight lanes do and the next eight
//! take the next 16 bytes of the same rows.

use heddle_uprogram::contract::Rounding;
use heddle_uprogram::program::{Multiplier, Tile};

use crate::operator::Writer;
use crate::tiles::{Side, Tiled};

/// Words of a row or column that lie next to each other, and rows or columns of them that tensor cores read together.
const WORDS: u32 = 4;
const BELOW: u32 = 8;

/// Elements of such words.
fn elements(to: Rounding) -> u32 {
    match to {
        Rounding::Tf32 => WORDS,
        Rounding::Bf16 | Rounding::F16 => 2 * WORDS,
    }
}

impl Tiled<'_> {
    /// Columns that are multiplied at a time.
    pub fn together(&self) -> u32 {
        self.b.own.min(Tile::WIDEST)
    }

    /// Products along rows and columns of a rectangle.
    pub fn products(&self) -> [u32; 2] {
        let rows = Multiplier::Warpgroup.least()[0];
        [self.a.own / rows, self.b.own / self.together()]
    }

    /// Runs of an operand's elements that a lane evaluates at most, and the elements of each.
    pub fn rows_of_lane(&self, side: &Side, to: Rounding) -> [u32; 2] {
        let runs = side.places * (self.depth / elements(to));
        [runs.div_ceil(self.lanes), elements(to)]
    }
}

impl Writer<'_> {
    /// Opens the loop over the runs that a lane evaluates: of row or column `p` of the tile, from place `k` of the depth on.
    fn each_run(&mut self, t: &Tiled, side: &Side, to: Rounding) {
        let (places, [count, run]) = (side.places, t.rows_of_lane(side, to));
        self.each("i", count);
        self.text
            .line(format!("const int32_t at = lane + i * {};", t.lanes));
        let runs = t.depth / run;
        self.text.line(match self.is_along_depth(t.c, side) {
            true => format!(
                "const int32_t k = at / {BELOW} % {runs} * {run}, p = at / {} * {BELOW} + at % {BELOW};",
                BELOW * runs
            ),
            false => format!("const int32_t k = at / {places} * {run}, p = at % {places};"),
        });
    }

    /// Evaluates this lane's elements; those that do not exist are zero.
    pub(crate) fn fetch_rows(&mut self, t: &Tiled, side: &Side, to: Rounding) {
        self.each_run(t, side, to);
        self.each("e", elements(to));
        self.evaluate(t, side, "k + e", "i][e");
        (0..2).for_each(|_| self.text.line("}"));
    }

    /// Rounds and shares them.
    pub(crate) fn share_rows(&mut self, t: &Tiled, side: &Side, to: Rounding) {
        self.each_run(t, side, to);
        let of = |e: u32| format!("next_{}[i][{e}]", side.role);
        let words = (0..WORDS).map(|word| {
            let rounded = match to {
                Rounding::Tf32 => of(word),
                Rounding::Bf16 | Rounding::F16 => [of(2 * word), of(2 * word + 1)].join(", "),
            };
            format!("heddle_word_{}({rounded})", to.name())
        });
        let words: Vec<_> = words.collect();
        self.text.line(format!(
            "if (k < {} && p < {}) heddle_wgmma_share(&heddle_row_word(then + {} + (k / {} * {} + p) * {WORDS}), {});",
            t.depth,
            side.places,
            side.first_word,
            elements(to),
            side.places,
            words.join(", ")
        ));
        self.text.line("}");
    }

    /// Begins the products of the shared elements.
    pub(crate) fn begin_products(&mut self, t: &Tiled, to: Rounding) {
        let [rows, columns] = t.products();
        let matrix = |side: &Side, next: &str| {
            format!(
                "heddle_matrix(now + {} + (k * {} + {} + {next}) * {WORDS}, {}, {})",
                side.first_word,
                2 * side.places,
                side.mine,
                4 * WORDS * side.places,
                4 * WORDS * BELOW
            )
        };
        self.text.line("heddle_wgmma_open();");
        self.each("k", t.depth / (2 * elements(to)));
        self.each("i", rows);
        self.each("j", columns);
        self.text.line("HEDDLE_HERE;");
        self.text.line(format!(
            "heddle_wgmma_{}(sum[i * {columns} + j], {}, {});",
            to.name(),
            matrix(&t.a, &format!("i * {}", Multiplier::Warpgroup.least()[0])),
            matrix(&t.b, &format!("j * {}", t.together()))
        ));
        (0..3).for_each(|_| self.text.line("}"));
        self.text.line("heddle_wgmma_close();");
    }

    /// Waits for them, so that the next round may write over their operands. Tensor cores see its own behind the barrier that follows.
    pub(crate) fn end_products(&mut self) {
        self.text.line("heddle_wgmma_wait(sum);");
        self.text.line("heddle_wgmma_shared();");
    }
}
