//! `.pt2` files, which `torch.export.save` writes: an archive of a graph in JSON and raw weights.
//!
//! [`load`] translates the graph to the neutral one of [`crate::graph`] and lowers that. No pickle is read and nothing is unpacked.
//!
//! - `archive` entries, with bounds; `json`, `schema` the texts; `weights` arrays;
//! - `translate` graphs, `args` arguments; `expr` sizes, `names` of outputs, `prune` dead nodes;
//! - `memory` views and versions of arrays, `changes` in place, which become values, `norm` those of running statistics; `aliasing` the operators that view and change,
//!   `ports` the memory of nested graphs;
//! - `program` inputs, outputs and the buffers that a run changes, `given` values in the place of the file's arrays.

mod aliasing;
mod archive;
mod args;
mod changes;
mod expr;
mod given;
mod json;
mod memory;
mod names;
mod norm;
mod ports;
mod program;
mod prune;
mod schema;
mod translate;
mod weights;

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use heddle_ir::{Folder, Module, Tensor, Type, UnknownEntry};

pub use crate::pt2_error::{Pt2Error, VERSIONS};

use crate::error::TraceError;

/// Options of reading.
#[derive(Default)]
pub struct Pt2Options {
    /// As in [`crate::load`].
    pub folder: Option<Folder>,
    /// Parameters, buffers and constants that are to be inputs; other names are ignored. Tied ones are one input, under the name that is given.
    pub overrides: HashSet<String>,
    /// Arrays in the place of parameters, buffers and constants, of their types and shapes. Tied ones are replaced together.
    pub constants: HashMap<String, Tensor>,
    /// The model that alone is read of an archive of several. Ignored for an archive of one.
    pub entry: Option<String>,
}

/// A program of a file.
pub struct Pt2 {
    /// The program. The models of an archive of several are its entries, by their names; one that is called `model` is the first. The only
    /// model of an archive is the entry `main`.
    pub module: Module,
    /// For each entry the buffers that a run changes. It begins with the file's values, unless they are
    /// [overridden](Pt2Options::overrides).
    pub optional: HashMap<String, Vec<(String, Type)>>,
}

/// Models of an archive.
const MAX_MODELS: usize = 256;

/// The entry of an archive of one model.
const ENTRY: &str = "main";

/// Reads a `.pt2` file.
///
/// Outputs are named by the keys of the dictionaries that they lie in, or by number (`y0`). Behind them are the next values of buffers and
/// inputs that the program changes, under the names of these.
///
/// # Errors
///
/// [`TraceError::Pt2`] for faults of the file and for an entry that it does not have, others as for [`crate::load`].
pub fn load(file: Bytes, options: &Pt2Options) -> Result<Pt2, TraceError> {
    let mut archive = archive::Archive::open(file)?;
    let models = models_of(&archive)?;
    if let [model] = &models[..] {
        return read(&mut archive, model, ENTRY, options);
    }
    let mut all = Pt2 {
        module: Module::default(),
        optional: HashMap::new(),
    };
    for name in asked(&models, options)? {
        let one = read(&mut archive, name, name, options)?;
        // A model is one function: what it calls stands in its place.
        let function = one.module.entry().clone();
        let id = all.module.functions.push(function);
        all.module.entries.insert(name.clone(), id);
        all.optional.extend(one.optional);
    }
    Ok(all)
}

/// The models that are to be read: one where an entry is named.
fn asked<'a>(models: &'a [String], options: &Pt2Options) -> Result<&'a [String], Pt2Error> {
    let Some(entry) = &options.entry else {
        return Ok(models);
    };
    match models.iter().find(|name| *name == entry) {
        Some(model) => Ok(std::slice::from_ref(model)),
        None => Err(Pt2Error::UnknownEntry(UnknownEntry {
            name: entry.clone(),
            entries: models.to_vec(),
        })),
    }
}

/// Reads a model as the entry of this name.
fn read(
    archive: &mut archive::Archive,
    model: &str,
    name: &str,
    options: &Pt2Options,
) -> Result<Pt2, TraceError> {
    let entry = format!("models/{model}.json");
    let versioned: schema::Versioned = json::read(archive, &entry)?;
    let schema::Version { major, minor } = versioned.schema_version;
    if major != 8 || minor < 0 {
        return Err(Pt2Error::Version { major, minor }.into());
    }
    let source: schema::Program = json::read(archive, &entry)?;
    let weights = weights::Weights::of(archive, model)?;
    program::build(name, &source.graph_module, &weights, archive, options)
}

/// The names of the archive's models, the one that is called `model` first.
fn models_of(archive: &archive::Archive) -> Result<Vec<String>, Pt2Error> {
    let mut models = archive.names_in("models/", ".json");
    if models.is_empty() {
        return Err(Pt2Error::Missing {
            entry: archive.full("models/model.json"),
        });
    }
    if models.len() > MAX_MODELS {
        return Err(Pt2Error::TooLarge {
            what: format!("it has {} models", models.len()),
            limit: MAX_MODELS as u64,
        });
    }
    models.sort_by_key(|name| name != "model");
    Ok(models)
}
