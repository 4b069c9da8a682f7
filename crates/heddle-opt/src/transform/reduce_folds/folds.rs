//! Recognises carried values that only fold terms, and chooses those that become reductions.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use heddle_ir::op::{BinaryOp, ReduceOp};
use heddle_ir::{DType, Dim, Function, Inst, LoopView, Op, Region, Type, Value, cannot_fail};

use crate::uses::Seen;

/// A carried value `a` that becomes `a ⊕ term` in each iteration, where no term needs a carried
/// value.
pub struct Fold {
    /// Its number among the carried values.
    pub carried: usize,
    /// The operation.
    pub op: BinaryOp,
    /// The same as a reduction.
    pub kind: ReduceOp,
    /// The terms of an iteration, at least one.
    pub terms: Vec<Value>,
    /// The instruction that combines the last one.
    pub last: Inst,
    /// The body's instructions that terms need.
    pub needed: BTreeSet<Inst>,
}

/// The body of a loop with a trip count and without a condition.
pub struct Body<'a> {
    pub func: &'a Function,
    pub view: LoopView,
    /// The instructions, each with the values from outside of it that it uses.
    pub insts: Vec<(Inst, Vec<Value>)>,
    /// The same without these.
    own: HashSet<Inst>,
    /// Values that are used once.
    once: HashSet<Value>,
}

impl<'a> Body<'a> {
    /// The body of a loop whose carried values may be folds.
    pub fn of(func: &'a Function, inst: Inst) -> Option<Self> {
        let view = LoopView::of(func, inst)?;
        if view.trip.is_none() || view.cond.is_some() || view.params.is_empty() {
            return None;
        }
        let free = |&inst: &Inst| {
            let mut seen = Seen::default();
            seen.visit(func, inst);
            (inst, seen.free().collect())
        };
        let insts = &func.regions[view.body].insts;
        Some(Self {
            func,
            insts: insts.iter().map(free).collect(),
            own: insts.iter().copied().collect(),
            once: used_once(func, view.body),
            view,
        })
    }

    /// The folds that become reductions. `refused`: instructions that cannot be evaluated for all
    /// iterations at once; `within`: instructions whose indices are within their arrays.
    pub fn folds(&self, refused: &HashSet<Inst>, within: &dyn Fn(Inst) -> bool) -> Vec<Fold> {
        let may_fail = self.insts.iter().map(|(inst, _)| *inst);
        let may_fail = may_fail.map(|inst| (inst, failing(self.func, inst)));
        let may_fail = may_fail.filter(|&(inst, failing)| failing > 0 && !within(inst));
        let may_fail: BTreeMap<Inst, usize> = may_fail.collect();
        let failing: usize = may_fail.values().sum();
        let fits = |fold: &Fold| {
            // If several instructions may fail, another one could be the first for all iterations.
            let mut needed = fold.needed.iter();
            let keeps_error = failing <= 1 || needed.all(|inst| !may_fail.contains_key(inst));
            let mut needed = fold.needed.iter();
            keeps_error && needed.all(|i| !refused.contains(i) && !doubles_work(self.func, *i))
        };
        let mut folds: Vec<Fold> = (0..self.view.params.len())
            .filter_map(|k| self.fold(k))
            .filter(fits)
            .collect();
        // Instructions that also stay in the loop are evaluated twice, which work must not be.
        loop {
            let stays = self.rest(&folds);
            let count = folds.len();
            folds.retain(|fold| {
                let mut shared = fold.needed.intersection(&stays);
                !shared.any(|&inst| has_work(self.func, inst))
            });
            if folds.len() == count {
                return folds;
            }
        }
    }

    /// The instructions that the other carried values and the scan outputs need.
    pub fn rest(&self, folds: &[Fold]) -> BTreeSet<Inst> {
        let next = self.view.next.iter().enumerate();
        let next = next.filter(|(k, _)| folds.iter().all(|fold| fold.carried != *k));
        let values = next.map(|(_, &v)| v).chain(self.view.stacked.clone());
        self.needed(values.collect()).0
    }

    /// A carried value as a fold.
    fn fold(&self, carried: usize) -> Option<Fold> {
        let (param, next) = (self.view.params[carried], self.view.next[carried]);
        let last = self.maker(next)?;
        let Op::Binary(op) = self.func.insts[last].op else {
            return None;
        };
        let kind = reduction(op, self.func.ty(param))?;
        if !self.once.contains(&param) {
            return None;
        }
        let reads_param = self.reads(param);
        let (mut value, mut terms) = (next, vec![]);
        while value != param {
            let data = &self.func.insts[self.maker(value)?];
            if data.op != Op::Binary(op) || !self.once.contains(&value) {
                return None;
            }
            let (x, y) = (data.args[0], data.args[1]);
            let (onward, term) = match (reads_param.contains(&x), reads_param.contains(&y)) {
                (true, false) => (x, y),
                (false, true) => (y, x),
                _ => return None,
            };
            if !broadcasts(self.func.ty(term), self.func.ty(param)) {
                return None;
            }
            terms.push(term);
            value = onward;
        }
        terms.reverse();
        let (needed, reached) = self.needed(terms.clone());
        let mut carried_values = self.view.params.iter();
        let is_apart = carried_values.all(|p| !reached.contains(p));
        // A sum of the same term is one of as many copies of it.
        let differs = reached.contains(&self.view.iteration);
        (is_apart && differs).then_some(Fold {
            carried,
            op,
            kind,
            terms,
            last,
            needed,
        })
    }

