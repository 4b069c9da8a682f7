//! Parts of a concatenation as operators of their own, which contractions then write where they lie.

use std::collections::{BTreeSet, HashSet};

use heddle_ir::DType;
use heddle_ir::op::CompareOp;

use super::for_each_block;
use super::substitute::Substitution;
use super::uses::{Uses, loads, ran};
use crate::linear::Monomial;
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{Body, Local, Operator, OperatorId, Stmt, UProgram};

/// Limit on the parts of a concatenation.
const MOST_PARTS: usize = 64;

/// Takes apart maps that choose between the results of contractions by a place of an axis, such as channels that lie side by side, if
/// most of their points are results that nothing else reads. Each part then becomes the epilogue of its contraction
/// ([`fuse_epilogues`](super::fuse_epilogues())), so that nothing copies it.
///
/// Axes of dynamic size stay as they are.
pub fn place_parts(program: &mut UProgram) {
    for_each_block(program, &mut |program, uses, block| {
        let mut k = 0;
        while k < block.len() {
            let parts = match block[k] {
                Stmt::Run(id) => parts(program, uses, &block[..k], id),
                _ => None,
            };
            let (Some(parts), Stmt::Run(whole)) = (parts, &block[k]) else {
                k += 1;
                continue;
            };
            uses.remove(program, *whole);
            block.remove(k);
            let places = parts
                .iter()
                .map(|part| place_of(program, part, &block[..k]));
            let mut placed: Vec<_> = places.collect::<Vec<_>>().into_iter().zip(parts).collect();
            placed.sort_by_key(|(place, _)| *place);
            // From the back, so that the other places stay as they are.
            for (place, part) in placed.into_iter().rev() {
                let id = program.operators.push(part);
                uses.add(program, id);
                block.insert(place, Stmt::Run(id));
                // A part may be a concatenation itself.
                k = k.min(place);
            }
        }
    });
}

/// The parts of a map, if it is worth while to take it apart.
fn parts(
    program: &mut UProgram,
    uses: &Uses,
    before: &[Stmt],
    id: OperatorId,
) -> Option<Vec<Operator>> {
    let op = program.operators[id].clone();
    let Body::Map { store, value } = op.body else {
        return None;
    };
    // A part of an array that is updated in place would read elements that another one has written.
    if op.grow.is_some() || loads(program, [value, store.offset]).contains(&store.buffer) {
        return None;
    }
    let (axis, cuts) = (0..op.axes.len())
        .map(|axis| (axis, cuts(program, value, op.axes[axis])))
        .find(|(_, cuts)| !cuts.is_empty())?;
    if cuts.len() >= MOST_PARTS {
        return None;
    }
    let size = program.pool.as_int(op.axes[axis].1)?;
    let ends: Vec<i64> = [0].into_iter().chain(cuts).chain([size]).collect();
    let mut own = 0;
    let mut parts = vec![];
    for range in 1..ends.len() {
        let part = part(program, &op, axis, &ends, range);
        if ends_sums(program, uses, before, (id, &part)) {
            own += ends[range] - ends[range - 1];
        }
        parts.push(part);
    }
    (own * 2 >= size).then_some(parts)
}

/// The place behind the statements that an operator must follow: there it lies next to what computes its operands.
fn place_of(program: &UProgram, op: &Operator, block: &[Stmt]) -> usize {
    let (reads, writes) = (loads(program, op.exprs()), op.body.store().buffer);
    let locals: HashSet<Local> = op
        .exprs()
        .into_iter()
        .flat_map(|e| program.locals_of(e))
        .collect();
    let precedes = |stmt: &Stmt| match stmt {
        Stmt::Run(id) => {
            let other = &program.operators[*id];
            let buffer = other.body.store().buffer;
            reads.contains(&buffer)
                || buffer == writes
                || loads(program, other.exprs()).contains(&writes)
        }
        Stmt::Let(local, _) => locals.contains(local),
        _ => true,
    };
    block.iter().rposition(precedes).map_or(0, |last| last + 1)
}

