//! ONNX's protobuf messages, generated from `onnx-ml.proto` and `onnx-data.proto` of ONNX 1.23 by
//! `scripts/gen_proto.sh`. `raw_data` is `Bytes`: a view of the mapped file.

#![allow(missing_docs, clippy::all)]

include!("generated.rs");
