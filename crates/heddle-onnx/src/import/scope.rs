//! Names and their meanings while a function is imported.

use std::collections::HashMap;
use std::rc::Rc;

use heddle_ir::{FuncBuilder, Tensor, Type, Value};

use crate::ops::Position;
use crate::proto::{AttributeProto, GraphProto, TypeProto, ValueInfoProto};

/// Versions of operator sets, by domain.
pub type Opsets<'m> = Rc<HashMap<&'m str, i64>>;

/// The meaning of a name.
#[derive(Clone, Copy, Debug)]
pub enum Binding {
    /// A value.
    Value(Value),
    /// An optional input that the caller left out.
    Absent,
    /// A value that an unsupported node or a recursive call without known types would have made.
    /// Its users are skipped.
    Poison,
}

impl From<Option<Value>> for Binding {
    fn from(value: Option<Value>) -> Self {
        value.map_or(Binding::Poison, Binding::Value)
    }
}

impl Binding {
    /// The value, unless the name is absent or poison.
    pub fn value(self) -> Option<Value> {
        match self {
            Binding::Value(v) => Some(v),
            Binding::Absent | Binding::Poison => None,
        }
    }
}

/// An attribute and, if it came from a function's caller, the scope in which its graphs live.
#[derive(Clone, Copy)]
pub struct Attr<'m> {
    pub name: &'m str,
    pub proto: &'m AttributeProto,
    pub home: Option<usize>,
}

impl Attr<'_> {
    /// Does it hold graphs?
    pub fn has_graph(&self) -> bool {
        self.proto.g.is_some() || !self.proto.graphs.is_empty()
    }
}

/// The context of a graph or function body, subgraphs included.
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
    /// Nesting depth of calls of functions that do not recurse.
    pub depth: usize,
}

/// A `Recursion` node around the present one, which nodes in it may call by its name.
#[derive(Clone)]
pub struct Enclosing<'m> {
    /// The body graph's name.
    pub name: &'m str,
    pub body: Rc<Body<'m>>,
    /// The values that the body captures, in the function under construction.
    pub captured: Vec<Value>,
}

/// The body of a `Recursion` node.
pub struct Body<'m> {
    pub graph: &'m GraphProto,
    pub env: Env<'m>,
    /// Names from outside that become parameters.
    pub captured: Vec<&'m str>,
    /// Names from outside that are constants.
    pub constants: Vec<(&'m str, Tensor)>,
    /// `Recursion` nodes around that are called from inside, with the range of their captured
    /// values among the parameters.
    pub around: Vec<(Enclosing<'m>, std::ops::Range<usize>)>,
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
    /// The nodes under import, outermost first, by address.
    pub path: Vec<usize>,
    pub position: Position,
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
            position: Position::default(),
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

    /// The meaning of a name here or in a scope around.
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

    /// The type that a graph declares for a name.
    pub fn declared(&self, scope: usize, name: &str) -> Option<&'m TypeProto> {
        self.scopes[scope].declared.get(name).copied()
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> Type {
        self.b.ty(value).clone()
    }
}
