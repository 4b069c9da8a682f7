//! Splits the depth axis of products into partial sums for several units, which a second operator
//! adds up.
//!
//! Some contractions have too few rows and columns to split: a vector times a matrix of few
//! columns, or a product of two vectors, keeps one unit busy. Others have enough, but split by
//! columns each unit reads short runs of each row of an unpacked operand, which is slow. In parts,
//!
//! ```text
//! sums[part, point] = sum over k < min(each, K - part * each) of a[part * each + k] * b[part * each + k]
//! out[point]        = finish(sums[0, point] + sums[1, point] + ...)
//! ```
//!
//! the first operator is split along the parts, the second as the contraction was. That costs a
//! synchronisation between them, and floats are summed in another order. It is kept if the program
//! takes less time by the cost model, even with a profiler, which has not measured these new
//! operators.
//!
//! Procedures are left alone: each activation's frame would have to hold the partial sums.

use heddle_ir::op::{BinaryOp, ReduceOp};
use heddle_ir::{Arena, DType};

use crate::candidates::candidates;
use crate::cost::{arithmetic, estimate};
use crate::fuse::substitute::Substitution;
use crate::latency::Latency;
use crate::linear::is_fixed;
use crate::total::total;
use heddle_uprogram::contract::{Access, panel_width, places_of_row};
use heddle_uprogram::expr::{Expr, ExprId, Pool};
use heddle_uprogram::program::{
    Body, Buffer, BufferData, BufferKind, Candidate, Lanes, Local, LocalData, LocalKind, Operator,
    OperatorId, Share, Split, Stmt, Store, UProgram, for_each_stmt,
};

/// Splits depths in the program's own body where that pays, and records the candidates of the
/// operators it splits.
pub fn split_depths(program: &mut UProgram, latency: &dyn Latency) {
    let mut found = vec![];
    for_each_stmt(&program.body, &mut |stmt| {
        if let Stmt::Run(id) = stmt {
            found.push(*id);
        }
    });
    found.sort_unstable();
    found.dedup();
    let proposals = found.into_iter();
    let proposals = proposals.filter_map(|id| propose(program, latency, id));
    let mut proposals: Vec<_> = proposals.collect();
    // Bounds compile time: the most promising proposals are tried.
    proposals.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    proposals.truncate(MAX_TRIALS);
    if proposals.is_empty() {
        return;
    }
    let mut best = total(program, latency.machine());
    for proposal in proposals {
        let before = program.clone();
        split(program, proposal);
        let time = total(program, latency.machine());
        match time < best * (1.0 - 1e-6) {
            true => best = time,
            false => *program = before,
        }
    }
}

/// Limit on the operators tried.
const MAX_TRIALS: usize = 16;

/// Relative gain from which on a proposal is tried; less is within the cost model's error.
const WORTH_A_TRIAL: f64 = 0.1;

/// Limit on the parts of a depth axis, since each point adds that many sums.
const MAX_PARTS: usize = 8;

/// The candidate of an operator in parts, one per unit; its time includes a part, the
/// synchronisation and the final sum. `None` if the depth is not fixed or the number of points is
/// not static.
pub fn in_parts(
    program: &mut UProgram,
    latency: &dyn Latency,
    id: OperatorId,
) -> Option<Candidate> {
    let (op, machine) = (&program.operators[id], latency.machine());
    let size = depth_of(&op.body)?.size;
    let depth = estimate(program, size);
    let parts = machine.units().min(MAX_PARTS).min(depth as usize);
    let mut axes = op.axes.iter().map(|a| program.pool.as_int(a.1));
    let points = axes.try_fold(1i64, |points, size| points.checked_mul(size?))?;
    if parts < 2 || points == 0 || !is_fixed(program, size) {
        return None;
    }
    let whole = latency.operator(program, id, Share::One(0)) - machine.start_ns;
    let part = (depth / parts as f64).ceil() / depth;
    let adding_ns = arithmetic(machine, DType::F32).elementwise_ns;
    // Units split the final sum: a load and an addition per part.
    let each = (points as usize).div_ceil(machine.units()) as f64;
    let adding = each * 2.0 * parts as f64 * adding_ns;
    Some(Candidate {
        share: Share::Split(Split::whole(0, program.pool.int(parts as i64))),
        parts: parts as i64,
        tasks: parts,
        time: 2.0 * machine.start_ns + whole * part + latency.barrier() + adding,
    })
}

