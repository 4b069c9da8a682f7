//! Maps whose value depends on where a point lies, such as a concatenation or a map with its padding, in ranges of their axes within
//! which the conditions hold or do not: each has loops of its own, without tests.

use std::collections::{HashMap, HashSet};

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, CompareOp, UnaryOp};
use heddle_uprogram::program::{Local, Store, UProgram};
use heddle_uprogram::{Expr, ExprId};

use crate::nest::Level;
use crate::operator::Writer;
use crate::scalar::{Scalars, name};

/// Points from which on loops of their own are worth their text. A dynamic size counts as 64.
const LEAST_POINTS: i64 = 1024;

/// The most loop bodies of an operator.
const MOST_BODIES: usize = 16;

/// Limit on the depth to which sums and conditions are read, since a shared part is read once for each place where it stands.
const DEPTH: usize = 12;

/// Facts about variables in a block of code.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    /// Their values, from the first up to but without the second.
    values: HashMap<Local, [i64; 2]>,
    /// Conditions that hold.
    holding: HashSet<ExprId>,
}

impl Ranges {
    fn with(&self, local: Local, range: [i64; 2]) -> Self {
        let mut ranges = self.clone();
        ranges.values.insert(local, range);
        ranges
    }

    /// Says that a condition holds.
    pub fn hold(&mut self, cond: ExprId) {
        self.holding.insert(cond);
    }

    /// The truth of a condition, if it is the same for all of these values.
    pub fn truth(&self, program: &UProgram, cond: ExprId) -> Option<bool> {
        match self.values.is_empty() {
            _ if self.holding.contains(&cond) => Some(true),
            true => None,
            false => self.truth_in(program, cond, DEPTH),
        }
    }

    fn truth_in(&self, program: &UProgram, cond: ExprId, depth: usize) -> Option<bool> {
        let depth = depth.checked_sub(1)?;
        match program.pool[cond] {
            Expr::Num(DType::Bool, bits) => Some(bits != 0),
            Expr::Unary(UnaryOp::Not, DType::Bool, a) => Some(!self.truth_in(program, a, depth)?),
            Expr::Binary(op @ (BinaryOp::And | BinaryOp::Or), DType::Bool, a, b) => {
                // The value of one that decides the other's.
                let decides = op == BinaryOp::Or;
                let sides = [a, b].map(|side| self.truth_in(program, side, depth));
                match (sides[0], sides[1]) {
                    (Some(a), _) if a == decides => Some(a),
                    (_, Some(b)) if b == decides => Some(b),
                    (Some(_), Some(b)) => Some(b),
                    _ => None,
                }
            }
            Expr::Compare(op, DType::I64, a, b) => {
                let [low, high] = self.bounds(program, a, DEPTH)?;
                let [least, most] = self.bounds(program, b, DEPTH)?;
                match op {
                    CompareOp::Lt => decided(high < least, low >= most),
                    CompareOp::Le => decided(high <= least, low > most),
                    CompareOp::Gt => decided(low > most, high <= least),
                    CompareOp::Ge => decided(low >= most, high < least),
                    CompareOp::Eq => decided(
                        low == high && least == most && low == least,
                        high < least || low > most,
                    ),
                    CompareOp::Ne => decided(
                        high < least || low > most,
                        low == high && least == most && low == least,
                    ),
                }
            }
            _ => None,
        }
    }

