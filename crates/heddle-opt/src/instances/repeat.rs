//! Loops, and those that end for all instances at once.

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, FuncBuilder, Inst, LoopView, Tensor, Type, Value};

use super::carried::{Forms, Found, Kind};
use super::lane::{Lane, Ragged};
use super::set::{Set, plus};
use crate::batch::{Refusal, Result};

impl Set<'_> {
    pub(super) fn repeat(&mut self, b: &mut FuncBuilder, inst: Inst) -> Result<Vec<Lane>> {
        let view = LoopView::of(self.source, inst).ok_or(Refusal::LoopEnd)?;
        let inits: Result<Vec<Lane>> = view.inits.iter().map(|v| self.value(*v)).collect();
        let inits = inits?;
        let Ok(Some(reads)) = self.row_loop(inst, &view, &inits) else {
            return self.by_iterations(b, inst, &view, &inits);
        };
        let mark = self.mark(b);
        if self.levels_pay(&view) {
            let by_levels = self.levels_of(b, &view, &reads, &inits);
            if by_levels.is_err() {
                self.rollback(b, &mark);
                return self.by_iterations(b, inst, &view, &inits);
            }
            return by_levels;
        }
        let needs_instance = self.needs_instance;
        let lanes = self.by_iterations(b, inst, &view, &inits);
        if lanes.is_ok() && !self.has_notes_since(&mark) {
            return lanes;
        }
        // It would go one by one, in whole or in part.
        self.rollback(b, &mark);
        if let Ok(lanes) = self.levels_of(b, &view, &reads, &inits) {
            self.needs_instance = needs_instance;
            return Ok(lanes);
        }
        self.rollback(b, &mark);
        self.by_iterations(b, inst, &view, &inits)
    }

    /// A loop iteration by iteration.
    fn by_iterations(
        &mut self,
        b: &mut FuncBuilder,
        inst: Inst,
        view: &LoopView,
        inits: &[Lane],
    ) -> Result<Vec<Lane>> {
        let ends = [view.trip, view.cond].into_iter().flatten();
        let ends: Result<Vec<Lane>> = ends.map(|v| self.value(v)).collect();
        let mut found = Found {
            kinds: inits.iter().map(|&lane| Kind::of(lane)).collect(),
            parts: ends?.iter().any(|lane| !lane.is_same()),
        };
        let given = self.given(view, inits);
        if let Some(known) = self.kinds.borrow().loops.get(&inst) {
            known.extend(&mut found, &given);
        }
        // A carried value differs by instance if its first value or that of any iteration does.
        loop {
            if found.parts {
                self.open_sizes(view, &mut found)?;
            }
            let mark = self.mark(b);
            let now = (found.kinds.clone(), found.parts);
            self.context
                .grown
                .borrow_mut()
                .retain(|p, _| !view.params.contains(p));
            let lanes = match found.parts {
                true => self.until_all_left(b, view, inits, &mut found),
                false => self.all_alike(b, view, inits, &mut found, None),
            };
            if let Err(Refusal::MayFail) = lanes {
                self.needs_instance |= self.may_be_empty;
            }
            let lanes = lanes?;
            let forms = Forms {
                given: given.clone(),
                found: found.clone(),
            };
            self.kinds.borrow_mut().loops.insert(inst, forms);
            if (&found.kinds, found.parts) == (&now.0, now.1) {
                let may_not_end = view.trip.is_none() && !found.parts;
                if self.may_be_empty && may_not_end {
                    self.needs_instance = true;
                    return Err(Refusal::LoopEnd);
                }
                return Ok(lanes);
            }
            self.rollback(b, &mark);
        }
    }

    /// A loop that ends for all instances at once. If so many iterations are done already, there is another one.
    pub(super) fn all_alike(
        &mut self,
        b: &mut FuncBuilder,
        view: &LoopView,
        inits: &[Lane],
        found: &mut Found,
        done: Option<Value>,
    ) -> Result<Vec<Lane>> {
        let mut trip = self.same(view.trip)?;
        let mut cond = None;
        match done {
            None => cond = self.same(view.cond)?,
            Some(done) => {
                if let Some(trip) = &mut trip {
                    *trip = b.binary(BinaryOp::Sub, *trip, done)?;
                }
                if view.next_cond.is_some() {
                    cond = Some(b.constant(Tensor::splat(DType::Bool, vec![], 1.0)));
                }
            }
        }
        let (mut initial, mut homes) = (vec![], vec![]);
        for (&init, &kind) in inits.iter().zip(&found.kinds) {
            let init = match kind {
                Kind::InPlace(grown) => {
                    let own = self.with_room(b, view, init, grown)?;
                    homes.push(own.starts);
                    Lane::Ragged(own)
                }
                Kind::Growing => {
                    let mut own = init;
                    own.leave_home();
                    own
                }
                _ => init,
            };
            initial.push(self.settled(b, init, kind)?);
        }
        let initial = self.as_carried(b, view, found, initial)?;
        let types = [vec![Type::scalar(DType::I64)], self.all_types(view, found)].concat();
        let (_, params) = b.begin_region(&types);
        let lanes = self.lanes(b, view, &params[1..], found, &homes)?;
        let mut iteration = params[0];
        if let Some(done) = done {
            iteration = plus(b, iteration, done)?;
            let one = b.i64(1);
            self.mark_region(b, one, &[view.body]);
        }
        self.enter(view, iteration, lanes);
        let yields = self.region(b, view.body)?;
        let (ends, rest) = yields.split_at(view.next_cond.is_some() as usize);
        let (next, stacked) = rest.split_at(view.params.len());
        if !self.see(b, view, found, ends, next) {
            return Ok(vec![]);
        }
        let mut all = vec![];
        all.extend(ends.iter().filter_map(|l| l.batched()).map(|l| l.value()));
        let next = next.iter().zip(&found.kinds);
        let next = next.map(|(&lane, &kind)| self.settled(b, lane, kind));
        let next = next.collect::<Result<Vec<_>>>()?;
        all.extend(self.as_carried(b, view, found, next)?);
        for &lane in stacked {
            all.push(lane.batched().ok_or(Refusal::UnknownSize)?.value());
        }
        let body = b.end_region(&all);
        let mut results = b.loop_(trip, cond, &initial, body)?;
        let scans = results.split_off(initial.len());
        let mut lanes = self.lanes(b, view, &results, found, &homes)?;
        lanes.iter_mut().for_each(|lane| lane.leave_home());
        for ((scan, lane), &result) in scans.into_iter().zip(stacked).zip(&view.scans) {
            lanes.push(match lane.is_same() {
                true => Lane::Same(self.scanned(b, view, scan, result)?),
                false => Lane::Rows(self.turned(b, view, scan, result)?),
            });
        }
        Ok(lanes)
    }

    /// Values in the forms that a loop carries; those that are no ranges have the types that the loop
    /// states.
    fn as_carried(
        &self,
        b: &mut FuncBuilder,
        view: &LoopView,
        found: &Found,
        settled: Vec<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        let mut all = vec![];
        for ((mut values, &kind), &param) in settled.into_iter().zip(&found.kinds).zip(&view.params)
        {
            if let ([value], false) = (&mut values[..], kind.is_ragged()) {
                *value = self.bounded(b, *value, &self.param_type(param, kind))?;
            }
            all.extend(values);
        }
        Ok(all)
    }

    fn same(&self, value: Option<Value>) -> Result<Option<Value>> {
        match value.map(|v| self.value(v)).transpose()? {
            None => Ok(None),
            Some(Lane::Same(v)) => Ok(Some(v)),
            Some(_) => Err(Refusal::LoopEnd),
        }
    }

    /// Puts the parameters of a loop in place.
    pub(super) fn enter(&mut self, view: &LoopView, iteration: Value, lanes: Vec<Lane>) {
        self.values.insert(view.iteration, Lane::Same(iteration));
        self.values.extend(view.params.iter().copied().zip(lanes));
    }

    /// The lanes of carried values; `homes` are the starts of those in place.
    fn lanes(
        &self,
        b: &mut FuncBuilder,
        view: &LoopView,
        values: &[Value],
        found: &Found,
        homes: &[Value],
    ) -> Result<Vec<Lane>> {
        let (mut values, mut homes) = (values.iter().copied(), homes.iter().copied());
        let mut lanes = vec![];
        for (&param, kind) in view.params.iter().zip(&found.kinds) {
            let mut next = || values.next().ok_or(Refusal::NotEvaluated);
            let first = next()?;
            lanes.push(match kind {
                Kind::Same => Lane::Same(first),
                Kind::Rows => Lane::Rows(first),
                Kind::InPlace(_) => {
                    let starts = homes.next().ok_or(Refusal::NotEvaluated)?;
                    Self::at_home(param, first, (starts, next()?), None)
                }
                Kind::Growing => {
                    let (lens, starts) = (next()?, next()?);
                    Self::at_home(param, first, (starts, lens), Some(next()?))
                }
                Kind::Moving => {
                    let lens = next()?;
                    Lane::Ragged(Ragged::packed(first, self.sums_before(b, lens)?, lens))
                }
            });
        }
        Ok(lanes)
    }

    /// The types of carried values: of ranges their elements and sizes.
    fn all_types(&self, view: &LoopView, found: &Found) -> Vec<Type> {
        let mut types = vec![];
        for (&p, &kind) in view.params.iter().zip(&found.kinds) {
            match kind.is_ragged() {
                true => types.extend(self.range_types(p, kind)),
                false => types.push(self.param_type(p, kind)),
            }
        }
        types
    }

    /// The type of a carried value that is no range.
    pub(super) fn param_type(&self, param: Value, kind: Kind) -> Type {
        match kind {
            Kind::Same => self.ty(param, Lane::Same(param)),
            _ => self.ty(param, Lane::Rows(param)),
        }
    }

    /// A value in the form in which a loop carries it: of ranges the elements and sizes, and the
    /// starts and rooms where room grows.
    pub(super) fn settled(
        &self,
        b: &mut FuncBuilder,
        lane: Lane,
        kind: Kind,
    ) -> Result<Vec<Value>> {
        Ok(match (kind, lane) {
            (Kind::Same, Lane::Same(v)) => vec![v],
            (Kind::Same | Kind::Rows, lane) => vec![self.spread(b, lane)?],
            (Kind::InPlace(_), Lane::Ragged(x)) => vec![x.data, x.lens],
            (Kind::Growing, lane) => self.with_rooms(b, lane)?.to_vec(),
            (Kind::InPlace(_) | Kind::Moving, lane) => {
                let x = self.as_ragged(b, lane)?;
                let x = self.packed(b, x)?;
                vec![x.data, x.lens]
            }
        })
    }
}
