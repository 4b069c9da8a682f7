//! Loops in ranges. The value of a point may depend on where it lies, as in a concatenation, a map with its padding or windows whose
//! places lie in phases. Its axes are cut where a condition or a quotient changes: each range has loops of its own, without tests and
//! divisions.

use std::collections::HashSet;

use heddle_uprogram::program::{Local, UProgram};
use heddle_uprogram::{Expr, ExprId};

use crate::limits::Limit;
use crate::nest::Level;
use crate::operator::Writer;
use crate::ranges::{Ranges, turns};
use crate::scalar::{Scalars, Site, name};

/// The most loop bodies of an operator whose text grows by them, and of any.
const MOST_BODIES: [usize; 2] = [16, 256];

/// The most limits that only the run knows at which an axis is cut.
const MOST_LIMITS: usize = 2;

/// A part of an axis.
pub struct Part {
    /// The ranges within it.
    pub ranges: Ranges,
    /// The bounds of its loop.
    pub ends: [String; 2],
    /// The number of its places, if it is known.
    pub count: Option<i64>,
}

/// Loops over axes: those axes, and how they are merged.
#[derive(Clone, Copy)]
pub struct Loops<'l> {
    pub axes: &'l [(Local, ExprId)],
    pub levels: &'l [Level],
}

impl Loops<'_> {
    /// The outermost loop, and the others.
    fn split(&self) -> Option<(Level, Self)> {
        let (&level, levels) = self.levels.split_first()?;
        Some((level, Self { levels, ..*self }))
    }
}

/// Writes the body of loops.
pub type Inside<'w, 'a> = &'w mut dyn FnMut(&mut Writer<'a>, Scalars<'a>);

impl<'a> Writer<'a> {
    /// The whole ranges of the axes of these loops.
    pub fn ranges(&self, loops: &[Loops]) -> Ranges {
        let mut ranges = self.around.clone();
        for of in loops {
            ranges.cover(self.program, of.axes, of.levels);
        }
        ranges
    }

    /// Decides if loops are cut: that takes away tests or divisions, and the text does not grow too much.
    pub fn cut(
        &self,
        ranges: &mut Ranges,
        loops: &[Loops],
        innermost: Option<Local>,
        roots: &[ExprId],
    ) {
        if self.dialect.lanes.is_some() {
            return;
        }
        let (mut bodies, mut nodes, whole) = (0, 0, self.nodes(roots, ranges));
        ranges.cuts = true;
        ranges.innermost = innermost;
        self.count(loops, roots, ranges, &mut bodies, &mut nodes);
        let [few, most] = MOST_BODIES;
        ranges.cuts = bodies > 1 && (bodies <= few || bodies <= most && nodes <= 2 * whole);
    }

    /// Counts the bodies of loops in ranges, and the expressions in them; stops where they are too many.
    fn count(
        &self,
        loops: &[Loops],
        roots: &[ExprId],
        ranges: &Ranges,
        bodies: &mut usize,
        nodes: &mut usize,
    ) {
        if *bodies > MOST_BODIES[1] {
            return;
        }
        let Some((of, others)) = loops.split_first() else {
            *bodies += 1;
            *nodes += self.nodes(roots, ranges);
            return;
        };
        let Some((level, inner)) = of.split() else {
            return self.count(others, roots, ranges, bodies, nodes);
        };
        let inside = [&[inner], others].concat();
        for part in self.parts((of.axes, level), roots, ranges, ["0", "0"], "") {
            self.count(&inside, roots, &part.ranges, bodies, nodes);
        }
    }

    /// The number of expressions that are evaluated in ranges.
    fn nodes(&self, roots: &[ExprId], ranges: &Ranges) -> usize {
        self.evaluated(roots, ranges).len()
    }

