//! A kind's path through a function as one list of steps, and the facts that follow from it.

use std::collections::{BTreeSet, HashMap, HashSet};

use heddle_ir::{Function, Inst, Op, Region, Value};

use super::{Kind, Recursion};
use crate::uses::Seen;

/// A step of a path.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// An instruction with its regions.
    Inst(Inst),
    /// A call of the recursion, with its number on the path.
    Call(usize, Inst),
    /// A result of a branch that the kind decides, and the value that its arm yields.
    Arm(Value, Value),
}

/// The steps of a kind, in order.
pub struct Path {
    pub steps: Vec<Step>,
    /// The values that each step uses; a call uses none, since its results are read.
    uses: Vec<Vec<Value>>,
    /// The results of each step.
    results: Vec<Vec<Value>>,
    /// The step that makes a value.
    made: HashMap<Value, usize>,
    /// The results.
    pub yields: Vec<Value>,
}

/// A result of a call of the recursion that a value depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Read {
    /// The callee's index.
    pub member: usize,
    /// The number of the result.
    pub result: usize,
    /// There is a contraction or a loop between the two.
    pub heavy: bool,
}

/// Dependences of a value.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// It depends on the node.
    pub node: bool,
    /// The results of calls that it depends on.
    pub reads: BTreeSet<Read>,
}

/// The part of a path that some values need.
pub struct Needed {
    /// By step.
    pub steps: Vec<bool>,
    /// The values, also those that are given.
    pub values: HashSet<Value>,
}

impl Path {
    /// The path of a kind.
    pub fn of(recursion: &Recursion, kind: &Kind) -> Self {
        let func = recursion.members[kind.member].func;
        let mut path = Self {
            steps: vec![],
            uses: vec![],
            results: vec![],
            made: HashMap::new(),
            yields: func.regions[func.body].yields.clone(),
        };
        path.region(func, func.body, kind);
        path
    }

    fn region(&mut self, func: &Function, region: Region, kind: &Kind) {
        for &inst in &func.regions[region].insts {
            let data = &func.insts[inst];
            if let Some(call) = kind.calls.iter().position(|c| *c == inst) {
                self.push(Step::Call(call, inst), vec![], &data.results);
            } else if let Some(&(_, arm)) = kind.decisions.iter().find(|(i, _)| *i == inst) {
                let inner = data.regions[!arm as usize];
                self.region(func, inner, kind);
                let yields = &func.regions[inner].yields;
                for (&result, &value) in data.results.iter().zip(yields) {
                    self.push(Step::Arm(result, value), vec![value], &[result]);
                }
            } else {
                let mut seen = Seen::default();
                seen.visit(func, inst);
                self.push(Step::Inst(inst), seen.free().collect(), &data.results);
            }
        }
    }

    fn push(&mut self, step: Step, uses: Vec<Value>, results: &[Value]) {
        let number = self.steps.len();
        self.made.extend(results.iter().map(|v| (*v, number)));
        self.steps.push(step);
        self.uses.push(uses);
        self.results.push(results.to_vec());
    }

    /// The step that makes a value; none of parameters.
    pub fn maker(&self, value: Value) -> Option<Step> {
        self.made.get(&value).map(|&k| self.steps[k])
    }

    /// The values that a step uses.
    pub fn uses(&self, step: usize) -> &[Value] {
        &self.uses[step]
    }

    /// The results of a step.
    pub fn results(&self, step: usize) -> &[Value] {
        &self.results[step]
    }

    /// The steps that `wanted` need if some values are given.
    pub fn needed(&self, wanted: &[Value], given: &dyn Fn(Value) -> bool) -> Needed {
        let mut needed = Needed {
            steps: vec![false; self.steps.len()],
            values: HashSet::new(),
        };
        let mut open = wanted.to_vec();
        while let Some(value) = open.pop() {
            if !needed.values.insert(value) || given(value) {
                continue;
            }
            if let Some(&step) = self.made.get(&value)
                && !std::mem::replace(&mut needed.steps[step], true)
            {
                open.extend(&self.uses[step]);
            }
        }
        needed
    }

    /// The dependences of all values.
    pub fn facts(&self, recursion: &Recursion, kind: &Kind) -> HashMap<Value, Facts> {
        let member = &recursion.members[kind.member];
        let func = member.func;
        let mut facts = HashMap::new();
        for (&param, fixed) in func.regions[func.body].params.iter().zip(&member.fixed) {
            let node = fixed.is_none();
            let reads = BTreeSet::new();
            facts.insert(param, Facts { node, reads });
        }
        for (&step, uses) in self.steps.iter().zip(&self.uses) {
            let mut all = Facts::default();
            for own in uses.iter().filter_map(|v| facts.get(v)) {
                all.node |= own.node;
                all.reads.extend(&own.reads);
            }
            if is_costly(func, step) {
                let heavy = all.reads.into_iter().map(|r| Read { heavy: true, ..r });
                all.reads = heavy.collect();
            }
            match step {
                Step::Arm(result, _) => {
                    facts.insert(result, all);
                }
                Step::Inst(inst) => {
                    let results = func.insts[inst].results.iter();
                    facts.extend(results.map(|v| (*v, all.clone())));
                }
                Step::Call(_, inst) => {
                    let Some(member) = recursion.callee(kind.member, inst) else {
                        continue;
                    };
                    for (result, &value) in func.insts[inst].results.iter().enumerate() {
                        let heavy = false;
                        let read = Read {
                            member,
                            result,
                            heavy,
                        };
                        let reads = BTreeSet::from([read]);
                        facts.insert(value, Facts { node: true, reads });
                    }
                }
            }
        }
        facts
    }
}

/// Does a step take notable time? Contractions and loops do.
pub fn is_costly(func: &Function, step: Step) -> bool {
    let mut found = false;
    for_each_inst(func, step, &mut |inst| {
        let op = &func.insts[inst].op;
        found |= op.is_contraction() || matches!(op, Op::Loop { .. });
    });
    found
}

/// The instructions of a step, those in its regions too; none of a call.
pub fn for_each_inst(func: &Function, step: Step, visit: &mut dyn FnMut(Inst)) {
    if let Step::Inst(inst) = step {
        visit(inst);
        for &region in &func.insts[inst].regions {
            func.for_each_inst_in(region, &mut |inner, _| visit(inner));
        }
    }
}
