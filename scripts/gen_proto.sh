#!/bin/sh
# Regenerates crates/heddle-onnx/src/proto/generated.rs from the .proto files in the `onnx` Python package.
# usage: scripts/gen_proto.sh [PYTHON]   (a Python that has `onnx`; needs no protoc)
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
python=${1:-python3}
packages=$("$python" -c 'import os, onnx; print(os.path.dirname(os.path.dirname(onnx.__file__)))')
cargo run --quiet --manifest-path "$root/tools/gen-proto/Cargo.toml" \
    --target-dir "$root/target/tools" -- "$packages" "$root/crates/heddle-onnx/src/proto/generated.rs"
