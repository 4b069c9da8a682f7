//! Canonicalisation by rules.

mod algebra;
mod branches;
mod control;
mod counted;
mod pattern;
mod ranges;
mod rewriter;
mod rows;
mod sequences;
mod views;

use heddle_ir::patch::Stats;
use heddle_ir::{FuncId, Inst, Module, Region, Value};

use crate::facts::Facts;
use rewriter::Rewriter;

pub use pattern::commutes;

/// Rewrites instructions by tables of rules until none applies: algebra of elementwise ops
/// (`algebra.rs`), views (`views.rs`), rows that are read (`rows.rs`), ranges (`ranges.rs`),
/// sequences and optionals (`sequences.rs`), branches (`branches.rs`) and loops (`control.rs`).
/// Every edit is counted under its rule's name.
///
/// All rules are exact bit for bit. It does *not* evaluate constants (`fold_constants`), nor remove
/// dead code (`remove_dead`), nor move computation out of branches and loops.
pub fn canonicalize(module: &mut Module) -> Stats {
    let ids: Vec<FuncId> = module.functions.keys().collect();
    let mut stats = Stats::default();
    for id in ids {
        for _ in 0..MAX_ROUNDS {
            let facts = Facts::of(module, id);
            let func = &mut module.functions[id];
            let body = func.body;
            let mut cx = Rewriter::new(func, &facts);
            region(&mut cx, body);
            control::rewrite(&mut cx, body);
            let round = cx.patch.apply();
            let done = round.total() == 0;
            stats.merge(round);
            if done {
                break;
            }
        }
    }
    stats
}

/// The names of the rules of [`canonicalize`] that stand in tables, as [`Stats`] count them.
pub fn rule_names() -> impl Iterator<Item = &'static str> {
    algebra::names().chain(tables().map(|r| r.name))
}

fn tables() -> impl Iterator<Item = &'static Rule> {
    let tables = [views::RULES, sequences::RULES, rows::RULES, ranges::RULES];
    tables.into_iter().flatten()
}

/// Maximum number of walks; rewrites enable others, which the same walk or the next finds.
const MAX_ROUNDS: usize = 6;

/// Maximum number of rewrites of an instruction and its replacements in one walk.
const MAX_REWRITES: usize = 8;

/// A rule: from an instruction to the values that replace its results, if it applies.
#[derive(Clone, Copy)]
struct Rule {
    name: &'static str,
    rewrite: fn(&mut Rewriter, Inst) -> Option<Vec<Value>>,
}

impl Rule {
    const fn new(
        name: &'static str,
        rewrite: fn(&mut Rewriter, Inst) -> Option<Vec<Value>>,
    ) -> Self {
        Self { name, rewrite }
    }
}

fn region(cx: &mut Rewriter, region_id: Region) {
    for inst in cx.patch.func().regions[region_id].insts.clone() {
        let inner = cx.patch.func().insts[inst].regions.clone();
        if inner.is_empty() {
            straight(cx, inst);
        }
        for r in inner {
            region(cx, r);
        }
    }
}

/// Rewrites one instruction without regions, and its replacements.
fn straight(cx: &mut Rewriter, inst: Inst) {
    let mut pending = vec![inst];
    for _ in 0..MAX_REWRITES {
        let Some(inst) = pending.pop() else { return };
        if cx.patch.func().insts[inst].results.len() == 1 {
            pending.extend(rewrite(cx, inst));
        }
    }
}

/// Applies the first rule that fits; returns the instructions that it made.
fn rewrite(cx: &mut Rewriter, inst: Inst) -> Vec<Inst> {
    if cx.patch.func().insts[inst].args.is_empty() {
        return vec![];
    }
    cx.begin(inst);
    let mut found = algebra::rewrite(cx, inst);
    for rule in tables() {
        if found.is_some() {
            break;
        }
        cx.abandon();
        found = (rule.rewrite)(cx, inst).map(|values| (rule.name, values));
    }
    let Some((name, values)) = found else {
        cx.abandon();
        return vec![];
    };
    let result = cx.patch.func().insts[inst].results[0];
    if !cx.patch.replace(result, values[0]) {
        cx.abandon();
        return vec![];
    }
    cx.patch.remove(inst);
    cx.patch.because(name);
    cx.made()
}
