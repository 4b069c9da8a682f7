//! Constants in memory: each content in each layout is there once in a process, tables stay in
//! their file, and what nobody uses is freed.
//!
//! A program of its own: tests count the constants that the whole process holds.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use heddle::{
    CompileOptions, Device, Inputs, LoadOptions, Model, Program, RunOptions, Step, Tensor,
    Tolerance, Value, compare, compile,
};
use heddle_runtime::weights::{Held, held};

/// A decoder's ends: rows of an embedding, a product, and the product with the embedding.
const TIED: &str = "\
fn @main(%ids: i64[n]) -> (%y: f32[n,2048]) {
  %e = const file(\"w\", OFFSET, 131072): f32[2048,16]
  %w = const file(\"w\", NEXT, 3072): f32[16,48]
  %v = const file(\"w\", NEXT, 3072): f32[48,16]
  %x = gather(%e, %ids, axis=0)
  %h = tanh(dot(dot(%x, %w), %v))
  %y = dot(%h, transpose(%e, perm=[1,0]))
  return %y
}
";

/// A loop that collects in a sequence, which is the interpreter's, with the weight before, in and
/// behind it.
const PARTS: &str = "\
fn @main(%x: f32[n,256], %limit: f32[]) -> (%y: f32[?,256], %z: f32[n,256]) {
  %w = const file(\"w\", OFFSET, 262144): f32[256,256]
  %big = tanh(dot(%x, %w))
  %row = gather(%big, const [0], axis=0)
  %h, %found = loop %i while const true carry (%h: f32[1,256] = %row, %l: seq<f32[?,256]> = seq_new(%row)) {
    %h2 = tanh(dot(tanh(dot(%h, %w)), %w))
    %l2 = seq_insert(%l, %h2, seq_len(%l))
    %large = gt(reduce(abs(%h2), kind=max, axes=[0,1], keep=false), %limit)
    %few = lt(%i, 5)
    continue while min(%large, %few) carry mul(%h2, 0.875), %l2
  }
  %y = seq_concat(%found, axis=0, stack=false)
  %z = tanh(dot(tanh(dot(%big, %w)), %w))
  return %y, %z
}
";

const NOTHING: Held = Held {
    buffers: 0,
    bytes: 0,
};

/// The panels of the embedding, of 16 columns each, and those of the two weights.
const TIED_PANELS: Held = Held {
    buffers: 3,
    bytes: (2048 * 16 + 16 * 48 + 48 * 16) * 4,
};

/// Tests look at what the whole process holds, so one runs at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a program and its weights, which begin at an offset, to a folder.
fn write(folder: &tempfile::TempDir, text: &str, offset: usize) -> PathBuf {
    let (first, count) = match text == TIED {
        true => (131072, 131072 / 4 + 2 * 768),
        false => (262144, 262144 / 4),
    };
    let values = (0..count).map(|i| (i * 37 % 101) as f32 / 400.0 - 0.125);
    let mut weights = vec![0xff; offset];
    weights.extend(values.flat_map(f32::to_le_bytes));
    fs::write(folder.path().join("w"), weights).unwrap();
    let path = folder.path().join("m.heddle");
    let text = text.replace("OFFSET", &offset.to_string());
    fs::write(&path, text.replace("NEXT", &(offset + first).to_string())).unwrap();
    // Until then the file may change unnoticed, and is not shared.
    let whole_second = fs::metadata(folder.path().join("w")).unwrap().ctime_nsec() == 0;
    let wait = if whole_second { 2100 } else { 150 };
    std::thread::sleep(Duration::from_millis(wait));
    path
}

fn load(path: &Path) -> Model {
    Model::load(path, &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn program(model: &Model, device: Device, threads: usize) -> Program {
    let options = CompileOptions {
        device,
        threads: Some(threads),
        // Sequences have no compiled form without it.
        without: vec![Step::named("flatten_sequences").unwrap()],
        ..Default::default()
    };
    compile(model, &options).unwrap_or_else(|e| panic!("{e}"))
}

/// A program runs like the interpreter.
fn check(model: &Model, program: &Program, inputs: &[(&str, Value)]) {
    let inputs: Inputs = inputs
        .iter()
        .map(|(n, v)| (n.to_string(), v.clone()))
        .collect();
    let run = |program: &Program| program.run(inputs.clone(), &RunOptions::default()).unwrap();
    let (got, want) = (run(program), run(&self::program(model, Device::Interp, 1)));
    let tolerance = Tolerance {
        rtol: 1e-4,
        atol: 1e-5,
        exact_integers: true,
        any_float: false,
    };
    for ((name, got), (_, want)) in got.outputs.iter().zip(&want.outputs) {
        compare(got, want, &tolerance).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

fn ids() -> [(&'static str, Value); 1] {
    [(
        "ids",
        Tensor::from_slice(vec![5], &[0i64, 2047, 3, 1000, -1]).into(),
    )]
}

#[test]
fn a_tied_embedding_is_packed_and_stays_in_its_file_at_any_offset() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for offset in 0..8 {
        let model = load(&write(&folder, TIED, offset));
        let program = program(&model, Device::Cpu, 2);
        assert_eq!(held(), TIED_PANELS, "offset {offset}");
        check(&model, &program, &ids());
    }
    assert_eq!(held(), NOTHING);
}

#[test]
fn programs_and_models_share_constants() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = write(&folder, TIED, 4);
    let [first, second] = [(); 2].map(|()| load(&path));
    let programs = [(&first, 1), (&first, 2), (&second, 2)];
    let programs = programs.map(|(model, threads)| program(model, Device::Cpu, threads));
    assert_eq!(held(), TIED_PANELS);
    drop(first);
    programs
        .iter()
        .for_each(|program| check(&second, program, &ids()));
    let mut programs = programs.into_iter();
    let last = programs.next();
    drop(programs);
    assert_eq!(held(), TIED_PANELS);
    drop(last);
    assert_eq!(held(), NOTHING);
}

#[test]
fn constants_of_a_text_are_shared_by_content() {
    let _alone = alone();
    let row = |from: usize| {
        (0..64)
            .map(|i| format!("{}.5", from + i))
            .collect::<Vec<_>>()
    };
    let rows: Vec<_> = (0..64)
        .map(|r| format!("[{}]", row(r).join(", ")))
        .collect();
    let text = format!(
        "fn @main(%x: f32[4,64]) -> (%y: f32[4,64]) {{
  %w = const [{}]: f32[64,64]
  %y = dot(%x, %w)
  return %y
}}",
        rows.join(", ")
    );
    let models = [(); 2].map(|()| Model::parse("m", &text).unwrap());
    let programs = models.map(|model| program(&model, Device::Cpu, 1));
    let weight = Held {
        buffers: 1,
        bytes: 64 * 64 * 4,
    };
    assert_eq!(held(), weight);
    drop(programs);
    assert_eq!(held(), NOTHING);
}

#[test]
fn parts_share_constants() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let model = load(&write(&folder, PARTS, 1));
    let program = program(&model, Device::Cpu, 2);
    let parts = program
        .report()
        .interpreted
        .as_ref()
        .unwrap()
        .compiled_parts;
    assert!(parts >= 2, "{parts}");
    let weights = held();
    assert!(weights.bytes < 2 * 262144, "{weights:?}");
    let x: Vec<f32> = (0..512).map(|i| (i % 17) as f32 / 17.0).collect();
    let x = Tensor::from_slice(vec![2, 256], &x).into();
    check(
        &model,
        &program,
        &[("x", x), ("limit", Tensor::scalar(0f32).into())],
    );
}

#[test]
fn a_file_that_is_written_anew_has_other_constants() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = write(&folder, TIED, 0);
    let old = program(&load(&path), Device::Cpu, 1);
    // A new file of the same name, size and weights but one.
    let file = folder.path().join("w");
    let mut weights = fs::read(&file).unwrap();
    weights[131072 + 1] ^= 0x10;
    fs::remove_file(&file).unwrap();
    fs::write(&file, weights).unwrap();
    let model = load(&path);
    let new = program(&model, Device::Cpu, 1);
    assert_eq!(held().buffers, 2 * TIED_PANELS.buffers);
    check(&model, &new, &ids());
    drop(old);
    check(&model, &new, &ids());
}