/// An operator that may take less time in parts.
struct Proposal {
    id: OperatorId,
    gain: f64,
    /// All candidates, the one in parts last.
    candidates: Vec<Candidate>,
}

fn propose(program: &mut UProgram, latency: &dyn Latency, id: OperatorId) -> Option<Proposal> {
    let candidate = in_parts(program, latency, id)?;
    let gain = |time: f64| Some(time - candidate.time).filter(|gain| *gain > time * WORTH_A_TRIAL);
    let share = program.operators[id].share;
    gain(latency.operator(program, id, share))?;
    let mut candidates = candidates(program, latency, id);
    let fastest = candidates.iter().map(|c| c.time);
    let gain = gain(fastest.fold(f64::INFINITY, f64::min))?;
    candidates.push(candidate);
    Some(Proposal {
        id,
        gain,
        candidates,
    })
}

/// Replaces an operator by one that computes partial sums and one that adds them.
fn split(program: &mut UProgram, proposal: Proposal) {
    let Some(Candidate { share, parts, .. }) = proposal.candidates.last().copied() else {
        return;
    };
    let op = program.operators[proposal.id].clone();
    let Some(depth) = depth_of(&op.body) else {
        return;
    };
    let axis = program.locals.push(LocalData {
        dtype: DType::I64,
        kind: LocalKind::Axis,
        name: "part".into(),
    });
    let pool = &mut program.pool;
    // Offset of a partial sum: row-major, parts outermost.
    let (mut place, mut points) = (pool.local(axis), pool.int(1));
    for &(local, size) in &op.axes {
        let (scaled, local) = (pool.product(place, size), pool.local(local));
        place = pool.sum(scaled, local);
        points = pool.product(points, size);
    }
    let size = pool.int(parts);
    let data = BufferData {
        dtype: depth.dtype,
        len: pool.product(size, points),
        kind: BufferKind::Scratch,
        procedure: None,
        name: "sums of parts".into(),
    };
    let buffer = program.buffers.push(data);
    let store = Store {
        buffer,
        offset: place,
    };
    let sums = Operator {
        axes: [&[(axis, size)], op.axes.as_slice()].concat(),
        team: None,
        share,
        lanes: Lanes::Apart,
        resident: None,
        grow: None,
        body: part_of(program, &op.body, &depth, (axis, parts), store),
        name: op.name.clone(),
    };
    let pool = &mut program.pool;
    let sum_of = |pool: &mut Pool, part: i64| {
        let (axis, part) = (pool.local(axis), pool.int(part));
        let offset = Substitution::new([(axis, part)]).apply(pool, place);
        pool.add(Expr::Load(buffer, offset))
    };
    let mut total = sum_of(pool, 0);
    for part in 1..parts {
        let next = sum_of(pool, part);
        total = pool.binary(BinaryOp::Add, depth.dtype, total, next);
    }
    let value = match &op.body {
        Body::Contract(c) => {
            let sum = pool.local(c.sum);
            Substitution::new([(sum, total)]).apply(pool, c.finish)
        }
        _ => total,
    };
    let store = op.body.store();
    let finished = Operator {
        body: Body::Map { store, value },
        ..op
    };
    let both = [sums, finished].map(|op| program.operators.push(op));
    let mut body = std::mem::take(&mut program.body);
    replace(&mut body, proposal.id, both);
    program.body = body;
    // The first axis of the first operator is the parts.
    let mut candidates = proposal.candidates;
    for candidate in candidates.iter_mut().filter(|c| c.parts == 1) {
        let splits = candidate.share.splits_mut().iter_mut();
        splits.for_each(|split| split.axis += 1);
    }
    program.candidates.insert(both[0], candidates);
}

