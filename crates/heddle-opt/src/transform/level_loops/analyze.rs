//! Recognises loops whose iterations depend on each other only through rows, and estimates the gain
//! of levels.

use std::collections::HashSet;

use heddle_ir::{Dim, Function, Inst, LoopView, Op, Region, Value};

use crate::transform::cost::CostModel;
use crate::transform::level_recursion::{LevelOptions, definition, gain};

/// Maximum number of rows that an iteration reads by one vector of indices.
const MAX_COLUMNS: i64 = 8;

/// A loop each of whose iterations writes one row of each array that it carries.
pub struct RowLoop<'a> {
    pub func: &'a Function,
    pub inst: Inst,
    pub parts: LoopView,
    pub trip: Value,
    /// Number of rows of the arrays.
    pub extent: Dim,
    /// `update_slice`, for each array.
    pub updates: Vec<Inst>,
    /// Reads of rows (`gather` along the first axis), each with its array.
    pub reads: Vec<(Inst, usize)>,
    /// Instructions of the body.
    inner: HashSet<Value>,
}

/// Conditions under which levels pay.
pub struct Worth {
    /// Minimum mean number of iterations in a level.
    pub width: f64,
    /// Nanoseconds per iteration that the inspector may take.
    pub share: f64,
    /// Nanoseconds that it takes per level.
    pub level: f64,
}

impl<'a> RowLoop<'a> {
    /// Analyses an instruction, if it is such a loop.
    pub fn of(func: &'a Function, inst: Inst) -> Option<Self> {
        let parts = LoopView::of(func, inst)?;
        let trip = parts.trip?;
        let plain = parts.cond.is_none() && parts.stacked.is_empty();
        if !plain || parts.params.is_empty() {
            return None;
        }
        let extent = dims(func, parts.params[0])?.first()?.clone();
        let mut updates = vec![];
        for (&param, &next) in parts.params.iter().zip(&parts.next) {
            let (update, _) = definition(func, next)?;
            let data = &func.insts[update];
            let array = dims(func, param)?;
            let rows = dims(func, *data.args.get(1)?)?;
            let one_row = rows.first()?.is(1)
                && rows.len() == array.len()
                && rows[1..].iter().zip(&array[1..]).all(|(a, b)| a.equals(b));
            let is_row = matches!(data.op, Op::UpdateSlice)
                && data.args[0] == param
                && one_row
                && array[0].equals(&extent)
                && func.regions[parts.body].insts.contains(&update);
            if !is_row {
                return None;
            }
            updates.push(update);
        }
        let mut loops = Self {
            func,
            inst,
            parts,
            trip,
            extent,
            updates,
            reads: vec![],
            inner: HashSet::new(),
        };
        loops.find_reads().then_some(loops)
    }

    /// Finds the reads of rows; false if arrays are read in other ways too.
    fn find_reads(&mut self) -> bool {
        let (func, body) = (self.func, self.parts.body);
        let own = &func.regions[body].insts;
        let mut fine = true;
        self.inner.extend(&func.regions[body].params);
        func.for_each_inst_in(body, &mut |inst, data| {
            self.inner.extend(&data.results);
            for &region in &data.regions {
                self.inner.extend(&func.regions[region].params);
            }
            for (k, arg) in data.args.iter().enumerate() {
                fine &= !self.parts.next.contains(arg);
                let Some(table) = self.parts.params.iter().position(|p| p == arg) else {
                    continue;
                };
                match data.op {
                    Op::UpdateSlice if k == 0 && self.updates.contains(&inst) => {}
                    Op::Gather { axis: 0 } if k == 0 && own.contains(&inst) => {
                        let indices = dims(func, data.args[1]);
                        fine &= indices.is_some_and(|d| match d {
                            [] => true,
                            [one] => one
                                .as_const()
                                .is_some_and(|n| (1..=MAX_COLUMNS).contains(&n)),
                            _ => false,
                        });
                        fine &= self.looks_up(data.args[1]);
                        self.reads.push((inst, table));
                    }
                    _ => fine = false,
                }
            }
        });
        fine && !self.reads.is_empty()
    }

    /// Is an index looked up in an array? Those of recurrences are not; their iterations form no
    /// levels.
    fn looks_up(&self, index: Value) -> bool {
        let (mut open, mut seen) = (vec![index], HashSet::new());
        while let Some(value) = open.pop() {
            let Some((inst, _)) = definition(self.func, value) else {
                continue;
            };
            let data = &self.func.insts[inst];
            if matches!(data.op, Op::Gather { .. }) {
                return true;
            }
            open.extend(data.args.iter().filter(|v| seen.insert(**v)));
        }
        false
    }

    /// The values from outside that the body uses.
    pub fn outer(&self) -> HashSet<Value> {
        let mut used = HashSet::new();
        self.func.for_each_inst_in(self.parts.body, &mut |_, data| {
            used.extend(&data.args);
            for &region in &data.regions {
                used.extend(&self.func.regions[region].yields);
            }
        });
        used.difference(&self.inner).copied().collect()
    }

    /// The conditions under which levels pay; none if never. A branch that differs by row is
    /// computed both ways for all rows: if it contains contractions, that may cost more than
    /// batches save.
    pub fn worth(&self, options: &LevelOptions, costs: &CostModel) -> Option<Worth> {
        let (func, outer) = (self.func, self.outer());
        let mut branches = false;
        func.for_each_inst_in(self.parts.body, &mut |_, data| {
            if matches!(data.op, Op::If) {
                for &arm in &data.regions {
                    func.for_each_inst_in(arm, &mut |_, d| branches |= d.op.is_contraction());
                }
            }
        });
        if branches {
            return None;
        }
        let (bytes, flops) = contractions(func, self.parts.body, &outer, costs);
        let gain = gain(bytes, flops, options, costs);
        let width = match options.always {
            true => options.width,
            false if gain > 0.0 => options.width.max(costs.level / gain),
            false => return None,
        };
        Some(Worth {
            width,
            share: if options.always { 1e6 } else { gain / 10.0 },
            level: costs.level,
        })
    }
}

/// The bytes of weights from outside that contractions in a loop's body read, and their operations.
pub fn contractions(
    func: &Function,
    body: Region,
    outer: &HashSet<Value>,
    costs: &CostModel,
) -> (f64, f64) {
    let (mut bytes, mut flops) = (0.0, 0.0);
    func.for_each_inst_in(body, &mut |_, data| {
        if !data.op.is_contraction() {
            return;
        }
        let weights = data.args.iter().filter(|v| outer.contains(v));
        let weights: f64 = weights.map(|v| costs.bytes(func.ty(*v))).sum();
        if weights > 0.0 {
            bytes += weights;
            flops += costs.contraction(func, data);
        }
    });
    (bytes, flops)
}

/// The sizes of an array, if they are stated.
fn dims(func: &Function, value: Value) -> Option<&[Dim]> {
    let shape = func.ty(value).as_tensor()?.shape.as_deref()?;
    let stated = shape.iter().all(|d| d.as_expr().is_some());
    stated.then_some(shape)
}
