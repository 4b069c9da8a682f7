//! Ranges of variables, and the values at which conditions and quotients change.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, CompareOp, UnaryOp};
use heddle_uprogram::program::{Local, LocalKind, UProgram};
use heddle_uprogram::{Expr, ExprId};

use crate::limits::{DEPTH, Limit, Sum, mirrored};
use crate::nest::Level;

/// The most values of a quotient for which an axis is cut where it changes.
const MOST_QUOTIENTS: i64 = 4;

/// The most places of an axis that are ranges of their own since conditions on an axis further in depend on them, as those of phases do.
const MOST_PHASES: i64 = 4;

/// Facts about variables in a block of code.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    /// Their values, from the first up to but without the second.
    values: HashMap<Local, [i64; 2]>,
    /// Conditions that hold.
    holding: HashSet<ExprId>,
    /// Values that only the run knows, and if a variable is below them.
    sides: Vec<(Local, Limit, bool)>,
    /// The axes of loops around this block.
    open: HashSet<Local>,
    /// True if axes are cut where conditions change.
    pub cuts: bool,
    /// The axis of the innermost loop: quotients that are the same in it need no cuts.
    pub innermost: Option<Local>,
    /// Facts that follow, of the expressions that somebody asked for.
    facts: Facts,
}

/// Facts of expressions. Copies of ranges begin without, since they are made to be changed.
#[derive(Debug, Default)]
struct Facts(RefCell<HashMap<ExprId, Fact>>);

impl Clone for Facts {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Ranges {
    /// The same within a loop over an axis, in a range of it if there is one.
    pub fn within(&self, axis: Local, range: Option<[i64; 2]>) -> Self {
        let mut ranges = self.clone();
        ranges.open.insert(axis);
        if let Some(range) = range {
            ranges.values.insert(axis, range);
        }
        ranges
    }

    /// The same where a variable is below a limit, or not.
    pub fn on_side(&self, local: Local, limit: &Limit, is_below: bool) -> Self {
        let mut ranges = self.clone();
        ranges.sides.push((local, limit.clone(), is_below));
        ranges
    }

    /// Adds the whole ranges of axes whose loops are merged as these levels say.
    pub fn cover(&mut self, program: &UProgram, axes: &[(Local, ExprId)], levels: &[Level]) {
        self.facts = Facts::default();
        for level in levels {
            let of = &axes[level.first..=level.last];
            let sizes = of.iter().map(|axis| program.pool.as_int(axis.1));
            let all = sizes.fold(1i64, |n, size| n.saturating_mul(size.unwrap_or(i64::MAX)));
            for &(outer, _) in &of[..of.len() - 1] {
                self.values.insert(outer, [0, 1]);
            }
            // A loop without iterations has no values; its body needs some.
            let (last, size) = of[of.len() - 1];
            self.values.insert(last, [0, all.max(1)]);
            let sum = Sum::of(program, size).filter(|sum| !sum.terms.is_empty());
            if let Some(size) = sum.filter(|_| of.len() == 1) {
                self.sides.push((last, size.limit(), true));
            }
        }
    }

    /// Says that a condition holds.
    pub fn hold(&mut self, cond: ExprId) {
        self.facts = Facts::default();
        self.holding.insert(cond);
    }

    /// The truth of a condition, if it is the same for all of these values.
    pub fn truth(&self, program: &UProgram, cond: ExprId) -> Option<bool> {
        match self.values.is_empty() {
            _ if self.holding.contains(&cond) => Some(true),
            true => None,
            false => self.fact(program, cond).truth(),
        }
    }

    /// The fact of an expression. Facts are kept, since a shared part stands in exponentially many places of a chain of choices.
    fn fact(&self, program: &UProgram, id: ExprId) -> Fact {
        let mut facts = self.facts.0.borrow_mut();
        let mut open = vec![id];
        while let Some(&id) = open.last() {
            let ready = open.len();
            if !facts.contains_key(&id) {
                let operands = operands(program.pool[id]);
                open.extend(operands.filter(|e| !facts.contains_key(e)));
            }
            if open.len() == ready {
                open.pop();
                if !facts.contains_key(&id) {
                    let fact = self.fact_by(program, id, &|e| facts[&e]);
                    facts.insert(id, fact);
                }
            }
        }
        facts[&id]
    }

