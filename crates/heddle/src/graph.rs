//! Single passes on the graph IR of a model.

use heddle_ir::verify;
use heddle_opt::{CostModel, PASSES, TRANSFORMATIONS, find_pass, find_transformation};

use crate::{Error, Machine, Model, Step, on_large_stack};

/// The passes that [`Model::transformed`] knows: the graph passes in the order in which a compilation runs them, then the
/// transformations.
pub fn graph_passes() -> impl Iterator<Item = Step> {
    let passes = PASSES.iter().map(|p| (p.name, p.about));
    let all = passes.chain(TRANSFORMATIONS.iter().map(|t| (t.name, t.about)));
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
            |name: &&String| find_pass(name).is_none() && find_transformation(name).is_none();
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
                    } else if let Some(pass) = find_transformation(name) {
                        (pass.run)(module, &costs);
                    }
                    verify(module).map_err(|e| Error::invalid(name, &e))
                })
            })?
        })
    }
}
