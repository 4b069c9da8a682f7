//! Loop distribution with hoisting.

mod chunks;
mod groups;
mod pipeline;
mod plan;
mod span;
mod stop;
mod until;

use std::collections::HashSet;

use heddle_ir::op::BinaryOp;
use heddle_ir::patch::Stats;
use heddle_ir::{Dim, FuncId, Function, Inst, LoopView, Module, Value};

use self::groups::groups;
use self::plan::{Body, Plan, plan};
use self::span::{Place, Span};
use self::stop::Stop;
use super::cost::CostModel;
use super::rebuild::{Rebuild, Result, rebuild_functions};
use crate::Edit;

/// Distributes loops over the strongly connected components of their carried values, if that lets
/// contractions with weights run for all iterations at once: values independent of carried state
/// (`x_t·W`) are computed before the loop, and each layer of a recurrent stack becomes a loop over
/// the whole sequence, whose scan outputs the next layer reads.
///
/// Arrays between the loops are bounded: if they would exceed [`CostModel::chunk`] bytes, or the
/// trip count is dynamic, the loops run over a chunk of the iterations at a time. With a dynamic
/// trip count, the last chunk may be partial: arrays have the chunk's size and repeat the last
/// iteration at their end.
///
/// If a loop has a condition, the stage that computes it runs first, for at most a chunk of
/// iterations, and the others follow for as many as it took: for example, a decoder's output layer
/// if words are not fed back.
///
/// If [`CostModel::units`] may work on different layers, loops over small layers run in short
/// chunks, and the layers are partitioned into groups that form a pipeline: a group works on a
/// chunk while the next one works on the chunk before (`pipeline.rs`). Groups do not depend on each
/// other within an iteration over chunks. With a dynamic trip count, the program chooses at run
/// time.
///
/// It does *not* distribute loops with scan outputs whose length is neither symbolic nor
/// bounded. Sums of contractions keep their order.
pub fn distribute_loops(module: &mut Module, costs: &CostModel) -> Stats {
    let ids: Vec<FuncId> = module.functions.keys().collect();
    rebuild_functions(module, &ids, |rebuild, stats| {
        let mut distribution = Distribution {
            costs,
            stats: Stats::default(),
        };
        let built = rebuild.function(&mut |rebuild, inst| distribution.instead(rebuild, inst));
        *stats = distribution.stats;
        built
    })
}

struct Distribution<'a> {
    costs: &'a CostModel,
    stats: Stats,
}

