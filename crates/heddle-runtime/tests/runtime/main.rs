//! Building programs and running them on workers. One program, which is linked once.

mod building;
mod common;
mod interface;
mod programs;
mod sanitized;
mod stops;
mod weights;
