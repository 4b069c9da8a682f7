//! Plans the distribution of a loop over stages.

use std::collections::{BTreeMap, HashMap, HashSet};

use heddle_ir::op::Cost;
use heddle_ir::{Function, Inst, InstData, LoopView, Op, Region, Value, cannot_fail};

use crate::components::strongly_connected;
use crate::transform::cost::CostModel;

/// Placement of an instruction of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Recomputed wherever needed: cheap, and depends only on the iteration number and values from
    /// outside.
    Free,
    /// In the iterations of the loop of this stage.
    Step(usize),
    /// For all iterations at once, before the loop of this stage.
    Batch(usize),
}

/// The stages that a loop is distributed over.
#[derive(Debug)]
pub struct Plan {
    /// Indexed like the body's instructions.
    pub modes: Vec<Mode>,
    /// The stage of the loop that carries each carried value.
    pub carried: Vec<usize>,
    /// Number of stages.
    pub stages: usize,
    /// Number of contractions evaluated for all iterations at once.
    pub contractions: usize,
    /// Bytes that one iteration adds to the arrays between stages.
    pub row: f64,
    /// True if the loops pay one after the other; otherwise they may as a pipeline.
    pub pays: bool,
}

/// Dependences of the body's values.
pub struct Body<'a> {
    pub func: &'a Function,
    /// The loop.
    pub inst: Inst,
    pub parts: LoopView,
    pub insts: &'a [Inst],
    /// The node that defines a value: an instruction's index, or a carried value's, which come
    /// after them.
    node: HashMap<Value, usize>,
    /// Values that each instruction uses, also in its regions, from the body and from outside.
    pub uses: Vec<Vec<Value>>,
}

impl<'a> Body<'a> {
    /// Analyses the body of a loop.
    pub fn of(func: &'a Function, inst: Inst, parts: LoopView) -> Self {
        let insts = &func.regions[parts.body].insts;
        let mut node = HashMap::new();
        for (i, &inst) in insts.iter().enumerate() {
            node.extend(func.insts[inst].results.iter().map(|&v| (v, i)));
        }
        let params = parts.params.iter().enumerate();
        node.extend(params.map(|(j, &v)| (v, insts.len() + j)));
        let uses = insts.iter().map(|&inst| {
            let mut all = func.insts[inst].args.clone();
            for &region in &func.insts[inst].regions {
                used_in(func, region, &mut all);
            }
            all
        });
        Self {
            func,
            inst,
            parts,
            insts,
            uses: uses.collect(),
            node,
        }
    }

    /// The instruction that makes a value of the body, by its index.
    pub fn maker(&self, value: Value) -> Option<usize> {
        self.node
            .get(&value)
            .copied()
            .filter(|n| *n < self.insts.len())
    }

    /// The index of the carried value of a parameter.
    pub fn carried(&self, value: Value) -> Option<usize> {
        self.node.get(&value)?.checked_sub(self.insts.len())
    }

    fn data(&self, i: usize) -> &'a InstData {
        &self.func.insts[self.insts[i]]
    }

    fn nodes(&self, i: usize) -> impl Iterator<Item = usize> + '_ {
        self.uses[i]
            .iter()
            .filter_map(|v| self.node.get(v).copied())
    }
}

fn used_in(func: &Function, region: Region, all: &mut Vec<Value>) {
    let data = &func.regions[region];
    all.extend(&data.yields);
    for &inst in &data.insts {
        all.extend(&func.insts[inst].args);
        for &inner in &func.insts[inst].regions {
            used_in(func, inner, all);
        }
    }
}

/// Distributes a body over stages, if that pays. The producers of a condition form the first stage;
/// all others come after it, when the trip count is known. `refused`: instructions that cannot be
/// evaluated for all iterations at once; `begins`: there is at least one iteration; `trips`:
/// estimated trip count.
pub fn plan(
    body: &Body,
    refused: &HashSet<Inst>,
    begins: bool,
    trips: f64,
    costs: &CostModel,
) -> Option<Plan> {
    let mut planner = Planner {
        body,
        refused,
        begins,
        trips,
        costs,
        modes: vec![Mode::Free; body.insts.len()],
        carried: vec![0; body.parts.params.len()],
        roots: vec![],
        deciding: HashSet::new(),
    };
    let edges = planner.edges();
    planner.decide(&edges);
    planner.stage(&edges);
    planner.prune();
    planner.finish()
}

struct Planner<'a> {
    body: &'a Body<'a>,
    refused: &'a HashSet<Inst>,
    begins: bool,
    trips: f64,
    costs: &'a CostModel,
    modes: Vec<Mode>,
    carried: Vec<usize>,
    /// Contractions for all iterations at once, with the nanoseconds that each saves in an
    /// iteration.
    roots: Vec<(usize, f64)>,
    /// Nodes that the loop's condition depends on.
    deciding: HashSet<usize>,
}

