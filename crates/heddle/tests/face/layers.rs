//! Architecture invariant: crates depend on each other one way, as docs/architecture.md's table
//! says.

use std::collections::BTreeSet;
use std::path::Path;

/// Each crate with the crates of ours that it may use.
const LAYERS: &[(&str, &[&str])] = &[
    ("heddle-abi", &[]),
    ("heddle-ir", &[]),
    ("heddle-machine", &[]),
    ("heddle-interp", &["heddle-ir"]),
    ("heddle-lang", &["heddle-ir"]),
    ("heddle-onnx", &["heddle-ir"]),
    (
        "heddle-opt",
        &["heddle-ir", "heddle-interp", "heddle-machine"],
    ),
    ("heddle-runtime", &["heddle-abi"]),
    ("heddle-trace", &["heddle-ir"]),
    ("heddle-uprogram", &["heddle-abi", "heddle-ir"]),
    ("heddle-lower", &["heddle-ir", "heddle-uprogram"]),
    (
        "heddle-schedule",
        &["heddle-ir", "heddle-machine", "heddle-uprogram"],
    ),
    ("heddle-emit", &["heddle-ir", "heddle-uprogram"]),
    (
        "heddle",
        &[
            "heddle-ir",
            "heddle-lang",
            "heddle-machine",
            "heddle-onnx",
            "heddle-trace",
            "heddle-interp",
            "heddle-opt",
            "heddle-uprogram",
            "heddle-lower",
            "heddle-schedule",
            "heddle-emit",
            "heddle-runtime",
        ],
    ),
    ("heddle-cli", &["heddle", "heddle-ir", "heddle-onnx"]),
    ("heddle-py", &["heddle", "heddle-cli"]),
    ("heddle-gen", &["heddle-ir"]),
];

/// Items of inner crates that the library exports: each has a small interface that refers to nothing else.
const EXPORTED: &[&str] = &[
    "heddle_ir::tensor::Scalar",
    "heddle_ir::{DType, TensorError}",
    "heddle_machine::NameError",
    "heddle_runtime::cache::CacheChoice",
    "heddle_runtime::{CancelToken, Grid, GridError, Sanitizer}",
];

#[test]
fn the_library_exports_no_inner_crate() {
    let library = include_str!("../../src/lib.rs");
    let exported = library.lines().filter_map(|line| {
        let path = line.trim_start().strip_prefix("pub use ")?;
        path.starts_with("heddle_")
            .then(|| path.trim_end_matches(';'))
    });
    assert_eq!(exported.collect::<Vec<_>>(), EXPORTED);
}

#[test]
fn crates_use_only_what_lies_below() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crates folder");
    let mut seen = BTreeSet::new();
    for entry in std::fs::read_dir(crates).expect("the crates folder") {
        let folder = entry.expect("an entry").path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        let (_, allowed) = LAYERS
            .iter()
            .find(|l| l.0 == name)
            .unwrap_or_else(|| panic!("{name} has no layer"));
        for used in dependencies(&manifest) {
            assert!(allowed.contains(&used), "{name} must not use {used}");
        }
        seen.insert(name);
    }
    assert_eq!(seen.len(), LAYERS.len(), "crates without a folder");
}

/// Our crates in the manifest's `[dependencies]`; tests may use what they like.
fn dependencies(manifest: &str) -> Vec<&str> {
    let section = manifest
        .split("\n[")
        .find_map(|s| s.strip_prefix("dependencies]"));
    let names = section
        .unwrap_or("")
        .lines()
        .filter_map(|l| l.split(['=', '.']).next());
    names
        .map(str::trim)
        .filter(|n| n.starts_with("heddle"))
        .collect()
}
