//! Branches.

use heddle_ir::op::{CompareOp, ScatterReduce, UnaryOp};
use heddle_ir::{Dim, FuncBuilder, Inst, Op, Region, Type, Value, region_cannot_fail};

use super::lane::{Lane, Ragged};
use super::set::{Set, empty};
use crate::batch::{Refusal, Result};

/// The form that a result takes in both arms.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Same,
    Rows,
    Ragged,
}

impl Set<'_> {
    pub(super) fn branch(&mut self, b: &mut FuncBuilder, inst: Inst) -> Result<Vec<Lane>> {
        let data = &self.source.insts[inst];
        let arms = [data.regions[0], data.regions[1]];
        match self.value(data.args[0])? {
            Lane::Same(cond) => self.choose(b, inst, cond),
            Lane::Rows(cond) => {
                if arms.iter().all(|&arm| self.is_cheap(arm)) {
                    let mark = self.mark(b);
                    match self.both(b, cond, arms) {
                        Ok(lanes) => return Ok(lanes),
                        Err(_) => self.rollback(b, &mark),
                    }
                }
                self.part(b, cond, arms)
            }
            Lane::Ragged(_) => Err(Refusal::UnknownRank),
        }
    }

    /// A branch that all instances take alike.
    fn choose(&mut self, b: &mut FuncBuilder, inst: Inst, cond: Value) -> Result<Vec<Lane>> {
        let mark = self.mark(b);
        let (kinds, regions) = loop {
            let known = self.kinds.borrow().branches.get(&inst).cloned();
            let known = known.unwrap_or_default();
            let (kinds, regions) = self.arms(b, inst, &known)?;
            if known == kinds {
                break (kinds, regions);
            }
            self.rollback(b, &mark);
            self.kinds.borrow_mut().branches.insert(inst, kinds);
        };
        let mut results = b.if_(cond, regions[0], regions[1])?.into_iter();
        let mut next = || results.next().ok_or(Refusal::NotEvaluated);
        let lane = |kind| {
            Ok(match kind {
                Kind::Same => Lane::Same(next()?),
                Kind::Rows => Lane::Rows(next()?),
                Kind::Ragged => Lane::Ragged(Ragged::packed(next()?, next()?, next()?)),
            })
        };
        kinds.into_iter().map(lane).collect()
    }

    /// The arms of a branch, which yield values in these forms, and the forms that they should have.
    fn arms(
        &mut self,
        b: &mut FuncBuilder,
        inst: Inst,
        known: &[Kind],
    ) -> Result<(Vec<Kind>, Vec<Region>)> {
        let (mut found, mut regions) = (vec![], vec![]);
        for &arm in &self.source.insts[inst].regions {
            b.begin_region(&[]);
            let lanes = self.region(b, arm)?;
            let mut yields = vec![];
            for (&lane, kind) in lanes.iter().zip(known) {
                match (lane, kind) {
                    (lane, Kind::Ragged) => {
                        let r = self.as_ragged(b, lane)?;
                        let r = self.packed(b, r)?;
                        yields.extend([r.data, r.starts, r.lens]);
                    }
                    (Lane::Same(v), Kind::Same) => yields.push(v),
                    (lane, _) => yields.push(self.spread(b, lane)?),
                }
            }
            found.push(lanes);
            regions.push(b.end_region(&yields));
        }
        Ok((kinds(&found[0], &found[1]), regions))
    }

    /// Nothing in it can fail or takes much time.
    fn is_cheap(&self, arm: Region) -> bool {
        let mut is_cheap = region_cannot_fail(self.source, arm);
        if self.is_after {
            let is_fixed = |v: Value| self.source.constant(v).is_some();
            self.source.for_each_inst_in(arm, &mut |_, inst| {
                let mut sizes = inst.op.props().operands.sizes();
                is_cheap &= sizes.all(|k| inst.args.get(k).is_none_or(|&v| is_fixed(v)));
            });
        }
        self.source.for_each_inst_in(arm, &mut |_, inst| {
            is_cheap &= inst.regions.is_empty()
                && !matches!(inst.op, Op::Dot | Op::Conv { .. } | Op::Call(_));
        });
        is_cheap
    }

    /// Both arms for all instances, and a selection.
    fn both(&mut self, b: &mut FuncBuilder, cond: Value, arms: [Region; 2]) -> Result<Vec<Lane>> {
        let (x, y) = (self.region(b, arms[0])?, self.region(b, arms[1])?);
        let mut lanes = vec![];
        for (x, y) in x.into_iter().zip(y) {
            if row_shape(b, x)? != row_shape(b, y)? {
                return Err(Refusal::Arms);
            }
            lanes.extend(self.op(b, &Op::Select, &[Lane::Rows(cond), x, y])?);
        }
        Ok(lanes)
    }

    /// Each arm for the instances that take it.
    fn part(&mut self, b: &mut FuncBuilder, cond: Value, arms: [Region; 2]) -> Result<Vec<Lane>> {
        let not = b.op1(Op::Unary(UnaryOp::Not), &[cond])?;
        let (mut sets, mut yields): (Vec<Set>, Vec<Vec<Lane>>) = (vec![], vec![]);
        let mut numbers = vec![];
        for (arm, holds) in arms.into_iter().zip([cond, not]) {
            let (ids, _) = self.those(b, holds)?;
            let mut set = self.subset(b, &[arm], ids)?;
            set.may_be_empty = true;
            if let Some(first) = yields.first() {
                self.go_on_in(b, &mut set, first);
            }
            yields.push(set.arm(b, arm)?);
            sets.push(set);
            numbers.push(ids);
        }
        let order = b.join(&numbers)?;
        let places = b.iota(self.count)?;
        let scatter = Op::ScatterElements {
            axis: 0,
            reduce: ScatterReduce::Once,
        };
        let place = b.op1(scatter, &[order, order, places])?;
        let kinds = kinds(&yields[0], &yields[1]);
        let mut lanes = vec![];
        for (k, kind) in kinds.into_iter().enumerate() {
            let (x, y) = (yields[0][k], yields[1][k]);
            lanes.push(match kind {
                Kind::Same | Kind::Rows if self.in_one_shape(b, x, y)? => {
                    let all = [sets[0].spread(b, x)?, sets[1].spread(b, y)?];
                    let all = b.join(&all)?;
                    Lane::Rows(b.gather(all, place)?)
                }
                _ => {
                    let own = |b: &mut FuncBuilder, set: &Set, lane| {
                        let x = set.as_ragged(b, lane)?;
                        match lane {
                            Lane::Same(_) => set.packed(b, x),
                            _ => Ok(x),
                        }
                    };
                    let (x, y) = (own(b, &sets[0], x)?, own(b, &sets[1], y)?);
                    if !have_one_inside(b, x.data, y.data) {
                        return Err(Refusal::Arms);
                    }
                    self.joined(b, x, y, place)?
                }
            });
        }
        Ok(lanes)
    }

    /// The results of an arm for the instances that take it. If it holds what may fail or never end
    /// also where there are none, it is evaluated only if there are some.
    fn arm(&mut self, b: &mut FuncBuilder, arm: Region) -> Result<Vec<Lane>> {
        if !self.kinds.borrow().guarded.contains(&arm) {
            let mark = self.mark(b);
            let found = self.region(b, arm);
            if !self.needs_instance {
                return found;
            }
            self.rollback(b, &mark);
            self.kinds.borrow_mut().guarded.insert(arm);
        }
        (self.may_be_empty, self.needs_instance) = (false, false);
        let zero = b.i64(0);
        let some = b.compare(CompareOp::Lt, zero, self.count)?;
        b.begin_region(&[]);
        let mut yields = vec![];
        let mut kinds = vec![];
        for lane in self.region(b, arm)? {
            let is_open = match lane {
                Lane::Ragged(_) => true,
                lane => matches!(row_dims(b, lane)?.first(), Some(Dim::Unknown(_))),
            };
            match is_open {
                true => {
                    let x = self.as_ragged(b, lane)?;
                    let x = self.packed(b, x)?;
                    yields.extend([x.data, x.starts, x.lens]);
                }
                false => yields.push(self.spread(b, lane)?),
            }
            kinds.push(is_open);
        }
        let types: Vec<Type> = yields.iter().map(|&v| b.ty(v).clone()).collect();
        let then = b.end_region(&yields);
        b.begin_region(&[]);
        let none = types.iter().map(|ty| empty(b, ty));
        let none = none.collect::<Result<Vec<Value>>>()?;
        let otherwise = b.end_region(&none);
        let mut results = b.if_(some, then, otherwise)?.into_iter();
        let mut next = || results.next().ok_or(Refusal::NotEvaluated);
        let lane = |is_open| {
            Ok(match is_open {
                true => Lane::Ragged(Ragged::packed(next()?, next()?, next()?)),
                false => Lane::Rows(next()?),
            })
        };
        kinds.into_iter().map(lane).collect()
    }

    /// Are results of two arms of one shape? Else their first axes may differ.
    fn in_one_shape(&self, b: &FuncBuilder, x: Lane, y: Lane) -> Result<bool> {
        let (x, y) = (row_dims(b, x)?, row_dims(b, y)?);
        let is_open = |dim: &Dim| matches!(dim, Dim::Unknown(_));
        match (x.split_first(), y.split_first()) {
            _ if x == y && !x.iter().any(is_open) => Ok(true),
            (Some((_, x)), Some((_, y))) if x == y && !x.iter().any(is_open) => Ok(false),
            _ => Err(Refusal::Arms),
        }
    }
}

