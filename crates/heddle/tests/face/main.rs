//! The library's interface: models, compiled and run. One program, which is linked once.

mod batching;
mod circles;
mod common;
mod constants;
mod counted;
mod draws;
mod equated;
mod hosting;
mod layers;
mod listed_scans;
mod matrices;
mod misfits;
mod mixed;
mod onnx_draws;
mod pipelined;
mod precision;
mod profile;
mod readme;
mod saved;
mod simulated;
mod sizes;
mod steps;
mod texts;
mod traces;
mod trees;
mod tune;
mod untested;
mod vertices;
mod waits;

#[allow(dead_code)] // Tests of this crate use a part of it.
#[path = "../../../heddle-onnx/tests/onnx/common/mod.rs"]
mod onnx_common;
