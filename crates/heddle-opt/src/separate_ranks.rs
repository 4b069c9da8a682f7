//! Branches whose arms give arrays of different rank.

use std::collections::{HashMap, HashSet};

use heddle_ir::patch::Stats;
use heddle_ir::{FuncId, Function, Inst, Module, Op, Region, Type, Value};

use crate::Edit;
use crate::transform::rebuild::{Rebuild, Result, rebuild_functions};

/// Maximum number of instructions that are copied into the arms of a branch, half as many in each
/// round: arms with further branches double.
const MAX_COPIED: usize = 1000;

/// Maximum number of branches of a region that are treated.
const MAX_ROUNDS: usize = 8;

/// Moves what depends on a branch into its arms, if these give arrays of different rank for a
/// result: in each arm the rank is known then. An instruction that does not fit the rank of an arm
/// is an error of the run that takes it.
///
/// TorchScript writes such branches, as for a squeeze of an axis that may have another size than 1.
pub fn separate_ranks(module: &mut Module) -> Stats {
    let mut stats = Stats::default();
    for number in 0..MAX_ROUNDS {
        let round = separate_first(module, MAX_COPIED >> number);
        let done = round.total() == 0;
        stats.merge(round);
        if done {
            break;
        }
    }
    stats
}

/// Treats the first branch of each region.
fn separate_first(module: &mut Module, most: usize) -> Stats {
    let plans = module.functions.iter().map(|(id, f)| (id, plan(f, most)));
    let plans: HashMap<FuncId, Plan> = plans.filter(|(_, p)| !p.last.is_empty()).collect();
    let ids: Vec<FuncId> = module.functions.keys().collect();
    let ids: Vec<FuncId> = ids
        .into_iter()
        .filter(|id| plans.contains_key(id))
        .collect();
    let mut next = ids.iter();
    rebuild_functions(module, &ids, |rebuild, stats| {
        let plan = next.next().and_then(|id| plans.get(id));
        rebuild.function(&mut |rebuild, inst| match plan {
            Some(plan) => plan.inst(rebuild, inst, stats),
            None => Ok(false),
        })
    })
}

/// The branches of a function that take in what depends on them.
#[derive(Default)]
struct Plan {
    /// By the last instruction of each tail, in whose place the branch is built.
    last: HashMap<Inst, Tail>,
    /// Branches and instructions of tails.
    moved: HashSet<Inst>,
}

/// A branch and the instructions of its region that depend on it, in order.
struct Tail {
    branch: Inst,
    insts: Vec<Inst>,
    /// Their results and the branch's that the region yields.
    yields: Vec<Value>,
}

fn plan(func: &Function, most: usize) -> Plan {
    let mut plan = Plan::default();
    let mut open = vec![func.body];
    while let Some(region) = open.pop() {
        match tail(func, region, most) {
            Some(tail) => {
                plan.moved.insert(tail.branch);
                plan.moved.extend(&tail.insts);
                plan.last.insert(tail.insts[tail.insts.len() - 1], tail);
            }
            None => {
                let insts = func.regions[region].insts.iter();
                open.extend(insts.flat_map(|&inst| func.insts[inst].regions.iter().copied()));
            }
        }
    }
    plan
}

/// The tail of the first branch in a region whose arms give different ranks.
fn tail(func: &Function, region: Region, most: usize) -> Option<Tail> {
    let insts = &func.regions[region].insts;
    insts.iter().enumerate().find_map(|(place, &branch)| {
        is_of_several_ranks(func, branch).then(|| tail_of(func, region, place, most))?
    })
}

fn is_of_several_ranks(func: &Function, inst: Inst) -> bool {
    let data = &func.insts[inst];
    let is_ranked = |v: Value| func.ty(v).as_tensor().is_some_and(|t| t.shape.is_some());
    data.op == Op::If
        && data.results.iter().enumerate().any(|(k, &result)| {
            let yielded = |r: &Region| is_ranked(func.regions[*r].yields[k]);
            matches!(func.ty(result), Type::Tensor(t) if t.shape.is_none())
                && data.regions.iter().all(yielded)
        })
}

fn tail_of(func: &Function, region: Region, place: usize, most: usize) -> Option<Tail> {
    let all = &func.regions[region];
    let branch = all.insts[place];
    let mut made: HashSet<Value> = func.insts[branch].results.iter().copied().collect();
    let mut insts = vec![];
    for &inst in &all.insts[place + 1..] {
        let mut depends = false;
        uses_within(func, inst, &mut |v| depends |= made.contains(&v));
        if depends {
            insts.push(inst);
            made.extend(&func.insts[inst].results);
        }
    }
    let mut yields = vec![];
    for &value in all.yields.iter().filter(|v| made.contains(v)) {
        if !yields.contains(&value) {
            yields.push(value);
        }
    }
    let copied: usize = insts.iter().map(|&inst| size(func, inst)).sum();
    (!insts.is_empty() && copied <= most).then_some(Tail {
        branch,
        insts,
        yields,
    })
}

