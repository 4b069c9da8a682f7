//! Each step of compiling has a program in benches/steps where it pays. Each changes that program's
//! text here; `make bench-steps` measures by how much it gets faster.

use std::collections::BTreeSet;
use std::path::PathBuf;

use heddle::{CompileOptions, Emit, LoadOptions, Model, STEPS, Step, Target};

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/steps"))
}

/// Steps that change programs for GPUs alone.
const ON_GPUS: &[&str] = &[
    "align_gathered",
    "gather_state",
    "join_lanes",
    "keep_resident",
    "keep_state",
    "mirror_state",
    "spread_shares",
];

/// The program's text without some steps, or the reason why it has no compiled form.
fn source(model: &Model, target: Target, without: &[Step]) -> String {
    let mut options = CompileOptions {
        threads: Some(2),
        verify: true,
        ..CompileOptions::default()
    };
    options.without = without.to_vec();
    let dump = heddle::emit(model, &options, target, Emit::Source);
    dump.map_or_else(|e| e.to_string(), |dump| dump.to_string())
}

#[test]
fn each_step_changes_the_program_where_it_pays() {
    let mut idle = vec![];
    for step in STEPS.iter() {
        let path = folder().join(step.name).with_extension("heddle");
        let model = Model::load(&path, &LoadOptions::default());
        let model = model.unwrap_or_else(|e| panic!("{}: {e}", step.name));
        let on_gpu = ON_GPUS.contains(&step.name);
        let target = if on_gpu { Target::Cuda } else { Target::Cpu };
        let with_it = source(&model, target, &[]);
        assert!(with_it.contains("HEDDLE_MAIN"), "{}: {with_it}", step.name);
        if with_it == source(&model, target, &[*step]) {
            idle.push(step.name);
        }
    }
    assert!(idle.is_empty(), "steps that change nothing: {idle:?}");
}

#[test]
fn each_program_is_of_a_step() {
    let files = std::fs::read_dir(folder()).expect("benches/steps");
    let files = files.map(|f| f.expect("an entry").path());
    let stems: BTreeSet<_> = files
        .map(|f| f.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let steps: BTreeSet<_> = STEPS.iter().map(|s| s.name.to_string()).collect();
    assert_eq!(stems, steps);
}
