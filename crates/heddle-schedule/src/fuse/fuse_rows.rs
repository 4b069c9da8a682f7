//! Fuses operators over the same rows into one operator that processes a row at a time: maximum,
//! exponentials, sum and quotients of a softmax; mean, deviations and variance of a normalisation.

use super::substitute::{Substitution, point_exprs};
use super::uses::{Uses, loads};
use super::{discard, for_each_block};
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{
    Body, Buffer, BufferData, BufferKind, Chain, ChainStep, Lanes, Local, Operator, OperatorId,
    Share, Stmt, UProgram,
};
use heddle_uprogram::step::{Step, origin};

/// Limit on the steps of a chain.
const MOST_STEPS: usize = 16;

/// Rows shorter than this do not fill vectors; loops over all rows do.
const SHORTEST: i64 = 16;

/// Longer rows do not stay in the nearest cache, and each of their steps has enough work to be
/// split.
const LONGEST: i64 = 8192;

/// A single row up to this length takes one unit no longer than a synchronisation.
const SINGLE: i64 = 2048;

/// Fuses consecutive operators of a block if each result but the last is read only by later ones of
/// them, and only in the row that was written. Intermediate results become buffers of a row.
///
/// Not fused: contractions; rows of dynamic length; operators separated by other statements.
pub fn fuse_rows(program: &mut UProgram) {
    for_each_block(program, &mut |program, uses, block| {
        let mut first = 0;
        while first < block.len() {
            let ids = block[first..].iter().map_while(|stmt| match stmt {
                Stmt::Run(id) => Some(*id),
                _ => None,
            });
            let ids: Vec<_> = ids.take(MOST_STEPS).collect();
            let longest = (2..=ids.len()).rev();
            let chain = longest
                .map(|n| &ids[..n])
                .find_map(|ids| Some((ids.len(), chain(program, uses, ids)?)));
            if let Some((count, (op, rows))) = chain {
                let last = ids[count - 1];
                ids[..count - 1]
                    .iter()
                    .for_each(|&id| discard(program, uses, id));
                uses.remove(program, last);
                program.operators[last] = fused(program, op, &rows);
                uses.add(program, last);
                block.drain(first..first + count - 1);
            }
            first += 1;
        }
    });
}

/// The operators as steps of a chain, and their intermediate buffers with the row size of each.
fn chain(
    program: &mut UProgram,
    uses: &Uses,
    ids: &[OperatorId],
) -> Option<(Operator, Vec<(Buffer, ExprId)>)> {
    let ops: Vec<_> = ids
        .iter()
        .map(|&id| program.operators[id].clone())
        .collect();
    let (last, earlier) = ops.split_last()?;
    let simple = |op: &Operator| {
        matches!(
            op.body,
            Body::Map { .. } | Body::Fold { .. } | Body::ArgFold { .. }
        )
    };
    let between: Vec<_> = earlier.iter().map(|op| op.body.store().buffer).collect();
    let own = between.iter().zip(ids).all(|(&buffer, &id)| {
        let readers = uses.readers(buffer);
        uses.sole_writer(program, buffer) == Some(id)
            && !readers.is_empty()
            && readers.iter().all(|r| ids.contains(r))
    });
    let result = last.body.store().buffer;
    let reads_result = |op: &Operator| loads(program, op.body.exprs()).contains(&result);
    if !own || !ops.iter().all(simple) || ops.iter().any(reads_result) {
        return None;
    }
    // Row axes are the common leading axes; the fewer, the longer the rows.
    let shared = (0..).take_while(|&k| {
        let axis = ops[0].axes.get(k);
        axis.is_some() && ops.iter().all(|op| op.axes.get(k) == axis)
    });
    let most = shared.count();
    (0..=most)
        .rev()
        .find_map(|count| of_rows(program, &ops, &between, count))
}

/// The operators as steps of one operator over `count` row axes.
fn of_rows(
    program: &mut UProgram,
    ops: &[Operator],
    between: &[Buffer],
    count: usize,
) -> Option<(Operator, Vec<(Buffer, ExprId)>)> {
    let (rows, mut inner) = (ops[0].axes[..count].to_vec(), vec![]);
    let steps = ops.iter().map(|op| ChainStep {
        axes: op.axes[count..].to_vec(),
        body: op.body.clone(),
        name: op.name.clone(),
    });
    let chain = Chain {
        steps: steps.collect(),
        axes: vec![],
    };
    // Vectors may run across rows of one element.
    let across = rows.last().filter(|_| chain.reduction().is_some());
    let is_across = across.is_some_and(|axis| reads_near(program, &chain.steps[0], axis.0));
    let steps = chain.steps;
    let mut longest = 1;
    for step in &steps {
        if !is_across && !is_contiguous(program, step) {
            return None;
        }
        let axes = step.axes.iter().chain(step.body.axes());
        let sizes = axes.clone().map(|a| program.pool.as_int(a.1));
        let size = sizes.into_iter().try_fold(1i64, |n, s| n.checked_mul(s?))?;
        longest = longest.max(size);
        for axis in axes {
            match inner.iter().find(|a: &&(Local, ExprId)| a.0 == axis.0) {
                Some(same) if same != axis => return None,
                Some(_) => {}
                None => inner.push(*axis),
            }
        }
    }
    let limit = if rows.is_empty() { SINGLE } else { LONGEST };
    if longest > limit || longest < SHORTEST && !is_across {
        return None;
    }
    let mut sizes = vec![];
    for (step, &buffer) in steps.iter().zip(between) {
        let len: Vec<_> = step.axes.iter().map(|a| a.1).collect();
        let len = program.pool.product_of(&len);
        let all = rows.iter().chain(&step.axes).map(|a| a.1);
        let all: Vec<_> = all.collect();
        let whole = program.pool.product_of(&all);
        // Each row is written once, completely.
        let written = step.body.store().offset;
        if program.buffers[buffer].len != whole || !in_row(program, &rows, &inner, written, len) {
            return None;
        }
        let read = steps.iter().flat_map(|s| s.body.exprs());
        let read: Vec<_> = read.collect();
        for offset in offsets(program, &read, buffer) {
            if !in_row(program, &rows, &inner, offset, len) {
                return None;
            }
        }
        sizes.push((buffer, len));
    }
    let last = &ops[ops.len() - 1];
    let share = match last.share {
        _ if rows.is_empty() => Share::One(0),
        Share::Split(split) if split.axis < count => last.share,
        _ => return None,
    };
    // Ordered work on one unit must not be split.
    if !rows.is_empty() && ops.iter().any(|op| op.share != share) {
        return None;
    }
    let op = Operator {
        axes: rows.clone(),
        team: None,
        share,
        lanes: Lanes::Apart,
        resident: None,
        grow: last.grow,
        body: Body::Chain(Chain { steps, axes: inner }),
        name: last.name.clone(),
    };
    Some((op, sizes))
}

