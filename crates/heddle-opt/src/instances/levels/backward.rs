//! Evaluation of levels, backward: the parts behind the calls.

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Dim, FuncBuilder, Op, Type, Value};

use super::copy::{with_rows, zeros};
use super::drive::Driver;
use super::kept::Kept;
use super::parts::Export;
use crate::batch::{Refusal, Result};
use crate::instances::lane::{Lane, Ragged};
use crate::instances::set::{Set, plus};

impl Driver<'_> {
    /// Evaluates the parts behind the calls, from the last level to the first.
    pub(super) fn backward(&self, b: &mut FuncBuilder, kept: &Kept) -> Result<Vec<Value>> {
        let results = self.parts.source.sig.results.iter();
        let own: Vec<Type> = results.map(|(_, ty)| self.top.context.ty(ty)).collect();
        let mut types = vec![Type::scalar(DType::I64)];
        let mut none = vec![];
        for ty in &own {
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
        let mut set = self.level_behind(b, kept, numbers, &params[1..])?;
        let yields = set.region(b, self.after.body)?;
        let mut next = vec![];
        for ((lane, zero), ty) in yields.into_iter().zip(&none).zip(&own) {
            let rows = set.spread(b, lane)?;
            let met = b.ty(rows).meet(&with_rows(ty));
            b.refine_type(rows, met.ok_or(Refusal::UnknownSize)?)?;
            next.push(b.join(&[*zero, rows])?);
        }
        let body = b.end_region(&next);
        let all = b.loop_(Some(levels), None, &none, body)?;
        let (from, to, step) = (b.i64s(&[1]), b.i64s(&[i64::MAX]), b.i64s(&[1]));
        let mut results = vec![];
        for (&v, ty) in all.iter().zip(&own) {
            let rows = b.op1(Op::Slice { axes: vec![0] }, &[v, from, to, step])?;
            let stated = self.top.in_lane(ty, Lane::Rows(rows));
            let met = b.ty(rows).meet(&stated).ok_or(Refusal::UnknownSize)?;
            b.refine_type(rows, met)?;
            results.push(rows);
        }
        Ok(results)
    }

    /// The set of activations with these numbers, with all that the parts behind their calls read.
    /// `made` are the results of their calls.
    fn level_behind(
        &self,
        b: &mut FuncBuilder,
        kept: &Kept,
        numbers: Value,
        made: &[Value],
    ) -> Result<Set<'_>> {
        let count = b.size(numbers, 0)?;
        let mut set = Set::new(self.after, self.top.context, count, Dim::UNKNOWN);
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
