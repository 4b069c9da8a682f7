//! The generator of random programs. One program, which is linked once.

mod programs;
mod runs;
