//! Loops over axes. Neighbouring axes that all accesses traverse as one are merged, so that the
//! innermost loop is long enough for vectors; loop-invariant parts are hoisted.

use heddle_uprogram::ExprId;
use heddle_uprogram::program::{Local, UProgram};

use crate::dialect::Lanes;
use crate::operator::{BOUNDS, Writer};
use crate::scalar::{Scalars, bare, name};
use heddle_uprogram::step::{Step, offsets};

/// A merged loop over axes `first..=last`, with the last one's variable; those of the others are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// The outermost axis.
    pub first: usize,
    /// The innermost axis.
    pub last: usize,
}

/// A loop for each axis.
pub fn unmerged(axes: &[(Local, ExprId)]) -> Vec<Level> {
    let axes = 0..axes.len();
    axes.map(|k| Level { first: k, last: k }).collect()
}

/// True if a step along the outer axis equals `extent` steps along the inner one.
fn together(
    program: &UProgram,
    outer: Local,
    inner: Local,
    extent: &Step,
    values: &[ExprId],
    stores: &[ExprId],
) -> bool {
    let loads = values.iter().map(|&v| offsets(program, v, &[outer, inner]));
    let Some(loads) = loads.collect::<Option<Vec<_>>>() else {
        return false;
    };
    loads.iter().flatten().chain(stores).all(|&offset| {
        let far = Step::of(program, offset, outer);
        let near = Step::of(program, offset, inner);
        far.is_some() && far == near.and_then(|near| near.times(extent))
    })
}

