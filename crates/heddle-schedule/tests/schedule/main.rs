//! The passes on uPrograms, and the verifiers. One program, which is linked once.

mod align;
mod common;
mod copies;
mod filetests;
mod forks;
mod fuse;
mod grids;
mod kernels;
mod lanes;
mod levels;
mod machines;
mod memory;
mod mutants;
mod parts;
mod read_rows;
mod replicate;
mod residents;
mod resizes;
mod rows;
mod select_kernels;
mod split;
mod sync;
mod teams;
mod text;
mod trace;
mod verify;
