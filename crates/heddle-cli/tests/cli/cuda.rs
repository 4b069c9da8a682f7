//! `--device cuda` on the fake driver: results, what is copied and launched, and each error with its exit code.

use std::path::Path;

use crate::fake_cuda::{Fake, assert_clean, fake, log};
use crate::setup::{Done, Scratch, doubler};

/// Runs a command on the fake driver with settings of it.
fn on_fake(s: &Scratch, args: &str, settings: &str) -> Done {
    let settings = [settings, &format!("log={}", s.path("log").display())];
    let settings = settings.into_iter().filter(|part| !part.is_empty());
    let settings = settings.collect::<Vec<_>>().join(",");
    s.heddle_with(args, |command| fake().give(command, &settings))
}

/// The driver was used rightly, and has all back that it gave.
fn nothing_is_left(s: &Scratch) {
    assert_clean(&log(&s.path("log")));
}

const RUN: &str = "run m.heddle -i in.npz --device cuda";

#[test]
fn models_run_on_the_device() {
    let s = doubler();
    let check = "check m.heddle -i in.npz --expect want.npz --device cuda --verify";
    for settings in ["", "sms=1,threads=32", "seed=5,threads=128,sms=3"] {
        on_fake(&s, check, settings).ok();
        nothing_is_left(&s);
    }
    let run = on_fake(&s, &format!("{RUN} -o out.npz"), "");
    assert_eq!(run.err, "", "nothing is left to the interpreter");
    run.ok();
    assert_eq!(s.elements::<f32>("out.npz", "y").1, [4.0, -8.0, 2.0]);
}

#[test]
fn runs_in_a_row_copy_their_inputs_once() {
    let s = doubler();
    let bench = "bench m.heddle -i in.npz --seconds 0.01 --device cuda --json -";
    assert_eq!(on_fake(&s, bench, "").json()["device"], "cuda");
    nothing_is_left(&s);
    let log = log(&s.path("log"));
    let (launches, copies) = (log["cuLaunchKernelEx"], log["cuMemcpyHtoDAsync_v2"]);
    assert!(launches >= 5, "{log:?}");
    // Constants and their addresses, the inputs, the arguments of launches.
    let constants = log["cuMemAlloc_v2"];
    assert!(copies <= constants + 3, "{launches} launches: {log:?}");
    on_fake(&s, &format!("{bench} --compare trace"), "").ok();
    nothing_is_left(&s);
    on_fake(&s, &format!("{bench} --compare host"), "").fails(4, &["runs the control flow itself"]);
}

#[test]
fn cases_and_saved_programs_run() {
    let s = doubler();
    crate::suite::case(&s, "cases/a", "neg", -1.0);
    crate::suite::case(&s, "cases/b", "exp", 2.7182817);
    let test = "test cases --device cuda --min-compiled 100";
    let text = on_fake(&s, test, "").ok();
    assert!(
        text.ends_with("2 passed, 0 failed, 0 unsupported\n"),
        "{text}"
    );
    nothing_is_left(&s);
    s.heddle("compile m.heddle --save m.hprog").ok();
    let run = "run m.hprog -i in.npz -o out.npz --device cuda";
    on_fake(&s, run, "").ok();
    assert_eq!(s.elements::<f32>("out.npz", "y").1, [4.0, -8.0, 2.0]);
}

#[test]
fn a_missing_or_unfit_device_is_named_with_the_remedy() {
    let s = doubler();
    crate::suite::case(&s, "a", "neg", -1.0);
    s.heddle("compile m.heddle --save m.hprog").ok();
    let cpu = "--device cpu runs models without a GPU";
    let with = |cuda: &Path, nvrtc: &Path, settings: &str, args: &str| {
        s.heddle_with(args, |command| {
            let own = Fake {
                libcuda: cuda.into(),
                old_libcuda: cuda.into(),
                nvrtc: nvrtc.into(),
            };
            own.give(command, settings);
        })
    };
    let Fake {
        libcuda,
        old_libcuda,
        nvrtc,
    } = fake();
    let none = Path::new("/bogus/library.so");
    with(none, nvrtc, "", RUN).fails(
        7,
        &["no CUDA driver", "/bogus/library.so", "HEDDLE_LIBCUDA", cpu],
    );
    with(old_libcuda, nvrtc, "driver=10010", RUN).fails(
        7,
        &["for CUDA 10.1", "no function `cuMemCreate`", "too old", cpu],
    );
    with(libcuda, none, "", RUN).fails(
        7,
        &[
            "no NVRTC",
            "/bogus/library.so",
            "CUDA_HOME",
            "HEDDLE_NVRTC",
            cpu,
        ],
    );
    for (settings, words) in [
        ("devices=0", "finds no device"),
        ("cooperative=0", "has no cooperative launches"),
        ("mapping=0", "whose addresses are reserved"),
        ("blocks=0", "0 of them can be on Fake GPU at once"),
        (
            "fail=cuInit:1:3",
            "cuInit failed with status 3: CUDA_ERROR_NOT_INITIALIZED",
        ),
        (
            "fail=cuDevicePrimaryCtxRetain:1:101",
            "cuDevicePrimaryCtxRetain failed",
        ),
    ] {
        with(libcuda, nvrtc, settings, RUN).fails(7, &[words, cpu]);
    }
    for (arch, words) in [
        (
            "sm_12",
            "does not build for `sm_12`; it builds for sm_75, sm_80",
        ),
        ("hopper", "does not build for `hopper`"),
        (
            "sm_80",
            "a program for sm_80 does not run on Fake GPU, which is sm_90",
        ),
    ] {
        with(libcuda, nvrtc, "", &format!("{RUN} --arch {arch}")).fails(7, &[words, cpu]);
    }
    with(libcuda, nvrtc, "", &format!("{RUN} --arch sm_90")).ok();
    for command in [
        "check m.heddle -i in.npz --expect want.npz --device cuda",
        "bench m.heddle -i in.npz --device cuda",
        "test . --device cuda",
        "run m.hprog -i in.npz --device cuda",
    ] {
        with(none, nvrtc, "", command).fails(7, &["no CUDA driver", cpu]);
    }
    s.heddle("run m.heddle -i in.npz --arch sm_90")
        .fails(2, &["--arch", "--device cuda"]);
}

