//! The loop of one stage: its carried values, and its scan outputs for other stages.

use std::collections::BTreeSet;

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Op, Type, Value};

use super::{End, Result, Span};
use crate::batch::{Batch, Batched};
use crate::transform::distribute_loops::plan::Mode;
use crate::transform::distribute_loops::stop::Stop;
use crate::transform::rebuild::{Instead, Rebuild};

/// The loop of one stage.
pub(super) struct Step<'s, 'p, 'a> {
    pub(super) span: &'s Span<'p, 'a>,
    pub(super) stage: usize,
    pub(super) base: Option<Value>,
    /// Trip count, if less than the arrays' size: results for other stages are then carried as
    /// arrays updated in place in each iteration.
    pub(super) padded: Option<Value>,
    /// Does the loop's condition end it?
    pub(super) decides: bool,
}

impl<'a> Step<'_, '_, 'a> {
    pub(super) fn build(
        &self,
        instead: Instead<'_, 'a>,
        batch: &mut Batch,
        rebuild: &mut Rebuild<'a>,
        carried: &mut [Value],
    ) -> Result<Option<End>> {
        let (body, plan) = (self.span.body, self.span.plan);
        let (func, parts) = (body.func, &body.parts);
        let own: Vec<usize> = (0..carried.len())
            .filter(|j| plan.carried[*j] == self.stage)
            .collect();
        let steps = |i: &usize| plan.modes[*i] == Mode::Step(self.stage);
        let insts: BTreeSet<usize> = (0..body.insts.len()).filter(steps).collect();
        if own.is_empty() && insts.is_empty() && !self.decides {
            return Ok(None);
        }
        let next_cond = parts.next_cond.filter(|_| self.decides);
        let left = self.left_to_others(&own, &insts);
        let used = insts.iter().flat_map(|i| body.uses[*i].iter().copied());
        let used = used
            .chain(own.iter().map(|j| parts.next[*j]))
            .chain(next_cond);
        let used: Vec<Value> = used.collect();
        let free = self.span.free(used.clone());
        let evaluated: BTreeSet<usize> = insts
            .union(&free.iter().copied().collect())
            .copied()
            .collect();

        let (inits, yes) = self.inits(rebuild, &own, &left, carried)?;
        let types = inits.iter().enumerate().map(|(k, &init)| match own.get(k) {
            Some(&j) => func.ty(parts.params[j]).clone(),
            None => rebuild.b.ty(init).clone(),
        });
        let number = std::iter::once(Type::scalar(DType::I64));
        let types: Vec<Type> = number.chain(types).collect();
        let (_, params) = rebuild.b.begin_region(&types);
        let outside = rebuild.values.clone();
        for (&j, &param) in own.iter().zip(&params[1..]) {
            rebuild.stands_for(parts.params[j], param);
        }
        let iteration = match self.base {
            Some(base) => rebuild.b.binary(BinaryOp::Add, base, params[0])?,
            None => params[0],
        };
        rebuild.stands_for(parts.iteration, iteration);
        let reads = used.iter().chain(free.iter().flat_map(|i| &body.uses[*i]));
        self.read(rebuild, batch, reads, &evaluated, params[0])?;
        for &i in &evaluated {
            rebuild.inst(body.insts[i], &mut *instead)?;
        }
        let yields = self.yields(rebuild, &own, &left, &params)?;
        let region = rebuild.b.end_region(&yields);
        rebuild.values = outside;
        let trip = self.padded.unwrap_or(self.span.count);
        let go = self.decides.then_some(yes);
        let results = rebuild.b.loop_(Some(trip), go, &inits, region)?;
        for (&j, &result) in own.iter().zip(&results) {
            carried[j] = result;
        }
        for (&value, &stack) in left.iter().zip(&results[own.len()..]) {
            rebuild.state_rows(stack, &self.span.dim);
            batch.values.insert(value, Batched::Rows(stack));
        }
        Ok(match results[own.len() + left.len()..] {
            [steps, more] if self.decides => Some(End { steps, more }),
            _ => None,
        })
    }

