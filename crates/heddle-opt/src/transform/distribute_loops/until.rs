//! Distributed loops with an early exit.

use std::collections::HashMap;

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{DType, Dim, Op, Type, Value};

use super::Distribution;
use super::chunks::{PADDED, Results};
use super::plan::{Body, Plan};
use super::span::{End, Place, Span};
use super::stop::Stop;
use crate::Edit;
use crate::transform::rebuild::Rebuild;

impl Distribution<'_> {
    /// A loop over chunks. In each, the stage with the condition runs first, until early exit or
    /// the chunk's end, and then the others for as many iterations.
    pub(super) fn until<'a>(
        &mut self,
        rebuild: &mut Rebuild<'a>,
        body: &Body<'a>,
        plan: &Plan,
        first: &[Value],
    ) -> Results {
        let parts = &body.parts;
        let most = (self.costs.chunk / plan.row.max(1.0)).clamp(1.0, PADDED as f64) as i64;
        let go = parts.cond.map(|v| rebuild.values[&v]);
        let mut go = go.ok_or(Stop::Impossible)?;
        let trip = parts.trip.map(|v| rebuild.values[&v]);
        let zero = rebuild.b.i64(0);
        if let Some(trip) = trip {
            let any = rebuild.b.compare(CompareOp::Gt, trip, zero)?;
            go = rebuild.b.binary(BinaryOp::And, go, any)?;
        }
        let size = rebuild.b.i64(most);
        let mut stacks = vec![];
        for &value in &parts.stacked {
            stacks.push(stack(rebuild, body, value, trip, most)?);
        }

        let carried = parts.params.iter().map(|v| body.func.ty(*v).clone());
        let number = Type::scalar(DType::I64);
        let stacked = stacks.iter().map(|v| rebuild.b.ty(*v).clone());
        let types: Vec<Type> = [number.clone(), number]
            .into_iter()
            .chain(stacked)
            .chain(carried)
            .collect();
        let (_, params) = rebuild.b.begin_region(&types);
        let base = params[1];
        let (all, now) = params[2..].split_at(stacks.len());
        let limit = match trip {
            Some(trip) => {
                let left = rebuild.b.binary(BinaryOp::Sub, trip, base)?;
                rebuild.b.binary(BinaryOp::Min, left, size)?
            }
            None => size,
        };
        let span = Span {
            body,
            plan,
            count: size,
            dim: Dim::constant(most),
        };
        let place = Place::Until { base, limit };
        let (instead, views) = (
            &mut |r: &mut Rebuild<'a>, i| self.instead(r, i),
            HashMap::new(),
        );
        let built = span.build(instead, rebuild, &place, &views, now)?;
        let Some(End { steps, mut more }) = built.end else {
            return Err(Stop::Impossible);
        };
        let b = &mut rebuild.b;
        let done = b.binary(BinaryOp::Add, base, steps)?;
        if let Some(trip) = trip {
            let left = b.compare(CompareOp::Lt, done, trip)?;
            more = b.binary(BinaryOp::And, more, left)?;
        }
        let mut yields = vec![more, done];
        for (&all, &rows) in all.iter().zip(&built.stacked) {
            let b = &mut rebuild.b;
            let rank = b.rank(all).ok_or(Stop::Impossible)?;
            let starts = [b.vector_of(base)?, b.i64s(&vec![0; rank - 1])];
            let starts = b.join(&starts)?;
            let ty = b.ty(all).clone();
            // Rows past the last iteration are overwritten by the next chunk, or cut off.
            let updated = b.op1(Op::UpdateSlice, &[all, rows, starts])?;
            rebuild.state(updated, &ty);
            yields.push(updated);
        }
        yields.extend(&built.carried);
        let region = rebuild.b.end_region(&yields);
        let inits = [&[zero][..], &stacks, first].concat();
        let results = rebuild.b.loop_(None, Some(go), &inits, region)?;
        let (total, results) = (results[0], &results[1..]);
        let (stacks, last) = results.split_at(stacks.len());
        let mut joined = vec![];
        for &all in stacks {
            let b = &mut rebuild.b;
            let (none, one) = (b.i64s(&[0]), b.i64s(&[1]));
            let end = b.vector_of(total)?;
            joined.push(b.op1(Op::Slice { axes: vec![0] }, &[all, none, end, one])?);
        }
        self.stats.record(Edit::ConditionChunked);
        Ok((last.to_vec(), joined))
    }
}

/// An array of zeros for a scan output, with rows for whole chunks.
fn stack<'a>(
    rebuild: &mut Rebuild<'a>,
    body: &Body<'a>,
    value: Value,
    trip: Option<Value>,
    size: i64,
) -> std::result::Result<Value, Stop> {
    let Type::Tensor(t) = body.func.ty(value) else {
        return Err(Stop::Impossible);
    };
    let plain = t.dtype.is_float() || t.dtype.is_int() || t.dtype == DType::Bool;
    let dims = t.shape.as_ref().filter(|_| plain).ok_or(Stop::Impossible)?;
    let known = trip.and_then(|v| rebuild.b.known(v)?.first().cloned());
    let known = known
        .filter(|d| d.as_expr().is_some())
        // Exporters write the largest integer for a missing trip count.
        .filter(|d| d.as_const().is_none_or(|n| n <= i64::MAX - size))
        .ok_or(Stop::Impossible)?;
    let (step, less, zero) = (
        rebuild.b.i64(size),
        rebuild.b.i64(size - 1),
        rebuild.b.i64(0),
    );
    let trip = trip.ok_or(Stop::Impossible)?;
    let trip = match known.as_const() {
        Some(n) => rebuild.b.i64(n.max(0)),
        None => rebuild.b.binary(BinaryOp::Max, trip, zero)?,
    };
    let up = rebuild.b.binary(BinaryOp::Add, trip, less)?;
    let chunks = rebuild.b.binary(BinaryOp::Div, up, step)?;
    let rows = rebuild.b.binary(BinaryOp::Mul, chunks, step)?;
    let mut sizes = vec![rebuild.b.vector_of(rows)?];
    for dim in dims {
        let size = rebuild.b.size_of(dim)?.ok_or(Stop::Impossible)?;
        sizes.push(rebuild.b.vector_of(size)?);
    }
    let shape = rebuild.b.join(&sizes)?;
    let zero = rebuild.b.scalar(t.dtype, 0.0);
    let all = rebuild.b.op1(Op::Broadcast, &[zero, shape])?;
    if let Some(n) = known.as_const() {
        let step = size.max(1);
        let rows = (n.max(0) + step - 1) / step * step;
        rebuild.state_rows(all, &Dim::constant(rows));
    }
    Ok(all)
}
