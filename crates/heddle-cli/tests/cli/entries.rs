//! Programs with several entries: `--entry`.

use crate::setup::{Array, Scratch};

/// `y = tanh(x)` and the derivative of `x` by that of `y`.
const NETWORK: &str = "\
entry @forward
entry backward = @pull
fn @forward(%x: f32[n]) -> (%y: f32[n]) {
  %y = tanh(%x)
  return %y
}

fn @pull(%x: f32[n], %dy: f32[n]) -> (%dx: f32[n]) {
  %y = call @forward(%x)
  %dx = mul(%dy, sub(1.0, mul(%y, %y)))
  return %dx
}
";

fn network() -> Scratch {
    let s = Scratch::new();
    s.write("m.heddle", NETWORK);
    let array = |values: &[f32]| Array::F32(vec![2], values.to_vec());
    s.npz("x.npz", &[("x", array(&[0.0, 50.0]))]);
    s.npz(
        "both.npz",
        &[("x", array(&[0.0, 50.0])), ("dy", array(&[3.0, 2.0]))],
    );
    s
}

#[test]
fn each_runs_on_each_device() {
    let s = network();
    for device in ["interp", "cpu"] {
        for (args, name, want) in [
            ("-i x.npz", "y", vec![0.0, 1.0]),
            ("-i x.npz --entry forward", "y", vec![0.0, 1.0]),
            ("-i both.npz --entry backward", "dx", vec![3.0, 0.0]),
        ] {
            let args = format!("{args} --device {device} --threads 2");
            let line = format!("run m.heddle {args} -o out.npz");
            assert_eq!(s.heddle(&line).ok(), "");
            assert_eq!(s.elements::<f32>("out.npz", name), (vec![2], want));
            s.heddle(&format!("check m.heddle {args} --expect out.npz"))
                .ok();
        }
    }
    let line = "bench m.heddle -i both.npz --entry backward --threads 1 --seconds 0.01 --json -";
    assert_eq!(s.heddle(line).json()["model"], "m.heddle");
}

#[test]
fn each_compiles() {
    let s = network();
    let text = s.heddle("compile m.heddle --emit ir").ok();
    assert!(
        text.starts_with("entry @forward\n\nfn @forward(") && !text.contains("@pull"),
        "{text}"
    );
    let text = s
        .heddle("compile m.heddle --emit ir --entry backward -o back.heddle")
        .ok();
    assert_eq!(text, "");
    let text = s.read("back.heddle");
    assert!(
        text.starts_with("entry backward = @pull\n\nfn @pull(") && !text.contains("@forward"),
        "{text}"
    );
    let line = "run back.heddle -i both.npz --entry backward --device interp --json";
    assert_eq!(s.heddle(line).json()["outputs"][0]["name"], "dx");
}

/// Passes that are applied to text keep all entries.
#[test]
fn passes_keep_all() {
    let s = network();
    let text = s.heddle("opt m.heddle").ok();
    assert!(
        text.starts_with("entry @forward\nentry backward = @pull\n"),
        "{text}"
    );
}

#[test]
fn inspect_lists_them() {
    let s = network();
    let json = s.heddle("inspect m.heddle --entry backward --json").json();
    assert_eq!(json["inputs"][1]["name"], "dy");
    assert_eq!(json["functions"][0]["name"], "pull");
    let text = s.heddle("inspect m.heddle").ok();
    assert!(text.contains("entries     forward, backward"), "{text}");
}

#[test]
fn unknown_names_are_refused_with_those_that_exist() {
    let s = network();
    let said = "there is no entry `pull`; the program's entries are `forward`, `backward`";
    for command in [
        "run m.heddle --random 0",
        "check m.heddle --random 0 --expect x.npz",
        "bench m.heddle --random 0",
        "inspect m.heddle",
        "compile m.heddle --emit source",
    ] {
        s.heddle(&format!("{command} --entry pull"))
            .fails(3, &[said]);
    }
}
