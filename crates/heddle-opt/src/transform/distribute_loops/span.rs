//! Builds the stages of a distributed loop for a number of consecutive iterations.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Dim, Inst, Loc, Op, Type, Value};

use super::chunks::rows_are;
use super::plan::{Body, Mode, Plan};
use super::{Distribution, Stop};
use crate::batch::{Batch, Lane};
use crate::shorthand::Shorthand;
use crate::transform::rebuild::Rebuild;

type Result<T> = std::result::Result<T, Stop>;

/// Consecutive iterations.
pub struct Span<'p, 'a> {
    pub body: &'p Body<'a>,
    pub plan: &'p Plan,
    /// How many there are, `i64[]`.
    pub count: Value,
    /// The same as a size.
    pub dim: Dim,
}

/// Which iterations of the loop they are.
pub enum Place {
    /// All.
    Whole,
    /// Those of one chunk of many.
    Chunk {
        /// Which chunk, once inside the loop over chunks.
        index: Option<Value>,
        /// How many chunks there are.
        chunks: Value,
        /// How many iterations they have together.
        done: Value,
    },
    /// Those after the chunks.
    Rest {
        /// How many iterations the chunks have together.
        done: Value,
        /// How many there are in all.
        end: Value,
    },
    /// Those of one chunk, and behind them some that are in vain.
    Padded {
        /// The number of the first one.
        base: Value,
        /// How many there are.
        steps: Value,
        /// The number of the last one of the loop.
        last: Value,
    },
    /// As many of a chunk as a condition holds for: the first stage finds out.
    Until {
        /// The number of the first one.
        base: Value,
        /// How many there may be, at least 1.
        limit: Value,
    },
}

/// What the stages leave.
pub struct Built {
    /// What the loop carries after the iterations.
    pub carried: Vec<Value>,
    /// Its stacked results for them.
    pub stacked: Vec<Value>,
    /// How a condition ended them.
    pub end: Option<End>,
}

/// How a condition ended iterations.
#[derive(Clone, Copy)]
pub struct End {
    /// `i64[]`: how many there were.
    pub steps: Value,
    /// `bool[]`: whether more follow.
    pub more: Value,
}

/// What the stages so far leave to the next.
pub struct State<'b> {
    /// Values for all iterations.
    pub batch: Batch<'b>,
    /// What the loop carries after the iterations, of stages that are still to come before them.
    pub carried: Vec<Value>,
}

