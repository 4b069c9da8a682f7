//! `heddle test`.

use heddle_onnx::proto::TensorProto;
use prost::Message;

use crate::setup::Scratch;

/// Writes a case of `y = -x` that expects this `y` of `x = 1`.
pub fn case(s: &Scratch, name: &str, op: &str, want: f32) {
    let text = format!("fn @main(%x: f32[1]) -> (%y: f32[1]) {{\n  return {op}(%x)\n}}\n");
    s.write(&format!("{name}/model.heddle"), text);
    s.write(
        &format!("{name}/test_data_set_0/input_0.pb"),
        tensor(&[1], &[1.0]),
    );
    s.write(
        &format!("{name}/test_data_set_0/output_0.pb"),
        tensor(&[1], &[want]),
    );
}

fn tensor(dims: &[i64], values: &[f32]) -> Vec<u8> {
    let tensor = TensorProto {
        dims: dims.to_vec(),
        data_type: Some(1),
        float_data: values.to_vec(),
        ..Default::default()
    };
    tensor.encode_to_vec()
}

/// Two that pass, one that fails, one that is not supported.
fn suite() -> Scratch {
    let s = Scratch::new();
    case(&s, "cases/a", "neg", -1.0);
    case(&s, "cases/deeper/b", "neg", -1.0005);
    case(&s, "cases/c", "neg", 7.0);
    s.write("cases/d/model.onnx", include_bytes!("frobnicate.onnx"));
    s.write("cases/d/test_data_set_0/input_0.pb", tensor(&[1], &[1.0]));
    s
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or("")
}

#[test]
fn the_last_line_counts() {
    let s = suite();
    let done = s.heddle("test cases");
    assert_eq!(done.code, 1);
    assert_eq!(last_line(&done.out), "2 passed, 1 failed, 1 unsupported");
    assert!(
        done.out
            .contains("FAILED      c: output `y`: 1 of 1 elements differ"),
        "{}",
        done.out
    );
    assert!(done.out.contains("[0]: -1 instead of 7"), "{}", done.out);
    assert!(done.out.contains("unsupported d: "), "{}", done.out);
    assert!(done.out.contains("Frobnicate"), "{}", done.out);
    assert!(!done.out.contains("passed      a"), "{}", done.out);
    assert_eq!(done.err, "", "no progress bar without a terminal");
}

#[test]
fn unsupported_cases_alone_do_not_fail() {
    let s = suite();
    let text = s
        .heddle("test cases/a cases/d cases/deeper --jobs 1 --verbose")
        .ok();
    assert_eq!(last_line(&text), "2 passed, 0 failed, 1 unsupported");
    assert!(text.contains("passed      a"), "{text}");
}

#[test]
fn the_cpu_device_counts_what_ran_compiled() {
    let s = suite();
    s.write(
        "cases/e/model.heddle",
        "fn @main(%x: f32[1]) -> (%y: f32[1]) {\n  return cast(cast(%x, to=str), to=f32)\n}\n",
    );
    s.write("cases/e/test_data_set_0/input_0.pb", tensor(&[1], &[1.0]));
    s.write("cases/e/test_data_set_0/output_0.pb", tensor(&[1], &[1.0]));
    let command = "test cases/a cases/deeper --device cpu --no-opt";
    let text = s.heddle(command).ok();
    assert!(text.contains("2 of 2 ran compiled (100.0 %)"), "{text}");
    assert!(!text.contains("read back"), "{text}");
    let text = s.heddle(&format!("{command} cases/e --check-text")).ok();
    let count = "\n2 uPrograms read back from their text\n";
    assert!(text.contains(count), "{text}");
    let command = format!("{command} cases/e --min-compiled");
    let text = s.heddle(&format!("{command} 60")).ok();
    assert!(text.contains("2 of 3 ran compiled (66.7 %)"), "{text}");
    assert!(text.contains("    1 interpreted: "), "{text}");
    assert_eq!(last_line(&text), "3 passed, 0 failed, 0 unsupported");
    assert_eq!(s.heddle(&format!("{command} 70")).code, 1);
}

