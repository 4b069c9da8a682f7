//! `--batch` and `--weights`.

use crate::setup::{Array, Scratch};

/// A weighted sum of the words of a sentence, and those words' weights.
const SENTENCE: &str = "\
fn @main(%words: i64[n], %tags: i64[n], %table: f32[v], %first: f32[]) -> (%sum: f32[], %each: f32[?]) {
  %n = squeeze(shape(%words), axes=[0])
  %sum: f32[], %each: f32[?] = loop %t trip %n carry (%s: f32[] = %first) {
    %w = mul(gather(%table, gather(%words, %t, axis=0), axis=0), cast(gather(%tags, %t, axis=0), to=f32))
    continue carry add(%s, %w) stack %w
  }
  return %sum, %each
}
";

fn i64s(values: &[i64]) -> Array {
    Array::I64(vec![values.len() as u64], values.to_vec())
}

fn f32s(values: &[f32]) -> Array {
    Array::F32(vec![values.len() as u64], values.to_vec())
}

/// The program, with `first` for each sentence.
fn sentences(words: &[i64], offsets: &[i64], first: &[f32]) -> Scratch {
    let s = Scratch::new();
    s.write("m.heddle", SENTENCE);
    let arrays = [
        ("words", i64s(words)),
        ("words.offsets", i64s(offsets)),
        ("tags", i64s(&vec![2; words.len()])),
        ("tags.offsets", i64s(offsets)),
        ("first", f32s(first)),
    ];
    s.npz("in.npz", &arrays);
    s.npz(
        "w.npz",
        &[("table", f32s(&[0.5, 1.0, 4.0])), ("unused", f32s(&[0.0]))],
    );
    s
}

const RUN: &str = "run m.heddle --batch in.npz --weights w.npz";

#[test]
fn outputs_are_stacked_or_ragged() {
    for device in ["cpu", "interp"] {
        let s = sentences(&[2, 0, 1, 1], &[0, 1, 1, 4], &[10.0, 20.0, 30.0]);
        let done = s.heddle(&format!("{RUN} --device {device} -o out.npz"));
        assert_eq!(
            (done.code, done.out.as_str(), done.err.as_str()),
            (0, "", "")
        );
        assert_eq!(s.elements::<f32>("out.npz", "sum").1, [18.0, 20.0, 35.0]);
        assert_eq!(s.elements::<f32>("out.npz", "each").1, [8.0, 1.0, 2.0, 2.0]);
        assert_eq!(s.elements::<i64>("out.npz", "each.offsets").1, [0, 1, 1, 4]);
        s.heddle("check m.heddle --batch in.npz --weights w.npz --expect out.npz")
            .ok();
    }
}

#[test]
fn instances_have_seeds_of_their_own() {
    let s = Scratch::new();
    let program = "fn @main() -> (%y: u64[]) {\n  return philox(run_key(), 5)\n}\n";
    s.write("m.heddle", program);
    s.npz("in.npz", &[("batch.seeds", i64s(&[4, -1, 4]))]);
    s.heddle("run m.heddle --batch in.npz -o out.npz").ok();
    let together = s.elements::<u64>("out.npz", "y").1;
    let alone = |seed: &str| {
        s.heddle(&format!("run m.heddle --seed {seed} -o one.npz"))
            .ok();
        s.elements::<u64>("one.npz", "y").1[0]
    };
    let (of_4, of_last) = (alone("4"), alone("18446744073709551615"));
    assert_eq!(together, [of_4, of_last, of_4]);
    assert_ne!(of_4, of_last);
    s.heddle("compile m.heddle --batch-of batch.seeds --emit ir")
        .ok();
}

/// One built program runs batches of any size and sentences of any length.
#[test]
fn one_artifact_serves_all_batches() {
    let s = sentences(&[], &[0], &[]);
    let cache = s.path("cache");
    let mut built = vec![];
    for count in [0, 1, 8, 64] {
        let mut ends = vec![0];
        ends.extend((0..count).map(|k| k * (k + 1) / 2));
        let words: Vec<i64> = (0..ends[ends.len() - 1]).map(|k| k % 3).collect();
        let arrays = [
            ("words", i64s(&words)),
            ("words.offsets", i64s(&ends)),
            ("tags", i64s(&words)),
            ("tags.offsets", i64s(&ends)),
            ("first", f32s(&vec![1.0; count as usize])),
        ];
        s.npz("in.npz", &arrays);
        let done = s.heddle_with(&format!("{RUN} -o out.npz"), |c| {
            c.env("HEDDLE_CACHE", &cache);
        });
        assert_eq!((done.code, done.err.as_str()), (0, ""));
        assert_eq!(s.elements::<f32>("out.npz", "sum").0, [count as u64]);
        let entries = std::fs::read_dir(cache.join("entries")).expect("a cache");
        let mut names: Vec<_> = entries.map(|e| e.expect("an entry").file_name()).collect();
        names.sort();
        assert!(!names.is_empty());
        built.push(names);
    }
    assert!(built.windows(2).all(|w| w[0] == w[1]), "{built:?}");
}

