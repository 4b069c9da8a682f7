//! Writes operators whose points iterate in order: updates, scans, and routines of the prelude on
//! rows.

use heddle_ir::op::{BinaryOp, ReduceOp};
use heddle_ir::{DType, Entity};
use heddle_uprogram::program::{Lanes, Local, Routine, Store};
use heddle_uprogram::step::Step;
use heddle_uprogram::{Expr, ExprId};

use crate::fold::{fold_op, neutral};
use crate::nest::{Level, unmerged};
use crate::operator::Writer;
use crate::peel::{Inside, Loops};
use crate::scalar::{Scalars, bare, combine, computed, loaded, name};

impl<'p> Writer<'p> {
    /// Elements that are written, or combined with old ones, in order. Where the innermost parallel
    /// axis is contiguous, as in rows that are scattered, it becomes the inner loop.
    pub fn update(
        &mut self,
        axes: &[(Local, ExprId)],
        how: Option<BinaryOp>,
        dtype: DType,
        value: ExprId,
        store: Store,
    ) {
        let roots = [value, store.offset];
        let (levels, scalars) = self.points(&roots, axes);
        let outer = match levels.split_last() {
            Some((inner, outer)) if self.is_contiguous(inner.last, store) => outer.len(),
            _ => levels.len(),
        };
        let late = (&roots[..], false);
        self.nest(&levels[..outer], scalars, late, &[], &mut |w, s| {
            w.in_order(axes, s, &roots, &mut |w, s| {
                // A place in the order exists here.
                let rows = (&roots[..], outer < levels.len());
                w.nest(&levels[outer..], s, rows, &[], &mut |w, mut s| {
                    let value = s.write(w.text, value);
                    let offset = s.write(w.text, store.offset);
                    let value = match how {
                        None => value,
                        Some(op) => {
                            let at = format!("b{}[{}]", store.buffer.index(), bare(&offset));
                            let old = loaded(dtype, at);
                            combine(w.dialect, op, dtype, &old, &value)
                        }
                    };
                    w.store(store.buffer, &offset, &value);
                });
            });
        });
    }

    /// A scan. Sums of 16-bit floats are kept in a wider type.
    pub fn scan(
        &mut self,
        (kind, exclusive): (ReduceOp, bool),
        dtype: DType,
        axis: (Local, ExprId),
        value: ExprId,
        store: Store,
    ) {
        let dtype = computed(dtype);
        let roots = [value, store.offset];
        let (levels, scalars) = self.points(&roots, &[axis]);
        let ty = (self.dialect.type_name)(dtype);
        let first = neutral(kind, dtype);
        self.nest(&levels, scalars, (&roots, false), &[], &mut |w, s| {
            w.text.line(format!("{ty} sum = {first};"));
            if w.is_joined() {
                return w.scan_by_lanes((kind, exclusive), dtype, axis, value, store, s);
            }
            w.in_order(&[axis], s, &roots, &mut |w, mut s| {
                let value = s.write(w.text, value);
                let offset = s.write(w.text, store.offset);
                if exclusive {
                    w.store(store.buffer, &offset, "sum");
                }
                let sum = combine(w.dialect, fold_op(kind), dtype, "sum", &value);
                w.text.line(format!("sum = {};", bare(&sum)));
                if !exclusive {
                    w.store(store.buffer, &offset, "sum");
                }
            });
        });
    }

