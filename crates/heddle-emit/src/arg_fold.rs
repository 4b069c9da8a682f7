//! Writes arg-reductions: many partial results side by side, then the best of them.

use heddle_ir::DType;
use heddle_ir::op::Extreme;
use heddle_uprogram::ExprId;
use heddle_uprogram::program::{Local, Store};

use crate::operator::Writer;
use crate::scalar::{Scalars, bare, name};

/// Partial results: enough to fill vectors of indices, which are wider than most elements.
const WIDTH: i64 = 32;

impl Writer<'_> {
    /// The index of the first or last maximum or minimum along an axis, at each point. NaN is the
    /// extreme.
    pub fn arg_fold(
        &mut self,
        (kind, last): (Extreme, bool),
        dtype: DType,
        (axis, size): (Local, ExprId),
        value: ExprId,
        store: Store,
    ) {
        let levels = self.levels(
            &self.op.axes,
            &self.split_axes(),
            &[value, size],
            &[store.offset],
        );
        let early: &[ExprId] = if self.has_points() { &[value] } else { &[] };
        let mut scalars = Scalars::new(self.program, self.dialect, self.site, &[value]);
        // An arg-reduction has at least one place, so hoisted code is needed.
        self.open(&levels, &mut scalars, early, &[axis]);
        scalars.hoist(self.text, &[value], &[axis], &self.op.body);

        let side = if self.dialect.lanes.is_some() {
            1
        } else {
            WIDTH
        };
        let ty = (self.dialect.type_name)(dtype);
        let known = self.program.pool.as_int(size);
        let small = known.is_some_and(|n| n <= i32::MAX as i64);
        let places = if small { "int32_t" } else { "int64_t" };
        let extent = self.size(size);
        self.text
            .line(format!("{places} place[{side}]; {ty} best[{side}];"));
        let extent = bare(&extent).to_string();
        self.text.line(format!(
            "const int64_t width = {extent} < {side} ? {extent} : {side};"
        ));
        self.text.line("for (int64_t c = 0; c < width; c++) {");
        self.text.line(format!("const int64_t {} = c;", name(axis)));
        let x = scalars.clone().write(self.text, value);
        self.text
            .line(format!("best[c] = {}, place[c] = c;", bare(&x)));
        self.text.line("}");

        self.text.line(format!(
            "for (int64_t first = {side}; first < {extent}; first += {side}) {{"
        ));
        let rest = format!("{extent} - first");
        let even = known.is_some_and(|n| n % side == 0);
        let better = better(kind, last, dtype);
        self.side_by_side(side, &rest, even, |w, count| {
            w.text
                .line(format!("for (int64_t c = 0; c < {count}; c++) {{"));
            w.text
                .line(format!("const int64_t {} = first + c;", name(axis)));
            let x = scalars.clone().write(w.text, value);
            w.text.line(format!("const {ty} x = {};", bare(&x)));
            w.text.line(format!(
                "const {ty} old = best[c]; const int take = {better};"
            ));
            w.text.line("best[c] = take ? x : old;");
            w.text.line(format!(
                "place[c] = take ? ({places})(first + c) : place[c];"
            ));
            w.text.line("}");
        });
        self.text.line("}");

        self.best_of_partial(kind, last, dtype);
        let offset = self.size(store.offset);
        self.store(store.buffer, &offset, "place[at]");
        self.close(&levels);
    }

    /// Finds the best of the partial results; `at` is its index.
    fn best_of_partial(&mut self, kind: Extreme, last: bool, dtype: DType) {
        let ty = (self.dialect.type_name)(dtype);
        self.text.line("int64_t at = 0;");
        self.text.line("for (int64_t c = 1; c < width; c++) {");
        self.text
            .line(format!("const {ty} x = best[c], old = best[at];"));
        let sooner = if last { ">" } else { "<" };
        let same = match dtype.is_float() {
            true => "((x == old) | ((x != x) & (old != old)))",
            false => "(x == old)",
        };
        self.text.line(format!(
            "if ({} | ({same} & (place[c] {sooner} place[at]))) at = c;",
            strictly(kind, dtype)
        ));
        self.text.line("}");
    }
}

/// The condition under which `x`, a later value, replaces `old`.
fn better(kind: Extreme, last: bool, dtype: DType) -> String {
    if !last {
        return strictly(kind, dtype);
    }
    let sign = if kind == Extreme::Max { ">=" } else { "<=" };
    match dtype.is_float() {
        true => format!("(x {sign} old) | (x != x)"),
        false => format!("x {sign} old"),
    }
}

/// The condition under which `x` is more extreme than `old`.
fn strictly(kind: Extreme, dtype: DType) -> String {
    let sign = if kind == Extreme::Max { ">" } else { "<" };
    match dtype.is_float() {
        true => format!("((x {sign} old) | ((x != x) & (old == old)))"),
        false => format!("(x {sign} old)"),
    }
}
