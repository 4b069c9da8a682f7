//! `heddle bench`.

use std::fs::File;

use serde_json::Value;

use crate::setup::{Done, Scratch, doubler_inputs};

const DOUBLER: &str = "\
fn @main(%x: f32[n], %k: i64[]) -> (%y: f32[n]) {
  %y = loop trip %k carry (%h = %x) {
    %twice = add(%h, %h)
    continue carry %twice
  }
  return %y
}
";

fn doubler() -> Scratch {
    let s = Scratch::new();
    s.write("m.heddle", DOUBLER);
    s.npz("in.npz", &doubler_inputs());
    s
}

fn with_input(s: &Scratch, args: &str, input: &str) -> Done {
    s.write("stdin", input);
    let file = File::open(s.path("stdin")).unwrap();
    s.heddle_with(args, |command| {
        command.stdin(file);
    })
}

#[test]
fn times_are_printed() {
    let s = doubler();
    let text = s.heddle("bench m.heddle -i in.npz --seconds 0.01").ok();
    assert!(
        text.contains("median") && text.contains("max") && text.contains("runs"),
        "{text}"
    );
}

#[test]
fn json_has_what_harnesses_read() {
    let s = doubler();
    let bench = "bench m.heddle -i in.npz --seconds 0.01 --threads 2 --json";
    s.heddle(&format!("{bench} out.json")).ok();
    let file: Value = serde_json::from_str(&s.read("out.json")).unwrap();
    let printed = s.heddle(&format!("{bench} -")).json();
    for document in [file, printed] {
        assert_eq!(document["model"], "m.heddle");
        assert_eq!(
            (&document["device"], &document["threads"]),
            (&"cpu".into(), &2.into())
        );
        assert!(document["runs"].as_u64().unwrap() >= 5);
        let [min, median, max] =
            ["min_ms", "median_ms", "max_ms"].map(|key| document[key].as_f64().unwrap());
        assert!(0.0 < min && min <= median && median <= max, "{document}");
        assert!(document["compile_s"].is_number());
    }
}

#[test]
fn turns_answer_line_by_line() {
    let s = doubler();
    let text = with_input(&s, "bench m.heddle -i in.npz --turns", "3\n\n1\n").ok();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(lines[0]["compile_s"].is_number());
    let counts = lines[1..].iter().map(|l| l.as_array().unwrap().len());
    assert_eq!(counts.collect::<Vec<_>>(), [3, 1]);
}

#[test]
fn turns_refuse_what_is_no_number() {
    let s = doubler();
    with_input(&s, "bench m.heddle -i in.npz --turns", "many\n")
        .fails(2, &["`many` is not a number of runs"]);
}

#[test]
fn fixing_sizes_says_what_came_of_it() {
    let s = doubler();
    let text = s.heddle("run m.heddle -i in.npz --fix-sizes").ok();
    assert!(text.contains("run"), "{text}");
    let printed = s.heddle("bench m.heddle -i in.npz --seconds 0.01 --fix-sizes");
    assert!(printed.err.contains("times as fast"), "{}", printed.err);
    let none = s.heddle("run m.heddle -i in.npz --fix-sizes --device interp");
    assert!(none.err.contains("no named size"), "{}", none.err);
    s.heddle("bench m.heddle -i in.npz --fix-sizes --ablate")
        .fails(2, &["--fix-sizes"]);
}

#[test]
fn the_interpreter_can_be_measured() {
    let s = doubler();
    let bench = "bench m.heddle -i in.npz --seconds 0.01 --device interp --json -";
    assert_eq!(s.heddle(bench).json()["device"], "interp");
}

#[test]
fn other_ways_to_run_are_compared() {
    let s = doubler();
    let bench = "bench m.heddle -i in.npz --seconds 0.01 --compare host,trace";
    let document = s.heddle(&format!("{bench} --json -")).json();
    for name in ["host", "trace"] {
        assert!(document[name]["median_ms"].as_f64().unwrap() > 0.0);
        assert!(document[name]["min_ms"].is_number() && document[name]["max_ms"].is_number());
    }
    assert!(document["overhead_percent"].is_number());
    let text = s.heddle(bench).ok();
    for word in ["host", "trace", "control flow takes"] {
        assert!(text.contains(word), "{text}");
    }
    s.heddle(&format!("{bench} --device interp"))
        .fails(4, &["it is not compiled"]);
}

#[test]
fn each_step_is_measured() {
    let s = doubler();
    let bench = "bench m.heddle -i in.npz --seconds 0.01 --ablate";
    let document = s.heddle(&format!("{bench} --json -")).json();
    let rows = document["ablation"].as_array().unwrap();
    assert_eq!(rows[0]["name"], "host");
    assert_eq!(rows[1]["name"], "control flow");
    let names: Vec<_> = rows.iter().map(|r| r["name"].as_str().unwrap()).collect();
    for name in ["place_syncs", "fuse", "align_splits", "distribute_loops"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert_eq!(document["median_ms"], rows[rows.len() - 1]["median_ms"]);
    let text = s.heddle(bench).ok();
    assert!(
        text.contains("+ place_syncs") && text.contains("nothing to do"),
        "{text}"
    );
}

#[test]
fn steps_can_be_left_out() {
    let s = doubler();
    let run = "run m.heddle -i in.npz -o out.npz --without fuse,place_syncs";
    s.heddle(run).ok();
    assert_eq!(s.elements::<f32>("out.npz", "y").1, [4.0, -8.0, 2.0]);
    s.heddle("run m.heddle -i in.npz --without haste")
        .fails(2, &["the steps are", "place_syncs"]);
}

#[test]
fn schedules_are_proven_on_request() {
    let s = doubler();
    let verified = |flag: &str| {
        let document = s
            .heddle(&format!("run m.heddle -i in.npz --json {flag}"))
            .json();
        document["verified"] == true
    };
    assert!(verified("--verify") && !verified("") && !verified("--verify --device interp"));
    let compare = "bench m.heddle -i in.npz --seconds 0.01 --compare host,trace --verify";
    assert!(s.heddle(compare).ok().contains("trace"));
    for emit in ["ir", "schedule", "source", "source --target cuda"] {
        let compile = format!("compile m.heddle --emit {emit}");
        let proven = s.heddle(&format!("{compile} --verify")).ok();
        assert_eq!(proven, s.heddle(&compile).ok());
    }
}
