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
fn batches_may_be_empty() {
    let s = sentences(&[], &[0], &[]);
    s.heddle(&format!("{RUN} -o out.npz")).ok();
    assert_eq!(s.elements::<f32>("out.npz", "sum").0, [0]);
    assert_eq!(s.elements::<i64>("out.npz", "each.offsets").1, [0]);
}

#[test]
fn a_note_names_what_runs_one_by_one() {
    let s = Scratch::new();
    s.write("m.heddle", "fn @main(%x: f32[n]) -> (%y: f32[]) {\n  return reduce(%x, kind=sum, axes=[0], keep=false)\n}\n");
    let x = f32s(&[1.0, 2.0, 4.0]);
    s.npz("in.npz", &[("x", x), ("x.offsets", i64s(&[0, 1, 3]))]);
    let done = s.heddle("run m.heddle --batch in.npz -o out.npz");
    assert_eq!((done.code, done.out.as_str()), (0, ""));
    assert!(
        done.err
            .contains("note: one instance after the other: line 2"),
        "{}",
        done.err
    );
    assert_eq!(s.elements::<f32>("out.npz", "y").1, [1.0, 6.0]);
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
            "instance 1 has 1 elements of `tags`, but 0 of `words`",
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
            .fails(3, &["line 2"]);
    }
}
