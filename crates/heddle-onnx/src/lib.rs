//! ONNX files to graph IR, and ONNX test data.

pub mod ops;
pub mod proto;
