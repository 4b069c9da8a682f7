//! Positions: values relative to the numbers that a loop carries.
//!
//! A counter moves by a constant, or by one of several: each arm of a branch may add another one, an
//! inner loop may go on from it. The length of an array that grows in each iteration is a counter
//! as well, and so is that of a list.

use std::collections::HashSet;

use heddle_ir::op::{BinaryOp, ReduceOp};
use heddle_ir::{DType, Inst, LoopView, Op, Region, Value, ValueDef};

use super::range::{BIT, Interval, LENGTH, range_of};
use super::{Condition, conjuncts};
use crate::canonicalize::rewriter::{Rewriter, truth_of};

/// Maximum depth of expressions that are followed.
pub(super) const MAX_DEPTH: usize = 8;

/// A number that a loop carries from one iteration to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    /// The number of the iteration.
    Iteration,
    /// A part of a carried value.
    Carried(usize, Part),
}

/// The number that is read from a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The value itself, an integer.
    Number,
    /// The size of an array's axis.
    Axis(usize),
    /// The length of a sequence.
    Length,
}

/// A value that is an anchor plus an offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub anchor: Anchor,
    pub offset: Interval,
    /// The numbers that all types hold through which the value passes.
    pub range: Interval,
}

impl Position {
    fn at(anchor: Anchor, dtype: DType) -> Option<Self> {
        Some(Self {
            anchor,
            offset: Interval::from(0),
            range: range_of(dtype)?,
        })
    }

    fn moved(self, by: Interval) -> Self {
        Self {
            offset: self.offset + by,
            ..self
        }
    }

    /// The position of what is one of two.
    fn either(self, other: Self) -> Option<Self> {
        (self.anchor == other.anchor).then(|| Self {
            offset: self.offset.hull(other.offset),
            range: self.range.common(other.range),
            ..self
        })
    }
}

/// A loop, and the regions in it.
pub(super) struct Scope<'a> {
    pub view: &'a LoopView,
    inside: HashSet<Region>,
    /// Arms of branches after which the loop ends: a condition does not hold there.
    ending: HashSet<Region>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(cx: &Rewriter, view: &'a LoopView, conditions: &[Condition]) -> Self {
        let func = cx.patch.func();
        let (mut inside, mut ending) = (HashSet::new(), HashSet::new());
        let mut open = vec![view.body];
        while let Some(region) = open.pop() {
            inside.insert(region);
            for &inst in &func.regions[region].insts {
                let data = &func.insts[inst];
                open.extend(&data.regions);
                if let (Op::If, &[then, otherwise]) = (&data.op, data.regions.as_slice()) {
                    // A condition may be the branch's own, or one of its results.
                    let own = conjuncts(cx, cx.patch.args(inst)[0]);
                    let holds = |truth: bool| match own.as_slice() {
                        &[(own, is)] => conditions.contains(&(own, is == truth)),
                        _ => false,
                    };
                    ending.extend(holds(false).then_some(then));
                    ending.extend(holds(true).then_some(otherwise));
                }
            }
        }
        for &(value, truth) in conditions {
            let Some((inst, _)) = result_of(cx, value) else {
                continue;
            };
            let regions = &func.insts[inst].regions;
            for (arm, &region) in arms_of(cx, value).into_iter().flatten().zip(regions) {
                ending.extend((truth_of(cx, arm) == Some(!truth)).then_some(region));
            }
        }
        Self {
            view,
            inside,
            ending,
        }
    }

    /// Is a value computed anew in each iteration?
    pub(super) fn holds(&self, cx: &Rewriter, value: Value) -> bool {
        match cx.patch.func().values[value].def {
            ValueDef::Result(inst, _) => cx
                .patch
                .home(inst)
                .is_some_and(|r| self.inside.contains(&r)),
            ValueDef::Param(region, _) => self.inside.contains(&region),
        }
    }

    /// The position of a part of a value.
    pub(super) fn position(&self, cx: &Rewriter, value: Value, part: Part) -> Option<Position> {
        position(cx, (self.view, &self.ending), value, part, 0)
    }

    /// Movement of an anchor in an iteration.
    pub(super) fn step(&self, cx: &Rewriter, anchor: Anchor) -> Option<Position> {
        match anchor {
            Anchor::Iteration => Some(Position::at(anchor, DType::I64)?.moved(Interval::from(1))),
            Anchor::Carried(k, part) => {
                let next = self.position(cx, self.view.next[k], part)?;
                if next.anchor == Anchor::Iteration {
                    // It is the number of the iteration and what it begins with.
                    let first = i128::from(cx.integer_of(self.view.inits[k])?);
                    let is_shifted = next.offset == Interval::from(first + 1);
                    let by = next.moved(Interval::from(-first));
                    return is_shifted.then_some(by);
                }
                (next.anchor == anchor).then_some(next)
            }
        }
    }
}

/// A loop, and the arms after which it ends.
type Around<'a> = (&'a LoopView, &'a HashSet<Region>);

