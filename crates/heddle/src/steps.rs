//! The steps on the way to a compiled program that can be left out.

use std::sync::LazyLock;

use heddle_opt::{PIPELINE_LAYERS, TRANSFORMATIONS};
use heddle_schedule::PASSES;

/// A step that makes programs faster without changing their results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its name.
    pub name: &'static str,
    /// Its effect, in a line.
    pub about: &'static str,
}

/// All steps: those of lowering and scheduling, then the transformations of the graph. Synchronisation comes first: the others
/// gain by it.
pub static STEPS: LazyLock<Vec<Step>> = LazyLock::new(|| {
    let (syncs, others) = PASSES.split_last().expect("there are passes");
    let scheduling = [syncs].into_iter().chain(others).map(|p| (p.name, p.about));
    let transformations = TRANSFORMATIONS.iter().map(|p| (p.name, p.about));
    let steps = scheduling.chain(transformations).chain([PIPELINE_LAYERS]);
    steps.map(|(name, about)| Step { name, about }).collect()
});
