//! `heddle run`.

use crate::setup::{Array, DOUBLER, Scratch, doubler_inputs};

fn doubler() -> Scratch {
    let s = Scratch::new();
    s.write("m.heddle", DOUBLER);
    s.npz("in.npz", &doubler_inputs());
    s
}

#[test]
fn outputs_are_written() {
    let s = doubler();
    assert_eq!(
        s.heddle("run m.heddle --input in.npz --output out.npz")
            .ok(),
        ""
    );
    let (shape, y) = s.elements::<f32>("out.npz", "y");
    assert_eq!((shape, y), (vec![3], vec![4.0, -8.0, 2.0]));
    let (shape, steps) = s.elements::<f32>("out.npz", "steps");
    assert_eq!(
        (shape, steps),
        (vec![2, 3], vec![2.0, -4.0, 1.0, 4.0, -8.0, 2.0])
    );
    assert_eq!(s.list(), ["in.npz", "m.heddle", "out.npz"]);
}

#[test]
fn a_summary_is_printed_without_output() {
    let s = doubler();
    let text = s.heddle("run m.heddle -i in.npz").ok();
    assert!(text.contains("y      f32[3]    [4, -8, 2]"), "{text}");
    assert!(
        text.contains("steps  f32[2,3]  [2, -4, 1, 4, -8, 2]"),
        "{text}"
    );
    assert!(text.contains("load") && text.contains("run"), "{text}");
    assert!(!text.contains('\x1b'), "colours only on a terminal: {text}");
}

#[test]
fn json_has_values_and_times() {
    let s = doubler();
    let json = s.heddle("run m.heddle -i in.npz --json").json();
    assert_eq!(json["outputs"][0]["name"], "y");
    assert_eq!(json["outputs"][0]["dtype"], "f32");
    assert_eq!(json["outputs"][0]["shape"], serde_json::json!([3]));
    assert_eq!(
        json["outputs"][0]["values"],
        serde_json::json!([4.0, -8.0, 2.0])
    );
    assert_eq!(json["outputs"][0]["truncated"], false);
    assert!(json["seconds"]["run"].is_number());
    // The output at least.
    assert!(json["held_bytes"].as_u64() >= Some(12), "{json}");
}

#[test]
fn a_seed_is_that_of_random_operators() {
    let s = doubler();
    s.write(
        "key.heddle",
        "fn @main() -> (%y: u64[]) {\n  return run_key()\n}\n",
    );
    let seed = |options: &str| {
        let json = s.heddle(&format!("run key.heddle --json {options}")).json();
        json["outputs"][0]["values"].clone()
    };
    for device in ["cpu", "interp"] {
        let seed = |options: &str| seed(&format!("--device {device} {options}"));
        assert_eq!(seed(""), serde_json::json!([0]));
        assert_eq!(seed("--random 3"), serde_json::json!([3]));
        assert_eq!(seed("--seed 7"), serde_json::json!([7]));
        assert_eq!(seed("--random 3 --seed 7"), serde_json::json!([7]));
    }
}

#[test]
fn doubles_come_out_of_doubles() {
    let s = doubler();
    let inputs = [
        ("x", Array::F64(vec![1], vec![0.1])),
        ("k", Array::I64(vec![], vec![1])),
    ];
    s.npz("wide.npz", &inputs);
    s.heddle("run m.heddle -i wide.npz -o out.npz --f64").ok();
    assert_eq!(s.elements::<f64>("out.npz", "y").1, [0.2]);
    s.heddle("run m.heddle -i wide.npz -o out.npz").fails(
        3,
        &[
            "array `x`",
            "it holds f64, but f32 is needed",
            "astype(numpy.float32)",
        ],
    );
}

#[test]
fn random_inputs_depend_on_the_seed_only() {
    let s = doubler();
    let run = |seed: u32| {
        let args = format!("run m.heddle --random {seed} --size n=5 -o out.npz");
        s.heddle(&args).ok();
        s.elements::<f32>("out.npz", "y")
    };
    let first = run(1);
    assert_eq!(first.0, [5]);
    assert_eq!(first, run(1));
    assert_ne!(first, run(2));
    s.heddle("run m.heddle --random 0 --size q=5")
        .fails(3, &["no size named `q`"]);
    s.heddle("run m.heddle --size n=5").fails(2, &["--random"]);
}

#[test]
fn given_inputs_are_completed_at_random() {
    let s = doubler();
    s.npz("part.npz", &[("x", Array::F32(vec![4], vec![1.0; 4]))]);
    s.heddle("run m.heddle -i part.npz --random 3 -o out.npz")
        .ok();
    assert_eq!(s.elements::<f32>("out.npz", "y").0, [4]);
}

#[test]
fn names_of_inputs_must_fit() {
    let s = doubler();
    s.heddle("run m.heddle").fails(
        3,
        &[
            "inputs are missing: `x` (f32[n]), `k` (i64[])",
            "hint: ",
            "--random",
        ],
    );
    let mut more = doubler_inputs();
    more.push(("z", Array::F32(vec![1], vec![1.0])));
    more.push(("a", Array::F32(vec![1], vec![1.0])));
    s.npz("more.npz", &more);
    s.heddle("run m.heddle -i more.npz")
        .fails(3, &["`a`, `z`", "hint: it has `x`, `k`"]);
}

