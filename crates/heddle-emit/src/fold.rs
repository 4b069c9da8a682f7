//! Writes reductions. C fixes the order of floating-point sums, so the writer chooses it: as many
//! partial results side by side as some vector registers hold.

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, ReduceOp};
use heddle_uprogram::ExprId;
use heddle_uprogram::program::{ChainStep, Local, Store};

use crate::clip::Clip;
use crate::fold_tiles::Tile;
use crate::nest::Level;
use crate::operator::Writer;
use crate::peel::{Inside, Loops, innermost};
use crate::ranges::Ranges;
use crate::scalar::{Scalars, Site, bare, combine, computed, name};
use heddle_uprogram::step::{Step, offsets};

/// Bytes of partial results: four registers of 64 bytes, enough to hide the latency of an addition.
const BYTES: i64 = 256;

/// Shorter reductions are fully unrolled.
const FEW: i64 = 8;

/// The dimension computed side by side.
#[derive(Clone, Copy)]
enum Shape {
    /// Nothing.
    Points,
    /// This many neighbouring places of the innermost reduced axis.
    Lanes(i64),
    /// This many neighbouring points along the innermost parallel axis; the same with fewer points
    /// where that many are not left.
    Columns(i64, Option<i64>),
}

/// The current reduction.
pub struct Fold<'a> {
    pub op: BinaryOp,
    pub dtype: DType,
    pub axes: &'a [(Local, ExprId)],
    /// The loops over reduced axes.
    pub inner: Vec<Level>,
    pub value: ExprId,
    pub store: Store,
    /// Maps of the result at its point.
    pub finish: &'a [ChainStep],
    /// The value and those of the maps.
    pub roots: Vec<ExprId>,
    kind: ReduceOp,
    neutral: String,
    /// The sizes of the reduced axes, as C.
    sizes: Vec<String>,
    /// Reduced axes of which only the places between two variables are taken.
    clipped: Vec<Local>,
    /// True if parts of the value that do not vary may be computed before a loop.
    early: bool,
}

impl<'a> Writer<'a> {
    /// A reduction at each point, and maps of its result there.
    pub fn fold(
        &mut self,
        kind: ReduceOp,
        dtype: DType,
        axes: &[(Local, ExprId)],
        (value, store): (ExprId, Store),
        finish: &[ChainStep],
    ) {
        // Sums and products of 16-bit floats are rounded once, at the end.
        let dtype = computed(dtype);
        let maps = finish.iter().map(|step| &step.body);
        let values = maps.clone().flat_map(|map| map.exprs());
        let roots: Vec<_> = [value].into_iter().chain(values).collect();
        let sizes = axes.iter().map(|axis| axis.1);
        let values: Vec<_> = roots.iter().copied().chain(sizes).collect();
        let stores = maps.map(|map| map.store()).chain([store]);
        let stores: Vec<_> = stores.map(|store| store.offset).collect();
        let levels = self.levels(&self.op.axes, &self.split_axes(), &values, &stores);
        // An empty reduction must not evaluate a checked index.
        let some = axes.iter().all(|a| self.program.pool.as_int(a.1) > Some(0));
        let mut fold = Fold {
            op: fold_op(kind),
            dtype,
            axes,
            inner: self.reduced_levels(axes, value),
            value,
            store,
            finish,
            roots,
            kind,
            neutral: neutral(kind, dtype),
            sizes: vec![],
            clipped: vec![],
            early: self.has_points() && some,
        };
        let shape = self.shape(&fold, &levels);
        let mut s = Scalars::new(self.program, self.dialect, Site::Parameter, &[value]);
        s.ranges = self.ranges(&[self.of_points(&levels), fold.loops()]);
        match Tile::of(self, &fold, &levels) {
            Some(tile) => self.in_tiles(&mut fold, s, &levels, &tile, shape),
            None => self.in_shape(&mut fold, s, &levels, shape),
        }
    }

