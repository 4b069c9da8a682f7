//! Operators are dealt out so that data stays on its unit, where that is possible.

mod common;

use common::{lowered, shape};
use heddle_task::{Device, align_splits, place_syncs};

/// Statements of the program without and with aligned splits.
fn shapes(text: &str) -> (String, String) {
    let (mut plain, mut aligned) = (lowered(text), lowered(text));
    align_splits(&mut aligned, &Device::cpu(2));
    place_syncs(&mut plain, &Device::cpu(2));
    place_syncs(&mut aligned, &Device::cpu(2));
    (shape(&plain.body), shape(&aligned.body))
}

const LSTM: &str = "fn @main(%x: f32[64,1,256], %w: f32[256,1024], %u: f32[256,1024], %b: f32[1024]) -> (%y: f32[1,256]) {
  %zero = const splat 0.0: f32[1,256]
  %y, %last = loop %t trip 64 carry (%h: f32[1,256] = %zero, %c: f32[1,256] = %zero) {
    %xt = gather(%x, %t, axis=0)
    %g = add(add(dot(%xt, %w), dot(%h, %u)), %b)
    %i = sigmoid(slice(%g, [0], [256], [1], axes=[1]))
    %f = sigmoid(slice(%g, [256], [512], [1], axes=[1]))
    %z = tanh(slice(%g, [512], [768], [1], axes=[1]))
    %o = sigmoid(slice(%g, [768], [1024], [1], axes=[1]))
    %d = add(mul(%f, %c), mul(%i, %z))
    %k = mul(%o, tanh(%d))
    continue carry %k, %d
  }
  return %y
}";

#[test]
fn an_lstm_step_needs_one_sync() {
    let (plain, aligned) = shapes(LSTM);
    assert_eq!(plain.matches('s').count(), 2, "{plain}");
    // Each unit owns the same places of all four gates: only the hidden state crosses.
    assert_eq!(aligned.matches('s').count(), 1, "{aligned}");
}

#[test]
fn columns_follow_who_reads_them() {
    // By default both operators are dealt out by rows, so that a sum of columns would read what others wrote.
    let (plain, aligned) = shapes(
        "fn @main(%x: f32[64,64]) -> (%y: f32[64]) {
           %e = exp(%x)
           %y = add(reduce(%e, kind=sum, axes=[0], keep=false), reduce(%e, kind=max, axes=[0], keep=false))
           return %y
         }",
    );
    assert_eq!(plain, "rsrrr");
    assert_eq!(aligned, "rrrr");
}

#[test]
fn attention_by_head_needs_none() {
    let (_, aligned) = shapes(
        "fn @main(%q: f32[12,1,64], %kc: f32[12,64,64], %vc: f32[12,64,64], %w: f32[12,64,64]) -> (%y: f32[12,1,64]) {
           %y, %k2 = loop %t trip 64 carry (%x: f32[12,1,64] = %q, %k: f32[12,64,64] = %kc) {
             %zero = const 0
             %start = concat(reshape(%zero, [1]), reshape(%t, [1]), reshape(%zero, [1]), axis=0)
             %n = update_slice(%k, dot(%x, %w), %start)
             %s = dot(%x, transpose(%n, perm=[0,2,1]))
             %m = reduce(%s, kind=max, axes=[2], keep=true)
             %e = exp(sub(%s, %m))
             %p = div(%e, reduce(%e, kind=sum, axes=[2], keep=true))
             continue carry dot(%p, %vc), %n
           }
           return %y
         }",
    );
    assert_eq!(aligned.matches('s').count(), 0, "{aligned}");
}
