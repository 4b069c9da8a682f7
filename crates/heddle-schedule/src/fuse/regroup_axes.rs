//! Maps over other axes than those of a contraction, in its axes.

use std::ops::Range;

use heddle_ir::DType;
use heddle_ir::op::BinaryOp;

use super::substitute::Substitution;
use crate::linear::Monomial;
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{Local, Operator, Store, UProgram};
use heddle_uprogram::step::Step;

/// Axes with their sizes.
type Axes = [(Local, ExprId)];

/// The value and the offset of a map in the axes of a contraction, which may have one axis for
/// neighbouring ones of the map (the places of a convolution), or neighbouring ones for one (its
/// groups). Offsets that go through the map's axes as one are without divisions; the contraction's
/// own element is read at its `result`'s offset. `None` if the sizes do not fit.
pub fn regroup_axes(
    program: &mut UProgram,
    map: &Operator,
    (store, value): (Store, ExprId),
    to: &Axes,
    result: Store,
) -> Option<(ExprId, ExprId)> {
    let groups = groups(program, &map.axes, to)?;
    let offset = in_axes(program, map, to, &groups, store.offset, result.offset);
    let mut known = pairs(program, map, to, &groups, Form::Divided);
    for (buffer, old) in program.pool.loads([value]) {
        let new = in_axes(program, map, to, &groups, old, result.offset);
        let pool = &mut program.pool;
        let load = |offset| Expr::Load(buffer, offset);
        known.push((pool.add(load(old)), pool.add(load(new))));
    }
    let value = Substitution::new(known).apply(&mut program.pool, value);
    Some((value, offset))
}

/// Neighbouring axes of both sides whose sizes have the same product.
fn groups(program: &UProgram, from: &Axes, to: &Axes) -> Option<Vec<(Range<usize>, Range<usize>)>> {
    let (mut groups, mut i, mut j) = (vec![], 0, 0);
    while i < from.len() && j < to.len() {
        let (first, second) = (i, j);
        (i, j) = (i + 1, j + 1);
        if from[first].1 != to[second].1 {
            let size = |axis: &(Local, ExprId)| Monomial::of(program, axis.1);
            let (mut one, mut other) = (size(&from[first])?, size(&to[second])?);
            while one != other {
                if is_part(&one, &other)? {
                    one = one.times(&size(from.get(i)?)?)?;
                    i += 1;
                } else {
                    other = other.times(&size(to.get(j)?)?)?;
                    j += 1;
                }
            }
        }
        groups.push((first..i, second..j));
    }
    (i == from.len() && j == to.len()).then_some(groups)
}

/// True if the first of two sizes is the smaller one, or a factor of the second. `None` if neither is.
fn is_part(one: &Monomial, other: &Monomial) -> Option<bool> {
    match one.as_int().zip(other.as_int()) {
        Some((one, other)) => Some(one < other),
        None if other.over(one).is_some() => Some(true),
        None => one.over(other).map(|_| false),
    }
}

/// The replacement of the axes of a group.
#[derive(Clone, Copy)]
enum Form {
    /// Each by its quotient or remainder.
    Divided,
    /// The last one by the place in the whole group, the others by zero.
    Merged,
}

/// Each axis of the map with its replacement.
fn pairs(
    program: &mut UProgram,
    map: &Operator,
    to: &Axes,
    groups: &[(Range<usize>, Range<usize>)],
    form: Form,
) -> Vec<(ExprId, ExprId)> {
    let pool = &mut program.pool;
    let zero = pool.int(0);
    let mut pairs = vec![];
    for (from, to_axes) in groups {
        let mut rest = zero;
        for &(local, size) in &to[to_axes.clone()] {
            let (high, low) = (pool.product(rest, size), pool.local(local));
            rest = pool.sum(high, low);
        }
        for k in from.clone().rev() {
            let (local, size) = map.axes[k];
            let axis = pool.local(local);
            let new = match form {
                Form::Merged => std::mem::replace(&mut rest, zero),
                Form::Divided if k == from.start => rest,
                Form::Divided => {
                    let [quotient, remainder] = [BinaryOp::Div, BinaryOp::Mod]
                        .map(|op| pool.binary(op, DType::I64, rest, size));
                    rest = quotient;
                    remainder
                }
            };
            pairs.push((axis, new));
        }
    }
    pairs
}

/// An offset of the map in the other axes; `usual` where it is the same.
fn in_axes(
    program: &mut UProgram,
    map: &Operator,
    to: &Axes,
    groups: &[(Range<usize>, Range<usize>)],
    offset: ExprId,
    usual: ExprId,
) -> ExprId {
    let merges = |group: &Range<usize>| {
        map.axes[group.clone()].windows(2).all(|two| {
            let [far, near] = [two[0].0, two[1].0].map(|axis| Step::of(program, offset, axis));
            let size = Step::size(program, two[1].1);
            far.is_some() && far == near.and_then(|near| near.times(&size?))
        })
    };
    let form = match groups.iter().all(|(from, _)| merges(from)) {
        true => Form::Merged,
        false => Form::Divided,
    };
    let pairs = pairs(program, map, to, groups, form);
    let new = Substitution::new(pairs).apply(&mut program.pool, offset);
    match is_same(program, to, new, usual) {
        true => usual,
        false => new,
    }
}

/// True if two offsets are the same at each point: they have the same strides and begin alike.
fn is_same(program: &mut UProgram, axes: &Axes, a: ExprId, b: ExprId) -> bool {
    let step = |offset, local| Step::of(program, offset, local);
    let alike = |&(local, _): &(Local, ExprId)| {
        let [a, b] = [a, b].map(|offset| step(offset, local));
        a.is_some() && a == b
    };
    if !axes.iter().all(alike) {
        return false;
    }
    let pool = &mut program.pool;
    let zero = pool.int(0);
    let zeros: Vec<_> = axes.iter().map(|a| (pool.local(a.0), zero)).collect();
    let mut first = Substitution::new(zeros);
    let [a, b] = [a, b].map(|offset| first.apply(pool, offset));
    a == b
}