/// True if a step reads contiguous elements along the row, so that vectors run along the row and
/// not across rows.
fn is_contiguous(program: &UProgram, step: &ChainStep) -> bool {
    let mut axes = step.axes.iter().chain(step.body.axes());
    let innermost = axes.next_back();
    innermost.is_none_or(|&(axis, _)| reads_near(program, step, axis))
}

/// True if a step reads the same element at neighbouring places of an axis, or neighbours.
fn reads_near(program: &UProgram, step: &ChainStep, axis: Local) -> bool {
    let near = |s: Step| matches!(s.as_int(), Some(0 | 1));
    let loads = program.pool.loads(step.body.exprs());
    let mut steps = loads.iter().map(|l| Step::of(program, l.1, axis));
    steps.all(|step| step.is_some_and(near))
}

/// True if an offset lies within the row of its point, in an array of rows of this length.
fn in_row(
    program: &UProgram,
    rows: &[(Local, ExprId)],
    inner: &[(Local, ExprId)],
    offset: ExprId,
    len: ExprId,
) -> bool {
    let mut extent = Step::size(program, len);
    for &(axis, size) in rows.iter().rev() {
        if extent.is_none() || Step::of(program, offset, axis) != extent {
            return false;
        }
        extent = extent.and_then(|e| e.times(&Step::size(program, size)?));
    }
    // The rest is a sum over inner axes, starting at 0.
    let known = |axis: &(Local, ExprId)| {
        let step = Step::of(program, offset, axis.0)?
            .as_int()
            .filter(|s| *s >= 0)?;
        let size = program.pool.as_int(axis.1)?;
        step.checked_mul(size - 1)
    };
    let most = inner.iter().try_fold(0i64, |n, a| n.checked_add(known(a)?));
    let own = |l: &Local| rows.iter().chain(inner).any(|a| a.0 == *l);
    let least = origin(program, offset);
    let all = program.locals_of(offset).iter().all(own) && !program.loads(offset);
    match (most, least, program.pool.as_int(len)) {
        (Some(most), Some(least), Some(len)) => all && least >= 0 && most + least < len,
        _ => false,
    }
}

fn offsets(program: &UProgram, exprs: &[ExprId], buffer: Buffer) -> Vec<ExprId> {
    let loads = program.pool.loads(exprs.iter().copied()).into_iter();
    let offsets = loads.filter(|l| l.0 == buffer).map(|l| l.1);
    offsets.collect()
}

/// The operator with row buffers in place of intermediate results.
fn fused(program: &mut UProgram, mut op: Operator, rows: &[(Buffer, ExprId)]) -> Operator {
    let zero = program.pool.int(0);
    let first = op.axes.iter().map(|a| (program.pool.local(a.0), zero));
    let mut in_first_row = Substitution::new(first.collect::<Vec<_>>());
    let mut pairs = vec![];
    for &(buffer, len) in rows {
        let data = BufferData {
            len,
            kind: BufferKind::Row,
            ..program.buffers[buffer].clone()
        };
        let row = program.buffers.push(data);
        for offset in offsets(program, &op.body.exprs(), buffer) {
            let load = program.pool.add(Expr::Load(buffer, offset));
            let offset = in_first_row.apply(&mut program.pool, offset);
            pairs.push((load, program.pool.add(Expr::Load(row, offset))));
        }
        if let Body::Chain(chain) = &mut op.body {
            for step in &mut chain.steps {
                if let Body::Map { store, .. }
                | Body::Fold { store, .. }
                | Body::ArgFold { store, .. } = &mut step.body
                    && store.buffer == buffer
                {
                    store.buffer = row;
                    store.offset = in_first_row.apply(&mut program.pool, store.offset);
                }
            }
        }
    }
    let mut loads = Substitution::new(pairs);
    for expr in point_exprs(&mut op.body) {
        *expr = loads.apply(&mut program.pool, *expr);
    }
    op
}
