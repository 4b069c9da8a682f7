//! `heddle opt` and `heddle compile`.

use std::process::Stdio;

use crate::setup::{DOUBLER, Scratch, doubler_inputs};

const WASTEFUL: &str = "\
fn @main(%x: f32[2]) -> (%y: f32[2]) {
  %dead = neg(%x)
  %c = add(1.0: f32[], 2.0: f32[])
  %y = mul(%x, %c)
  return %y
}
";

#[test]
fn passes_apply_in_order() {
    let s = Scratch::new();
    s.write("m.heddle", WASTEFUL);
    let text = s.heddle("opt m.heddle --pass remove_dead").ok();
    assert!(!text.contains("neg") && text.contains("add"), "{text}");
    let text = s
        .heddle("opt m.heddle --pass fold_constants,remove_dead")
        .ok();
    assert!(!text.contains("neg") && !text.contains("add"), "{text}");
    let all = s.heddle("opt m.heddle").ok();
    assert!(!all.contains("neg") && !all.contains("add"), "{all}");
}

#[test]
fn what_is_printed_reads_back() {
    let s = Scratch::new();
    s.write("m.heddle", WASTEFUL);
    s.heddle("opt m.heddle -o a.heddle").ok();
    assert_eq!(s.heddle("opt a.heddle").ok(), s.read("a.heddle"));
    s.heddle("compile m.heddle --emit ir -o b.heddle").ok();
    assert_eq!(s.read("b.heddle"), s.read("a.heddle"));
    assert_eq!(
        s.list(),
        ["a.heddle", "b.heddle", "m.heddle"],
        "no empty file of weights"
    );
}

#[test]
fn standard_input_is_a_file() {
    let s = Scratch::new();
    s.write("m.heddle", WASTEFUL);
    let file = std::fs::File::open(s.path("m.heddle")).unwrap();
    let text = s.heddle_with("opt - --pass remove_dead", |c| {
        c.stdin(Stdio::from(file));
    });
    assert_eq!(text.ok(), s.heddle("opt m.heddle --pass remove_dead").ok());
}

#[test]
fn passes_are_listed_and_unknown_ones_refused() {
    let s = Scratch::new();
    let list = s.heddle("opt --list").ok();
    assert!(
        list.lines().count() >= 5 && list.contains("remove_dead"),
        "{list}"
    );
    s.write("m.heddle", WASTEFUL);
    s.heddle("opt m.heddle --pass polish")
        .fails(2, &["no pass `polish`", "remove_dead"]);
    s.heddle("opt").fails(2, &[]);
}

#[test]
fn large_constants_go_to_a_file_beside_the_text() {
    let s = Scratch::new();
    let many: Vec<_> = (0..500).map(|i| format!("{i}.0")).collect();
    let list = many.join(", ");
    s.write(
        "m.heddle",
        format!("fn @main(%x: f32[500]) -> (%y: f32[500]) {{\n  return add(%x, [{list}])\n}}\n"),
    );
    s.heddle("compile m.heddle --emit ir -o out.heddle").ok();
    assert_eq!(s.list(), ["m.heddle", "out.heddle", "out.weights"]);
    assert!(
        s.read("out.heddle")
            .contains("file(\"out.weights\", 0, 2000)")
    );
    let run = |model: &str| {
        s.heddle(&format!("run {model} --random 4 -o {model}.npz"))
            .ok();
        s.elements::<f32>(&format!("{model}.npz"), "y")
    };
    assert_eq!(run("m.heddle"), run("out.heddle"));
    // Written over what it was read from.
    s.heddle("compile out.heddle --emit ir -o out.heddle").ok();
    assert_eq!(run("m.heddle"), run("out.heddle"));
    std::fs::write(s.path("out.weights"), [0; 100]).unwrap();
    s.heddle("run out.heddle --random 4")
        .fails(3, &["out.weights", "100 bytes"]);
    let away = s
        .read("out.heddle")
        .replace("out.weights", "../out.weights");
    s.write("away.heddle", away);
    s.heddle("run away.heddle --random 4")
        .fails(3, &["not a path below"]);
}

#[test]
fn compiled_programs_run_alike() {
    let s = Scratch::new();
    s.write("m.heddle", DOUBLER);
    s.npz("in.npz", &doubler_inputs());
    s.write("c.heddle", s.heddle("compile m.heddle --emit ir").ok());
    let plain = s.heddle("compile m.heddle --emit ir --no-opt").ok();
    assert!(plain.contains("loop"), "{plain}");
    for args in ["run m.heddle", "run m.heddle --no-opt", "run c.heddle"] {
        s.heddle(&format!("{args} -i in.npz -o out.npz")).ok();
        assert_eq!(
            s.elements::<f32>("out.npz", "y").1,
            [4.0, -8.0, 2.0],
            "{args}"
        );
    }
}

