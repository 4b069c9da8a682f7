//! Offsets of a map's elements, as images, channels and places, and in the other layout.

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, CompareOp};

use crate::largest::most;
use crate::linear::Monomial;
use heddle_uprogram::contract::Extent;
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{Operator, UProgram};

/// The sizes of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct MapSizes {
    pub(super) channels: i64,
    pub(super) places: Extent,
    /// Elements from a place to the next one where the channels are innermost.
    pub(super) pitch: i64,
}

impl MapSizes {
    /// Static channels, places and pitch.
    pub(super) fn of([channels, places, pitch]: [i64; 3]) -> Self {
        Self {
            channels,
            places: Extent::Static(places),
            pitch,
        }
    }

    /// The same, if they are static.
    pub(super) fn fixed(&self) -> Option<[i64; 3]> {
        Some([self.channels, self.places.as_int()?, self.pitch])
    }
}

/// The image, channel and place of the element that is at this offset in `[image, channel, place]`.
pub(super) fn parts(
    program: &mut UProgram,
    op: &Operator,
    offset: ExprId,
    sizes: MapSizes,
) -> Option<[ExprId; 3]> {
    let (rest, place) = low(program, op, offset, sizes.places)?;
    let (image, channel) = low(program, op, rest, Extent::Static(sizes.channels))?;
    Some([image, channel, place])
}

/// The offset of the element that is at this one in `[image, channel, place]`, in `[image, place,
/// channel]`.
pub(super) fn last(
    program: &mut UProgram,
    op: &Operator,
    offset: ExprId,
    sizes: MapSizes,
) -> Option<ExprId> {
    let [image, channel, place] = parts(program, op, offset, sizes)?;
    let pool = &mut program.pool;
    let (places, pitch) = (sizes.places.expr(pool), pool.int(sizes.pitch));
    let at = pool.product(image, places);
    let at = pool.sum(at, place);
    let at = pool.product(at, pitch);
    Some(pool.sum(at, channel))
}

/// An offset as `high * size + low`.
pub(super) fn low(
    program: &mut UProgram,
    op: &Operator,
    offset: ExprId,
    size: Extent,
) -> Option<(ExprId, ExprId)> {
    let size = size.expr(&mut program.pool);
    let (mut rest, mut parts, mut left) = (offset, vec![], Monomial::of(program, size)?);
    let zero = program.pool.int(0);
    while left.as_int().is_none_or(|left| left > 1) {
        let mut inner = peel(program, rest);
        // One axis may stand for several.
        while let Some((high, by, part)) = inner.clone()
            && by.constant > 0
            && by != left
            && !is_below(program, op, part, &by)
            && let Some((above, size, low)) = peel(program, high)
        {
            let scale = expr_of(program, &by);
            let scaled = program.pool.product(low, scale);
            let part = program.pool.sum(scaled, part);
            inner = by.times(&size).map(|by| (above, by, part));
        }
        // The innermost parts of a smaller array, or all of it.
        let inner = inner.and_then(|(high, by, part)| {
            let outer = left.over(&by).filter(|_| by.constant > 0)?;
            Some((high, by, part, outer))
        });
        let all = || (zero, left.clone(), rest, Monomial::new(1));
        let (high, by, part, outer) = inner.unwrap_or_else(all);
        if !is_below(program, op, part, &by) {
            return None;
        }
        parts.push((part, expr_of(program, &by)));
        (rest, left) = (high, outer);
    }
    let pool = &mut program.pool;
    let mut low = zero;
    for (part, by) in parts.into_iter().rev() {
        let scaled = pool.product(low, by);
        low = pool.sum(scaled, part);
    }
    Some((rest, low))
}

/// The parts of `high * by + low`.
fn peel(program: &mut UProgram, offset: ExprId) -> Option<(ExprId, Monomial, ExprId)> {
    let pool = &mut program.pool;
    let zero = pool.int(0);
    let (scaled, low) = match pool[offset] {
        Expr::Binary(BinaryOp::Add, DType::I64, a, b) => (a, b),
        _ => (offset, zero),
    };
    match pool[scaled] {
        Expr::Binary(BinaryOp::Mul, DType::I64, high, by) => {
            Some((high, Monomial::of(program, by)?, low))
        }
        _ => None,
    }
}

/// True if an index is neither negative nor as large as this where the array has elements.
fn is_below(program: &UProgram, op: &Operator, index: ExprId, size: &Monomial) -> bool {
    if let Some(size) = size.as_int() {
        return most(program, op, index).is_some_and(|most| most < size);
    }
    let pool = &program.pool;
    let of = |e, size: &Monomial| is_below(program, op, e, size);
    let is_size = |e| Monomial::of(program, e).as_ref() == Some(size);
    match pool[index] {
        Expr::Num(DType::I64, bits) => bits == 0,
        Expr::Local(local) => {
            let mut axes = op.axes.iter().chain(op.body.axes());
            axes.find(|axis| axis.0 == local)
                .is_some_and(|axis| is_size(axis.1))
        }
        Expr::Index(_, all) => is_size(all),
        Expr::Binary(BinaryOp::Mod, DType::I64, _, all) => is_size(all),
        Expr::Binary(BinaryOp::Div, DType::I64, a, b) => {
            let all = Monomial::of(program, b).and_then(|by| size.times(&by));
            all.is_some_and(|all| of(a, &all))
        }
        Expr::Binary(BinaryOp::Add, DType::I64, a, low) => {
            let Expr::Binary(BinaryOp::Mul, DType::I64, high, by) = pool[a] else {
                return false;
            };
            let by = Monomial::of(program, by).filter(|by| by.constant > 0);
            let both = by.and_then(|by| Some((size.over(&by)?, by)));
            both.is_some_and(|(outer, by)| of(high, &outer) && of(low, &by))
        }
        Expr::Select(DType::I64, cond, a, b) => {
            let chosen = of(a, size) || is_below_if(program, cond, a, size);
            chosen && of(b, size)
        }
        _ => false,
    }
}

/// The same where a condition holds that says so.
fn is_below_if(program: &UProgram, cond: ExprId, index: ExprId, size: &Monomial) -> bool {
    let pool = &program.pool;
    let (mut open, mut from, mut to) = (vec![cond], false, false);
    while let Some(id) = open.pop() {
        match pool[id] {
            Expr::Binary(BinaryOp::And, DType::Bool, a, b) => open.extend([a, b]),
            Expr::Compare(CompareOp::Ge, DType::I64, a, b) if a == index => {
                from |= pool.as_int(b) == Some(0);
            }
            Expr::Compare(CompareOp::Lt, DType::I64, a, b) if a == index => {
                to |= Monomial::of(program, b).as_ref() == Some(size);
            }
            _ => {}
        }
    }
    from && to
}

/// A product of sizes as an expression.
pub(super) fn expr_of(program: &mut UProgram, monomial: &Monomial) -> ExprId {
    let pool = &mut program.pool;
    let constant = pool.int(monomial.constant);
    let sizes = monomial.sizes.iter();
    sizes.fold(constant, |n, size| pool.product(*size, n))
}
