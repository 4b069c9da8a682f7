//! Origins of values: can the calls be enumerated before any is evaluated?

use std::collections::{HashMap, HashSet};

use heddle_ir::{FuncId, Function, Op, Region, Value};

/// The inputs that a value depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Unchanged parameters and constants.
    Fixed,
    /// The node, too.
    Node,
    /// Results of calls, too.
    Calls,
}

/// The origin of each value; `None` if calls depend on results of calls, or loops hold calls.
pub(super) fn origins(
    func: &Function,
    fixed: &[Option<usize>],
    ids: &[FuncId],
) -> Option<HashMap<Value, Origin>> {
    let mut origins = HashMap::new();
    for (i, &param) in func.regions[func.body].params.iter().enumerate() {
        let fixed = fixed[i].is_some();
        origins.insert(param, if fixed { Origin::Fixed } else { Origin::Node });
    }
    trace(func, func.body, ids, &mut origins)?;
    Some(origins)
}

fn trace(
    func: &Function,
    region: Region,
    ids: &[FuncId],
    origins: &mut HashMap<Value, Origin>,
) -> Option<()> {
    for &inst in &func.regions[region].insts {
        let data = &func.insts[inst];
        let of = |values: &[Value], origins: &HashMap<Value, Origin>| {
            values
                .iter()
                .map(|v| origins[v])
                .max()
                .unwrap_or(Origin::Fixed)
        };
        let args = of(&data.args, origins);
        match &data.op {
            Op::Call(id) if ids.contains(id) => {
                origins.extend(data.results.iter().map(|v| (*v, Origin::Calls)));
            }
            // A function that is no member should have been inlined.
            Op::Call(_) => return None,
            Op::If => {
                for &inner in &data.regions {
                    trace(func, inner, ids, origins)?;
                }
                for (i, &value) in data.results.iter().enumerate() {
                    let yields = data
                        .regions
                        .iter()
                        .map(|r| origins[&func.regions[*r].yields[i]]);
                    let from = yields.max().map_or(args, |y| y.max(args));
                    origins.insert(value, from);
                }
            }
            Op::Loop { .. } => {
                let body = data.regions[0];
                let from = captured(func, body)
                    .iter()
                    .filter_map(|v| origins.get(v))
                    .max();
                let from = from.copied().unwrap_or(Origin::Fixed).max(args);
                origins.extend(func.regions[body].params.iter().map(|p| (*p, from)));
                trace(func, body, ids, origins)?;
                if has_calls(func, body) {
                    return None;
                }
                origins.extend(data.results.iter().map(|v| (*v, from)));
            }
            _ => origins.extend(data.results.iter().map(|v| (*v, args))),
        }
    }
    Some(())
}

/// All values that a region uses.
fn captured(func: &Function, region: Region) -> HashSet<Value> {
    let mut used: HashSet<Value> = func.regions[region].yields.iter().copied().collect();
    func.for_each_inst_in(region, &mut |_, inst| {
        used.extend(&inst.args);
        for &inner in &inst.regions {
            used.extend(&func.regions[inner].yields);
        }
    });
    used
}

fn has_calls(func: &Function, region: Region) -> bool {
    let mut found = false;
    func.for_each_inst_in(region, &mut |_, inst| {
        found |= matches!(inst.op, Op::Call(_))
    });
    found
}
