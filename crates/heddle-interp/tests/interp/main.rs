//! The interpreter. One program, which is linked once.

mod common;
mod control;
mod gradient_slots;
mod kernels;
mod ops;
mod random_programs;
