//! Saved programs (`.hprog`) on the command line.

use crate::setup::{DOUBLER, Scratch, doubler_inputs};

fn saved() -> Scratch {
    let s = Scratch::new();
    s.write("m.heddle", DOUBLER);
    s.npz("in.npz", &doubler_inputs());
    s.heddle("compile m.heddle --save m.hprog").ok();
    s
}

#[test]
fn programs_are_saved_run_checked_shown_and_measured() {
    let s = saved();
    s.heddle("run m.heddle -i in.npz -o want.npz").ok();
    for how in ["", "--trusted", "--device interp", "--trusted --f64"] {
        s.heddle(&format!("check m.hprog -i in.npz --expect want.npz {how}"))
            .ok();
    }
    s.heddle("run m.hprog --random 3 --trusted").ok();
    s.heddle("bench m.hprog -i in.npz --seconds 0.01").ok();
    let text = s.heddle("inspect m.hprog").ok();
    assert!(text.contains("steps"), "{text}");
    s.heddle("compile m.hprog --emit schedule").ok();
    s.heddle("compile m.hprog --save again.hprog").ok();
    s.heddle("check again.hprog -i in.npz --expect want.npz")
        .ok();
}

#[test]
fn the_interpreter_needs_no_compiler() {
    let s = saved();
    let cache = s.path("cache");
    let run = |args: &str| {
        s.heddle_with(args, |command| {
            command
                .env("HEDDLE_CC", "/bogus/cc")
                .env("HEDDLE_CACHE", &cache);
        })
    };
    run("run m.hprog -i in.npz").fails(6, &["no working C compiler"]);
    run("run m.hprog -i in.npz --device interp").ok();
}

#[test]
fn broken_files_are_named() {
    let s = saved();
    let whole = std::fs::read(s.path("m.hprog")).unwrap();
    s.write("foreign.hprog", "no program");
    std::fs::write(s.path("short.hprog"), &whole[..whole.len() / 2]).unwrap();
    let mut other = whole.clone();
    other[whole.len() / 2] ^= 1;
    std::fs::write(s.path("damaged.hprog"), other).unwrap();
    for command in ["run", "run --trusted", "inspect", "bench"] {
        for (file, text) in [
            ("foreign.hprog", "it is no saved program"),
            ("short.hprog", "the saved program is cut short"),
            ("damaged.hprog", "the saved program is damaged"),
        ] {
            s.heddle(&format!("{command} {file}"))
                .fails(3, &[file, text]);
        }
        s.heddle(&format!("{command} missing.hprog"))
            .fails(6, &["cannot read missing.hprog"]);
    }
}

#[test]
fn options_of_compiling_are_refused() {
    let s = saved();
    for option in ["--threads 2", "--no-opt", "--entry main", "--fix-sizes"] {
        let name = option.split(' ').next().unwrap();
        s.heddle(&format!("run m.hprog -i in.npz {option}"))
            .fails(2, &[name, "a saved program is compiled"]);
    }
    s.heddle("run m.heddle -i in.npz --trusted")
        .fails(2, &["--trusted is for saved programs"]);
    for command in ["inspect", "compile --emit ir", "compile --save again.hprog"] {
        s.heddle(&format!("{command} m.hprog --trusted"))
            .fails(2, &["--trusted"]);
    }
    for file in ["m.hprog", "m.heddle"] {
        for option in ["--weights in.npz", "--report", "--keep-going"] {
            let name = option.split(' ').next().unwrap();
            s.heddle(&format!("run {file} -i in.npz {option}"))
                .fails(2, &[name, "--input"]);
            s.heddle(&format!("run {file} --random 0 {option}"))
                .fails(2, &["--batch"]);
        }
        s.heddle(&format!("run {file} -i in.npz --profile-blocks in.npz"))
            .fails(2, &["--profile-blocks", "--input"]);
    }
    s.heddle("compile m.heddle --save x.hprog --profile-blocks in.npz")
        .fails(2, &["--save", "--profile-blocks"]);
    s.heddle("compile m.heddle").fails(2, &["--emit"]);
    s.heddle("compile m.heddle --save no/such/m.hprog")
        .fails(6, &["cannot write no/such/m.hprog"]);
}
