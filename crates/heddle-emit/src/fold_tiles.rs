//! Writes sums over windows in tiles of results: neighbouring lines, a vector of each. The sums stay in registers, and an element of the
//! map that several of them take is loaded once for all.

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Entity};
use heddle_uprogram::program::{Body, BufferKind, Local, Store, UProgram};
use heddle_uprogram::step::Step;
use heddle_uprogram::{Expr, ExprId};

use crate::fold::Fold;
use crate::nest::Level;
use crate::operator::Writer;
use crate::peel::{Loops, innermost};
use crate::ranges::Ranges;
use crate::scalar::{Scalars, Site, bare, name};

/// Limit on the lines of a tile: sums of as many vectors hide the latency of an addition and leave registers for the factors of a column of
/// a window.
const MOST_LINES: i64 = 8;

/// Lines of a tile where their number is dynamic.
const LINES: i64 = 4;

/// Limit on the sums that are written out for a column of a window.
const MOST_SUMS: i64 = 64;

/// Bytes of vectors.
const VECTORS: [i64; 3] = [64, 32, 16];

/// A tile of a sum.
pub struct Tile {
    line: Level,
    column: Level,
    /// The element of the map.
    map: ExprId,
    /// The element's factor, the same for neighbouring results.
    factor: Option<ExprId>,
    /// Lines of a tile.
    lines: i64,
    /// Bytes of a vector, if vectors are that long.
    bytes: i64,
    taps: Option<Taps>,
}

/// A reduced axis along which windows of neighbouring lines overlap.
struct Taps {
    level: Level,
    count: i64,
    /// Elements of the map, in units, from a line to the next one's and from a tap to the next one.
    per_line: i64,
    per_tap: i64,
}

impl Tile {
    /// The tile of a sum of elements of a map or of products of these, if neighbours along the innermost axis take neighbours, lines along the
    /// one before take elements at the same distance, and only the elements of the map depend on these two axes.
    pub fn of(w: &Writer, fold: &Fold, levels: &[Level]) -> Option<Self> {
        let program = w.program;
        let [.., line, column] = *levels else {
            return None;
        };
        let is_blocked = [line, column].iter().any(|level| w.blocks_in(*level));
        // Results may be computed twice.
        let last = fold
            .finish
            .last()
            .map_or(fold.store, |step| step.body.store());
        let read = program.pool.loads(fold.roots.iter().copied());
        let is_updated = read.iter().any(|load| load.0 == last.buffer);
        // Tiles have no ranges of their own.
        let is_test = |e| matches!(e, Expr::Compare(_, DType::I64, ..));
        let tests = fold.roots.iter().any(|&e| program.pool.any(e, &is_test));
        if w.dialect.lanes.is_some() || fold.op != BinaryOp::Add || is_blocked {
            return None;
        }
        if is_updated || tests {
            return None;
        }
        let size = match fold.dtype {
            DType::F32 => 4,
            DType::F64 => 8,
            _ => return None,
        };
        let [line_axis, column_axis] = [line, column].map(|level| w.op.axes[level.last].0);
        let own = w.locals(&[line, column]);
        let is_free = |e: ExprId| !program.locals_of(e).iter().any(|local| own.contains(local));
        let is_map = |e: ExprId| is_element(program, fold.dtype, e, column_axis);
        let (map, factor) = match program.pool[fold.value] {
            Expr::Binary(BinaryOp::Mul, _, a, b) if is_map(a) && is_free(b) => (a, Some(b)),
            Expr::Binary(BinaryOp::Mul, _, a, b) if is_map(b) && is_free(a) => (b, Some(a)),
            _ if is_map(fold.value) => (fold.value, None),
            _ => return None,
        };
        let Expr::Load(_, offset) = program.pool[map] else {
            return None;
        };
        let per_line = Step::of(program, offset, line_axis).filter(|step| *step != Step::STILL)?;
        if !fold.axes.iter().all(|axis| is_free(axis.1)) {
            return None;
        }
        let split = w.split_axes();
        let known = |level: Level| {
            w.extent(&w.op.axes, level)
                .filter(|_| !split.contains(&level.first))
        };
        let bytes = match known(column) {
            Some(n) => VECTORS.into_iter().find(|bytes| bytes / size <= n)?,
            None => VECTORS[0],
        };
        let overlaps = |level: &Level| Taps::of(w, fold, *level, offset, &per_line);
        let taps = fold.inner.iter().find_map(overlaps);
        let most = taps.as_ref().map_or(MOST_LINES, |taps| {
            (MOST_SUMS / taps.count).clamp(2, MOST_LINES)
        });
        let lines = match known(line) {
            Some(..=1) => return None,
            // Tiles of about the same height.
            Some(n) => {
                let tiles = (n + most - 1) / most;
                (n + tiles - 1) / tiles
            }
            None => LINES.min(most),
        };
        Some(Self {
            line,
            column,
            map,
            factor,
            lines,
            bytes,
            taps,
        })
    }
}

