//! Arrays that exchange their memory on a GPU: pairs by a bit, others by their addresses, with what the interpreter gives.

use crate::harness::{Case, drawn};
use heddle_machine::Machine;
use heddle_runtime::Grid;

/// Checks a program and gives its text.
fn text(name: &str, program: &str) -> String {
    let (module, inputs) = drawn(name, program, 1, 7);
    let machine = Machine::h100().with_grid(3, 32);
    let schedule = |program: &mut heddle_uprogram::UProgram| {
        heddle_schedule::schedule(program, &machine);
    };
    let case = Case::on_gpu(name, module, &inputs, &machine, &schedule);
    let case = case.unwrap_or_else(|e| panic!("{name}: {e}"));
    let grid = |seed| Grid {
        blocks: 3,
        threads: 32,
        warp: 32,
        cluster: 1,
        seed,
    };
    assert!(case.check_grids(name, &[grid(1), grid(2)]), "{name}");
    case.source.text
}

/// Trips are odd at one of the places and even at another.
#[test]
fn pairs_have_a_bit() {
    let pairs = text(
        "pairs",
        "fn @main(%x: f32[2,33], %w: f32[33,33]) -> (%y: f32[2,33], %z: f32[2,33]) {
  %small = mul(%w, 0.1)
  %y, %z = loop %i trip 5 carry (%a: f32[2,33] = %x, %b: f32[2,33] = neg(%x)) {
    %n = tanh(dot(%a, %small))
    %m = loop %j trip 4 carry (%h: f32[2,33] = %b) {
      continue carry tanh(add(dot(%h, %small), %x))
    }
    continue carry %n, %m
  }
  return %y, %z
}",
    );
    assert!(pairs.contains("swapped0 ^= 1;") && pairs.contains("swapped1 ^= 1;"));
    assert!(!pairs.contains("*swap ="), "{pairs}");
}

#[test]
fn arrays_that_are_exchanged_together_have_one() {
    let together = text(
        "together",
        "fn @main(%x: f32[2,33], %w: f32[33,33]) -> (%y: f32[2,33], %z: f32[2,33]) {
  %small = mul(%w, 0.1)
  %y, %z = loop %i trip 5 carry (%a: f32[2,33] = %x, %b: f32[2,33] = neg(%x)) {
    continue carry tanh(dot(%b, %small)), add(dot(%a, %small), dot(%b, %small))
  }
  return %y, %z
}",
    );
    assert!(together.contains("swapped0 ^= 1;"), "{together}");
    assert!(!together.contains("swapped1"), "{together}");
}

#[test]
fn three_that_take_each_others_places_have_addresses() {
    let three = text(
        "three",
        "fn @main(%x: f32[2,33], %y: f32[2,33], %z: f32[2,33]) -> (%p: f32[2,33], %q: f32[2,33], %r: f32[2,33]) {
  %p, %q, %r = loop %i trip 4 carry (%a: f32[2,33] = neg(%x), %b: f32[2,33] = neg(%y), %c: f32[2,33] = neg(%z)) {
    continue carry %b, %c, %a
  }
  return %p, %q, %r
}",
    );
    assert!(three.contains("*swap ="), "{three}");
    assert!(!three.contains("swapped"), "{three}");
}