impl Planner<'_> {
    /// Dependences of each node, also across the back edge.
    fn edges(&self) -> Vec<Vec<usize>> {
        let count = self.body.insts.len();
        let mut edges: Vec<Vec<usize>> = (0..count).map(|i| self.body.nodes(i).collect()).collect();
        let next = self.body.parts.next.iter();
        edges.extend(next.map(|v| self.body.node.get(v).copied().into_iter().collect()));
        edges
    }

    /// Finds the nodes that the condition depends on.
    fn decide(&mut self, edges: &[Vec<usize>]) {
        let cond = self.body.parts.next_cond;
        let mut open: Vec<usize> = cond
            .and_then(|v| self.body.node.get(&v).copied())
            .into_iter()
            .collect();
        while let Some(node) = open.pop() {
            if self.deciding.insert(node) {
                open.extend(&edges[node]);
            }
        }
    }

    /// The earliest stage of a node.
    fn earliest(&self, node: usize) -> usize {
        (self.body.parts.cond.is_some() && !self.deciding.contains(&node)) as usize
    }

    /// Assigns a stage to each component of the dependence graph.
    fn stage(&mut self, edges: &[Vec<usize>]) {
        let count = self.body.insts.len();
        for component in strongly_connected(edges) {
            let cyclic = component.len() > 1 || component[0] >= count;
            if !cyclic {
                let i = component[0];
                self.modes[i] = self.mode(i);
                continue;
            }
            let inside: HashSet<usize> = component.iter().copied().collect();
            let from = component.iter().flat_map(|n| &edges[*n]);
            let from = from.filter(|n| !inside.contains(n));
            let earliest = self.earliest(component[0]);
            let stage = from.map(|n| self.stage_of(*n)).max().unwrap_or(0);
            let stage = stage.max(earliest);
            for n in component {
                match n.checked_sub(count) {
                    Some(j) => self.carried[j] = stage,
                    None => self.modes[n] = Mode::Step(stage),
                }
            }
        }
    }

    fn mode_of(&self, node: usize) -> Mode {
        match node.checked_sub(self.modes.len()) {
            Some(j) => Mode::Step(self.carried[j]),
            None => self.modes[node],
        }
    }

    fn stage_of(&self, node: usize) -> usize {
        match self.mode_of(node) {
            Mode::Free => 0,
            Mode::Step(s) | Mode::Batch(s) => s,
        }
    }

    /// Placement of an instruction that is in no cycle.
    fn mode(&mut self, i: usize) -> Mode {
        let modes: Vec<Mode> = self.body.nodes(i).map(|n| self.mode_of(n)).collect();
        let stages = self.body.nodes(i).map(|n| self.stage_of(n));
        let earliest = self.earliest(i);
        let stage = stages.max().unwrap_or(0).max(earliest);
        // The condition must be known before the trip count is.
        let decides = self.deciding.contains(&i);
        let batches = self.may_batch(i);
        let light = is_light(&self.body.data(i).op);
        let saved = self.saved(i);
        if batches && saved > 0.0 && !decides {
            self.roots.push((i, saved));
            // The results of a stage's loop are complete when the next stage begins.
            let after = |m: &Mode| match m {
                Mode::Free => 0,
                Mode::Step(s) => s + 1,
                Mode::Batch(s) => *s,
            };
            let first = modes.iter().map(after).max().unwrap_or(0);
            return Mode::Batch(first.max(earliest));
        }
        if light && batches {
            if modes.iter().all(|m| *m == Mode::Free) {
                return Mode::Free;
            }
            if !decides && !modes.contains(&Mode::Step(stage)) {
                return Mode::Batch(stage);
            }
        }
        Mode::Step(stage)
    }

    /// May an instruction be evaluated for all iterations at once? A cheap test; building may still
    /// refuse it.
    fn may_batch(&self, i: usize) -> bool {
        let inst = self.body.insts[i];
        let data = self.body.data(i);
        let by_iteration = data.args.get(1) == Some(&self.body.parts.iteration);
        let looks_up = matches!(data.op, Op::Gather { .. }) && by_iteration;
        let safe = self.begins || looks_up || cannot_fail(self.body.func, inst);
        let light = is_light(&data.op) || data.op.props().cost == Cost::Contraction;
        light && safe && !self.refused.contains(&inst)
    }

    /// Nanoseconds saved in an iteration by evaluating a contraction with a weight for all
    /// iterations at once. A dynamic size may well be 1, where reading the weights is the whole
    /// cost: that case and the usual guess count alike, each by the share of its time that it
    /// saves.
    fn saved(&self, i: usize) -> f64 {
        let data = self.body.data(i);
        let outside =
            |v: &Value| *v != self.body.parts.iteration && !self.body.node.contains_key(v);
        let [x, w] = [data.args.first(), data.args.get(1)];
        let (Some(&x), Some(&w)) = (x, w) else {
            return 0.0;
        };
        if self.costs.contraction(self.body.func, data) == 0.0 || outside(&x) || !outside(&w) {
            return 0.0;
        }
        let few = CostModel {
            unknown: 1.0,
            ..*self.costs
        };
        let (alone, together) = self.iteration(data, [x, w], &few);
        let usual = self.iteration(data, [x, w], self.costs);
        let shares = [(alone, together), usual].map(|(alone, together)| 1.0 - together / alone);
        alone * (shares[0] + shares[1]) / 2.0
    }

    /// Time of a contraction in an iteration, alone and as a part of one for all iterations. Loads
    /// of distant weights never overlap fully with the arithmetic, so their time is added.
    fn iteration(&self, data: &InstData, [x, w]: [Value; 2], costs: &CostModel) -> (f64, f64) {
        let func = self.body.func;
        let work = costs.contraction(func, data) / costs.flops;
        let weight = costs.bytes(func.ty(w)) / costs.weights;
        let arrays = costs.bytes(func.ty(x)) + costs.bytes(func.ty(data.results[0]));
        let alone = work + weight;
        let together = work + weight / self.trips + 2.0 * arrays / costs.arrays;
        (alone, together)
    }

    /// Moves instructions back into the loops that no batch needs, or that the loops compute
    /// anyway.
    fn prune(&mut self) {
        let mut needed = vec![false; self.modes.len()];
        for &(i, _) in &self.roots {
            needed[i] = true;
        }
        for i in (0..self.modes.len()).rev() {
            if let Mode::Batch(stage) = self.modes[i] {
                if !needed[i] && !self.shrinks(i) {
                    self.modes[i] = Mode::Step(stage);
                    continue;
                }
                for n in self.body.nodes(i).filter(|n| *n < self.modes.len()) {
                    needed[n] = true;
                }
            }
        }
    }

    /// Is an elementwise result no larger to read than its operands?
    fn shrinks(&self, i: usize) -> bool {
        let data = self.body.data(i);
        let bytes = |v: &Value| self.costs.bytes(self.body.func.ty(*v));
        let batched = |v: &&Value| {
            let maker = self.body.maker(**v);
            maker.is_some_and(|n| matches!(self.modes[n], Mode::Batch(_)))
        };
        let read: f64 = data.args.iter().filter(batched).map(bytes).sum();
        data.op.is_elementwise() && bytes(&data.results[0]) <= read
    }

    fn finish(self) -> Option<Plan> {
        if self.roots.is_empty() {
            return None;
        }
        let stage = |m: &Mode| match m {
            Mode::Free => 0,
            Mode::Step(s) | Mode::Batch(s) => *s,
        };
        let steps = self.modes.iter().filter(|m| matches!(m, Mode::Step(_)));
        let mut loops: Vec<usize> = steps
            .map(stage)
            .chain(self.carried.iter().copied())
            .collect();
        loops.sort();
        loops.dedup();
        let last = self
            .modes
            .iter()
            .map(stage)
            .chain(loops.last().copied())
            .max();
        let row = self.row();
        let saved: f64 = self.roots.iter().map(|r| r.1).sum();
        let extra = loops.len().saturating_sub(1) as f64 * self.costs.step;
        let pays = saved > extra;
        // Teams work on all layers at the same time, and each step has the synchronisations of one.
        let may_pipeline = self.costs.teams && self.costs.units > 1 && loops.len() > 1;
        (pays || may_pipeline).then_some(Plan {
            pays,
            stages: last.unwrap_or(0) + 1,
            contractions: self.roots.len(),
            modes: self.modes,
            carried: self.carried,
            row,
        })
    }

    /// Bytes that an iteration adds to the arrays between stages: the peak over all stages, since
    /// an array is freed after its last reader.
    fn row(&self) -> f64 {
        let mut last_reads: HashMap<Value, usize> = HashMap::new();
        let mut read = |value: &Value, reader: Mode, stage: usize| {
            let Some(&maker) = self.body.node.get(value) else {
                return;
            };
            match (self.mode_of(maker), reader) {
                (Mode::Free, _) | (Mode::Batch(_), Mode::Batch(_) | Mode::Free) => {}
                (maker, reader) if maker == reader => {}
                _ => {
                    let last = last_reads.entry(*value).or_default();
                    *last = stage.max(*last);
                }
            }
        };
        for (i, &mode) in self.modes.iter().enumerate() {
            let uses = self.body.uses[i].iter();
            uses.for_each(|v| read(v, mode, self.stage_of(i)));
        }
        for (value, &stage) in self.body.parts.next.iter().zip(&self.carried) {
            read(value, Mode::Step(stage), stage);
        }
        let mut needed: BTreeMap<usize, f64> = BTreeMap::new();
        for (value, last) in last_reads {
            for stage in self.stage_of(self.body.node[&value])..=last {
                *needed.entry(stage).or_default() += self.costs.bytes(self.body.func.ty(value));
            }
        }
        needed.into_values().fold(0.0, f64::max)
    }
}

/// Cheap elementwise ops that can be batched.
fn is_light(op: &Op) -> bool {
    use Cost::{Constant, Copy, Elementwise, Transcendental, View};
    let cost = op.props().cost;
    matches!(cost, Constant | View | Elementwise | Transcendental | Copy)
}