fn kinds(x: &[Lane], y: &[Lane]) -> Vec<Kind> {
    let kind = |(x, y): (&Lane, &Lane)| match (x, y) {
        (Lane::Same(_), Lane::Same(_)) => Kind::Same,
        (Lane::Ragged(_), _) | (_, Lane::Ragged(_)) => Kind::Ragged,
        _ => Kind::Rows,
    };
    x.iter().zip(y).map(kind).collect()
}

/// Do arrays have one size along all axes but the first?
fn have_one_inside(b: &FuncBuilder, x: Value, y: Value) -> bool {
    let dims = |v: Value| b.ty(v).as_tensor()?.shape.as_ref()?.get(1..);
    let (Some(x), Some(y)) = (dims(x), dims(y)) else {
        return false;
    };
    x.len() == y.len() && x.iter().zip(y).all(|(x, y)| x.equals(y))
}

/// The shape that all instances have.
fn row_shape(b: &FuncBuilder, lane: Lane) -> Result<Vec<Dim>> {
    let shape = row_dims(b, lane)?;
    match shape.iter().any(|d| matches!(d, Dim::Unknown(_))) {
        true => Err(Refusal::UnknownSize),
        false => Ok(shape),
    }
}

/// The sizes that the type states of each instance.
fn row_dims(b: &FuncBuilder, lane: Lane) -> Result<Vec<Dim>> {
    let (value, skip) = match lane {
        Lane::Same(v) => (v, 0),
        Lane::Rows(v) => (v, 1),
        Lane::Ragged(_) => return Err(Refusal::UnknownSize),
    };
    let tensor = b.ty(value).as_tensor().ok_or(Refusal::NoTensor)?;
    let shape = tensor.shape.as_ref().ok_or(Refusal::UnknownRank)?;
    Ok(shape[skip..].to_vec())
}
