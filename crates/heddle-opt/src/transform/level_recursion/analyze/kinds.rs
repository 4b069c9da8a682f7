//! The paths through the functions of a recursion.

use heddle_ir::{FuncId, Function, Inst, Op, Region, region_cannot_fail};

use super::{Origin, Recursion};

/// Maximum number of paths through a recursion's functions: each becomes code of its own.
const MAX_KINDS: usize = 16;

/// A path through a function.
pub struct Kind {
    /// The member's index.
    pub member: usize,
    /// The branches that are taken.
    pub decisions: Vec<(Inst, bool)>,
    /// The calls on the path, in order.
    pub calls: Vec<Inst>,
    /// Does the path contain a contraction?
    pub heavy: bool,
}

impl Recursion<'_> {
    /// Finds the paths; `None` if there are too many, or if later calls or their nodes depend on
    /// results of calls.
    pub(super) fn find_kinds(&mut self, ids: &[FuncId]) -> Option<()> {
        for (m, member) in self.members.iter().enumerate() {
            let (func, origins) = (member.func, &member.origins);
            let split = |inst: Inst| {
                let data = &func.insts[inst];
                matches!(data.op, Op::If)
                    && origins[&data.args[0]] <= Origin::Node
                    && data
                        .regions
                        .iter()
                        .any(|r| is_notable(func, *r) || !region_cannot_fail(func, *r))
            };
            // Calls are on this path only, and their nodes depend on the node only.
            for &inst in member.around.keys() {
                let Op::Call(id) = func.insts[inst].op else {
                    continue;
                };
                let callee = ids.iter().position(|i| *i == id)?;
                let node = func.insts[inst].args[self.members[callee].node];
                let decided = member.around[&inst].iter().all(|(i, _)| split(*i));
                if !decided || origins[&node] > Origin::Node {
                    return None;
                }
            }
            for kind in ways(func, func.body, &split)? {
                self.kinds.push(Kind { member: m, ..kind });
            }
        }
        (self.kinds.len() <= MAX_KINDS).then_some(())
    }
}

/// All paths through a region.
fn ways(func: &Function, region: Region, split: &dyn Fn(Inst) -> bool) -> Option<Vec<Kind>> {
    let start = Kind {
        member: 0,
        decisions: vec![],
        calls: vec![],
        heavy: false,
    };
    let mut all = vec![start];
    for &inst in &func.regions[region].insts {
        let data = &func.insts[inst];
        match &data.op {
            Op::Call(_) => all.iter_mut().for_each(|k| k.calls.push(inst)),
            Op::If if split(inst) => {
                let mut next = vec![];
                for (arm, &inner) in data.regions.iter().enumerate() {
                    let inner = ways(func, inner, split)?;
                    for (k, way) in all.iter().flat_map(|k| inner.iter().map(move |w| (k, w))) {
                        let taken = vec![(inst, arm == 0)];
                        next.push(Kind {
                            member: 0,
                            decisions: [&k.decisions, &taken, &way.decisions]
                                .map(Vec::as_slice)
                                .concat(),
                            calls: [&k.calls[..], &way.calls].concat(),
                            heavy: k.heavy || way.heavy,
                        });
                    }
                }
                all = next;
            }
            Op::Dot | Op::Conv { .. } => all.iter_mut().for_each(|k| k.heavy = true),
            _ => {
                let heavy = data.regions.iter().any(|r| is_notable(func, *r));
                all.iter_mut().for_each(|k| k.heavy |= heavy);
            }
        }
        if all.len() > MAX_KINDS {
            return None;
        }
    }
    Some(all)
}

/// Does a region hold calls or contractions, and so deserve code of its own?
fn is_notable(func: &Function, region: Region) -> bool {
    let mut found = false;
    func.for_each_inst_in(region, &mut |_, inst| {
        found |= matches!(inst.op, Op::Call(_) | Op::Dot | Op::Conv { .. });
    });
    found
}