    /// The least and the largest value of an integer, as far as sums and multiples say.
    fn bounds(&self, program: &UProgram, id: ExprId, depth: usize) -> Option<[i64; 2]> {
        let depth = depth.checked_sub(1)?;
        match program.pool[id] {
            Expr::Num(DType::I64, bits) => Some([bits as i64; 2]),
            Expr::Local(local) => self.values.get(&local).map(|[from, to]| [*from, to - 1]),
            Expr::Binary(op, DType::I64, a, b) => {
                let (a, b) = (
                    self.bounds(program, a, depth)?,
                    self.bounds(program, b, depth)?,
                );
                match op {
                    BinaryOp::Add => Some([a[0].checked_add(b[0])?, a[1].checked_add(b[1])?]),
                    BinaryOp::Sub => Some([a[0].checked_sub(b[1])?, a[1].checked_sub(b[0])?]),
                    BinaryOp::Mul if b[0] == b[1] && b[0] >= 0 => {
                        Some([a[0].checked_mul(b[0])?, a[1].checked_mul(b[0])?])
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

fn decided(holds: bool, fails: bool) -> Option<bool> {
    match (holds, fails) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

/// An integer as `factor * local + rest`.
fn linear(program: &UProgram, id: ExprId, local: Local, depth: usize) -> Option<(i64, i64)> {
    let depth = depth.checked_sub(1)?;
    match program.pool[id] {
        Expr::Num(DType::I64, bits) => Some((0, bits as i64)),
        Expr::Local(other) => (other == local).then_some((1, 0)),
        Expr::Binary(op, DType::I64, a, b) => {
            let a = linear(program, a, local, depth)?;
            let b = linear(program, b, local, depth)?;
            match op {
                BinaryOp::Add => Some((a.0.checked_add(b.0)?, a.1.checked_add(b.1)?)),
                BinaryOp::Sub => Some((a.0.checked_sub(b.0)?, a.1.checked_sub(b.1)?)),
                BinaryOp::Mul if b.0 == 0 => Some((a.0.checked_mul(b.1)?, a.1.checked_mul(b.1)?)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The values of a variable at which a comparison begins or ceases to hold.
fn turns(program: &UProgram, cond: ExprId, local: Local) -> Vec<i64> {
    let Expr::Compare(op, DType::I64, a, b) = program.pool[cond] else {
        return vec![];
    };
    let sides = [a, b].map(|side| linear(program, side, local, DEPTH));
    let [Some(a), Some(b)] = sides else {
        return vec![];
    };
    let difference = (|| Some((a.0.checked_sub(b.0)?, b.1.checked_sub(a.1)?)))();
    // factor * local, compared with `rest`.
    let Some((factor, rest)) = difference.filter(|d| d.0 != 0 && d.1 != i64::MIN) else {
        return vec![];
    };
    let (factor, rest, op) = match factor > 0 {
        true => (factor, rest, op),
        false if factor == i64::MIN => return vec![],
        false => (-factor, -rest, mirrored(op)),
    };
    let (below, exact) = (rest.div_euclid(factor), rest.rem_euclid(factor) == 0);
    // The first value that is not less, and the first that is larger.
    let first = if exact {
        below
    } else {
        below.saturating_add(1)
    };
    let above = below.saturating_add(1);
    match op {
        CompareOp::Lt | CompareOp::Ge => vec![first],
        CompareOp::Le | CompareOp::Gt => vec![above],
        CompareOp::Eq | CompareOp::Ne if exact => vec![first, above],
        CompareOp::Eq | CompareOp::Ne => vec![],
    }
}

fn mirrored(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::Le => CompareOp::Ge,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::Ge => CompareOp::Le,
        op => op,
    }
}

impl Writer<'_> {
    /// True if a map is written in ranges of its axes.
    pub fn is_peeled(&self, levels: &[Level], value: ExprId) -> bool {
        let sizes = self.op.axes.iter().map(|a| self.program.pool.as_int(a.1));
        let points = sizes.fold(1i64, |n, size| n.saturating_mul(size.unwrap_or(64)));
        let is_plain = !self.in_chain && self.dialect.lanes.is_none();
        is_plain
            && points >= LEAST_POINTS
            && (2..=MOST_BODIES).contains(&self.bodies(levels, value, &Ranges::default()))
    }

    /// The bodies of these levels' loops.
    fn bodies(&self, levels: &[Level], value: ExprId, ranges: &Ranges) -> usize {
        let Some((&level, inner)) = levels.split_first() else {
            return 1;
        };
        let parts = self.parts(level, value, ranges);
        let of = |part: &Option<_>| self.bodies(inner, value, &self.within(level, *part, ranges));
        parts.iter().map(of).sum()
    }

    /// The ranges within a part of a level.
    fn within(&self, level: Level, part: Option<[i64; 2]>, ranges: &Ranges) -> Ranges {
        part.map_or(ranges.clone(), |part| {
            ranges.with(self.op.axes[level.last].0, part)
        })
    }

    /// The ranges of a level; `None` for one whose size is not known.
    fn parts(&self, level: Level, value: ExprId, ranges: &Ranges) -> Vec<Option<[i64; 2]>> {
        let (local, size) = self.op.axes[level.last];
        let size = self.program.pool.as_int(size).filter(|size| *size > 0);
        let Some(size) = size.filter(|_| level.first == level.last) else {
            return vec![None];
        };
        let whole = ranges.with(local, [0, size]);
        let mut ends = vec![0, size];
        if !self.blocks_in(level) {
            let mut open = vec![value];
            let mut seen = HashSet::new();
            while let Some(id) = open.pop() {
                if !seen.insert(id) {
                    continue;
                }
                let expr = self.program.pool[id];
                if let Expr::Select(_, cond, a, b) = expr
                    && let Some(holds) = whole.truth(self.program, cond)
                {
                    open.push(if holds { a } else { b });
                    continue;
                }
                ends.extend(turns(self.program, id, local));
                open.extend(expr.operands());
            }
        }
        ends.retain(|end| (0..=size).contains(end));
        ends.sort_unstable();
        ends.dedup();
        ends.windows(2)
            .map(|pair| Some([pair[0], pair[1]]))
            .collect()
    }

    /// The map's loops, in ranges. With `early` parts that do not vary are computed before a loop.
    pub fn peeled(&mut self, levels: &[Level], s: &Scalars, early: bool, of: (Store, ExprId)) {
        let (store, value) = of;
        let mut s = s.clone();
        let Some((&level, inner)) = levels.split_first() else {
            let value = s.write(self.text, value);
            let offset = s.write(self.text, store.offset);
            return self.store(store.buffer, &offset, &value);
        };
        let axes = levels.iter().flat_map(|level| level.first..=level.last);
        let varying: Vec<_> = axes.map(|axis| self.op.axes[axis].0).collect();
        if early {
            s.hoist(self.text, &[value, store.offset], &varying, &self.op.body);
        }
        let parts = self.parts(level, value, &s.ranges);
        let (from, to) = self.level(level);
        let v = name(self.op.axes[level.last].0);
        let (last, is_whole) = (parts.len() - 1, from == "0");
        for (k, part) in parts.into_iter().enumerate() {
            let low = match part {
                Some([low, _]) if k > 0 && is_whole => low.to_string(),
                Some([low, _]) if k > 0 => format!("({from} > {low} ? {from} : {low})"),
                _ => from.clone(),
            };
            let high = match part {
                Some([_, high]) if k < last && is_whole => high.to_string(),
                Some([_, high]) if k < last => format!("({to} < {high} ? {to} : {high})"),
                _ => to.clone(),
            };
            self.rolled();
            self.text
                .line(format!("for (int64_t {v} = {low}; {v} < {high}; {v}++) {{"));
            if self.polls(inner) {
                self.poll();
            }
            let mut own = s.clone();
            own.ranges = self.within(level, part, &s.ranges);
            self.peeled(inner, &own, early, of);
            self.text.line("}");
        }
        if self.blocks_in(level) {
            self.text.line("}");
        }
    }

    /// True before the loops of these levels if a check for cancellation is negligible beside them, and outside of them there is none.
    fn polls(&self, inner: &[Level]) -> bool {
        let points = |levels: &[Level]| {
            let axes = levels.iter().flat_map(|level| level.first..=level.last);
            let sizes = axes.map(|axis| self.program.pool.as_int(self.op.axes[axis].1));
            sizes.fold(1i64, |n, size| n.saturating_mul(size.unwrap_or(64).max(1)))
        };
        let many = |levels: &[Level]| points(levels) >= 512;
        many(inner) && !inner.split_first().is_some_and(|(_, rest)| many(rest))
    }
}
