//! Builds the stages of a distributed loop for a number of consecutive iterations.

mod place;
mod step;
mod views;

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Dim, Inst, Loc, Op, Type, Value};

pub use self::place::Place;

use self::step::Step;
use super::plan::{Body, Mode, Plan};
use super::stop::Stop;
use crate::batch::{Batch, Batched};
use crate::transform::rebuild::{Instead, Rebuild};

type Result<T> = std::result::Result<T, Stop>;

/// Consecutive iterations.
pub struct Span<'p, 'a> {
    pub body: &'p Body<'a>,
    pub plan: &'p Plan,
    /// Their number, `i64[]`.
    pub count: Value,
    /// Their number as a size.
    pub dim: Dim,
}

/// Results of the stages.
pub struct Built {
    /// Carried values after the iterations.
    pub carried: Vec<Value>,
    /// Scan outputs of the iterations.
    pub stacked: Vec<Value>,
    /// The early exit that a condition took.
    pub end: Option<End>,
}

/// An early exit by a condition.
#[derive(Clone, Copy)]
pub struct End {
    /// `i64[]`: their number.
    pub steps: Value,
    /// `bool[]`: whether more follow.
    pub more: Value,
}

/// Values that the stages so far leave to the next.
pub struct State<'b> {
    /// Values for all iterations.
    pub batch: Batch<'b>,
    /// Carried values: after the iterations, or before them for stages that are still to come.
    pub carried: Vec<Value>,
}

