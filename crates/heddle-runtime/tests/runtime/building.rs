//! Compiler and cache, in good and bad conditions.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::common::{ADD, add_plan, cached, source};
use heddle_runtime::cache::{Cache, CacheChoice, Key};
use heddle_runtime::{BuildError, BuildOptions, CacheUse, Program};

/// A program that differs from others by its number.
fn numbered(number: usize) -> heddle_runtime::Source {
    source(
        "numbered",
        &format!("{ADD}\nint heddle_number(void) {{ return {number}; }}\n"),
        add_plan(),
    )
}

fn entries(folder: &Path, kind: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder.join("entries"))
        .into_iter()
        .flatten();
    let paths = files.map(|f| f.unwrap().path());
    paths
        .filter(|p| p.extension().is_some_and(|e| e == kind))
        .collect()
}

fn cache_use(number: usize, options: &BuildOptions) -> CacheUse {
    let program = Program::build(&numbered(number), options).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(program.about().inputs, 2);
    program.report().cache.clone()
}

#[test]
fn a_program_is_built_once() {
    let folder = tempfile::tempdir().unwrap();
    let options = cached(&folder.path().join("new/folder"));
    assert_eq!(cache_use(1, &options), CacheUse::Stored);
    assert_eq!(cache_use(1, &options), CacheUse::Hit);
    assert_eq!(cache_use(2, &options), CacheUse::Stored);
    let [entry] = &entries(&folder.path().join("new/folder"), "so")[..1] else {
        unreachable!("one is there")
    };
    // SAFETY: the entry was built from an emitted program just now.
    let loaded = unsafe { Program::load(entry, "loaded", add_plan(), Vec::new()) }.unwrap();
    assert_eq!(loaded.about().outputs, 1);
    let other_flags = BuildOptions {
        optimize: Some(2),
        ..options.clone()
    };
    assert_eq!(cache_use(1, &other_flags), CacheUse::Stored);
    assert_eq!(cache_use(1, &options), CacheUse::Hit);
    let off = BuildOptions {
        cache: CacheChoice::Off,
        ..options
    };
    assert!(matches!(cache_use(1, &off), CacheUse::Uncached(_)));
}

#[test]
fn broken_entries_are_built_again() {
    let folder = tempfile::tempdir().unwrap();
    let options = cached(folder.path());
    cache_use(1, &options);
    let [entry] = &entries(folder.path(), "so")[..] else {
        panic!("one entry")
    };
    let whole = std::fs::read(entry).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for broken in [
        &flipped[..],
        &whole[..whole.len() / 2],
        &whole[..whole.len() - 1],
        b"",
        b"x",
    ] {
        // A new file, as a crash would leave it: the old one is loaded in this process.
        std::fs::remove_file(entry).unwrap();
        std::fs::write(entry, broken).unwrap();
        assert_eq!(cache_use(1, &options), CacheUse::Stored);
        assert_eq!(cache_use(1, &options), CacheUse::Hit);
    }
}

#[test]
fn the_cache_is_bounded_and_forgets_the_least_recently_used() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(&CacheChoice::At(folder.path().to_owned()), 10_000);
    let key = |n: u8| Key::new(&[&[n]]);
    for n in 0..9 {
        let path = cache.put("test", key(n), &[n; 1000]).unwrap();
        let used = SystemTime::now() - Duration::from_secs(10_000 - 100 * u64::from(n));
        std::fs::File::open(path)
            .unwrap()
            .set_modified(used)
            .unwrap();
    }
    assert_eq!(entries(folder.path(), "test").len(), 9);
    // Used again: now 1 is the oldest.
    assert_eq!(cache.get("test", key(0)).unwrap(), [0; 1000]);
    cache.put("test", key(9), &[9; 3000]).unwrap();
    let left: Vec<u8> = (0..10)
        .filter(|n| cache.get("test", key(*n)).is_some())
        .collect();
    assert_eq!(left, [0, 4, 5, 6, 7, 8, 9]);
    cache.put("test", key(10), &[10; 20_000]).unwrap();
    assert!(cache.get("test", key(10)).is_some() && cache.get("test", key(9)).is_none());
}

