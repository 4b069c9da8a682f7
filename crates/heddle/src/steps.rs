//! The steps on the way to a compiled program that can be left out.

use std::sync::LazyLock;

use heddle_opt::{TransformOptions, Transformation};
use heddle_schedule::{PASSES, Pass, find_pass};

use crate::CompileOptions;

/// A step that makes programs faster without changing their results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    let transformations = Transformation::ALL.iter().map(|t| (t.name(), t.about()));
    let steps = scheduling.chain(transformations);
    let steps = steps.map(|(name, about)| Step { name, about });
    steps.chain([PIPELINE_LAYERS]).collect()
});

/// The part of `distribute_loops` that can be left out by itself.
const PIPELINE_LAYERS: Step = Step {
    name: "pipeline_layers",
    about: "let workers work on different layers of a stack, each a chunk of steps behind the one before",
};

impl Step {
    /// The step of this name.
    pub fn named(name: &str) -> Option<Self> {
        STEPS.iter().copied().find(|step| step.name == name)
    }
}

/// The passes on uPrograms among these steps.
pub(crate) fn passes(steps: &[Step]) -> Vec<Pass> {
    let found = steps.iter().filter_map(|step| find_pass(step.name));
    found.copied().collect()
}

/// The choice of transformations without these steps, for layers that so many units may work on.
pub(crate) fn transform_options(options: &CompileOptions, units: usize) -> TransformOptions {
    let without = &options.without;
    let transformations = without.iter();
    let transformations = transformations.filter_map(|step| Transformation::named(step.name));
    TransformOptions {
        without: transformations.collect(),
        units: match without.contains(&PIPELINE_LAYERS) {
            true => 1,
            false => units,
        },
        frames: options.max_frames,
    }
}