    /// The reduction in tiles along its innermost levels, and in a shape where too few places are left for them.
    fn in_tiles(
        &mut self,
        fold: &mut Fold,
        s: Scalars<'a>,
        levels: &[Level],
        tile: &Tile,
        shape: Shape,
    ) {
        let (outer, own) = levels.split_at(levels.len() - 2);
        let varying = self.varying(fold, own);
        let roots = [fold.value];
        self.nest(outer, s, (&roots, fold.early), &varying, &mut |w, mut s| {
            w.begin(fold, &mut s, own);
            let Some(condition) = w.has_tiles(fold, tile) else {
                return w.tiles(fold, &s, tile);
            };
            w.text.line(format!("if ({condition}) {{"));
            w.tiles(fold, &s, tile);
            w.text.line("} else {");
            w.in_shape(fold, s, own, shape);
            w.text.line("}");
        });
    }

    /// The reduction in a shape, in ranges or whole.
    fn in_shape(&mut self, fold: &mut Fold, mut s: Scalars<'a>, levels: &[Level], shape: Shape) {
        let (levels, columns) = match (shape, levels.split_last()) {
            (Shape::Columns(..), Some((&columns, outer))) => (outer, Some(columns)),
            _ => (levels, None),
        };
        let own = columns.as_slice();
        let clip = columns.and_then(|_| {
            let own = self.locals(own);
            Clip::of(self.program, fold.kind, fold.axes, fold.value, &own)
        });
        // Bounds of windows leave out what lies outside.
        if clip.is_none() {
            let loops = [self.of_points(levels), fold.loops(), self.of_points(own)];
            self.cut(&mut s.ranges, &loops, innermost(&loops), &fold.roots);
        }
        // The maps have their own scalars, for which nothing is computed before loops.
        let roots = fold.roots.clone();
        let (roots, early) = match s.ranges.cuts && !fold.finish.is_empty() {
            true => (&roots[..], false),
            false => (&roots[..1], fold.early),
        };
        let varying = self.varying(fold, own);
        self.nest(levels, s, (roots, early), &varying, &mut |w, mut s| {
            w.begin(fold, &mut s, own);
            match (shape, columns) {
                (Shape::Columns(width, fewer), Some(level)) => match &clip {
                    Some(clip) => {
                        // Most windows lie inside.
                        let inside = w.clip_bounds(clip, &s, fold.axes);
                        s.ranges.hold(clip.inside);
                        w.text.line(format!("if (HEDDLE_LIKELY({inside})) {{"));
                        w.columns(fold, &s, level, width, fewer);
                        w.text.line("} else {");
                        fold.clipped = clip.axes();
                        w.columns(fold, &s, level, width, fewer);
                        fold.clipped.clear();
                        w.text.line("}");
                    }
                    None => w.columns(fold, &s, level, width, fewer),
                },
                (Shape::Lanes(width), _) => w.lanes(fold, s, width),
                _ => w.one_after_the_other(fold, s),
            }
        });
    }

    /// Before the loops of a point or of these levels: the sizes of reduced axes, and what does not vary in the loops.
    fn begin(&mut self, fold: &mut Fold, s: &mut Scalars, own: &[Level]) {
        let sizes = fold.axes.iter();
        fold.sizes = sizes.map(|axis| self.bound_size(s, axis.1)).collect();
        if fold.early {
            let varying = self.varying(fold, own);
            s.hoist(self.text, &[fold.value], &varying, &self.op.body);
        }
    }

    /// Chooses the axis along which elements are contiguous.
    fn shape(&self, fold: &Fold, levels: &[Level]) -> Shape {
        if self.dialect.lanes.is_some() {
            return Shape::Points;
        }
        let offsets = offsets(self.program, fold.value, &[]).unwrap_or_default();
        let close = |axis: Local| {
            let near = |s: &Step| *s == Step::STILL || *s == Step::by(1);
            let step = |&o: &ExprId| Step::of(self.program, o, axis);
            offsets.iter().all(|o| step(o).as_ref().is_some_and(near))
        };
        let most = BYTES / (fold.dtype.bits() as i64 / 8).max(1);
        let width = |extent: Option<i64>| match extent {
            Some(n) if n < most => (n.max(1) as u64 + 1).next_power_of_two() as i64 / 2,
            _ => most,
        };
        let depth = fold
            .inner
            .last()
            .map(|level| self.extent(fold.axes, *level));
        if let (Some(level), Some(depth)) = (fold.inner.last(), depth)
            && depth.is_none_or(|n| n >= FEW)
            && close(fold.axes[level.last].0)
        {
            return Shape::Lanes(width(depth));
        }
        let depends = |axis: Local| {
            let mut sizes = fold.axes.iter();
            sizes.any(|a| self.program.locals_of(a.1).contains(&axis))
        };
        if let Some(level) = levels.last()
            && !depends(self.op.axes[level.last].0)
            && self.extent(&self.op.axes, *level).is_none_or(|n| n >= FEW)
            && close(self.op.axes[level.last].0)
        {
            let extent = self.extent(&self.op.axes, *level);
            // A unit may have only a small part of a split axis.
            let split = self.split_axes().contains(&level.first);
            let short = split && extent.is_some_and(|n| n < 4 * most);
            let even = extent.filter(|_| !split).map(|n| even_part(n, most));
            return Shape::Columns(even.unwrap_or(most), short.then_some(most / 4));
        }
        Shape::Points
    }