    /// The body's instruction that makes a value.
    fn maker(&self, value: Value) -> Option<Inst> {
        let inst = self.func.def_inst(value);
        inst.filter(|inst| self.own.contains(inst))
    }

    /// The values that depend on a value, and itself.
    pub fn reads(&self, value: Value) -> HashSet<Value> {
        let mut found = HashSet::from([value]);
        for (inst, used) in &self.insts {
            if used.iter().any(|v| found.contains(v)) {
                found.extend(&self.func.insts[*inst].results);
            }
        }
        found
    }

    /// The body's instructions that values depend on, and all values that these use.
    fn needed(&self, values: Vec<Value>) -> (BTreeSet<Inst>, HashSet<Value>) {
        let (mut needed, mut reached) = (BTreeSet::new(), HashSet::from_iter(values));
        for (inst, used) in self.insts.iter().rev() {
            let results = &self.func.insts[*inst].results;
            if results.iter().any(|v| reached.contains(v)) {
                needed.insert(*inst);
                reached.extend(used);
            }
        }
        (needed, reached)
    }
}

/// The values that a region uses once, within regions in it, too.
fn used_once(func: &Function, region: Region) -> HashSet<Value> {
    let mut uses: HashMap<Value, usize> = HashMap::new();
    let mut count = |values: &[Value]| {
        values
            .iter()
            .for_each(|&v| *uses.entry(v).or_default() += 1);
    };
    count(&func.regions[region].yields);
    func.for_each_inst_in(region, &mut |_, data| {
        count(&data.args);
        data.regions
            .iter()
            .for_each(|&r| count(&func.regions[r].yields));
    });
    let once = uses.into_iter().filter(|(_, uses)| *uses == 1);
    once.map(|(value, _)| value).collect()
}

/// The reduction that an operation is, if its result does not depend on the order, or is a sum of
/// `f32` or `f64`, as products with matrices add them in any order, too: it is rounded otherwise, and
/// may overflow on the way where the loop's does not, and the other way round. Products of floats
/// overflow at small numbers of terms, and sums of shorter floats are rounded in each step.
fn reduction(op: BinaryOp, ty: &Type) -> Option<ReduceOp> {
    let dtype = ty.as_tensor()?.dtype;
    let is_sum = dtype.is_int() || matches!(dtype, DType::F32 | DType::F64);
    match op {
        BinaryOp::Add if is_sum => Some(ReduceOp::Sum),
        BinaryOp::Mul if dtype.is_int() => Some(ReduceOp::Prod),
        BinaryOp::Max => Some(ReduceOp::Max),
        BinaryOp::Min => Some(ReduceOp::Min),
        BinaryOp::Or if dtype == DType::Bool => Some(ReduceOp::Max),
        BinaryOp::And if dtype == DType::Bool => Some(ReduceOp::Min),
        _ => None,
    }
}

/// Does a term have the shape of the carried value, axes of size 1 aside?
fn broadcasts(term: &Type, carried: &Type) -> bool {
    let shape = |ty: &Type| ty.as_tensor()?.shape.clone();
    let (Some(term), Some(carried)) = (shape(term), shape(carried)) else {
        return false;
    };
    let mut pairs = term.iter().rev().zip(carried.iter().rev());
    let fits = |(t, c): (&Dim, &Dim)| t.is(1) || t.equals(c);
    term.len() <= carried.len() && pairs.all(fits)
}

/// Can evaluating an instruction not fail?
pub fn is_safe(func: &Function, inst: Inst) -> bool {
    failing(func, inst) == 0
}

/// The number of instructions that may fail, within regions, too.
fn failing(func: &Function, inst: Inst) -> usize {
    let data = &func.insts[inst];
    let own = match data.op {
        Op::Loop { trip, .. } => !trip as usize,
        Op::If => 0,
        _ => return !cannot_fail(func, inst) as usize,
    };
    let within = data.regions.iter().flat_map(|&r| &func.regions[r].insts);
    own + within.map(|&inst| failing(func, inst)).sum::<usize>()
}

/// Does an instruction contain a branch with work, of which both arms would be evaluated for all
/// iterations?
fn doubles_work(func: &Function, inst: Inst) -> bool {
    let data = &func.insts[inst];
    let within = |region: &Region| {
        let mut insts = func.regions[*region].insts.iter();
        insts.any(|&inst| doubles_work(func, inst))
    };
    matches!(data.op, Op::If) && has_work(func, inst) || data.regions.iter().any(within)
}

/// Does an instruction contain products, loops or calls?
fn has_work(func: &Function, inst: Inst) -> bool {
    let is_work = |op: &Op| op.is_contraction() || matches!(op, Op::Loop { .. } | Op::Call(_));
    let data = &func.insts[inst];
    let mut found = is_work(&data.op);
    for &region in &data.regions {
        func.for_each_inst_in(region, &mut |_, data| found |= is_work(&data.op));
    }
    found
}
