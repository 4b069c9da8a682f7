//! Builds reductions of the terms of a loop's iterations.

use std::collections::HashMap;

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Dim, Inst, Op, Type, TypeError, Value};

use super::folds::{Body, Fold, is_safe};
use super::rows::{Row, is_size};
use crate::batch::{Batch, Batched, Refusal};
use crate::transform::cost::{UNKNOWN_SIZE, elements};
use crate::transform::rebuild::{Rebuild, Result};

/// Terms of all iterations may be this many times as large as the arrays that are looked up for
/// them; if they are larger, their number at once is bounded.
const GROWTH: f64 = 8.0;

/// Minimum number of iterations whose terms are evaluated at once, where that is bounded.
const LEAST: i64 = 8;

/// A loop of which some carried values become reductions.
pub struct Reduction<'r, 'a> {
    pub body: &'r Body<'a>,
    /// Elements that iterations look up by their number.
    pub rows: &'r HashMap<Inst, Row>,
    /// Trip count.
    pub trip: Value,
    /// The same as a size.
    pub trips: Dim,
    /// There is an iteration.
    pub begins: bool,
}

/// Consecutive iterations.
struct Part {
    /// The number of the first one; none if it is 0.
    first: Option<Value>,
    /// `i64[]`: their number.
    count: Value,
    /// The same as a size.
    dim: Dim,
}