#[test]
fn json_has_every_case() {
    let s = suite();
    let done = s.heddle("test cases --json");
    assert_eq!(done.code, 1);
    let json: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!((&json["ok"], &json["passed"]), (&false.into(), &2.into()));
    let names: Vec<_> = json["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| &c["name"])
        .collect();
    assert_eq!(names, ["a", "c", "d", "b"]);
    assert_eq!(json["cases"][1]["verdict"], "failed");
    assert_eq!(json["cases"][2]["verdict"], "unsupported");
}

#[test]
fn known_cases_are_expected_not_to_pass() {
    let s = suite();
    s.write(
        "known.txt",
        "# why\nc  expects nonsense\nd  there is no Frobnicate # yet\n\n",
    );
    let text = s.heddle("test cases --known known.txt").ok();
    assert!(
        text.contains("1 listed cases run and give other results"),
        "{text}"
    );
    assert_eq!(last_line(&text), "2 passed, 0 failed, 2 unsupported");
    s.write(
        "known.txt",
        "c  expects nonsense\nd  no such operator\na  passes\n",
    );
    let done = s.heddle("test cases --known known.txt");
    assert_eq!(done.code, 1);
    assert!(
        done.out.contains("passed      a: is listed"),
        "{}",
        done.out
    );
    assert_eq!(last_line(&done.out), "1 passed, 1 failed, 2 unsupported");
    s.write("known.txt", "c  expects nonsense\n");
    let done = s.heddle("test cases --known known.txt");
    assert_eq!(done.code, 1, "an unlisted unsupported case fails the run");
    s.write("known.txt", "c\n");
    s.heddle("test cases --known known.txt")
        .fails(3, &["known.txt:1", "without a reason"]);
    s.write("known.txt", "c x\nc y\n");
    s.heddle("test cases --known known.txt")
        .fails(3, &["known.txt:2", "twice"]);
    s.heddle("test cases --known none.txt")
        .fails(6, &["none.txt"]);
}

#[test]
fn tolerances_and_several_sets() {
    let s = suite();
    s.heddle("test cases/deeper").ok();
    let tight = s.heddle("test cases/deeper --rtol 1e-5");
    assert_eq!(tight.code, 1);
    s.write("cases/c/tolerance.json", "{\"atol\": 10}");
    s.heddle("test cases/c").ok();
    s.write("cases/c/tolerance.json", "{\"atol\": \"wide\"}");
    let done = s.heddle("test cases/c");
    assert!(done.out.contains("tolerance.json"), "{}", done.out);
    s.write("cases/a/test_data_set_1/input_0.pb", tensor(&[1], &[2.0]));
    s.write("cases/a/test_data_set_1/output_0.pb", tensor(&[1], &[3.0]));
    let done = s.heddle("test cases/a");
    assert!(
        done.out
            .contains("FAILED      a: test_data_set_1: output `y`"),
        "{}",
        done.out
    );
}

/// Sets of several ranks, for a model that is refused without and for one that is not; names in the files or none.
#[test]
fn ranks_come_from_the_files_of_each_set() {
    let s = Scratch::new();
    s.write("cases/refused/model.onnx", crate::defaults::unranked());
    let text = "fn @main(%x: f32[..]) -> (%y: f32[..]) {\n  return neg(%x)\n}\n";
    s.write("cases/open/model.heddle", text);
    for (set, dims) in [vec![2], vec![1, 2], vec![1, 1, 2]].iter().enumerate() {
        let write = |case: &str, file: &str, name: Option<&str>, tensor: (&[i64], [f32; 2])| {
            let tensor = TensorProto {
                dims: tensor.0.to_vec(),
                data_type: Some(1),
                float_data: tensor.1.to_vec(),
                name: name.map(String::from),
                ..Default::default()
            };
            let path = format!("cases/{case}/test_data_set_{set}/{file}_0.pb");
            s.write(&path, tensor.encode_to_vec());
        };
        write("refused", "input", Some("x"), (dims, [3.0, 3.0]));
        let flat = if dims.len() == 1 { [2, 1] } else { [1, 2] };
        write("refused", "output", None, (&flat, [0.5, 0.5]));
        write("open", "input", None, (dims, [1.0, 2.0]));
        write("open", "output", None, (dims, [-1.0, -2.0]));
    }
    for device in ["interp", "cpu"] {
        let done = s.heddle(&format!("test cases --device {device}"));
        assert_eq!(
            last_line(&done.out),
            "2 passed, 0 failed, 0 unsupported",
            "{}",
            done.out
        );
    }
}

#[test]
fn shapes_types_and_counts_must_match() {
    let s = suite();
    s.write("cases/a/test_data_set_0/output_0.pb", tensor(&[], &[-1.0]));
    let done = s.heddle("test cases/a");
    assert!(
        done.out.contains("it is f32[1], but f32[] is expected"),
        "{}",
        done.out
    );
    s.write("cases/a/test_data_set_0/output_1.pb", tensor(&[], &[-1.0]));
    let done = s.heddle("test cases/a");
    assert!(
        done.out.contains("the model has only 1 outputs"),
        "{}",
        done.out
    );
    s.write("cases/a/test_data_set_0/output_0.pb", "garbage");
    assert_eq!(s.heddle("test cases/a").code, 1);
}

#[test]
fn a_case_that_does_not_end_fails_and_the_run_goes_on() {
    let s = suite();
    s.write(
        "cases/a/model.heddle",
        "fn @main(%x: f32[1]) -> (%y: f32[1]) {\n  %y = loop %i carry (%h = %x) {\n    \
         continue carry neg(%h)\n  }\n  return %y\n}\n",
    );
    // Jobs share one pool of workers: a case that waits behind an endless one would use up its own time.
    let done = s.heddle("test cases/a cases/deeper --timeout 10 --jobs 1");
    assert_eq!(done.code, 1);
    assert_eq!(last_line(&done.out), "1 passed, 1 failed, 0 unsupported");
    assert!(done.out.contains("time"), "{}", done.out);
}

#[test]
fn folders_without_cases_are_errors() {
    let s = suite();
    std::fs::create_dir(s.path("empty")).unwrap();
    s.heddle("test cases empty")
        .fails(3, &["empty holds no cases"]);
    s.heddle("test none").fails(6, &["none"]);
}
