//! The language: its programs, interpreted, and its errors. One program, which is linked once.

mod built;
mod common;
mod errors;
mod evaluation;
mod fuzz;
mod models;
mod snapshots;
mod structures;
