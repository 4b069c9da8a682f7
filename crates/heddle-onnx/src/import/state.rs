//! The state of one import, and the vocabulary of the constructs that it is made of.
//!
//! Layers, from the bottom: messages, scopes and specialisations hold data; this file joins them in
//! [`Importer`]; nodes and graphs are imported on top of it; constructs (control flow and calls)
//! import graphs. A node finds its construct in the table [`Constructs`], so that nothing below
//! names one.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use heddle_ir::{Folder, FuncBuilder, Loc, MAX_NESTING, Module, Signature, Tensor, Type, Value};

use super::call_graph::{CallGraph, Functions};
use super::captures::Captures;
use super::messages::{domain, each_node, opsets};
use super::scope::{Attr, Binding, Enclosing, Frame, Opsets};
use super::specs::{SharedSpecs, Specs};
use super::unsupported::Report;
use crate::error::{ImportError, OpError, graph_error};
use crate::ops;
use crate::proto::{FunctionProto, GraphProto, ModelProto, NodeProto};
use crate::tensor::Store;

/// Options of an import.
#[derive(Clone, Default)]
pub struct ImportOptions {
    /// Evaluates ops on small constants, so that computed shapes are known.
    pub folder: Option<Folder>,
    /// Names of inputs with a default value that the caller gives values for: these become
    /// parameters. Other names are ignored.
    pub overrides: HashSet<String>,
    /// Ranks of inputs for which the file declares none. Other names are ignored.
    pub ranks: HashMap<String, usize>,
    /// Values in the place of initializers of the main graph, of their types and shapes.
    pub constants: HashMap<String, Tensor>,
}

/// An imported model.
#[derive(Debug)]
pub struct Imported {
    /// The program.
    pub module: Module,
    /// Inputs with a default value that is a constant in the program, with their types.
    pub optional: Vec<(String, Type)>,
    /// Sentences about outputs that are not what the file declares.
    pub notes: Vec<String>,
}

/// Imports one model.
pub(super) struct Importer<'m> {
    pub model: &'m ModelProto,
    pub store: &'m Store,
    pub options: ImportOptions,
    pub constructs: &'static Constructs,
    pub module: Module,
    /// Inputs with a default value, with their types.
    pub optional: Vec<(String, Type)>,
    pub opsets: Opsets<'m>,
    pub functions: Functions<'m>,
    pub calls: CallGraph,
    pub unsupported: Report,
    pub captures: Captures<'m>,
    /// Types of carried values at which earlier attempts at a loop arrived, by the path to its
    /// node.
    pub widened: HashMap<Vec<usize>, Vec<Type>>,
    pub specs: Specs<'m>,
    pub shared: SharedSpecs<'m>,
    /// Number of nodes imported, repetitions included.
    pub nodes: usize,
    /// Number of erring loop bodies that were retried with wider types.
    pub retries: usize,
    /// Is there a node that draws random numbers? Then functions are told which call they are.
    pub is_random: bool,
    /// Number of draws and of calls that are told apart by it.
    pub draws: Cell<u64>,
}

/// Imports a node that owns graphs.
pub(super) type Construct = for<'m> fn(&mut Importer<'m>, &mut Frame<'m>, &At<'m>) -> Outputs;

/// The constructs that a node may stand for besides the operators of [`crate::ops`].
pub(super) struct Constructs {
    /// Operators that own graphs, by domain and name.
    pub control: &'static [(&'static str, &'static str, Construct)],
    /// Imports a call.
    pub call: for<'m> fn(&mut Importer<'m>, &mut Frame<'m>, &At<'m>, Call<'m>) -> Outputs,
}

impl Constructs {
    /// The importer of an operator that owns graphs.
    pub fn control(&self, domain: &str, op: &str) -> Option<Construct> {
        let mut entries = self.control.iter();
        entries.find(|c| c.0 == domain && c.1 == op).map(|c| c.2)
    }
}

