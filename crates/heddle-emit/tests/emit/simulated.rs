//! CUDA text as the simulator's header (heddle-runtime's `sim.h`) builds it on the host: snapshots compile, and kernels by hand
//! run, or have their fault found.

use std::path::{Path, PathBuf};
use std::process::Command;

use heddle_emit::CUDA;

const SIM: &str = include_str!("../../../heddle-runtime/include/sim.h");
const KERNELS: &str = include_str!("../simulated/kernels.cu");
const DRIVER: &str = include_str!("../simulated/driver.cc");
/// Compiles a text as C++ behind the simulator's header, in a folder; gives the program.
fn compile(folder: &Path, name: &str, text: &str, flags: &[&str]) -> PathBuf {
    let (source, product) = (folder.join(format!("{name}.cu")), folder.join(name));
    std::fs::write(folder.join("sim.h"), SIM).unwrap();
    std::fs::write(&source, text).unwrap();
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let output = Command::new(compiler)
        .args(["-std=gnu++17", "-w", "-fno-exceptions", "-fno-rtti"])
        .args(["-fwrapv", "-fno-strict-aliasing", "-include", "sim.h"])
        .args(flags)
        .args(["-x", "c++"])
        .arg(&source)
        .arg("-o")
        .arg(&product)
        .current_dir(folder)
        .output()
        .expect("a C++ compiler");
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {messages}");
    product
}

#[test]
fn snapshots_are_host_cpp() {
    let folder = tempfile::tempdir().unwrap();
    let snapshots = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let mut compiled = 0;
    for entry in std::fs::read_dir(snapshots).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "cu") {
            let name = path.file_stem().unwrap().to_str().unwrap();
            let own = std::fs::read_to_string(&path).unwrap();
            let text = format!("{}\n{own}", CUDA.prelude());
            compile(folder.path(), name, &text, &["-fsyntax-only"]);
            compiled += 1;
        }
    }
    assert!(compiled > 10, "{compiled} snapshots");
}

/// A run of a kernel by hand.
#[derive(Debug)]
struct Run {
    /// The simulator's finding.
    finding: i64,
    /// Its line is one of the kernel's.
    in_kernel: bool,
    /// The first word of the output.
    out: i64,
    /// The launch's code.
    code: i64,
    /// Looks at words of the host: by block 0, by others.
    looks: [i64; 2],
}

/// A run for each warp and seed.
fn runs(case: u32) -> Vec<Run> {
    let folder = tempfile::tempdir().unwrap();
    let prelude = CUDA.prelude();
    let text = format!("#line 1000\n{prelude}\n#line 1\n{KERNELS}\n{DRIVER}");
    let define = format!("-DCASE={case}");
    let program = compile(folder.path(), "kernels", &text, &["-O1", &define]);
    let output = Command::new(program).output().unwrap();
    assert!(output.status.success(), "case {case}: {}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    let runs = text.lines().map(|line| {
        let words: Vec<i64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        Run {
            finding: words[0],
            in_kernel: (1..1000).contains(&words[1]),
            out: words[2],
            code: words[3],
            looks: [words[4], words[5]],
        }
    });
    let runs: Vec<_> = runs.collect();
    assert_eq!(runs.len(), 6);
    runs
}

#[test]
fn barriers_shuffles_and_shared_memory_work() {
    // 4 blocks with lanes 0 to 63, and lane 3 of each one's warp for each lane.
    let [narrow, wide] = [4 * (2016 + 32 * 3 + 32 * 35), 4 * (2016 + 64 * 3)];
    let found = runs(0);
    let sums: Vec<i64> = found.iter().map(|run| run.out).collect();
    assert_eq!(sums, [narrow, narrow, narrow, wide, wide, wide]);
    assert!(found.iter().all(|run| run.finding == 0));
}

#[test]
fn divergence_is_found() {
    let found = runs(1);
    assert!(found.iter().all(|run| run.finding == 1), "{found:?}");
    // The lanes that came first or those that came last are named.
    assert!(found.iter().any(|run| run.in_kernel), "{found:?}");
}

