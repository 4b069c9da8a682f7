//! Equations between sizes, by op.

use std::collections::HashMap;

use heddle_ir::op::Extent;
use heddle_ir::{
    Bounds, Dim, DimBound, Function, Inst, InstData, LoopView, Op, Region, Signature, Value,
};

use super::assumed::Assumed;
use crate::facts::Facts;

/// Equations between the sizes of a function.
pub(super) struct Equations<'a> {
    pub func: &'a Function,
    pub facts: &'a Facts,
    /// The function's signature, with the bounds that instructions which each run evaluates need as well.
    bounded: Signature,
}

impl<'a> Equations<'a> {
    /// Those of a function.
    pub fn of(func: &'a Function, facts: &'a Facts) -> Self {
        let mut equations = Self {
            func,
            facts,
            bounded: (*func.sig).clone(),
        };
        let mut least: HashMap<_, u64> = HashMap::new();
        let stated = Assumed::of(func, facts);
        for &inst in &func.regions[func.body].insts {
            if let Some((axis, size)) = least_size(&stated, &func.insts[inst])
                && let Some(name) = axis.as_expr().and_then(|e| e.as_sym())
            {
                let least = least.entry(name.clone()).or_default();
                *least = (*least).max(size);
            }
        }
        for (name, least) in least {
            let open = DimBound { min: 0, max: None };
            let bound = equations.bounded.bounds.entry(name).or_insert(open);
            bound.min = bound.min.max(least);
        }
        equations
    }

    /// Sizes that have to be equal for a region to be evaluated: those of its instructions, and of the first
    /// iterations of its loops, if they are sure to have one.
    pub fn of_region(&self, region: Region, assumed: &mut Assumed) -> Vec<(Dim, Dim)> {
        let mut pairs = vec![];
        for &inst in &self.func.regions[region].insts {
            assumed.follow(inst);
            let data = &self.func.insts[inst];
            pairs.extend(self.equal_sizes(assumed, data).unwrap_or_default());
            if let Some(parts) = self.entered(inst) {
                for (&param, &init) in parts.params.iter().zip(&parts.inits) {
                    assumed.assume(param, assumed.ty(init).clone());
                }
                pairs.extend(self.of_region(parts.body, assumed));
            }
        }
        pairs
    }

    /// A loop that is sure to have an iteration.
    fn entered(&self, inst: Inst) -> Option<LoopView> {
        let parts = LoopView::of(self.func, inst)?;
        let is_true = |v: Value| {
            self.facts
                .known(v)
                .is_some_and(|k| k.iter().all(|d| d.is(1)))
        };
        let trip = |v: Value| {
            let least = |k: &[Dim]| Bounds::of(&self.bounded).lower(&k[0]);
            self.facts.known(v).and_then(least).is_some_and(|n| n >= 1)
        };
        (parts.cond.is_none_or(is_true) && parts.trip.is_none_or(trip)).then_some(parts)
    }

    /// Sizes that have to be equal for an instruction to succeed.
    fn equal_sizes(&self, assumed: &Assumed, data: &InstData) -> Option<Vec<(Dim, Dim)>> {
        let pair = |a: &Dim, b: &Dim| (a.clone(), b.clone());
        let args = &data.args;
        let shape = |i: usize| assumed.shape(args[i]);
        match data.op {
            Op::Dot => {
                let (a, b) = (shape(0)?, shape(1)?);
                let summed = b.get(b.len().checked_sub(2)?)?;
                Some(vec![pair(a.last()?, summed)])
            }
            Op::Concat { axis } => {
                let first = shape(0)?;
                let others = args[1..].iter().filter_map(|&v| assumed.shape(v));
                let pairs = others.flat_map(|s| first.iter().zip(s).enumerate());
                let kept = pairs.filter(|(k, _)| *k != axis);
                Some(kept.map(|(_, (a, b))| pair(a, b)).collect())
            }
            Op::Conv { groups, .. } => {
                let (x, w) = (shape(0)?, shape(1)?);
                Some(vec![(x.get(1)?.clone(), w.get(1)?.mul(&Dim::from(groups)))])
            }
            Op::Reshape => {
                let to = assumed.known(args[1])?;
                // A size that is computed may be -1.
                let from = shape(0)?;
                let is_stated = to.iter().all(Dim::is_never_negative);
                is_stated.then(|| vec![(Dim::product(from), Dim::product(to))])
            }
            Op::Broadcast => {
                let (from, to) = (shape(0)?, assumed.known(args[1])?);
                let is_stated = to.iter().all(Dim::is_never_negative);
                is_stated.then(|| self.aligned(from, to))
            }
            _ if data.op.props().extent == Extent::Broadcast => {
                let shapes: Vec<_> = args.iter().filter_map(|&v| assumed.shape(v)).collect();
                let rest = |k: usize| shapes[k + 1..].iter();
                let pairs = shapes.iter().enumerate();
                let pairs = pairs.flat_map(|(k, a)| rest(k).map(|b| self.aligned(a, b)));
                Some(pairs.flatten().collect())
            }
            _ => None,
        }
    }

    /// The sizes of two shapes that broadcast, from the last axis on, where neither may be 1.
    fn aligned(&self, a: &[Dim], b: &[Dim]) -> Vec<(Dim, Dim)> {
        let pairs = a.iter().rev().zip(b.iter().rev());
        let equal = pairs.filter(|(a, b)| a != b && self.is_never_one(a) && self.is_never_one(b));
        equal.map(|(a, b)| (a.clone(), b.clone())).collect()
    }

    fn is_never_one(&self, size: &Dim) -> bool {
        let bounds = Bounds::of(&self.bounded);
        size.is_never_one() || bounds.lower(size).is_some_and(|least| least > 1)
    }
}

/// A size, and the least that an instruction needs it to be: constant indices lie inside.
fn least_size<'a>(assumed: &'a Assumed, data: &InstData) -> Option<(&'a Dim, u64)> {
    let Op::Gather { axis } = data.op else {
        return None;
    };
    let size = assumed.shape(data.args[0])?.get(axis)?;
    let needed = |index: &Dim| match index.as_const() {
        Some(i) if i >= 0 => i.unsigned_abs() + 1,
        Some(i) => i.unsigned_abs(),
        None => 0,
    };
    let indices = assumed.known(data.args[1])?.iter();
    Some((size, indices.map(needed).max()?))
}
