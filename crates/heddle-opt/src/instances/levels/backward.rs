//! Evaluation of levels, backward: the parts behind the calls.

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Dim, FuncBuilder, Op, Type, Value};

use super::copy::{with_rows, zeros};
use super::drive::Driver;
use super::kept::Kept;
use super::parts::Export;
use crate::batch::{Refusal, Result};
use crate::instances::lane::{Lane, Ragged};
use crate::instances::set::{Set, open, plus};

/// A result of the calls of a level.
#[derive(Clone, Copy)]
enum Made {
    /// A row for each, the first one for calls that are not done.
    Rows(Value),
    /// A range for each, likewise.
    Ranges(Ragged),
}

/// May a result have another size along its first axis in each call?
fn differs(ty: &Type) -> bool {
    let shape = ty.as_tensor().and_then(|t| t.shape.as_ref());
    shape.is_some_and(|s| matches!(s.first(), Some(Dim::Unknown(_))))
}

impl Driver<'_> {
    /// Evaluates the parts behind the calls, from the last level to the first.
    pub(super) fn backward(&self, b: &mut FuncBuilder, kept: &Kept) -> Result<Vec<Lane>> {
        let results = self.parts.source.sig.results.iter();
        let own: Vec<Type> = results.map(|(_, ty)| self.top.context.ty(ty)).collect();
        let mut types = vec![Type::scalar(DType::I64)];
        let mut none = vec![];
        for ty in &own {
            if differs(ty) {
                let zero = zeros(b, ty)?;
                types.extend([open(b.ty(zero)), Type::tensor(DType::I64, [Dim::UNKNOWN])]);
                none.extend([zero, b.i64s(&[0])]);
                continue;
            }
            let all = with_rows(ty);
            // Results follow a row of zeros, which stands for those of calls that are not done.
            let zero = zeros(b, ty)?;
            none.push(b.op1(Op::Unsqueeze { axes: vec![0] }, &[zero])?);
            types.push(all);
        }
        let (one, two) = (b.i64(1), b.i64(2));
        let ends = b.size(kept.ends, 0)?;
        let levels = b.binary(BinaryOp::Sub, ends, one)?;
        let last = b.binary(BinaryOp::Sub, ends, two)?;
        let (_, params) = b.begin_region(&types);
        let level = b.binary(BinaryOp::Sub, last, params[0])?;
        let behind = plus(b, level, one)?;
        let (start, end) = (b.gather(kept.ends, level)?, b.gather(kept.ends, behind)?);
        let count = b.binary(BinaryOp::Sub, end, start)?;
        let numbers = b.iota(count)?;
        let numbers = plus(b, numbers, start)?;
        let made = self.made(b, &params[1..], &own)?;
        let mut set = self.level_behind(b, kept, numbers, &made)?;
        let yields = set.region(b, self.after.body)?;
        let (mut next, mut first) = (vec![], none.iter());
        for (lane, ty) in yields.into_iter().zip(&own) {
            let zero = first.next().ok_or(Refusal::NotEvaluated)?;
            if differs(ty) {
                let zero = first.next().ok_or(Refusal::NotEvaluated)?;
                let ranges = set.as_ragged(b, lane)?;
                let ranges = set.packed(b, ranges)?;
                next.extend([ranges.data, b.join(&[*zero, ranges.lens])?]);
                continue;
            }
            let rows = set.spread(b, lane)?;
            let met = b.ty(rows).meet(&with_rows(ty));
            b.refine_type(rows, met.ok_or(Refusal::UnknownSize)?)?;
            next.push(b.join(&[*zero, rows])?);
        }
        let body = b.end_region(&next);
        let all = b.loop_(Some(levels), None, &none, body)?;
        let (from, to, step) = (b.i64s(&[1]), b.i64s(&[i64::MAX]), b.i64s(&[1]));
        let mut results = vec![];
        for (made, ty) in self.made(b, &all, &own)?.into_iter().zip(&own) {
            let v = match made {
                Made::Rows(v) => v,
                Made::Ranges(Ragged { data, lens, .. }) => {
                    let lens = b.op1(Op::Slice { axes: vec![0] }, &[lens, from, to, step])?;
                    let starts = self.top.sums_before(b, lens)?;
                    results.push(Lane::Ragged(Ragged::packed(data, starts, lens)));
                    continue;
                }
            };
            let rows = b.op1(Op::Slice { axes: vec![0] }, &[v, from, to, step])?;
            let stated = self.top.in_lane(ty, Lane::Rows(rows));
            let met = b.ty(rows).meet(&stated).ok_or(Refusal::UnknownSize)?;
            b.refine_type(rows, met)?;
            results.push(Lane::Rows(rows));
        }
        Ok(results)
    }

    /// Results of these types, from the values that the loop carries.
    fn made(&self, b: &mut FuncBuilder, values: &[Value], own: &[Type]) -> Result<Vec<Made>> {
        let mut values = values.iter().copied();
        let mut next = || values.next().ok_or(Refusal::NotEvaluated);
        let mut all = vec![];
        for ty in own {
            let first = next()?;
            all.push(match differs(ty) {
                true => {
                    let lens = next()?;
                    let starts = self.top.sums_before(b, lens)?;
                    Made::Ranges(Ragged::packed(first, starts, lens))
                }
                false => Made::Rows(first),
            });
        }
        Ok(all)
    }

    /// The set of activations with these numbers, with all that the parts behind their calls read.
    /// `made` are the results of their calls.
    fn level_behind(
        &self,
        b: &mut FuncBuilder,
        kept: &Kept,
        numbers: Value,
        made: &[Made],
    ) -> Result<Set<'_>> {
        let count = b.size(numbers, 0)?;
        let mut set = Set::new(self.after, self.top.context, count, Dim::UNKNOWN);
        set.is_after = true;
        let mut lanes = kept.lanes().into_iter();
        let Some(Lane::Rows(ids)) = lanes.next() else {
            return Err(Refusal::NotEvaluated);
        };
        let ids = b.gather(ids, numbers)?;
        let params = &self.after.regions[self.after.body].params;
        let (own, mut saved) = params.split_at(self.parts.kept.len());
        for (k, &param) in self.parts.params().iter().enumerate() {
            if self.parts.kept[k] {
                let lane = self.top.value(param)?.of(b, ids)?;
                set.values.insert(own[k], lane);
            }
        }
        for (export, lane) in self.parts.all_exports().into_iter().zip(lanes) {
            let lane = lane.of(b, numbers)?;
            let Export::Site(_) = export else {
                set.values.insert(saved[0], lane);
                saved = &saved[1..];
                continue;
            };
            let lane = match lane {
                Lane::Ragged(x) => Lane::Ragged(set.packed(b, x)?),
                lane => lane,
            };
            for &result in made {
                let result = match (result, lane) {
                    (Made::Rows(result), _) => result,
                    (Made::Ranges(x), Lane::Rows(place) | Lane::Same(place)) => {
                        let lane = Lane::Ragged(x).of(b, place)?;
                        set.values.insert(saved[0], lane);
                        saved = &saved[1..];
                        continue;
                    }
                    (Made::Ranges(_), Lane::Ragged(_)) => return Err(Refusal::UnknownSize),
                };
                let lane = match lane {
                    Lane::Ragged(x) => {
                        let data = b.gather(result, x.data)?;
                        Lane::Ragged(Ragged { data, ..x })
                    }
                    Lane::Rows(place) | Lane::Same(place) => Lane::Rows(b.gather(result, place)?),
                };
                set.values.insert(saved[0], lane);
                saved = &saved[1..];
            }
        }
        Ok(set)
    }
}