/// The depth axis that is split.
struct Depth {
    axis: Local,
    size: ExprId,
    dtype: DType,
}

/// The depth of a contraction, or of a product as a plain reduction.
fn depth_of(body: &Body) -> Option<Depth> {
    let ((axis, size), dtype) = match body {
        // Parts of a depth of runs would cut windows.
        Body::Contract(c) if matches!(c.a.access, Access::Windows { .. }) => return None,
        Body::Contract(c) => (c.depth, c.dtype),
        Body::Fold {
            kind: ReduceOp::Sum,
            columns: true,
            axes,
            dtype,
            ..
        } if dtype.bits() >= 32 => (*axes.first()?, *dtype),
        _ => return None,
    };
    Some(Depth { axis, size, dtype })
}

/// The body over one part of the depth axis; the last parts may be partial or empty.
fn part_of(
    program: &mut UProgram,
    body: &Body,
    depth: &Depth,
    (axis, parts): (Local, i64),
    store: Store,
) -> Body {
    let pool = &mut program.pool;
    let (part, zero) = (pool.local(axis), pool.int(0));
    let (count, less) = (pool.int(parts), pool.int(parts - 1));
    let above = pool.sum(depth.size, less);
    let each = pool.binary(BinaryOp::Div, DType::I64, above, count);
    let each = whole_rows(pool, body, &program.buffers, each);
    let first = pool.product(part, each);
    let left = pool.difference(depth.size, first);
    let left = pool.binary(BinaryOp::Max, DType::I64, left, zero);
    let size = pool.binary(BinaryOp::Min, DType::I64, each, left);
    let old = pool.local(depth.axis);
    let moved = pool.sum(first, old);
    let mut values = Substitution::new([(old, moved)]);
    let mut body = body.clone();
    match &mut body {
        Body::Contract(c) => {
            for operand in [&mut c.a, &mut c.b] {
                operand.value = values.apply(pool, operand.value);
                let (base, step) = match &mut operand.access {
                    Access::Strided { base, depth, .. } => (base, *depth),
                    Access::Rows { at, .. } => (at, pool.int(1)),
                    Access::Panels { base, .. } => (base, pool.int(panel_width(c.dtype))),
                    Access::Windows { .. } | Access::Computed => continue,
                };
                let by = pool.product(first, step);
                *base = pool.sum(*base, by);
            }
            (c.depth.1, c.finish, c.store) = (size, pool.local(c.sum), store);
        }
        Body::Fold {
            axes,
            value,
            store: to,
            ..
        } => {
            *value = values.apply(pool, *value);
            *to = store;
            let axes = axes.iter_mut().filter(|a| a.0 == depth.axis);
            axes.for_each(|a| a.1 = size);
        }
        _ => {}
    }
    body
}

/// Places of a part, such that it is whole rows of the second operand's panels.
fn whole_rows(
    pool: &mut Pool,
    body: &Body,
    buffers: &Arena<Buffer, BufferData>,
    each: ExprId,
) -> ExprId {
    let Body::Contract(c) = body else {
        return each;
    };
    let Access::Panels { buffer, .. } = c.b.access else {
        return each;
    };
    let places = places_of_row(c.dtype, buffers[buffer].dtype);
    if places == 1 {
        return each;
    }
    let (places, less) = (pool.int(places), pool.int(places - 1));
    let above = pool.sum(each, less);
    let rows = pool.binary(BinaryOp::Div, DType::I64, above, places);
    pool.product(rows, places)
}

/// Replaces a `run` by two, everywhere.
fn replace(block: &mut Vec<Stmt>, one: OperatorId, both: [OperatorId; 2]) {
    let mut k = 0;
    while k < block.len() {
        let blocks = block[k].blocks_mut();
        blocks.for_each(|inner| replace(inner, one, both));
        if matches!(block[k], Stmt::Run(id) if id == one) {
            block.splice(k..=k, both.map(Stmt::Run));
        }
        k += 1;
    }
}
