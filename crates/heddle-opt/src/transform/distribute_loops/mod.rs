//! Loop distribution with hoisting.

mod plan;
mod span;

use std::collections::HashSet;

use heddle_ir::op::BinaryOp;
use heddle_ir::{Dim, FuncId, Function, Inst, Module, Op, TypeError, Value};

use self::plan::{Body, Plan, plan};
use self::span::{Place, Span};
use super::cost::CostModel;
use super::loops::Loop;
use super::rebuild::{Rebuild, Result};
use crate::Stats;
use crate::batch::Refusal;
use crate::effects::Effects;
use crate::shorthand::Shorthand;

/// Distributes loops over the strongly connected components of what they carry, where that lets contractions with weights
/// run for all iterations at once: what does not depend on carried state (`x_t·W`) is computed before the loop, and of a
/// stack of recurrent layers each becomes a loop over the whole sequence that leaves its results to the next.
///
/// Arrays between the loops are bounded: where they would take more than [`CostModel::chunk`] bytes, or where only the run knows the
/// trip count, the loops run over a chunk of the iterations at a time.
///
/// It does *not* distribute loops with a condition (how many iterations there are is known only at their end), nor loops that
/// draw random numbers. Sums of contractions keep their order.
pub fn distribute_loops(module: &mut Module) -> Stats {
    distribute_loops_by(module, &CostModel::default())
}

/// [`distribute_loops`] where it pays by these costs.
pub fn distribute_loops_by(module: &mut Module, costs: &CostModel) -> Stats {
    let effects = Effects::of(module);
    let ids: Vec<FuncId> = module.functions.keys().collect();
    let mut all = Stats::default();
    for id in ids {
        let mut distribution = Distribution {
            effects: &effects,
            costs,
            stats: Stats::default(),
        };
        let rebuild = Rebuild::new(module, &module.functions[id]);
        let built = rebuild.function(&mut |rebuild, inst| distribution.instead(rebuild, inst));
        let stats = distribution.stats;
        match built {
            Ok(function) if stats.total() > 0 => {
                module.functions[id] = function;
                all.merge(stats);
            }
            Ok(_) => {}
            Err(error) => all.rejected.push(error.to_string()),
        }
    }
    all
}

/// Why a loop is not distributed as planned.
enum Stop {
    /// This instruction cannot be evaluated for all iterations at once.
    Refused(Inst),
    /// The plan cannot be carried out.
    Impossible,
}

impl From<Refusal> for Stop {
    fn from(_: Refusal) -> Self {
        Stop::Impossible
    }
}

impl From<TypeError> for Stop {
    fn from(_: TypeError) -> Self {
        Stop::Impossible
    }
}

struct Distribution<'a> {
    effects: &'a Effects,
    costs: &'a CostModel,
    stats: Stats,
}

