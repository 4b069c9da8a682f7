//! Recognises loops whose iterations depend on each other only through rows of arrays.

use std::collections::HashSet;

use heddle_ir::{Dim, Function, Inst, LoopView, Op, Region, Value};

use crate::uses::Seen;

/// A read of rows of a carried array.
pub struct Read {
    /// The index or the vector of indices.
    pub index: Value,
    /// The number of the array.
    pub array: usize,
}

/// A loop in which iteration `i` writes row `i` of each array that it carries, and which reads rows
/// whose indices are known ahead.
pub struct RowReads {
    /// The reads.
    pub rows: Vec<Read>,
    /// The body's instructions that give the indices, in order.
    pub ahead: Vec<Inst>,
    /// The values from outside of the body that these use.
    pub captured: Vec<Value>,
}

impl RowReads {
    /// Analyses an instruction, if it is such a loop.
    pub fn of(func: &Function, inst: Inst) -> Option<Self> {
        let view = LoopView::of(func, inst)?;
        let is_plain = view.trip.is_some() && view.cond.is_none() && view.stacked.is_empty();
        if !is_plain || view.params.is_empty() {
            return None;
        }
        let own = &func.regions[view.body].insts;
        let mut updates = vec![];
        for (&param, &next) in view.params.iter().zip(&view.next) {
            let update = func.def_inst(next).filter(|inst| own.contains(inst))?;
            if !writes_own_row(func, update, param, view.iteration) {
                return None;
            }
            updates.push(update);
        }
        let rows = reads(func, &view, &updates)?;
        let (ahead, captured) = ahead(func, &view, &rows)?;
        Some(RowReads {
            rows,
            ahead,
            captured,
        })
    }
}

/// Does an instruction write the iteration's row of an array, and nothing else?
fn writes_own_row(func: &Function, update: Inst, array: Value, iteration: Value) -> bool {
    let data = &func.insts[update];
    if !matches!(data.op, Op::UpdateSlice) || data.args[0] != array {
        return false;
    }
    let (Some(all), Some(rows)) = (dims(func, array), dims(func, data.args[1])) else {
        return false;
    };
    let has_one = rows.first().is_some_and(|d| d.is(1)) && rows.len() == all.len();
    let are_equal = |(a, b): (&Dim, &Dim)| a.as_const().is_some() && a.equals(b);
    has_one
        && rows[1..].iter().zip(&all[1..]).all(are_equal)
        && begins_at(func, data.args[2], iteration, all.len())
}

/// Are these the starts of a row with this number?
fn begins_at(func: &Function, starts: Value, row: Value, rank: usize) -> bool {
    let Some(inst) = func.def_inst(starts) else {
        return false;
    };
    let data = &func.insts[inst];
    let is_zero = |v: &Value| {
        let all = func.constant(*v).and_then(|t| t.to_i64s());
        all.is_some_and(|all| all.iter().all(|n| *n == 0))
    };
    match (&data.op, &data.args[..]) {
        (Op::Unsqueeze { .. } | Op::Reshape, [of, ..]) => *of == row && rank == 1,
        (Op::Concat { .. }, [first, rest @ ..]) => {
            begins_at(func, *first, row, 1) && rest.iter().all(is_zero)
        }
        _ => false,
    }
}

/// The reads of rows; none if arrays are read in other ways too, or in branches and inner loops.
fn reads(func: &Function, view: &LoopView, updates: &[Inst]) -> Option<Vec<Read>> {
    let own = &func.regions[view.body].insts;
    let (mut rows, mut is_fine) = (vec![], true);
    func.for_each_inst_in(view.body, &mut |inst, data| {
        for (k, arg) in data.args.iter().enumerate() {
            is_fine &= !view.next.contains(arg);
            let Some(array) = view.params.iter().position(|p| p == arg) else {
                continue;
            };
            match data.op {
                Op::UpdateSlice if k == 0 && updates.contains(&inst) => {}
                Op::Gather { axis: 0 } if k == 0 && own.contains(&inst) => rows.push(Read {
                    index: data.args[1],
                    array,
                }),
                _ => is_fine = false,
            }
        }
        for &region in &data.regions {
            let yields = func.regions[region].yields.iter();
            is_fine &= !yields
                .into_iter()
                .any(|v| view.params.contains(v) || view.next.contains(v));
        }
    });
    let is_row = |read: &Read| dims(func, read.index).is_some_and(|d| d.len() <= 1);
    let fits = is_fine && !rows.is_empty() && rows.iter().all(is_row);
    fits.then_some(rows)
}

/// The instructions that give the indices, and what they use from outside; none if an index needs a
/// row, or is not looked up: iterations of recurrences form no levels.
fn ahead(func: &Function, view: &LoopView, rows: &[Read]) -> Option<(Vec<Inst>, Vec<Value>)> {
    let own = &func.regions[view.body].insts;
    let mut needed: HashSet<Inst> = HashSet::new();
    let mut captured = vec![];
    for read in rows {
        let (mut open, mut seen) = (vec![read.index], HashSet::new());
        let mut is_looked_up = false;
        while let Some(value) = open.pop() {
            if !seen.insert(value) || value == view.iteration {
                continue;
            }
            if view.params.contains(&value) {
                return None;
            }
            let Some(&inst) = func.def_inst(value).as_ref().filter(|i| own.contains(i)) else {
                captured.push(value);
                continue;
            };
            let data = &func.insts[inst];
            if matches!(data.op, Op::Call(_) | Op::Loop { .. }) {
                return None;
            }
            is_looked_up |= looks_up(func, inst);
            needed.insert(inst);
            let mut all = Seen::default();
            all.visit(func, inst);
            open.extend(all.free());
        }
        if !is_looked_up {
            return None;
        }
    }
    captured.sort();
    captured.dedup();
    let insts = own.iter().copied().filter(|i| needed.contains(i));
    Some((insts.collect(), captured))
}

/// Does an instruction read elements of an array by place?
fn looks_up(func: &Function, inst: Inst) -> bool {
    let data = &func.insts[inst];
    let is_read = |op: &Op| {
        matches!(
            op,
            Op::Gather { .. } | Op::GatherNd { .. } | Op::GatherElements { .. } | Op::Slice { .. }
        )
    };
    let within = |region: &Region| {
        let mut found = false;
        func.for_each_inst_in(*region, &mut |_, data| found |= is_read(&data.op));
        found
    };
    is_read(&data.op) || data.regions.iter().any(within)
}

/// The sizes of an array.
fn dims(func: &Function, value: Value) -> Option<&[Dim]> {
    func.ty(value).as_tensor()?.shape.as_deref()
}
