//! CUDA text as the simulator's header (heddle-runtime's `sim.h`) builds it on the host: snapshots compile, and kernels by hand
//! run, or have their fault found.

use std::path::{Path, PathBuf};
use std::process::Command;

const SIM: &str = include_str!("../../../heddle-runtime/include/sim.h");
const KERNELS: &str = include_str!("../simulated/kernels.cu");
const DRIVER: &str = include_str!("../simulated/driver.cc");
/// The CUDA prelude, as `dialect.rs` joins it.
const PRELUDE: &str = concat!(
    include_str!("../../src/prelude/cuda.h"),
    include_str!("../../src/prelude/teams.h"),
    include_str!("../../src/prelude/integer.h"),
    include_str!("../../src/prelude/random.h"),
    include_str!("../../src/prelude/float.h"),
    include_str!("../../src/prelude/math.h"),
    include_str!("../../src/prelude/small.h"),
    include_str!("../../src/prelude/rows.h"),
);

/// A folder that is removed with its files.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("heddle-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("sim.h"), SIM).unwrap();
        Self(folder)
    }

    /// Compiles a text as C++ behind the simulator's header.
    fn compile(&self, name: &str, text: &str, flags: &[&str]) -> PathBuf {
        let (source, product) = (self.0.join(format!("{name}.cu")), self.0.join(name));
        std::fs::write(&source, text).unwrap();
        let output = Command::new("g++")
            .args(["-std=gnu++17", "-w", "-fno-exceptions", "-fno-rtti"])
            .args(["-fwrapv", "-fno-strict-aliasing", "-include", "sim.h"])
            .args(flags)
            .args(["-x", "c++"])
            .arg(&source)
            .arg("-o")
            .arg(&product)
            .current_dir(&self.0)
            .output()
            .expect("g++");
        let messages = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {messages}");
        product
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn snapshots_are_host_cpp() {
    let folder = Folder::new("simulated-snapshots");
    let snapshots = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let mut compiled = 0;
    for entry in std::fs::read_dir(snapshots).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "cu") {
            let name = path.file_stem().unwrap().to_str().unwrap();
            let text = format!("{PRELUDE}\n{}", std::fs::read_to_string(&path).unwrap());
            folder.compile(name, &text, &["-fsyntax-only"]);
            compiled += 1;
        }
    }
    assert!(compiled > 10, "{compiled} snapshots");
}

/// For each warp and seed: the finding, whether its line is one of the kernel's, and the output.
fn runs(case: u32) -> Vec<(i32, bool, i64)> {
    let folder = Folder::new(&format!("simulated-{case}"));
    let text = format!("#line 1000\n{PRELUDE}\n#line 1\n{KERNELS}\n{DRIVER}");
    let define = format!("-DCASE={case}");
    let program = folder.compile("kernels", &text, &["-O1", &define]);
    let output = Command::new(program).output().unwrap();
    assert!(output.status.success(), "case {case}: {}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    let runs = text.lines().map(|line| {
        let words: Vec<i64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let in_kernel = (1..1000).contains(&words[1]);
        (words[0] as i32, in_kernel, words[2])
    });
    let runs: Vec<_> = runs.collect();
    assert_eq!(runs.len(), 6);
    runs
}

#[test]
fn barriers_shuffles_and_shared_memory_work() {
    // 4 blocks with lanes 0 to 63, and lane 3 of each one's warp for each lane.
    let [narrow, wide] = [4 * (2016 + 32 * 3 + 32 * 35), 4 * (2016 + 64 * 3)];
    let sums: Vec<i64> = runs(0).iter().map(|run| run.2).collect();
    assert_eq!(sums, [narrow, narrow, narrow, wide, wide, wide]);
    assert!(runs(0).iter().all(|run| run.0 == 0));
}

#[test]
fn divergence_is_found() {
    let found = runs(1);
    assert!(found.iter().all(|run| run.0 == 1), "{found:?}");
    // The lanes that came first or those that came last are named.
    assert!(found.iter().any(|run| run.1), "{found:?}");
}

#[test]
fn deadlock_and_livelock_are_found() {
    for (case, finding) in [(2, 2), (3, 3)] {
        let found = runs(case);
        assert!(
            found.iter().all(|run| (run.0, run.1) == (finding, true)),
            "{found:?}"
        );
    }
}

#[test]
fn a_missing_barrier_shows_in_some_seed() {
    let found = runs(4);
    assert!(found.iter().any(|run| run.2 != 256), "{found:?}");
}