impl<'a> Span<'_, 'a> {
    /// Builds all stages in the open region. `first`: carried values before these iterations.
    pub fn build(
        &self,
        instead: Instead<'_, 'a>,
        rebuild: &mut Rebuild<'a>,
        place: &Place,
        views: &HashMap<Inst, Value>,
        first: &[Value],
    ) -> Result<Built> {
        let types = |ty: &Type| ty.clone();
        let mut state = State {
            batch: Batch::new(self.body.func, self.count, self.dim.clone(), &types),
            carried: first.to_vec(),
        };
        let all = 0..self.plan.stages;
        let end = self.stages(instead, rebuild, place, views, all, &mut state)?;
        let mut stacked = vec![];
        for &value in &self.body.parts.stacked {
            stacked.push(self.stacked(rebuild, &state, value)?);
        }
        Ok(Built {
            carried: state.carried,
            stacked,
            end,
        })
    }

    /// Builds some of the stages from the results of earlier ones.
    pub fn stages(
        &self,
        instead: Instead<'_, 'a>,
        rebuild: &mut Rebuild<'a>,
        place: &Place,
        views: &HashMap<Inst, Value>,
        stages: Range<usize>,
        State { batch, carried }: &mut State<'_>,
    ) -> Result<Option<End>> {
        rebuild.b.set_loc(self.loc());
        let base = self.base(rebuild, place)?;
        let needed = self.needed_by_batches();
        let mut end = None;
        let (decides, limit) = match place {
            Place::Until { limit, .. } => (true, Some(*limit)),
            Place::Padded { steps, .. } => (false, Some(*steps)),
            _ => (false, None),
        };
        // Nothing can be evaluated for all iterations before their number is known.
        let known = stages.start.max(decides as usize);
        for stage in stages.start..stages.end.max(known + 1) {
            if stage == known {
                let last = match (place, end) {
                    (Place::Padded { last, .. }, _) => Some(*last),
                    (Place::Until { base, .. }, Some(End { steps, .. })) => {
                        let b = &mut rebuild.b;
                        let one = b.i64(1);
                        let after = b.binary(BinaryOp::Add, *base, steps)?;
                        Some(b.binary(BinaryOp::Sub, after, one)?)
                    }
                    _ => None,
                };
                let iterations = self.iterations(rebuild, base, last)?;
                let iteration = self.body.parts.iteration;
                batch.values.insert(iteration, Batched::Rows(iterations));
            }
            for (i, &inst) in self.body.insts.iter().enumerate() {
                let mode = self.plan.modes[i];
                let now = mode == Mode::Batch(stage);
                if now || mode == Mode::Free && stage == known && needed.contains(&i) {
                    self.batch(batch, rebuild, place, views, inst)?;
                }
            }
            let step = Step {
                span: self,
                stage,
                base,
                padded: match (end, limit) {
                    (Some(End { steps, .. }), _) => Some(steps),
                    (None, limit) => limit,
                },
                decides: decides && stage == 0,
            };
            let ended = step.build(&mut *instead, batch, rebuild, carried)?;
            end = end.or(ended);
        }
        rebuild.b.set_loc(self.loc());
        Ok(end)
    }

    /// The rows of a stacked result.
    pub fn stacked(
        &self,
        rebuild: &mut Rebuild<'a>,
        state: &State<'_>,
        value: Value,
    ) -> Result<Value> {
        let batched = state.batch.values.get(&value).copied();
        let batched = batched.or_else(|| rebuild.values.get(&value).map(|v| Batched::Same(*v)));
        let batched = batched.ok_or(Stop::Impossible)?;
        Ok(state.batch.spread(&mut rebuild.b, batched)?)
    }

    /// The loop's source location.
    fn loc(&self) -> Option<Arc<Loc>> {
        self.body.func.insts[self.body.inst].loc.clone()
    }

    /// Evaluates an instruction for all iterations.
    fn batch(
        &self,
        batch: &mut Batch,
        rebuild: &mut Rebuild<'a>,
        place: &Place,
        views: &HashMap<Inst, Value>,
        inst: Inst,
    ) -> Result<()> {
        let data = &self.body.func.insts[inst];
        if let Some(&view) = views.get(&inst) {
            let rows = match place {
                Place::Chunk { index, .. } => {
                    let index = index.ok_or(Stop::Impossible)?;
                    rebuild.b.gather(view, index)?
                }
                _ => view,
            };
            batch.values.insert(data.results[0], Batched::Rows(rows));
            return Ok(());
        }
        for &arg in &data.args {
            if let (None, Some(&outer)) = (batch.values.get(&arg), rebuild.values.get(&arg)) {
                batch.values.insert(arg, Batched::Same(outer));
            }
        }
        let done = batch.inst(&mut rebuild.b, inst);
        done.map_err(|_| Stop::Refused(inst))
    }

    /// An array of rows for a value, filled with zeros.
    pub fn empty(&self, rebuild: &mut Rebuild<'a>, value: Value) -> Result<Value> {
        let Type::Tensor(t) = self.body.func.ty(value) else {
            return Err(Stop::Impossible);
        };
        let zero_is_known = t.dtype.is_float() || t.dtype.is_int() || t.dtype == DType::Bool;
        let dims = t.shape.as_ref().filter(|_| zero_is_known);
        let mut parts = vec![rebuild.b.vector_of(self.count)?];
        for dim in dims.ok_or(Stop::Impossible)? {
            let size = rebuild.b.size_of(dim)?.ok_or(Stop::Impossible)?;
            parts.push(rebuild.b.vector_of(size)?);
        }
        let shape = rebuild.b.join(&parts)?;
        let zero = rebuild.b.scalar(t.dtype, 0.0);
        Ok(rebuild.b.op1(Op::Broadcast, &[zero, shape])?)
    }

    /// Free instructions, by their index, that batches and stacked results need.
    fn needed_by_batches(&self) -> HashSet<usize> {
        let modes = &self.plan.modes;
        let batched = (0..modes.len()).filter(|i| matches!(modes[*i], Mode::Batch(_)));
        let used = batched.flat_map(|i| self.body.uses[i].iter().copied());
        let used = used.chain(self.body.parts.stacked.iter().copied());
        self.free(used.collect())
    }

    /// Free instructions that these values depend on, themselves and through others.
    fn free(&self, mut values: Vec<Value>) -> HashSet<usize> {
        let mut found = HashSet::new();
        while let Some(value) = values.pop() {
            if let Some(i) = self.body.maker(value)
                && self.plan.modes[i] == Mode::Free
                && found.insert(i)
            {
                values.extend(&self.body.uses[i]);
            }
        }
        found
    }
}
