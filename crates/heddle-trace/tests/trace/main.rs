//! Traced graphs and `.pt2` files, read and interpreted. One program, which is linked once.

mod common;
mod control;
mod exported;
mod hostile;
mod ops;
mod pt2;
mod pt2_memory;
mod pt2_models;