/// True for an element of memory whose neighbour along an axis is the next one.
fn is_element(program: &UProgram, dtype: DType, e: ExprId, axis: Local) -> bool {
    let Expr::Load(buffer, offset) = program.pool[e] else {
        return false;
    };
    let data = &program.buffers[buffer];
    let is_plain = !matches!(data.kind, BufferKind::Table(_)) && data.dtype == dtype;
    is_plain && Step::of(program, offset, axis) == Some(Step::by(1))
}

/// True if an expression reads the result of the sum.
fn reads(program: &UProgram, e: ExprId, fold: &Fold) -> bool {
    let loads = program.pool.loads([e]);
    loads.iter().any(|load| load.0 == fold.store.buffer)
}

impl Taps {
    fn of(w: &Writer, fold: &Fold, level: Level, offset: ExprId, per_line: &Step) -> Option<Self> {
        let count = w.extent(fold.axes, level)?;
        let axis = fold.axes[level.last].0;
        let per_tap = Step::of(w.program, offset, axis).filter(|step| *step != Step::STILL)?;
        let taps = |per_line, per_tap| Self {
            level,
            count,
            per_line,
            per_tap,
        };
        let times = |step: &Step, n: i64| step.times(&Step::by(n));
        let found = (1..count).find_map(|n| {
            if times(&per_tap, n).as_ref() == Some(per_line) {
                return Some(taps(n, 1));
            }
            (times(per_line, n) == Some(per_tap.clone())).then(|| taps(1, n))
        });
        found.filter(|taps| taps.count <= MOST_SUMS / 2)
    }
}

impl<'a> Writer<'a> {
    /// A condition under which the sum has whole tiles, if sizes do not decide it.
    pub fn has_tiles(&mut self, fold: &Fold, tile: &Tile) -> Option<String> {
        let split = self.split_axes();
        let mut conditions = vec![];
        for (level, least) in [
            (tile.line, tile.lines.to_string()),
            (tile.column, self.lanes_of(fold, tile)),
        ] {
            let known = self.extent(&self.op.axes, level);
            if known.is_none() || split.contains(&level.first) {
                let (from, to) = self.ends(level);
                conditions.push(match from.as_str() {
                    "0" => format!("{to} >= {least}"),
                    _ => format!("{to} - {from} >= {least}"),
                });
            }
        }
        (!conditions.is_empty()).then(|| conditions.join(" && "))
    }

    /// The sum in tiles. The last ones are moved back so that they are whole: some results are then computed twice.
    pub fn tiles(&mut self, fold: &Fold, s: &Scalars<'a>, tile: &Tile) {
        let (lines, lanes) = (tile.lines, self.lanes_of(fold, tile));
        let [down, right] = [tile.line, tile.column].map(|level| name(self.op.axes[level.last].0));
        for (level, at, step) in [
            (tile.line, "top", lines.to_string()),
            (tile.column, "left", lanes),
        ] {
            let (from, to) = self.level(level);
            self.text.line(format!(
                "for (int64_t next_{at} = {from}; next_{at} < {to}; next_{at} += {step}) {{"
            ));
            self.text.line(format!(
                "const int64_t {at} = next_{at} + {step} <= {to} ? next_{at} : {to} - {step};"
            ));
            if level == tile.line {
                self.poll();
            }
        }
        let vector = self.vector_of(fold, tile);
        for r in 0..lines {
            self.text.line(format!("{vector} sum{r} = {{0}};"));
        }
        self.text.line("{");
        self.text
            .line(format!("const int64_t {down} = top, {right} = left;"));
        self.add_tile(fold, s.clone(), tile);
        self.text.line("}");
        for r in 0..lines {
            self.text.line("{");
            self.text.line(format!("const int64_t {down} = top + {r};"));
            self.store_line(fold, tile, r, &s.ranges);
            self.text.line("}");
        }
        self.text.line("}");
        self.text.line("}");
    }