impl Distribution<'_> {
    /// Builds a distributed loop in the place of a loop, if that pays.
    fn instead<'a>(&mut self, rebuild: &mut Rebuild<'a>, inst: Inst) -> Result<bool> {
        let func = rebuild.source;
        let Some(parts) = Loop::of(func, inst) else {
            return Ok(false);
        };
        let Some(trip) = parts.trip.filter(|_| parts.cond.is_none()) else {
            return Ok(false);
        };
        let mut draws = false;
        func.for_each_inst_in(parts.body, &mut |_, data| draws |= self.effects.draws(data));
        if draws || !stated_sizes(func, &parts) {
            return Ok(false);
        }
        let trips = func.constant(trip).and_then(|t| t.to_i64s()).map(|t| t[0]);
        let begins = trips.is_some_and(|n| n > 0);
        let about = trips.map_or(self.costs.unknown, |n| n as f64);
        let body = Body::of(func, inst, parts);
        let (before, values) = (rebuild.b.checkpoint(), rebuild.values.clone());
        let mut refused = HashSet::new();
        while let Some(plan) = plan(&body, &refused, begins, about, self.costs) {
            let counted = self.stats.clone();
            match self.build(rebuild, &body, &plan) {
                Ok(()) => {
                    self.stats.record("loop distributed");
                    for _ in 0..plan.contractions {
                        self.stats.record("contraction over all iterations");
                    }
                    return Ok(true);
                }
                Err(stop) => {
                    rebuild.b.rollback(&before);
                    rebuild.values.clone_from(&values);
                    self.stats = counted;
                    match stop {
                        Stop::Refused(inst) if refused.insert(inst) => {}
                        _ => break,
                    }
                }
            }
        }
        Ok(false)
    }

    fn build<'a>(
        &mut self,
        rebuild: &mut Rebuild<'a>,
        body: &Body<'a>,
        plan: &Plan,
    ) -> std::result::Result<(), Stop> {
        let parts = &body.parts;
        let first = rebuild.all(&parts.inits);
        let trip = parts.trip.map(|v| rebuild.values[&v]);
        let trip = trip.ok_or(Stop::Impossible)?;
        let count = self.count(rebuild, trip)?;
        let whole = Span {
            body,
            plan,
            count: count.0,
            dim: count.1.clone(),
        };
        let chunk = self.chunk(plan, &count.1);
        let (last, stacked) = match chunk {
            None => {
                let views = whole.views(rebuild, &Place::Whole)?;
                whole.build(self, rebuild, &Place::Whole, &views, &first)?
            }
            Some(size) => self.chunks(rebuild, &whole, size, &first)?,
        };
        let results = &body.func.insts[body.inst].results;
        for (&old, &new) in results.iter().zip(last.iter().chain(&stacked)) {
            rebuild.stands_for(old, new);
        }
        Ok(())
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

    /// How many iterations a chunk has, if the loops go by chunks.
    fn chunk(&self, plan: &Plan, count: &Dim) -> Option<i64> {
        let most = (self.costs.chunk / plan.row.max(1.0)).clamp(1.0, 65536.0) as i64;
        match count.as_const() {
            Some(n) if n <= most => None,
            // One that divides the count leaves no rest.
            Some(n) => Some(
                (most / 2 + 1..=most)
                    .rev()
                    .find(|c| n % c == 0)
                    .unwrap_or(most),
            ),
            None => Some(match most {
                ..8 => most,
                _ => most.min(256) & !7,
            }),
        }
    }

    /// A loop over whole chunks, and what is left.
    fn chunks<'a>(
        &mut self,
        rebuild: &mut Rebuild<'a>,
        whole: &Span<'_, 'a>,
        size: i64,
        first: &[Value],
    ) -> std::result::Result<(Vec<Value>, Vec<Value>), Stop> {
        let b = &mut rebuild.b;
        let step = b.i64(size);
        let chunks = b.binary(BinaryOp::Div, whole.count, step)?;
        let done = b.binary(BinaryOp::Mul, chunks, step)?;
        let left = b.binary(BinaryOp::Sub, whole.count, done)?;
        let constant = Dim::constant(size);
        let number = whole.dim.floor_div(&constant);
        let rest = match &whole.dim {
            Dim::Expr(_) => whole.dim.sub(&number.mul(&constant)),
            Dim::Unknown(_) => Dim::Unknown(Some(size as u64 - 1)),
        };
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
        let types = whole
            .body
            .parts
            .params
            .iter()
            .map(|v| whole.body.func.ty(*v).clone());
        let types: Vec<_> = std::iter::once(heddle_ir::Type::scalar(heddle_ir::DType::I64))
            .chain(types)
            .collect();
        let (_, params) = rebuild.b.begin_region(&types);
        let inside = Place::Chunk {
            index: Some(params[0]),
            chunks,
            done,
        };
        let (next, stacked) = span.build(self, rebuild, &inside, &views, &params[1..])?;
        let region = rebuild.b.end_region(&[next, stacked].concat());
        let results = rebuild.b.loop_(Some(chunks), None, first, region)?;
        let (last, stacked) = results.split_at(first.len());
        let mut joined = vec![];
        for &stack in stacked {
            joined.push(flatten(rebuild, stack, done)?);
        }
        self.stats.record("loop in chunks");
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
        let (last, rest) = span.build(self, rebuild, &place, &views, last)?;
        for (all, &rest) in joined.iter_mut().zip(&rest) {
            *all = rebuild.b.op1(Op::Concat { axis: 0 }, &[*all, rest])?;
        }
        Ok((last, joined))
    }
}

/// Chunks of rows as rows, of which there are `count`.
fn flatten(rebuild: &mut Rebuild, stack: Value, count: Value) -> Result<Value> {
    let b = &mut rebuild.b;
    let rank = b.rank(stack).unwrap_or(2);
    let (rows, rest) = (b.vector_of(count)?, b.sizes(stack, 2..rank)?);
    let shape = b.join(&[rows, rest])?;
    b.op1(Op::Reshape, &[stack, shape])
}

/// Whether the sizes of stacked elements are stated, so that they are the same without iterations.
fn stated_sizes(func: &Function, parts: &Loop) -> bool {
    parts.stacked.iter().all(|v| {
        let shape = func.ty(*v).as_tensor().and_then(|t| t.shape.as_ref());
        shape.is_some_and(|s| s.iter().all(|d| d.as_expr().is_some()))
    })
}
