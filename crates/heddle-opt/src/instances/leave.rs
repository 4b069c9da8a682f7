//! Loops that each instance leaves when it is done.
//!
//! Such a loop carries the numbers of the instances that go on, their values without gaps, and the
//! results of all. When somebody leaves, its results are written, and the values of the others move
//! together; so do the arrays of each instance that its body reads whole. Other values that it reads
//! are gathered where they are read. Scan outputs are written to their places if the trip counts say how
//! many there are; else they are put behind each other and sorted by instance behind the loop.

use heddle_ir::op::{BinaryOp, CompareOp, ScatterReduce, UnaryOp};
use heddle_ir::{DType, FuncBuilder, LoopView, Op, Type, Value};

use super::carried::{Found, Kind};
use super::lane::{Lane, Ragged};
use super::set::{Set, plus};
use super::state::{Moving, Planned, Scans, State};
use crate::batch::{Refusal, Result};

/// The end of an iteration.
struct End {
    /// The iterations that are done, `i64[]`.
    after: Value,
    /// Does an instance go on? `bool[instances]`.
    goes_on: Value,
    /// The places of those that go on among the instances.
    stay: Value,
    /// Is somebody done? `bool[]`.
    leaves: Value,
}

impl Set<'_> {
    pub(super) fn until_all_left(
        &mut self,
        b: &mut FuncBuilder,
        view: &LoopView,
        inits: &[Lane],
        found: &mut Found,
    ) -> Result<Vec<Lane>> {
        let read = self.read_whole(b, view);
        let planned = self.planned(b, view)?;
        let (first, homes) = self.at_first(b, view, inits, found, &read, planned.as_ref())?;
        let lasts = self.lasts_alone(found, &first);
        let (zero, one) = (b.i64(0), b.i64(1));
        let count = b.size(first.ids, 0)?;
        // The last one goes on by itself, if it can.
        let enough = if lasts { one } else { zero };
        let going = b.compare(CompareOp::Lt, enough, count)?;
        let mut inits = first.values();
        let mut types = self.state_types(b, view, &first, found);
        if lasts {
            inits.push(zero);
            types.push(Type::scalar(DType::I64));
        }
        let (_, params) = b.begin_region(&types);
        let iteration = params[0];
        let has_scans = first.scans.is_some();
        let values = &params[1..params.len() - lasts as usize];
        let state = State::of(values, found, has_scans, read.len());
        let own = state.inputs.iter().map(|&v| Lane::Rows(v));
        let own = read.iter().copied().zip(own).collect();
        let mut set = self.subset_with(b, &[view.body], state.ids, own)?;
        let lanes = set.lanes_of(b, view, found, &state, &homes)?;
        set.enter(view, iteration, lanes);
        let yields = set.region(b, view.body)?;
        let (ends, rest) = yields.split_at(view.next_cond.is_some() as usize);
        let (next, stacked) = rest.split_at(view.params.len());
        if !self.see(b, view, found, ends, next) {
            return Ok(vec![]);
        }
        let after = plus(b, iteration, one)?;
        let trip = match view.trip {
            Some(trip) => Some(self.value(trip)?.of(b, state.ids)?),
            None => None,
        };
        let goes_on = set.goes_on(b, ends.first().copied(), trip, Lane::Same(after))?;
        let goes_on = set.spread(b, goes_on)?;
        let (stay, left) = set.those(b, goes_on)?;
        let leaves = b.compare(CompareOp::Lt, left, set.count)?;
        let end = End {
            after,
            goes_on,
            stay,
            leaves,
        };
        let now = set.after(b, &state, next, found)?;
        let mut all = set.moved_up(b, &state, &now, &end, found)?;
        all.extend(&now.stores);
        if let Some(scans) = &state.scans {
            let times = set.spread(b, Lane::Same(iteration))?;
            all.push(b.join(&[scans.who, state.ids])?);
            all.push(b.join(&[scans.when, times])?);
            for (&lane, &made) in stacked.iter().zip(&scans.made) {
                let rows = set.spread(b, lane)?;
                all.push(b.join(&[made, rows])?);
            }
        }
        if let Some(planned) = &planned {
            let own = b.gather(planned.starts, state.ids)?;
            let place = plus(b, own, iteration)?;
            let at = b.op1(Op::Unsqueeze { axes: vec![1] }, &[place])?;
            for (&lane, &made) in stacked.iter().zip(&state.planned) {
                let rows = set.spread(b, lane)?;
                all.push(written(b, made, at, rows)?);
            }
        }
        all.extend(lasts.then_some(end.after));
        let some = b.compare(CompareOp::Lt, enough, left)?;
        let body = b.end_region(&[vec![some], all].concat());
        let mut last = b.loop_(None, Some(going), &inits, body)?;
        let done = if lasts { last.pop() } else { None };
        let mut last = State::of(&last, found, has_scans, read.len());
        if let Some(done) = done {
            last.results = self.with_last(b, view, found, &last, done)?;
        }
        let mut lanes = last.left_with(found, &homes);
        if let Some(scans) = &last.scans {
            lanes.extend(self.sorted(b, scans)?);
        }
        if let Some(Planned { starts, lens }) = planned {
            let lane = |&data| Lane::Ragged(Ragged::packed(data, starts, lens));
            lanes.extend(last.planned.iter().map(lane));
        }
        Ok(lanes)
    }

    /// The lanes of the carried values in an iteration of this set.
    fn lanes_of(
        &self,
        b: &mut FuncBuilder,
        view: &LoopView,
        found: &Found,
        state: &State,
        homes: &[Value],
    ) -> Result<Vec<Lane>> {
        let mut stores = state.stores.iter().zip(homes);
        let mut moving = state.moving.iter();
        let mut carried = state.carried.iter().copied();
        let mut lanes = vec![];
        for (&param, kind) in view.params.iter().zip(&found.kinds) {
            let mut next = || carried.next().ok_or(Refusal::NotEvaluated);
            let v = next()?;
            lanes.push(match kind {
                Kind::Same => Lane::Same(v),
                Kind::Rows => Lane::Rows(v),
                Kind::InPlace(_) => {
                    let (&data, &home) = stores.next().ok_or(Refusal::NotEvaluated)?;
                    let starts = b.gather(home, state.ids)?;
                    Self::at_home(param, data, (starts, v), None)
                }
                Kind::Growing => {
                    let (&data, _) = stores.next().ok_or(Refusal::NotEvaluated)?;
                    Self::at_home(param, data, (next()?, v), Some(next()?))
                }
                Kind::Moving => {
                    let data = moving.next().ok_or(Refusal::NotEvaluated)?.data;
                    Lane::Ragged(Ragged::packed(data, self.sums_before(b, v)?, v))
                }
            });
        }
        Ok(lanes)
    }

    /// The state of this set after an iteration, in which nobody has left.
    fn after(
        &self,
        b: &mut FuncBuilder,
        state: &State,
        next: &[Lane],
        found: &Found,
    ) -> Result<State> {
        let mut now = State {
            carried: vec![],
            moving: vec![],
            stores: vec![],
            planned: vec![],
            scans: None,
            inputs: state.inputs.clone(),
            results: state.results.clone(),
            ids: state.ids,
        };
        let mut before = state.moving.iter();
        for (&lane, &kind) in next.iter().zip(&found.kinds) {
            match *self.settled(b, lane, kind)? {
                [data, lens] => {
                    now.carried.push(lens);
                    match kind {
                        Kind::Moving => now.moving.push(Moving {
                            data,
                            ..*before.next().ok_or(Refusal::NotEvaluated)?
                        }),
                        _ => now.stores.push(data),
                    }
                }
                [data, ref sizes @ ..] if kind == Kind::Growing => {
                    now.carried.extend(sizes);
                    now.stores.push(data);
                }
                ref rows => now.carried.extend(rows),
            }
        }
        Ok(now)
    }

    /// The instances, values and results after an iteration of this set, in the order of
    /// [`State::moved`]; `now` are those before anybody leaves.
    fn moved_up(
        &self,
        b: &mut FuncBuilder,
        state: &State,
        now: &State,
        end: &End,
        found: &Found,
    ) -> Result<Vec<Value>> {
        let results = self.results_left(b, state, now, end, found)?;
        b.begin_region(&[]);
        let at = b.op1(Op::Unsqueeze { axes: vec![1] }, &[state.ids])?;
        let mut moved = vec![b.gather(state.ids, end.stay)?];
        let kinds = found.of_each();
        for (&v, &kind) in now.carried.iter().zip(&kinds) {
            moved.push(match kind {
                Kind::Same => v,
                _ => b.gather(v, end.stay)?,
            });
        }
        let ragged = now.carried.iter().zip(&kinds);
        let lens = ragged.filter(|(_, kind)| **kind == Kind::Moving);
        for (m, (&lens, _)) in now.moving.iter().zip(lens) {
            moved.extend(self.ranges_left(b, state, m, lens, end)?);
        }
        for &v in &state.inputs {
            moved.push(b.gather(v, end.stay)?);
        }
        if let Some(scans) = &state.scans {
            let times = self.spread(b, Lane::Same(end.after))?;
            moved.push(written(b, scans.counts, at, times)?);
        }
        let then = b.end_region(&moved);
        b.begin_region(&[]);
        let mut stays = now.moved();
        stays.extend(state.scans.iter().map(|scans| scans.counts));
        let behind = 1 + now.carried.len();
        stays.drain(behind..behind + results.len());
        let otherwise = b.end_region(&stays);
        let mut all = b.if_(end.leaves, then, otherwise)?;
        all.splice(behind..behind, results);
        Ok(all)
    }

    /// The results with those of the instances that leave. Outside of a branch these are written in
    /// place, and nothing else is.
    fn results_left(
        &self,
        b: &mut FuncBuilder,
        state: &State,
        now: &State,
        end: &End,
        found: &Found,
    ) -> Result<Vec<Value>> {
        let is_done = b.op1(Op::Unary(UnaryOp::Not), &[end.goes_on])?;
        let (done, _) = self.those(b, is_done)?;
        let at = b.gather(state.ids, done)?;
        let at = b.op1(Op::Unsqueeze { axes: vec![1] }, &[at])?;
        let kinds = found.of_each();
        let carried = now.carried.iter().zip(&kinds);
        let results = carried.zip(&state.results).map(|((&v, &kind), &result)| {
            let rows = match kind {
                Kind::Same => self.spread(b, Lane::Same(v))?,
                _ => v,
            };
            let rows = b.gather(rows, done)?;
            written(b, result, at, rows)
        });
        results.collect()
    }

    /// Ranges after somebody left: those of the others, all with which instances left, and their
    /// places there.
    fn ranges_left(
        &self,
        b: &mut FuncBuilder,
        state: &State,
        now: &Moving,
        lens: Value,
        end: &End,
    ) -> Result<[Value; 3]> {
        let is_done = b.op1(Op::Unary(UnaryOp::Not), &[end.goes_on])?;
        let (done, _) = self.those(b, is_done)?;
        let all = Ragged::packed(now.data, self.sums_before(b, lens)?, lens);
        let mut parts = vec![];
        for numbers in [end.stay, done] {
            let (starts, lens) = (b.gather(all.starts, numbers)?, b.gather(lens, numbers)?);
            parts.push(self.part_of(b, all, numbers, starts, lens)?);
        }
        let behind = b.size(now.log, 0)?;
        let starts = plus(b, parts[1].starts, behind)?;
        let at = b.gather(state.ids, done)?;
        let at = b.op1(Op::Unsqueeze { axes: vec![1] }, &[at])?;
        let log = b.join(&[now.log, parts[1].data])?;
        Ok([parts[0].data, log, written(b, now.starts, at, starts)?])
    }

    /// Scan outputs by instance.
    fn sorted(&self, b: &mut FuncBuilder, scans: &Scans) -> Result<Vec<Lane>> {
        let lens = scans.counts;
        let starts = self.sums_before(b, lens)?;
        let first = b.gather(starts, scans.who)?;
        let place = plus(b, first, scans.when)?;
        let at = b.op1(Op::Unsqueeze { axes: vec![1] }, &[place])?;
        let lane = |&data: &Value| {
            Ok(Lane::Ragged(Ragged::packed(
                written(b, data, at, data)?,
                starts,
                lens,
            )))
        };
        scans.made.iter().map(lane).collect()
    }

    /// The condition, and `iteration` below the trip count.
    pub(super) fn goes_on(
        &self,
        b: &mut FuncBuilder,
        cond: Option<Lane>,
        trip: Option<Lane>,
        iteration: Lane,
    ) -> Result<Lane> {
        let below = match trip {
            None => None,
            Some(trip) => {
                let args = [iteration, trip];
                Some(self.op(b, &Op::Compare(CompareOp::Lt), &args)?[0])
            }
        };
        match (cond, below) {
            (Some(x), Some(y)) => Ok(self.op(b, &Op::Binary(BinaryOp::And), &[x, y])?[0]),
            (Some(x), None) | (None, Some(x)) => Ok(x),
            (None, None) => Err(Refusal::LoopEnd),
        }
    }
}

/// `x` with rows written at places, whose last axis is 1, each place once.
pub(super) fn written(b: &mut FuncBuilder, x: Value, at: Value, rows: Value) -> Result<Value> {
    let reduce = ScatterReduce::Once;
    Ok(b.op1(Op::ScatterNd { reduce }, &[x, at, rows])?)
}
