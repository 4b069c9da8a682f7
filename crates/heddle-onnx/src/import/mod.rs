//! ONNX graphs to functions of the IR.
//!
//! - The main graph becomes the entry function `main`. Its parameters are the graph's inputs. An input that has an
//!   initializer is optional: the initializer is its default value, and a constant unless the caller
//!   [gives a value](ImportOptions::overrides). Before IR version 4 every initializer was listed as an input; those are
//!   defaults in the same way, so that weights are constants.
//! - Control flow becomes `if` and `loop` regions. Functions are imported in place, as often as they are
//!   called, so that constant arguments give precise shapes; those that call themselves, directly or through
//!   others, become functions of the IR ([`recursion`]).
//! - Types are inferred, never believed: a declared type is used only where the rank is unknown, and then the
//!   program checks it when it runs.
//! - What is not supported is collected: the outputs of such a node are *poison*, nodes that use poison are passed
//!   over, and at the end everything is reported at once.

mod branch;
mod call;
mod flex_attention;
mod graph;
mod loops;
mod node;
mod order;
mod recursion;
mod scan;
mod scope;
mod sequence_map;
mod signature;
mod unsupported;
mod versions;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use heddle_ir::{Folder, FuncBuilder, Module, Signature, Type};

use crate::error::ImportError;
use crate::file::{decode, open, with_stack};
use crate::proto::{FunctionProto, GraphProto, ModelProto, TensorProto, ValueInfoProto};
use crate::scan::Kind;
use crate::tensor::{Store, tensor_type};
use crate::types::{DimNames, convert};
use scope::{Binding, Env, Frame};

/// How a model is imported.
#[derive(Clone, Default)]
pub struct ImportOptions {
    /// Evaluates ops on small constants, so that computed shapes are known.
    pub folder: Option<Folder>,
    /// Names of inputs with a default value that the caller gives values for: these become parameters. Other names are
    /// ignored.
    pub overrides: HashSet<String>,
}

/// An imported model.
#[derive(Debug)]
pub struct Imported {
    /// The program.
    pub module: Module,
    /// Inputs with a default value that is a constant in the program, with their types.
    pub optional: Vec<(String, Type)>,
}

/// Reads an ONNX file and imports it. External data is read from the file's folder only.
pub fn load(path: &Path, options: &ImportOptions) -> Result<Imported, ImportError> {
    with_stack(|| {
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let model = decode(path, open(path)?, Kind::Model)?;
        Importer::new(&model, &Store::new(Some(folder)), options)?.run()
    })
}

/// Imports an ONNX model that is in memory; it has no external data.
pub fn load_bytes(bytes: Bytes, options: &ImportOptions) -> Result<Imported, ImportError> {
    with_stack(|| {
        let model = decode(Path::new("model"), bytes, Kind::Model)?;
        Importer::new(&model, &Store::new(None), options)?.run()
    })
}

/// Nodes that may be imported, counting each time.
const MAX_NODES: usize = 1_000_000;

/// Instructions that may be emitted, counting those too that are thrown away again.
const MAX_INSTS: usize = 1_000_000;

/// Versions of operator sets, by domain.
type Opsets<'m> = Rc<HashMap<&'m str, i64>>;

/// Imports one model.
struct Importer<'m> {
    model: &'m ModelProto,
    store: &'m Store,
    options: ImportOptions,
    module: Module,
    optional: Vec<(String, Type)>,
    opsets: Opsets<'m>,
    /// Model-local functions by domain, name and overload.
    functions: HashMap<(&'m str, &'m str, &'m str), &'m FunctionProto>,
    /// Those of them that may call themselves.
    recursive: HashSet<*const FunctionProto>,
    unsupported: unsupported::Report,
    captures: order::Captures<'m>,
    /// Types of carried values at which earlier attempts at a loop arrived, by the path to its node.
    widened: HashMap<Vec<usize>, Vec<Type>>,
    specs: recursion::Specs<'m>,
    nodes: usize,
    /// How often an erring loop body was looked at again.
    second_looks: usize,
}

impl<'m> Importer<'m> {
    fn new(
        model: &'m ModelProto,
        store: &'m Store,
        options: &ImportOptions,
    ) -> Result<Self, ImportError> {
        let opsets = opsets(&model.opset_import)?;
        let mut functions = HashMap::new();
        for f in &model.functions {
            let key = (domain(f.domain()), f.name(), f.overload());
            if functions.insert(key, f).is_some() {
                let message = "is defined twice".into();
                return Err(graph_error(&format!("function `{}`", f.name()), message));
            }
        }
        let recursive = order::recursive_functions(&functions);
        Ok(Self {
            model,
            store,
            options: options.clone(),
            module: Module::default(),
            optional: vec![],
            opsets: Rc::new(opsets),
            functions,
            recursive,
            unsupported: Default::default(),
            captures: Default::default(),
            widened: HashMap::new(),
            specs: Default::default(),
            nodes: 0,
            second_looks: 0,
        })
    }

