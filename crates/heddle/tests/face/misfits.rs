//! A node that turns out not to fit its inputs is an error of the run that evaluates it: the rest is compiled.

use crate::common::compiled;
use heddle::{Device, Inputs, RunOptions, Tensor};

/// The number of sizes is known once they are folded: before, the branch has no rank.
const TEXT: &str = "\
fn @main(%x: f32[2,3], %c: i64[], %v: f32[n]) -> (%y: f32[..], %z: f32[..]) {
  %places = squeeze(nonzero([7, 0, 1]), axes=[0])
  %sizes = gather([7, 0, 1], %places, axis=0)
  %y, %z = if ne(%c, 0) {
    %wrong = reshape(%x, %sizes) at Reshape \"wrong\"
    yield %wrong, add(exp(%wrong), 1.0)
  } else {
    yield broadcast(0.5, [7, 1]), %v
  }
  return %y, %z
}
";

#[test]
fn the_arm_that_misfits_is_an_error_of_its_node() {
    for &device in Device::EVERYWHERE {
        let program = compiled(TEXT, device);
        let run = |c: bool, n: usize| {
            let inputs: Inputs = [
                (
                    "x".to_string(),
                    Tensor::from_slice(vec![2, 3], &[1f32; 6]).into(),
                ),
                ("c".to_string(), Tensor::scalar(i64::from(c)).into()),
                ("v".to_string(), Tensor::vector(&vec![2f32; n]).into()),
            ]
            .into();
            program.run(inputs, &RunOptions::default())
        };
        for n in [0, 1, 3] {
            let outputs = run(false, n).unwrap().outputs;
            assert_eq!(outputs["z"], Tensor::vector(&vec![2f32; n]).into());
            let error = run(true, n).unwrap_err().to_string();
            assert!(
                error.contains("wrong") && error.contains("do not fit"),
                "{error}"
            );
        }
    }
}