#[test]
fn batches_may_be_empty() {
    let s = sentences(&[], &[0], &[]);
    s.heddle(&format!("{RUN} -o out.npz")).ok();
    assert_eq!(s.elements::<f32>("out.npz", "sum").0, [0]);
    assert_eq!(s.elements::<i64>("out.npz", "each.offsets").1, [0]);
}

#[test]
fn a_note_names_what_runs_one_by_one() {
    let s = Scratch::new();
    s.write(
        "m.heddle",
        "fn @main(%x: f32[n]) -> (%y: f32[?]) {\n  %m = mul(unsqueeze(%x, axes=[0]), unsqueeze(%x, axes=[1]))\n  %y, %a, %b, %c = unique(%m)\n  return %y\n}\n",
    );
    let x = f32s(&[1.0, 2.0, 4.0]);
    s.npz("in.npz", &[("x", x), ("x.offsets", i64s(&[0, 1, 3]))]);
    let done = s.heddle("run m.heddle --batch in.npz -o out.npz");
    assert_eq!((done.code, done.out.as_str()), (0, ""));
    assert!(
        done.err
            .contains("note: one instance after the other: line 3"),
        "{}",
        done.err
    );
    assert_eq!(s.elements::<f32>("out.npz", "y").1, [1.0, 4.0, 8.0, 16.0]);
}

#[test]
fn offsets_must_part_their_array() {
    let fails = |words: &[i64], offsets: &[i64], rows: usize, texts: &[&str]| {
        let s = sentences(words, offsets, &vec![1.0; rows]);
        s.heddle(RUN).fails(3, texts);
    };
    let words = &[2, 0, 1, 1];
    fails(
        words,
        &[0, 3, 1, 4],
        3,
        &["`words.offsets` falls from 3 to 1 behind instance 1"],
    );
    fails(
        words,
        &[1, 1, 2, 4],
        3,
        &["`words.offsets` begins with 1, not with 0"],
    );
    fails(
        words,
        &[0, 1, 2, 3],
        3,
        &["`words.offsets` ends with 3", "4 elements"],
    );
    fails(words, &[], 3, &["`words.offsets` has no elements"]);
    fails(
        words,
        &[0, 1, 4],
        3,
        &["`first` has 3 instances", "`words` has 2"],
    );
}

#[test]
fn memory_is_limited_before_the_run() {
    let s = sentences(&[2, 0, 1, 1], &[0, 1, 1, 4], &[10.0, 20.0, 30.0]);
    for device in ["cpu", "interp"] {
        let run = format!("{RUN} --device {device} --max-memory 8");
        s.heddle(&run).fails(5, &["limit", "--max-memory"]);
    }
}

#[test]
fn sizes_of_one_name_are_equal_in_each_instance() {
    let s = sentences(&[2, 0, 1, 1], &[0, 1, 1, 4], &[0.0; 3]);
    let arrays = [
        ("words", i64s(&[1; 4])),
        ("words.offsets", i64s(&[0, 1, 1, 4])),
        ("tags", i64s(&[1; 4])),
        ("tags.offsets", i64s(&[0, 1, 2, 4])),
        ("first", f32s(&[0.0; 3])),
    ];
    s.npz("in.npz", &arrays);
    s.heddle(RUN).fails(
        3,
        &[
            "instance 1 has the size 1 in `tags`, but 0 in `words`",
            "the size `n`",
        ],
    );
}