impl Distribution<'_> {
    /// Builds a distributed loop in the place of a loop, if that pays.
    fn instead<'a>(&mut self, rebuild: &mut Rebuild<'a>, inst: Inst) -> Result<bool> {
        let func = rebuild.source;
        let Some(parts) = LoopView::of(func, inst) else {
            return Ok(false);
        };
        if parts.trip.is_none() && parts.cond.is_none() {
            return Ok(false);
        }
        if !stated_sizes(func, &parts) {
            return Ok(false);
        }
        let trip = parts.trip.and_then(|t| func.constant(t)?.to_i64s());
        let trips = trip.map(|t| t[0]);
        let begins = trips.is_some_and(|n| n > 0) && parts.cond.is_none();
        let trips = trips.filter(|_| parts.cond.is_none());
        let about = trips.map_or(self.costs.unknown, |n| n as f64);
        let body = Body::of(func, inst, parts);
        let (before, values) = (rebuild.b.checkpoint(), rebuild.values.clone());
        let mut refused = HashSet::new();
        let mut pipelines = self.costs.units > 1;
        while let Some(plan) = plan(&body, &refused, begins, about, self.costs) {
            let counted = self.stats.clone();
            match self.build(rebuild, &body, &plan, pipelines.then_some(about)) {
                Ok(()) => {
                    self.stats.record(Edit::LoopDistributed);
                    for _ in 0..plan.contractions {
                        self.stats.record(Edit::Batched);
                    }
                    return Ok(true);
                }
                Err(stop) => {
                    rebuild.b.rollback(&before);
                    rebuild.values.clone_from(&values);
                    self.stats = counted;
                    match stop {
                        Stop::Refused(inst) if refused.insert(inst) => {}
                        _ if pipelines => pipelines = false,
                        _ => break,
                    }
                }
            }
        }
        Ok(false)
    }

    /// Builds the loops of a plan, pipelined if there are about so many iterations and that may
    /// pay.
    fn build<'a>(
        &mut self,
        rebuild: &mut Rebuild<'a>,
        body: &Body<'a>,
        plan: &Plan,
        pipelined: Option<f64>,
    ) -> std::result::Result<(), Stop> {
        let parts = &body.parts;
        let first = rebuild.all(&parts.inits);
        if parts.cond.is_some() && plan.pays {
            let results = self.until(rebuild, body, plan, &first)?;
            finish(rebuild, body, results);
            return Ok(());
        }
        let trip = parts.trip.filter(|_| parts.cond.is_none());
        let trip = trip.map(|v| rebuild.values[&v]).ok_or(Stop::Impossible)?;
        let count = self.count(rebuild, trip)?;
        let whole = Span {
            body,
            plan,
            count: count.0,
            dim: count.1.clone(),
        };
        if let Some(trips) = pipelined
            && let Some(groups) = groups(body, plan, trips, self.costs)
        {
            // For few iterations teams have about as many waits as the loops one after the other: each layer's step has its own.
            let results = match whole.dim.as_const() {
                _ if self.costs.teams => self.pipeline(rebuild, &whole, &groups, &first)?,
                Some(_) => self.pipeline(rebuild, &whole, &groups, &first)?,
                None => self.pipeline_if_long(rebuild, &whole, &groups, &first)?,
            };
            finish(rebuild, body, results);
            return Ok(());
        }
        if !plan.pays {
            return Err(Stop::Impossible);
        }
        let results = self.together(rebuild, &whole, &first)?;
        finish(rebuild, body, results);
        Ok(())
    }

    /// The loops of a plan one after the other, over chunks of the iterations if arrays between
    /// them would be large.
    fn together<'a>(
        &mut self,
        rebuild: &mut Rebuild<'a>,
        whole: &Span<'_, 'a>,
        first: &[Value],
    ) -> chunks::Results {
        match (whole.dim.as_const(), self.chunk(whole.plan, &whole.dim)) {
            (_, None) => {
                let views = whole.views(rebuild, &Place::Whole)?;
                let instead = &mut |r: &mut Rebuild<'a>, i| self.instead(r, i);
                let built = whole.build(instead, rebuild, &Place::Whole, &views, first)?;
                Ok((built.carried, built.stacked))
            }
            (Some(_), Some(size)) => self.chunks(rebuild, whole, size, first),
            (None, Some(size)) => self.padded_chunks(rebuild, whole, size, first),
        }
    }

    /// The number of iterations.
    fn count(&self, rebuild: &mut Rebuild, trip: Value) -> Result<(Value, Dim)> {
        let known = rebuild.b.known(trip).and_then(|k| k.first().cloned());
        match known.as_ref().map(|d| (d.as_const(), d.as_expr())) {
            Some((Some(n), _)) => {
                let n = n.max(0);
                Ok((rebuild.b.i64(n), Dim::constant(n)))
            }
            Some((None, Some(e))) if e.as_sym().is_some() => Ok((trip, Dim::Expr(e.clone()))),
            _ => {
                let zero = rebuild.b.i64(0);
                let count = rebuild.b.binary(BinaryOp::Max, trip, zero)?;
                let dim = rebuild.b.known(count).and_then(|k| k.first().cloned());
                Ok((count, dim.unwrap_or(Dim::UNKNOWN)))
            }
        }
    }
}

/// Maps the original loop's results to the final carried values and the scan outputs.
fn finish(rebuild: &mut Rebuild, body: &Body, (last, stacked): (Vec<Value>, Vec<Value>)) {
    let results = &body.func.insts[body.inst].results;
    for (&old, &new) in results.iter().zip(last.iter().chain(&stacked)) {
        rebuild.stands_for(old, new);
    }
}

/// Are the element sizes of scan outputs stated, so that they are the same without iterations?
fn stated_sizes(func: &Function, parts: &LoopView) -> bool {
    parts.stacked.iter().all(|v| {
        let shape = func.ty(*v).as_tensor().and_then(|t| t.shape.as_ref());
        shape.is_some_and(|s| s.iter().all(|d| d.as_expr().is_some()))
    })
}
