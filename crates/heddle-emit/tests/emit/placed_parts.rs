//! Parts of concatenations that contractions write where they lie.

use crate::harness::{Case, drawn_with};
use heddle_runtime::BuildOptions;
use heddle_uprogram::program::{Body, Operator};

const ATTRIBUTES: &str = "strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1";

/// Checks a program at batches of 0 to 3 with 1 to 5 workers, and gives it for the last of these.
fn check(name: &str, text: &str) -> Case {
    let mut last = None;
    for batch in [0, 1, 3] {
        let (module, inputs) = drawn_with(name, text, &|_| batch, 1);
        let case = Case::new(name, module, &inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
        case.check(name, &BuildOptions::default(), &[1, 2, 5]);
        last = Some(case);
    }
    last.expect("several batches")
}

/// The operators that write the array of which an operator of this kind writes a part.
fn writers(case: &Case, is_part: impl Fn(&Operator) -> bool) -> Vec<&'static str> {
    let running: Vec<&Operator> = (case.program.running().into_iter())
        .map(|id| &case.program.operators[id])
        .collect();
    let array = |op: &Operator| op.body.store().buffer;
    let part = running.iter().find(|op| {
        let alike = running.iter().filter(|other| array(other) == array(op));
        is_part(op) && alike.count() > 1
    });
    let kinds = running
        .iter()
        .filter(|op| part.is_some_and(|part| array(part) == array(op)));
    let kind = |op: &&Operator| match op.body {
        Body::Contract(_) => "contract",
        Body::Fold { .. } | Body::Chain(_) => "sum",
        _ => "map",
    };
    kinds.map(kind).collect()
}

/// Branches of different kinds, channels that fill no vector, one branch a concatenation itself, one that others read.
#[test]
fn branches_of_a_map() {
    let conv = |map: &str, from: usize, to: usize, taps: usize| {
        let pad = taps / 2;
        format!(
            "conv({map}, const splat 0.0{to}: f32[{to},{from},{taps},{taps}], [{pad}, {pad}, {pad}, {pad}], {ATTRIBUTES})"
        )
    };
    for [a, b, c, d] in [[16, 7, 33, 5], [32, 16, 48, 16]] {
        let (inner, all) = (b + c, a + b + c + d + 11);
        let text = format!(
            "fn @main(%x: f32[n,11,5,7]) -> (%y: f32[n,19,5,7], %z: f32[n,{all},5,7]) {{
               %a = {}
               %b = {}
               %c = {}
               %inner = concat(max(%b, 0), tanh(%c), axis=1)
               %p = window(%x, [1, 1, 1, 1], kind=sum, window=[3,3], strides=[1,1], dilations=[1,1])
               %q = {}
               %z = max(concat(%a, %inner, add(%q, %q), %p, axis=1), -0.5)
               %y = {}
               return %y, %z
             }}",
            conv("%x", 11, a, 1),
            conv("%x", 11, b, 3),
            conv("%a", a, c, 3),
            conv("%p", 11, d, 1),
            conv("%z", all, 19, 3),
        );
        let case = check(&format!("{inner} channels within {all}"), &text);
        let kinds = writers(&case, |op| matches!(op.body, Body::Contract(_)));
        let contracts = kinds.iter().filter(|kind| **kind == "contract");
        assert_eq!(contracts.count(), 3, "{kinds:?}");
    }
}

/// Products side by side along their columns, in a loop that carries what they give.
#[test]
fn columns_of_products() {
    let text = "fn @main(%x: f32[n,24]) -> (%y: f32[n,24]) {
      %u = const splat 0.03: f32[24,17]
      %v = const splat -0.05: f32[24,7]
      %y = loop %i trip 3 carry (%h: f32[n,24] = %x) {
        %a = tanh(dot(%h, %u))
        %b = dot(%h, %v)
        continue carry concat(%a, %b, axis=1)
      }
      return %y
    }";
    let case = check("columns", text);
    let kinds = writers(&case, |op| matches!(op.body, Body::Contract(_)));
    assert_eq!(kinds, ["contract", "contract"]);
}

/// Most of the result is a copy, or the place chooses by data: one operator.
#[test]
fn other_choices_stay_whole() {
    let text = "fn @main(%x: f32[n,40]) -> (%y: f32[n,57], %z: f32[n,17]) {
      %u = const splat 0.03: f32[40,17]
      %a = dot(%x, %u)
      %y = concat(%x, %a, axis=1)
      %b = dot(%x, %u)
      %z = select(lt(%b, 0.1), tanh(%b), %b)
      return %y, %z
    }";
    let case = check("a copy", text);
    assert_eq!(writers(&case, |_| true), [""; 0]);
}