#[test]
fn each_input_is_given_once() {
    let s = sentences(&[2], &[0, 1], &[1.0]);
    s.npz("w.npz", &[("unused", f32s(&[0.0]))]);
    s.heddle(RUN).fails(3, &["input is missing: `table`"]);
    s.npz("w.npz", &[("first", Array::F32(vec![], vec![0.0]))]);
    s.heddle(RUN).fails(
        3,
        &["array `first` is in in.npz and in w.npz", "leave it out"],
    );
    s.npz("in.npz", &[("nothing", f32s(&[0.0]))]);
    s.heddle(RUN).fails(3, &["no input differs by instance"]);
    s.heddle("run m.heddle --weights w.npz")
        .fails(2, &["--batch"]);
    s.heddle("run m.heddle --batch in.npz --input in.npz")
        .fails(2, &["--input"]);
}

#[test]
fn an_index_out_of_an_instances_range_is_an_error() {
    let s = Scratch::new();
    s.write(
        "m.heddle",
        "fn @main(%x: f32[n], %k: i64[]) -> (%y: f32[]) {\n  return gather(%x, %k, axis=0)\n}\n",
    );
    for device in ["cpu", "interp"] {
        let arrays = [
            ("x", f32s(&[1.0, 2.0, 4.0])),
            ("x.offsets", i64s(&[0, 1, 3])),
            ("k", i64s(&[1, 0])),
        ];
        s.npz("in.npz", &arrays);
        s.heddle(&format!("run m.heddle --batch in.npz --device {device}"))
            .fails(
                3,
                &["instance 0: `gather`", "line 2", "index 1", "by input `k`"],
            );
    }
}

/// A number that grows until it passes a bound, which it may never do, and a look-up of the iterations that takes.
const GROWTH: &str = "\
fn @main(%x: f32[], %names: i64[n]) -> (%steps: i64[], %name: i64[], %tail: i64[?]) {
  %steps, %y = loop %i while lt(%x, 10.0) carry (%n: i64[] = 0, %h: f32[] = %x) {
    %next = mul(%h, 2.0)
    continue while lt(%next, 10.0) carry add(%n, 1), %next
  }
  %name = gather(%names, %steps, axis=0)
  %tail = slice(%names, unsqueeze(%steps, axes=[0]), [9], [1], axes=[0])
  return %steps, %name, %tail
}
";

fn growth() -> Scratch {
    let s = Scratch::new();
    s.write("m.heddle", GROWTH);
    // The second has too few names, the fourth never ends.
    let arrays = [
        ("x", f32s(&[6.0, 2.0, 20.0, 0.0, 3.0])),
        ("names", i64s(&[10, 11, 20, 30, 31, 40, 50, 51, 52])),
        ("names.offsets", i64s(&[0, 2, 3, 5, 6, 9])),
    ];
    s.npz("in.npz", &arrays);
    s
}

#[test]
fn other_instances_finish() {
    for device in ["cpu", "interp"] {
        let s = growth();
        let run = format!(
            "run m.heddle --batch in.npz --max-iterations 100 --device {device} -o out.npz"
        );
        s.heddle(&run)
            .fails(3, &["instance 1: `gather`", "line 6", "by input `x`"]);
        assert!(!s.list().contains(&"out.npz".to_string()));
        let done = s.heddle(&format!("{run} --keep-going"));
        let words = [
            "error: instance 1: `gather`",
            "instance 3: `loop`",
            "line 2",
            "within 100 iterations",
            "--max-iterations",
        ];
        let done = done.fails(3, &words);
        assert_eq!(done.out, "");
        let i64s = |name| s.elements::<i64>("out.npz", name).1;
        assert_eq!(i64s("batch.instances"), [0, 2, 4]);
        assert_eq!(i64s("steps"), [1, 0, 2]);
        assert_eq!(i64s("name"), [11, 30, 52]);
        assert_eq!(i64s("tail"), [11, 30, 31, 52]);
        assert_eq!(i64s("tail.offsets"), [0, 1, 3, 4]);
    }
}

#[test]
fn no_instance_may_finish() {
    let s = growth();
    let arrays = [
        ("x", f32s(&[0.0, 0.0])),
        ("names", i64s(&[1])),
        ("names.offsets", i64s(&[0, 0, 1])),
    ];
    s.npz("in.npz", &arrays);
    let run = "run m.heddle --batch in.npz --max-iterations 9 --keep-going --json";
    let done = s.heddle(run).fails(5, &["instance 0", "instance 1"]);
    let document: serde_json::Value = serde_json::from_str(&done.out).expect("a document");
    assert_eq!(document["failed"][1]["instance"], 1);
    assert_eq!(document["failed"][1]["kind"], "limit");
    assert_eq!(document["outputs"][0]["shape"], serde_json::json!([0]));
}

