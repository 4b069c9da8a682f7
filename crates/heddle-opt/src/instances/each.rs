//! Evaluation of one instance after the other.

use heddle_ir::{Dim, FuncBuilder, Inst, Op, Type, Value};

use super::blocks::Block;
use super::flat::{Whole, elements_of};
use super::lane::{Lane, Ragged};
use super::set::{Set, empty, open};
use crate::batch::{Refusal, Result};
use crate::uses::Seen;

/// The way in which results of the instances are put together.
#[derive(Clone, Copy, PartialEq)]
enum Join {
    /// They have one shape.
    Stack,
    /// They differ in the size of their first axis.
    Append,
    /// They differ in the sizes of other axes.
    Flatten,
}

impl Set<'_> {
    /// An instruction.
    pub(super) fn each(&self, b: &mut FuncBuilder, inst: Inst) -> Result<Vec<Lane>> {
        let mut seen = Seen::default();
        seen.visit(self.source, inst);
        let (before, needs) = self.needed(seen);
        let results = self.source.insts[inst].results.iter();
        let types: Vec<Type> = results.map(|&v| self.source.ty(v).clone()).collect();
        let block = Block::each(self.source, inst);
        let is_open = |ty: &Type| join(&self.context.ty(ty)).map(|join| join == Join::Flatten);
        for ty in &types {
            if is_open(ty)? {
                return Err(Refusal::UnknownSize);
            }
        }
        let found = self.in_turn(b, &needs, &types, block, &|one, b| {
            one.all_together(b, &before)?;
            one.together(b, inst)
        })?;
        found.into_iter().map(Whole::lane).collect()
    }

    /// The results of instructions that are evaluated where they are used, for all instances.
    pub(super) fn each_value(&self, b: &mut FuncBuilder, value: Value) -> Result<Whole> {
        let inst = self.source.def_inst(value).ok_or(Refusal::NotEvaluated)?;
        let mut seen = Seen::default();
        seen.used.insert(value);
        let (before, needs) = self.needed(seen);
        let types = [self.source.ty(value).clone()];
        let block = Block::each(self.source, inst);
        let mut found = self.in_turn(b, &needs, &types, block, &|one, b| {
            one.all_together(b, &before)?;
            Ok(vec![one.value(value)?])
        })?;
        found.pop().ok_or(Refusal::NotEvaluated)
    }

    pub(super) fn all_together(&mut self, b: &mut FuncBuilder, insts: &[Inst]) -> Result<()> {
        for &inst in insts {
            let lanes = self.together(b, inst)?;
            let results = self.source.insts[inst].results.iter().copied();
            self.values.extend(results.zip(lanes));
        }
        Ok(())
    }

    /// The postponed instructions that these values need, and the values that all these need. What
    /// has rows for all instances is not evaluated again.
    fn needed(&self, mut seen: Seen) -> (Vec<Inst>, Vec<Value>) {
        let mut before = vec![];
        for &earlier in self.postponed.iter().rev() {
            let results = &self.source.insts[earlier].results;
            let is_needed = |v: &Value| seen.used.contains(v) && !self.padded.contains_key(v);
            if results.iter().any(is_needed) {
                seen.visit(self.source, earlier);
                before.push(earlier);
            }
        }
        before.reverse();
        seen.used.extend(self.params_of_scans(&seen));
        (before, seen.free().collect())
    }

    /// Leaves an instruction to those that use it, if its results differ in another axis than the
    /// first: there is no array of all of them, so each user evaluates it for its instance again.
    pub(super) fn postpone(&mut self, inst: Inst) -> bool {
        let mut results = self.source.insts[inst].results.iter();
        let can = results.any(|&v| {
            let ty = self.context.ty(self.source.ty(v));
            join(&ty) == Ok(Join::Flatten)
        });
        if can {
            self.postponed.push(inst);
        }
        can
    }

    /// The whole function, of which nothing but the parameters is evaluated.
    pub(super) fn each_run(&self, b: &mut FuncBuilder) -> Result<Vec<Whole>> {
        let body = self.source.body;
        let params = &self.source.regions[body].params;
        let results = self.source.sig.results.iter();
        let types: Vec<Type> = results.map(|(_, ty)| ty.clone()).collect();
        let block = Block::program(true);
        self.in_turn(b, params, &types, block, &|one, b| one.region(b, body))
    }

    /// A loop over the instances that evaluates results of these types for each, from the values
    /// that it needs.
    fn in_turn(
        &self,
        b: &mut FuncBuilder,
        needs: &[Value],
        types: &[Type],
        block: Block,
        evaluate: &dyn Fn(&mut Set, &mut FuncBuilder) -> Result<Vec<Lane>>,
    ) -> Result<Vec<Whole>> {
        let results: Vec<Type> = types.iter().map(|ty| self.context.ty(ty)).collect();
        let joins = results.iter().map(join).collect::<Result<Vec<Join>>>()?;
        let appended = joins.iter().filter(|join| **join != Join::Stack).count();
        let mut inits = vec![];
        for (ty, join) in results.iter().zip(&joins) {
            match join {
                Join::Stack => {}
                Join::Append => inits.push(empty(b, ty)?),
                Join::Flatten => inits.push(empty(b, &elements_of(ty)?)?),
            }
        }
        let types: Vec<Type> = inits.iter().map(|&v| open(b.ty(v))).collect();
        let types = [vec![Type::scalar(heddle_ir::DType::I64)], types].concat();
        let (_, params) = b.begin_region(&types);
        let one = b.i64(1);
        self.context.mark(b, one, block);
        let mut alone = self.one(b, needs, params[0])?;
        let lanes = evaluate(&mut alone, b)?;
        let same = lanes.into_iter().map(|lane| match lane {
            Lane::Same(v) => Ok(v),
            _ => Err(Refusal::NotEvaluated),
        });
        let values = same.collect::<Result<Vec<_>>>()?;
        let (mut next, mut stacked) = (vec![], vec![]);
        for (&value, join) in values.iter().zip(&joins) {
            match join {
                Join::Stack => stacked.push(value),
                Join::Append => {
                    let before = params[1 + next.len()];
                    stacked.push(b.size(value, 0)?);
                    next.push(b.join(&[before, value])?);
                }
                Join::Flatten => {
                    let before = params[1 + next.len()];
                    let rank = b.rank(value).ok_or(Refusal::UnknownRank)?;
                    stacked.push(b.sizes(value, 0..rank)?);
                    let all = b.i64s(&[-1]);
                    let elements = b.op1(Op::Reshape, &[value, all])?;
                    next.push(b.join(&[before, elements])?);
                }
            }
        }
        let body = b.end_region(&[next, stacked].concat());
        let found = b.loop_(Some(self.count), None, &inits, body)?;
        let (data, rows) = found.split_at(appended);
        let (mut data, mut rows) = (data.iter(), rows.iter());
        let mut lanes = vec![];
        for (ty, join) in results.iter().zip(&joins) {
            let &row = rows.next().ok_or(Refusal::NotEvaluated)?;
            let mut data = || data.next().copied().ok_or(Refusal::NotEvaluated);
            lanes.push(match join {
                Join::Stack => {
                    let lane = Lane::Rows(row);
                    // Without iterations the sizes are those that the type states.
                    b.refine_type(row, self.in_lane(ty, lane))?;
                    Whole::Lane(lane)
                }
                Join::Append => {
                    let starts = self.sums_before(b, row)?;
                    Whole::Lane(Lane::Ragged(Ragged::packed(data()?, starts, row)))
                }
                Join::Flatten => Whole::Flat(self.flattened(b, data()?, row, ty)?),
            });
        }
        Ok(lanes)
    }
}

fn join(ty: &Type) -> Result<Join> {
    let tensor = ty.as_tensor().ok_or(Refusal::NoTensor)?;
    let shape = tensor.shape.as_ref().ok_or(Refusal::UnknownRank)?;
    let unknown = |dim: &Dim| matches!(dim, Dim::Unknown(_));
    match shape.split_first() {
        Some((_, rest)) if rest.iter().any(unknown) => Ok(Join::Flatten),
        Some((first, _)) if unknown(first) => Ok(Join::Append),
        _ => Ok(Join::Stack),
    }
}
