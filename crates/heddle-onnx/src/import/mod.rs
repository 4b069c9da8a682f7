//! ONNX graphs to functions of the IR.
//!
//! - The main graph becomes the entry function `main`. Its parameters are the graph's inputs; an initializer
//!   that is listed as an input too is only a default by the specification (from IR version 4), and is taken as
//!   the constant that it is.
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
use crate::proto::{FunctionProto, GraphProto, ModelProto};
use crate::scan::Kind;
use crate::tensor::Store;
use crate::types::{DimNames, convert};
use scope::{Binding, Env, Frame};

/// How a model is imported.
#[derive(Clone, Default)]
pub struct ImportOptions {
    /// Evaluates ops on small constants, so that computed shapes are known.
    pub folder: Option<Folder>,
}

/// Reads an ONNX file and imports it. External data is read from the file's folder only.
pub fn load(path: &Path, options: &ImportOptions) -> Result<Module, ImportError> {
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
pub fn load_bytes(bytes: Bytes, options: &ImportOptions) -> Result<Module, ImportError> {
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

    fn run(mut self) -> Result<Module, ImportError> {
        let Some(graph) = &self.model.graph else {
            return Err(graph_error("the model", "has no graph".into()));
        };
        let result = self.main(graph);
        if !self.unsupported.is_empty() {
            return Err(ImportError::Unsupported(self.unsupported.finish()));
        }
        result?;
        recursion::prune(&mut self.module);
        Ok(self.module)
    }

    /// Imports the main graph as the function `main`.
    fn main(&mut self, graph: &'m GraphProto) -> Result<(), ImportError> {
        graph::each_result_once(graph)?;
        let initialized: HashSet<&str> = graph.initializer.iter().map(|t| t.name()).collect();
        let is_input = |name: &str| !initialized.contains(name);
        let inputs = graph.input.iter().filter(|i| is_input(i.name()));
        let mut names = DimNames::default();
        let mut params = vec![];
        for input in inputs {
            let ty = match &input.r#type {
                Some(proto) => convert(proto, &mut names),
                None => Err("the type is missing".into()),
            };
            let place = || format!("input `{}`", input.name());
            let ty = ty.map_err(|m| graph_error(&place(), m))?;
            params.push((input.name().to_owned(), ty));
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
        let args = graph.input.iter().map(|i| match is_input(i.name()) {
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