    /// The expressions that are evaluated in ranges.
    fn evaluated(&self, roots: &[ExprId], ranges: &Ranges) -> HashSet<ExprId> {
        let mut open = roots.to_vec();
        let mut seen = HashSet::new();
        while let Some(id) = open.pop() {
            let expr = self.program.pool[id];
            match expr {
                Expr::Select(_, cond, a, b) => match ranges.truth(self.program, cond) {
                    Some(holds) => open.push(if holds { a } else { b }),
                    None if seen.insert(id) => open.extend([cond, a, b]),
                    None => {}
                },
                _ if seen.insert(id) => open.extend(expr.operands()),
                _ => {}
            }
        }
        seen
    }

    /// The parts of a level, whose loop goes from one bound to the other one and counts its places from `base` on.
    pub fn parts(
        &self,
        (axes, level): (&[(Local, ExprId)], Level),
        roots: &[ExprId],
        ranges: &Ranges,
        [from, to]: [&str; 2],
        base: &str,
    ) -> Vec<Part> {
        let (axis, size) = axes[level.last];
        let is_split = axes == self.op.axes.as_slice() && self.blocks_in(level);
        if !ranges.cuts || level.first != level.last || is_split {
            return vec![Part {
                ranges: ranges.within(axis, None),
                ends: [from, to].map(str::to_owned),
                count: None,
            }];
        }
        let size = self.program.pool.as_int(size).filter(|size| *size > 0);
        let mut parts = vec![];
        for [low, high] in self.numbered(axis, size, roots, ranges) {
            let is_whole = from == "0" && base.is_empty();
            let first = match low {
                Some(low) if is_whole => low.to_string(),
                Some(low) => format!("({from} > {low}{base} ? {from} : {low}{base})"),
                None => from.to_owned(),
            };
            let end = match high {
                Some(high) if is_whole => high.to_string(),
                Some(high) => format!("({to} < {high}{base} ? {to} : {high}{base})"),
                None => to.to_owned(),
            };
            let range = size.map(|size| [low.unwrap_or(0), high.unwrap_or(size)]);
            let count = range.filter(|_| is_whole).map(|[low, high]| high - low);
            let part = Part {
                ranges: ranges.within(axis, range),
                ends: [first, end],
                count,
            };
            let limits = self.limits(axis, roots, &part.ranges);
            // More would make too many loops of which most are empty.
            match limits.len() <= MOST_LIMITS {
                true => cut_at(self.program, part, axis, &limits, base, &mut parts),
                false => parts.push(part),
            }
        }
        parts
    }

    /// The ranges of an axis of a known size in which no condition and no quotient changes; the ends of the axis are `None`.
    fn numbered(
        &self,
        axis: Local,
        size: Option<i64>,
        roots: &[ExprId],
        ranges: &Ranges,
    ) -> Vec<[Option<i64>; 2]> {
        let mut ends = vec![];
        if let Some(size) = size {
            for id in self.evaluated(roots, ranges) {
                ends.extend(turns(self.program, id, axis, ranges));
            }
            ends.retain(|end| (1..size).contains(end));
            ends.sort_unstable();
            ends.dedup();
            // Too many to count their bodies.
            if ends.len() >= MOST_BODIES[1] {
                ends.clear();
            }
        }
        let lows = [None].into_iter().chain(ends.iter().copied().map(Some));
        let highs = ends.iter().copied().map(Some).chain([None]);
        lows.zip(highs).map(|(low, high)| [low, high]).collect()
    }

    /// The limits at which conditions change that ranges of numbers leave open.
    fn limits(&self, axis: Local, roots: &[ExprId], ranges: &Ranges) -> Vec<Limit> {
        let all = self.evaluated(roots, ranges).into_iter();
        let mut limits: Vec<_> = all
            .filter_map(|id| ranges.limit(self.program, id, axis))
            .collect();
        limits.sort_unstable();
        limits.dedup();
        limits
    }