impl Writer<'_> {
    /// The loops over axes, some of which may be split, outermost first. `values` are evaluated at
    /// each point, and `stores` are offsets of results. With lanes, axes are not merged, since the
    /// assignment of points to lanes follows from them.
    pub fn levels(
        &self,
        axes: &[(Local, ExprId)],
        split: &[usize],
        values: &[ExprId],
        stores: &[ExprId],
    ) -> Vec<Level> {
        let merges = self.dialect.lanes.is_none() || self.divides_points();
        self.merged(merges, axes, split, values, stores)
    }

    /// The loops over reduced axes. Lanes that reduce a point together divide the innermost one, the longer the better.
    pub fn reduced_levels(&self, axes: &[(Local, ExprId)], value: ExprId) -> Vec<Level> {
        let merges = self.dialect.lanes.is_none() || self.is_joined();
        self.merged(merges, axes, &[], &[value], &[])
    }

    fn merged(
        &self,
        merges: bool,
        axes: &[(Local, ExprId)],
        split: &[usize],
        values: &[ExprId],
        stores: &[ExprId],
    ) -> Vec<Level> {
        let program = self.program;
        let mut levels = vec![];
        let mut last = axes.len();
        while let Some(inner) = last.checked_sub(1) {
            let mut first = inner;
            let mut extent = Step::size(program, axes[inner].1);
            while let (Some(outer), Some(size)) = (first.checked_sub(1), &extent)
                && !split.contains(&first)
                && merges
                && together(program, axes[outer].0, axes[inner].0, size, values, stores)
            {
                extent = Step::size(program, axes[outer].1).and_then(|s| s.times(size));
                first = outer;
            }
            levels.push(Level { first, last: inner });
            last = first;
        }
        levels.reverse();
        levels
    }

    /// Ensures that a point exists, so that loops may hoist: returns from the function if none
    /// does. False if that is impossible here and there may be none.
    pub fn has_points(&mut self) -> bool {
        let empty = |w: &Self, size| w.program.pool.as_int(size).is_none_or(|n| n <= 0);
        if self.in_chain {
            return !self.op.axes.iter().any(|a| empty(self, a.1));
        }
        for [from, to] in &BOUNDS[..self.op.share.splits().len()] {
            self.text.line(format!("if ({from} >= {to}) return;"));
        }
        for &(_, size) in &self.op.axes {
            if empty(self, size) {
                let size = self.size(size);
                self.text.line(format!("if ({} <= 0) return;", bare(&size)));
            }
        }
        true
    }

    /// The operator's split axes.
    pub fn split_axes(&self) -> Vec<usize> {
        let splits = self.op.share.splits().iter();
        splits.map(|split| split.axis).collect()
    }

    /// The bounds of a loop over parallel axes; opens a loop over the blocks of a split axis with
    /// several, and sets the variables of the outer axes to 0.
    pub fn level(&mut self, level: Level) -> (String, String) {
        let ends = self.ends(level);
        self.at_first(&self.op.axes[level.first..level.last]);
        ends
    }

    /// The bounds of a loop over parallel axes; opens a loop over the blocks of a split axis with several.
    pub fn ends(&mut self, level: Level) -> (String, String) {
        let (from, to) = self.bounds(level.first);
        let inner = &self.op.axes[level.first + 1..=level.last];
        let inner: Vec<_> = inner.iter().map(|a| self.size(a.1)).collect();
        let scaled = |bound: String| match bound.as_str() {
            "0" => bound,
            _ if inner.is_empty() => bound,
            _ => format!("({bound}) * {}", inner.join(" * ")),
        };
        (scaled(from), scaled(to))
    }

    /// Sets the variables of axes to 0.
    pub fn at_first(&mut self, axes: &[(Local, ExprId)]) {
        for &(axis, _) in axes {
            self.text.line(format!("const int64_t {} = 0;", name(axis)));
        }
    }

    /// Opens loops over parallel axes; before each, computes the parts of `roots` that are
    /// invariant in it or in `inner` axes. A point must exist.
    pub fn open(
        &mut self,
        levels: &[Level],
        scalars: &mut Scalars,
        roots: &[ExprId],
        inner: &[Local],
    ) {
        let polled = self.polled(levels);
        if self.op.axes.is_empty() && self.is_joined() && !self.in_chain {
            self.text
                .line("const bool some = group == 0, holds = some && member == 0;");
            self.text.line("(void)some;");
        }
        for (k, &level) in levels.iter().enumerate() {
            let axes = levels[k..].iter().flat_map(|l| l.first..=l.last);
            let own = axes.map(|axis| self.op.axes[axis].0);
            let varying: Vec<_> = own.chain(inner.iter().copied()).collect();
            scalars.hoist(self.text, roots, &varying, &self.op.body);
            let (from, to) = self.level(level);
            let v = name(self.op.axes[level.last].0);
            let innermost = level.last + 1 == self.op.axes.len();
            let divided = innermost && self.divides_points();
            let innermost = innermost && !self.in_chain;
            self.rolled();
            match &self.dialect.lanes {
                Some(_) if innermost && self.is_joined() => self.rounds(&v, &from, &to),
                // Lanes split the innermost loop.
                Some(Lanes { index, count }) if innermost => self.text.line(format!(
                    "for (int64_t {v} = {from} + {index}; {v} < {to}; {v} += {count}) {{"
                )),
                _ if divided => self.text.line(format!(
                    "for (int64_t {v} = member; {v} < {to}; {v} += members) {{"
                )),
                _ => self
                    .text
                    .line(format!("for (int64_t {v} = {from}; {v} < {to}; {v}++) {{")),
            }
            if let Some((_, rarely)) = polled.filter(|p| p.0 == k) {
                match rarely {
                    1 => self.poll(),
                    _ => {
                        self.text.line(format!("if ({v} % {rarely} == 0) {{"));
                        self.poll();
                        self.text.line("}");
                    }
                }
            }
        }
    }

    /// Opens the loop over points that groups of lanes take. Lanes that exchange values within go round equally often, those of a warp, or all of
    /// the unit where each warp has lanes of all groups: lanes for which no point is left compute that of their warp's first group, whose elements
    /// their own warp may read. A warp without points does nothing.
    fn rounds(&mut self, v: &str, from: &str, to: &str) {
        for line in [
            format!("for (int64_t round = {from}; round + lead < {to}; round += groups) {{"),
            format!("const bool some = round + group < {to}, holds = some && member == 0;"),
            format!("const int64_t {v} = round + (some ? group : lead);"),
            "(void)some;".into(),
        ] {
            self.text.line(line);
        }
    }

    /// The innermost loop with nested loops, and the polling interval that makes cancellation
    /// checks negligible. Lanes do not poll within operators.
    fn polled(&self, levels: &[Level]) -> Option<(usize, i64)> {
        /// Fewer points take less time than a cancellation may.
        const MANY: i64 = 2048;
        /// Assumed value of dynamic sizes.
        const UNKNOWN: i64 = 64;
        let size = |&(_, size): &(Local, ExprId)| {
            let known = self.program.pool.as_int(size);
            known.unwrap_or(UNKNOWN).clamp(1, MANY)
        };
        let product = |axes: &[(Local, ExprId)]| {
            let sizes = axes.iter().map(size);
            sizes.fold(1, |p, n| (p * n).min(MANY))
        };
        if self.dialect.lanes.is_some() {
            return None;
        }
        let mut inside = product(self.op.body.axes());
        (0..levels.len()).rev().find_map(|k| {
            let now = inside;
            inside = (now * product(&self.op.axes[levels[k].first..=levels[k].last])).min(MANY);
            (now >= UNKNOWN).then_some((k, MANY / now))
        })
    }

    /// Leaves the function if the run is cancelled, so that time limits hold within long operators.
    /// Lanes must leave together.
    pub fn poll(&mut self) {
        if self.dialect.lanes.is_none() {
            self.text
                .line("if (HEDDLE_UNLIKELY(heddle_poll(env))) return;");
        }
    }

    /// Closes loops over parallel axes.
    pub fn close(&mut self, levels: &[Level]) {
        let blocks = levels
            .iter()
            .filter(|&&level| self.blocks_in(level))
            .count();
        (0..levels.len() + blocks).for_each(|_| self.text.line("}"));
    }

    /// True if these axes are split into several blocks, which takes a loop over blocks.
    pub fn blocks_in(&self, level: Level) -> bool {
        self.has_blocks(level.first)
    }
}
