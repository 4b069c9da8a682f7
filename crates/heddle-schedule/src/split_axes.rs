//! Axes as two, where indices divide them.

use std::collections::{BTreeSet, HashSet};

use heddle_ir::DType;
use heddle_ir::op::BinaryOp;

use crate::fuse::substitute::Substitution;
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{Body, Local, Operator, Split, UProgram};
use heddle_uprogram::step::Step;

/// Maximum number of places of an inner axis.
const MAX_PLACES: i64 = 16;

/// Splits an axis of a map into two if its indices have quotients and remainders of the axis by a number that divides its size:
/// `i = s · j + k` with `k < s`. These are then `j` and `k`. Examples are places that are read from `s` maps in turns, and places that are
/// repeated. True if there was one; indices are still to be simplified.
pub fn split_axis(program: &mut UProgram, op: &mut Operator) -> bool {
    let Body::Map { store, value } = op.body else {
        return false;
    };
    let Some((k, by)) = found(program, op, [store.offset, value]) else {
        return false;
    };
    let (axis, size) = op.axes[k];
    let Some(size) = program.pool.as_int(size) else {
        return false;
    };
    let [outer, inner] = [0, 1].map(|_| {
        let name = format!("i{}", program.locals.len());
        program.new_axis(&name)
    });
    let pool = &mut program.pool;
    let (outer_size, inner_size) = (pool.int(size / by), pool.int(by));
    let (high, low) = (pool.local(outer), pool.local(inner));
    let high = pool.product(high, inner_size);
    let (old, new) = (pool.local(axis), pool.sum(high, low));
    let mut places = Substitution::new([(old, new)]);
    op.body.change_exprs(&mut |e| *e = places.apply(pool, *e));
    op.axes
        .splice(k..=k, [(outer, outer_size), (inner, inner_size)]);
    let first = op.axes[0].1;
    for split in op.share.splits_mut() {
        match split.axis {
            axis if axis == k => *split = Split::whole(0, first),
            axis if axis > k => split.axis += 1,
            _ => {}
        }
    }
    true
}

/// An axis by its index, and the number that divides it: both quotient and remainder are in these, or it is the innermost axis.
fn found(program: &UProgram, op: &Operator, roots: [ExprId; 2]) -> Option<(usize, i64)> {
    let mut seen = HashSet::new();
    let mut halves = BTreeSet::new();
    let mut open = roots.to_vec();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let expr = program.pool[id];
        if let Expr::Binary(half @ (BinaryOp::Div | BinaryOp::Mod), DType::I64, index, by) = expr
            && let Some(by) = program.pool.as_int(by)
            && (2..=MAX_PLACES).contains(&by)
            && let Some(k) = divided(program, op, index, by)
        {
            halves.insert((k, by, half == BinaryOp::Div));
        }
        open.extend(expr.operands());
    }
    // Outside of the innermost loop a quotient alone costs nothing.
    let mut worth = halves.iter().filter(|&&(k, by, is_quotient)| {
        k + 1 == op.axes.len() || is_quotient && halves.contains(&(k, by, false))
    });
    worth.next().map(|&(k, by, _)| (k, by))
}

/// The axis in an index that has no other part, except a constant, that is no multiple of this number.
fn divided(program: &UProgram, op: &Operator, index: ExprId, by: i64) -> Option<usize> {
    let is_axis = |local: &Local| op.axes.iter().any(|axis| axis.0 == *local);
    if !program.locals_of(index).iter().all(is_axis) {
        return None;
    }
    let mut own = None;
    for (k, &(axis, size)) in op.axes.iter().enumerate() {
        let step = Step::of(program, index, axis)?.as_int()?;
        if step % by == 0 {
            continue;
        }
        let size = program.pool.as_int(size)?;
        if own.is_some() || step != 1 || size % by != 0 || size <= by {
            return None;
        }
        own = Some(k);
    }
    own
}