    fn run(mut self) -> Result<Imported, ImportError> {
        let Some(graph) = &self.model.graph else {
            return Err(graph_error("the model", "has no graph".into()));
        };
        let result = self.main(graph);
        if !self.unsupported.is_empty() {
            return Err(ImportError::Unsupported(self.unsupported.finish()));
        }
        result?;
        recursion::prune(&mut self.module);
        Ok(Imported {
            module: self.module,
            optional: self.optional,
        })
    }

    /// Imports the main graph as the function `main`.
    fn main(&mut self, graph: &'m GraphProto) -> Result<(), ImportError> {
        graph::each_result_once(graph)?;
        let defaults = defaults(graph);
        let overrides = std::mem::take(&mut self.options.overrides);
        let is_param = |name: &str| !defaults.contains_key(name) || overrides.contains(name);
        let (given, optional): (Vec<_>, Vec<_>) =
            graph.input.iter().partition(|i| is_param(i.name()));
        let mut names = DimNames::default();
        let mut type_of = |input: &ValueInfoProto| match (&input.r#type, defaults.get(input.name()))
        {
            (Some(proto), _) => convert(proto, &mut names),
            (None, Some(Some(tensor))) => tensor_type(tensor),
            (None, _) => Err("the type is missing".into()),
        };
        let mut params = vec![];
        for input in given {
            let place = || format!("input `{}`", input.name());
            let ty = type_of(input).map_err(|m| graph_error(&place(), m))?;
            params.push((input.name().to_owned(), ty));
        }
        for input in optional {
            if let Ok(ty) = type_of(input) {
                self.optional.push((input.name().to_owned(), ty));
            }
        }
        let id = self.module.declare(Signature {
            name: "main".into(),
            params,
            ..Default::default()
        });
        let sig = (*self.module.functions[id].sig).clone();
        let env = Env {
            opsets: self.opsets.clone(),
            ..Default::default()
        };
        let mut frame = Frame::new(self.builder(sig), env);
        let mut values = frame.b.params().to_vec().into_iter();
        let args = graph.input.iter().map(|i| match is_param(i.name()) {
            true => values.next().map_or(Binding::Absent, Binding::Value),
            false => Binding::Absent,
        });
        let args = args.collect();
        let results = self.graph(&mut frame, graph, None, args)?;
        let names = graph.output.iter().map(|o| o.name().to_owned());
        let named: Option<Vec<_>> = names.zip(results).map(|(n, v)| Some((n, v?))).collect();
        // Poison was recorded when it came into being.
        if let Some(named) = named {
            self.module.functions[id] = frame.b.finish(&named);
            self.module.entry = Some(id);
        }
        Ok(())
    }

    fn builder(&self, sig: Signature) -> FuncBuilder {
        let mut b = FuncBuilder::new(sig);
        b.set_folder(self.options.folder);
        b
    }
}

/// Initializers by name; without the tensor for those that are sparse.
fn defaults(graph: &GraphProto) -> HashMap<&str, Option<&TensorProto>> {
    let dense = graph.initializer.iter().map(|t| (t.name(), Some(t)));
    let sparse = graph.sparse_initializer.iter().flat_map(|t| &t.values);
    dense.chain(sparse.map(|t| (t.name(), None))).collect()
}

/// The domain as tables know it: ONNX's own has two names.
fn domain(name: &str) -> &str {
    match name {
        "ai.onnx" => "",
        name => name,
    }
}

/// Versions by domain, checked for ONNX's own.
fn opsets(list: &[crate::proto::OperatorSetIdProto]) -> Result<HashMap<&str, i64>, ImportError> {
    let mut opsets = HashMap::new();
    for id in list {
        let (domain, version) = (domain(id.domain()), id.version());
        if domain.is_empty() && !versions::OPSETS.contains(&version) {
            return Err(ImportError::Opset {
                domain: domain.to_owned(),
                version,
                min: *versions::OPSETS.start(),
                max: *versions::OPSETS.end(),
            });
        }
        opsets.insert(domain, version);
    }
    Ok(opsets)
}

fn graph_error(place: &str, message: String) -> ImportError {
    ImportError::Graph {
        place: place.to_owned(),
        message,
    }
}
