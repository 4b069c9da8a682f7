//! The graph IR of a program: its text, and single passes on it.

use std::fmt;
use std::io;

use heddle_ir::text::{self, Large, PrintOptions};
use heddle_ir::{Module, verify};
use heddle_opt::{CostModel, PASSES, Transformation, find_pass};

use crate::{Error, Machine, Model, Step, on_large_stack};

/// A program in the graph IR. Its text reads back as a [`Model`].
#[derive(Clone, Debug)]
pub struct Graph(pub(crate) Module);

impl Graph {
    /// The text, with large constants in a file beside it: their bytes are written to `weights`, and the text names the file
    /// `name`.
    ///
    /// # Errors
    ///
    /// Those of writing the weights.
    pub fn print_with_weights(
        &self,
        name: &str,
        weights: &mut dyn io::Write,
    ) -> io::Result<String> {
        let mut options = PrintOptions {
            large: Large::Sidecar {
                file: name,
                blob: weights,
            },
            ..Default::default()
        };
        text::print_with(&self.0, &mut options)
    }
}

impl Graph {
    /// The text for a reader, without large constants. It does not read back.
    pub fn outline(&self) -> String {
        let mut options = PrintOptions {
            large: Large::Elide,
            ..Default::default()
        };
        // Writing to a string does not fail.
        text::print_with(&self.0, &mut options).unwrap_or_default()
    }
}

/// The text, with all constants in it.
impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::print(&self.0))
    }
}

/// The passes that [`Model::transformed`] knows: the graph passes in the order in which a compilation runs them, then the
/// transformations.
pub fn graph_passes() -> impl Iterator<Item = Step> {
    let passes = PASSES.iter().map(|p| (p.name, p.about));
    let all = passes.chain(Transformation::ALL.iter().map(|t| (t.name(), t.about())));
    all.map(|(name, about)| Step { name, about })
}

impl Model {
    /// The model after passes, in order, with decisions made for a machine. No names are all graph passes, without
    /// transformations.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownPass`] for a name that no pass has, and [`Error::Internal`] names a pass that left the program
    /// invalid.
    pub fn transformed(self, passes: &[String], machine: &Machine) -> Result<Self, Error> {
        let known =
            |name: &&String| find_pass(name).is_none() && Transformation::named(name).is_none();
        if let Some(name) = passes.iter().find(known) {
            return Err(Error::UnknownPass(name.clone()));
        }
        let costs = CostModel::of(&machine.0);
        self.edited(|module| {
            on_large_stack(|| {
                if passes.is_empty() {
                    heddle_opt::optimize(module);
                    return verify(module).map_err(|e| Error::invalid("the pipeline", &e));
                }
                // Verified after every pass, so that the error names the one at fault.
                passes.iter().try_for_each(|name| {
                    if let Some(pass) = find_pass(name) {
                        (pass.run)(module);
                    } else if let Some(pass) = Transformation::named(name) {
                        pass.run(module, &costs);
                    }
                    verify(module).map_err(|e| Error::invalid(name, &e))
                })
            })?
        })
    }
}
