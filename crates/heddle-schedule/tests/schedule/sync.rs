//! Synchronisations stand where data crosses units, and nowhere else.

use crate::common::{self, shape};
use heddle_machine::Machine;
use heddle_uprogram::UProgram;

fn scheduled(text: &str) -> UProgram {
    let mut program = common::lowered(text);
    heddle_schedule::place_syncs(&mut program, &Machine::reference_host(2));
    program
}

#[test]
fn a_chain_of_elementwise_ops_is_one_operator() {
    let program = scheduled(
        "fn @main(%x: f32[n,8]) -> (%y: f32[n,8]) {
           %y = tanh(add(mul(%x, 2.0), 1.0))
           return %y
         }",
    );
    assert_eq!(shape(&program.body), "r");
}

#[test]
fn rows_that_stay_on_their_unit_need_no_sync() {
    // Both the maximum and its reader are split by rows.
    let program = scheduled(
        "fn @main(%x: f32[n,8]) -> (%y: f32[n,8]) {
           %m = reduce(%x, kind=max, axes=[1], keep=true)
           %y = exp(sub(%x, %m))
           return %y
         }",
    );
    assert_eq!(shape(&program.body), "rr");
}

#[test]
fn columns_that_others_wrote_need_one() {
    let program = scheduled(
        "fn @main(%x: f32[n,8]) -> (%y: f32[8,n]) {
           %e = exp(%x)
           %y = mul(transpose(dot(%e, dot(transpose(%e, perm=[1,0]), %e)), perm=[1,0]), 2.0)
           return %y
         }",
    );
    // exp; its product with itself reads all rows; the second product reads all of the first; the
    // transposed copy reads columns of what was written by rows.
    assert_eq!(shape(&program.body), "rsrsrsr");
}

#[test]
fn a_loop_is_synchronised_across_its_back_edge() {
    let program = scheduled(
        "fn @main(%h: f32[1,64], %w: f32[64,64], %k: i64[]) -> (%y: f32[1,64]) {
           %y = loop trip %k carry (%c: f32[1,64] = %h) {
             %z = tanh(dot(%c, %w))
             continue carry %z
           }
           return %y
         }",
    );
    // The copy of the first value; in the body one sync, because each unit reads all of what the
    // iteration before (or the copy) wrote in parts; tanh is the end of the contraction; none after
    // the loop either, where each unit copies its own part out.
    assert_eq!(shape(&program.body), "r(srx)r");
}

#[test]
fn a_state_that_stays_on_its_unit_needs_none() {
    let program = scheduled(
        "fn @main(%x: f32[64], %k: i64[]) -> (%y: f32[64]) {
           %y = loop trip %k carry (%c: f32[64] = %x) {
             continue carry add(mul(%c, 0.5), %x)
           }
           return %y
         }",
    );
    assert_eq!(shape(&program.body), "r(rx)r");
}

#[test]
fn an_update_in_place_is_not_a_copy() {
    let program = scheduled(
        "fn @main(%u: f32[1,3]) -> (%y: f32[12,3]) {
           %empty = const splat 0.0: f32[12,3]
           %y = loop %t trip 12 carry (%c = %empty) {
             continue carry scatter_nd(%c, reshape(%t, [1,1]), %u)
           }
           return %y
         }",
    );
    // The first value is written once, in the loop only the row; no exchange of buffers.
    assert!(
        shape(&program.body).contains('('),
        "{}",
        shape(&program.body)
    );
    assert!(
        !shape(&program.body).contains('x'),
        "{}",
        shape(&program.body)
    );
    let rows = program
        .operators
        .iter()
        .filter(|(_, op)| op.name.contains("scatter"));
    assert!(rows.count() <= 1);
}

#[test]
fn branches_join_what_may_have_been_written() {
    let program = scheduled(
        "fn @main(%x: f32[8,8], %p: bool[]) -> (%y: f32[8,8]) {
           %a = if %p { yield exp(%x) } else { yield %x }
           %y = dot(%a, %a)
           return %y
         }",
    );
    assert_eq!(shape(&program.body), "[r|r]sr");
}

#[test]
fn what_the_first_iteration_waits_for_is_waited_for_before_the_loop() {
    let program = scheduled(
        "fn @main(%x: f32[n,64], %z: f32[64], %k: i64[]) -> (%y: f32[64]) {
           %e = exp(mul(%x, %x))
           %p = reduce(%e, kind=max, axes=[1], keep=true)
           %y = loop trip %k carry (%c: f32[64] = %z) {
             %s = reduce(div(%e, %p), kind=sum, axes=[0], keep=false)
             continue carry mul(add(%c, %s), 0.5)
           }
           return %y
         }",
    );
    let text = shape(&program.body);
    let (before, body) = text.split_once('(').expect("a loop");
    assert!(before.contains('s'), "{text}");
    assert!(!body.contains('s'), "{text}");
}
