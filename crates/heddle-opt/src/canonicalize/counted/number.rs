//! Numbers that are known, or computed before the loop.

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{DType, Dim, Op, Tensor, Value};

use super::position::{MAX_DEPTH, keeps_one, one_integer};
use super::range::{Interval, LENGTH, SMALL, range_of};
use crate::canonicalize::rewriter::Rewriter;

/// A number that stays the same in all iterations.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Known(i128),
    /// An integer, and its range.
    Value(Value, Interval),
}

impl Number {
    /// The number in an array of one integer.
    pub(super) fn of(cx: &Rewriter, value: Value) -> Option<Self> {
        one_integer(cx, value)?;
        let known = cx.integer_of(value).map(|n| Self::Known(n.into()));
        known.or_else(|| Some(Self::Value(value, range(cx, value, 0)?)))
    }

    pub(super) fn range(self) -> Interval {
        match self {
            Self::Known(n) => Interval::from(n),
            Self::Value(_, range) => range,
        }
    }

    pub(super) fn is_small(self) -> bool {
        self.range().is_within(SMALL)
    }

    /// As an `i64` scalar.
    pub(super) fn scalar(self, cx: &mut Rewriter) -> Option<Value> {
        let value = match self {
            Self::Known(n) => return cx.constant_value(Tensor::scalar(i64::try_from(n).ok()?)),
            Self::Value(value, _) => value,
        };
        let value = match cx.shape(value)?.is_empty() {
            true => value,
            false => {
                let none = cx.integers(&[])?;
                cx.op(Op::Reshape, &[value, none])?
            }
        };
        match cx.ty(value).as_tensor()?.dtype {
            DType::I64 => Some(value),
            _ => cx.op(Op::cast(DType::I64), &[value]),
        }
    }

    pub(super) fn add(self, cx: &mut Rewriter, by: i128) -> Option<Self> {
        match (self, by) {
            (Self::Known(n), _) => Some(Self::Known(n + by)),
            (_, 0) => Some(self),
            (_, 1..) => self.binary(cx, BinaryOp::Add, Self::Known(by)),
            (..) => self.binary(cx, BinaryOp::Sub, Self::Known(-by)),
        }
    }

    /// A number that is computed with `i64`.
    pub(super) fn binary(self, cx: &mut Rewriter, op: BinaryOp, other: Self) -> Option<Self> {
        if let (Self::Known(a), Self::Known(b)) = (self, other) {
            return Some(Self::Known(match op {
                BinaryOp::Add => a + b,
                BinaryOp::Sub => a - b,
                BinaryOp::Max => a.max(b),
                BinaryOp::Min => a.min(b),
                BinaryOp::Div if b != 0 => a / b,
                BinaryOp::Mod if b > 0 => a.rem_euclid(b),
                _ => return None,
            }));
        }
        let (a, b) = (self.range(), other.range());
        let range = match op {
            BinaryOp::Add => a + b,
            BinaryOp::Sub => a + -b,
            BinaryOp::Max => a.larger(b),
            BinaryOp::Min => -(-a).larger(-b),
            _ => a.hull(Interval::from(0)),
        };
        let wide = range_of(DType::I64)?;
        let range = if range.is_within(wide) { range } else { wide };
        let (a, b) = (self.scalar(cx)?, other.scalar(cx)?);
        let value = cx.op(Op::Binary(op), &[a, b])?;
        Some(Self::Value(value, range))
    }

    /// `self` if a comparison with `limit` holds, else the largest number.
    pub(super) fn only_if(
        self,
        cx: &mut Rewriter,
        number: Self,
        op: CompareOp,
        limit: i128,
    ) -> Option<Self> {
        if let Self::Known(n) = number {
            let holds = match op {
                CompareOp::Le => n <= limit,
                CompareOp::Ge => n >= limit,
                _ => n == limit,
            };
            return Some(if holds {
                self
            } else {
                Self::Known(i64::MAX.into())
            });
        }
        let (number, limit) = (number.scalar(cx)?, Self::Known(limit).scalar(cx)?);
        let holds = cx.op(Op::Compare(op), &[number, limit])?;
        let (value, most) = (self.scalar(cx)?, Self::Known(i64::MAX.into()).scalar(cx)?);
        let value = cx.op(Op::Select, &[holds, value, most])?;
        Some(Self::Value(value, range_of(DType::I64)?))
    }

    /// `self - other`, where it is not below zero; none is so large that differences to it overflow.
    pub(super) fn distance(self, cx: &mut Rewriter, other: Self) -> Option<Self> {
        if matches!(other, Self::Known(0)) {
            return Some(self);
        }
        if self.is_small() || other.is_small() {
            let (a, b) = (self.clamped(cx)?, other.clamped(cx)?);
            return a.binary(cx, BinaryOp::Sub, b);
        }
        let above = self.binary(cx, BinaryOp::Max, other)?;
        let distance = above.binary(cx, BinaryOp::Sub, other)?;
        // It overflows below zero.
        let distance = distance.only_if(cx, distance, CompareOp::Ge, 0)?;
        distance.binary(cx, BinaryOp::Min, Self::Known(SMALL.high?))
    }

    /// The quotient by a positive number, rounded up if it is positive.
    pub(super) fn quotient_up(self, cx: &mut Rewriter, by: i128) -> Option<Self> {
        match by {
            1 => Some(self),
            _ => {
                let more = self.clamped(cx)?.add(cx, by - 1)?;
                more.binary(cx, BinaryOp::Div, Self::Known(by))
            }
        }
    }

    /// The number or 1, and not so much that a sum overflows.
    pub(super) fn at_least_1(self, cx: &mut Rewriter) -> Option<Self> {
        let number = self.binary(cx, BinaryOp::Max, Self::Known(1))?;
        number.binary(cx, BinaryOp::Min, Self::Known(SMALL.high?))
    }

    /// The number, or the nearest small one.
    pub(super) fn clamped(self, cx: &mut Rewriter) -> Option<Self> {
        if self.is_small() {
            return Some(self);
        }
        let low = self.binary(cx, BinaryOp::Max, Self::Known(SMALL.low?))?;
        low.binary(cx, BinaryOp::Min, Self::Known(SMALL.high?))
    }
}

/// The numbers that an integer may be.
fn range(cx: &Rewriter, value: Value, depth: usize) -> Option<Interval> {
    let own = range_of(one_integer(cx, value)?)?;
    // As elsewhere, an expression of sizes is assumed to fit an `i32`.
    if let Some([Dim::Expr(_)]) = cx.known(value) {
        return range_of(DType::I32);
    }
    match cx.definition(value).filter(|_| depth < MAX_DEPTH) {
        Some((Op::Gather { .. }, args))
            if matches!(cx.definition(args[0]), Some((Op::Shape, _))) =>
        {
            Some(LENGTH)
        }
        Some((Op::SeqLen, _)) => Some(LENGTH),
        Some((op, args)) if keeps_one(op) => {
            let from = range(cx, args[0], depth + 1);
            Some(from.filter(|from| from.is_within(own)).unwrap_or(own))
        }
        _ => Some(own),
    }
}
