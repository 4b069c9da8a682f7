//! The graph passes: results stay, and programs become what they should. One program, which is linked once.

mod batch;
mod bind_sizes;
mod calls;
mod common;
mod costs;
mod distribute_loops;
mod filetests;
mod flat;
mod fold_constants;
mod frames;
mod inspector;
mod instances;
mod level_loops;
mod level_recursion;
mod levels;
mod random_counters;
mod random_folds;
mod random_instances;
mod random_levels;
mod random_loops;
mod random_programs;
mod random_transformed;
mod round_weights;
mod split_transposed;
mod texts;
mod unstack_carried;