/// Visits the operands of an instruction and of those inside it.
fn uses_within(func: &Function, inst: Inst, visit: &mut dyn FnMut(Value)) {
    let data = &func.insts[inst];
    data.args.iter().for_each(|&v| visit(v));
    for &region in &data.regions {
        func.regions[region].yields.iter().for_each(|&v| visit(v));
        for &inner in &func.regions[region].insts {
            uses_within(func, inner, visit);
        }
    }
}

/// The number of instructions that one is, with those inside it.
fn size(func: &Function, inst: Inst) -> usize {
    let regions = func.insts[inst].regions.iter();
    let inner = regions.flat_map(|&r| &func.regions[r].insts);
    1 + inner.map(|&inner| size(func, inner)).sum::<usize>()
}

impl Plan {
    fn inst(&self, rebuild: &mut Rebuild, inst: Inst, stats: &mut Stats) -> Result<bool> {
        if let Some(tail) = self.last.get(&inst) {
            self.branch(rebuild, tail, stats)?;
        }
        Ok(self.moved.contains(&inst))
    }

    /// Builds a branch with what depends on it.
    fn branch(&self, rebuild: &mut Rebuild, tail: &Tail, stats: &mut Stats) -> Result<()> {
        let data = &rebuild.source.insts[tail.branch];
        let cond = rebuild.values[&data.args[0]];
        let mut arms = vec![];
        for &arm in &data.regions {
            let before = rebuild.b.checkpoint();
            arms.push(running(rebuild, tail, arm).map_err(|error| {
                rebuild.b.rollback(&before);
                error.message
            }));
        }
        let runs = arms.iter().find_map(|arm| arm.as_ref().ok());
        let types = match runs {
            Some((_, yields)) => yields.iter().map(|&v| rebuild.b.ty(v).clone()).collect(),
            None => tail
                .yields
                .iter()
                .map(|&v| rebuild.source.ty(v).clone())
                .collect(),
        };
        let types: Vec<Type> = types;
        let mut regions = vec![];
        for arm in arms {
            regions.push(match arm {
                Ok((region, _)) => region,
                Err(message) => stopped(rebuild, &message, &types)?,
            });
        }
        rebuild.b.set_loc(data.loc.clone());
        let results = rebuild.b.if_(cond, regions[0], regions[1])?;
        for (&old, &new) in tail.yields.iter().zip(&results) {
            rebuild.stands_for(old, new);
        }
        stats.record(Edit::RanksSeparated);
        Ok(())
    }
}

/// An arm with the tail behind it, and what it yields. Fails if an instruction does not fit.
fn running(rebuild: &mut Rebuild, tail: &Tail, arm: Region) -> Result<(Region, Vec<Value>)> {
    rebuild.b.begin_region(&[]);
    rebuild.insts(arm, &mut |_, _| Ok(false))?;
    let source = rebuild.source;
    let yields = rebuild.all(&source.regions[arm].yields);
    let results = source.insts[tail.branch].results.iter().copied();
    rebuild.values.extend(results.zip(yields));
    for &inst in &tail.insts {
        rebuild.inst(inst, &mut decided)?;
    }
    let yields = rebuild.all(&tail.yields);
    Ok((rebuild.b.end_region(&yields), yields))
}

/// Builds the arm of a branch that the rank decides in place of the branch.
fn decided(rebuild: &mut Rebuild, inst: Inst) -> Result<bool> {
    let source = rebuild.source;
    let data = &source.insts[inst];
    let (Op::If, &[then, otherwise]) = (&data.op, data.regions.as_slice()) else {
        return Ok(false);
    };
    let cond = rebuild.b.known(rebuild.values[&data.args[0]]);
    let Some(truth) = cond.and_then(|known| known.first()?.as_const()) else {
        return Ok(false);
    };
    let arm = if truth != 0 { then } else { otherwise };
    rebuild.insts(arm, &mut decided)?;
    for (&old, &value) in data.results.iter().zip(&source.regions[arm].yields) {
        let new = rebuild.values[&value];
        rebuild.values.insert(old, new);
    }
    Ok(true)
}

/// An arm that always ends in an error.
fn stopped(rebuild: &mut Rebuild, message: &str, types: &[Type]) -> Result<Region> {
    rebuild.b.begin_region(&[]);
    let values = types.iter().map(|ty| rebuild.b.failure(message, ty));
    let values = values.collect::<Result<Vec<_>>>()?;
    Ok(rebuild.b.end_region(&values))
}