#[test]
fn folders_that_cannot_be_used_are_not() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let open = folder.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
    for bad in [
        file.clone(),
        file.join("below"),
        "/proc/heddle".into(),
        open,
    ] {
        let CacheUse::Uncached(why) = cache_use(1, &cached(&bad)) else {
            panic!("{bad:?}")
        };
        assert!(why.contains(bad.to_str().unwrap()), "{why}");
    }
}

#[test]
fn what_the_compiler_says_is_kept() {
    let options = BuildOptions {
        cache: CacheChoice::Off,
        ..BuildOptions::default()
    };
    let text = format!("{ADD}\nint broken(void) {{ return unheard_of; }}\n");
    let error = Program::build(&source("broken", &text, add_plan()), &options).unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, BuildError::Compile { .. }));
    let line = text.lines().count();
    assert!(
        said.contains("unheard_of") && said.contains(&format!("program.c:{line}:")),
        "{said}"
    );
    for (text, symbol) in [
        ("", "heddle_program"),
        ("HEDDLE_PROGRAM(2, 1, 0, 1, 0);", "heddle_main"),
    ] {
        let error = Program::build(&source("empty", text, add_plan()), &options).unwrap_err();
        assert!(
            matches!(error, BuildError::Symbol { symbol: s, .. } if s == symbol),
            "{error}"
        );
    }
    for counts in [
        "2, 1, 1, 1, 0",
        "1, 1, 0, 1, 0",
        "-1, 1, 0, 1, 0",
        "2, 1, 0, 1, 1ll << 60",
    ] {
        let text = ADD.replace("2, 1, 0, 1, 0", counts);
        let error = Program::build(&source("counts", &text, add_plan()), &options).unwrap_err();
        assert!(matches!(error, BuildError::Counts { .. }), "{error}");
    }
}

#[test]
fn a_compiler_that_does_not_work_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for bad in [
        "heddle-no-such-compiler",
        "/no/such/compiler",
        "true",
        "false -x",
        "  ",
        "/",
    ] {
        let options = BuildOptions {
            compiler: Some(bad.to_owned()),
            ..cached(folder.path())
        };
        let error = Program::build(&numbered(1), &options).unwrap_err();
        let said = error.to_string();
        assert!(
            matches!(&error, BuildError::NoCompiler { probed, .. } if probed[0].0 == bad),
            "{said}"
        );
        assert!(said.contains(bad) && said.contains("HEDDLE_CC"), "{said}");
    }
    let with_arguments = BuildOptions {
        compiler: Some("cc -O2".to_owned()),
        ..cached(folder.path())
    };
    assert_eq!(cache_use(1, &with_arguments), CacheUse::Stored);
}

// The following tests need their own processes: this test program, told its part by a variable.

const PART: &str = "HEDDLE_TEST_PART";

/// Calls this test program; `shell` stands before it, with `$0` its path.
fn child(part: &str, cache: &Path, shell: Option<&str>) -> Command {
    let me = std::env::current_exe().unwrap();
    let mut command = match shell {
        None => Command::new(&me),
        Some(script) => {
            let mut command = Command::new("unshare");
            command
                .args([
                    "-rm",
                    "sh",
                    "-c",
                    &format!("{script} && exec \"$0\" \"$@\""),
                ])
                .arg(&me);
            command
        }
    };
    command.args([
        "--exact",
        "building::part",
        "--nocapture",
        "--test-threads=1",
    ]);
    command
        .env(PART, part)
        .env("HEDDLE_CACHE", cache)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn must_succeed(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    text
}

/// True if the system allows private mounts.
fn can_mount() -> bool {
    let tried = Command::new("unshare")
        .args(["-rm", "true"])
        .stderr(Stdio::null())
        .status();
    let can = tried.is_ok_and(|s| s.success());
    if !can {
        eprintln!("skipped: no mounts of our own here");
    }
    can
}

#[test]
fn part() {
    let options = BuildOptions::default();
    match std::env::var(PART).as_deref() {
        // Builds one program and says what the cache did.
        Ok("one") => println!("{:?}", cache_use(1, &options)),
        // Builds program after program until it is killed.
        Ok("many") => (0..1_000_000).for_each(|n| drop(cache_use(n % 5, &options))),
        Ok("no compiler") => {
            let error = Program::build(&numbered(1), &options).unwrap_err();
            println!("{error}");
        }
        Ok("no room") => {
            let error = Program::build(&numbered(1), &options).unwrap_err();
            assert!(matches!(error, BuildError::Io { .. }), "{error:?}");
            println!("{error}");
        }
        _ => {}
    }
}

#[test]
fn ten_processes_build_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let children: Vec<Child> = (0..10)
        .map(|_| child("one", folder.path(), None).spawn().unwrap())
        .collect();
    let said: Vec<String> = children.into_iter().map(must_succeed).collect();
    assert_eq!(
        said.iter().filter(|s| s.contains("Stored")).count(),
        1,
        "{said:?}"
    );
    assert_eq!(
        said.iter().filter(|s| s.contains("Hit")).count(),
        9,
        "{said:?}"
    );
    assert_eq!(entries(folder.path(), "so").len(), 1);
}

