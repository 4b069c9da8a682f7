//! A network with a matrix in each node moves few of them.

use std::path::Path;

use heddle::{CompileOptions, Emit, LoadOptions, Machine, Model, Step, Target, emit};

/// The maps over matrices of a set, in the schedule of MV-RNN for many trees.
fn maps(without: &[&str]) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/models/batching");
    let model = Model::load(&folder.join("mvrnn.heddle"), &LoadOptions::default());
    let model = model.expect("loads");
    let names = ["left", "right", "word"].map(String::from);
    let forms = model.batch_forms(&names).expect("has these inputs");
    let model = model.batched(&forms).expect("batches").model;
    let options = CompileOptions {
        machine: Some(Machine::named("reference:2").expect("a machine")),
        without: without
            .iter()
            .filter_map(|name| Step::named(name))
            .collect(),
        ..Default::default()
    };
    let dump = emit(&model, &options, Target::Cpu, Emit::Schedule);
    let schedule = dump.expect("compiles").to_string();
    let lines = schedule.lines().filter(|line| line.starts_with("op"));
    let maps =
        lines.filter(|line| line.contains("map [i0 < size") && line.contains("i1 < 64, i2 < 64]"));
    maps.map(str::to_string).collect()
}

#[test]
fn matrices_are_multiplied_where_they_lie() {
    // The words' matrices are read, and new ones written into the array of all nodes.
    let found = maps(&[]);
    assert_eq!(found.len(), 2, "{found:#?}");
    let found = maps(&["split_dots"]);
    assert!(found.len() > 2, "{found:#?}");
}
