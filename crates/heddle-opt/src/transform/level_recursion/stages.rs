//! Work of a recursion that needs no level of its own.
//!
//! *Early* work needs no result of a call, such as a product of a node's input with a matrix. It is
//! evaluated for all states of a kind at once before the first level, and the levels read its rows;
//! or beside the levels, where these leave units idle ([`stream`](super::stream)).
//! *Late* results are those that the others do not need, such as the logits of a node, or a loss.
//! They are evaluated behind the last level: for the roots alone if no call reads them, else for all
//! states at once, and the sums of them in a second pass by levels.

use std::collections::HashMap;

use heddle_ir::{Function, Op, Value};

use super::LevelOptions;
use super::analyze::{Facts, Kind, Needed, Origin, Path, Read, Recursion, Step, for_each_inst};
use super::analyze::{Member, is_costly};
use super::stream::Pace;
use super::worth::{self, Products};
use crate::transform::cost::CostModel;

/// The stage in which a result is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// By levels.
    First,
    /// Late, and calls read it: in a second pass by levels.
    Again,
    /// Late, for the roots alone.
    Roots,
}

/// The stages of a recursion's work.
pub struct Stages {
    /// By kind.
    pub paths: Vec<Path>,
    /// By member and result.
    pub of: Vec<Vec<Stage>>,
    /// By kind.
    pub plans: Vec<Plan>,
    /// Early work beside a level.
    pub pace: Pace,
}

/// The stages of a kind.
#[derive(Default)]
pub struct Plan {
    /// Values that are evaluated before the first level, or before that of their states.
    pub early: Vec<Value>,
    /// Early values are evaluated beside the levels at this pace.
    pub streams: Option<Pace>,
    /// Values that are evaluated between the passes.
    pub between: Vec<Value>,
    /// Values that are a result of the first stage, but for axes of size 1: the result's number, and
    /// the ops that give the value.
    pub results: HashMap<Value, (usize, Vec<Op>)>,
}

impl Stages {
    /// Decides on the stages.
    pub fn of(recursion: &Recursion, options: &LevelOptions, costs: &CostModel) -> Self {
        let kinds = &recursion.kinds;
        let paths: Vec<Path> = kinds.iter().map(|k| Path::of(recursion, k)).collect();
        let facts = paths.iter().zip(kinds);
        let facts = facts.map(|(p, k)| p.facts(recursion, k)).collect();
        let analysis = Analysis {
            recursion,
            paths,
            facts,
            options,
            costs,
        };
        let of = analysis.stages();
        let plans = (0..analysis.paths.len()).map(|k| analysis.plan(k, &of));
        let plans: Vec<Plan> = plans.collect();
        let paces = plans.iter().filter_map(|plan| plan.streams);
        Self {
            paths: analysis.paths,
            of,
            pace: paces.reduce(Pace::min).unwrap_or_default(),
            plans,
        }
    }

    /// Are there results of this stage?
    pub fn has(&self, stage: Stage) -> bool {
        has(&self.of, stage)
    }

    /// The results of a kind in a stage.
    pub fn wanted(&self, recursion: &Recursion, k: usize, stage: Stage) -> Vec<Value> {
        of_stage(&self.paths[k], &self.of[recursion.kinds[k].member], stage)
    }
}

/// By member and result.
type Of = Vec<Vec<Stage>>;

fn has(of: &Of, stage: Stage) -> bool {
    of.iter().flatten().any(|own| *own == stage)
}

fn of_stage(path: &Path, of: &[Stage], stage: Stage) -> Vec<Value> {
    let all = path.yields.iter().zip(of);
    all.filter(|(_, own)| **own == stage)
        .map(|(v, _)| *v)
        .collect()
}

fn replace(of: &mut Of, stage: Stage) {
    let all = of.iter_mut().flatten().filter(|own| **own == stage);
    all.for_each(|own| *own = Stage::First);
}

struct Analysis<'a, 'm> {
    recursion: &'a Recursion<'m>,
    paths: Vec<Path>,
    facts: Vec<HashMap<Value, Facts>>,
    options: &'a LevelOptions,
    costs: &'a CostModel,
}