impl<'a> Reduction<'_, 'a> {
    /// Builds the reductions, and a loop for what is left.
    pub fn build(
        &self,
        rebuild: &mut Rebuild<'a>,
        inst: Inst,
        folds: &[Fold],
        bytes: f64,
    ) -> std::result::Result<(), Stop> {
        let view = &self.body.view;
        let inits = folds.iter().map(|fold| view.inits[fold.carried]);
        let inits = rebuild.all(&inits.collect::<Vec<_>>());
        let sums = match self.at_once(folds, bytes)? {
            None => {
                let part = self.whole(rebuild)?;
                self.reduced(rebuild, folds, &part, &inits)?
            }
            Some(size) => self.by_parts(rebuild, inst, folds, size, &inits)?,
        };
        self.rest(rebuild, inst, folds)?;
        for (fold, sum) in folds.iter().zip(sums) {
            rebuild.stands_for(view.last[fold.carried], sum);
        }
        Ok(())
    }

    /// The number of iterations whose terms are evaluated at once; none if those of all are.
    fn at_once(&self, folds: &[Fold], bytes: f64) -> std::result::Result<Option<i64>, Stop> {
        let func = self.body.func;
        let size = |v: &Value| {
            let bits = func.ty(*v).as_tensor().map_or(64, |t| t.dtype.bits());
            elements(func.ty(*v), UNKNOWN_SIZE) * bits as f64 / 8.0
        };
        let differs = self.body.reads(self.body.view.iteration);
        let (mut read, mut largest) = (0.0, 1.0f64);
        for &inst in folds.iter().flat_map(|fold| &fold.needed) {
            let results = func.insts[inst].results.iter();
            let results = results.filter(|v| differs.contains(v)).map(size);
            match self.rows.get(&inst) {
                Some(row) if row.is_whole => read += results.sum::<f64>(),
                _ => largest = results.fold(largest, f64::max),
            }
        }
        let most = (bytes / largest).min(65536.0) as i64;
        let bound = match &self.trips {
            Dim::Unknown(bound) => bound.map(|n| n as i64),
            trips => trips.as_const(),
        };
        match bound {
            Some(n) if n <= most => Ok(None),
            _ if largest <= GROWTH * read => Ok(None),
            _ if most >= LEAST => Ok(Some(most)),
            _ => Err(Stop::Impossible),
        }
    }

    /// All iterations.
    fn whole(&self, rebuild: &mut Rebuild<'a>) -> std::result::Result<Part, Stop> {
        let is_count = self.begins
            || self
                .body
                .view
                .trip
                .is_some_and(|trip| is_size(self.body.func, trip))
            || self.trips.as_expr().is_some_and(|e| e.as_sym().is_some());
        let b = &mut rebuild.b;
        let count = match is_count {
            true => self.trip,
            false => {
                let zero = b.i64(0);
                b.binary(BinaryOp::Max, self.trip, zero)?
            }
        };
        let dim = b.known(count).and_then(|known| known.first().cloned());
        Ok(Part {
            first: None,
            count,
            dim: dim.unwrap_or(Dim::UNKNOWN),
        })
    }

    /// A loop over parts of so many iterations; gives the sums.
    fn by_parts(
        &self,
        rebuild: &mut Rebuild<'a>,
        inst: Inst,
        folds: &[Fold],
        size: i64,
        inits: &[Value],
    ) -> std::result::Result<Vec<Value>, Stop> {
        let (func, view) = (self.body.func, &self.body.view);
        let b = &mut rebuild.b;
        b.set_loc(func.insts[inst].loc.clone());
        let (step, less) = (b.i64(size), b.i64(size - 1));
        // Not `(trip + less) / step`, which may overflow.
        let zero = b.i64(0);
        let count = b.binary(BinaryOp::Max, self.trip, zero)?;
        let full = b.binary(BinaryOp::Div, count, step)?;
        let left = b.binary(BinaryOp::Rem, count, step)?;
        let partial = b.binary(BinaryOp::Add, left, less)?;
        let partial = b.binary(BinaryOp::Div, partial, step)?;
        let parts = b.binary(BinaryOp::Add, full, partial)?;
        let types = folds
            .iter()
            .map(|f| func.ty(view.params[f.carried]).clone());
        let types: Vec<Type> = [Type::scalar(DType::I64)]
            .into_iter()
            .chain(types)
            .collect();
        let (_, params) = b.begin_region(&types);
        let first = b.binary(BinaryOp::Mul, params[0], step)?;
        let left = b.binary(BinaryOp::Sub, count, first)?;
        let part = Part {
            first: Some(first),
            count: b.binary(BinaryOp::Min, left, step)?,
            dim: Dim::Unknown(Some(size as u64)),
        };
        let outside = rebuild.values.clone();
        let sums = self.reduced(rebuild, folds, &part, &params[1..])?;
        rebuild.values = outside;
        rebuild.b.set_loc(func.insts[inst].loc.clone());
        let region = rebuild.b.end_region(&sums);
        Ok(rebuild.b.loop_(Some(parts), None, inits, region)?)
    }

    /// Values combined with the terms of some iterations.
    fn reduced(
        &self,
        rebuild: &mut Rebuild<'a>,
        folds: &[Fold],
        part: &Part,
        before: &[Value],
    ) -> std::result::Result<Vec<Value>, Stop> {
        let func = self.body.func;
        let types = |ty: &Type| ty.clone();
        let mut batch = Batch::new(func, part.count, part.dim.clone(), &types);
        let mut iterations = rebuild.b.iota(part.count)?;
        rebuild.state_rows(iterations, &part.dim);
        if let Some(first) = part.first {
            iterations = rebuild.b.binary(BinaryOp::Add, first, iterations)?;
        }
        let iteration = self.body.view.iteration;
        batch.values.insert(iteration, Batched::Rows(iterations));
        for (inst, used) in &self.body.insts {
            if folds.iter().any(|fold| fold.needed.contains(inst)) {
                self.evaluate(rebuild, &mut batch, part, *inst, used)?;
            }
        }
        let mut sums = vec![];
        for (fold, &before) in folds.iter().zip(before) {
            rebuild.b.set_loc(func.insts[fold.last].loc.clone());
            for &term in &fold.terms {
                self.bring(rebuild, &mut batch, &[term]);
            }
            let mut terms = fold.terms.iter().map(|term| batch.value(*term));
            let mut all = terms.next().ok_or(Stop::Impossible)??;
            for term in terms.collect::<std::result::Result<Vec<_>, _>>()? {
                let op = Op::Binary(fold.op);
                all = batch.op(&mut rebuild.b, &op, &[all, term])?[0];
            }
            let all = batch.spread(&mut rebuild.b, all)?;
            let (kind, axes, keep) = (fold.kind, vec![0], false);
            let sum = rebuild.b.op1(Op::Reduce { kind, axes, keep }, &[all])?;
            let sum = rebuild.b.binary(fold.op, before, sum)?;
            sums.push(sum);
        }
        Ok(sums)
    }

    /// Evaluates an instruction of the body for some iterations.
    fn evaluate(
        &self,
        rebuild: &mut Rebuild<'a>,
        batch: &mut Batch,
        part: &Part,
        inst: Inst,
        used: &[Value],
    ) -> std::result::Result<(), Stop> {
        let data = &self.body.func.insts[inst];
        rebuild.b.set_loc(data.loc.clone());
        if let Some(row) = self.rows.get(&inst) {
            let own = row.elements(rebuild, part)?;
            batch.values.insert(data.results[0], Batched::Rows(own));
            return Ok(());
        }
        self.bring(rebuild, batch, used);
        let is_safe =
            self.begins || is_safe(self.body.func, inst) || batch.cannot_fail_without_rows(inst);
        match is_safe {
            true => batch
                .inst(&mut rebuild.b, inst)
                .map_err(|_| Stop::Refused(inst)),
            false => Err(Stop::Refused(inst)),
        }
    }

    /// Makes values from outside of the loop known.
    fn bring(&self, rebuild: &Rebuild, batch: &mut Batch, used: &[Value]) {
        for value in used {
            if let (None, Some(&outer)) = (batch.values.get(value), rebuild.values.get(value)) {
                batch.values.insert(*value, Batched::Same(outer));
            }
        }
    }

    /// The loop for the other carried values and the scan outputs, if there are any.
    fn rest(
        &self,
        rebuild: &mut Rebuild<'a>,
        inst: Inst,
        folds: &[Fold],
    ) -> std::result::Result<(), Stop> {
        let func = self.body.func;
        let mut view = self.body.view.clone();
        let stays = |k: usize| folds.iter().all(|fold| fold.carried != k);
        let carried: Vec<bool> = (0..view.params.len()).map(stays).collect();
        let scans = vec![true; view.scans.len()];
        view.retain(&carried, &scans);
        if view.params.is_empty() && view.stacked.is_empty() {
            return Ok(());
        }
        let needed = self.body.rest(folds);
        let inits = rebuild.all(&view.inits);
        let params = view.body_params();
        let types: Vec<Type> = params.iter().map(|v| func.ty(*v).clone()).collect();
        let outside = rebuild.values.clone();
        let (_, inner) = rebuild.b.begin_region(&types);
        for (&old, &new) in params.iter().zip(&inner) {
            rebuild.stands_for(old, new);
        }
        for (inst, _) in self.body.insts.iter().filter(|(i, _)| needed.contains(i)) {
            rebuild.inst(*inst, &mut |_, _| Ok(false))?;
        }
        let yields = rebuild.all(&view.yields());
        rebuild.values = outside;
        rebuild.b.set_loc(func.insts[inst].loc.clone());
        let region = rebuild.b.end_region(&yields);
        let results = rebuild.b.loop_(Some(self.trip), None, &inits, region)?;
        for (&old, &new) in view.results().iter().zip(&results) {
            rebuild.stands_for(old, new);
        }
        Ok(())
    }
}

impl Row {
    /// The elements of some iterations.
    fn elements(&self, rebuild: &mut Rebuild, part: &Part) -> Result<Value> {
        let b = &mut rebuild.b;
        if self.is_whole && part.first.is_none() {
            return Ok(self.array);
        }
        let (from, to) = match part.first {
            Some(first) => (
                b.vector_of(first)?,
                b.binary(BinaryOp::Add, first, part.count)?,
            ),
            None => (b.i64s(&[0]), part.count),
        };
        let (to, step) = (b.vector_of(to)?, b.i64s(&[1]));
        let own = b.op1(Op::Slice { axes: vec![0] }, &[self.array, from, to, step])?;
        rebuild.state_rows(own, &part.dim);
        Ok(own)
    }
}

/// The reason why terms are not evaluated at once.
pub enum Stop {
    /// An instruction of the body cannot be.
    Refused(Inst),
    /// They need too much memory, or something unforeseen is wrong.
    Impossible,
}

impl From<TypeError> for Stop {
    fn from(_: TypeError) -> Self {
        Self::Impossible
    }
}

impl From<Refusal> for Stop {
    fn from(_: Refusal) -> Self {
        Self::Impossible
    }
}