#[test]
fn killed_builds_leave_a_cache_that_works() {
    let folder = tempfile::tempdir().unwrap();
    let options = cached(folder.path());
    for round in 0..20 {
        let mut builder = child("many", folder.path(), None).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(10 + 23 * round));
        builder.kill().unwrap();
        builder.wait().unwrap();
        if round % 5 == 4 {
            // Each program is either whole or not there.
            (0..5).for_each(|n| drop(cache_use(n, &options)));
            entries(folder.path(), "so")
                .iter()
                .for_each(|e| std::fs::remove_file(e).unwrap());
        }
    }
    (0..5).for_each(|n| assert_eq!(cache_use(n, &options), CacheUse::Stored));
    (0..5).for_each(|n| assert_eq!(cache_use(n, &options), CacheUse::Hit));
}

#[test]
fn without_a_compiler_the_message_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let run = |hide: &dyn Fn(&mut Command)| {
        let mut command = child("no compiler", folder.path(), None);
        hide(command.env_remove("HEDDLE_CC"));
        must_succeed(command.spawn().unwrap())
    };
    let said = run(&|c| _ = c.env("PATH", folder.path()));
    for part in [
        "clang: not found on PATH",
        "cc: not",
        "gcc: not",
        "HEDDLE_CC",
        "apt install",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert!(run(&|c| _ = c.env_remove("PATH")).contains("clang: not found on PATH"));
    let said = run(&|c| _ = c.env("HEDDLE_CC", "/bogus/cc"));
    assert!(said.contains("/bogus/cc: no such program"), "{said}");
}

#[test]
fn a_read_only_cache_is_read() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "mount --bind \"$HEDDLE_CACHE\" \"$HEDDLE_CACHE\" && \
                  mount -o remount,ro,bind \"$HEDDLE_CACHE\"";
    let run = || must_succeed(child("one", folder.path(), Some(script)).spawn().unwrap());
    let said = run();
    assert!(
        said.contains("Uncached") && said.contains("ead-only"),
        "{said}"
    );
    assert_eq!(cache_use(1, &cached(folder.path())), CacheUse::Stored);
    assert!(run().contains("Hit"));
}

#[test]
fn a_full_disk_is_worked_around_or_named() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // From no room for anything to room for all but the entry.
    for size in ["4k", "24k", "36k", "48k", "60k"] {
        let script = format!("mount -t tmpfs -o mode=700,size={size} none \"$HEDDLE_CACHE\"");
        let said = must_succeed(child("one", folder.path(), Some(&script)).spawn().unwrap());
        let room = ["No space left", "Stored"];
        assert!(room.iter().any(|r| said.contains(r)), "{size}: {said}");
        // The compiler is known, but nothing can be built anywhere.
        let script = format!("mount -t tmpfs -o mode=700,size={size} none \"$TMPDIR\"");
        let mut command = child("no room", Path::new("/proc/none"), Some(&script));
        command.env("TMPDIR", folder.path());
        if size == "4k" || size == "24k" {
            let said = must_succeed(command.spawn().unwrap());
            assert!(
                said.contains("No space left") && said.contains("TMPDIR"),
                "{size}: {said}"
            );
        }
    }
}