fn position(
    cx: &Rewriter,
    around: Around,
    value: Value,
    part: Part,
    depth: usize,
) -> Option<Position> {
    if depth > MAX_DEPTH {
        return None;
    }
    let view = around.0;
    if value == view.iteration {
        return Position::at(Anchor::Iteration, DType::I64);
    }
    if let Some(k) = view.params.iter().position(|&param| param == value) {
        let dtype = match part {
            Part::Number => one_integer(cx, value)?,
            Part::Axis(_) | Part::Length => DType::I64,
        };
        return Position::at(Anchor::Carried(k, part), dtype);
    }
    if let Some((op, args)) = cx.definition(value) {
        let at = |v: Value, part: Part| position(cx, around, v, part, depth + 1);
        return match part {
            Part::Number => of_number(cx, op, &args, at)?.within(cx, value),
            Part::Axis(axis) => of_axis(cx, op, &args, axis, at),
            Part::Length => of_length(op, &args, at),
        };
    }
    of_control(cx, around, value, part, depth)
}

impl Position {
    /// With the range of the value's type.
    fn within(self, cx: &Rewriter, value: Value) -> Option<Self> {
        let own = range_of(one_integer(cx, value)?)?;
        Some(Self {
            range: self.range.common(own),
            ..self
        })
    }
}

/// The type of an integer in an array of one element.
pub(super) fn one_integer(cx: &Rewriter, value: Value) -> Option<DType> {
    let t = cx.ty(value).as_tensor()?;
    let is_one = t.static_shape()?.iter().all(|&n| n == 1);
    (is_one && range_of(t.dtype).is_some()).then_some(t.dtype)
}

/// Is it an op that keeps the one element of an array?
pub(super) fn keeps_one(op: &Op) -> bool {
    matches!(
        op,
        Op::Cast { .. } | Op::Reshape | Op::Squeeze { .. } | Op::Unsqueeze { .. }
    )
}

fn of_number(
    cx: &Rewriter,
    op: &Op,
    args: &[Value],
    at: impl Fn(Value, Part) -> Option<Position>,
) -> Option<Position> {
    let at_one = |v: Value| at(v, Part::Number);
    match op {
        _ if keeps_one(op) => at_one(args[0]),
        Op::Binary(BinaryOp::Add) => {
            let mut sides = [(args[0], args[1]), (args[1], args[0])].into_iter();
            sides.find_map(|(a, b)| Some(at_one(a)?.moved(interval(cx, b, 0)?)))
        }
        Op::Binary(BinaryOp::Sub) => Some(at_one(args[0])?.moved(-interval(cx, args[1], 0)?)),
        // It is no less, or no more, than each operand.
        Op::Binary(BinaryOp::Max) => {
            let mut sides = args.iter().filter_map(|&v| at_one(v));
            sides.next().map(|p| p.moved(Interval::AT_LEAST_0))
        }
        Op::Binary(BinaryOp::Min) => {
            let mut sides = args.iter().filter_map(|&v| at_one(v));
            sides.next().map(|p| p.moved(-Interval::AT_LEAST_0))
        }
        Op::Select => at_one(args[1])?.either(at_one(args[2])?),
        Op::Gather { .. } | Op::Slice { .. } => {
            let array = measured(cx, args[0], 0)?;
            let rank = i64::try_from(cx.shape(array)?.len()).ok()?;
            let axis = cx.integer_of(args[1])?;
            let axis = if axis < 0 { axis + rank } else { axis };
            at(array, Part::Axis(usize::try_from(axis).ok()?))
        }
        Op::SeqLen => at(args[0], Part::Length),
        _ => None,
    }
}

/// The array whose shape a value is.
fn measured(cx: &Rewriter, shape: Value, depth: usize) -> Option<Value> {
    match cx.definition(shape)? {
        (Op::Shape, array) => Some(array[0]),
        (Op::Cast { .. }, args) if depth < MAX_DEPTH => measured(cx, args[0], depth + 1),
        _ => None,
    }
}

fn of_axis(
    cx: &Rewriter,
    op: &Op,
    args: &[Value],
    axis: usize,
    at: impl Fn(Value, Part) -> Option<Position>,
) -> Option<Position> {
    let at_axis = |v: Value, axis: usize| at(v, Part::Axis(axis));
    match op {
        Op::Concat { axis: along } if *along == axis => {
            let k = args.iter().position(|&v| at_axis(v, axis).is_some())?;
            let mut found = at_axis(args[k], axis)?;
            for (_, &other) in args.iter().enumerate().filter(|(i, _)| *i != k) {
                let size = cx.shape(other)?.get(axis)?.as_const();
                found = found.moved(size.map_or(Interval::AT_LEAST_0, Interval::from));
            }
            Some(found)
        }
        Op::Concat { .. } => args.iter().find_map(|&v| at_axis(v, axis)),
        Op::Cast { .. } | Op::Unary(_) | Op::UpdateSlice => at_axis(args[0], axis),
        Op::ScatterElements { .. } | Op::ScatterNd { .. } => at_axis(args[0], axis),
        Op::Transpose { perm } => at_axis(args[0], *perm.get(axis)?),
        Op::Unsqueeze { axes } => {
            let before = axes.iter().filter(|&&new| new < axis).count();
            (!axes.contains(&axis)).then(|| at_axis(args[0], axis - before))?
        }
        Op::Squeeze { axes } => {
            let rank = cx.shape(args[0])?.len();
            let mut kept = (0..rank).filter(|k| !axes.contains(k));
            at_axis(args[0], kept.nth(axis)?)
        }
        _ => None,
    }
}

