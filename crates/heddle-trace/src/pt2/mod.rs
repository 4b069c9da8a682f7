//! `.pt2` files, which `torch.export.save` writes: an archive of a graph in JSON and raw weights.
//!
//! [`load`] translates the graph to the neutral one of [`crate::graph`] and lowers that. No pickle is read and nothing is unpacked.
//!
//! - `archive` entries, with bounds; `json`, `schema` the texts; `weights` arrays;
//! - `translate` graphs, `args` arguments, `memory` changes in place, which become values, `aliasing` the operators that make them; `expr` sizes, `names` of outputs, `prune` dead nodes;
//! - `program` inputs, outputs and the buffers that a run changes, `given` values in the place of the file's arrays.

mod aliasing;
mod archive;
mod args;
mod expr;
mod given;
mod json;
mod memory;
mod names;
mod program;
mod prune;
mod schema;
mod translate;
mod weights;

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use heddle_ir::{Folder, Module, Tensor, Type};

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
}

/// A program of a file.
pub struct Pt2 {
    /// The program.
    pub module: Module,
    /// Buffers that a run changes. The program begins with the file's values, unless they are [overridden](Pt2Options::overrides).
    pub optional: Vec<(String, Type)>,
}

/// Reads a `.pt2` file.
///
/// Outputs are named by the keys of the dictionaries that they lie in, or by number (`y0`). Behind them are the next values of buffers and
/// inputs that the program changes, under the names of these.
///
/// # Errors
///
/// [`TraceError::Pt2`] for faults of the file, others as for [`crate::load`].
pub fn load(file: Bytes, options: &Pt2Options) -> Result<Pt2, TraceError> {
    let mut archive = archive::Archive::open(file)?;
    let model = model_of(&archive)?;
    let entry = format!("models/{model}.json");
    let versioned: schema::Versioned = json::read(&mut archive, &entry)?;
    let schema::Version { major, minor } = versioned.schema_version;
    if major != 8 || minor < 0 {
        return Err(Pt2Error::Version { major, minor }.into());
    }
    let source: schema::Program = json::read(&mut archive, &entry)?;
    let weights = weights::Weights::of(&mut archive, &model)?;
    program::build(&source.graph_module, &weights, &mut archive, options)
}

/// The name of the archive's only model, or of the one that is called `model`.
fn model_of(archive: &archive::Archive) -> Result<String, Pt2Error> {
    let mut models = archive.names_in("models/", ".json");
    match (models.iter().position(|m| m == "model"), models.len()) {
        (Some(at), _) => Ok(models.swap_remove(at)),
        (None, 1) => Ok(models.swap_remove(0)),
        (None, 0) => Err(Pt2Error::Missing {
            entry: archive.full("models/model.json"),
        }),
        _ => Err(Pt2Error::Unsupported(format!(
            "an archive of several models ({}), none of which is called `model`,",
            models.join(", ")
        ))),
    }
}
