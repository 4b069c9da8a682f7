//! The steps on the way to a compiled program that can be left out.

use std::sync::LazyLock;

use heddle_opt::{PIPELINE_LAYERS, TRANSFORMATIONS};

/// A step that makes programs faster and leaves what they compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// By which [`heddle_opt::TransformOptions::without`] names it.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
}

/// All steps: those of lowering and scheduling, then the transformations of the graph.
pub static STEPS: LazyLock<Vec<Step>> = LazyLock::new(|| {
    let transformations = TRANSFORMATIONS.iter().map(|p| Step {
        name: p.name,
        about: p.about,
    });
    let (name, about) = PIPELINE_LAYERS;
    let steps = SCHEDULING.iter().copied().chain(transformations);
    steps.chain([Step { name, about }]).collect()
});

const SCHEDULING: &[Step] = &[
    Step {
        name: "place_syncs",
        about: "synchronise where data crosses workers, not before every operator",
    },
    Step {
        name: "fuse",
        about: "make one operator of several where that saves memory traffic",
    },
    Step {
        name: "coalesce_copies",
        about: "let what copies another array be that array",
    },
    Step {
        name: "align_splits",
        about: "deal operators out so that data stays on its worker",
    },
    Step {
        name: "order_waves",
        about: "order straight-line code so that independent parts share their synchronisations",
    },
    Step {
        name: "split_depths",
        about: "share out the depth of products that have too few results to share",
    },
    Step {
        name: "choose_kernels",
        about: "choose between kernels that are fastest alone and those that leave workers to others",
    },
    Step {
        name: "choose_levels",
        about: "leave to one worker what would take longer to share",
    },
    Step {
        name: "fork_calls",
        about: "run calls that are independent on workers of their own",
    },
    Step {
        name: "plan_memory",
        about: "let what is not needed at the same time lie in the same memory",
    },
];
