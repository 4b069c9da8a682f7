//! Which recursions can be run level by level, and what their calls are.
//!
//! Members of a recursion are functions that call each other. Each has one parameter, an integer, that says which *node* a
//! call is about; all other parameters are handed on unchanged from the call that started it. What a node's calls are
//! must follow from the node and the unchanged parameters alone, not from results of calls.

use std::collections::{HashMap, HashSet};

use heddle_ir::{Dim, Entity, FuncId, Function, Inst, Module, Op, Region, Type, Value, ValueDef};

use crate::batch::cannot_fail;
use crate::callgraph;
use crate::inline_calls::bind;

/// Combinations of branches that a recursion's functions may take, at most: each becomes code of its own.
const MAX_KINDS: usize = 16;

/// Functions that call each other, seen from one that others call.
pub struct Recursion<'m> {
    /// The functions; the first is the one that is called.
    pub members: Vec<Member<'m>>,
    /// The ways through the functions.
    pub kinds: Vec<Kind>,
    /// How many nodes there are: the size of an axis that nodes index.
    pub extent: Dim,
    /// Whether a node is only used as an index into axes of this size, so that `-1` is the same node as the last.
    pub wraps: bool,
}

/// A function of a recursion.
pub struct Member<'m> {
    /// The function.
    pub id: FuncId,
    /// Its text.
    pub func: &'m Function,
    /// The first member's parameter that each parameter always is; none for the node.
    pub fixed: Vec<Option<usize>>,
    /// Which parameter is the node.
    pub node: usize,
    /// What its named sizes are in the first member.
    pub names: HashMap<String, Option<Dim>>,
    /// The branches around each instruction, outermost first.
    pub around: HashMap<Inst, Vec<(Inst, bool)>>,
    /// What each value follows from.
    pub origins: HashMap<Value, Origin>,
}

/// A way through a function.
pub struct Kind {
    /// Which member.
    pub member: usize,
    /// The branches that are taken.
    pub decisions: Vec<(Inst, bool)>,
    /// The calls on the way, in order.
    pub calls: Vec<Inst>,
    /// Whether there is a contraction on the way.
    pub heavy: bool,
}

/// What a value follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Unchanged parameters and constants.
    Fixed,
    /// The node, too.
    Node,
    /// Results of calls, too.
    Calls,
}

impl Member<'_> {
    /// How a type of this function reads in the first member.
    pub fn ty(&self, ty: &Type) -> Type {
        let lookup = |name: &str| self.names.get(name).cloned().flatten();
        ty.map_dims(&mut |d| d.substitute(&lookup))
    }
}

impl<'m> Recursion<'m> {
    /// The recursion that calls of `first` begin, if it is of the kind that can be run level by level.
    pub fn of(module: &'m Module, first: FuncId) -> Option<Self> {
        let all = callgraph::components(module);
        let component = all.into_iter().find(|c| c.contains(&first))?;
        if !callgraph::is_recursive(module, &component) {
            return None;
        }
        let rest = component.into_iter().filter(|f| *f != first);
        let ids: Vec<FuncId> = std::iter::once(first).chain(rest).collect();
        let fixed = unchanged(module, &ids)?;
        let mut members = vec![];
        for (&id, fixed) in ids.iter().zip(fixed) {
            members.push(member(module, &ids, id, fixed)?);
        }
        let mut recursion = Recursion {
            members,
            kinds: vec![],
            extent: Dim::UNKNOWN,
            wraps: false,
        };
        recursion.find_kinds(&ids)?;
        recursion.find_extent(&ids)?;
        Some(recursion)
    }

    /// Which member a call is of.
    pub fn callee(&self, member: usize, inst: Inst) -> Option<usize> {
        let Op::Call(id) = self.members[member].func.insts[inst].op else {
            return None;
        };
        self.members.iter().position(|m| m.id == id)
    }

    /// The most calls of a kind.
    pub fn most_calls(&self) -> usize {
        self.kinds.iter().map(|k| k.calls.len()).max().unwrap_or(0)
    }