    /// Initial carried values: the stage's own, arrays for its outputs if there may be fewer
    /// iterations than rows, and the number of iterations and the condition if the stage has the
    /// condition. Also gives the condition.
    fn inits(
        &self,
        rebuild: &mut Rebuild<'a>,
        own: &[usize],
        left: &[Value],
        carried: &[Value],
    ) -> Result<(Vec<Value>, Value)> {
        let mut inits: Vec<Value> = own.iter().map(|j| carried[*j]).collect();
        if self.padded.is_some() {
            for &value in left {
                inits.push(self.span.empty(rebuild, value)?);
            }
        }
        let yes = rebuild.b.scalar(DType::Bool, 1.0);
        if self.decides {
            inits.extend([rebuild.b.i64(0), yes]);
        }
        Ok((inits, yes))
    }

    /// Reads the outputs of earlier stages for this iteration.
    fn read<'v>(
        &self,
        rebuild: &mut Rebuild<'a>,
        batch: &Batch,
        values: impl Iterator<Item = &'v Value>,
        evaluated: &BTreeSet<usize>,
        iteration: Value,
    ) -> Result<()> {
        for &value in values {
            let maker = self.span.body.maker(value);
            let here = maker.is_some_and(|i| evaluated.contains(&i));
            let Some(&batched) = batch.values.get(&value).filter(|_| !here) else {
                continue;
            };
            if rebuild.values.contains_key(&value) {
                continue;
            }
            let element = match batched {
                Batched::Rows(rows) => rebuild.b.gather(rows, iteration)?,
                Batched::Same(same) => same,
            };
            rebuild.stands_for(value, element);
        }
        Ok(())
    }

    /// The values that the loop's body yields.
    fn yields(
        &self,
        rebuild: &mut Rebuild<'a>,
        own: &[usize],
        left: &[Value],
        params: &[Value],
    ) -> Result<Vec<Value>> {
        let parts = &self.span.body.parts;
        let next = own.iter().map(|j| parts.next[*j]);
        let yields: Vec<Value> = next.chain(left.iter().copied()).collect();
        let mut yields = rebuild.all(&yields);
        let more = parts.next_cond.filter(|_| self.decides);
        let more = more.map(|v| rebuild.values[&v]);
        rebuild.b.set_loc(self.span.loc());
        if self.padded.is_some() {
            for (row, &all) in yields[own.len()..].iter_mut().zip(&params[1 + own.len()..]) {
                *row = updated(rebuild, all, *row, params[0])?;
            }
        }
        if let Some(more) = more {
            let one = rebuild.b.i64(1);
            let steps = rebuild.b.binary(BinaryOp::Add, params[0], one)?;
            yields.extend([steps, more]);
            yields.insert(0, more);
        }
        Ok(yields)
    }

    /// Values of this stage that other stages or the loop's scan outputs read.
    fn left_to_others(&self, own: &[usize], insts: &BTreeSet<usize>) -> Vec<Value> {
        let (body, plan) = (self.span.body, self.span.plan);
        let mine = |v: &Value| match (body.maker(*v), body.carried(*v)) {
            (Some(i), _) => insts.contains(&i),
            (_, Some(j)) => own.contains(&j),
            _ => false,
        };
        let other = (0..body.insts.len()).filter(|i| plan.modes[*i] != Mode::Step(self.stage));
        let read = other.flat_map(|i| body.uses[i].iter().copied());
        let carried = body.parts.next.iter().zip(&plan.carried);
        let carried = carried.filter(|(_, s)| **s != self.stage).map(|(v, _)| *v);
        let read = read
            .chain(carried)
            .chain(body.parts.stacked.iter().copied());
        let left: BTreeSet<Value> = read.filter(mine).collect();
        left.into_iter().collect()
    }
}

/// Writes a row of `all`.
fn updated(rebuild: &mut Rebuild, all: Value, row: Value, place: Value) -> Result<Value> {
    let b = &mut rebuild.b;
    let rank = b.rank(all).ok_or(Stop::Impossible)?;
    let row = b.op1(Op::Unsqueeze { axes: vec![0] }, &[row])?;
    let parts = [b.vector_of(place)?, b.i64s(&vec![0; rank - 1])];
    let starts = b.join(&parts)?;
    let updated = b.op1(Op::UpdateSlice, &[all, row, starts])?;
    let ty = rebuild.b.ty(all).clone();
    rebuild.state(updated, &ty);
    Ok(updated)
}
