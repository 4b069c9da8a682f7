//! Tensors in sequences and optionals.
//!
//! Sequences and optionals that become one another (carried, yielded, passed, put into each other)
//! form a class: what is put into one of them may be in all.

use std::collections::HashMap;

use heddle_ir::{Dim, FuncId, Function, Inst, LoopView, Module, Op, TensorType, Type, Value};

/// Types of the tensors in each sequence and optional of a module.
#[derive(Default)]
pub struct Contents {
    places: HashMap<(FuncId, Value), usize>,
    classes: Vec<Class>,
}

#[derive(Clone)]
struct Class {
    /// Itself at a set's root.
    parent: usize,
    found: Found,
    /// All members are in one function.
    local: Option<FuncId>,
}

/// Tensors put into the members of a class.
#[derive(Clone)]
enum Found {
    None,
    /// They have this type in common.
    Some(TensorType),
    /// They have several element types.
    Several,
}

impl Found {
    fn join(&self, other: &Found) -> Found {
        match (self, other) {
            (Found::None, found) | (found, Found::None) => found.clone(),
            (Found::Some(a), Found::Some(b)) => {
                match Type::Tensor(a.clone()).join(&Type::Tensor(b.clone())) {
                    Some(Type::Tensor(joined)) => Found::Some(joined),
                    _ => Found::Several,
                }
            }
            _ => Found::Several,
        }
    }
}

impl Contents {
    /// By what is put into them, and by the stated types of function parameters.
    pub fn of(module: &Module) -> Contents {
        let mut contents = Contents::default();
        for (id, func) in module.functions.iter() {
            for value in containers(func) {
                contents.places.insert((id, value), contents.classes.len());
                contents.classes.push(Class {
                    parent: contents.classes.len(),
                    found: Found::None,
                    local: Some(id),
                });
            }
        }
        if contents.places.is_empty() {
            return contents;
        }
        for (id, func) in module.functions.iter() {
            for &param in &func.regions[func.body].params {
                contents.holds((id, param), func.ty(param));
            }
            func.for_each_inst(&mut |inst, _| contents.inst(module, id, inst));
        }
        contents
    }

    /// The class of a sequence or optional; `None` for a tensor.
    pub fn class(&self, id: FuncId, value: Value) -> Option<usize> {
        self.places.get(&(id, value)).map(|&class| self.root(class))
    }

    /// The type of all tensors in the members of a class; `None` if there is none.
    pub fn tensor(&self, class: usize) -> Option<TensorType> {
        let Found::Some(mut tensor) = self.classes[class].found.clone() else {
            return None;
        };
        if self.classes[class].local.is_none() {
            // Names of sizes belong to a function.
            for dim in tensor.shape.iter_mut().flatten() {
                if dim.as_expr().is_some() && dim.as_const().is_none() {
                    *dim = Dim::UNKNOWN;
                }
            }
        }
        Some(tensor)
    }

    /// Are all members of a class in one function?
    pub fn is_local(&self, class: usize) -> bool {
        self.classes[class].local.is_some()
    }

    /// All sequences and optionals, with their classes.
    pub fn members(&self) -> impl Iterator<Item = (FuncId, Value, usize)> {
        let places = self.places.iter();
        places.map(|(&(id, value), &class)| (id, value, self.root(class)))
    }

    fn inst(&mut self, module: &Module, id: FuncId, inst: Inst) {
        let func = &module.functions[id];
        let data = &func.insts[inst];
        let here = |value: Value| (id, value);
        match &data.op {
            Op::SeqNew { .. } | Op::OptSome => {
                for &arg in &data.args {
                    self.put(func, here(data.results[0]), here(arg));
                }
            }
            Op::SeqInsert => {
                self.join(here(data.args[0]), here(data.results[0]));
                self.put(func, here(data.results[0]), here(data.args[1]));
            }
            Op::SeqErase | Op::SeqAt | Op::OptGet => {
                self.join(here(data.args[0]), here(data.results[0]));
            }
            Op::OptNone { .. } => {}
            Op::If => {
                for arm in &data.regions {
                    self.link(id, &data.results, id, &func.regions[*arm].yields);
                }
            }
            Op::Loop { .. } => {
                if let Some(l) = LoopView::of(func, inst) {
                    self.link(id, &l.params, id, &l.inits);
                    self.link(id, &l.params, id, &l.next);
                    self.link(id, &l.params, id, &l.last);
                }
            }
            Op::Call(callee) => {
                let body = &module.functions[*callee];
                let region = &body.regions[body.body];
                self.link(id, &data.args, *callee, &region.params);
                self.link(id, &data.results, *callee, &region.yields);
            }
            _ => {
                for &result in &data.results {
                    self.holds(here(result), func.ty(result));
                }
            }
        }
    }

    fn link(&mut self, a: FuncId, left: &[Value], b: FuncId, right: &[Value]) {
        for (&left, &right) in left.iter().zip(right) {
            self.join((a, left), (b, right));
        }
    }

    /// A tensor, or the contents of another container, go into a container.
    fn put(&mut self, func: &Function, container: (FuncId, Value), x: (FuncId, Value)) {
        self.join(container, x);
        if func.ty(x.1).as_tensor().is_some() {
            self.holds(container, func.ty(x.1));
        }
    }

    /// A container holds the tensors of a type.
    fn holds(&mut self, container: (FuncId, Value), ty: &Type) {
        if let Some(class) = self.class(container.0, container.1) {
            let found = Found::Some(innermost(ty).clone());
            self.classes[class].found = self.classes[class].found.join(&found);
        }
    }

    fn root(&self, mut class: usize) -> usize {
        while self.classes[class].parent != class {
            class = self.classes[class].parent;
        }
        class
    }

    /// Values that are tensors have no class.
    fn join(&mut self, a: (FuncId, Value), b: (FuncId, Value)) {
        let (Some(left), Some(right)) = (self.class(a.0, a.1), self.class(b.0, b.1)) else {
            return;
        };
        if left != right {
            let other = self.classes[right].clone();
            let class = &mut self.classes[left];
            class.found = class.found.join(&other.found);
            class.local = class.local.filter(|_| class.local == other.local);
            self.classes[right].parent = left;
        }
    }
}

/// The tensor type inside all containers.
pub fn innermost(ty: &Type) -> &TensorType {
    match ty {
        Type::Tensor(tensor) => tensor,
        Type::Seq(inner) | Type::Opt(inner) => innermost(inner),
    }
}

/// The type with another tensor type inside all containers.
pub fn with_innermost(ty: &Type, tensor: TensorType) -> Type {
    match ty {
        Type::Tensor(_) => Type::Tensor(tensor),
        Type::Seq(inner) => Type::Seq(Box::new(with_innermost(inner, tensor))),
        Type::Opt(inner) => Type::Opt(Box::new(with_innermost(inner, tensor))),
    }
}

/// Sequences and optionals among the parameters and results in a function.
fn containers(func: &Function) -> Vec<Value> {
    let mut all = func.regions[func.body].params.clone();
    func.for_each_inst(&mut |_, data| {
        all.extend(&data.results);
        let regions = data.regions.iter();
        regions.for_each(|&r| all.extend(&func.regions[r].params));
    });
    all.retain(|&v| func.ty(v).as_tensor().is_none());
    all
}