    /// The places of a point, on each of which a lane works: as many at a time as there are lanes. `sum` has what all places before make.
    fn scan_by_lanes(
        &mut self,
        (kind, exclusive): (ReduceOp, bool),
        dtype: DType,
        (local, size): (Local, ExprId),
        value: ExprId,
        store: Store,
        mut scalars: Scalars<'p>,
    ) {
        let (v, size) = (name(local), self.size(size));
        let (ty, first) = ((self.dialect.type_name)(dtype), neutral(kind, dtype));
        let combined = |a: &str, b: &str| {
            let both = combine(self.dialect, fold_op(kind), dtype, a, b);
            bare(&both).to_owned()
        };
        let [joined, begun, ended, next] = [
            ("a", "b"),
            ("sum", "before"),
            ("begun", "own"),
            ("sum", "all"),
        ]
        .map(|(a, b)| combined(a, b));
        let (over, turn) = match self.op.lanes {
            Lanes::Unit(points) => (format!("heddle_scan_unit<{points}>"), "turn, "),
            Lanes::Warp(lanes) => (format!("heddle_scan_warp<{lanes}>"), ""),
            Lanes::Apart | Lanes::Tile(_) => return,
        };
        self.rolled();
        for line in [
            format!("for (int64_t next = 0; next < {size}; next += members) {{"),
            format!("const bool exists = next + member < {size};"),
            format!("const int64_t {v} = exists ? next + member : {size} - 1;"),
        ] {
            self.text.line(line);
        }
        let value = scalars.write(self.text, value);
        for line in [
            format!("const {ty} own = exists ? {value} : {first};"),
            format!("{ty} all = {first}, before = {first};"),
            "{".into(),
            "HEDDLE_HERE;".into(),
            format!(
                "before = {over}(own, before, all, {turn}[]({ty} a, {ty} b) -> {ty} {{ return {joined}; }});"
            ),
            "}".into(),
            format!("const {ty} begun = {begun};"),
            "if (some && exists) {".into(),
        ] {
            self.text.line(line);
        }
        let offset = scalars.write(self.text, store.offset);
        let result = if exclusive { "begun" } else { &ended };
        self.store(store.buffer, &offset, result);
        self.text.line("}");
        self.text.line(format!("sum = {next};"));
        self.text.line("}");
    }

    /// A routine of the prelude on one row.
    pub fn call(
        &mut self,
        routine: Routine,
        dtype: DType,
        source: ExprId,
        args: &[ExprId],
        store: Store,
    ) {
        let Expr::Load(from, place) = self.program.pool[source] else {
            return;
        };
        let (levels, mut scalars) = self.points(&[], &[]);
        self.open(&levels, &mut scalars, &[], &[]);
        let ty = match dtype {
            DType::Bool => DType::U8.name(),
            dtype => dtype.name(),
        };
        let rows = [(from, place), (store.buffer, store.offset)];
        let rows = rows.map(|(buffer, place)| {
            let place = self.size(place);
            format!("&b{}[{}]", buffer.index(), bare(&place))
        });
        let args = args.iter().map(|&arg| self.size(arg));
        let args: Vec<_> = rows.iter().cloned().chain(args).collect();
        let args = args.join(", ");
        self.text
            .line(format!("heddle_{}_{ty}({args});", routine.name()));
        self.close(&levels);
    }

    /// Does a parallel axis step through neighbouring elements? Where lanes share the innermost
    /// loop, it stays outside.
    fn is_contiguous(&self, axis: usize, store: Store) -> bool {
        let local = self.op.axes[axis].0;
        let step = Step::of(self.program, store.offset, local);
        self.dialect.lanes.is_none() && !self.in_chain && step == Some(Step::by(1))
    }

    /// The loops over the parallel axes, unmerged; `axes` iterate in order within them.
    fn points(&mut self, roots: &[ExprId], axes: &[(Local, ExprId)]) -> (Vec<Level>, Scalars<'p>) {
        let levels = unmerged(&self.op.axes);
        self.has_points();
        let around = Loops {
            axes: &self.op.axes,
            levels: &levels,
        };
        let inside = Loops {
            axes,
            levels: &unmerged(axes),
        };
        let scalars = self.scalars(roots, &[around, inside]);
        (levels, scalars)
    }

    /// Loops over axes that iterate in order, in ranges or whole, around a body.
    fn in_order(
        &mut self,
        axes: &[(Local, ExprId)],
        s: Scalars<'p>,
        roots: &[ExprId],
        body: Inside<'_, 'p>,
    ) {
        let Some((&(local, size), others)) = axes.split_first() else {
            return body(self, s);
        };
        let (v, size) = (name(local), self.size(size));
        let level = Level { first: 0, last: 0 };
        for part in self.parts((axes, level), roots, &s.ranges, ["0", &size], "") {
            let [low, high] = &part.ends;
            self.rolled();
            self.text
                .line(format!("for (int64_t {v} = {low}; {v} < {high}; {v}++) {{"));
            let mut own = s.clone();
            own.ranges = part.ranges;
            self.in_order(others, own, roots, body);
            self.text.line("}");
        }
    }
}
