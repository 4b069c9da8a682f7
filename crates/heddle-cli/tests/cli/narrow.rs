//! `--weights` of fewer bytes.

use crate::setup::{Array, Scratch};

const TYPES: [(&str, &str); 3] = [("bf16", "bf16"), ("f16", "f16"), ("int8", "i8")];

/// A product by numbers that no narrow type holds, in a loop that shrinks differences.
fn model() -> Scratch {
    let s = Scratch::new();
    let row = |i: usize| {
        let one = |j: usize| format!("{:?}", ((i * 16 + j) * 7919 % 1009) as f32 / 2068.0 - 0.225);
        format!("[{}]", (0..16).map(one).collect::<Vec<_>>().join(", "))
    };
    let rows = (0..16).map(row).collect::<Vec<_>>().join(", ");
    s.write(
        "m.heddle",
        format!(
            "fn @main(%x: f32[1,16]) -> (%y: f32[1,16]) {{
  %w = const [{rows}]: f32[16,16]
  %y = loop %i trip 5 carry (%h: f32[1,16] = %x) {{
    continue carry tanh(dot(%h, %w))
  }}
  return %y
}}
"
        ),
    );
    let x = (0..16).map(|i| i as f32 / 16.0 - 0.5).collect();
    s.npz("in.npz", &[("x", Array::F32(vec![1, 16], x))]);
    s
}

#[test]
fn devices_agree_on_rounded_weights() {
    let s = model();
    s.heddle("run m.heddle -i in.npz -o wide.npz").ok();
    for (weights, stored) in TYPES {
        let text = s
            .heddle(&format!(
                "compile m.heddle --emit uprogram --weights {weights}"
            ))
            .ok();
        assert!(text.contains(&format!(" as {stored} of")), "{text}");
        s.heddle(&format!(
            "run m.heddle -i in.npz -o want.npz --device interp --weights {weights}"
        ))
        .ok();
        s.heddle(&format!(
            "check m.heddle -i in.npz --expect want.npz --rtol 1e-5 --weights {weights}"
        ))
        .ok();
        // They are others than those of f32.
        s.heddle("check m.heddle -i in.npz --expect want.npz --rtol 1e-5")
            .fails(1, &[]);
        s.heddle(&format!(
            "bench m.heddle -i in.npz --seconds 0.01 --weights {weights}"
        ))
        .ok();
    }
}

#[test]
fn errors_are_printed_and_limited() {
    let s = model();
    for (weights, _) in TYPES {
        let compile = format!("compile m.heddle --emit schedule --weights {weights}");
        let done = s.heddle(&format!("{compile} -i in.npz --weights-error 0.2"));
        let line = format!("weights in {weights}: output `y` differs by ");
        assert!(done.err.contains(&line), "{}", done.err);
        done.ok();
        s.heddle(&format!("{compile} --weights-error 0"))
            .fails(5, &["output `y`", "the limit is", "--weights-error"]);
        s.heddle(&format!(
            "compile m.heddle --save refused.hprog --weights {weights} --weights-error 1e-9"
        ))
        .fails(5, &["output `y`", "--weights-error"]);
    }
    assert!(!s.list().contains(&"refused.hprog".to_owned()));
    let wide = s.heddle("compile m.heddle --emit schedule --weights f32 --weights-error 0");
    assert_eq!(wide.err, "");
    wide.ok();
    s.heddle("compile m.heddle --emit schedule --weights-error -1")
        .fails(2, &["--weights-error"]);
}

#[test]
fn gpus_have_wide_weights() {
    let s = model();
    for command in [
        "run m.heddle -i in.npz --device sim",
        "compile m.heddle --emit source --target cuda",
    ] {
        s.heddle(&format!("{command} --weights bf16"))
            .fails(4, &["weights in bf16", "--weights f32"]);
    }
}

#[test]
fn saved_programs_keep_them() {
    let s = model();
    s.heddle("run m.heddle -i in.npz -o want.npz --weights int8")
        .ok();
    s.heddle("compile m.heddle --save m.hprog --weights int8")
        .ok();
    for how in ["", "--trusted", "--device interp"] {
        s.heddle(&format!(
            "check m.hprog -i in.npz --expect want.npz --rtol 1e-5 {how}"
        ))
        .ok();
    }
    s.heddle("run m.hprog -i in.npz --weights bf16")
        .fails(2, &["--weights", "a saved program is compiled"]);
}

#[test]
fn unknown_types_are_named() {
    let s = model();
    for command in [
        "run m.heddle -i in.npz",
        "compile m.heddle --emit ir",
        "test .",
    ] {
        s.heddle(&format!("{command} --weights int4"))
            .fails(2, &["int4", "bf16", "int8"]);
    }
}