/// The places of an axis before which a value chooses one operand, and from which on another one.
fn cuts(program: &UProgram, value: ExprId, (axis, size): (Local, ExprId)) -> BTreeSet<i64> {
    let pool = &program.pool;
    let mut cuts = BTreeSet::new();
    let Some(size) = pool.as_int(size) else {
        return cuts;
    };
    let (mut open, mut seen) = (vec![value], BTreeSet::from([value]));
    while let Some(e) = open.pop() {
        if let Expr::Select(dtype, cond, ..) = pool[e]
            && dtype != DType::I64
            && let Expr::Compare(CompareOp::Lt, DType::I64, at, cut) = pool[cond]
            && pool[at] == Expr::Local(axis)
            && let Some(cut) = pool.as_int(cut).filter(|cut| (1..size).contains(cut))
        {
            cuts.insert(cut);
        }
        // Indices choose elements, not parts.
        if !matches!(pool[e], Expr::Load(..)) {
            open.extend(pool[e].operands().filter(|e| seen.insert(*e)));
        }
    }
    cuts
}

/// The points of a map whose place on an axis lies before this one of the ends of its parts, and behind the one before.
fn part(program: &mut UProgram, op: &Operator, axis: usize, ends: &[i64], k: usize) -> Operator {
    let (from, to) = (ends[k - 1], ends[k]);
    let pool = &mut program.pool;
    let near = pool.local(op.axes[axis].0);
    let (count, first, zero) = (pool.int(to - from), pool.int(from), pool.int(0));
    let mut pairs = vec![];
    for cut in ends {
        let end = pool.int(*cut);
        let condition = pool.compare(CompareOp::Lt, DType::I64, near, end);
        pairs.push((
            condition,
            pool.add(Expr::Num(DType::Bool, (from < *cut) as u64)),
        ));
    }
    // An index into the part is certainly inside of it.
    let inside = pool.difference(near, first);
    let certain = [(CompareOp::Ge, zero), (CompareOp::Lt, count)];
    let yes = pool.add(Expr::Num(DType::Bool, 1));
    for (compare, bound) in certain {
        let condition = pool.compare(compare, DType::I64, inside, bound);
        pairs.push((condition, yes));
    }
    let moved = pool.sum(near, first);
    pairs.extend([(near, moved), (inside, near)]);
    let mut at_part = Substitution::new(pairs);
    let mut part = op.clone();
    part.axes[axis].1 = count;
    part.body
        .change_exprs(&mut |e| *e = at_part.apply(pool, *e));
    for split in part.share.splits_mut() {
        if split.axis == axis {
            split.period = count;
        }
    }
    part
}

/// True if a part of a map goes on with what a contraction or reduction of the block gives to this map alone, point by point.
fn ends_sums(
    program: &UProgram,
    uses: &Uses,
    before: &[Stmt],
    (map, part): (OperatorId, &Operator),
) -> bool {
    let count = |op: &Operator| {
        let mut sizes = op.axes.iter().map(|axis| Monomial::of(program, axis.1));
        sizes.try_fold(Monomial::new(1), |n, size| n.times(&size?))
    };
    let is_plain = |stmt: &&Stmt| matches!(stmt, Stmt::Run(_) | Stmt::Let(..) | Stmt::Check { .. });
    let near: BTreeSet<OperatorId> = before
        .iter()
        .rev()
        .take_while(is_plain)
        .filter_map(ran)
        .collect();
    loads(program, part.body.exprs()).into_iter().any(|result| {
        let Some(writer) = uses.sole_writer(program, result) else {
            return false;
        };
        let op = &program.operators[writer];
        matches!(op.body, Body::Contract(_) | Body::Fold { .. })
            && near.contains(&writer)
            && uses.readers(result) == [map]
            && count(op).is_some()
            && count(op) == count(part)
    })
}
