//! Loops.

use heddle_ir::op::{BinaryOp, CompareOp, ScatterReduce};
use heddle_ir::{DType, Dim, FuncBuilder, Inst, LoopView, Op, Tensor, Type, Value};

use super::lane::{Lane, Ragged};
use super::set::{Set, empty, open, plus};
use crate::batch::{Refusal, Result};

/// What is found of a loop by evaluating its body.
struct Found {
    /// The carried values that differ by instance.
    rows: Vec<bool>,
    /// Its end differs by instance.
    parts: bool,
}

impl Set<'_> {
    pub(super) fn repeat(&mut self, b: &mut FuncBuilder, inst: Inst) -> Result<Vec<Lane>> {
        let view = LoopView::of(self.source, inst).ok_or(Refusal::LoopEnd)?;
        let inits: Result<Vec<Lane>> = view.inits.iter().map(|v| self.value(*v)).collect();
        let inits = inits?;
        if inits.iter().any(|lane| matches!(lane, Lane::Ragged(_))) {
            return Err(Refusal::UnknownSize);
        }
        let ends = [view.trip, view.cond].into_iter().flatten();
        let ends: Result<Vec<Lane>> = ends.map(|v| self.value(v)).collect();
        let mut found = Found {
            rows: inits.iter().map(|lane| !lane.is_same()).collect(),
            parts: ends?.iter().any(|lane| !lane.is_same()),
        };
        // A carried value differs by instance if its first value or that of any iteration does.
        loop {
            let mark = b.checkpoint();
            let now = (found.rows.clone(), found.parts);
            let lanes = match found.parts {
                true => self.parted(b, &view, &inits, &mut found)?,
                false => self.together_to_the_end(b, &view, &inits, &mut found)?,
            };
            if (&found.rows, found.parts) == (&now.0, now.1) {
                return Ok(lanes);
            }
            b.rollback(&mark);
        }
    }

    /// A loop that ends for all instances at once.
    fn together_to_the_end(
        &mut self,
        b: &mut FuncBuilder,
        view: &LoopView,
        inits: &[Lane],
        found: &mut Found,
    ) -> Result<Vec<Lane>> {
        let trip = self.same(view.trip)?;
        let cond = self.same(view.cond)?;
        let initial = self.settled(b, inits, &found.rows)?;
        let mut types = vec![Type::scalar(DType::I64)];
        types.extend(self.param_types(view, &found.rows));
        let (_, params) = b.begin_region(&types);
        self.enter(view, &params, &found.rows);
        let yields = self.region(b, view.body)?;
        let (ends, rest) = yields.split_at(view.next_cond.is_some() as usize);
        let (next, stacked) = rest.split_at(view.params.len());
        let is_known = found.see(ends, next);
        let mut all = vec![];
        if is_known {
            all.extend(ends.iter().filter_map(|l| l.batched()).map(|l| l.value()));
            all.extend(self.settled(b, next, &found.rows)?);
            for &lane in stacked {
                all.push(lane.batched().ok_or(Refusal::UnknownSize)?.value());
            }
        }
        let stacks: Vec<bool> = stacked.iter().map(|l| !l.is_same()).collect();
        if !is_known {
            return Ok(vec![]);
        }
        let body = b.end_region(&all);
        let mut results = b.loop_(trip, cond, &initial, body)?;
        let scans = results.split_off(view.params.len());
        let mut lanes = lanes_of(results, &found.rows);
        for ((scan, by_row), &result) in scans.into_iter().zip(stacks).zip(&view.scans) {
            lanes.push(match by_row {
                true => Lane::Rows(self.turned(b, scan, result)?),
                false => Lane::Same(scan),
            });
        }
        Ok(lanes)
    }

    /// Stacked rows, of which the iterations come first, with the instances first.
    fn turned(&self, b: &mut FuncBuilder, scan: Value, result: Value) -> Result<Value> {
        let stated = self.ty(result, Lane::Rows(scan));
        if let Type::Tensor(mut t) = stated
            && let Some(shape) = &mut t.shape
        {
            // Without iterations the sizes of the elements are those that the type states.
            shape.swap(0, 1);
            if shape.iter().skip(2).any(|d| matches!(d, Dim::Unknown(_))) {
                return Err(Refusal::UnknownSize);
            }
            let stated = Type::Tensor(t);
            let met = b.ty(scan).meet(&stated).unwrap_or(stated);
            b.refine_type(scan, met)?;
        }
        let rank = b.rank(scan).ok_or(Refusal::UnknownRank)?;
        let perm = [vec![1, 0], (2..rank).collect()].concat();
        Ok(b.op1(Op::Transpose { perm }, &[scan])?)
    }

    /// A loop that each instance leaves when it is done.
    ///
    /// It carries the numbers of those that go on, their values, and the results of all. The last
    /// are written when somebody leaves.
    fn parted(
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
        let zero = b.i64(0);
        let begins = self.goes_on(b, view.cond, view.trip, zero)?;
        let begins = self.spread(b, begins)?;
        let (ids, count) = self.those(b, begins)?;
        let going = b.compare(CompareOp::Lt, zero, count)?;
        let mut initial = vec![ids];
        for (&init, &by_row) in inits.iter().zip(&found.rows) {
            initial.push(match (init, by_row) {
                (Lane::Same(v), false) => v,
                (init, _) => {
                    let all = self.spread(b, init)?;
                    b.gather(all, ids)?
                }
            });
        }
        for &init in inits {
            initial.push(self.spread(b, init)?);
        }
        let counts = b.constant(Tensor::scalar(0i64));
        let counts = self.spread(b, Lane::Same(counts))?;
        let scans = view.scans.len();
        let none = b.constant(Tensor::splat(DType::I64, vec![0], 0.0));
        if scans > 0 {
            initial.extend([counts, none, none]);
        }
        for &scan in &view.scans {
            initial.push(empty(b, &self.context.ty(self.source.ty(scan)))?);
        }
        let unknown = Type::tensor(DType::I64, [Dim::UNKNOWN]);
        let mut types = vec![Type::scalar(DType::I64), unknown.clone()];
        types.extend(self.part_types(view, &found.rows));
        let all = inits.len() + 1;
        types.extend(initial[all..2 * all - 1].iter().map(|&v| b.ty(v).clone()));
        if scans > 0 {
            types.extend([b.ty(counts).clone(), unknown.clone(), unknown]);
        }
        for &scan in &view.scans {
            types.push(open(&self.context.ty(self.source.ty(scan))));
        }
        let (_, params) = b.begin_region(&types);
        let (iteration, ids) = (params[0], params[1]);
        let carried = &params[2..1 + all];
        let results = &params[1 + all..2 * all];
        let stores = &params[2 * all..];

        let mut set = self.subset(b, &[view.body], ids)?;
        let inner: Vec<Value> = [&[iteration], carried].concat();
        set.enter(view, &inner, &found.rows);
        let yields = set.region(b, view.body)?;
        let (ends, rest) = yields.split_at(view.next_cond.is_some() as usize);
        let (next, stacked) = rest.split_at(view.params.len());
        if !found.see(ends, next) {
            return Ok(vec![]);
        }
        let one = b.i64(1);
        let after = plus(b, iteration, one)?;
        let goes_on = set.going(b, ends.first().copied(), view, self, ids, after)?;
        let goes_on = set.spread(b, goes_on)?;
        let (stay, left) = set.those(b, goes_on)?;
        let next = set.settled(b, next, &found.rows)?;
        let leaves = b.compare(CompareOp::Lt, left, set.count)?;

        b.begin_region(&[]);
        let at = b.op1(Op::Unsqueeze { axes: vec![1] }, &[ids])?;
        let mut yields = vec![b.gather(ids, stay)?];
        for (&v, &by_row) in next.iter().zip(&found.rows) {
            yields.push(if by_row { b.gather(v, stay)? } else { v });
        }
        for ((&v, &by_row), &result) in next.iter().zip(&found.rows).zip(results) {
            let lane = if by_row { Lane::Rows(v) } else { Lane::Same(v) };
            let rows = set.spread(b, lane)?;
            yields.push(written(b, result, at, rows)?);
        }
        if scans > 0 {
            let times = set.spread(b, Lane::Same(after))?;
            yields.push(written(b, stores[0], at, times)?);
        }
        let then = b.end_region(&yields);
        b.begin_region(&[]);
        let mut yields = [vec![ids], next.clone(), results.to_vec()].concat();
        yields.extend(stores.first());
        let otherwise = b.end_region(&yields);
        let mut yields = b.if_(leaves, then, otherwise)?;
        if scans > 0 {
            let times = set.spread(b, Lane::Same(iteration))?;
            yields.push(b.join(&[stores[1], ids])?);
            yields.push(b.join(&[stores[2], times])?);
        }
        for (&lane, &store) in stacked.iter().zip(stores.get(3..).unwrap_or(&[])) {
            let rows = set.spread(b, lane)?;
            yields.push(b.join(&[store, rows])?);
        }
        let some = b.compare(CompareOp::Lt, zero, left)?;
        let body = b.end_region(&[vec![some], yields].concat());
        let ended = b.loop_(None, Some(going), &initial, body)?;
        let mut lanes: Vec<Lane> = ended[all..2 * all - 1]
            .iter()
            .map(|&v| Lane::Rows(v))
            .collect();
        if scans > 0 {
            let (counts, made) = (ended[2 * all - 1], &ended[2 * all..]);
            let lens = match (view.cond, view.trip) {
                (None, Some(trip)) => {
                    let trip = self.value(trip)?;
                    let trip = self.spread(b, trip)?;
                    b.binary(BinaryOp::Max, trip, zero)?
                }
                _ => counts,
            };
            lanes.extend(self.sorted(b, lens, made)?);
        }
        Ok(lanes)
    }

    /// Scan outputs by instance, which have made as many iterations as `lens` says. `stores` are the
    /// instance and the iteration of each element, and the elements as they were made.
    fn sorted(&self, b: &mut FuncBuilder, lens: Value, stores: &[Value]) -> Result<Vec<Lane>> {
        let [who, when, ref made @ ..] = *stores else {
            return Err(Refusal::NotEvaluated);
        };
        let starts = self.sums_before(b, lens)?;
        let first = b.gather(starts, who)?;
        let place = plus(b, first, when)?;
        let at = b.op1(Op::Unsqueeze { axes: vec![1] }, &[place])?;
        let lane = |&data: &Value| {
            Ok(Lane::Ragged(Ragged {
                data: written(b, data, at, data)?,
                starts,
                lens,
                is_packed: true,
            }))
        };
        made.iter().map(lane).collect()
    }

    /// Does the loop go on, by the condition and the trip count in front of it?
    fn goes_on(
        &self,
        b: &mut FuncBuilder,
        cond: Option<Value>,
        trip: Option<Value>,
        iteration: Value,
    ) -> Result<Lane> {
        let cond = cond.map(|v| self.value(v)).transpose()?;
        let trip = trip.map(|v| self.value(v)).transpose()?;
        self.both_hold(b, cond, trip, iteration)
    }

    /// Does it go on after an iteration? `outer` knows the trip counts, of which `ids` are this set's.
    fn going(
        &self,
        b: &mut FuncBuilder,
        cond: Option<Lane>,
        view: &LoopView,
        outer: &Set,
        ids: Value,
        iteration: Value,
    ) -> Result<Lane> {
        let trip = match view.trip {
            Some(trip) => Some(outer.value(trip)?.of(b, ids)?),
            None => None,
        };
        self.both_hold(b, cond, trip, iteration)
    }

    fn both_hold(
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

    fn same(&self, value: Option<Value>) -> Result<Option<Value>> {
        match value.map(|v| self.value(v)).transpose()? {
            None => Ok(None),
            Some(Lane::Same(v)) => Ok(Some(v)),
            Some(_) => Err(Refusal::LoopEnd),
        }
    }

    /// Puts the parameters of a loop in place.
    fn enter(&mut self, view: &LoopView, params: &[Value], rows: &[bool]) {
        self.values.insert(view.iteration, Lane::Same(params[0]));
        let lanes = lanes_of(params[1..].to_vec(), rows);
        self.values.extend(view.params.iter().copied().zip(lanes));
    }

    fn param_types(&self, view: &LoopView, rows: &[bool]) -> Vec<Type> {
        let lane = |(&p, &by_row): (&Value, &bool)| match by_row {
            true => self.ty(p, Lane::Rows(p)),
            false => self.ty(p, Lane::Same(p)),
        };
        view.params.iter().zip(rows).map(lane).collect()
    }

    /// The types for a part of the instances.
    fn part_types(&self, view: &LoopView, rows: &[bool]) -> Vec<Type> {
        let part = Set::new(self.source, self.context, self.count, Dim::UNKNOWN);
        part.param_types(view, rows)
    }

    /// Values with a row for each instance where they have to.
    fn settled(&self, b: &mut FuncBuilder, lanes: &[Lane], rows: &[bool]) -> Result<Vec<Value>> {
        let one = |(&lane, &by_row): (&Lane, &bool)| match (lane, by_row) {
            (Lane::Same(v), false) => Ok(v),
            (lane, _) => self.spread(b, lane),
        };
        lanes.iter().zip(rows).map(one).collect()
    }
}

impl Found {
    /// Notes what differs by instance after an iteration; is all of it known already?
    fn see(&mut self, ends: &[Lane], next: &[Lane]) -> bool {
        let parts = self.parts || ends.iter().any(|lane| !lane.is_same());
        let rows = self.rows.iter().zip(next);
        let rows: Vec<bool> = rows.map(|(r, lane)| *r || !lane.is_same()).collect();
        let is_known = (parts, &rows) == (self.parts, &self.rows);
        (self.parts, self.rows) = (parts, rows);
        is_known
    }
}

/// `x` with rows written at places, `i64[k,1]`.
fn written(b: &mut FuncBuilder, x: Value, at: Value, rows: Value) -> Result<Value> {
    let reduce = ScatterReduce::Set;
    Ok(b.op1(Op::ScatterNd { reduce }, &[x, at, rows])?)
}

fn lanes_of(values: Vec<Value>, rows: &[bool]) -> Vec<Lane> {
    let lane = |(v, &by_row): (Value, &bool)| match by_row {
        true => Lane::Rows(v),
        false => Lane::Same(v),
    };
    values.into_iter().zip(rows).map(lane).collect()
}