fn of_length(
    op: &Op,
    args: &[Value],
    at: impl Fn(Value, Part) -> Option<Position>,
) -> Option<Position> {
    let by = match op {
        Op::SeqInsert => 1,
        Op::SeqErase => -1,
        _ => return None,
    };
    Some(at(args[0], Part::Length)?.moved(Interval::from(by)))
}

/// The results of branches and inner loops.
fn of_control(
    cx: &Rewriter,
    around: Around,
    value: Value,
    part: Part,
    depth: usize,
) -> Option<Position> {
    let (inst, k) = result_of(cx, value)?;
    let func = cx.patch.func();
    if let Some(arms) = arms_of(cx, value) {
        let [a, b] = arms.map(|v| position(cx, around, v, part, depth + 1));
        // The iterations that another one follows count.
        let ends = |arm: usize| around.1.contains(&func.insts[inst].regions[arm]);
        return match (ends(0), ends(1)) {
            (true, false) => b,
            (false, true) => a,
            _ => a?.either(b?),
        };
    }
    let body = *func.insts[inst].regions.first()?;
    let inner = LoopView::with(func, inst, &cx.patch.args(inst), &cx.patch.yields(body))?;
    let first = position(cx, around, *inner.inits.get(k)?, part, depth + 1)?;
    let next = position(cx, (&inner, around.1), inner.next[k], part, depth + 1)?;
    let stays = next.anchor == Anchor::Carried(k, part);
    let moves = next.offset.repeated().filter(|_| stays)?;
    Some(Position {
        range: first.range.common(next.range),
        ..first.moved(moves)
    })
}

fn result_of(cx: &Rewriter, value: Value) -> Option<(Inst, usize)> {
    match cx.patch.func().values[value].def {
        ValueDef::Result(inst, k) => Some((inst, k as usize)),
        ValueDef::Param(..) => None,
    }
}

/// Two values, one of each arm, that a branch yields as one of its results.
pub(super) fn arms_of(cx: &Rewriter, value: Value) -> Option<[Value; 2]> {
    let (inst, k) = result_of(cx, value)?;
    let data = &cx.patch.func().insts[inst];
    let (Op::If, &[then, otherwise]) = (&data.op, data.regions.as_slice()) else {
        return None;
    };
    let arm = |region: Region| cx.patch.yields(region).get(k).copied();
    Some([arm(then)?, arm(otherwise)?])
}

/// Two values, or what they are in each arm if one branch yields both.
pub(super) fn arms_pairwise(cx: &Rewriter, a: Value, b: Value) -> Vec<(Value, Value)> {
    let (of_a, of_b) = (result_of(cx, a), result_of(cx, b));
    let is_one = of_a.is_some() && of_a.map(|r| r.0) == of_b.map(|r| r.0);
    match (arms_of(cx, a), arms_of(cx, b)) {
        (Some([a, c]), Some([b, d])) if is_one => {
            [arms_pairwise(cx, a, b), arms_pairwise(cx, c, d)].concat()
        }
        _ => vec![(a, b)],
    }
}

/// The numbers that an integer may be, of those that tell how a counter moves.
fn interval(cx: &Rewriter, value: Value, depth: usize) -> Option<Interval> {
    if let Some(number) = cx.integer_of(value) {
        return Some(Interval::from(number));
    }
    let (op, args) = cx.definition(value).filter(|_| depth < MAX_DEPTH)?;
    let of = |k: usize| interval(cx, args[k], depth + 1);
    let is_bool = |v: Value| cx.ty(v).as_tensor().is_some_and(|t| t.dtype == DType::Bool);
    match op {
        Op::Cast { .. } if is_bool(args[0]) => Some(BIT),
        _ if keeps_one(op) => of(0),
        Op::Gather { .. } if matches!(cx.definition(args[0]), Some((Op::Shape, _))) => Some(LENGTH),
        Op::SeqLen | Op::ArgReduce { .. } => Some(LENGTH),
        // As many as there are true elements.
        Op::Reduce {
            kind: ReduceOp::Sum,
            ..
        } => match cx.definition(args[0]) {
            Some((Op::Cast { .. }, from)) if is_bool(from[0]) => Some(LENGTH),
            _ => None,
        },
        Op::Binary(BinaryOp::Add) => Some(of(0)? + of(1)?),
        Op::Select => Some(of(1)?.hull(of(2)?)),
        Op::Binary(kind @ (BinaryOp::Max | BinaryOp::Min)) => {
            let own = range_of(one_integer(cx, value)?)?;
            let [a, b] = [of(0), of(1)].map(|n| n.unwrap_or(own));
            Some(match kind {
                BinaryOp::Max => a.larger(b),
                _ => -(-a).larger(-b),
            })
        }
        _ => None,
    }
}
