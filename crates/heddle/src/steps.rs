//! The steps on the way to a compiled program that can be left out.

use std::sync::LazyLock;

use heddle_opt::{PIPELINE_LAYERS, TRANSFORMATIONS};
use heddle_schedule::PASSES;

/// A step that makes programs faster and leaves what they compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// By which [`heddle_opt::TransformOptions::without`] names it.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
}

/// All steps: those of lowering and scheduling, then the transformations of the graph. Synchronisation comes first: it is what all
/// others gain by.
pub static STEPS: LazyLock<Vec<Step>> = LazyLock::new(|| {
    let (syncs, others) = PASSES.split_last().expect("there are passes");
    let scheduling = [syncs].into_iter().chain(others).map(|p| (p.name, p.about));
    let transformations = TRANSFORMATIONS.iter().map(|p| (p.name, p.about));
    let steps = scheduling.chain(transformations).chain([PIPELINE_LAYERS]);
    steps.map(|(name, about)| Step { name, about }).collect()
});