    /// Adds all elements of the windows to the sums.
    fn add_tile(&mut self, fold: &Fold, mut s: Scalars<'a>, tile: &Tile) {
        let taps = tile.taps.as_ref().map(|taps| taps.level);
        let inner = fold.inner.iter().copied();
        let inner: Vec<Level> = inner.filter(|level| taps != Some(*level)).collect();
        let loops = [Loops {
            axes: fold.axes,
            levels: &inner,
        }];
        self.cut(&mut s.ranges, &loops, innermost(&loops), &[fold.value]);
        self.reduced(fold, &inner, s, &mut |w, s| w.add_column(fold, &s, tile));
    }

    /// Adds the elements of a column of the windows.
    fn add_column(&mut self, fold: &Fold, s: &Scalars<'a>, tile: &Tile) {
        let (taps, per_line, per_tap) = match &tile.taps {
            Some(taps) => (taps.count, taps.per_line, taps.per_tap),
            None => (1, 1, 0),
        };
        let known = self.first_element(fold, s, tile);
        if let Some(factor) = tile.factor {
            let ty = (self.dialect.type_name)(fold.dtype);
            for t in 0..taps {
                self.text.line(format!("{ty} factor{t};"));
                self.text.line("{");
                self.at_tap(fold, tile, t);
                let value = s.clone().write(self.text, factor);
                self.text.line(format!("factor{t} = {};", bare(&value)));
                self.text.line("}");
            }
        }
        let vector = self.vector_of(fold, tile);
        let mut sums: Vec<_> = (0..tile.lines)
            .flat_map(|r| (0..taps).map(move |t| (r * per_line + t * per_tap, r, t)))
            .collect();
        sums.sort_unstable();
        for same in sums.chunk_by(|a, b| a.0 == b.0) {
            let place = match (same[0].0, known) {
                (n, Some(unit)) => (n * unit).to_string(),
                (n, None) => format!("{n} * unit"),
            };
            self.text.line("{");
            self.text
                .line(format!("{vector} x = *(const {vector} *)(at + {place});"));
            if same.len() > 1 {
                self.text.line("HEDDLE_IN_REGISTER(x);");
            }
            for (_, r, t) in same {
                self.text.line(match tile.factor {
                    Some(_) => format!("sum{r} += x * factor{t};"),
                    None => format!("sum{r} += x;"),
                });
            }
            self.text.line("}");
        }
    }

    /// Declares the place of the first element of a column, `at`, and the number of elements in a unit, `unit`, unless it is returned.
    fn first_element(&mut self, fold: &Fold, s: &Scalars<'a>, tile: &Tile) -> Option<i64> {
        let ty = (self.dialect.type_name)(fold.dtype);
        let Expr::Load(buffer, offset) = self.program.pool[tile.map] else {
            unreachable!("a map's element is loaded");
        };
        let unit = match &tile.taps {
            Some(taps) if taps.per_tap == 1 => fold.axes[taps.level.last].0,
            _ => self.op.axes[tile.line.last].0,
        };
        let known = Step::of(self.program, offset, unit).and_then(|step| step.as_int());
        self.text.line(format!("const {ty} *at;"));
        if known.is_none() {
            self.text.line("int64_t unit;");
        }
        self.text.line("{");
        self.at_tap(fold, tile, 0);
        let first = s.clone().write(self.text, offset);
        self.text
            .line(format!("at = &b{}[{}];", buffer.index(), bare(&first)));
        if known.is_none() {
            let v = name(unit);
            self.text.line(format!(
                "const int64_t first = {}, {v}_now = {v};",
                bare(&first)
            ));
            self.text.line("{");
            self.text.line(format!("const int64_t {v} = {v}_now + 1;"));
            let next = s.clone().write(self.text, offset);
            self.text.line(format!("unit = {} - first;", bare(&next)));
            self.text.line("}");
        }
        self.text.line("}");
        known
    }

    /// Sets the variables of the axis of taps to a tap.
    fn at_tap(&mut self, fold: &Fold, tile: &Tile, tap: i64) {
        let Some(taps) = &tile.taps else {
            return;
        };
        let Level { first, last } = taps.level;
        self.at_first(&fold.axes[first..last]);
        let v = name(fold.axes[last].0);
        self.text.line(format!("const int64_t {v} = {tap};"));
    }

