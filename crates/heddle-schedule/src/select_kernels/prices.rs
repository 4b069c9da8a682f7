//! Prices of operators by how the elements that they touch lie.

use heddle_ir::DType;
use heddle_ir::op::BinaryOp;

use heddle_uprogram::contract::{Access, Contract};
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{Body, Buffer, ChainStep, Local, Operator, Store, UProgram};

/// Elements of a vector.
const VECTOR: f64 = 16.0;

/// The largest step between elements of which vectors are made.
const NEAR: i64 = 4;

/// The price of an operator in vectors: each access of neighbours takes one for as many as a vector has, several where they lie a few
/// elements apart, and each other one takes one.
pub(super) fn price(program: &UProgram, op: &Operator) -> f64 {
    match &op.body {
        Body::Map { store, value } => {
            let own = nest(program, &op.axes, &[], (&[*value], *store));
            let mut axes = op.axes.clone();
            match vector_axis(program, op) == axes.last().map(|axis| axis.0) {
                true => own,
                false => {
                    let phases = axes.len() - 2;
                    axes[phases..].reverse();
                    own.min(nest(program, &axes, &[], (&[*value], *store)))
                }
            }
        }
        Body::Fold {
            axes, value, store, ..
        } => nest(program, &op.axes, axes, (&[*value], *store)),
        Body::Chain(chain) => {
            let around = points(program, &op.axes);
            let of = |step: &ChainStep| {
                let elements = (&step.body.exprs()[..], step.body.store());
                match step.axes.is_empty() {
                    // A step of one point: its neighbours are those of the chain.
                    true => nest(program, &op.axes, step.body.axes(), elements),
                    false => around * nest(program, &step.axes, step.body.axes(), elements),
                }
            };
            chain.steps.iter().map(of).sum()
        }
        Body::Contract(c) => contraction(program, op, c),
        _ => 0.0,
    }
}

/// The price of reading the operands of a contraction by packing them, and of its results.
fn contraction(program: &UProgram, op: &Operator, c: &Contract) -> f64 {
    let around = points(program, &op.axes);
    let rows = c
        .rows
        .and_then(|rows| size(program, &op.axes, rows))
        .unwrap_or(1.0);
    let depth = program.pool.as_int(c.depth.1).unwrap_or(64) as f64;
    let is_near = |offset: ExprId| is_near(program, offset, c.columns);
    let packed = match c.b.access {
        Access::Computed => {
            let loads = program.pool.loads([c.b.value]);
            let near = loads.iter().all(|load| is_near(load.1));
            around / rows * depth * if near { 2.0 / VECTOR } else { 2.0 }
        }
        _ => 0.0,
    };
    let loads = program.pool.loads([c.finish]);
    let offsets = loads.iter().map(|load| load.1).chain([c.store.offset]);
    let results: f64 = offsets
        .map(|offset| if is_near(offset) { 1.0 / VECTOR } else { 0.25 })
        .sum();
    packed + around * results
}

/// The price of loops over parallel and reduced axes.
fn nest(
    program: &UProgram,
    parallel: &[(Local, ExprId)],
    reduced: &[(Local, ExprId)],
    (values, store): (&[ExprId], Store),
) -> f64 {
    // Rows of one element are variables.
    let in_memory = |buffer: Buffer| {
        let data = &program.buffers[buffer];
        !data.kind.is_row() || program.pool.as_int(data.len) != Some(1)
    };
    let loads = program.pool.loads(values.iter().copied()).into_iter();
    let mut all: Vec<_> = loads
        .filter(|load| in_memory(load.0))
        .map(|load| load.1)
        .collect();
    if reduced.is_empty() && in_memory(store.buffer) {
        all.push(store.offset);
    }
    let (points, times) = (points(program, parallel), points(program, reduced));
    let count = all.len() as f64;
    // Vectors that hold the elements of a vector of neighbours, together for all accesses.
    let vectors_along = |axis: &(Local, ExprId)| {
        let steps = all.iter().map(|offset| step(program, *offset, axis.0));
        let near = |step: Option<i64>| step.filter(|step| (0..=NEAR).contains(step));
        let vectors = steps.map(|step| Some(near(step)?.max(1) as f64));
        vectors.sum::<Option<f64>>()
    };
    let line =
        |n: f64, vectors: f64| points * times / n.max(1.0) * ((n / VECTOR).ceil() * vectors + 1.0);
    let along = |axes: &[(Local, ExprId)]| {
        let innermost = axes.last()?;
        let vectors = vectors_along(innermost)?;
        let mut n = size(program, axes, innermost.0)?;
        // Axes that all accesses traverse as one.
        for axis in axes.iter().rev().skip(1).take_while(|_| reduced.is_empty()) {
            let by = |offset: &ExprId| {
                let by = step(program, *offset, axis.0)?;
                let near = step(program, *offset, innermost.0)?;
                Some(by as f64 == near as f64 * n)
            };
            if !all.iter().all(|offset| by(offset) == Some(true)) {
                break;
            }
            n *= size(program, axes, axis.0)?;
        }
        Some(line(n, vectors))
    };
    let prices = [along(parallel), along(reduced)];
    let scalar = points * times * count;
    let best = prices.into_iter().flatten().fold(scalar, f64::min);
    let is_along = |axis: &(Local, ExprId)| is_near(program, store.offset, axis.0);
    // Results of reductions.
    best + match parallel.last().is_none_or(is_along) {
        _ if reduced.is_empty() => 0.0,
        true => points / VECTOR,
        false => points,
    }
}

