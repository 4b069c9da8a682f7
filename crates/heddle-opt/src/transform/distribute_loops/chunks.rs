//! Distributed loops over chunks of the iterations.

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Dim, Op, Type, Value};

use super::Distribution;
use super::plan::Plan;
use super::span::{Built, Place, Span};
use super::stop::Stop;
use crate::Edit;
use crate::transform::rebuild::{Rebuild, Result};

/// Maximum chunk size with a dynamic trip count: the last chunk is padded.
pub const PADDED: i64 = 16;

/// Carried values after some iterations, and the scan outputs of these.
pub type Results = std::result::Result<(Vec<Value>, Vec<Value>), Stop>;

impl Distribution<'_> {
    /// Iterations of a chunk, if the loops run in chunks.
    pub(super) fn chunk(&self, plan: &Plan, count: &Dim) -> Option<i64> {
        let most = (self.costs.chunk / plan.row.max(1.0)).clamp(1.0, 65536.0) as i64;
        match count.as_const() {
            Some(n) if n <= most => None,
            // A divisor of the count leaves no remainder.
            Some(n) => {
                let mut sizes = (most / 2 + 1..=most).rev();
                Some(sizes.find(|c| n % c == 0).unwrap_or(most))
            }
            None => Some(most.min(PADDED)),
        }
    }

    /// A loop over whole chunks, and the remainder, for a static trip count.
    pub(super) fn chunks<'a>(
        &mut self,
        rebuild: &mut Rebuild<'a>,
        whole: &Span<'_, 'a>,
        size: i64,
        first: &[Value],
    ) -> Results {
        let b = &mut rebuild.b;
        let step = b.i64(size);
        let chunks = b.binary(BinaryOp::Div, whole.count, step)?;
        let done = b.binary(BinaryOp::Mul, chunks, step)?;
        let left = b.binary(BinaryOp::Sub, whole.count, done)?;
        let constant = Dim::constant(size);
        let rest = whole
            .dim
            .sub(&whole.dim.floor_div(&constant).mul(&constant));
        let span = Span {
            count: step,
            dim: constant,
            ..*whole
        };
        let outside = Place::Chunk {
            index: None,
            chunks,
            done,
        };
        let views = span.views(rebuild, &outside)?;
        let params = begin(rebuild, whole);
        let inside = Place::Chunk {
            index: Some(params[0]),
            chunks,
            done,
        };
        let instead = &mut |r: &mut Rebuild<'a>, i| self.instead(r, i);
        let built = span.build(instead, rebuild, &inside, &views, &params[1..])?;
        let results = end(rebuild, chunks, first, built)?;
        let (last, stacked) = results.split_at(first.len());
        let mut joined = vec![];
        for &stack in stacked {
            joined.push(flatten(rebuild, stack, done)?);
        }
        self.stats.record(Edit::LoopChunked);
        if rest.is(0) {
            return Ok((last.to_vec(), joined));
        }
        let span = Span {
            count: left,
            dim: rest,
            ..*whole
        };
        let place = Place::Rest {
            done,
            end: whole.count,
        };
        let views = span.views(rebuild, &place)?;
        let instead = &mut |r: &mut Rebuild<'a>, i| self.instead(r, i);
        let built = span.build(instead, rebuild, &place, &views, last)?;
        for (all, &rest) in joined.iter_mut().zip(&built.stacked) {
            *all = rebuild.b.op1(Op::Concat { axis: 0 }, &[*all, rest])?;
        }
        Ok((built.carried, joined))
    }

    /// A loop over padded chunks, for a dynamic trip count.
    pub(super) fn padded_chunks<'a>(
        &mut self,
        rebuild: &mut Rebuild<'a>,
        whole: &Span<'_, 'a>,
        size: i64,
        first: &[Value],
    ) -> Results {
        let stacks = !whole.body.parts.stacked.is_empty();
        if stacks && whole.dim.as_expr().is_none() {
            return Err(Stop::Impossible);
        }
        let b = &mut rebuild.b;
        let (step, one, less) = (b.i64(size), b.i64(1), b.i64(size - 1));
        let up = b.binary(BinaryOp::Add, whole.count, less)?;
        let chunks = b.binary(BinaryOp::Div, up, step)?;
        let last = b.binary(BinaryOp::Sub, whole.count, one)?;
        let params = begin(rebuild, whole);
        let b = &mut rebuild.b;
        let base = b.binary(BinaryOp::Mul, params[0], step)?;
        let left = b.binary(BinaryOp::Sub, whole.count, base)?;
        let steps = b.binary(BinaryOp::Min, left, step)?;
        let span = Span {
            count: step,
            dim: Dim::constant(size),
            ..*whole
        };
        let place = Place::Padded { base, steps, last };
        let views = Default::default();
        let instead = &mut |r: &mut Rebuild<'a>, i| self.instead(r, i);
        let built = span.build(instead, rebuild, &place, &views, &params[1..])?;
        let results = end(rebuild, chunks, first, built)?;
        let (carried, stacked) = results.split_at(first.len());
        let number = whole.dim.add(&Dim::constant(size - 1)).floor_div(&span.dim);
        let rows = number.mul(&span.dim);
        let padded = rebuild.b.binary(BinaryOp::Mul, chunks, step)?;
        let mut joined = vec![];
        for &stack in stacked {
            rebuild.state_rows(stack, &number);
            let all = flatten(rebuild, stack, padded)?;
            rebuild.state_rows(all, &rows);
            let b = &mut rebuild.b;
            let (none, one) = (b.i64s(&[0]), b.i64s(&[1]));
            let end = b.vector_of(whole.count)?;
            let all = b.op1(Op::Slice { axes: vec![0] }, &[all, none, end, one])?;
            rebuild.state_rows(all, &whole.dim);
            joined.push(all);
        }
        self.stats.record(Edit::LoopChunked);
        Ok((carried.to_vec(), joined))
    }
}

/// Opens the region of a loop over chunks; gives its parameters.
fn begin(rebuild: &mut Rebuild, whole: &Span) -> Vec<Value> {
    let (func, params) = (whole.body.func, &whole.body.parts.params);
    let types = params.iter().map(|v| func.ty(*v).clone());
    let types: Vec<Type> = std::iter::once(Type::scalar(DType::I64))
        .chain(types)
        .collect();
    rebuild.b.begin_region(&types).1
}

/// Closes the region of a loop over chunks, and builds the loop.
fn end(rebuild: &mut Rebuild, trip: Value, inits: &[Value], built: Built) -> Result<Vec<Value>> {
    let yields = [built.carried, built.stacked].concat();
    let region = rebuild.b.end_region(&yields);
    rebuild.b.loop_(Some(trip), None, inits, region)
}

/// Flattens chunks of rows to `count` rows.
pub fn flatten(rebuild: &mut Rebuild, stack: Value, count: Value) -> Result<Value> {
    let b = &mut rebuild.b;
    let rank = b.rank(stack).unwrap_or(2);
    let (rows, rest) = (b.vector_of(count)?, b.sizes(stack, 2..rank)?);
    let shape = b.join(&[rows, rest])?;
    b.op1(Op::Reshape, &[stack, shape])
}
