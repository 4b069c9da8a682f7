//! `--device sim`: runs on a simulated GPU, and faults of `--sim`.

use crate::setup::{Scratch, doubler};

#[test]
fn models_run_on_any_grid() {
    let s = doubler();
    for sim in [
        "",
        "--sim blocks=1,threads=1,warp=1",
        "--sim seed=7,threads=128,warp=64,cluster=2",
    ] {
        let check = "check m.heddle -i in.npz --expect want.npz --device sim --verify";
        s.heddle(&format!("{check} {sim}")).ok();
    }
    let run = s.heddle("run m.heddle -i in.npz --device sim -o out.npz");
    assert_eq!(run.err, "", "nothing is left to the interpreter");
    run.ok();
    assert_eq!(s.elements::<f32>("out.npz", "y").1, [4.0, -8.0, 2.0]);
    let bench = "bench m.heddle -i in.npz --seconds 0.01 --device sim --json -";
    assert_eq!(s.heddle(bench).json()["device"], "sim");
    s.heddle(&format!("{bench} --compare host"))
        .fails(4, &["runs the control flow itself"]);
}

#[test]
fn cases_are_simulated() {
    let s = Scratch::new();
    crate::suite::case(&s, "cases/a", "neg", -1.0);
    crate::suite::case(&s, "cases/b", "exp", 2.7182817);
    let test = "test cases --device sim --sim blocks=2 --min-compiled 100";
    let text = s.heddle(test).ok();
    assert!(
        text.ends_with("2 passed, 0 failed, 0 unsupported\n"),
        "{text}"
    );
}

#[test]
fn saved_programs_are_simulated() {
    let s = doubler();
    s.heddle("compile m.heddle --save m.hprog").ok();
    let run = "run m.hprog -i in.npz -o out.npz --device sim --sim blocks=2";
    s.heddle(run).ok();
    assert_eq!(s.elements::<f32>("out.npz", "y").1, [4.0, -8.0, 2.0]);
}

#[test]
fn a_model_stops_at_its_own_error_and_at_limits() {
    let s = doubler();
    let run = "run m.heddle -i in.npz --device sim";
    s.heddle(&format!("{run} --max-iterations 1")).fails(
        5,
        &["1 iterations", "raise the limit with --max-iterations"],
    );
    s.heddle(&format!("{run} --max-memory 1"))
        .fails(5, &["over the limit of 1", "--max-memory"]);
}

#[test]
fn faults_of_the_grid_name_the_flag() {
    let s = doubler();
    for (sim, words) in [
        ("blocks", "`blocks` is not of the form KEY=N"),
        (
            "clusters=2",
            "no key `clusters`; the keys are blocks, threads, warp, cluster, seed",
        ),
        ("cluster=3", "blocks=4 is no multiple of cluster=3"),
        ("blocks=0", "blocks=0: it takes a number from 1 to 1024"),
        ("seed=x", "seed=x: it takes a number"),
        ("warp=8,warp=8", "`warp` is given twice"),
        ("threads=48", "threads=48 is no multiple of warp=32"),
        ("blocks=1024,threads=1024", "up to 16384 threads"),
    ] {
        for command in [
            "run m.heddle -i in.npz",
            "check m.heddle -i in.npz --expect want.npz",
            "bench m.heddle -i in.npz",
            "test .",
        ] {
            s.heddle(&format!("{command} --device sim --sim {sim}"))
                .fails(2, &["--sim", words]);
        }
    }
    s.heddle("check m.heddle -i in.npz --expect want.npz --device sim --watchdog 1")
        .ok();
    for wrong in ["0", "-1", "soon"] {
        s.heddle(&format!(
            "run m.heddle -i in.npz --device sim --watchdog {wrong}"
        ))
        .fails(2, &["--watchdog", "a positive number of seconds"]);
    }
    for command in ["run m.heddle -i in.npz", "test .", "run m.hprog"] {
        s.heddle(&format!("{command} --watchdog 1"))
            .fails(2, &["--watchdog", "--device cuda and --device sim"]);
        s.heddle(&format!("{command} --sim blocks=2"))
            .fails(2, &["--sim", "--device sim"]);
    }
}

#[test]
fn sanitizers_watch_the_simulator() {
    let s = doubler();
    let check =
        "check m.heddle -i in.npz --expect want.npz --device sim --sim blocks=2,threads=8,warp=8";
    for kind in ["thread", "address"] {
        s.heddle(&format!("{check} --sanitize {kind}")).ok();
    }
    let run = "run m.heddle -i in.npz";
    for (args, words) in [
        (format!("{run} --sanitize thread"), "--device sim"),
        (
            format!("{run} --device sim --sim blocks=32 --sanitize thread"),
            "up to 16 blocks of 256 threads",
        ),
        (
            "run m.hprog -i in.npz --device sim --sanitize thread".into(),
            "--sanitize is an option of compiling",
        ),
    ] {
        s.heddle(&args).fails(2, &["--sanitize", words]);
    }
}

#[test]
fn without_a_compiler_the_error_says_which_is_needed() {
    let s = doubler();
    let cache = s.path("cache");
    let run = s.heddle_with("run m.heddle -i in.npz --device sim", |command| {
        command
            .env("HEDDLE_CC", "/bogus/c++")
            .env("HEDDLE_CACHE", &cache);
    });
    run.fails(
        6,
        &["no working C++ compiler", "/bogus/c++", "apt install g++"],
    );
}