    /// A size as C: one that is read from memory at this point is a variable.
    fn bound_size(&mut self, scalars: &mut Scalars, size: ExprId) -> String {
        match self.program.pool.loads([size]).is_empty() {
            true => self.size(size),
            false => scalars.bind(self.text, size),
        }
    }

    /// The trip count of a loop, if static.
    pub fn extent(&self, axes: &[(Local, ExprId)], level: Level) -> Option<i64> {
        let mut sizes = axes[level.first..=level.last].iter();
        sizes.try_fold(1i64, |n, a| n.checked_mul(self.program.pool.as_int(a.1)?))
    }

    fn of_points<'l>(&'l self, levels: &'l [Level]) -> Loops<'l> {
        let axes = &self.op.axes;
        Loops { axes, levels }
    }

    /// The axes that are reduced, and those of these levels.
    fn varying(&self, fold: &Fold, own: &[Level]) -> Vec<Local> {
        let reduced = fold.axes.iter().map(|axis| axis.0);
        reduced.chain(self.locals(own)).collect()
    }

    /// The parallel axes of these levels.
    pub fn locals(&self, levels: &[Level]) -> Vec<Local> {
        let axes = levels.iter().flat_map(|level| level.first..=level.last);
        axes.map(|axis| self.op.axes[axis].0).collect()
    }

    fn one_after_the_other(&mut self, fold: &Fold, s: Scalars<'a>) {
        let ty = (self.dialect.type_name)(fold.dtype);
        self.text.line(format!("{ty} sum = {};", fold.neutral));
        let around = s.ranges.clone();
        self.reduced(fold, &fold.inner, s, &mut |w, mut s| {
            let value = s.write(w.text, fold.value);
            let sum = combine(w.dialect, fold.op, fold.dtype, "sum", &value);
            w.text.line(format!("sum = {};", bare(&sum)));
        });
        if !fold.inner.is_empty() {
            let joined = combine(self.dialect, fold.op, fold.dtype, "a", "b");
            self.join("sum", ty, &joined);
        }
        self.open_store();
        self.end(fold, "sum", &around);
        self.close_store();
    }

    /// Loops over reduced axes, in ranges or whole, around a body. Lanes that reduce a point together divide the innermost one.
    pub fn reduced(&mut self, fold: &Fold, levels: &[Level], s: Scalars<'a>, body: Inside<'_, 'a>) {
        let Some((&level, others)) = levels.split_first() else {
            return body(self, s);
        };
        let extent = fold.sizes[level.first..=level.last].join(" * ");
        self.at_first(&fold.axes[level.first..level.last]);
        let v = name(fold.axes[level.last].0);
        let innermost = fold.inner.last() == Some(&level);
        let (first, next) = match innermost && self.is_joined() {
            true => ("member", format!("{v} += members")),
            false => ("0", format!("{v}++")),
        };
        let ends = match fold.clipped.contains(&fold.axes[level.last].0) {
            true => [format!("low_{v}"), format!("high_{v}")],
            false => [first.to_owned(), extent],
        };
        let [low, high] = &ends;
        for part in self.parts(
            (fold.axes, level),
            &[fold.value],
            &s.ranges,
            [low, high],
            "",
        ) {
            let [low, high] = &part.ends;
            match innermost {
                true => self.rolled_in_part(),
                false => self.rolled(),
            }
            self.text.line(format!(
                "for (int64_t {v} = {low}; {v} < {high}; {next}) {{"
            ));
            let mut own = s.clone();
            own.ranges = part.ranges;
            self.reduced(fold, others, own, body);
            self.text.line("}");
        }
    }

