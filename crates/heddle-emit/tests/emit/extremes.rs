//! The places of extremes and reductions where elements are equal or no numbers.

use crate::harness::{Outcome, check};
use heddle_ir::{Datum, Tensor};

const TEXT: &str = "
fn @main(%x: f32[1,4000], %y: f32[3,70]) -> (%a: i64[1], %b: i64[1], %c: i64[1], %d: i64[1], %e: i64[3], %f: i64[3], %g: i64[70], %h: i64[70], %i: f32[1], %j: f32[3], %k: f32[70]) {
  %a = arg_reduce(%x, kind=max, axis=1)
  %b = arg_reduce(%x, kind=max, axis=1, last=true)
  %c = arg_reduce(%x, kind=min, axis=1)
  %d = arg_reduce(%x, kind=min, axis=1, last=true)
  %e = arg_reduce(%y, kind=max, axis=1)
  %f = arg_reduce(%y, kind=min, axis=1, last=true)
  %g = arg_reduce(%y, kind=max, axis=0, last=true)
  %h = arg_reduce(%y, kind=min, axis=0)
  %i = reduce(%x, kind=max, axes=[1])
  %j = reduce(%y, kind=min, axes=[1])
  %k = reduce(%y, kind=max, axes=[0])
  return %a, %b, %c, %d, %e, %f, %g, %h, %i, %j, %k
}
";

#[test]
fn equal_elements_and_nan() {
    let plain = |i: usize| ((i * 7919) % 13) as f32;
    let same = |_: usize| f32::NEG_INFINITY;
    let one_nan = |i: usize| if i % 4000 == 1717 { f32::NAN } else { plain(i) };
    let some_nan = |i: usize| if i % 41 == 40 { f32::NAN } else { plain(i) };
    let all_nan = |_: usize| f32::NAN;
    let fills: [&dyn Fn(usize) -> f32; 5] = [&plain, &same, &one_nan, &some_nan, &all_nan];
    for (k, fill) in fills.into_iter().enumerate() {
        let x: Vec<f32> = (0..4000).map(fill).collect();
        let y: Vec<f32> = (0..210).map(fill).collect();
        let inputs: [Datum; 2] = [
            Tensor::from_slice(vec![1, 4000], &x).into(),
            Tensor::from_slice(vec![3, 70], &y).into(),
        ];
        for threads in [1, 3] {
            let module = heddle_ir::text::parse(TEXT).expect("it parses");
            match check(&format!("fill {k}"), module, &inputs, threads) {
                Outcome::Equal => {}
                Outcome::Refused(why) => panic!("not compiled: {why}"),
            }
        }
    }
}
