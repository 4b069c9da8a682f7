//! Graph passes, one file each.
//!
//! A pass rewrites a module in place. It edits through a [`Patch`], so that every edit has a
//! reason; [`Stats`] count edits by reason.
//!
//! Passes of the [pipeline](optimize) keep results bit for bit, up to the choice among NaNs. The
//! module `effects` states their assumptions about programs. [Transformations](transform), which
//! are for devices that compile, keep results up to rounding.

mod batch;
mod bind_sizes;
mod callgraph;
mod canonicalize;
mod components;
mod contents;
mod edit;
mod effects;
mod equate_sizes;
mod facts;
mod fold_constants;
mod gathered;
mod infer_contents;
mod infer_ranks;
mod infer_shapes;
mod inline_calls;
mod instances;
mod merge_common;
mod names;
mod outline;
mod pipeline;
mod remove_dead;
mod round_weights;
mod seed_as_input;
mod separate_ranks;
mod stop_misfits;
mod transform;
mod type_failures;
mod uses;

pub use heddle_ir::patch::{Patch, Stats};

pub use batch::{Batch, Batched, Refusal, batch_function};
pub use bind_sizes::bind_sizes;
pub use canonicalize::{canonicalize, rule_names};
pub use edit::Edit;
pub use equate_sizes::equate_sizes;
pub use fold_constants::fold_constants;
pub use infer_contents::infer_contents;
pub use infer_ranks::infer_ranks;
pub use infer_shapes::infer_shapes;
pub use inline_calls::{inline_calls, inline_calls_in_batch};
pub use instances::{
    BatchOptions, Block, Counted, Form, Instances, OneByOne, batch_instances, batch_instances_with,
    offsets_name, shapes_name,
};
pub use merge_common::merge_common;
pub use outline::{Outlined, call_outlined, constant_view, is_stated, needs, outline};
pub use pipeline::{PASSES, Pass, Report, find_pass, optimize};
pub use remove_dead::remove_dead;
pub use round_weights::{LeftWeight, RoundedWeights, round_weights};
pub use seed_as_input::seed_as_input;
pub use separate_ranks::separate_ranks;
pub use transform::{
    CostModel, FlatPorts, LevelOptions, OptionalPorts, Pace, SequenceForm, SequenceLayout,
    TextPorts, TransformOptions, Transformation, distribute_loops, drop_zeros, flatten_ports,
    flatten_text_ports, hoist_invariant, level_loops, level_recursion, open_optional_ports,
    reduce_folds, split_transposed, tabulate_products, transform,
};
pub use type_failures::type_failures;
