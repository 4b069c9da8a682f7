//! Distributed loops as a pipeline: a wavefront over layers and chunks of the iterations.
//!
//! In iteration `i` of the loop over chunks, group `g` of the stages works on chunk `i - g`. Its
//! inputs from earlier groups were computed in the iteration before and are carried, so the groups
//! of one iteration are independent of each other. In the first and last iterations, some groups
//! have no chunk: their loops take no step, their carried values stay unchanged, and their batched
//! results are not used.

use std::collections::BTreeSet;
use std::ops::Range;

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{DType, Dim, Op, Type, Value, cannot_fail};

use super::Distribution;
use super::chunks::{Results, flatten};
use super::groups::Groups;
use super::plan::Mode;
use super::span::{Place, Span, State};
use super::stop::Stop;
use crate::Edit;
use crate::batch::{Batch, Batched};
use crate::transform::rebuild::Rebuild;

/// Minimum number of chunks for each group after the first: filling the pipeline then takes at most
/// a third of its time.
const CHUNKS: i64 = 3;

impl Distribution<'_> {
    /// [`Distribution::pipeline`] if the dynamic trip count is large enough, else the loops one
    /// after the other.
    pub(super) fn pipeline_if_long<'a>(
        &mut self,
        rebuild: &mut Rebuild<'a>,
        whole: &Span<'_, 'a>,
        groups: &Groups,
        first: &[Value],
    ) -> Results {
        let least = groups.size * (groups.stages.len() as i64 - 1) * CHUNKS;
        let least = rebuild.b.i64(least);
        let long = rebuild.b.compare(CompareOp::Ge, whole.count, least)?;
        let values = rebuild.values.clone();
        rebuild.b.begin_region(&[]);
        let (mut all, stacked) = self.pipeline(rebuild, whole, groups, first)?;
        let carried = all.len();
        all.extend(stacked);
        let then = rebuild.b.end_region(&all);
        rebuild.values.clone_from(&values);
        rebuild.b.begin_region(&[]);
        let (mut all, stacked) = self.together(rebuild, whole, first)?;
        all.extend(stacked);
        let otherwise = rebuild.b.end_region(&all);
        rebuild.values = values;
        let mut all = rebuild.b.if_(long, then, otherwise)?;
        let stacked = all.split_off(carried);
        Ok((all, stacked))
    }

    /// A loop over chunks in which each group of stages works on a different chunk.
    pub(super) fn pipeline<'a>(
        &mut self,
        rebuild: &mut Rebuild<'a>,
        whole: &Span<'_, 'a>,
        Groups { stages, size }: &Groups,
        first: &[Value],
    ) -> Results {
        let (body, parts) = (whole.body, &whole.body.parts);
        if !parts.stacked.is_empty() && whole.dim.as_expr().is_none() || may_fail(whole, stages) {
            return Err(Stop::Impossible);
        }
        let (groups, steps) = (stages.as_slice(), *size);
        let b = &mut rebuild.b;
        let (size, less) = (b.i64(steps), b.i64(steps - 1));
        let (zero, one) = (b.i64(0), b.i64(1));
        let up = b.binary(BinaryOp::Add, whole.count, less)?;
        let chunks = b.binary(BinaryOp::Div, up, size)?;
        let any = b.binary(BinaryOp::Min, chunks, one)?;
        let behind = b.i64(groups.len() as i64 - 1);
        let behind = b.binary(BinaryOp::Mul, any, behind)?;
        let trip = b.binary(BinaryOp::Add, chunks, behind)?;
        let last = b.binary(BinaryOp::Sub, whole.count, one)?;
        let span = Span {
            count: size,
            dim: Dim::constant(steps),
            ..*whole
        };
        let handed: Vec<Vec<Value>> = (1..groups.len())
            .map(|g| handed_over(&span, groups, g).into_iter().collect())
            .collect();
        let mut inits = first.to_vec();
        for &value in handed.iter().flatten() {
            inits.push(span.empty(rebuild, value)?);
        }
        let types: Vec<Type> = std::iter::once(Type::scalar(DType::I64))
            .chain(parts.params.iter().map(|v| body.func.ty(*v).clone()))
            .chain(
                inits[first.len()..]
                    .iter()
                    .map(|v| rebuild.b.ty(*v).clone()),
            )
            .collect();
        let (_, params) = rebuild.b.begin_region(&types);
        let (index, carried) = (params[0], &params[1..=first.len()]);
        let mut arrays = params[1 + first.len()..].iter();

        let mut carried = carried.to_vec();
        let (mut left, mut stacked) = (vec![], vec![None; parts.stacked.len()]);
        let mut received: Vec<(Value, Value)> = vec![];
        for (g, stages) in groups.iter().enumerate() {
            let b = &mut rebuild.b;
            let chunk = match g {
                0 => index,
                _ => {
                    let behind = b.i64(g as i64);
                    b.binary(BinaryOp::Sub, index, behind)?
                }
            };
            let from = b.binary(BinaryOp::Max, chunk, zero)?;
            let base = b.binary(BinaryOp::Mul, from, size)?;
            let rest = b.binary(BinaryOp::Sub, whole.count, base)?;
            let rest = b.binary(BinaryOp::Max, rest, zero)?;
            // The remaining ones, but none before the first chunk.
            let begun = b.binary(BinaryOp::Add, chunk, one)?;
            let begun = b.binary(BinaryOp::Max, begun, zero)?;
            let begun = b.binary(BinaryOp::Mul, begun, size)?;
            let rest = b.binary(BinaryOp::Min, rest, begun)?;
            let steps = b.binary(BinaryOp::Min, rest, size)?;
            let place = Place::Padded { base, steps, last };
            let types = |ty: &Type| ty.clone();
            let mut state = State {
                batch: Batch::new(body.func, size, span.dim.clone(), &types),
                carried,
            };
            for &(value, rows) in &received {
                state.batch.values.insert(value, Batched::Rows(rows));
            }
            let (views, stages) = (Default::default(), stages.clone());
            let instead = &mut |r: &mut Rebuild<'a>, i| self.instead(r, i);
            span.stages(instead, rebuild, &place, &views, stages, &mut state)?;
            for (&value, rows) in parts.stacked.iter().zip(&mut stacked) {
                if made_in(&span, groups, value).unwrap_or(0) == g {
                    *rows = Some((g, span.stacked(rebuild, &state, value)?));
                }
            }
            received.clear();
            for (&value, &array) in handed.get(g).into_iter().flatten().zip(&mut arrays) {
                let rows = span.stacked(rebuild, &state, value)?;
                let ty = rebuild.b.ty(array).clone();
                rebuild.state(rows, &ty);
                left.push(rows);
                received.push((value, array));
            }
            carried = state.carried;
        }
        let stacked: Vec<(usize, Value)> = stacked.into_iter().flatten().collect();
        let rows: Vec<Value> = stacked.iter().map(|s| s.1).collect();
        let region = rebuild.b.end_region(&[carried, left, rows].concat());
        let results = rebuild.b.loop_(Some(trip), None, &inits, region)?;
        let mut joined = vec![];
        for (&(g, _), &stack) in stacked.iter().zip(&results[inits.len()..]) {
            joined.push(rows_of(rebuild, whole, stack, (trip, steps), g)?);
        }
        self.stats.record(Edit::LayersPipelined);
        Ok((results[..first.len()].to_vec(), joined))
    }
}

