//! Writes epilogues of products whose results lie next to each other along rows: the sums of a block are transposed, so that they and the
//! results are read and written in vectors.

use heddle_uprogram::contract::{Contract, panel_width};
use heddle_uprogram::program::Local;
use heddle_uprogram::step::{Step, offsets};
use heddle_uprogram::{Expr, ExprId};

use crate::operator::Writer;
use crate::scalar::name;

/// The fewest rows that are transposed.
const LEAST_ROWS: i64 = 4;

impl Writer<'_> {
    /// The axis of rows, and the epilogue's offsets with their steps along it, if results lie next to each other along rows and not along
    /// columns.
    pub(crate) fn turned_offsets(&self, c: &Contract) -> Option<(Local, Vec<(ExprId, i64)>)> {
        let (program, rows) = (self.program, c.rows?);
        let step = |offset| Step::of(program, offset, rows)?.as_int();
        let mut all = vec![c.store.offset];
        for load in offsets(program, c.finish, &[rows])? {
            if !all.contains(&load) {
                all.push(load);
            }
        }
        let all: Option<Vec<_>> = all.into_iter().map(|o| Some((o, step(o)?))).collect();
        let is_along = step(c.store.offset) == Some(1);
        let is_across = Step::of(program, c.store.offset, c.columns) == Some(Step::by(1));
        (is_along && !is_across).then_some((rows, all?))
    }

    /// The same for a product whose rows are worth it.
    pub(crate) fn turned_rows(&self, c: &Contract) -> Option<(Local, Vec<(ExprId, i64)>)> {
        let rows = self.op.axes.iter().find(|axis| Some(axis.0) == c.rows)?.1;
        let rows = self.program.pool.as_int(rows);
        self.turned_offsets(c)
            .filter(|_| rows.is_none_or(|rows| rows >= LEAST_ROWS))
    }

    /// The epilogue of a block, column by column.
    pub(crate) fn finish_columns(
        &mut self,
        c: &Contract,
        ty: &str,
        (rows, offsets): (Local, &[(ExprId, i64)]),
    ) {
        let (width, bytes) = (panel_width(c.dtype), c.dtype.bits().max(32) / 8);
        for line in [
            "const int64_t low = first > start ? first - start : 0;".into(),
            format!("const int64_t high = ahead < panels * {width} ? ahead : panels * {width};"),
            format!("const int64_t {} = row;", name(rows)),
            format!(
                "{ty} turned[HEDDLE_PANELS * {width} * HEDDLE_BLOCK_ROWS] __attribute__((aligned(64)));"
            ),
            format!(
                "heddle_turned_{bytes}(rows, high, tile, HEDDLE_PANELS * {width}, HEDDLE_BLOCK_ROWS, turned);"
            ),
        ] {
            self.text.line(line);
        }
        self.finish_turned(c, ty, (rows, offsets), ["rows", "HEDDLE_BLOCK_ROWS"]);
    }

    /// The epilogue of transposed sums: of each column there are `count`, and `far` elements from one column to the next one.
    pub(crate) fn finish_turned(
        &mut self,
        c: &Contract,
        ty: &str,
        (rows, offsets): (Local, &[(ExprId, i64)]),
        [count, far]: [&str; 2],
    ) {
        let mut s = self.epilogue(c);
        let roots = [c.finish, c.store.offset];
        s.hoist(self.text, &roots, &[c.columns, rows, c.sum], &self.op.body);
        for (ranges, [low, high]) in self.columns_in_ranges(c, &s.ranges, ["low", "high"]) {
            let mut s = s.clone();
            s.ranges = ranges;
            self.text
                .line(format!("for (int64_t c = {low}; c < {high}; c++) {{"));
            self.text
                .line(format!("const int64_t {} = start + c;", name(c.columns)));
            // Along rows offsets take steps from those of the first one.
            s.hoist(self.text, &roots, &[rows, c.sum], &self.op.body);
            let is_row = |offset: ExprId| self.program.pool[offset] == Expr::Local(rows);
            let has_row = offsets.iter().any(|(offset, _)| is_row(*offset));
            let moving = offsets
                .iter()
                .filter(|(offset, step)| *step != 0 && !is_row(*offset));
            for &(offset, step) in moving {
                let first = s.bind(self.text, offset);
                s.know(
                    offset,
                    match step {
                        1 => format!("({first} + i)"),
                        step => format!("({first} + i * {step})"),
                    },
                );
            }
            let row = name(rows);
            if has_row {
                self.text
                    .line(format!("const int64_t {row}_first = {row};"));
            }
            self.text
                .line(format!("for (int64_t i = 0; i < {count}; i++) {{"));
            // An offset that is the row itself.
            if has_row {
                self.text
                    .line(format!("const int64_t {row} = {row}_first + i;"));
            }
            self.text.line(format!(
                "const {ty} {} = turned[c * {far} + i];",
                name(c.sum)
            ));
            self.store_finished(c, s);
            (0..2).for_each(|_| self.text.line("}"));
        }
    }
}
