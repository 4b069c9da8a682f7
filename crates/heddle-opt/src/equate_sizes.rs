//! Sizes that an instruction equates.

use std::collections::HashMap;
use std::sync::Arc;

use heddle_ir::patch::Stats;
use heddle_ir::{Dim, DimBound, Function, InstData, Module, Op, Type, Value};

use crate::Edit;
use crate::bind_sizes::substitute_sizes;
use crate::facts::Facts;

/// Makes named sizes of the default entry one size, a number or an expression of others, if an instruction
/// that each run evaluates fails unless they are: the two sizes that a contraction sums over, those that a
/// concatenation does not join, the number of elements before and after a reshape. Inputs are
/// checked for it when the program starts.
///
/// It does *not* look into branches and loops, which a run may not take.
pub fn equate_sizes(module: &mut Module) -> Stats {
    let Some(entry) = module.entry_id() else {
        return Stats::default();
    };
    let facts = Facts::of(module, entry);
    let func = &module.functions[entry];
    let mut one = Equal::default();
    for &inst in &func.regions[func.body].insts {
        let data = &func.insts[inst];
        for (a, b) in equal_sizes(func, &facts, data).unwrap_or_default() {
            one.join(func, &a, &b);
        }
    }
    match one.0.is_empty() {
        true => Stats::default(),
        false => substitute_sizes(
            module,
            entry,
            &|name| one.0.get(name).cloned(),
            Edit::EquatedSize,
        ),
    }
}

/// Sizes that have to be equal for an instruction to succeed.
fn equal_sizes(func: &Function, facts: &Facts, data: &InstData) -> Option<Vec<(Dim, Dim)>> {
    let shape = |v: Value| {
        let ty = facts.narrower(v).unwrap_or_else(|| func.ty(v));
        ty.as_tensor()?.shape.as_deref()
    };
    let pair = |a: &Dim, b: &Dim| (a.clone(), b.clone());
    let args = &data.args;
    match data.op {
        Op::Dot => {
            let (a, b) = (shape(args[0])?, shape(args[1])?);
            let summed = b.get(b.len().checked_sub(2)?)?;
            Some(vec![pair(a.last()?, summed)])
        }
        Op::Concat { axis } => {
            let first = shape(args[0])?;
            let others = args[1..].iter().filter_map(|&v| shape(v));
            let pairs = others.flat_map(|s| first.iter().zip(s).enumerate());
            Some(
                pairs
                    .filter(|(k, _)| *k != axis)
                    .map(|(_, (a, b))| pair(a, b))
                    .collect(),
            )
        }
        Op::Conv { groups, .. } => {
            let (x, w) = (shape(args[0])?, shape(args[1])?);
            Some(vec![(x.get(1)?.clone(), w.get(1)?.mul(&Dim::from(groups)))])
        }
        Op::Reshape => {
            let to = facts.known(args[1])?;
            // A size that is computed may be -1.
            let from = shape(args[0])?;
            let is_stated = to.iter().all(Dim::is_never_negative);
            is_stated.then(|| vec![(Dim::product(from), Dim::product(to))])
        }
        _ => None,
    }
}

/// Names that stand for another size.
#[derive(Default)]
struct Equal(HashMap<Arc<str>, Dim>);

impl Equal {
    /// Makes two sizes one, if one of them is a name and the other a name, a number or an expression of names that
    /// inputs tell.
    fn join(&mut self, func: &Function, a: &Dim, b: &Dim) {
        let now = |d: &Dim| {
            d.substitute(&|name| Some(self.0.get(name).cloned().unwrap_or(Dim::sym(name))))
        };
        let (a, b) = (now(a), now(b));
        let name = |d: &Dim| d.as_expr().and_then(|e| e.as_sym()).cloned();
        let (old, new) = match (name(&a), name(&b)) {
            (Some(x), Some(y)) if x != y => match place(func, &x) <= place(func, &y) {
                true => (y, a),
                false => (x, b),
            },
            (Some(x), None) if b.as_const().is_some_and(|n| n >= 0) => (x, b),
            (None, Some(y)) if a.as_const().is_some_and(|n| n >= 0) => (y, a),
            (Some(x), None) if tells(func, &b, &x) => (x, b),
            (None, Some(y)) if tells(func, &a, &y) => (y, a),
            _ => return,
        };
        let bound = |name: &str| func.sig.bounds.get(name);
        let fits = match name(&new) {
            Some(name) => bound(&name) == bound(&old),
            None => bound(&old).is_none_or(|b| *b == DimBound { min: 0, max: None }),
        };
        if !fits {
            return;
        }
        for known in self.0.values_mut() {
            let to = |n: &str| Some(if *n == *old { new.clone() } else { Dim::sym(n) });
            *known = known.substitute(&to);
        }
        self.0.insert(old, new);
    }
}

/// Do inputs tell the names of an expression without this one?
fn tells(func: &Function, dim: &Dim, without: &str) -> bool {
    let Some(e) = dim.as_expr().filter(|_| dim.as_const().is_none()) else {
        return false;
    };
    let mut told = true;
    e.for_each_sym(&mut |s| told &= **s != *without && place(func, s) < usize::MAX);
    told
}

/// The first input that has an axis of this size: its name is the one that stays.
fn place(func: &Function, name: &str) -> usize {
    let is_sym = |d: &Dim| {
        d.as_expr()
            .and_then(|e| e.as_sym())
            .is_some_and(|s| **s == *name)
    };
    let has = |ty: &Type| {
        let t = ty.as_tensor();
        t.is_some_and(|t| t.shape.iter().flatten().any(is_sym))
    };
    let mut params = func.sig.params.iter();
    params.position(|(_, ty)| has(ty)).unwrap_or(usize::MAX)
}