    fn find_kinds(&mut self, ids: &[FuncId]) -> Option<()> {
        for (m, member) in self.members.iter().enumerate() {
            let (func, origins) = (member.func, &member.origins);
            let split = |inst: Inst| {
                let data = &func.insts[inst];
                matches!(data.op, Op::If)
                    && origins[&data.args[0]] <= Origin::Node
                    && data
                        .regions
                        .iter()
                        .any(|r| is_notable(func, *r) || !cannot_fail(func, *r))
            };
            // Calls stand only where branches of this kind lead, and pass nodes that follow from the node.
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

    /// An axis that a node indexes.
    fn find_extent(&mut self, ids: &[FuncId]) -> Option<()> {
        let mut extents = vec![];
        let mut plain = true;
        for member in &self.members {
            let func = member.func;
            let node = func.regions[func.body].params[member.node];
            let mut other = func.regions.iter().any(|(_, r)| r.yields.contains(&node));
            func.for_each_inst(&mut |_, inst| {
                for (i, _) in inst.args.iter().enumerate().filter(|(_, v)| **v == node) {
                    match &inst.op {
                        Op::Gather { axis } if i == 1 => {
                            let ty = member.ty(func.ty(inst.args[0]));
                            let shape = ty.as_tensor().and_then(|t| t.shape.clone());
                            let size = shape.and_then(|s| s.get(*axis).cloned());
                            extents.push(size.unwrap_or(Dim::UNKNOWN));
                        }
                        Op::Call(id) if ids.contains(id) => {}
                        _ => other = true,
                    }
                }
            });
            plain &= !other;
        }
        self.extent = extents.iter().find(|d| is_computable(d))?.clone();
        self.wraps = plain && extents.iter().all(|d| d.equals(&self.extent));
        Some(())
    }
}

/// Whether a size is made of constants and names by sums and products.
pub fn is_computable(dim: &Dim) -> bool {
    let plain = |a: &heddle_ir::dim::Atom| matches!(a, heddle_ir::dim::Atom::Sym(_));
    let terms = dim
        .as_expr()
        .map(|e| e.terms().all(|(p, _)| p.iter().all(plain)));
    terms.unwrap_or(false)
}

/// For each function and parameter the first function's parameter that it always is; `None` if it is anything else.
fn unchanged(module: &Module, ids: &[FuncId]) -> Option<Vec<Vec<Option<usize>>>> {
    // What is known so far: nothing, one parameter, or that it changes.
    #[derive(Clone, Copy, PartialEq)]
    enum Is {
        Open,
        Always(usize),
        Changes,
    }
    let params = |id: FuncId| &module.functions[id].regions[module.functions[id].body].params;
    let mut state: Vec<Vec<Is>> = ids
        .iter()
        .map(|&id| vec![Is::Open; params(id).len()])
        .collect();
    state[0] = (0..params(ids[0]).len()).map(Is::Always).collect();
    let mut changed = true;
    while changed {
        changed = false;
        for (k, &id) in ids.iter().enumerate() {
            let (own, now) = (params(id), state[k].clone());
            module.functions[id].for_each_inst(&mut |_, inst| {
                let Op::Call(callee) = inst.op else { return };
                let Some(to) = ids.iter().position(|i| *i == callee) else {
                    return;
                };
                for (slot, arg) in state[to].iter_mut().zip(&inst.args) {
                    let passed = match own.iter().position(|p| p == arg) {
                        Some(i) => now[i],
                        None => Is::Changes,
                    };
                    let next = match (*slot, passed) {
                        (a, Is::Open) => a,
                        (Is::Open, b) => b,
                        (a, b) if a == b => a,
                        _ => Is::Changes,
                    };
                    changed |= next != *slot;
                    *slot = next;
                }
            });
        }
    }
    let known = |is: &Is| match is {
        Is::Always(i) => Some(*i),
        _ => None,
    };
    Some(
        state
            .iter()
            .map(|s| s.iter().map(known).collect())
            .collect(),
    )
}

fn member<'m>(
    module: &'m Module,
    ids: &[FuncId],
    id: FuncId,
    fixed: Vec<Option<usize>>,
) -> Option<Member<'m>> {
    let func = &module.functions[id];
    let first = &module.functions[ids[0]];
    // The node is what changes; a function that is always called with the same one is no member of a walk.
    let mut changing = fixed.iter().enumerate().filter(|(_, f)| f.is_none());
    let (node, _) = changing.next()?;
    let ty = func.sig.params[node].1.as_tensor()?;
    if changing.next().is_some()
        || ty.rank() != Some(0)
        || !matches!(ty.dtype, heddle_ir::DType::I64 | heddle_ir::DType::I32)
    {
        return None;
    }
    let mut names = HashMap::new();
    for ((_, ty), fixed) in func.sig.params.iter().zip(&fixed) {
        if let Some(k) = fixed {
            bind(ty, &first.sig.params[*k].1, &mut names);
        }
    }
    let mut around = HashMap::new();
    surround(func, func.body, &mut vec![], &mut around);
    let sized = |(_, ty): &(String, Type)| {
        let lookup = |name: &str| names.get(name).cloned().flatten();
        let ty = ty.map_dims(&mut |d| d.substitute(&lookup));
        let shape = ty.as_tensor().and_then(|t| t.shape.clone());
        let plain = ty
            .as_tensor()
            .is_some_and(|t| t.dtype.is_arith() || t.dtype == heddle_ir::DType::Bool);
        plain && shape.is_some_and(|s| s.iter().all(is_computable))
    };
    func.sig.results.iter().all(sized).then_some(())?;
    let origins = origins(func, &fixed, ids)?;
    Some(Member {
        id,
        func,
        fixed,
        node,
        names,
        around,
        origins,
    })
}