    /// Partial results for neighbouring places of the innermost reduced axis, combined at the end.
    fn lanes(&mut self, fold: &Fold, s: Scalars<'a>, width: i64) {
        let Some((&last, outer)) = fold.inner.split_last() else {
            return;
        };
        self.partial(fold, width);
        let around = s.ranges.clone();
        self.reduced(fold, outer, s, &mut |w, s| {
            w.at_first(&fold.axes[last.first..last.last]);
            let extent = fold.sizes[last.first..=last.last].join(" * ");
            let known = w.extent(fold.axes, last);
            let v = fold.axes[last.last].0;
            let whole = (fold.axes, last);
            let parts = w.parts(whole, &[fold.value], &s.ranges, ["0", &extent], "");
            let is_cut = parts.len() > 1;
            for part in parts {
                let [low, high] = &part.ends;
                w.text.line(format!(
                    "for (int64_t first = {low}; first < {high}; first += {width}) {{"
                ));
                let count = if is_cut { part.count } else { known };
                let even = count.is_some_and(|n| n % width == 0);
                let mut own = s.clone();
                own.ranges = part.ranges;
                w.side_by_side(width, &format!("{high} - first"), even, |w, count| {
                    w.add(fold, &mut own.clone(), v, &count);
                });
                w.text.line("}");
            }
        });
        let mut half = width / 2;
        while half > 0 {
            let other = format!("sum[c + {half}]");
            let sum = combine(self.dialect, fold.op, fold.dtype, "sum[c]", &other);
            let sum = bare(&sum);
            self.text.line(format!(
                "for (int64_t c = 0; c < {half}; c++) sum[c] = {sum};"
            ));
            half /= 2;
        }
        self.end(fold, "sum[0]", &around);
    }

    /// Stores the result of a point, and writes the maps of it.
    pub fn end(&mut self, fold: &Fold, result: &str, around: &Ranges) {
        if !fold.finish.is_empty() {
            self.row(fold.store.buffer);
        }
        let offset = self.size(fold.store.offset);
        self.store(fold.store.buffer, &offset, result);
        for step in fold.finish {
            self.row(step.body.store().buffer);
            self.step(step, around);
        }
    }

    /// Results for neighbouring points, which stay in registers during the reduction.
    fn columns(
        &mut self,
        fold: &Fold,
        scalars: &Scalars<'a>,
        level: Level,
        width: i64,
        fewer: Option<i64>,
    ) {
        let (from, to) = self.level(level);
        let v = self.op.axes[level.last].0;
        let whole = (&self.op.axes[..], level);
        for part in self.parts(whole, &fold.roots, &scalars.ranges, [&from, &to], "") {
            let [from, to] = &part.ends;
            let mut s = scalars.clone();
            s.ranges = part.ranges;
            let bounds = [from, to].map(|bound| bound.parse::<i64>());
            let even = matches!(bounds, [Ok(from), Ok(to)] if (to - from) % width == 0);
            self.text
                .line(format!("for (int64_t first = {from}; first < {to};) {{"));
            if even {
                self.block(fold, &s, v, width, &width.to_string());
            } else {
                // Without the hint GCC 12 takes a remainder for certain where a static size has none.
                self.text
                    .line(format!("const int64_t rest = {to} - first;"));
                self.text
                    .line(format!("if (HEDDLE_LIKELY(rest >= {width})) {{"));
                self.block(fold, &s, v, width, &width.to_string());
                if let Some(fewer) = fewer {
                    self.text.line(format!("}} else if (rest >= {fewer}) {{"));
                    self.block(fold, &s, v, fewer, &fewer.to_string());
                }
                self.text.line("} else {");
                self.block(fold, &s, v, fewer.unwrap_or(width), "rest");
                self.text.line("}");
            }
            self.text.line("}");
        }
        if self.blocks_in(level) {
            self.text.line("}");
        }
    }

