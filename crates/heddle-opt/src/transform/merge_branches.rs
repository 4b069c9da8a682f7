//! Hoisting of computations that both branches of an `if` share.

use std::collections::{HashMap, HashSet};

use heddle_ir::op::Cost;
use heddle_ir::patch::{Patch, Stats};
use heddle_ir::{FuncId, Inst, Module, Op, Region, Value};

use crate::Edit;

/// Hoists instructions that both branches of an `if` execute on the same operands to before the
/// `if`. They are compiled once, results that the branches agree on bypass the `if`, and an `if`
/// whose branches are equal disappears.
///
/// Only instructions whose result is worth an array move, with their operands: contractions,
/// reductions, ops of the cost class `Order`, calls, and values that both branches yield for the
/// same result. Common elementwise work stays, because it fuses with its consumers.
///
/// The pass does *not* compare nested loops or branches with each other.
pub fn merge_branches(module: &mut Module) -> Stats {
    let ids: Vec<FuncId> = module.functions.keys().collect();
    let mut stats = Stats::default();
    for id in ids {
        // An instruction hoisted out of an inner branch may be common to the branches around it.
        for _ in 0..MAX_ROUNDS {
            let func = &mut module.functions[id];
            let body = func.body;
            let mut merge = Merge {
                patch: Patch::new(func),
            };
            merge.region(body);
            let round = merge.patch.apply();
            let done = round.total() == 0;
            stats.merge(round);
            if done {
                break;
            }
        }
    }
    stats
}

/// Maximum number of rounds.
const MAX_ROUNDS: usize = 4;

struct Merge<'f> {
    patch: Patch<'f>,
}

/// Instructions of the two branches that compute the same.
type Pair = [Inst; 2];

impl Merge<'_> {
    fn region(&mut self, region: Region) {
        for inst in self.patch.func().regions[region].insts.clone() {
            let data = &self.patch.func().insts[inst];
            let (is_if, inner) = (matches!(data.op, Op::If), data.regions.clone());
            for &region in &inner {
                self.region(region);
            }
            if let (true, &[then, other]) = (is_if, &inner[..]) {
                let pairs = self.pairs(then, other);
                let mut moved = HashSet::new();
                for pair in self.worth_moving(&pairs, [then, other]) {
                    moved.extend(self.merge(pair, inst));
                }
                self.results(inst, [then, other], &moved);
            }
        }
    }

    /// Instructions that stand in both branches, in the order of the first.
    fn pairs(&self, then: Region, other: Region) -> Vec<Pair> {
        let func = self.patch.func();
        let plain = |inst: &Inst| {
            let data = &func.insts[*inst];
            data.regions.is_empty() && !self.patch.is_removed(*inst)
        };
        // Values of the second branch mapped to those of the first.
        let mut same: HashMap<Value, Value> = HashMap::new();
        let mut left: Vec<Inst> = func.regions[other].insts.clone();
        left.retain(plain);
        let mut pairs = vec![];
        for &inst in func.regions[then].insts.iter().filter(|i| plain(i)) {
            let args = self.patch.args(inst);
            let alike = |&there: &Inst| {
                let mapped = self.patch.args(there);
                let mapped = mapped.iter().map(|v| same.get(v).unwrap_or(v));
                func.insts[there].op == func.insts[inst].op && mapped.eq(&args)
            };
            let Some(k) = left.iter().position(alike) else {
                continue;
            };
            let there = left.remove(k);
            let [own, others] = [inst, there].map(|i| &func.insts[i].results);
            if others
                .iter()
                .zip(own)
                .all(|(b, a)| self.patch.can_replace(*b, *a))
            {
                same.extend(others.iter().copied().zip(own.iter().copied()));
                pairs.push([inst, there]);
            }
        }
        // An instruction that depends on others of the branch can only move if they do.
        let mut moving: HashSet<Value> = HashSet::new();
        let local: HashSet<Value> = func.regions[then]
            .insts
            .iter()
            .flat_map(|i| func.insts[*i].results.iter().copied())
            .collect();
        pairs.retain(|&[inst, _]| {
            let free = |v: &Value| !local.contains(v) || moving.contains(v);
            let moves = self.patch.args(inst).iter().all(free);
            if moves {
                moving.extend(&func.insts[inst].results);
            }
            moves
        });
        pairs
    }

    /// Pairs whose results are worth an array, and the pairs that they depend on.
    fn worth_moving(&self, pairs: &[Pair], branches: [Region; 2]) -> Vec<Pair> {
        let func = self.patch.func();
        let [first, second] = branches.map(|r| self.patch.yields(r));
        let mut needed: HashSet<Value> = HashSet::new();
        let mut chosen: Vec<Pair> = vec![];
        for &[inst, there] in pairs.iter().rev() {
            let (data, twin) = (&func.insts[inst], &func.insts[there]);
            let mut both = data.results.iter().zip(&twin.results);
            let yielded = both.any(|(a, b)| {
                let mut ends = first.iter().zip(&second);
                ends.any(|(x, y)| (x, y) == (a, b))
            });
            if yielded || is_heavy(&data.op) || data.results.iter().any(|v| needed.contains(v)) {
                needed.extend(self.patch.args(inst));
                chosen.push([inst, there]);
            }
        }
        chosen.reverse();
        chosen
    }

    /// Hoists a pair and returns the values that are now computed before the branches.
    fn merge(&mut self, [inst, there]: Pair, before: Inst) -> Vec<Value> {
        let [own, others] = [inst, there].map(|i| self.patch.func().insts[i].results.clone());
        let mut all = others.into_iter().zip(&own);
        if !all.all(|(old, &new)| self.patch.replace(old, new)) {
            return vec![];
        }
        self.patch.move_before(inst, before);
        self.patch.remove(there);
        self.patch.because(Edit::BranchesMerged);
        own
    }

    /// Lets results that the branches now agree on bypass the `if`.
    fn results(&mut self, inst: Inst, branches: [Region; 2], moved: &HashSet<Value>) {
        let [first, second] = branches.map(|r| self.patch.yields(r));
        let results = self.patch.func().insts[inst].results.clone();
        for ((&result, a), b) in results.iter().zip(first).zip(second) {
            if a == b && moved.contains(&a) {
                self.patch.replace(result, a);
            }
        }
    }
}

/// Tells if a result is worth an array.
fn is_heavy(op: &Op) -> bool {
    use Cost::{Contraction, Order, Reduction};
    matches!(op.props().cost, Contraction | Order | Reduction) || matches!(op, Op::Call(_))
}
