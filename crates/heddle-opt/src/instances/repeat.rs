//! Loops, and those that end for all instances at once.

use heddle_ir::{DType, Dim, FuncBuilder, Inst, LoopView, Op, Type, Value};

use super::lane::Lane;
use super::set::Set;
use crate::batch::{Refusal, Result};

/// Facts about a loop that evaluating its body finds.
pub(super) struct Found {
    /// The carried values that differ by instance.
    pub rows: Vec<bool>,
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
            let mark = self.mark(b);
            let now = (found.rows.clone(), found.parts);
            let lanes = match found.parts {
                true => self.until_all_left(b, &view, &inits, &mut found)?,
                false => self.all_alike(b, &view, &inits, &mut found)?,
            };
            if (&found.rows, found.parts) == (&now.0, now.1) {
                let may_not_end = view.trip.is_none() && !found.parts;
                return match self.may_be_empty && may_not_end {
                    true => Err(Refusal::LoopEnd),
                    false => Ok(lanes),
                };
            }
            self.rollback(b, &mark);
        }
    }

    /// A loop that ends for all instances at once.
    fn all_alike(
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

    fn same(&self, value: Option<Value>) -> Result<Option<Value>> {
        match value.map(|v| self.value(v)).transpose()? {
            None => Ok(None),
            Some(Lane::Same(v)) => Ok(Some(v)),
            Some(_) => Err(Refusal::LoopEnd),
        }
    }

    /// Puts the parameters of a loop in place.
    pub(super) fn enter(&mut self, view: &LoopView, params: &[Value], rows: &[bool]) {
        self.values.insert(view.iteration, Lane::Same(params[0]));
        let lanes = lanes_of(params[1..].to_vec(), rows);
        self.values.extend(view.params.iter().copied().zip(lanes));
    }

    pub(super) fn param_types(&self, view: &LoopView, rows: &[bool]) -> Vec<Type> {
        let lane = |(&p, &by_row): (&Value, &bool)| match by_row {
            true => self.ty(p, Lane::Rows(p)),
            false => self.ty(p, Lane::Same(p)),
        };
        view.params.iter().zip(rows).map(lane).collect()
    }

    /// Values with a row for each instance where they have to.
    pub(super) fn settled(
        &self,
        b: &mut FuncBuilder,
        lanes: &[Lane],
        rows: &[bool],
    ) -> Result<Vec<Value>> {
        let one = |(&lane, &by_row): (&Lane, &bool)| match (lane, by_row) {
            (Lane::Same(v), false) => Ok(v),
            (lane, _) => self.spread(b, lane),
        };
        lanes.iter().zip(rows).map(one).collect()
    }
}

impl Found {
    /// Notes what differs by instance after an iteration; is all of it known already?
    pub(super) fn see(&mut self, ends: &[Lane], next: &[Lane]) -> bool {
        let parts = self.parts || ends.iter().any(|lane| !lane.is_same());
        let rows = self.rows.iter().zip(next);
        let rows: Vec<bool> = rows.map(|(r, lane)| *r || !lane.is_same()).collect();
        let is_known = (parts, &rows) == (self.parts, &self.rows);
        (self.parts, self.rows) = (parts, rows);
        is_known
    }
}

fn lanes_of(values: Vec<Value>, rows: &[bool]) -> Vec<Lane> {
    let lane = |(v, &by_row): (Value, &bool)| match by_row {
        true => Lane::Rows(v),
        false => Lane::Same(v),
    };
    values.into_iter().zip(rows).map(lane).collect()
}
