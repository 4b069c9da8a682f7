//! ONNX files to graph IR, and ONNX test data.