#[test]
fn programs_for_many_are_compiled_without_inputs() {
    let s = sentences(&[2], &[0, 1], &[1.0]);
    let compile = "compile m.heddle --batch-of words,tags,first";
    let ir = s.heddle(&format!("{compile} --emit ir")).ok();
    let head = [
        "%words.offsets: i64[",
        "%tags.offsets: i64[",
        "%first: f32[",
    ];
    assert!(head.iter().all(|text| ir.contains(text)), "{ir}");
    for stage in ["lowered", "schedule", "source"] {
        let text = s.heddle(&format!("{compile} --emit {stage}")).ok();
        assert!(!text.is_empty(), "{stage}");
    }
    let table = s
        .heddle("compile m.heddle --batch-of words:ragged,tags,table:stacked --emit ir")
        .ok();
    assert!(table.contains("%table: f32[instances,v]"), "{table}");
    s.heddle("compile m.heddle --batch-of word --emit ir")
        .fails(3, &["no input named `word`"]);
    s.heddle("compile m.heddle --batch-of first:ragged --emit ir")
        .fails(4, &["cannot run for many instances"]);
}

#[test]
fn ablation_begins_with_instances_alone() {
    let s = sentences(&[2, 0, 1, 1], &[0, 1, 1, 4], &[10.0, 20.0, 30.0]);
    let bench = "bench m.heddle --batch in.npz --weights w.npz --seconds 0.01 --ablate --json -";
    let document = s.heddle(bench).json();
    let names = |k: usize| document["ablation"][k]["name"].as_str();
    assert_eq!(
        [names(0), names(1), names(2)],
        [Some("alone"), Some("host"), Some("control flow")]
    );
    assert!(document["ablation"][0]["median_ms"].as_f64() > Some(0.0));
}

#[test]
fn a_report_counts_steps() {
    let s = growth();
    let arrays = [
        ("x", f32s(&[6.0, 2.0, 20.0])),
        ("names", i64s(&[0, 1, 2, 3, 10, 11, 12, 13])),
        ("names.offsets", i64s(&[0, 2, 6, 8])),
    ];
    s.npz("in.npz", &arrays);
    let done = s.heddle("run m.heddle --batch in.npz --report -o out.npz");
    assert_eq!((done.code, done.out.as_str()), (0, ""));
    let rows: Vec<Vec<&str>> = done.err.lines().map(|l| l.split("  ").collect()).collect();
    let rows: Vec<Vec<&str>> = rows
        .iter()
        .map(|row| {
            row.iter()
                .map(|c| c.trim())
                .filter(|c| !c.is_empty())
                .collect()
        })
        .collect();
    assert_eq!(rows[0], ["shared inputs: none"]);
    assert_eq!(rows[1], ["block", "steps", "activations", "mean rows"]);
    let row = |name: &str| {
        let found = rows.iter().find(|row| row[0].starts_with(name));
        found.unwrap_or_else(|| panic!("{name}: {}", done.err))[1..].to_vec()
    };
    assert_eq!(row("program"), ["1", "3", "3.0"]);
    assert_eq!(row("loop (line 2"), ["3", "4", "1.3"]);
}

#[test]
fn a_report_names_what_runs_one_by_one() {
    let s = Scratch::new();
    s.write("m.heddle", "fn @main(%x: f32[n], %k: f32[]) -> (%y: f32[?]) {\n  %m = mul(unsqueeze(%x, axes=[0]), unsqueeze(mul(%x, %k), axes=[1]))\n  %y, %a, %b, %c = unique(%m)\n  return %y\n}\n");
    let x = Array::F32(vec![3], vec![1.0, 2.0, 4.0]);
    s.npz("in.npz", &[("x", x), ("x.offsets", i64s(&[0, 1, 2, 3]))]);
    s.npz("w.npz", &[("k", Array::F32(vec![], vec![2.0]))]);
    let done = s.heddle("run m.heddle --batch in.npz --weights w.npz --report -o out.npz");
    assert_eq!(done.code, 0, "{}", done.err);
    for text in [
        "shared inputs: k",
        ", one by one",
        "one instance after the other: ",
    ] {
        assert!(done.err.contains(text), "{text}: {}", done.err);
    }
}

