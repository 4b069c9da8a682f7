//! ONNX graphs to functions of the IR.
//!
//! - The main graph becomes the entry function `main`. Its parameters are the graph's inputs. An
//!   input that has an initializer is optional: the initializer is its default value, and a constant
//!   unless the caller [gives a value](ImportOptions::overrides). Before IR version 4 every
//!   initializer was listed as an input; those are defaults in the same way, so that weights are
//!   constants.
//! - Control flow becomes `if` and `loop` regions. Functions that call themselves, directly or
//!   through others, become functions of the IR ([`recursion`]), and so do those that several nodes
//!   call, unless that costs precision ([`shared`]). All others are imported in place
//!   ([`functions`]).
//! - Maps, which the IR lacks, are arrays of their values, with a note for the user ([`notes`]).
//! - Types are inferred: a declared type is used only where the rank is unknown, and then the
//!   program checks it when it runs.
//! - Refusals are collected: the outputs of an unsupported node are *poison*, nodes that use poison
//!   are skipped, and the end reports all refusals at once.

mod branch;
mod call_graph;
mod captures;
mod flex_attention;
mod functions;
mod generation;
mod graph;
mod loops;
mod messages;
mod node;
mod notes;
mod order;
mod prune;
mod recursion;
mod scan;
mod scope;
mod sequence_map;
mod shared;
mod signature;
mod specs;
mod state;
mod unsupported;
mod values;
mod versions;
mod widen;

use std::collections::HashMap;
use std::path::Path;

use bytes::Bytes;
use heddle_ir::types::MAX_RANK;
use heddle_ir::{Dim, Signature, Tensor, Type};

use crate::error::{ImportError, graph_error};
use crate::file::{decode, open, with_stack};
use crate::proto::{GraphProto, ModelProto, TensorProto, ValueInfoProto};
use crate::scan::Kind;
use crate::tensor::{Store, tensor_type};
use crate::types::{DimNames, TypeFault, convert};
use scope::{Binding, Env, Frame};
use state::{Call, Constructs, Importer};

pub use state::{ImportOptions, Imported};

/// The constructs that own graphs, and calls.
const CONSTRUCTS: Constructs = Constructs {
    control: &[
        ("", "If", |importer, f, at| importer.if_node(f, at)),
        ("", "Loop", |importer, f, at| importer.loop_node(f, at)),
        ("", "Scan", |importer, f, at| importer.scan_node(f, at)),
        ("", "SequenceMap", |importer, f, at| {
            importer.sequence_map(f, at)
        }),
        ("ai.onnx.preview", "FlexAttention", |importer, f, at| {
            importer.flex_attention(f, at)
        }),
        ("com.microsoft", "GreedySearch", |importer, f, at| {
            importer.greedy_search(f, at)
        }),
        ("com.microsoft", "Sampling", |importer, f, at| {
            importer.sampling(f, at)
        }),
        ("com.microsoft", "BeamSearch", |importer, f, at| {
            importer.beam_search(f, at)
        }),
    ],
    call: |importer, f, at, call| match call {
        Call::Enclosing(around) => importer.call_enclosing(f, at, &around),
        Call::Recursion => importer.recursion_node(f, at),
        Call::Recursive(function) => importer.call_recursive(f, at, function),
        Call::Shared(function) => importer.call_shared(f, at, function),
        Call::InPlace(function) => importer.call_in_place(f, at, function),
    },
};

/// Reads an ONNX file and imports it. External data is read from the file's folder only.
pub fn load(path: &Path, options: &ImportOptions) -> Result<Imported, ImportError> {
    with_stack(|| {
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let model = decode(path, open(path)?, Kind::Model)?;
        import(&model, &Store::new(Some(folder)), options)
    })
}

/// Imports an ONNX model that is in memory; `name` stands for it in errors. External data is read from `folder` only; without one there is none.
pub fn load_bytes(
    name: &Path,
    bytes: Bytes,
    folder: Option<&Path>,
    options: &ImportOptions,
) -> Result<Imported, ImportError> {
    with_stack(|| {
        let model = decode(name, bytes, Kind::Model)?;
        import(&model, &Store::new(folder), options)
    })
}

fn import(
    model: &ModelProto,
    store: &Store,
    options: &ImportOptions,
) -> Result<Imported, ImportError> {
    Importer::new(model, store, options, &CONSTRUCTS)?.run()
}

impl<'m> Importer<'m> {
    fn run(mut self) -> Result<Imported, ImportError> {
        let Some(graph) = &self.model.graph else {
            return Err(graph_error("the model", "has no graph".into()));
        };
        for (name, tensor) in &self.options.constants {
            replaces(graph, name, tensor).map_err(|message| ImportError::Replacement {
                name: name.clone(),
                message,
            })?;
        }
        let result = self.main(graph);
        if !self.unsupported.is_empty() {
            return Err(ImportError::Unsupported(self.unsupported.finish()));
        }
        result?;
        prune::prune(&mut self.module);
        Ok(Imported {
            module: self.module,
            optional: self.optional,
            notes: notes::of_maps(graph),
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
            (Some(proto), _) => convert(proto, &mut names).map_err(|f| f.to_string()),
            (None, Some(Some(tensor))) => tensor_type(tensor),
            (None, _) => Err(TypeFault::Missing.to_string()),
        };
        let mut params = vec![];
        for input in given {
            let place = || format!("input `{}`", input.name());
            let ty = type_of(input).map_err(|m| graph_error(&place(), m))?;
            let ty = ranked(ty, self.options.ranks.get(input.name()));
            params.push((input.name().to_owned(), ty));
        }
        for input in optional {
            if let Ok(ty) = type_of(input) {
                self.optional.push((input.name().to_owned(), ty));
            }
        }
        // An axis without a name has one size in a run all the same.
        for (name, ty) in &mut params {
            *ty = names.complete(ty, name);
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
        // The report has the cause of poison already.
        if let Some(named) = named {
            self.module.functions[id] = frame.b.finish(&named);
            self.module.set_entry(id);
        }
        Ok(())
    }
}

/// A tensor type of unknown rank with this one.
fn ranked(ty: Type, rank: Option<&usize>) -> Type {
    match (&ty, rank) {
        (Type::Tensor(t), Some(&rank)) if t.shape.is_none() && rank <= MAX_RANK => {
            Type::tensor(t.dtype, vec![Dim::UNKNOWN; rank])
        }
        _ => ty,
    }
}

/// Checks that a tensor may stand for an initializer of this name. An error is a message.
fn replaces(graph: &GraphProto, name: &str, tensor: &Tensor) -> Result<(), String> {
    let stored = graph.initializer.iter().find(|t| t.name() == name);
    let stored = stored.ok_or("the model has no initializer of this name")?;
    let (ty, given) = (tensor_type(stored)?, tensor.ty());
    match ty == given {
        true => Ok(()),
        false => Err(format!("it is {ty}, and {given} is given")),
    }
}

/// Initializers by name; without the tensor for those that are sparse.
fn defaults(graph: &GraphProto) -> HashMap<&str, Option<&TensorProto>> {
    let dense = graph.initializer.iter().map(|t| (t.name(), Some(t)));
    let sparse = graph.sparse_initializer.iter().flat_map(|t| &t.values);
    dense.chain(sparse.map(|t| (t.name(), None))).collect()
}