    /// The fact of an expression, by those of its operands.
    fn fact_by(&self, program: &UProgram, id: ExprId, of: &dyn Fn(ExprId) -> Fact) -> Fact {
        if self.holding.contains(&id) {
            return Fact::Truth(true);
        }
        let truth = |e| of(e).truth();
        let bounds = |e| of(e).bounds();
        let holds = match program.pool[id] {
            Expr::Num(DType::Bool, bits) => Some(bits != 0),
            Expr::Unary(UnaryOp::Not, DType::Bool, a) => truth(a).map(|holds| !holds),
            Expr::Binary(op @ (BinaryOp::And | BinaryOp::Or), DType::Bool, a, b) => {
                // The value of one that decides the other's.
                let decides = op == BinaryOp::Or;
                match [a, b].map(truth) {
                    [Some(a), _] if a == decides => Some(a),
                    [_, Some(b)] if b == decides => Some(b),
                    [Some(_), Some(b)] => Some(b),
                    _ => None,
                }
            }
            Expr::Compare(op, DType::I64, a, b) => self
                .side(program, id)
                .or_else(|| compared(op, bounds(a)?, bounds(b)?)),
            _ => None,
        };
        let between = || match program.pool[id] {
            Expr::Num(DType::I64, bits) => Some([bits as i64; 2]),
            Expr::Local(local) => self.values.get(&local).map(|[from, to]| [*from, to - 1]),
            Expr::Select(DType::I64, cond, a, b) => bounds(if truth(cond)? { a } else { b }),
            Expr::Binary(op, DType::I64, a, b) => computed(op, bounds(a)?, bounds(b)?),
            _ => None,
        };
        match holds {
            Some(holds) => Fact::Truth(holds),
            None => between().map_or(Fact::Nothing, Fact::Bounds),
        }
    }

    /// The truth of a comparison with a limit, if that of a variable's values is known.
    fn side(&self, program: &UProgram, cond: ExprId) -> Option<bool> {
        self.sides
            .iter()
            .rev()
            .find_map(|(local, known, is_below)| {
                let (limit, holds_below) = Limit::of(program, cond, *local)?;
                let further = limit.beyond(known)?;
                let decides = if *is_below {
                    further >= 0
                } else {
                    further <= 0
                };
                decides.then_some(*is_below == holds_below)
            })
    }

    /// The limits of an axis at which a condition begins or ceases to hold, and which are known before a loop over it.
    pub fn limit(&self, program: &UProgram, cond: ExprId, axis: Local) -> Option<Limit> {
        if self.truth(program, cond).is_some() {
            return None;
        }
        let (limit, _) = Limit::of(program, cond, axis)?;
        let is_known = |local: &Local| {
            program.locals[*local].kind != LocalKind::Axis || self.open.contains(local)
        };
        limit
            .0
            .terms
            .iter()
            .all(|(local, _)| is_known(local))
            .then_some(limit)
    }

    /// True if an index is provably in an axis of this size.
    pub fn is_inside(&self, program: &UProgram, index: ExprId, size: ExprId) -> bool {
        let bounds = |id| self.bounds(program, id);
        let is_below = |[low, high]: [i64; 2], [least, _]: [i64; 2]| low >= 0 && high < least;
        let sum = |id| Sum::of(program, id);
        let is_before = |index: &Sum, size: Sum| {
            let left = index.times(-1).and_then(|index| size.plus(&index));
            left.is_some_and(|left| left.terms.is_empty() && left.constant > 0)
        };
        let index = self.chosen(program, index);
        bounds(index)
            .zip(bounds(size))
            .is_some_and(|(i, n)| is_below(i, n))
            || sum(index)
                .zip(sum(size))
                .is_some_and(|(i, n)| self.is_natural(program, &i) && is_before(&i, n))
    }

    /// True if a sum is certainly not negative: by itself, or since a loop has places below a limit and it is as large as the last one.
    fn is_natural(&self, program: &UProgram, sum: &Sum) -> bool {
        let is_last = |(local, limit, is_below): &(Local, Limit, bool)| {
            let begins = self.values.get(local).is_some_and(|[low, _]| *low >= 0);
            let left = limit.0.times(-1).and_then(|limit| sum.plus(&limit));
            let reaches = left.is_some_and(|left| left.terms.is_empty() && left.constant >= -1);
            *is_below && self.open.contains(local) && begins && reaches
        };
        sum.is_natural(program) || self.sides.iter().any(is_last)
    }

    /// The value that is chosen as far as conditions are decided.
    fn chosen(&self, program: &UProgram, mut id: ExprId) -> ExprId {
        while let Expr::Select(_, cond, a, b) = program.pool[id]
            && let Some(holds) = self.truth(program, cond)
        {
            id = if holds { a } else { b };
        }
        id
    }

    /// The quotient of a remainder or quotient by a number, if it is the same for all of these values.
    pub fn quotient(&self, program: &UProgram, a: ExprId, by: ExprId) -> Option<i64> {
        let by = program.pool.as_int(by).filter(|by| *by > 0)?;
        let [low, high] = self.bounds(program, a)?;
        (low >= 0 && low / by == high / by).then_some(low / by)
    }