#[test]
fn deadlock_and_livelock_are_found() {
    for (case, finding) in [(2, 2), (3, 3)] {
        let found = runs(case);
        assert!(
            found
                .iter()
                .all(|run| run.finding == finding && run.in_kernel),
            "{found:?}"
        );
    }
}

#[test]
fn a_missing_barrier_shows_in_some_seed() {
    let found = runs(4);
    assert!(found.iter().any(|run| run.out != 256), "{found:?}");
}

#[test]
fn block_0_alone_looks_at_the_host_and_only_now_and_then() {
    for run in runs(6) {
        let [own, others] = run.looks;
        assert_eq!((run.finding, run.code, others), (0, 0, 0), "{run:?}");
        // There are 2,000 barriers, each of them several rounds of a microsecond.
        assert!((10..200).contains(&own), "{run:?}");
    }
}

#[test]
fn a_cancelled_run_ends_also_behind_block_0() {
    const CANCELLED: i64 = heddle_abi::schema::code::CANCELLED as i64;
    for (case, behind) in [(7, false), (8, true)] {
        for run in runs(case) {
            assert_eq!((run.finding, run.code), (0, CANCELLED), "{run:?}");
            // It was cancelled as iteration 500 began. A look comes at once or within 100 rounds.
            assert!((499..700).contains(&run.out), "{run:?}");
            assert_eq!(run.looks[1] > 0, behind, "{run:?}");
        }
    }
}

/// Clusters have two blocks.
#[test]
fn blocks_of_a_cluster_read_each_others_arrays() {
    // Blocks 0 to 3 with lanes 0 to 63 each.
    let all = 64 * 100 * (1 + 2 + 3) + 4 * 2016;
    for run in runs(10) {
        assert_eq!((run.finding, run.out), (0, all), "{run:?}");
    }
    let without = runs(11);
    assert!(without.iter().any(|run| run.out != all), "{without:?}");
    // Block 2 leaves out a barrier, so that block 3 meets it at another one.
    for run in runs(12) {
        assert!(run.finding == 1 && run.in_kernel, "{run:?}");
    }
}

/// A store to the copies of a cluster is to those of all its blocks, which run, and is there behind a barrier.
#[test]
fn blocks_of_a_cluster_store_to_each_others_arrays() {
    let all = 255 * 128;
    for run in runs(27) {
        assert_eq!((run.finding, run.out), (0, all), "{run:?}");
    }
    let without = runs(28);
    assert!(without.iter().any(|run| run.out != all), "{without:?}");
    for case in [29, 30] {
        for run in runs(case) {
            assert!(run.finding == 5 && run.in_kernel, "case {case}: {run:?}");
        }
    }
    let found = runs(31);
    let early = |run: &Run| run.finding == 5 && run.in_kernel;
    assert!(found.iter().any(early), "{found:?}");
}

#[test]
fn asynchronous_copies_are_there_when_they_were_waited_for() {
    for run in runs(13) {
        assert_eq!((run.finding, run.out), (0, 255 * 256), "{run:?}");
    }
    for case in [14, 15] {
        for run in runs(case) {
            assert!(run.finding == 6 && run.in_kernel, "case {case}: {run:?}");
        }
    }
}

/// The operands differ from small integers by 2^-13, which none of the types has. A warp multiplies them, then a warpgroup, which reads them
/// from shared memory.
#[test]
fn operands_of_tensor_cores_are_rounded() {
    for case in 16..=21 {
        let found = runs(case);
        let (narrow, wide) = found.split_at(3);
        for run in narrow {
            let right = (run.finding, run.code, run.out) == (0, 0, 0);
            assert!(right, "case {case}: {run:?}");
        }
        // Such instructions are those of warps of 32.
        for run in wide {
            assert!(run.finding == 1 && run.in_kernel, "case {case}: {run:?}");
        }
    }
}

#[test]
fn unordered_operands_and_sums_of_warpgroups_are_found() {
    for (case, finding) in [(22, 7), (23, 7), (24, 7), (25, 1)] {
        for run in &runs(case)[..3] {
            assert_eq!(run.finding, finding, "case {case}: {run:?}");
        }
    }
    // Sums are what they were.
    for run in &runs(26)[..3] {
        assert!(run.finding == 0 && run.out > 0, "{run:?}");
    }
}