    /// For code that evaluates these expressions at each point of loops.
    pub fn scalars(&self, roots: &[ExprId], loops: &[Loops]) -> Scalars<'a> {
        let mut s = Scalars::new(self.program, self.dialect, Site::Parameter, roots);
        s.ranges = self.ranges(loops);
        self.cut(&mut s.ranges, loops, innermost(loops), roots);
        s
    }

    /// Loops over parallel axes around a body, in ranges or whole. Parts of `roots` that are invariant in a loop and in `inner` axes are
    /// computed before it if `early` says that a point exists.
    pub fn nest(
        &mut self,
        levels: &[Level],
        mut s: Scalars<'a>,
        (roots, early): (&[ExprId], bool),
        inner: &[Local],
        body: Inside<'_, 'a>,
    ) {
        if s.ranges.cuts {
            return self.in_ranges(levels, s, (roots, early), inner, body);
        }
        self.open(levels, &mut s, if early { roots } else { &[] }, inner);
        body(self, s);
        self.close(levels);
    }

    fn in_ranges(
        &mut self,
        levels: &[Level],
        mut s: Scalars<'a>,
        (roots, early): (&[ExprId], bool),
        inner: &[Local],
        body: Inside<'_, 'a>,
    ) {
        let Some((&level, others)) = levels.split_first() else {
            return body(self, s);
        };
        let axes = levels.iter().flat_map(|level| level.first..=level.last);
        let own = axes.map(|axis| self.op.axes[axis].0);
        let varying: Vec<_> = own.chain(inner.iter().copied()).collect();
        if early {
            s.hoist(self.text, roots, &varying, &self.op.body);
        }
        let (from, to) = self.level(level);
        let v = name(self.op.axes[level.last].0);
        let axes = &self.op.axes;
        for part in self.parts((axes, level), roots, &s.ranges, [&from, &to], "") {
            let [low, high] = &part.ends;
            self.rolled();
            self.text
                .line(format!("for (int64_t {v} = {low}; {v} < {high}; {v}++) {{"));
            if self.polls(others) {
                self.poll();
            }
            let mut own = s.clone();
            own.ranges = part.ranges;
            self.in_ranges(others, own, (roots, early), inner, body);
            self.text.line("}");
        }
        if self.blocks_in(level) {
            self.text.line("}");
        }
    }

    /// True before the loops of these levels if a check for cancellation is negligible beside them, and outside of them there is none.
    fn polls(&self, inner: &[Level]) -> bool {
        let product = |axes: &[(Local, ExprId)]| {
            let sizes = axes.iter().map(|axis| self.program.pool.as_int(axis.1));
            sizes.fold(1i64, |n, size| n.saturating_mul(size.unwrap_or(64).max(1)))
        };
        let points = |levels: &[Level]| {
            let axes = levels
                .iter()
                .map(|level| product(&self.op.axes[level.first..=level.last]));
            axes.fold(product(self.op.body.axes()), i64::saturating_mul)
        };
        let many = |levels: &[Level]| points(levels) >= 512;
        !self.in_chain && many(inner) && !inner.split_first().is_some_and(|(_, rest)| many(rest))
    }
}

/// The axis of the innermost loop.
pub fn innermost(loops: &[Loops]) -> Option<Local> {
    let mut inner = loops.iter().rev();
    inner.find_map(|of| Some(of.axes[of.levels.last()?.last].0))
}

/// Cuts a part at limits.
fn cut_at(
    program: &UProgram,
    part: Part,
    axis: Local,
    limits: &[Limit],
    base: &str,
    parts: &mut Vec<Part>,
) {
    let Some((limit, others)) = limits.split_first() else {
        return parts.push(part);
    };
    let [from, to] = &part.ends;
    let end = format!("({to} < {limit}{base} ? {to} : {limit}{base})");
    let first = match from == "0" && base.is_empty() && limit.is_natural(program) {
        true => limit.to_string(),
        false => format!("({from} > {limit}{base} ? {from} : {limit}{base})"),
    };
    let ends = [[from.clone(), end], [first, to.clone()]];
    for (ends, is_below) in ends.into_iter().zip([true, false]) {
        let side = Part {
            ranges: part.ranges.on_side(axis, limit, is_below),
            ends,
            count: None,
        };
        cut_at(program, side, axis, others, base, parts);
    }
}