/// The target of a node that is a call.
pub(super) enum Call<'m> {
    /// The body of a `Recursion` node around the call.
    Enclosing(Enclosing<'m>),
    /// The body of this `Recursion` node.
    Recursion,
    /// A model-local function that may call itself.
    Recursive(&'m FunctionProto),
    /// Any other model-local function that several nodes call.
    Shared(&'m FunctionProto),
    /// A model-local function that one node calls.
    InPlace(&'m FunctionProto),
}

/// A node that is being imported.
pub(super) struct At<'m> {
    pub node: &'m NodeProto,
    pub scope: usize,
    pub inputs: Vec<Binding>,
    pub attrs: Vec<Attr<'m>>,
    pub version: i64,
    pub loc: Arc<Loc>,
}

/// The reason why a node was not imported.
pub(super) enum Fail {
    /// A fault of the node itself.
    Op(OpError),
    /// A fault of something inside the node; it names its place already.
    Inner(ImportError),
}

impl<E: Into<OpError>> From<E> for Fail {
    fn from(e: E) -> Self {
        Fail::Op(e.into())
    }
}

impl From<ImportError> for Fail {
    fn from(e: ImportError) -> Self {
        Fail::Inner(e)
    }
}

/// The node breaks the specification.
pub(super) fn invalid<T>(message: impl Into<String>) -> Result<T, Fail> {
    Err(Fail::Op(OpError::Invalid(message.into())))
}

/// Outputs in order.
pub(super) type Outputs = Result<Vec<Binding>, Fail>;

impl<'m> Importer<'m> {
    pub fn new(
        model: &'m ModelProto,
        store: &'m Store,
        options: &ImportOptions,
        constructs: &'static Constructs,
    ) -> Result<Self, ImportError> {
        let mut functions = HashMap::new();
        for f in &model.functions {
            let key = (domain(f.domain()), f.name(), f.overload());
            if functions.insert(key, f).is_some() {
                let message = "is defined twice".into();
                return Err(graph_error(&format!("function `{}`", f.name()), message));
            }
        }
        Ok(Self {
            model,
            store,
            options: options.clone(),
            constructs,
            module: Module::default(),
            optional: vec![],
            opsets: Rc::new(opsets(&model.opset_import)?),
            calls: CallGraph::of(model.graph.as_ref(), &functions),
            functions,
            unsupported: Default::default(),
            captures: Default::default(),
            widened: HashMap::new(),
            specs: Default::default(),
            shared: Default::default(),
            nodes: 0,
            retries: 0,
            is_random: is_random(model),
            draws: Cell::new(0),
        })
    }

    pub fn builder(&self, sig: Signature) -> FuncBuilder {
        let mut b = FuncBuilder::new(sig);
        b.set_folder(self.options.folder);
        b
    }
}

fn is_random(model: &ModelProto) -> bool {
    let functions = model.functions.iter().map(|f| &f.node);
    let mut found = false;
    for nodes in model.graph.iter().map(|g| &g.node).chain(functions) {
        each_node(nodes, &mut |n| {
            found |= ops::is_random(domain(n.domain()), n.op_type());
        });
    }
    found
}

impl<'m> At<'m> {
    /// An attribute.
    pub fn attr(&self, name: &str) -> Option<&Attr<'m>> {
        self.attrs.iter().find(|a| a.name == name)
    }

    /// A graph attribute, and the scope in which it lives.
    pub fn graph(&self, name: &str) -> Result<(&'m GraphProto, usize), Fail> {
        let graph = |a: &Attr<'m>| Some((a.proto.g.as_ref()?, a.home.unwrap_or(self.scope)));
        match self.attr(name).and_then(graph) {
            Some(found) => Ok(found),
            None => invalid(format!("attribute `{name}` is missing or holds no graph")),
        }
    }

    /// An integer attribute.
    pub fn int(&self, name: &str) -> Option<i64> {
        self.attr(name)?.proto.i
    }

    /// A list of integers; empty when the attribute is missing.
    pub fn ints(&self, name: &str) -> &'m [i64] {
        self.attr(name).map_or(&[], |a| &a.proto.ints)
    }

    /// An input that must be there and is no poison.
    pub fn input(&self, i: usize) -> Result<Value, Fail> {
        match self.optional(i) {
            Some(v) => Ok(v),
            None => invalid(format!("input {i} is missing")),
        }
    }

    /// An input that may be absent.
    pub fn optional(&self, i: usize) -> Option<Value> {
        self.inputs.get(i)?.value()
    }

    /// Poison for all outputs.
    pub fn poison(&self) -> Vec<Binding> {
        vec![Binding::Poison; self.node.output.len()]
    }
}

/// Counts an open region; an error when there are too many.
pub(super) fn enter(f: &mut Frame) -> Result<(), Fail> {
    f.regions += 1;
    match f.regions < MAX_NESTING {
        true => Ok(()),
        false => invalid(format!(
            "control flow nests deeper than {MAX_NESTING} levels"
        )),
    }
}
