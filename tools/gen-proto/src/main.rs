//! Regenerates the protobuf messages of `heddle-onnx` from ONNX's own `.proto` files.
//!
//! Usage: `gen-proto FOLDER OUT`, where FOLDER holds the `onnx` folder of ONNX's Python package. Raw data become
//! `Bytes`, so that weights stay views of the mapped file; comments are left out.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, folder, out] = args.as_slice() else {
        return Err("usage: gen-proto FOLDER OUT".into());
    };
    let files = ["onnx/onnx-ml.proto", "onnx/onnx-data.proto"];
    let descriptors = protox::compile(files, [folder])?;
    let temporary = std::env::temp_dir().join(format!("gen-proto-{}", std::process::id()));
    std::fs::create_dir_all(&temporary)?;
    prost_build::Config::new()
        .bytes([".onnx.TensorProto.raw_data"])
        .disable_comments(["."])
        .out_dir(&temporary)
        .compile_fds(descriptors)?;
    std::fs::copy(temporary.join("onnx.rs"), Path::new(out))?;
    std::fs::remove_dir_all(&temporary)?;
    Ok(())
}