/// The axis along which vectors of a map's elements can be made: the innermost one, or the next if the innermost has a few places that
/// lie side by side in the result, but not in all of its sources, such as phases that take turns.
pub(super) fn vector_axis(program: &UProgram, op: &Operator) -> Option<Local> {
    let innermost = op.axes.last()?;
    let Body::Map { store, value } = op.body else {
        return Some(innermost.0);
    };
    let [.., next, inner] = op.axes[..] else {
        return Some(innermost.0);
    };
    let Some(places) = program.pool.as_int(inner.1).filter(|n| *n as f64 <= VECTOR) else {
        return Some(innermost.0);
    };
    let is_line = |offset: ExprId| {
        let steps = [next, inner].map(|axis| step(program, offset, axis.0));
        matches!(steps, [Some(far), Some(near)] if Some(far) == near.checked_mul(places))
    };
    let mut loads = program.pool.loads([value]).into_iter();
    match is_line(store.offset) && !loads.all(|load| is_line(load.1)) {
        true => Some(next.0),
        false => Some(innermost.0),
    }
}

/// True if the elements of neighbours along an axis are neighbours, or the same.
pub(crate) fn is_near(program: &UProgram, offset: ExprId, axis: Local) -> bool {
    matches!(step(program, offset, axis), Some(0 | 1))
}

/// The step of an offset along an axis, where the element exists: others are read at the first place.
pub(super) fn step(program: &UProgram, offset: ExprId, axis: Local) -> Option<i64> {
    let of = |e| step(program, e, axis);
    match program.pool[offset] {
        Expr::Local(local) => Some(i64::from(local == axis)),
        Expr::Num(..) => Some(0),
        Expr::Binary(BinaryOp::Add, DType::I64, a, b) => of(a)?.checked_add(of(b)?),
        Expr::Binary(BinaryOp::Sub, DType::I64, a, b) => of(a)?.checked_sub(of(b)?),
        Expr::Binary(BinaryOp::Mul, DType::I64, a, b) => match (of(a)?, of(b)?) {
            (0, 0) => Some(0),
            (by, 0) => by.checked_mul(program.pool.as_int(b)?),
            (0, by) => by.checked_mul(program.pool.as_int(a)?),
            _ => None,
        },
        Expr::Select(DType::I64, _, a, _) => of(a),
        _ => (!program.locals_of(offset).contains(&axis)).then_some(0),
    }
}

fn size(program: &UProgram, axes: &[(Local, ExprId)], local: Local) -> Option<f64> {
    let size = axes.iter().find(|axis| axis.0 == local)?.1;
    Some(program.pool.as_int(size).unwrap_or(64).max(1) as f64)
}

/// The points of axes; a size that is not known counts as 64.
pub(super) fn points(program: &UProgram, axes: &[(Local, ExprId)]) -> f64 {
    let sizes = axes
        .iter()
        .map(|axis| program.pool.as_int(axis.1).unwrap_or(64));
    sizes.map(|n| n.max(1) as f64).product()
}
