//! Writes arg-reductions: many partial results side by side, then the best of them.

use heddle_ir::DType;
use heddle_ir::op::{Extreme, ReduceOp};
use heddle_uprogram::ExprId;
use heddle_uprogram::program::{Local, Store};

use crate::fold::neutral;
use crate::operator::Writer;
use crate::peel::Loops;
use crate::scalar::{Scalars, bare, computed, name};

/// Partial results: enough to fill vectors of indices, which are wider than most elements.
const WIDTH: i64 = 32;

impl<'a> Writer<'a> {
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
        let early = self.has_points();
        let around = Loops {
            axes: &self.op.axes,
            levels: &levels,
        };
        let scalars = self.scalars(&[value], &[around]);
        // An arg-reduction has at least one place, so hoisted code is needed.
        self.nest(
            &levels,
            scalars,
            (&[value], early),
            &[axis],
            &mut |w, mut s| {
                s.hoist(w.text, &[value], &[axis], &w.op.body);
                match w.is_joined() {
                    true => w.joined_arg_fold((kind, last), dtype, (axis, size), value, store, s),
                    false => {
                        w.arg_fold_of_point((kind, last), dtype, (axis, size), value, store, &s)
                    }
                }
            },
        );
    }

    /// The best of partial results, which are side by side.
    fn arg_fold_of_point(
        &mut self,
        (kind, last): (Extreme, bool),
        dtype: DType,
        (axis, size): (Local, ExprId),
        value: ExprId,
        store: Store,
        scalars: &Scalars,
    ) {
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
    }

    /// Each lane finds its own best element, then all together the best of these, and its first or last place.
    fn joined_arg_fold(
        &mut self,
        (kind, last): (Extreme, bool),
        dtype: DType,
        (axis, size): (Local, ExprId),
        value: ExprId,
        store: Store,
        mut scalars: Scalars,
    ) {
        let ty = (self.dialect.type_name)(dtype);
        let (known, k) = (self.program.pool.as_int(size), name(axis));
        let small = known.is_some_and(|n| n < i32::MAX as i64);
        let places = if small { "int32_t" } else { "int64_t" };
        // A lane without elements has none, which no other lane prefers.
        let none = match (last, small) {
            (true, _) => "-1",
            (false, true) => "INT32_MAX",
            (false, false) => "INT64_MAX",
        };
        let worst = match kind {
            Extreme::Max => neutral(ReduceOp::Max, computed(dtype)),
            Extreme::Min => neutral(ReduceOp::Min, computed(dtype)),
        };
        let extent = self.size(size);
        self.text
            .line(format!("{ty} best = {worst}; {places} place = {none};"));
        self.rolled_in_part();
        self.text.line(format!(
            "for (int64_t {k} = member; {k} < {}; {k} += members) {{",
            bare(&extent)
        ));
        let x = scalars.write(self.text, value);
        let better = better(kind, last, dtype);
        for line in [
            format!("const {ty} x = {}, old = best;", bare(&x)),
            format!("const int take = {better} | (place == {none});"),
            "best = take ? x : old;".into(),
            format!("place = take ? ({places}){k} : place;"),
            "}".into(),
            format!("const {ty} own = best;"),
        ] {
            self.text.line(line);
        }
        let strictly = |x, old| strictly(kind, dtype, x, old);
        self.join("best", ty, &format!("({} ? b : a)", strictly("b", "a")));
        let same = same(dtype, "own", "best");
        self.text
            .line(format!("place = {same} ? place : ({places}){none};"));
        let sooner = if last { ">" } else { "<" };
        self.join("place", places, &format!("(b {sooner} a ? b : a)"));
        self.open_store();
        let offset = self.size(store.offset);
        self.store(store.buffer, &offset, "place");
        self.close_store();
    }

    /// Finds the best of the partial results; `at` is its index.
    fn best_of_partial(&mut self, kind: Extreme, last: bool, dtype: DType) {
        let ty = (self.dialect.type_name)(dtype);
        self.text.line("int64_t at = 0;");
        self.text.line("for (int64_t c = 1; c < width; c++) {");
        self.text
            .line(format!("const {ty} x = best[c], old = best[at];"));
        let sooner = if last { ">" } else { "<" };
        let same = same(dtype, "x", "old");
        self.text.line(format!(
            "if ({} | ({same} & (place[c] {sooner} place[at]))) at = c;",
            strictly(kind, dtype, "x", "old")
        ));
        self.text.line("}");
    }
}

/// The condition under which `x`, a later value, replaces `old`.
fn better(kind: Extreme, last: bool, dtype: DType) -> String {
    if !last {
        return strictly(kind, dtype, "x", "old");
    }
    let sign = if kind == Extreme::Max { ">=" } else { "<=" };
    match dtype.is_float() {
        true => format!("(x {sign} old) | (x != x)"),
        false => format!("x {sign} old"),
    }
}

/// The condition under which `x` is more extreme than `old`.
fn strictly(kind: Extreme, dtype: DType, x: &str, old: &str) -> String {
    let sign = if kind == Extreme::Max { ">" } else { "<" };
    match dtype.is_float() {
        true => format!("(({x} {sign} {old}) | (({x} != {x}) & ({old} == {old})))"),
        false => format!("({x} {sign} {old})"),
    }
}

/// The condition under which neither of two is more extreme.
fn same(dtype: DType, x: &str, old: &str) -> String {
    match dtype.is_float() {
        true => format!("(({x} == {old}) | (({x} != {x}) & ({old} != {old})))"),
        false => format!("({x} == {old})"),
    }
}
