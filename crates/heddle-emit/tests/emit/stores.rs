//! Units store only elements of their own, whatever the compiler makes of their loops.

use crate::harness::{Case, drawn};
use heddle_runtime::cache::CacheChoice;
use heddle_runtime::{BuildOptions, Program};

/// The report of GCC's predictive commoning on a program built with these flags and ours; empty if it does not run.
fn commoning(case: &Case, flags: &[&str]) -> Option<String> {
    let directory = tempfile::tempdir().expect("a directory");
    let report = directory.path().join("commoning");
    let dump = format!("-fdump-tree-pcom-details={}", report.display());
    let options = BuildOptions {
        compiler: Some("gcc".into()),
        cache: CacheChoice::Off,
        optimize: Some(3),
        extra_flags: flags.iter().map(|f| f.to_string()).chain([dump]).collect(),
        ..Default::default()
    };
    if let Err(e) = Program::build(&case.source, &options) {
        eprintln!("skipped: {e}");
        return None;
    }
    Some(std::fs::read_to_string(&report).unwrap_or_default())
}

/// Two windows store their elements at `position` and `2 + position`. A loop over windows would store the first window's
/// second element again two iterations later: GCC drops that store, and after the loop stores the last two such elements,
/// which a unit that runs one iteration alone did not have to: one of them is the other unit's, with what it held before.
#[test]
fn of_interleaved_elements() {
    let (module, inputs) = drawn(
        "windows",
        "fn @main(%x: f32[3]) -> (%y: f32[2]) {
  %y = window(%x, [0, 1], kind=prod, window=[2], strides=[2])
  return %y
}",
        1,
        7,
    );
    let case = Case::new("windows", module, &inputs).expect("compiled");
    let Some(report) = commoning(&case, &[]) else {
        return;
    };
    let stores = "Store-stores chain";
    assert!(!report.contains(stores), "{report}");
    let report = commoning(&case, &["-fpredictive-commoning"]).expect("it was built before");
    if !report.contains(stores) {
        eprintln!("this GCC keeps all stores, whatever the flags");
    }
}
