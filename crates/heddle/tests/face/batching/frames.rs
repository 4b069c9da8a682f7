//! Recursion that follows from tensors: stores of frames, limits, and counts of steps.

use super::*;

/// 1, 3, 5, 9, 15 activations for `k` of 0 to 4, of which `k + 1` nest.
const GROWN: &str = "
fn @main(%x: f32[2], %k: i64[]) -> (%y: f32[2], %n: i64[]) {
  %y: f32[2], %n: i64[] = call @f(%x, %k)
  return %y, %n
}
fn @f(%x: f32[2], %k: i64[]) -> (%y: f32[2], %n: i64[]) {
  %y: f32[2], %n: i64[] = if gt(%k, 0) {
    %a: f32[2], %m: i64[] = call @f(mul(%x, 0.5), sub(%k, 1))
    %b: f32[2], %l: i64[] = call @f(sub(%x, 1.0), sub(%k, 2))
    yield tanh(sub(%a, mul(%b, 0.25))), add(add(%m, %l), 1)
  } else {
    yield %x, 1
  }
  return %y, %n
}";

fn forms() -> Forms {
    ["x", "k"]
        .map(|name| (name.to_string(), Form::Stacked))
        .into()
}

/// Three instances with 15, 1 and 5 activations.
fn inputs() -> Inputs {
    let x = Tensor::from_slice(vec![3, 2], &[0.5f32, -1.0, 2.0, 0.25, -0.75, 1.5]);
    let k = Tensor::vector(&[4i64, 0, 2]);
    [("x".to_string(), x.into()), ("k".to_string(), k.into())].into()
}

#[test]
fn levels_short_of_frames_run_depth_first() {
    let run = |device: Device, max_frames: Option<usize>| {
        let model = Model::parse("grown", GROWN).expect("parses");
        let batch = model.batched_within(&forms(), max_frames).expect("batches");
        assert!(batch.one_by_one.is_empty(), "{:?}", batch.one_by_one);
        let compiling = CompileOptions {
            device,
            threads: Some(2),
            max_frames,
            verify: true,
            ..Default::default()
        };
        let program = compile(&batch.model, &compiling).expect("compiles");
        let options = RunOptions {
            max_frames,
            ..Default::default()
        };
        batch.run(&program, inputs(), &options)
    };
    for device in [Device::Interp, Device::Cpu] {
        let want = run(device, None).expect("runs");
        assert!(want.report.interpreted.is_none());
        let counts = want.outputs["n"].as_tensor().expect("an array");
        assert_eq!(counts.to_vec::<i64>(), Some(vec![15, 1, 5]));
        for frames in [21, 20, 5] {
            let got = run(device, Some(frames)).unwrap_or_else(|e| panic!("{frames}: {e}"));
            for (name, want) in &want.outputs {
                heddle::compare(&got.outputs[name], want, &rounding()).expect(name);
            }
        }
        let error = run(device, Some(4)).expect_err("needs five");
        assert_eq!(error.kind(), ErrorKind::Limit);
        let remedy = error.remedy();
        assert_eq!(remedy, Some(heddle::Remedy::Raise(heddle::Limit::Frames)));
        let text = error.to_string();
        for part in ["instance 0", "`call`", "@f"] {
            assert!(text.contains(part), "{text}");
        }
    }
}

#[test]
fn steps_of_levels_are_counted() {
    let model = Model::parse("grown", GROWN).expect("parses");
    let rows = |max_frames| {
        let batch = model.clone().batched_within(&forms(), max_frames);
        let activity = batch
            .expect("batches")
            .activity(&inputs(), &RunOptions::default());
        let blocks = activity.expect("runs").blocks.into_iter();
        let calls = blocks.filter(|b| b.block == "calls of @f" && b.steps > 0);
        let row = |b: heddle::batch::BlockRuns| (b.steps, b.activations, b.is_one_by_one);
        calls.map(row).collect::<Vec<_>>()
    };
    assert_eq!(rows(None), [(5, 21, false)]);
    // Frames are too few for all calls of a level: the newest go on first, and no instance makes its
    // calls by itself.
    assert_eq!(rows(Some(14)), []);
}

/// A parser of trees with any number of children: their states are a scan output of a loop with calls.
#[test]
fn parsers_stack_their_children() {
    let all: [&[i64]; 6] = [
        &[3],
        &[-2, 1, 4],
        &[-3, -2, 0, 1, 19, -1, -4, 2, 3, 4, 5],
        &[-1, -1, -1, 7],
        &[-5, 1, 2, 3, 4, -2, 6, 7],
        &[-2, -3, 1, 2, 3, -3, 4, 5, 6],
    ];
    let codes =
        |codes: &&[i64]| -> Inputs { [("codes".to_string(), Tensor::vector(codes).into())].into() };
    let all: Vec<Inputs> = all.iter().map(codes).collect();
    compare("childattention", &[("codes", Form::Ragged)], &all);
}

/// Queens on boards of several sizes: the columns of the rows so far are an argument, a carried value and a
/// result of calls.
#[test]
fn searches_keep_lists() {
    let board = |n: i64, skipped: i64| -> Inputs {
        [("n", n), ("skipped", skipped)]
            .map(|(name, value)| (name.to_string(), Tensor::scalar(value).into()))
            .into()
    };
    let all = [
        board(6, 0),
        board(0, 0),
        board(1, 1),
        board(3, 1),
        board(5, 0),
        board(1, 0),
        board(7, 3),
    ];
    let forms = [("n", Form::Stacked), ("skipped", Form::Stacked)];
    compare("queens", &forms, &all);
}
