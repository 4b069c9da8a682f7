//! Evaluation of levels, forward: the parts in front of the calls.

use heddle_ir::op::CompareOp;
use heddle_ir::{DType, Dim, FuncBuilder, Function, Type, Value};

use super::copy::with_rows;
use super::kept::{Kept, appended, arrays};
use super::parts::{Export, Parts};
use crate::batch::{Refusal, Result};
use crate::instances::blocks::Block;
use crate::instances::lane::Lane;
use crate::instances::set::{Set, empty, open};

pub(super) struct Driver<'a> {
    pub parts: &'a Parts<'a>,
    pub before: &'a Function,
    pub after: &'a Function,
    /// The instances, with the values of the function's parameters.
    pub top: &'a Set<'a>,
}

/// The calls of a level, which are the activations of the next.
struct Calls {
    /// The instance of each.
    ids: Value,
    /// The arguments that differ from the parameters.
    args: Vec<Value>,
}

impl Driver<'_> {
    /// The results of all instances.
    pub fn run(&self, b: &mut FuncBuilder) -> Result<Vec<Lane>> {
        let kept = self.forward(b)?;
        self.backward(b, &kept)
    }

    /// Evaluates levels until one makes no calls.
    fn forward(&self, b: &mut FuncBuilder) -> Result<Kept> {
        let ids = b.iota(self.top.count)?;
        let mut first = vec![ids];
        let mut types = vec![
            Type::scalar(DType::I64),
            Type::tensor(DType::I64, [Dim::UNKNOWN]),
        ];
        for (k, &param) in self.parts.params().iter().enumerate() {
            if !self.parts.kept[k] {
                let ty = self.top.context.ty(self.parts.source.ty(param));
                let all = self.top.spread(b, self.top.value(param)?)?;
                first.push(all);
                types.push(with_rows(&ty));
            }
        }
        // The forms and types of what is kept are seen in a level that is made for that alone.
        let notes = self.top.context.one_by_one.borrow().len();
        let mark = b.checkpoint();
        let (_, params) = b.begin_region(&types);
        let (lanes, _) = self.level(b, &params[1..])?;
        let is_ragged: Vec<bool> = lanes.iter().map(|l| matches!(l, Lane::Ragged(_))).collect();
        let mut all_types = vec![Type::tensor(DType::I64, [Dim::UNKNOWN])];
        all_types.extend(lanes.iter().flat_map(|&l| arrays(l)).map(|v| open(b.ty(v))));
        b.rollback(&mark);
        self.top.context.one_by_one.borrow_mut().truncate(notes);
        let mut kept = vec![b.i64s(&[0])];
        for ty in &all_types[1..] {
            kept.push(empty(b, ty)?);
        }
        let going = self.some(b, self.top.count)?;
        let (_, params) = b.begin_region(&[types, all_types].concat());
        let (now, stores) = params[1..].split_at(first.len());
        let (lanes, calls) = self.level(b, now)?;
        let count = b.size(now[0], 0)?;
        let block = Block::level(self.parts.source);
        self.top.context.mark(b, count, block);
        let next = appended(b, &lanes, stores, count)?;
        let more = b.size(calls.ids, 0)?;
        let more = self.some(b, more)?;
        let all = [vec![more, calls.ids], calls.args, next].concat();
        let body = b.end_region(&all);
        let inits = [&first[..], &kept].concat();
        let last = b.loop_(None, Some(going), &inits, body)?;
        Ok(Kept {
            is_ragged,
            ends: last[first.len()],
            arrays: last[first.len() + 1..].to_vec(),
        })
    }

    fn some(&self, b: &mut FuncBuilder, count: Value) -> Result<Value> {
        let zero = b.i64(0);
        Ok(b.compare(CompareOp::Lt, zero, count)?)
    }

    /// The lanes to keep of a level, whose instances and arguments these are, and the calls that it
    /// makes. The first lane is the instance; an export has a lane, a call's is the place of each
    /// result among those of the next level, 0 where there is no call.
    fn level(&self, b: &mut FuncBuilder, now: &[Value]) -> Result<(Vec<Lane>, Calls)> {
        let ids = now[0];
        let count = b.size(ids, 0)?;
        let mut set = Set::new(self.before, self.top.context, count, Dim::UNKNOWN);
        let mut args = now[1..].iter();
        let own = &self.before.regions[self.before.body].params;
        for (k, &param) in self.parts.params().iter().enumerate() {
            let lane = match self.parts.kept[k] {
                true => self.top.value(param)?.of(b, ids)?,
                false => Lane::Rows(*args.next().ok_or(Refusal::NotEvaluated)?),
            };
            set.values.insert(own[k], lane);
        }
        let mut yields = set.region(b, self.before.body)?.into_iter();
        let mut lanes = vec![Lane::Rows(ids)];
        let mut base = b.i64(1);
        let mut calls: Vec<Vec<Value>> = vec![];
        for export in self.parts.all_exports() {
            let count = self.parts.types(export).len();
            let values: Vec<Lane> = yields.by_ref().take(count).collect();
            lanes.push(match export {
                Export::Site(_) => {
                    let in_loop = self.parts.home(export).is_some();
                    let site = self.site(b, &set, ids, &values, in_loop, &mut base)?;
                    calls.push(site.1);
                    site.0
                }
                _ => match values[0] {
                    Lane::Ragged(x) => Lane::Ragged(set.packed(b, x)?),
                    lane => Lane::Rows(set.spread(b, lane)?),
                },
            });
        }
        let columns = calls.first().map_or(0, Vec::len);
        let joined = (0..columns).map(|k| {
            let parts: Vec<Value> = calls.iter().map(|call| call[k]).collect();
            b.join(&parts)
        });
        let mut joined = joined.collect::<std::result::Result<Vec<_>, _>>()?;
        if joined.is_empty() {
            return Err(Refusal::NotEvaluated);
        }
        let ids = joined.remove(0);
        Ok((lanes, Calls { ids, args: joined }))
    }
}
