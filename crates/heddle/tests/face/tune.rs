//! Schedules by measured times give the same results as those by the cost model.

use heddle::{CompileOptions, Device, Inputs, Model, RunOptions, Tensor, Tune, Value};

const LOOP: &str = "fn @main(%h: f32[1,96], %w: f32[96,96], %k: i64[]) -> (%y: f32[1,96]) {
  %y = loop trip %k carry (%c: f32[1,96] = %h) {
    %d = tanh(dot(%c, %w))
    %m = reduce(%d, kind=max, axes=[1], keep=true)
    continue carry div(%d, add(abs(%m), 1.0))
  }
  return %y
}";

#[test]
fn measured_schedules_compute_the_same() {
    let model = Model::parse("loop.heddle", LOOP).expect("a program");
    let results = [Tune::Off, Tune::On, Tune::On].map(|tune| {
        let options = CompileOptions {
            device: Device::Cpu,
            threads: Some(2),
            tune,
            ..Default::default()
        };
        let program = heddle::compile(&model, &options).expect("it compiles");
        let row: Vec<f32> = (0..96).map(|i| (i % 7) as f32 / 7.0 - 0.4).collect();
        let square: Vec<f32> = (0..96 * 96).map(|i| (i % 11) as f32 / 50.0 - 0.1).collect();
        let inputs: Inputs = [
            ("h", Tensor::from_slice(vec![1, 96], &row)),
            ("w", Tensor::from_slice(vec![96, 96], &square)),
            ("k", Tensor::from_slice(vec![], &[9i64])),
        ]
        .into_iter()
        .map(|(name, tensor)| (name.to_string(), Value::from(tensor)))
        .collect();
        let run = program
            .run(inputs, &RunOptions::default())
            .expect("it runs");
        let Some(Value::Tensor(y)) = run.outputs.into_iter().map(|o| o.1).next() else {
            panic!("one tensor comes out");
        };
        y.to_f64s().expect("floats")
    });
    for other in &results[1..] {
        let mut pairs = results[0].iter().zip(other);
        assert!(pairs.all(|(a, b)| (a - b).abs() < 1e-5));
    }
}
