//! Evaluation of one instance after the other.

use heddle_ir::{Dim, FuncBuilder, Inst, Type, Value};

use super::blocks::Block;
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
}

impl Set<'_> {
    /// An instruction.
    pub(super) fn each(&self, b: &mut FuncBuilder, inst: Inst) -> Result<Vec<Lane>> {
        let (before, needs) = self.needed(inst);
        let results = self.source.insts[inst].results.iter();
        let types: Vec<Type> = results.map(|&v| self.source.ty(v).clone()).collect();
        let block = Block::each(self.source, inst);
        self.in_turn(b, &needs, &types, block, &|one, b| {
            for &earlier in &before {
                let lanes = one.together(b, earlier)?;
                let results = self.source.insts[earlier].results.iter().copied();
                one.values.extend(results.zip(lanes));
            }
            one.together(b, inst)
        })
    }

    /// The postponed instructions that an instruction needs, and the values that all these need.
    fn needed(&self, inst: Inst) -> (Vec<Inst>, Vec<Value>) {
        let mut seen = Seen::default();
        seen.visit(self.source, inst);
        let mut before = vec![];
        for &earlier in self.postponed.iter().rev() {
            let results = &self.source.insts[earlier].results;
            if results.iter().any(|v| seen.used.contains(v)) {
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
            join(&ty) == Err(Refusal::UnknownSize)
        });
        if can {
            self.postponed.push(inst);
        }
        can
    }

    /// The whole function, of which nothing but the parameters is evaluated.
    pub(super) fn each_run(&self, b: &mut FuncBuilder) -> Result<Vec<Lane>> {
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
    ) -> Result<Vec<Lane>> {
        let results: Vec<Type> = types.iter().map(|ty| self.context.ty(ty)).collect();
        let joins = results.iter().map(join).collect::<Result<Vec<Join>>>()?;
        let count = |join| joins.iter().filter(|j| **j == join).count();
        let mut inits = vec![];
        for (ty, join) in results.iter().zip(&joins) {
            if *join == Join::Append {
                inits.push(empty(b, ty)?);
            }
        }
        let types: Vec<Type> = inits.iter().map(|&v| open(b.ty(v))).collect();
        let types = [vec![Type::scalar(heddle_ir::DType::I64)], types].concat();
        let (_, params) = b.begin_region(&types);
        let one = b.i64(1);
        self.context.mark(b, one, block);
        let mut alone = Set::new(self.source, self.context, one, Dim::constant(1));
        for &value in needs {
            let own = self.value(value)?.one(b, params[0])?;
            alone.values.insert(value, Lane::Same(own));
        }
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
            }
        }
        let body = b.end_region(&[next, stacked].concat());
        let found = b.loop_(Some(self.count), None, &inits, body)?;
        let (mut data, mut rows) = (
            found[..count(Join::Append)].iter(),
            found[count(Join::Append)..].iter(),
        );
        let mut lanes = vec![];
        for (ty, join) in results.iter().zip(&joins) {
            let &row = rows.next().ok_or(Refusal::NotEvaluated)?;
            let lane = match join {
                Join::Stack => Lane::Rows(row),
                Join::Append => Lane::Ragged(Ragged::packed(
                    *data.next().ok_or(Refusal::NotEvaluated)?,
                    self.sums_before(b, row)?,
                    row,
                )),
            };
            if let Lane::Rows(v) = lane {
                // Without iterations the sizes are those that the type states.
                b.refine_type(v, self.in_lane(ty, lane))?;
            }
            lanes.push(lane);
        }
        Ok(lanes)
    }
}

fn join(ty: &Type) -> Result<Join> {
    let tensor = ty.as_tensor().ok_or(Refusal::NoTensor)?;
    let shape = tensor.shape.as_ref().ok_or(Refusal::UnknownRank)?;
    let unknown = |dim: &Dim| matches!(dim, Dim::Unknown(_));
    match shape.split_first() {
        Some((_, rest)) if rest.iter().any(unknown) => Err(Refusal::UnknownSize),
        Some((first, _)) if unknown(first) => Ok(Join::Append),
        _ => Ok(Join::Stack),
    }
}