    /// Results for `count` neighbouring points, at most `width`, from `first` on, which it advances.
    fn block(&mut self, fold: &Fold, s: &Scalars<'a>, axis: Local, width: i64, count: &str) {
        self.partial(fold, width);
        self.reduced(fold, &fold.inner, s.clone(), &mut |w, mut s| {
            // GCC 12 would take rows together, and transpose what it loads of each.
            w.text.line("HEDDLE_IN_ORDER;");
            w.add(fold, &mut s, axis, count);
        });
        self.text
            .line(format!("for (int64_t c = 0; c < {count}; c++) {{"));
        self.text
            .line(format!("const int64_t {} = first + c;", name(axis)));
        self.end(fold, "sum[c]", &s.ranges);
        self.text.line("}");
        self.text.line(format!("first += {count};"));
    }

    /// Declares the partial results.
    fn partial(&mut self, fold: &Fold, width: i64) {
        let ty = (self.dialect.type_name)(fold.dtype);
        self.text.line(format!("{ty} sum[{width}];"));
        self.text.line(format!(
            "for (int64_t c = 0; c < {width}; c++) sum[c] = {};",
            fold.neutral
        ));
    }

    /// Code for a full number of lanes, which is a constant, and for the remainder. Without the
    /// hint GCC 12 takes a remainder for certain where a static size has none, and does not
    /// vectorise the other branch.
    pub fn side_by_side(
        &mut self,
        width: i64,
        rest: &str,
        even: bool,
        mut write: impl FnMut(&mut Self, String),
    ) {
        if even {
            return write(self, width.to_string());
        }
        self.text.line(format!("const int64_t rest = {rest};"));
        self.text
            .line(format!("if (HEDDLE_LIKELY(rest >= {width})) {{"));
        write(self, width.to_string());
        self.text.line("} else {");
        write(self, "rest".into());
        self.text.line("}");
    }

    /// Adds an element to each of the partial results for neighbouring places of an axis.
    fn add(&mut self, fold: &Fold, scalars: &mut Scalars, axis: Local, count: &str) {
        scalars.hoist(self.text, &[fold.value], &[axis], &self.op.body);
        self.text
            .line(format!("for (int64_t c = 0; c < {count}; c++) {{"));
        self.text
            .line(format!("const int64_t {} = first + c;", name(axis)));
        let value = scalars.write(self.text, fold.value);
        let sum = combine(self.dialect, fold.op, fold.dtype, "sum[c]", &value);
        self.text.line(format!("sum[c] = {};", bare(&sum)));
        self.text.line("}");
    }
}

impl Fold<'_> {
    fn loops(&self) -> Loops<'_> {
        let (axes, levels) = (self.axes, &self.inner);
        Loops { axes, levels }
    }
}

/// All columns if there are at most `most`; else the largest number of whole vectors up to `most` of which they are a multiple, if
/// that is not few; else `most`.
fn even_part(columns: i64, most: i64) -> i64 {
    if columns <= most {
        return columns;
    }
    let vector = most / 8;
    let even = (1..=most / vector).rev().map(|n| n * vector);
    let mut even = even.filter(|n| columns % n == 0 && *n >= most / 4);
    even.next().unwrap_or(most)
}

/// The operation of a reduction.
pub fn fold_op(kind: ReduceOp) -> BinaryOp {
    match kind {
        ReduceOp::Sum => BinaryOp::Add,
        ReduceOp::Prod => BinaryOp::Mul,
        ReduceOp::Max => BinaryOp::Max,
        ReduceOp::Min => BinaryOp::Min,
    }
}

/// The initial value of a reduction.
pub fn neutral(kind: ReduceOp, dtype: DType) -> String {
    let (low, high) = match dtype {
        DType::F32 | DType::F64 => ("(-INFINITY)".into(), "INFINITY".into()),
        DType::Bool => ("0".into(), "1".into()),
        d if d.is_signed_int() => (
            format!("INT{}_MIN", d.bits()),
            format!("INT{}_MAX", d.bits()),
        ),
        d => ("0".into(), format!("UINT{}_MAX", d.bits())),
    };
    match kind {
        ReduceOp::Sum => "0".into(),
        ReduceOp::Prod => "1".into(),
        ReduceOp::Max => low,
        ReduceOp::Min => high,
    }
}
