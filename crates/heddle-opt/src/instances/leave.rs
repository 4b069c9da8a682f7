//! Loops that each instance leaves when it is done.
//!
//! Such a loop carries the numbers of the instances that go on, their values without gaps, and the
//! results of all. When somebody leaves, the results of those that were there are written, and the
//! values of the others move together.

use heddle_ir::op::{BinaryOp, CompareOp, ScatterReduce};
use heddle_ir::{DType, Dim, FuncBuilder, LoopView, Op, Tensor, Type, Value};

use super::lane::{Lane, Ragged};
use super::repeat::Found;
use super::set::{Set, empty, open, plus};
use crate::batch::{Refusal, Result};

/// The values that the loop carries.
struct State {
    /// The numbers of the instances that go on.
    ids: Value,
    /// The carried values of these.
    carried: Vec<Value>,
    /// The carried values with which instances left, or began.
    results: Vec<Value>,
    scans: Option<Scans>,
}

/// Scan outputs, as they are made.
struct Scans {
    /// The number of iterations with which instances left.
    counts: Value,
    /// The instance of each element.
    who: Value,
    /// Its iteration.
    when: Value,
    /// The elements.
    made: Vec<Value>,
}

impl State {
    fn values(&self) -> Vec<Value> {
        let mut all = self.moved();
        if let Some(scans) = &self.scans {
            all.extend([scans.who, scans.when]);
            all.extend(&scans.made);
        }
        all
    }

    /// Those that change when somebody leaves.
    fn moved(&self) -> Vec<Value> {
        let counts = self.scans.iter().map(|scans| scans.counts);
        let all = [vec![self.ids], self.carried.clone(), self.results.clone()];
        all.concat().into_iter().chain(counts).collect()
    }

    /// The state that [`State::values`] lists.
    fn of(values: &[Value], view: &LoopView) -> Self {
        let (carried, rest) = values[1..].split_at(view.params.len());
        let (results, rest) = rest.split_at(view.params.len());
        let scans = match *rest {
            [counts, who, when, ref made @ ..] => Some(Scans {
                counts,
                who,
                when,
                made: made.to_vec(),
            }),
            _ => None,
        };
        State {
            ids: values[0],
            carried: carried.to_vec(),
            results: results.to_vec(),
            scans,
        }
    }
}