#[test]
fn a_text_that_the_compiler_rejects_comes_with_its_log() {
    let s = doubler();
    let cache = s.path("cache");
    let run = s.heddle_with(RUN, |command| {
        fake().give(command, "");
        command
            .env("HEDDLE_FAKE_NVRTC", "reject")
            .env("HEDDLE_CACHE", &cache);
    });
    run.fails(
        6,
        &[
            "NVRTC 12.4",
            "compilation failed",
            "identifier \"sesame\" is undefined",
        ],
    );
    // The cache has nothing of it, and then the program, for which no compiler is asked.
    for reject in ["", "reject"] {
        let run = s.heddle_with(RUN, |command| {
            fake().give(command, "");
            command
                .env("HEDDLE_FAKE_NVRTC", reject)
                .env("HEDDLE_CACHE", &cache);
        });
        run.ok();
    }
}

#[test]
fn limits_end_runs() {
    let s = doubler();
    s.write(
        "forever.heddle",
        "fn @main(%x: f32[3], %k: i64[]) -> (%y: f32[3]) {
  %n, %y = loop while lt(%k, 100) carry (%j = %k, %h: f32[3] = %x) {
    %next = mul(%j, 1)
    continue while lt(%next, 100) carry %next, add(%h, 1.0)
  }
  return %y
}
",
    );
    s.write(
        "deep.heddle",
        "fn @main(%x: f32[3], %k: i64[]) -> (%n: i64[]) {
  %n = call @down(%k)
  return %n
}

fn @down(%k: i64[]) -> (%n: i64[]) {
  %n = if gt(%k, 0) {
    yield add(call @down(sub(%k, 1)), 1)
  } else {
    yield 0
  }
  return %n
}
",
    );
    let run = |model: &str, limit: &str, settings: &str| {
        let args = format!("run {model}.heddle -i in.npz --device cuda {limit}");
        on_fake(&s, &args, settings)
    };
    run("m", "--watchdog 5", "").ok();
    run("forever", "--timeout 0.3", "").fails(5, &["did not end within 0.3 s", "--timeout"]);
    nothing_is_left(&s);
    run("m", "--max-iterations 1", "").fails(5, &["1 iterations", "--max-iterations"]);
    run("deep", "--max-depth 2", "").fails(5, &["a call would nest", "--max-depth"]);
    run("m", "--max-memory 1", "").fails(5, &["over the limit of 1", "--max-memory"]);
    run("m", "", "memory=1K").fails(5, &["Fake GPU does not give", "of its 1024 are free"]);
}

#[test]
fn a_fault_of_the_device_is_told_with_what_is_known() {
    let s = doubler();
    on_fake(&s, RUN, "fail=cuLaunchKernelEx:1:719").fails(
        70,
        &[
            "a launch of",
            "blocks of 64 threads on Fake GPU",
            "CUDA_ERROR_LAUNCH_FAILED",
        ],
    );
    // The next one has a new context.
    crate::suite::case(&s, "cases/a", "neg", -1.0);
    crate::suite::case(&s, "cases/b", "exp", 2.7182817);
    let test = "test cases --device cuda -j 1";
    let done = on_fake(&s, test, "fail=cuLaunchKernelEx:1:700");
    assert_eq!(done.code, 1);
    let text = done.out;
    assert!(
        text.ends_with("1 passed, 1 failed, 0 unsupported\n"),
        "{text}"
    );
    assert_eq!(log(&s.path("log"))["cuDevicePrimaryCtxReset_v2"], 1);
    nothing_is_left(&s);
}
