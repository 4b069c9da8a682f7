//! Names and what they stand for while a function is imported.

use std::collections::HashMap;
use std::rc::Rc;

use heddle_ir::{FuncBuilder, Type, Value};

use super::Opsets;
use super::recursion::Enclosing;
use crate::proto::{AttributeProto, TypeProto, ValueInfoProto};

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
pub enum Binding {
    /// A value.
    Value(Value),
    /// An optional input that the caller left out.
    Absent,
    /// A value that could not be made, because of what is not supported, or is not known yet, because of
    /// recursion. What uses it is passed over.
    Poison,
}

impl From<Option<Value>> for Binding {
    fn from(value: Option<Value>) -> Self {
        value.map_or(Binding::Poison, Binding::Value)
    }
}

/// An attribute and, if it came from a function's caller, the scope in which its graphs live.
#[derive(Clone, Copy)]
pub struct Attr<'m> {
    pub name: &'m str,
    pub proto: &'m AttributeProto,
    pub home: Option<usize>,
}

/// What holds for all of a graph or function body, its subgraphs included.
#[derive(Clone, Default)]
pub struct Env<'m> {
    /// Versions of operator sets.
    pub opsets: Opsets<'m>,
    /// The attributes that the function was called with.
    pub attrs: HashMap<&'m str, Attr<'m>>,
    /// The calls that led here, as a prefix of node names.
    pub calls: String,
    /// `Recursion` nodes around, innermost last.
    pub recursions: Vec<Enclosing<'m>>,
    /// How many calls are imported in place, one in the other.
    pub depth: usize,
}

/// The names of one graph.
pub struct Scope<'m> {
    names: HashMap<&'m str, Binding>,
    pub parent: Option<usize>,
    pub env: Rc<Env<'m>>,
    /// Declared types.
    declared: HashMap<&'m str, &'m TypeProto>,
}

/// A function that is being built, with its scopes.
pub struct Frame<'m> {
    pub b: FuncBuilder,
    pub scopes: Vec<Scope<'m>>,
    /// Regions that are open.
    pub regions: usize,
    /// The nodes that are being imported, outermost first, by address.
    pub path: Vec<usize>,
    /// The environment of a graph without a parent.
    env: Rc<Env<'m>>,
}

impl<'m> Frame<'m> {
    /// A frame for a function.
    pub fn new(b: FuncBuilder, env: Env<'m>) -> Self {
        Self {
            b,
            scopes: vec![],
            regions: 0,
            path: vec![],
            env: Rc::new(env),
        }
    }

    /// Opens a scope below another; one without a parent starts from the function's environment.
    pub fn open(&mut self, parent: Option<usize>) -> usize {
        let env = match parent {
            Some(parent) => self.scopes[parent].env.clone(),
            None => self.env.clone(),
        };
        self.open_with(parent, env)
    }

    /// Opens a scope with an environment of its own.
    pub fn open_with(&mut self, parent: Option<usize>, env: Rc<Env<'m>>) -> usize {
        self.scopes.push(Scope {
            names: HashMap::new(),
            parent,
            env,
            declared: HashMap::new(),
        });
        self.scopes.len() - 1
    }

    /// Remembers declared types.
    pub fn declare(&mut self, scope: usize, infos: &'m [ValueInfoProto]) {
        let typed = infos
            .iter()
            .filter_map(|i| Some((i.name(), i.r#type.as_ref()?)));
        self.scopes[scope].declared.extend(typed);
    }

    /// Gives a name its meaning; `false` when the scope has it already.
    #[must_use]
    pub fn define(&mut self, scope: usize, name: &'m str, binding: Binding) -> bool {
        if let Binding::Value(v) = binding
            && self.b.func().values[v].name.is_none()
        {
            self.b.set_name(v, name);
        }
        self.scopes[scope].names.insert(name, binding).is_none()
    }

    /// What a name stands for here or in a scope around.
    pub fn lookup(&self, scope: usize, name: &str) -> Option<Binding> {
        let mut at = Some(scope);
        while let Some(i) = at {
            if let Some(binding) = self.scopes[i].names.get(name) {
                return Some(*binding);
            }
            at = self.scopes[i].parent;
        }
        None
    }

    /// The declared type of a name, if it is declared where it is defined.
    pub fn declared(&self, scope: usize, name: &str) -> Option<&'m TypeProto> {
        let mut at = scope;
        while !self.scopes[at].names.contains_key(name) {
            at = self.scopes[at].parent?;
        }
        self.scopes[at].declared.get(name).copied()
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> Type {
        self.b.ty(value).clone()
    }
}