    /// Stores the sums of a line.
    fn store_line(&mut self, fold: &Fold, tile: &Tile, r: i64, around: &Ranges) {
        let (vector, lanes) = (self.vector_of(fold, tile), self.lanes_of(fold, tile));
        let (axis, ty) = (
            self.op.axes[tile.column.last].0,
            (self.dialect.type_name)(fold.dtype),
        );
        let v = name(axis);
        if let Some((store, value)) = self.in_vectors(fold, axis) {
            self.text.line(format!("const int64_t {v} = left;"));
            let site = Site::Parameter;
            let mut scalars = Scalars::new(self.program, self.dialect, site, &[value]);
            scalars.ranges = around.clone();
            let sum = format!("sum{r}");
            let value = match fold.finish {
                [] => sum,
                _ => self.vector_value(&mut scalars, fold, (axis, value), [&vector, &sum]),
            };
            let offset = self.size(store.offset);
            let b = store.buffer.index();
            return self
                .text
                .line(format!("*({vector} *)&b{b}[{}] = {value};", bare(&offset)));
        }
        self.text.line(format!("{ty} sum[{lanes}];"));
        self.text.line(format!("*({vector} *)sum = sum{r};"));
        self.text.line("HEDDLE_ROLLED");
        self.text
            .line(format!("for (int64_t c = 0; c < {lanes}; c++) {{"));
        self.text.line(format!("const int64_t {v} = left + c;"));
        self.end(fold, "sum[c]", around);
        self.text.line("}");
    }

    /// The last store of a result and its value, if vectors are as good for both as scalars.
    fn in_vectors(&self, fold: &Fold, axis: Local) -> Option<(Store, ExprId)> {
        let program = self.program;
        let (store, value) = match fold.finish {
            [] => (fold.store, fold.value),
            [step] => match step.body {
                Body::Map { store, value } => (store, value),
                _ => return None,
            },
            _ => return None,
        };
        let next = Step::of(program, store.offset, axis) == Some(Step::by(1));
        let is_same = program.buffers[store.buffer].dtype == fold.dtype;
        let mut open = if fold.finish.is_empty() {
            vec![]
        } else {
            vec![value]
        };
        while let Some(e) = open.pop() {
            match program.pool[e] {
                Expr::Load(buffer, _) if buffer == fold.store.buffer => {}
                _ if !program.locals_of(e).contains(&axis) && !reads(program, e, fold) => {}
                _ if is_element(program, fold.dtype, e, axis) => {}
                Expr::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, dtype, a, b)
                    if dtype == fold.dtype =>
                {
                    open.extend([a, b]);
                }
                _ => return None,
            }
        }
        let is_of_sum = fold.finish.is_empty() || reads(program, value, fold);
        (next && is_same && is_of_sum).then_some((store, value))
    }

    /// A value that [`in_vectors`](Self::in_vectors) admits, as C.
    fn vector_value(
        &mut self,
        scalars: &mut Scalars,
        fold: &Fold,
        (axis, value): (Local, ExprId),
        [vector, sum]: [&str; 2],
    ) -> String {
        let program = self.program;
        match program.pool[value] {
            Expr::Load(buffer, _) if buffer == fold.store.buffer => sum.to_owned(),
            _ if !program.locals_of(value).contains(&axis) && !reads(program, value, fold) => {
                scalars.write(self.text, value)
            }
            Expr::Load(buffer, offset) => {
                let offset = scalars.write(self.text, offset);
                let b = buffer.index();
                format!("*(const {vector} *)&b{b}[{}]", bare(&offset))
            }
            Expr::Binary(op, _, a, b) => {
                let op = match op {
                    BinaryOp::Add => "+",
                    BinaryOp::Sub => "-",
                    _ => "*",
                };
                let [a, b] =
                    [a, b].map(|e| self.vector_value(scalars, fold, (axis, e), [vector, sum]));
                format!("({a} {op} {b})")
            }
            _ => unreachable!("a value that vectors do not have"),
        }
    }

    fn vector_of(&self, fold: &Fold, tile: &Tile) -> String {
        let ty = (self.dialect.type_name)(fold.dtype);
        format!("heddle_{ty}_{}", tile.bytes)
    }

    /// Elements of a vector, as C.
    fn lanes_of(&self, fold: &Fold, tile: &Tile) -> String {
        let ty = (self.dialect.type_name)(fold.dtype);
        format!("heddle_lanes_{ty}_{}", tile.bytes)
    }
}