    /// The least and the largest value of an integer, as far as sums, multiples and quotients say.
    fn bounds(&self, program: &UProgram, id: ExprId) -> Option<[i64; 2]> {
        self.fact(program, id).bounds()
    }
}

/// Knowledge of an expression's value that ranges give.
#[derive(Clone, Copy, Debug)]
enum Fact {
    Nothing,
    /// A condition's value.
    Truth(bool),
    /// The least and the largest value of an integer.
    Bounds([i64; 2]),
}

impl Fact {
    fn truth(self) -> Option<bool> {
        match self {
            Self::Truth(holds) => Some(holds),
            _ => None,
        }
    }

    fn bounds(self) -> Option<[i64; 2]> {
        match self {
            Self::Bounds(bounds) => Some(bounds),
            _ => None,
        }
    }
}

/// The operands of which something may be known.
fn operands(expr: Expr) -> impl Iterator<Item = ExprId> {
    let is_read = match expr {
        Expr::Unary(UnaryOp::Not, dtype, _) => dtype == DType::Bool,
        Expr::Binary(_, dtype, ..) => matches!(dtype, DType::Bool | DType::I64),
        Expr::Compare(_, dtype, ..) | Expr::Select(dtype, ..) => dtype == DType::I64,
        _ => false,
    };
    expr.operands().filter(move |_| is_read)
}

/// The truth of a comparison of two integers, if their bounds decide it.
fn compared(op: CompareOp, [low, high]: [i64; 2], [least, most]: [i64; 2]) -> Option<bool> {
    let is_same = low == high && least == most && low == least;
    let differs = high < least || low > most;
    match op {
        CompareOp::Lt => decided(high < least, low >= most),
        CompareOp::Le => decided(high <= least, low > most),
        CompareOp::Gt => decided(low > most, high <= least),
        CompareOp::Ge => decided(low >= most, high < least),
        CompareOp::Eq => decided(is_same, differs),
        CompareOp::Ne => decided(differs, is_same),
    }
}

/// The bounds of the result of an operation on two integers.
fn computed(op: BinaryOp, a: [i64; 2], b: [i64; 2]) -> Option<[i64; 2]> {
    match op {
        BinaryOp::Add => Some([a[0].checked_add(b[0])?, a[1].checked_add(b[1])?]),
        BinaryOp::Sub => Some([a[0].checked_sub(b[1])?, a[1].checked_sub(b[0])?]),
        BinaryOp::Mul if b[0] == b[1] => scaled(a, b[0]),
        BinaryOp::Mul if a[0] == a[1] => scaled(b, a[0]),
        BinaryOp::Div if b[0] == b[1] && b[0] > 0 && a[0] >= 0 => Some(a.map(|n| n / b[0])),
        BinaryOp::Mod if b[0] == b[1] && b[0] > 0 && a[0] >= 0 => {
            match a[0] / b[0] == a[1] / b[0] {
                true => Some(a.map(|n| n % b[0])),
                false => Some([0, b[0] - 1]),
            }
        }
        _ => None,
    }
}

fn decided(holds: bool, fails: bool) -> Option<bool> {
    match (holds, fails) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

fn scaled([low, high]: [i64; 2], by: i64) -> Option<[i64; 2]> {
    let ends = [low.checked_mul(by)?, high.checked_mul(by)?];
    Some(if by < 0 { [ends[1], ends[0]] } else { ends })
}

/// An integer as `factor * local + rest`, with bounds of the rest.
struct Linear {
    factor: i64,
    rest: [i64; 2],
}

impl Linear {
    fn of(
        program: &UProgram,
        id: ExprId,
        local: Local,
        ranges: &Ranges,
        depth: usize,
    ) -> Option<Self> {
        let depth = depth.checked_sub(1)?;
        if !program.locals_of(id).contains(&local) {
            let rest = ranges.bounds(program, id)?;
            return Some(Self { factor: 0, rest });
        }
        match program.pool[id] {
            Expr::Local(_) => Some(Self {
                factor: 1,
                rest: [0, 0],
            }),
            Expr::Binary(
                op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul),
                DType::I64,
                a,
                b,
            ) => {
                let a = Self::of(program, a, local, ranges, depth)?;
                let b = Self::of(program, b, local, ranges, depth)?;
                match op {
                    BinaryOp::Add => a.plus(&b),
                    BinaryOp::Sub => a.plus(&b.times(-1)?),
                    _ => match (a.number(), b.number()) {
                        (_, Some(by)) => a.times(by),
                        (Some(by), _) => b.times(by),
                        _ => None,
                    },
                }
            }
            _ => None,
        }
    }

    fn plus(&self, other: &Self) -> Option<Self> {
        let [low, high] = other.rest;
        Some(Self {
            factor: self.factor.checked_add(other.factor)?,
            rest: [
                self.rest[0].checked_add(low)?,
                self.rest[1].checked_add(high)?,
            ],
        })
    }

    fn times(&self, by: i64) -> Option<Self> {
        Some(Self {
            factor: self.factor.checked_mul(by)?,
            rest: scaled(self.rest, by)?,
        })
    }

    /// The number that it is, if it is one.
    fn number(&self) -> Option<i64> {
        (self.factor == 0 && self.rest[0] == self.rest[1]).then_some(self.rest[0])
    }
}

/// The values of a variable from which on an expression is another one: a comparison begins or ceases to hold, a quotient changes.
pub fn turns(program: &UProgram, id: ExprId, local: Local, ranges: &Ranges) -> Vec<i64> {
    let linear = |id| Linear::of(program, id, local, ranges, DEPTH);
    match program.pool[id] {
        Expr::Compare(op, DType::I64, a, b) => {
            if let Some(places) = phases(program, [a, b], local, ranges) {
                return places;
            }
            let difference = linear(a).zip(linear(b));
            let difference = difference.and_then(|(a, b)| a.plus(&b.times(-1)?));
            let ends = difference.map(|d| d.rest.map(|rest| crossings(op, d.factor, rest)));
            ends.into_iter().flatten().flatten().collect()
        }
        Expr::Binary(BinaryOp::Div | BinaryOp::Mod, DType::I64, a, by) => {
            let by = program.pool.as_int(by).filter(|by| *by > 0);
            let is_inner = |axis| program.locals_of(id).contains(&axis);
            let range = ranges.values.get(&local);
            let range = range.filter(|_| ranges.innermost.is_some_and(is_inner));
            let (Some(a), Some(by), Some(&[from, to])) = (linear(a), by, range) else {
                return vec![];
            };
            multiples(&a, by, [from, to - 1]).unwrap_or_default()
        }
        _ => vec![],
    }
}

/// The places of an axis, if they are few and an axis further in takes several of them at a step: with the place known, that one is cut at
/// numbers. With steps of one it has a limit that depends on the place.
fn phases(
    program: &UProgram,
    [a, b]: [ExprId; 2],
    local: Local,
    ranges: &Ranges,
) -> Option<Vec<i64>> {
    let sum = |id| Sum::of(program, id);
    let Sum { terms, .. } = sum(a)?.plus(&sum(b)?.times(-1)?)?;
    let is_inner = |axis: Local| {
        program.locals[axis].kind == LocalKind::Axis
            && axis != local
            && !ranges.open.contains(&axis)
    };
    let in_steps = |&(axis, factor): &(Local, i64)| is_inner(axis) && factor.abs() > 1;
    let is_phase = terms.iter().any(|term| term.0 == local) && terms.iter().any(in_steps);
    let [from, to] = *ranges.values.get(&local)?;
    (is_phase && to - from <= MOST_PHASES).then(|| (from..to).collect())
}

/// The values at which a sum that grows reaches another multiple of a number, if these are few.
fn multiples(sum: &Linear, by: i64, [first, last]: [i64; 2]) -> Option<Vec<i64>> {
    let Linear { factor, rest } = *sum;
    let at = |value: i64| factor.checked_mul(value)?.checked_add(rest[0]);
    let (low, high) = (at(first)?, at(last)?);
    if factor <= 0 || rest[0] != rest[1] || low < 0 || high / by - low / by >= MOST_QUOTIENTS {
        return None;
    }
    let next = low / by + 1..=high / by;
    let reached = |quotient: i64| (quotient * by - rest[0] + factor - 1).div_euclid(factor);
    Some(next.map(reached).collect())
}

/// The values of `x` at which `factor * x + rest`, compared with 0, begins or ceases to hold.
fn crossings(op: CompareOp, factor: i64, rest: i64) -> Vec<i64> {
    if factor == 0 || factor == i64::MIN || rest == i64::MIN {
        return vec![];
    }
    let (factor, rest, op) = match factor > 0 {
        true => (factor, -rest, op),
        false => (-factor, rest, mirrored(op)),
    };
    let (below, exact) = (rest.div_euclid(factor), rest.rem_euclid(factor) == 0);
    // The first value that is not less, and the first that is larger.
    let above = below.saturating_add(1);
    let first = if exact { below } else { above };
    match op {
        CompareOp::Lt | CompareOp::Ge => vec![first],
        CompareOp::Le | CompareOp::Gt => vec![above],
        CompareOp::Eq | CompareOp::Ne if exact => vec![first, above],
        CompareOp::Eq | CompareOp::Ne => vec![],
    }
}