/// A group's rows for all iterations, without those of iterations in which it had no chunk.
fn rows_of(
    rebuild: &mut Rebuild,
    whole: &Span,
    stack: Value,
    (trip, steps): (Value, i64),
    group: usize,
) -> std::result::Result<Value, Stop> {
    let b = &mut rebuild.b;
    let size = b.i64(steps);
    let padded = b.binary(BinaryOp::Mul, trip, size)?;
    let all = flatten(rebuild, stack, padded)?;
    let b = &mut rebuild.b;
    let from = b.i64(group as i64 * steps);
    let end = b.binary(BinaryOp::Add, whole.count, from)?;
    let (from, end, one) = (b.vector_of(from)?, b.vector_of(end)?, b.i64s(&[1]));
    let rows = b.op1(Op::Slice { axes: vec![0] }, &[all, from, end, one])?;
    rebuild.state_rows(rows, &whole.dim);
    Ok(rows)
}

/// The group that computes a value; none if it is defined outside or recomputed everywhere.
fn made_in(span: &Span, groups: &[Range<usize>], value: Value) -> Option<usize> {
    let stage = match (span.body.maker(value), span.body.carried(value)) {
        (Some(i), _) => match span.plan.modes[i] {
            Mode::Free => return None,
            Mode::Step(stage) | Mode::Batch(stage) => stage,
        },
        (None, Some(j)) => span.plan.carried[j],
        (None, None) => return None,
    };
    groups.iter().position(|g| g.contains(&stage))
}

/// Values of earlier groups that this group or a later one reads.
fn handed_over(span: &Span, groups: &[Range<usize>], group: usize) -> BTreeSet<Value> {
    let body = span.body;
    let later = |stage: usize| stage >= groups[group].start;
    let readers = span.plan.modes.iter().zip(&body.uses);
    let read = readers.filter(|(mode, _)| match mode {
        Mode::Free => false,
        Mode::Step(stage) | Mode::Batch(stage) => later(*stage),
    });
    let next = body.parts.next.iter().zip(&span.plan.carried);
    let next = next.filter(|(_, stage)| later(**stage)).map(|(v, _)| *v);
    let read = read.flat_map(|(_, uses)| uses.iter().copied()).chain(next);
    let before = |v: &Value| made_in(span, groups, *v).is_some_and(|g| g < group);
    read.filter(before).collect()
}

/// Would a group, before its first chunk, evaluate an instruction that can fail on the values
/// handed to it?
fn may_fail(span: &Span, groups: &[Range<usize>]) -> bool {
    let body = span.body;
    let insts = body.insts.iter().zip(&span.plan.modes).zip(&body.uses);
    insts.into_iter().any(|((&inst, mode), uses)| {
        let batch = matches!(mode, Mode::Batch(stage) if *stage >= groups[1].start);
        let given = uses.iter().any(|v| made_in(span, groups, *v).is_some());
        batch && given && !cannot_fail(body.func, inst)
    })
}