/// Work on both sides of a change of case, which has no compiled form.
const MIXED: &str = "\
fn @main(%x: f32[64,64], %words: str[n]) -> (%y: f32[64,64], %out: str[?]) {
  %y = tanh(dot(%x, dot(%x, %x)))
  return %y, str_normalize(%words, case=upper)
}
";

#[test]
fn dumps_of_programs_in_parts() {
    let s = Scratch::new();
    s.write("m.heddle", MIXED);
    for (emit, text) in [
        ("transformed", "fn @part.0("),
        ("lowered", "operator op0"),
        ("uprogram", "operator op0"),
        ("schedule", "units"),
        ("source", "HEDDLE_MAIN"),
        ("source --target cuda", "__global__"),
    ] {
        let all = s.heddle(&format!("compile m.heddle --emit {emit}")).ok();
        for part in ["// interpreted\n", "call @part.0", "// part.0\n", text] {
            assert!(all.contains(part), "{emit}: {all}");
        }
        let part = s.heddle(&format!("compile m.heddle --emit {emit} --part part.0"));
        let part = part.ok();
        assert!(
            part.contains(text) && !part.contains("// interpreted"),
            "{emit}: {part}"
        );
    }
    let part = s
        .heddle("compile m.heddle --emit lowered --part part.0")
        .ok();
    s.write("part.uprogram", part);
    s.heddle("opt part.uprogram --from uprogram").ok();
    s.heddle("compile m.heddle --emit source --part part.7")
        .fails(2, &["part.7", "`part.0`"]);
    s.heddle("compile m.heddle --emit ir --part part.0")
        .fails(2, &["as a whole"]);
}

#[test]
fn stages_are_timed() {
    let s = Scratch::new();
    s.write("m.heddle", DOUBLER);
    let times = s.heddle("compile m.heddle --emit source --times");
    let stages = [
        "load",
        "canonicalize",
        "lower",
        "fuse",
        "select_kernels",
        "place_syncs",
        "emit",
    ];
    for stage in stages {
        assert!(times.err.contains(stage), "{stage}: {}", times.err);
    }
}

#[test]
fn passes_on_uprograms() {
    let s = Scratch::new();
    s.write("m.heddle", DOUBLER);
    s.write(
        "low.uprogram",
        s.heddle("compile m.heddle --emit lowered").ok(),
    );
    let scheduled = s.heddle("compile m.heddle --emit uprogram").ok();
    assert!(scheduled.contains("operator op0"), "{scheduled}");
    // No pass changes what is read.
    s.write("up.uprogram", &scheduled);
    let again =
        s.heddle("opt up.uprogram --from uprogram --pass fuse --threads 2 -o again.uprogram");
    again.ok();
    assert_eq!(s.read("again.uprogram"), scheduled);
    let synced = "opt low.uprogram --from uprogram --pass fuse,sync_everywhere --threads 2";
    let synced = s.heddle(synced).ok();
    assert!(synced.contains("sync all -> all"), "{synced}");
    s.heddle("opt low.uprogram --from uprogram --threads 2")
        .ok();
    let list = s.heddle("opt --list --from uprogram").ok();
    assert!(list.contains("place_syncs"), "{list}");
    s.heddle("opt low.uprogram --from uprogram --pass polish")
        .fails(2, &["no pass `polish`", "fork_calls"]);
    s.write("bad.uprogram", "main {\n  run op7\n}\n");
    s.heddle("opt bad.uprogram --from uprogram")
        .fails(3, &["bad.uprogram", "line 2", "not defined above"]);
}

/// A product of matrices that is worth sharing.
const PRODUCT: &str = "\
fn @main(%x: f32[256,256]) -> (%y: f32[256,256]) {
  return tanh(dot(%x, %x))
}
";

#[test]
fn schedules_follow_threads_and_machine() {
    let s = Scratch::new();
    s.write("m.heddle", PRODUCT);
    let schedule = |more: &str| {
        s.heddle(&format!("compile m.heddle --emit schedule {more}"))
            .ok()
    };
    let [one, four] = ["--threads 1", "--threads 4"].map(schedule);
    assert_ne!(one, four);
    assert_eq!(schedule("--machine host:4"), four);
    let [few, many] = ["--machine reference:2", "--machine reference:64"].map(schedule);
    assert_ne!(few, many);
    assert_eq!(schedule("--machine reference:64"), many);
    s.heddle("compile m.heddle --emit schedule --machine toaster")
        .fails(2, &["toaster", "h100"]);
    s.heddle("compile m.heddle --emit schedule --machine h100 --threads 4")
        .fails(2, &["--machine", "--threads"]);
}

#[test]
fn compile_leaves_out_steps() {
    let s = Scratch::new();
    s.write("m.heddle", PRODUCT);
    let schedule = |more: &str| {
        let args = format!("compile m.heddle --emit schedule --machine reference:4 {more}");
        s.heddle(&args).ok()
    };
    assert_ne!(schedule("--without fuse"), schedule(""));
    s.heddle("compile m.heddle --emit schedule --without polish")
        .fails(2, &["polish", "fuse"]);
}