#[test]
fn shapes_and_types_of_inputs_must_fit() {
    let s = doubler();
    let k = || Array::I64(vec![], vec![1]);
    s.npz(
        "a.npz",
        &[("x", Array::F32(vec![1, 1], vec![1.0])), ("k", k())],
    );
    s.heddle("run m.heddle -i a.npz")
        .fails(3, &["`x`", "f32[n]"]);
    s.npz("b.npz", &[("x", Array::I32(vec![1], vec![1])), ("k", k())]);
    s.heddle("run m.heddle -i b.npz")
        .fails(3, &["array `x`", "i32", "f32"]);
    let k = Array::I32(vec![], vec![1]);
    s.npz("c.npz", &[("x", Array::F32(vec![1], vec![1.0])), ("k", k)]);
    s.heddle("run m.heddle -i c.npz")
        .fails(3, &["array `k`", "i32", "astype(numpy.int64)"]);
}

#[test]
fn limits_are_kept() {
    let s = doubler();
    let forever = "fn @main(%x: f32[]) -> (%y: f32[]) {\n  \
        %y = loop %i carry (%h = %x) {\n    continue carry add(%h, %h)\n  }\n  return %y\n}\n";
    s.write("forever.heddle", forever);
    s.heddle("run forever.heddle --random 0 --max-iterations 100")
        .fails(5, &["100", "loop"]);
    s.heddle("run forever.heddle --random 0 --timeout 0.2")
        .fails(5, &["time"]);
    let deep = "fn @main(%x: f32[]) -> (%y: f32[]) {\n  return call @main(%x)\n}\n";
    s.write("deep.heddle", deep);
    for device in ["cpu", "interp"] {
        let args = format!("run deep.heddle --random 0 --max-depth 50 --device {device}");
        let words = [
            "line 2",
            "would nest 51 deep, over the limit of 50",
            "hint: raise the limit with --max-depth",
        ];
        s.heddle(&args).fails(5, &words);
    }
    s.npz(
        "big.npz",
        &[
            ("x", Array::F32(vec![100_000], vec![1.0; 100_000])),
            ("k", Array::I64(vec![], vec![1000])),
        ],
    );
    s.heddle("run m.heddle -i big.npz --max-memory 10M")
        .fails(5, &["--max-memory"]);
}

#[test]
fn a_loop_that_ends_long_before_its_limit_takes_what_it_uses() {
    let s = Scratch::new();
    s.write(
        "m.heddle",
        "fn @main(%row: f32[1,n], %m: i64[], %k: f32[]) -> (%y: f32[?,n]) {\n  \
         %one = exp(mul(reduce(%row, kind=max, axes=[0,1], keep=false), 0.0))\n  \
         %y, %c = loop %i trip %m while const true carry (%a: f32[?,n] = %row, %c: f32[] = 0.0) {\n    \
         continue while lt(%c, %k) carry concat(%a, exp(%row), axis=0), add(%c, %one)\n  }\n  \
         return %y\n}\n",
    );
    let inputs = |name: &str, steps: f32| {
        let arrays = [
            ("row", Array::F32(vec![1, 1000], vec![0.5; 1000])),
            ("m", Array::I64(vec![], vec![100_000_000])),
            ("k", Array::F32(vec![], vec![steps])),
        ];
        s.npz(name, &arrays);
    };
    inputs("early.npz", 20.0);
    let run = "run m.heddle --max-memory 10M --device cpu";
    let json = s.heddle(&format!("{run} -i early.npz --json")).json();
    assert!(json["interpreted_share"].is_null(), "{json}");
    assert_eq!(json["outputs"][0]["shape"], serde_json::json!([22, 1000]));
    // It does not end before memory is full.
    inputs("late.npz", 1e9);
    let words = ["line 4", "--max-memory"];
    s.heddle(&format!("{run} -i late.npz")).fails(5, &words);
    let json = s.heddle("inspect m.heddle --compiled --json").json();
    assert!(!json["compiled"]["growing"].as_array().unwrap().is_empty());
}

#[test]
fn an_old_output_survives_a_failure() {
    let s = doubler();
    s.write("out.npz", "old");
    s.write(
        "deep.heddle",
        "fn @main() -> (%y: f32[]) {\n  return call @main()\n}\n",
    );
    s.heddle("run deep.heddle -o out.npz").fails(5, &[]);
    assert_eq!(s.read("out.npz"), "old");
    s.heddle("run m.heddle -i in.npz -o none/out.npz")
        .fails(6, &["none/out.npz", "cannot write"]);
    s.heddle("run m.heddle -i in.npz -o out.npz").ok();
    assert_eq!(s.elements::<f32>("out.npz", "y").0, [3]);
    assert_eq!(s.list(), ["deep.heddle", "in.npz", "m.heddle", "out.npz"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error() {
    let s = doubler();
    let done = s
        .heddle("run m.heddle -i in.npz -o /dev/full --device interp")
        .fails(6, &["cannot write /dev/full"]);
    assert_eq!(done.err.lines().count(), 1, "{}", done.err);
    s.heddle("run m.heddle -i in.npz -o nowhere/out.npz").fails(
        6,
        &["cannot write nowhere/out.npz: No such file or directory"],
    );
    let full = || {
        std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap()
    };
    let run = s.heddle_with("run m.heddle -i in.npz", |c| {
        c.stdout(full());
    });
    run.fails(6, &["cannot write to standard output"]);
}
