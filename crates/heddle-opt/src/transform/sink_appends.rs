//! Appends in branches.

use heddle_ir::patch::Stats;
use heddle_ir::{Dim, Entity, FuncId, Function, Inst, LoopView, Module, Op, Region, Type, Value};

use super::rebuild::{Rebuild, Result, rebuild_functions};
use crate::Edit;
use crate::uses::count_uses;

/// Maximum number of rounds: branches within branches move out by one each.
const MAX_ROUNDS: usize = 8;

/// Moves a concatenation to behind a branch, if one arm appends to an array that a loop carries and
/// the other appends, too, or leaves it as it is. The branch then yields the added rows, maybe
/// none, and the array grows in place instead of being copied in both arms.
pub fn sink_appends(module: &mut Module) -> Stats {
    let mut stats = Stats::default();
    for _ in 0..MAX_ROUNDS {
        let has_branches = |f: &Function| {
            let mut found = false;
            f.for_each_inst(&mut |_, data| found |= data.op == Op::If);
            found
        };
        let ids = module.functions.iter().filter(|(_, f)| has_branches(f));
        let ids: Vec<FuncId> = ids.map(|(id, _)| id).collect();
        let round = rebuild_functions(module, &ids, |rebuild, stats| {
            let (uses, carried) = (count_uses(rebuild.source), carried(rebuild.source));
            let sink = Sink { uses, carried };
            rebuild.function(&mut |rebuild, inst| sink.inst(rebuild, inst, stats))
        });
        let done = round.total() == 0;
        stats.merge(round);
        if done {
            break;
        }
    }
    stats
}

struct Sink {
    uses: Vec<u32>,
    /// Parameters that loops carry, by value.
    carried: Vec<bool>,
}

/// A result of a branch that is `base` with something appended along `axis`.
struct Append {
    base: Value,
    axis: usize,
    /// The concatenation in each arm; `None` where the array stays as it is.
    arms: [Option<Inst>; 2],
}

impl Sink {
    fn inst(&self, rebuild: &mut Rebuild, inst: Inst, stats: &mut Stats) -> Result<bool> {
        let func = rebuild.source;
        let data = &func.insts[inst];
        if data.op != Op::If {
            return Ok(false);
        }
        let arms = [data.regions[0], data.regions[1]];
        let appends = (0..data.results.len()).map(|k| self.append(func, arms, k));
        let appends: Vec<Option<Append>> = appends.collect();
        if appends.iter().all(Option::is_none) {
            return Ok(false);
        }
        let mut regions = vec![];
        for (place, arm) in arms.into_iter().enumerate() {
            regions.push(self.arm(rebuild, (place, arm), &appends, stats)?);
        }
        rebuild.b.set_loc(data.loc.clone());
        let cond = rebuild.values[&data.args[0]];
        let results = rebuild.b.if_(cond, regions[0], regions[1])?;
        for ((&old, &new), append) in data.results.iter().zip(&results).zip(&appends) {
            let new = match append {
                Some(append) => {
                    stats.record(Edit::AppendSunk);
                    let base = rebuild.values[&append.base];
                    let op = Op::Concat { axis: append.axis };
                    rebuild.b.op1(op, &[base, new])?
                }
                None => new,
            };
            rebuild.stands_for(old, new);
        }
        Ok(true)
    }

    /// Copies an arm, which yields what it appends.
    fn arm(
        &self,
        rebuild: &mut Rebuild,
        (place, arm): (usize, Region),
        appends: &[Option<Append>],
        stats: &mut Stats,
    ) -> Result<Region> {
        let func = rebuild.source;
        let sunk = |inst: Inst| {
            let mut all = appends.iter().flatten();
            all.any(|append| append.arms[place] == Some(inst))
        };
        rebuild.b.begin_region(&[]);
        rebuild.insts(arm, &mut |rebuild, inst| match sunk(inst) {
            true => Ok(true),
            false => self.inst(rebuild, inst, stats),
        })?;
        let mut yields = vec![];
        for (&value, append) in func.regions[arm].yields.iter().zip(appends) {
            let yielded = match append {
                None => rebuild.values[&value],
                Some(append) => match append.arms[place] {
                    Some(concat) => {
                        let parts = rebuild.all(&func.insts[concat].args[1..]);
                        match parts[..] {
                            [one] => one,
                            _ => rebuild.b.op1(Op::Concat { axis: append.axis }, &parts)?,
                        }
                    }
                    None => {
                        let base = rebuild.values[&append.base];
                        let axes = vec![append.axis];
                        let (zero, one) = (rebuild.b.i64s(&[0]), rebuild.b.i64s(&[1]));
                        let empty = Op::Slice { axes };
                        let rows = rebuild.b.op1(empty, &[base, zero, zero, one])?;
                        state_empty(rebuild, rows, append.axis);
                        rows
                    }
                },
            };
            yields.push(yielded);
        }
        Ok(rebuild.b.end_region(&yields))
    }

    fn append(&self, func: &Function, arms: [Region; 2], result: usize) -> Option<Append> {
        let yields = arms.map(|arm| func.regions[arm].yields[result]);
        let concats = [0, 1].map(|i| self.concat(func, arms[i], yields[i]));
        let (base, axis) = concats.iter().flatten().map(|c| (c.1, c.2)).next()?;
        let fits = |i: usize| match &concats[i] {
            Some(concat) => (concat.1, concat.2) == (base, axis),
            None => yields[i] == base,
        };
        (fits(0) && fits(1)).then(|| Append {
            base,
            axis,
            arms: concats.map(|concat| concat.map(|c| c.0)),
        })
    }

    /// The concatenation that a value is, if it stands in this arm, is used once, and appends to an
    /// array that a loop carries: itself, that array and the axis.
    fn concat(&self, func: &Function, arm: Region, value: Value) -> Option<(Inst, Value, usize)> {
        let inst = func.def_inst(value)?;
        let Op::Concat { axis } = func.insts[inst].op else {
            return None;
        };
        let base = func.insts[inst].args[0];
        let sinks = func.regions[arm].insts.contains(&inst)
            && self.uses[value.index()] == 1
            && func.insts[inst].args.len() > 1
            && matches!(func.ty(base), Type::Tensor(_))
            && self.grows(func, base);
        sinks.then_some((inst, base, axis))
    }

    /// Is this an array that a loop carries, maybe with something appended?
    fn grows(&self, func: &Function, base: Value) -> bool {
        match func.def_inst(base).map(|inst| &func.insts[inst]) {
            Some(data) => matches!(data.op, Op::Concat { .. }) && self.grows(func, data.args[0]),
            None => self.carried[base.index()],
        }
    }
}

/// States that an array has size 0 along an axis.
fn state_empty(rebuild: &mut Rebuild, x: Value, axis: usize) {
    let Type::Tensor(mut ty) = rebuild.b.ty(x).clone() else {
        return;
    };
    if let Some(size) = ty.shape.as_mut().and_then(|s| s.get_mut(axis)) {
        *size = Dim::constant(0);
    }
    rebuild.state(x, &Type::Tensor(ty));
}

/// Parameters that loops carry, by value.
fn carried(func: &Function) -> Vec<bool> {
    let mut carried = vec![false; func.values.len()];
    func.for_each_inst(&mut |inst, _| {
        for param in LoopView::of(func, inst).into_iter().flat_map(|l| l.params) {
            carried[param.index()] = true;
        }
    });
    carried
}