fn surround(
    func: &Function,
    region: Region,
    path: &mut Vec<(Inst, bool)>,
    around: &mut HashMap<Inst, Vec<(Inst, bool)>>,
) {
    for &inst in &func.regions[region].insts {
        around.insert(inst, path.clone());
        for (k, &inner) in func.insts[inst].regions.iter().enumerate() {
            path.push((inst, k == 0));
            surround(func, inner, path, around);
            path.pop();
        }
    }
}

/// What each value follows from; `None` if results of calls decide about calls, or loops hold calls.
fn origins(
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
            // A function that is no member should have been inlined; a draw is another one each time.
            Op::Call(_) | Op::Random { .. } => return None,
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

/// Whether a region holds calls or contractions: worth code of its own.
fn is_notable(func: &Function, region: Region) -> bool {
    let mut found = false;
    func.for_each_inst_in(region, &mut |_, inst| {
        found |= matches!(inst.op, Op::Call(_) | Op::Dot | Op::Conv { .. });
    });
    found
}

/// All ways through a region.
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

/// The instruction that a value is a result of, with the result's number.
pub fn definition(func: &Function, value: Value) -> Option<(Inst, usize)> {
    match func.values[value].def {
        ValueDef::Result(inst, i) => Some((inst, i as usize)),
        ValueDef::Param(..) => None,
    }
}

/// Which functions recurse, and are called by functions outside their recursion: where a run level by level may begin.
pub fn beginnings(module: &Module) -> Vec<FuncId> {
    let components = callgraph::components(module);
    let mut of = vec![0; module.functions.len()];
    for (k, component) in components.iter().enumerate() {
        component.iter().for_each(|f| of[f.index()] = k);
    }
    let mut found = vec![];
    for (caller, f) in module.functions.iter() {
        f.for_each_inst(&mut |_, inst| {
            if let Op::Call(callee) = inst.op
                && of[callee.index()] != of[caller.index()]
                && callgraph::is_recursive(module, &components[of[callee.index()]])
                && !found.contains(&callee)
            {
                found.push(callee);
            }
        });
    }
    found
}
