//! The fake CUDA driver and compiler (`libcuda.cpp`, `nvrtc.cpp`), built for tests by the system's C++ compiler.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The paths of both libraries.
pub struct Fake {
    /// The driver.
    pub libcuda: PathBuf,
    /// The same without a function that old drivers lack.
    pub old_libcuda: PathBuf,
    /// The compiler.
    pub nvrtc: PathBuf,
}

/// The libraries, which are built once for each version of their text.
pub fn fake() -> &'static Fake {
    static FAKE: OnceLock<Fake> = OnceLock::new();
    FAKE.get_or_init(|| {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fake-cuda");
        let here = here.canonicalize().expect("the folder of the fake driver");
        let sim = here.join("../../crates/heddle-runtime/include/sim.h");
        let build = |source: &str, name: &str, flag: &str| {
            let source = here.join(source);
            // Unit tests have no folder of their own.
            let beside = std::env::current_exe().expect("the test program");
            let folder = match option_env!("CARGO_TARGET_TMPDIR") {
                Some(folder) => Path::new(folder),
                None => beside.parent().expect("its folder"),
            };
            let product = folder.join(name);
            let time = |path: &Path| path.metadata().and_then(|m| m.modified()).ok();
            if time(&product) > time(&source) {
                return product;
            }
            // Other test programs may build it at the same time.
            let own = tempfile::NamedTempFile::new_in(folder).expect("a file in the target folder");
            let compiled = Command::new("g++")
                .args(["-std=c++17", "-O1", "-shared", "-fPIC", "-pthread", flag])
                .args([
                    "-fvisibility=hidden",
                    "-U_FORTIFY_SOURCE",
                    "-Wall",
                    "-Wextra",
                    "-Werror",
                ])
                .arg(&source)
                .arg("-o")
                .arg(own.path())
                .arg("-ldl")
                .status();
            assert!(compiled.is_ok_and(|s| s.success()), "{name} is not built");
            own.persist(&product).expect("it is moved to its place");
            product
        };
        Fake {
            libcuda: build("libcuda.cpp", "libfakecuda.so", "-DNEW"),
            old_libcuda: build("libcuda.cpp", "libfakecuda-old.so", "-DOLD"),
            nvrtc: build(
                "nvrtc.cpp",
                "libfakenvrtc.so",
                &format!("-DSIM_H=\"{}\"", sim.display()),
            ),
        }
    })
}

impl Fake {
    /// Has a process use them.
    pub fn give(&self, command: &mut Command, settings: &str) {
        command
            .env("HEDDLE_LIBCUDA", &self.libcuda)
            .env("HEDDLE_NVRTC", &self.nvrtc)
            .env("HEDDLE_FAKE_CUDA", settings);
    }
}

/// Numbers that the fake driver wrote at the end of a process, by name.
pub fn log(path: &Path) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(path).expect("the fake driver's log");
    let pairs = text.split([',', '\n']).filter_map(|item| {
        let (name, number) = item.trim().rsplit_once(' ')?;
        Some((name.replace("left ", ""), number.parse().ok()?))
    });
    pairs.collect()
}

/// The driver was used rightly, and has all back that it gave.
pub fn assert_clean(log: &BTreeMap<String, u64>) {
    let left = [
        "mistakes",
        "unfreed",
        "modules",
        "streams",
        "reservations",
        "pages",
    ];
    for name in left {
        assert_eq!(log[name], 0, "{name}: {log:?}");
    }
}

/// Runs the work of this test in a process with the fake driver, which has these settings; what the driver wrote down. `None` in that process.
pub fn in_child(test: &str, settings: &str) -> Option<BTreeMap<String, u64>> {
    const INSIDE: &str = "HEDDLE_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let mut child = Command::new(std::env::current_exe().unwrap());
    let settings = format!("log={},{settings}", path.display());
    fake().give(&mut child, settings.trim_end_matches(','));
    let child = child
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout) + String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{text}");
    let log = self::log(&path);
    assert_clean(&log);
    Some(log)
}