impl<'m> Analysis<'_, 'm> {
    fn kind(&self, k: usize) -> &Kind {
        &self.recursion.kinds[k]
    }

    fn member(&self, k: usize) -> &Member<'m> {
        &self.recursion.members[self.kind(k).member]
    }

    /// The stages that pay.
    fn stages(&self) -> Of {
        let mut of = self.possible();
        if !has(&of, Stage::First) {
            of.iter_mut().flatten().for_each(|own| *own = Stage::First);
        }
        if has(&of, Stage::Again) && !self.is_again_worth(&of) {
            replace(&mut of, Stage::Again);
        }
        let costs_much = |k: usize| {
            let plan = self.plan(k, &of);
            let wanted = of_stage(&self.paths[k], &of[0], Stage::Roots);
            let needed = self.paths[k].needed(&wanted, &|v| plan.is_given(v));
            self.costly(k, &needed).next().is_some()
        };
        let mut roots = (0..self.paths.len()).filter(|k| self.kind(*k).member == 0);
        if has(&of, Stage::Roots) && !roots.any(costs_much) {
            replace(&mut of, Stage::Roots);
        }
        of
    }

    /// The latest stages. Results may be late if the others do not depend on them, and no contraction
    /// lies between late results of calls and late results.
    fn possible(&self) -> Of {
        let members = self.recursion.members.iter();
        let mut of: Of = members
            .map(|m| vec![Stage::Roots; m.func.sig.results.len()])
            .collect();
        let mut reads: Vec<(usize, usize, Read)> = vec![];
        for (k, path) in self.paths.iter().enumerate() {
            for (i, value) in path.yields.iter().enumerate() {
                let own = self.facts[k].get(value).into_iter();
                let own = own.flat_map(|f| &f.reads);
                reads.extend(own.map(|&read| (self.kind(k).member, i, read)));
            }
        }
        let first = |of: &Of, member: usize, result: usize| of[member][result] == Stage::First;
        while let Some((.., read)) = reads.iter().find(|(m, i, read)| {
            !first(&of, read.member, read.result) && (read.heavy || first(&of, *m, *i))
        }) {
            of[read.member][read.result] = Stage::First;
        }
        for (.., read) in reads {
            if !first(&of, read.member, read.result) {
                of[read.member][read.result] = Stage::Again;
            }
        }
        of
    }

    /// Does a second pass by levels save time? Not if it repeats what the first one computes.
    fn is_again_worth(&self, of: &Of) -> bool {
        let mut gains = false;
        for (k, path) in self.paths.iter().enumerate() {
            let plan = self.plan(k, of);
            let own = &of[self.kind(k).member];
            let given = |v: Value| plan.is_given(v);
            let needed = path.needed(&of_stage(path, own, Stage::Again), &given);
            let levels = path.needed(&of_stage(path, own, Stage::First), &|_| false);
            if self.costly(k, &needed).any(|step| levels.steps[step]) {
                return false;
            }
            let gain = || self.gain(k, &plan.between, &given) > self.costs.level / self.batch();
            gains |= self.costly(k, &needed).next().is_some() && (self.options.always || gain());
        }
        gains
    }

    /// The steps among those needed that take notable time.
    fn costly<'s>(&'s self, k: usize, needed: &'s Needed) -> impl Iterator<Item = usize> + 's {
        let (path, func) = (&self.paths[k], self.member(k).func);
        (0..path.steps.len()).filter(move |&s| needed.steps[s] && is_costly(func, path.steps[s]))
    }

    fn batch(&self) -> f64 {
        self.options.batch as f64
    }

    fn plan(&self, k: usize, of: &Of) -> Plan {
        let path = &self.paths[k];
        let own = &of[self.kind(k).member];
        let wanted = of_stage(path, own, Stage::First);
        let mut plan = Plan {
            results: self.own_results(k, own),
            ..Plan::default()
        };
        // All of a kind without calls is evaluated in the first level.
        if !self.kind(k).calls.is_empty() {
            let needed = path.needed(&wanted, &|_| false);
            let early = self.frontier(k, &needed, &wanted, &|_| false, &|_| true);
            if self.options.always || self.gain(k, &early, &|_| false) > 0.0 {
                plan.early = early;
                plan.streams = self.pace(k, &plan, own);
            }
        }
        let is_again = |r: &Read| of[r.member][r.result] == Stage::Again;
        let given = |v: Value| plan.is_given(v);
        let wanted = of_stage(path, own, Stage::Again);
        let needed = path.needed(&wanted, &given);
        plan.between = self.frontier(k, &needed, &wanted, &given, &is_again);
        plan
    }

    /// The values that steps of a later stage use, and that take notable time to compute. `is_later`
    /// tells which results of calls the stage is for.
    fn frontier(
        &self,
        k: usize,
        needed: &Needed,
        wanted: &[Value],
        given: &dyn Fn(Value) -> bool,
        is_later: &dyn Fn(&Read) -> bool,
    ) -> Vec<Value> {
        let (path, func) = (&self.paths[k], self.member(k).func);
        let is_later = |v: &Value| {
            let facts = self.facts[k].get(v);
            facts.is_some_and(|f| f.reads.iter().any(is_later))
        };
        let mut used = wanted.to_vec();
        for step in (0..path.steps.len()).filter(|&s| needed.steps[s]) {
            if path.results(step).iter().any(is_later) {
                used.extend(path.uses(step));
            }
        }
        let mut found: Vec<Value> = vec![];
        for value in used {
            let depends = |f: &Facts| f.node || !f.reads.is_empty();
            let takes_rows = self.facts[k].get(&value).is_some_and(depends);
            if takes_rows && !is_later(&value) && !given(value) && !found.contains(&value) {
                let own = path.needed(&[value], given);
                let mut steps = path.steps.iter().zip(&own.steps);
                if steps.any(|(&step, own)| *own && is_costly(func, step)) {
                    found.push(value);
                }
            }
        }
        found
    }

    /// The pace of early work beside the levels; none if it is evaluated before them.
    fn pace(&self, k: usize, plan: &Plan, of: &[Stage]) -> Option<Pace> {
        if plan.early.is_empty() || self.options.streams.is_some() {
            return self.options.streams.filter(|_| !plan.early.is_empty());
        }
        let (path, member) = (&self.paths[k], self.member(k));
        let is_early = |v: Value| plan.early.contains(&v);
        let given = |v: Value| is_early(v) || plan.results.contains_key(&v);
        // Rows of early values do not stay.
        let later = [Stage::Again, Stage::Roots].into_iter().any(|stage| {
            let needed = path.needed(&of_stage(path, of, stage), &given);
            plan.early.iter().any(|v| needed.values.contains(v))
        });
        let products = |needed: &Needed| {
            let mut found = Products::default();
            for (&step, _) in path.steps.iter().zip(&needed.steps).filter(|(_, n)| **n) {
                for_each_inst(member.func, step, &mut |inst| {
                    found.add(member, inst, self.costs);
                });
            }
            found
        };
        let early = products(&path.needed(&plan.early, &|_| false));
        let level = products(&path.needed(&of_stage(path, of, Stage::First), &is_early));
        let bytes = |v: &Value| self.costs.bytes(&member.ty(member.func.ty(*v)));
        let kept = plan.early.iter().map(bytes).sum();
        worth::pace(&level, &early, kept, self.costs).filter(|_| !later)
    }

    /// Nanoseconds saved per state if values are computed for all states at once; 0 of none.
    fn gain(&self, k: usize, values: &[Value], given: &dyn Fn(Value) -> bool) -> f64 {
        if values.is_empty() {
            return 0.0;
        }
        let (path, member) = (&self.paths[k], self.member(k));
        let bytes = |v: &Value| self.costs.bytes(&member.ty(member.func.ty(*v)));
        let needed = path.needed(values, given);
        let mut weights = 0.0;
        for (&step, _) in path.steps.iter().zip(&needed.steps).filter(|(_, n)| **n) {
            for_each_inst(member.func, step, &mut |inst| {
                let data = &member.func.insts[inst];
                if data.op.is_contraction() {
                    let fixed = data.args.iter();
                    let fixed = fixed.filter(|v| member.origins.get(v) == Some(&Origin::Fixed));
                    weights += fixed.map(bytes).sum::<f64>();
                }
            });
        }
        let kept = values.iter().map(bytes).sum();
        worth::at_once(weights, kept, self.options, self.costs)
    }

    fn own_results(&self, k: usize, of: &[Stage]) -> HashMap<Value, (usize, Vec<Op>)> {
        let (path, func) = (&self.paths[k], self.member(k).func);
        let mut found = HashMap::new();
        for (i, &value) in path.yields.iter().enumerate() {
            let (mut value, mut ops) = (value, vec![]);
            let depends = |v| {
                let facts: Option<&Facts> = self.facts[k].get(&v);
                facts.is_some_and(|f| f.node || !f.reads.is_empty())
            };
            while of[i] == Stage::First && depends(value) {
                found.entry(value).or_insert_with(|| (i, ops.clone()));
                let Some((before, op)) = before(path, func, value) else {
                    break;
                };
                ops.extend(op);
                value = before;
            }
        }
        found
    }
}

/// The value from which axes of size 1 were removed or added, and the op that turns it back.
fn before(path: &Path, func: &Function, value: Value) -> Option<(Value, Option<Op>)> {
    let inst = match path.maker(value)? {
        Step::Arm(_, inner) => return Some((inner, None)),
        Step::Inst(inst) => inst,
        Step::Call(..) => return None,
    };
    let data = &func.insts[inst];
    let back = match &data.op {
        Op::Squeeze { axes } => Op::Unsqueeze { axes: axes.clone() },
        Op::Unsqueeze { axes } => Op::Squeeze { axes: axes.clone() },
        _ => return None,
    };
    Some((data.args[0], Some(back)))
}

impl Plan {
    /// Is a value known when late results are evaluated?
    fn is_given(&self, value: Value) -> bool {
        let is_kept = self.streams.is_none() && self.early.contains(&value);
        self.results.contains_key(&value) || is_kept
    }
}
