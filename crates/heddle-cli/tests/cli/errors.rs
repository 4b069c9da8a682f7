//! Errors before a model runs, and their reports.

use crate::setup::{DOUBLER, Scratch};

#[test]
fn text_errors_show_the_line() {
    let s = Scratch::new();
    s.write(
        "m.heddle",
        DOUBLER.replace("add(%h, %h)", "add(%h, %nowhere)"),
    );
    s.heddle("run m.heddle --random 0").fails(
        3,
        &[
            "error: m.heddle: line 3",
            "%twice = add(%h, %nowhere)",
            "^^^",
        ],
    );
    s.write("m.heddle", "fn @main( -> () {");
    s.heddle("inspect m.heddle").fails(3, &["line 1", "^"]);
    s.write("m.heddle", [0xff, 0xfe, 0x00]);
    s.heddle("inspect m.heddle")
        .fails(6, &["m.heddle", "UTF-8"]);
}

#[test]
fn files_that_are_not_there() {
    let s = Scratch::new();
    s.heddle("run none.onnx").fails(6, &["none.onnx"]);
    s.heddle("run none.heddle").fails(6, &["none.heddle"]);
    s.write("m.txt", "");
    s.heddle("run m.txt")
        .fails(3, &["none of .onnx, .pt2, .heddle, .hl and .hprog"]);
    s.write("m.onnx", "not protobuf at all");
    s.heddle("run m.onnx").fails(3, &["m.onnx"]);
    std::fs::create_dir(s.path("d.onnx")).unwrap();
    s.heddle("run d.onnx").fails(6, &["d.onnx"]);
}

/// A pipe that nobody writes to would be waited for, a device without an end read until memory is
/// full.
#[test]
#[cfg(target_os = "linux")]
fn files_that_are_not_plain() {
    let s = Scratch::new();
    for name in ["m.onnx", "m.heddle", "in.npz"] {
        let made = std::process::Command::new("mkfifo")
            .arg(s.path(name))
            .status();
        assert!(made.unwrap().success());
    }
    std::os::unix::fs::symlink("/dev/zero", s.path("zero.heddle")).unwrap();
    s.write("doubler.heddle", DOUBLER);
    for args in [
        "run m.onnx --random 0",
        "inspect m.heddle",
        "run zero.heddle --random 0",
        "run doubler.heddle -i in.npz",
        "run doubler.heddle -i .",
    ] {
        s.heddle(args).fails(6, &["it is not a plain file"]);
    }
}

#[test]
fn without_a_compiler_the_hint_names_the_interpreter() {
    let s = Scratch::new();
    s.write("m.heddle", DOUBLER);
    let cache = s.path("cache");
    let run = |args: &str| {
        s.heddle_with(args, |command| {
            command
                .env("HEDDLE_CC", "/bogus/cc")
                .env("HEDDLE_CACHE", &cache);
        })
    };
    let words = [
        "no working C compiler",
        "/bogus/cc",
        "hint: --device interp",
    ];
    run("run m.heddle --random 0").fails(6, &words);
    run("run m.heddle --random 0 --device interp").ok();
}

#[test]
fn the_level_of_builds_is_a_digit_and_part_of_the_key() {
    let s = Scratch::new();
    s.write("m.heddle", DOUBLER);
    let cache = s.path("cache");
    let run = |level: &str| {
        s.heddle_with("run m.heddle --random 0", |command| {
            command
                .env("HEDDLE_BUILD_LEVEL", level)
                .env("HEDDLE_CACHE", &cache);
        })
    };
    for bad in ["4", "-1", "fast", "0 -ffast-math"] {
        run(bad).fails(
            6,
            &[&format!("HEDDLE_BUILD_LEVEL is `{bad}`"), "0, 1, 2 or 3"],
        );
    }
    let kept = |level: &str| {
        run(level).ok();
        std::fs::read_dir(s.path("cache/entries")).unwrap().count()
    };
    let quick = kept("1");
    let both = kept("3");
    assert!(quick < both);
    assert_eq!([kept(""), kept("1")], [both; 2]);
}

#[test]
fn usage_errors() {
    let s = Scratch::new();
    s.heddle("").fails(2, &["Usage"]);
    s.heddle("walk m.onnx").fails(2, &["walk"]);
    s.heddle("run m.onnx --device gpu")
        .fails(2, &["gpu", "interp"]);
    s.heddle("run m.onnx --max-memory 2X")
        .fails(2, &["2X", "unit"]);
    s.heddle("run m.onnx --timeout never")
        .fails(2, &["seconds"]);
    s.heddle("run m.onnx --size n").fails(2, &["NAME=N"]);
}

#[test]
fn help_documents_commands_and_exit_codes() {
    let s = Scratch::new();
    let help = s.heddle("--help").ok();
    for command in ["run", "check", "test", "inspect", "compile", "opt"] {
        assert!(help.contains(command), "{help}");
        let text = s.heddle(&format!("{command} --help")).ok();
        assert!(text.contains(&format!("heddle {command} ")), "{text}");
        assert!(text.contains("Examples:"), "{text}");
    }
    assert!(
        help.contains("Exit codes:") && help.contains("70"),
        "{help}"
    );
}

#[test]
fn errors_are_json_too() {
    let s = Scratch::new();
    s.write("m.heddle", DOUBLER);
    let done = s.heddle("run m.heddle --json").fails(3, &["missing"]);
    let json: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(json["error"]["kind"], "invalid");
    assert_eq!(json["error"]["exit_code"], 3);
    assert!(
        json["error"]["message"]
            .as_str()
            .unwrap()
            .contains("`x` (f32[n])")
    );
    assert!(json["error"]["hint"].as_str().unwrap().contains("--random"));
}

#[test]
fn text_from_a_model_cannot_drive_the_terminal() {
    let s = Scratch::new();
    let evil =
        "fn @main(%\"a\\u{1b}[31m\": f32[]) -> (%y: f32[]) {\n  return %\"a\\u{1b}[31m\"\n}\n";
    s.write("m.heddle", evil);
    let done = s.heddle("run m.heddle").fails(3, &["missing"]);
    assert!(!done.err.contains('\x1b'), "{:?}", done.err);
    assert!(!s.heddle("inspect m.heddle").ok().contains('\x1b'));
    // Nor can it reverse what stands beside it.
    s.write("m.heddle", evil.replace("1b}[31m", "202e}"));
    let done = s.heddle("run m.heddle").fails(3, &["missing", "\\u{202e}"]);
    assert!(!done.err.contains('\u{202e}'), "{:?}", done.err);
}
