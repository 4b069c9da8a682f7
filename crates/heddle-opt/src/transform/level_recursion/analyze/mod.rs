//! Recognises recursions that can be run level by level, and their calls.
//!
//! Members of a recursion are functions that call each other. Each has one integer parameter, the
//! *node* of a call; all other parameters are passed on unchanged from the outermost call. A node's
//! calls must depend on the node and the unchanged parameters only, not on results of calls.

mod kinds;
mod members;
mod origins;
mod path;

use heddle_ir::{Dim, Entity, FuncId, Function, Inst, Module, Op, Value, ValueDef};

pub use self::kinds::Kind;
pub use self::members::Member;
pub use self::origins::Origin;
pub use self::path::{Facts, Needed, Path, Read, Step, for_each_inst, is_costly};

use self::members::{member, unchanged};
use crate::callgraph;

/// Functions that call each other, seen from one that others call.
pub struct Recursion<'m> {
    /// The functions; the first is the one that is called.
    pub members: Vec<Member<'m>>,
    /// The paths through the functions.
    pub kinds: Vec<Kind>,
    /// Number of nodes: the size of an axis that nodes index.
    pub extent: Dim,
    /// Are nodes only used as indices into axes of this size, so that `-1` is the last node?
    pub wraps: bool,
}

impl<'m> Recursion<'m> {
    /// The recursion that calls of `first` enter, if it can be run level by level.
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

    /// The member that a call enters.
    pub fn callee(&self, member: usize, inst: Inst) -> Option<usize> {
        let Op::Call(id) = self.members[member].func.insts[inst].op else {
            return None;
        };
        self.members.iter().position(|m| m.id == id)
    }

    /// Maximum number of calls of a kind.
    pub fn most_calls(&self) -> usize {
        self.kinds.iter().map(|k| k.calls.len()).max().unwrap_or(0)
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

/// Does a size consist of sums and products of constants and names?
fn is_computable(dim: &Dim) -> bool {
    let plain = |a: &heddle_ir::dim::Atom| matches!(a, heddle_ir::dim::Atom::Sym(_));
    let terms = dim
        .as_expr()
        .map(|e| e.terms().all(|(p, _)| p.iter().all(plain)));
    terms.unwrap_or(false)
}

/// The instruction that a value is a result of, with the result's number.
pub fn definition(func: &Function, value: Value) -> Option<(Inst, usize)> {
    match func.values[value].def {
        ValueDef::Result(inst, i) => Some((inst, i as usize)),
        ValueDef::Param(..) => None,
    }
}

/// Recursive functions with callers outside their recursion.
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
