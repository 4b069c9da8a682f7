//! `--packed`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::setup::Scratch;

const MODEL: &str = "\
fn @main(%x: f32[n,256]) -> (%y: f32[n,256]) {
  %w = const file(\"w\", 0, 262144): f32[256,256]
  %y = tanh(dot(%x, %w))
  return %y
}
";

/// A folder with a model whose weights have a file that other processes know as well.
fn model() -> Scratch {
    let s = Scratch::new();
    let values = (0..256 * 256).map(|i| (i * 37 % 101) as f32 / 400.0 - 0.125);
    s.write("w", values.flat_map(f32::to_le_bytes).collect::<Vec<_>>());
    s.write("m.heddle", MODEL);
    let whole_second = fs::metadata(s.path("w")).unwrap().ctime_nsec() == 0;
    let wait = if whole_second { 2100 } else { 150 };
    std::thread::sleep(Duration::from_millis(wait));
    s
}

/// Runs the model with a cache; its output.
fn run(s: &Scratch, options: &str, cache: &str) -> Vec<u8> {
    let command = format!("run m.heddle --random 0 -o out.npz --threads 2 {options}");
    let cache = s.path(cache);
    s.heddle_with(&command, |c| {
        c.env("HEDDLE_CACHE", cache);
    })
    .ok();
    s.array("out.npz", "y")
}

/// Stored weights: paths, inodes and times.
fn stored(s: &Scratch, cache: &str) -> Vec<(PathBuf, u64, i64)> {
    let entries = fs::read_dir(s.path(cache).join("entries")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let weights = paths.filter(|path| path.extension().is_some_and(|e| e == "weights"));
    weights
        .map(|path| {
            let meta = path.metadata().unwrap();
            (path, meta.ino(), meta.mtime_nsec())
        })
        .collect()
}

#[test]
fn weights_are_packed_by_the_first_process() {
    let s = model();
    let want = run(&s, "", "cache");
    assert_eq!(stored(&s, "cache"), []);
    assert_eq!(run(&s, "--packed cache", "cache"), want);
    let first = stored(&s, "cache");
    assert_eq!(first.len(), 1);
    assert_eq!(run(&s, "--packed cache", "cache"), want);
    assert_eq!(stored(&s, "cache"), first);
    let (path, ..) = &first[0];
    let good = fs::read(path).unwrap();
    fs::remove_file(path).unwrap();
    fs::write(path, &good[..good.len() / 2]).unwrap();
    assert_eq!(run(&s, "--packed cache", "cache"), want);
    assert_eq!(fs::read(path).unwrap(), good);
    // Other weights of the same name and size.
    let mut weights = fs::read(s.path("w")).unwrap();
    weights[..4].copy_from_slice(&1f32.to_le_bytes());
    s.write("w", weights);
    assert_ne!(run(&s, "--packed cache", "cache"), want);
}

#[test]
fn weights_stay_in_memory_without_a_cache() {
    let s = model();
    let want = run(&s, "--packed memory", "cache");
    s.write("file", "");
    assert_eq!(run(&s, "--packed cache", "file"), want);
}
