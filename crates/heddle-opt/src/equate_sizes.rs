//! Sizes that an instruction equates.

mod assumed;
mod carried;
mod equations;

use std::collections::HashMap;
use std::sync::Arc;

use heddle_ir::patch::Stats;
use heddle_ir::{Bounds, Dim, DimBound, Function, Module, Type};

use crate::Edit;
use crate::bind_sizes::substitute_sizes;
use crate::facts::Facts;
use assumed::Assumed;
use carried::keep_sizes;
use equations::Equations;

/// Makes named sizes of the default entry one size, a number or an expression of others, if an instruction
/// that each run evaluates fails unless they are: the two sizes that a contraction sums over, those that a
/// concatenation does not join, the number of elements before and after a reshape, and operands that
/// broadcast, where neither size may be 1. Inputs are checked for it when the program starts.
///
/// The first iteration of a loop that is sure to have one counts as well. In any other loop, and in every function, a
/// carried value keeps the sizes that it begins with if an iteration fails unless it does (`carried`).
///
/// It does *not* look into branches, which a run may not take.
pub fn equate_sizes(module: &mut Module) -> Stats {
    let mut stats = Stats::default();
    if let Some(entry) = module.entry_id() {
        let facts = Facts::of(module, entry);
        let func = &module.functions[entry];
        let equations = Equations::of(func, &facts);
        let pairs = equations.of_region(func.body, &mut Assumed::of(func, &facts));
        let one = Equal::of(func, &pairs);
        if !one.0.is_empty() {
            let name = |name: &str| one.0.get(name).cloned();
            stats.merge(substitute_sizes(module, entry, &name, Edit::EquatedSize));
        }
    }
    let functions: Vec<_> = module.functions.keys().collect();
    for id in functions {
        stats.merge(keep_sizes(module, id));
    }
    stats
}

/// Names that stand for another size.
#[derive(Default)]
struct Equal(HashMap<Arc<str>, Dim>);

impl Equal {
    /// Those of a function whose sizes are equal in pairs.
    fn of(func: &Function, pairs: &[(Dim, Dim)]) -> Self {
        let mut one = Self::default();
        for (a, b) in pairs {
            one.join(func, a, b);
        }
        one
    }

    /// A size in other names.
    fn now(&self, size: &Dim) -> Dim {
        size.substitute(&|name| Some(self.0.get(name).cloned().unwrap_or(Dim::sym(name))))
    }

    /// Makes two sizes one, if one of them is a name and the other a name, a number or an expression of names that
    /// inputs tell, or if their equation can be solved for a name.
    fn join(&mut self, func: &Function, a: &Dim, b: &Dim) {
        let (a, b) = (self.now(a), self.now(b));
        let name = |d: &Dim| d.as_expr().and_then(|e| e.as_sym()).cloned();
        let mut ways = match (name(&a), name(&b)) {
            (Some(x), Some(y)) => vec![(x, b), (y, a)],
            (Some(x), None) => vec![(x, b)],
            (None, Some(y)) => vec![(y, a)],
            (None, None) => a.solutions(&b),
        };
        // The name of the first input stays.
        ways.sort_by_key(|(old, _)| std::cmp::Reverse(place(func, old)));
        let may = |(old, new): &(Arc<str>, Dim)| stands(func, old, new);
        let Some((old, new)) = ways.into_iter().find(may) else {
            return;
        };
        for known in self.0.values_mut() {
            let to = |n: &str| Some(if *n == *old { new.clone() } else { Dim::sym(n) });
            *known = known.substitute(&to);
        }
        self.0.insert(old, new);
    }
}

/// May a size stand for a name: do inputs tell it, and is all that is stated of the name true of it?
fn stands(func: &Function, old: &str, new: &Dim) -> bool {
    let told = match new.as_const() {
        Some(n) => n >= 0,
        None => tells(func, new, old),
    };
    let DimBound { min, max } = match func.sig.bounds.get(old) {
        Some(bound) => *bound,
        None => return told,
    };
    let bounds = Bounds::of(&func.sig);
    let least = min == 0 || bounds.lower(new).is_some_and(|v| v >= min.into());
    let most = max.is_none_or(|max| bounds.upper(new).is_some_and(|v| v <= max));
    told && least && most
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