impl<'a> Span<'_, 'a> {
    /// For elements of arrays that are looked up by the iteration: those of all iterations in order, and before a
    /// loop over chunks those of all chunks.
    pub fn views(&self, rebuild: &mut Rebuild<'a>, place: &Place) -> Result<HashMap<Inst, Value>> {
        let mut views = HashMap::new();
        let func = self.body.func;
        for &inst in self.body.insts {
            let data = &func.insts[inst];
            let Op::Gather { axis } = data.op else {
                continue;
            };
            let [x, index] = data.args[..] else { continue };
            let Some(&x) = rebuild.values.get(&x) else {
                continue;
            };
            if index == self.body.parts.iteration
                && let Some(view) = self.view(rebuild, place, x, axis)?
            {
                views.insert(inst, view);
            }
        }
        Ok(views)
    }

    fn view(
        &self,
        rebuild: &mut Rebuild<'a>,
        place: &Place,
        x: Value,
        axis: usize,
    ) -> Result<Option<Value>> {
        let b = &mut rebuild.b;
        let Some(rank) = b.rank(x) else {
            return Ok(None);
        };
        let size = b.ty(x).as_tensor().and_then(|t| t.shape.as_ref());
        let Some(size) = size.map(|s| s[axis].clone()) else {
            return Ok(None);
        };
        let trip = self.body.parts.trip.map(|t| rebuild.values[&t]);
        let trips = trip.and_then(|t| b.known(t)?.first().cloned());
        let Some(trips) = trips else { return Ok(None) };
        let inside = match (size.as_const(), trips.as_const()) {
            (Some(size), Some(trips)) => trips <= size,
            _ => size.equals(&trips),
        };
        if !inside {
            return Ok(None);
        }
        let perm: Vec<usize> = std::iter::once(axis)
            .chain((0..rank).filter(|a| *a != axis))
            .collect();
        let x = match axis {
            0 => x,
            _ => b.op1(Op::Transpose { perm }, &[x])?,
        };
        let (from, to) = match place {
            Place::Whole => (None, self.count),
            Place::Chunk { done, .. } => (None, *done),
            Place::Rest { done, end } => (Some(*done), *end),
            Place::Padded { .. } | Place::Until { .. } => return Ok(None),
        };
        let rows = match (place, size.as_const()) {
            (Place::Whole, _) if size.equals(&self.dim) => x,
            (Place::Chunk { .. }, Some(n)) if b.known(to).is_some_and(|k| k[0].is(n)) => x,
            _ => {
                let from = match from {
                    Some(from) => b.vector_of(from)?,
                    None => b.i64s(&[0]),
                };
                let (to, step) = (b.vector_of(to)?, b.i64s(&[1]));
                b.op1(Op::Slice { axes: vec![0] }, &[x, from, to, step])?
            }
        };
        let Place::Chunk { chunks, .. } = place else {
            rows_are(rebuild, rows, &self.dim);
            return Ok(Some(rows));
        };
        let b = &mut rebuild.b;
        let front = [b.vector_of(*chunks)?, b.vector_of(self.count)?];
        let rest = b.sizes(x, 1..rank)?;
        let shape = b.join(&[front[0], front[1], rest])?;
        Ok(Some(b.op1(Op::Reshape, &[rows, shape])?))
    }

    /// Builds all stages in the region that is open. `first` is what the loop carries before these iterations.
    pub fn build(
        &self,
        distribution: &mut Distribution,
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
        let end = self.stages(distribution, rebuild, place, views, all, &mut state)?;
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

    /// Builds some of the stages, from what those before them have left.
    pub fn stages(
        &self,
        distribution: &mut Distribution,
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
        // Before it has been decided how many iterations there are, there is nothing to evaluate for all of them.
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
                batch.lanes.insert(iteration, Lane::Rows(iterations));
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
            let ended = step.build(distribution, batch, rebuild, carried)?;
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
        let lane = state.batch.lanes.get(&value).copied();
        let lane = lane.or_else(|| rebuild.values.get(&value).map(|v| Lane::Same(*v)));
        let lane = lane.ok_or(Stop::Impossible)?;
        Ok(state.batch.spread(&mut rebuild.b, lane)?)
    }

    /// The numbers of the iterations; `last` is repeated behind it.
    fn iterations(
        &self,
        rebuild: &mut Rebuild<'a>,
        base: Option<Value>,
        last: Option<Value>,
    ) -> Result<Value> {
        let mut iterations = rebuild.b.iota(self.count)?;
        rows_are(rebuild, iterations, &self.dim);
        if let Some(base) = base {
            iterations = rebuild.b.binary(BinaryOp::Add, base, iterations)?;
        }
        if let Some(last) = last {
            iterations = rebuild.b.binary(BinaryOp::Min, iterations, last)?;
        }
        Ok(iterations)
    }

    /// Where the loop comes from.
    fn loc(&self) -> Option<Arc<Loc>> {
        self.body.func.insts[self.body.inst].loc.clone()
    }

    /// The number of the first iteration, unless it is 0.
    fn base(&self, rebuild: &mut Rebuild, place: &Place) -> Result<Option<Value>> {
        Ok(match place {
            Place::Whole => None,
            Place::Chunk { index, .. } => {
                let index = index.ok_or(Stop::Impossible)?;
                Some(rebuild.b.binary(BinaryOp::Mul, index, self.count)?)
            }
            Place::Rest { done, .. } => Some(*done),
            Place::Padded { base, .. } | Place::Until { base, .. } => Some(*base),
        })
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
            batch.lanes.insert(data.results[0], Lane::Rows(rows));
            return Ok(());
        }
        for &arg in &data.args {
            if let (None, Some(&outer)) = (batch.lanes.get(&arg), rebuild.values.get(&arg)) {
                batch.lanes.insert(arg, Lane::Same(outer));
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
            let size = rebuild.size(dim)?.ok_or(Stop::Impossible)?;
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

/// The loop of one stage.
struct Step<'s, 'p, 'a> {
    span: &'s Span<'p, 'a>,
    stage: usize,
    base: Option<Value>,
    /// How many iterations there are, if fewer than in the arrays: what they leave to others is then carried, as an array
    /// that is updated in each.
    padded: Option<Value>,
    /// Whether the loop's condition ends it.
    decides: bool,
}

impl<'a> Step<'_, '_, 'a> {
    fn build(
        &self,
        distribution: &mut Distribution,
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

        let types = own.iter().map(|j| func.ty(parts.params[*j]).clone());
        let mut types: Vec<Type> = std::iter::once(Type::scalar(DType::I64))
            .chain(types)
            .collect();
        let mut inits: Vec<Value> = own.iter().map(|j| carried[*j]).collect();
        if self.padded.is_some() {
            for &value in &left {
                let empty = self.span.empty(rebuild, value)?;
                types.push(rebuild.b.ty(empty).clone());
                inits.push(empty);
            }
        }
        let yes = rebuild.b.scalar(DType::Bool, 1.0);
        if self.decides {
            types.extend([DType::I64, DType::Bool].map(Type::scalar));
            inits.extend([rebuild.b.i64(0), yes]);
        }
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
        // What earlier stages left, for this iteration.
        let reads = used.iter().chain(free.iter().flat_map(|i| &body.uses[*i]));
        for &value in reads {
            let here = match body.maker(value) {
                Some(i) => evaluated.contains(&i),
                None => rebuild.values.contains_key(&value),
            };
            let Some(&lane) = batch.lanes.get(&value).filter(|_| !here) else {
                continue;
            };
            if rebuild.values.contains_key(&value) {
                continue;
            }
            let element = match lane {
                Lane::Rows(rows) => rebuild.b.gather(rows, params[0])?,
                Lane::Same(same) => same,
            };
            rebuild.stands_for(value, element);
        }
        for &i in &evaluated {
            let mut instead = |r: &mut Rebuild<'a>, inst| distribution.instead(r, inst);
            rebuild.inst(body.insts[i], &mut instead)?;
        }
        let next = own.iter().map(|j| parts.next[*j]);
        let yields: Vec<Value> = next.chain(left.iter().copied()).collect();
        let mut yields = rebuild.all(&yields);
        let more = next_cond.map(|v| rebuild.values[&v]);
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
        let region = rebuild.b.end_region(&yields);
        rebuild.values = outside;
        let trip = self.padded.unwrap_or(self.span.count);
        let go = self.decides.then_some(yes);
        let results = rebuild.b.loop_(Some(trip), go, &inits, region)?;
        for (&j, &result) in own.iter().zip(&results) {
            carried[j] = result;
        }
        for (&value, &stack) in left.iter().zip(&results[own.len()..]) {
            rows_are(rebuild, stack, &self.span.dim);
            batch.lanes.insert(value, Lane::Rows(stack));
        }
        Ok(match results[own.len() + left.len()..] {
            [steps, more] if self.decides => Some(End { steps, more }),
            _ => None,
        })
    }

    /// Values of this stage that others or the loop's stacked results read.
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

/// `all` with another row.
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