/// The sum of a tree's leaves.
const TREE: &str = "\
fn @main(%left: i64[n], %right: i64[n]) -> (%sum: i64[]) {
  %root = sub(squeeze(shape(%left), axes=[0]), 1)
  %sum: i64[] = call @node(%left, %right, %root)
  return %sum
}
fn @node(%left: i64[n], %right: i64[n], %k: i64[]) -> (%sum: i64[]) {
  %l = gather(%left, %k, axis=0)
  %sum: i64[] = if lt(%l, 0) {
    yield %k
  } else {
    %a: i64[] = call @node(%left, %right, %l)
    %b: i64[] = call @node(%left, %right, gather(%right, %k, axis=0))
    yield add(%a, %b)
  }
  return %sum
}
";

/// Three trees: a leaf, one of depth 3, and one in which node 2 is its own child.
fn trees() -> Scratch {
    let s = Scratch::new();
    s.write("m.heddle", TREE);
    let offsets = || i64s(&[0, 1, 6, 9]);
    let arrays = [
        ("left", i64s(&[-1, -1, -1, 0, -1, 2, -1, -1, 2])),
        ("left.offsets", offsets()),
        ("right", i64s(&[-1, -1, -1, 1, -1, 3, -1, -1, 1])),
        ("right.offsets", offsets()),
    ];
    s.npz("in.npz", &arrays);
    s
}

#[test]
fn a_cycle_is_an_error() {
    for device in ["cpu", "interp"] {
        let s = trees();
        let run = format!("run m.heddle --batch in.npz --device {device} -o out.npz");
        let words = [
            "instance 2: `call`",
            "line 11",
            "@node",
            "`left`",
            "--max-depth",
        ];
        s.heddle(&format!("{run} --max-depth 50")).fails(5, &words);
        s.heddle(&format!("{run} --max-depth 50 --keep-going"))
            .fails(5, &words);
        assert_eq!(s.elements::<i64>("out.npz", "sum").1, [0, 4]);
        // The second tree needs three frames.
        let words = [
            "instance 1: `call`",
            "@node",
            "over the limit",
            "--max-frames",
        ];
        s.heddle(&format!("{run} --max-frames 2")).fails(5, &words);
    }
}

#[test]
fn a_program_is_compiled_for_a_batch() {
    let s = sentences(&[2, 0, 1, 1], &[0, 1, 1, 4], &[10.0, 20.0, 30.0]);
    s.heddle(&format!("{RUN} --profile-blocks in.npz -o out.npz"))
        .ok();
    assert_eq!(s.elements::<f32>("out.npz", "sum").1, [18.0, 20.0, 35.0]);
    s.heddle(&format!("{RUN} --profile-blocks missing.npz"))
        .fails(6, &["missing.npz"]);
    s.heddle("run m.heddle --profile-blocks in.npz")
        .fails(2, &["--batch"]);
    // `compile` takes all inputs from one file.
    let emit = "compile m.heddle --emit lowered --batch-of words:ragged,tags:ragged,first:stacked";
    s.heddle(&format!("{emit} --profile-blocks in.npz"))
        .fails(3, &["table"]);
    let arrays = [
        ("words", i64s(&[2, 0, 1])),
        ("words.offsets", i64s(&[0, 2, 3])),
        ("tags", i64s(&[2, 2, 2])),
        ("tags.offsets", i64s(&[0, 2, 3])),
        ("first", f32s(&[1.0, 2.0])),
        ("table", f32s(&[0.5, 1.0, 4.0])),
    ];
    s.npz("all.npz", &arrays);
    let done = s.heddle(&format!("{emit} --profile-blocks all.npz"));
    assert!(done.out.contains("\nexpect %"), "{}", done.out);
    assert!(!s.heddle(emit).out.contains("\nexpect %"));
}

/// A tree that numbers grow: `k` has two children while it is above 0.
const GROWN: &str = "\
fn @main(%x: f32[], %k: i64[]) -> (%sum: f32[]) {
  %sum: f32[] = call @node(%x, %k)
  return %sum
}
fn @node(%x: f32[], %k: i64[]) -> (%sum: f32[]) {
  %sum: f32[] = if gt(%k, 0) {
    %a: f32[] = call @node(mul(%x, 0.5), sub(%k, 1))
    %b: f32[] = call @node(sub(%x, 1.0), sub(%k, 2))
    yield add(%a, %b)
  } else {
    yield %x
  }
  return %sum
}
";

