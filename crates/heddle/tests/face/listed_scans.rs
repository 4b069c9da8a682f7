//! Scan outputs whose elements have a computed size are compiled, and are what the interpreter gives.

use crate::common::compiled;
use heddle::{Device, Inputs, Outputs, RunOptions, Tensor};

/// Elements of one computed size, of one that changes, of two, and along an inner axis.
const TEXT: &str = "\
fn @main(%x: f32[5], %n: i64[], %k: i64[1], %grow: i64[]) -> (%a: f32[?,?], %b: f32[?,?,2], %c: f32[?,?,?], %d: f32[?,2,?]) {
  %a, %b, %c, %d = loop %i trip %n {
    %more = add(%k, mul(%i, %grow))
    %part = slice(%x, [0], %more, [1], axes=[0])
    %column = unsqueeze(%part, axes=[1])
    %pair = concat(%column, %column, axis=1)
    %square = mul(%column, unsqueeze(%part, axes=[0]))
    continue stack %part, %pair, %square, transpose(%pair, perm=[1, 0])
  }
  return %a, %b, %c, %d
}
";

fn outputs(device: Device, inputs: &Inputs) -> Option<Outputs> {
    let run = compiled(TEXT, device).run(inputs.clone(), &RunOptions::default());
    run.map(|run| run.outputs).ok()
}

#[test]
fn elements_of_computed_sizes_are_stacked() {
    let x = Tensor::vector(&[1f32, -2.0, 3.0, -4.0, 5.0]);
    for n in [0i64, 1, 4] {
        for k in [0i64, 1, 3] {
            for grow in [0i64, 1] {
                let inputs: Inputs = [
                    ("x".to_string(), x.clone().into()),
                    ("n".to_string(), Tensor::scalar(n).into()),
                    ("k".to_string(), Tensor::vector(&[k]).into()),
                    ("grow".to_string(), Tensor::scalar(grow).into()),
                ]
                .into();
                let [a, b] = [Device::Interp, Device::Cpu].map(|device| outputs(device, &inputs));
                assert_eq!(a.is_some(), n < 2 || grow == 0, "{n} {k} {grow}");
                assert_eq!(a, b, "{n} {k} {grow}");
            }
        }
    }
}
