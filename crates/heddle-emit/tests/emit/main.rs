//! Emitted programs: their text, and their results when compiled. One program, which is linked once.

mod arms;
mod clipped;
mod clusters;
mod compiled;
mod constants;
mod contract;
mod convolutions;
mod distributed;
mod dynamic_maps;
mod extremes;
mod fold_tiles;
mod framed;
mod gathers;
mod grids;
mod growth;
mod harness;
mod hosted;
mod indices;
mod interface;
mod lanes;
mod math;
mod measured;
mod mirrors;
mod mutants;
mod peel;
mod pieces;
mod placed_parts;
mod prelude;
mod quads;
mod random;
mod random_appends;
mod random_instances;
mod random_maps;
mod random_sanitized;
mod registers;
mod replicate;
mod residents;
mod rows;
mod sanitized;
mod sequences;
mod shared;
mod simulated;
mod simulated_programs;
mod simulated_sanitized;
mod snapshots;
mod split;
mod stacks;
mod stops;
mod stores;
mod swapped_pairs;
mod teams;
mod transposed;
mod turned;
mod warnings;
mod weights;
mod winograd;

#[allow(dead_code)] // Tests of this crate use a part of it.
#[path = "../../../heddle-opt/tests/opt/common/mod.rs"]
mod opt_common;

#[allow(dead_code)] // Tests of this crate use a part of it.
#[path = "../../../heddle-schedule/tests/schedule/common/grids.rs"]
mod schedule_grids;
