//! The calls of a level, which are the activations of the next.

use heddle_ir::{DType, FuncBuilder, Value};

use super::copy::with_rows;
use super::drive::Driver;
use crate::batch::{Refusal, Result};
use crate::instances::lane::{Lane, Ragged};
use crate::instances::set::{Set, plus};

impl Driver<'_> {
    /// The places of a call's results, and the instances and arguments of those who do it. Its
    /// results follow `base` others.
    pub(super) fn site(
        &self,
        b: &mut FuncBuilder,
        set: &Set,
        ids: Value,
        values: &[Lane],
        in_loop: bool,
        base: &mut Value,
    ) -> Result<(Lane, Vec<Value>)> {
        let mut all = vec![];
        let mut ranges = None;
        for &lane in values {
            all.push(match in_loop {
                false => set.spread(b, lane)?,
                true => {
                    let x = set.as_ragged(b, lane)?;
                    let x = set.packed(b, x)?;
                    ranges.get_or_insert(x);
                    x.data
                }
            });
        }
        let (taken, count) = set.those(b, all[0])?;
        let ones = b.cast(DType::I64, all[0])?;
        let before = set.sums_before(b, ones)?;
        let place = plus(b, *base, before)?;
        let zero = b.i64(0);
        let place = b.select(all[0], place, zero)?;
        *base = plus(b, *base, count)?;
        let (lane, who) = match ranges {
            None => (Lane::Rows(place), taken),
            Some(x) => {
                let instance = set.places(b, x.lens)?.instance;
                (
                    Lane::Ragged(Ragged { data: place, ..x }),
                    b.gather(instance, taken)?,
                )
            }
        };
        let mut calls = vec![b.gather(ids, who)?];
        let params = self.parts.params().iter().zip(&self.parts.kept);
        let params = params.filter(|(_, kept)| !**kept).map(|(&p, _)| p);
        for (&data, param) in all[1..].iter().zip(params) {
            let arg = b.gather(data, taken)?;
            let ty = self.top.context.ty(self.parts.source.ty(param));
            let met = b.ty(arg).meet(&with_rows(&ty));
            b.refine_type(arg, met.ok_or(Refusal::UnknownSize)?)?;
            calls.push(arg);
        }
        Ok((lane, calls))
    }
}