#[test]
fn frames_of_levels_are_limited() {
    let s = Scratch::new();
    s.write("m.heddle", GROWN);
    s.npz("in.npz", &[("x", f32s(&[4.0, 1.0])), ("k", i64s(&[0, 3]))]);
    let run = "run m.heddle --batch in.npz -o out.npz";
    let done = s.heddle(&format!("{run} --report"));
    assert_eq!(done.code, 0, "{}", done.err);
    // Levels of 2, 2, 4, 2 activations.
    let row = done.err.lines().find(|l| l.starts_with("calls of @node"));
    let cells: Vec<_> = row.expect("a row").split_whitespace().skip(3).collect();
    assert_eq!(cells, ["4", "10", "2.5"]);
    let want = s.elements::<f32>("out.npz", "sum").1;
    // Four activations nest.
    s.heddle(&format!("{run} --max-frames 4")).ok();
    assert_eq!(s.elements::<f32>("out.npz", "sum").1, want);
    let words = [
        "instance 1: `call`",
        "@node",
        "over the limit",
        "--max-frames",
    ];
    s.heddle(&format!("{run} --max-frames 3")).fails(5, &words);
}

/// Arrays that differ in several axes.
#[test]
fn elements_with_shapes() {
    let s = Scratch::new();
    s.write(
        "m.heddle",
        "fn @main(%x: f32[n,m], %k: i64[]) -> (%y: f32[m,n], %first: f32[m]) {
  return transpose(%x, perm=[1, 0]), gather(%x, %k, axis=0)
}
",
    );
    let run = "run m.heddle --batch in.npz -o out.npz";
    let with = |shapes: &[i64], k: &[i64]| {
        let arrays = [
            ("x", f32s(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])),
            ("x.offsets", i64s(&[0, 6, 7])),
            (
                "x.shapes",
                Array::I64(vec![shapes.len() as u64 / 2, 2], shapes.to_vec()),
            ),
            ("k", i64s(k)),
        ];
        s.npz("in.npz", &arrays);
    };
    for device in ["cpu", "interp"] {
        with(&[2, 3, 1, 1], &[1, 0]);
        s.heddle(&format!("{run} --device {device}")).ok();
        let y = s.elements::<f32>("out.npz", "y").1;
        assert_eq!(y, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0, 7.0]);
        assert_eq!(s.elements::<i64>("out.npz", "y.offsets").1, [0, 6, 7]);
        let shapes = s.elements::<i64>("out.npz", "y.shapes");
        assert_eq!(shapes, (vec![2, 2], vec![3, 2, 1, 1]));
        let first = s.elements::<f32>("out.npz", "first").1;
        assert_eq!(first, [4.0, 5.0, 6.0, 7.0]);
        s.heddle(&format!(
            "check m.heddle --batch in.npz --expect out.npz --device {device} --report"
        ))
        .ok();
        with(&[2, 3, 1, 1], &[1, 5]);
        let run = format!("{run} --device {device}");
        s.heddle(&run).fails(3, &["instance 1: `gather`"]);
        s.heddle(&format!("{run} --keep-going"))
            .fails(3, &["instance 1"]);
        assert_eq!(s.elements::<i64>("out.npz", "y.shapes").1, [3, 2]);
        assert_eq!(s.elements::<i64>("out.npz", "y.offsets").1, [0, 6]);
    }
    with(&[2, 2, 1, 1], &[0, 0]);
    s.heddle(run).fails(
        3,
        &["`x.shapes` gives instance 0 the shape [2, 2]", "6 elements"],
    );
    let ir = s.heddle("compile m.heddle --batch-of x:flat,k --emit ir");
    assert!(ir.ok().contains("%x.shapes: i64["));
}

#[test]
fn ablation_with_seeds() {
    let s = Scratch::new();
    let program = "fn @main() -> (%y: u64[]) {\n  return philox(run_key(), 5)\n}\n";
    s.write("m.heddle", program);
    s.npz("in.npz", &[("batch.seeds", i64s(&[4, -1, 4]))]);
    let document = s
        .heddle("bench m.heddle --batch in.npz --seconds 0.01 --ablate --json -")
        .json();
    assert_eq!(document["ablation"][0]["name"].as_str(), Some("alone"));
    s.npz(
        "in.npz",
        &[
            ("batch.seeds", i64s(&[4, -1, 4])),
            ("batch.seeds.offsets", i64s(&[0, 2, 3])),
        ],
    );
    s.heddle("run m.heddle --batch in.npz -o out.npz")
        .fails(3, &["`batch.seeds` is i64[instances]", "no offsets"]);
}