impl Set<'_> {
    pub(super) fn until_all_left(
        &mut self,
        b: &mut FuncBuilder,
        view: &LoopView,
        inits: &[Lane],
        found: &mut Found,
    ) -> Result<Vec<Lane>> {
        // An instance that leaves early would have results of another size.
        if view.params.iter().any(|&p| !self.has_one_shape(p)) {
            return Err(Refusal::UnknownSize);
        }
        let (first, going) = self.at_first(b, view, inits, found)?;
        let (_, params) = b.begin_region(&self.state_types(b, view, &first, found));
        let iteration = params[0];
        let state = State::of(&params[1..], view);
        let mut set = self.subset(b, &[view.body], state.ids)?;
        let inner = [&[iteration], &state.carried[..]].concat();
        set.enter(view, &inner, &found.rows);
        let yields = set.region(b, view.body)?;
        let (ends, rest) = yields.split_at(view.next_cond.is_some() as usize);
        let (next, stacked) = rest.split_at(view.params.len());
        if !found.see(ends, next) {
            return Ok(vec![]);
        }
        let one = b.i64(1);
        let after = plus(b, iteration, one)?;
        let trip = match view.trip {
            Some(trip) => Some(self.value(trip)?.of(b, state.ids)?),
            None => None,
        };
        let goes_on = set.goes_on(b, ends.first().copied(), trip, after)?;
        let goes_on = set.spread(b, goes_on)?;
        let (stay, left) = set.those(b, goes_on)?;
        let next = set.settled(b, next, &found.rows)?;
        let leaves = b.compare(CompareOp::Lt, left, set.count)?;
        let mut all = set.moved_up(b, &state, &next, (leaves, stay), after, found)?;
        if let Some(scans) = &state.scans {
            let times = set.spread(b, Lane::Same(iteration))?;
            all.push(b.join(&[scans.who, state.ids])?);
            all.push(b.join(&[scans.when, times])?);
            for (&lane, &made) in stacked.iter().zip(&scans.made) {
                let rows = set.spread(b, lane)?;
                all.push(b.join(&[made, rows])?);
            }
        }
        let zero = b.i64(0);
        let some = b.compare(CompareOp::Lt, zero, left)?;
        let body = b.end_region(&[vec![some], all].concat());
        let last = b.loop_(None, Some(going), &first.values(), body)?;
        let last = State::of(&last, view);
        let mut lanes: Vec<Lane> = last.results.into_iter().map(Lane::Rows).collect();
        if let Some(scans) = &last.scans {
            lanes.extend(self.sorted(b, view, scans)?);
        }
        Ok(lanes)
    }

    /// The state in front of the first iteration, and whether there is one.
    fn at_first(
        &self,
        b: &mut FuncBuilder,
        view: &LoopView,
        inits: &[Lane],
        found: &Found,
    ) -> Result<(State, Value)> {
        let zero = b.i64(0);
        let cond = view.cond.map(|v| self.value(v)).transpose()?;
        let trip = view.trip.map(|v| self.value(v)).transpose()?;
        let begins = self.goes_on(b, cond, trip, zero)?;
        let begins = self.spread(b, begins)?;
        let (ids, count) = self.those(b, begins)?;
        let going = b.compare(CompareOp::Lt, zero, count)?;
        let (mut carried, mut results) = (vec![], vec![]);
        for (&init, &by_row) in inits.iter().zip(&found.rows) {
            let all = self.spread(b, init)?;
            results.push(all);
            carried.push(match (init, by_row) {
                (Lane::Same(v), false) => v,
                _ => b.gather(all, ids)?,
            });
        }
        let scans = match view.scans.is_empty() {
            true => None,
            false => {
                let none = b.constant(Tensor::splat(DType::I64, vec![0], 0.0));
                let made = view.scans.iter();
                let made = made.map(|&v| empty(b, &self.context.ty(self.source.ty(v))));
                let made = made.collect::<Result<Vec<Value>>>()?;
                Some(Scans {
                    counts: self.spread(b, Lane::Same(zero))?,
                    who: none,
                    when: none,
                    made,
                })
            }
        };
        let state = State {
            ids,
            carried,
            results,
            scans,
        };
        Ok((state, going))
    }

    /// The types of the iteration and of the state in it.
    fn state_types(
        &self,
        b: &FuncBuilder,
        view: &LoopView,
        first: &State,
        found: &Found,
    ) -> Vec<Type> {
        let part = Set::new(self.source, self.context, self.count, Dim::UNKNOWN);
        let ids = Type::tensor(DType::I64, [Dim::UNKNOWN]);
        let mut types = vec![Type::scalar(DType::I64), ids.clone()];
        types.extend(part.param_types(view, &found.rows));
        types.extend(first.results.iter().map(|&v| b.ty(v).clone()));
        if let Some(scans) = &first.scans {
            types.extend([b.ty(scans.counts).clone(), ids.clone(), ids]);
            let scans = view.scans.iter();
            types.extend(scans.map(|&v| open(&self.context.ty(self.source.ty(v)))));
        }
        types
    }

    /// The instances, values and results after an iteration of this set, in the order of
    /// [`State::moved`]. `leaves` says whether somebody is done, `stay` who is not.
    fn moved_up(
        &self,
        b: &mut FuncBuilder,
        state: &State,
        next: &[Value],
        (leaves, stay): (Value, Value),
        after: Value,
        found: &Found,
    ) -> Result<Vec<Value>> {
        b.begin_region(&[]);
        let at = b.op1(Op::Unsqueeze { axes: vec![1] }, &[state.ids])?;
        let mut moved = vec![b.gather(state.ids, stay)?];
        for (&v, &by_row) in next.iter().zip(&found.rows) {
            moved.push(if by_row { b.gather(v, stay)? } else { v });
        }
        for ((&v, &by_row), &result) in next.iter().zip(&found.rows).zip(&state.results) {
            let lane = if by_row { Lane::Rows(v) } else { Lane::Same(v) };
            let rows = self.spread(b, lane)?;
            moved.push(written(b, result, at, rows)?);
        }
        if let Some(scans) = &state.scans {
            let times = self.spread(b, Lane::Same(after))?;
            moved.push(written(b, scans.counts, at, times)?);
        }
        let then = b.end_region(&moved);
        b.begin_region(&[]);
        let mut stays = [&[state.ids], next, &state.results].concat();
        stays.extend(state.scans.iter().map(|scans| scans.counts));
        let otherwise = b.end_region(&stays);
        Ok(b.if_(leaves, then, otherwise)?)
    }

    /// Scan outputs by instance.
    fn sorted(&self, b: &mut FuncBuilder, view: &LoopView, scans: &Scans) -> Result<Vec<Lane>> {
        let lens = match (view.cond, view.trip) {
            (None, Some(trip)) => {
                let (trip, zero) = (self.value(trip)?, b.i64(0));
                let trip = self.spread(b, trip)?;
                b.binary(BinaryOp::Max, trip, zero)?
            }
            _ => scans.counts,
        };
        let starts = self.sums_before(b, lens)?;
        let first = b.gather(starts, scans.who)?;
        let place = plus(b, first, scans.when)?;
        let at = b.op1(Op::Unsqueeze { axes: vec![1] }, &[place])?;
        let lane = |&data: &Value| {
            Ok(Lane::Ragged(Ragged {
                data: written(b, data, at, data)?,
                starts,
                lens,
                is_packed: true,
            }))
        };
        scans.made.iter().map(lane).collect()
    }

    /// The condition, and `iteration` below the trip count.
    fn goes_on(
        &self,
        b: &mut FuncBuilder,
        cond: Option<Lane>,
        trip: Option<Lane>,
        iteration: Value,
    ) -> Result<Lane> {
        let below = match trip {
            None => None,
            Some(trip) => {
                let args = [Lane::Same(iteration), trip];
                Some(self.op(b, &Op::Compare(CompareOp::Lt), &args)?[0])
            }
        };
        match (cond, below) {
            (Some(x), Some(y)) => Ok(self.op(b, &Op::Binary(BinaryOp::And), &[x, y])?[0]),
            (Some(x), None) | (None, Some(x)) => Ok(x),
            (None, None) => Err(Refusal::LoopEnd),
        }
    }

    fn has_one_shape(&self, value: Value) -> bool {
        let ty = self.context.ty(self.source.ty(value));
        let shape = ty.as_tensor().and_then(|t| t.shape.as_ref());
        shape.is_some_and(|dims| dims.iter().all(|d| d.as_expr().is_some()))
    }
}

/// `x` with rows written at places, `i64[k,1]`.
fn written(b: &mut FuncBuilder, x: Value, at: Value, rows: Value) -> Result<Value> {
    let reduce = ScatterReduce::Set;
    Ok(b.op1(Op::ScatterNd { reduce }, &[x, at, rows])?)
}
