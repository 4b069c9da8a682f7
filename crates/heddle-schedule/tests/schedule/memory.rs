//! Buffers share memory where they may, and nowhere else.

use crate::common::{lowered, shape};
use heddle_machine::Machine;
use heddle_schedule::{kernel_passes, place_syncs, plan_memory, schedule};
use heddle_uprogram::program::{BufferKind, UProgram};
use heddle_uprogram::verify_schedule;

/// The number of scratch buffers before and after.
fn planned(text: &str) -> (usize, usize, UProgram) {
    let machine = Machine::reference_host(2);
    let mut program = lowered(text);
    let before = used(&program);
    plan_memory(&mut program, &machine);
    let after = used(&program);
    place_syncs(&mut program, &machine);
    verify_schedule(&program, machine.synced_lanes()).unwrap_or_else(|e| panic!("{e}"));
    (before, after, program)
}

fn used(program: &UProgram) -> usize {
    let buffers = program.buffers.iter();
    let scratch = buffers.filter(|(_, b)| {
        matches!(b.kind, BufferKind::Scratch) && program.pool.as_int(b.len) != Some(0)
    });
    scratch.count()
}

#[test]
fn a_chain_needs_two() {
    let (before, after, _) = planned(
        "fn @main(%x: f32[64,64]) -> (%y: f32[64,64]) {
           %a = dot(%x, %x)
           %b = dot(%a, %a)
           %c = dot(%b, %b)
           %d = dot(%c, %c)
           %e = dot(%d, %d)
           return %e
         }",
    );
    assert!(before >= 4, "{before}");
    assert_eq!(after, 2);
}

#[test]
fn arms_share() {
    let (before, after, _) = planned(
        "fn @main(%x: f32[64,64], %p: bool[]) -> (%y: f32[64,64]) {
           %y = if %p {
             %a = dot(%x, %x)
             yield dot(%a, %a)
           } else {
             %b = dot(%x, exp(%x))
             yield dot(%b, %x)
           }
           return %y
         }",
    );
    assert!(after < before, "{before} {after}");
}

#[test]
fn what_is_carried_is_needed_all_the_time() {
    let text = "fn @main(%x: f32[64,64], %k: i64[]) -> (%y: f32[64,64], %z: f32[64,64]) {
           %y, %z = loop %i trip %k carry (%c = %x, %d = %x) {
             %a = dot(%c, %d)
             %b = dot(%a, %c)
             %e = dot(%b, %b)
             continue carry %e, %b
           }
           return %y, %z
         }";
    let (before, after, program) = planned(text);
    let mut carried = 0;
    heddle_uprogram::program::for_each_stmt(&program.body, &mut |stmt| {
        if let heddle_uprogram::program::Stmt::Swap(a, b) = stmt {
            assert_ne!(a, b);
            carried += 2;
        }
    });
    // Two values that are exchanged take four; nothing else may lie there.
    assert_eq!(carried, 4);
    assert!(after >= 4 && after <= before, "{before} {after}");
}

/// Products of a batch that both units have a half of, with no synchronisation between them.
#[test]
fn equal_partitions_need_no_wait_to_share() {
    let (before, after, program) = planned(
        "fn @main(%x: f32[8,64,64]) -> (%y: f32[8,64,64]) {
           %a = dot(%x, %x)
           %b = dot(%a, %a)
           %c = dot(%b, %b)
           %d = dot(%c, %c)
           return %d
         }",
    );
    assert_eq!(shape(&program.body), "rrrr");
    assert_eq!((before, after), (3, 2));
}

/// The same, but the batch becomes rows on the way, which units have parts of.
#[test]
fn different_partitions_wait() {
    let (_, _, program) = planned(
        "fn @main(%x: f32[8,8,64]) -> (%y: f32[8,8,8]) {
           %a = dot(%x, transpose(%x, perm=[0,2,1]))
           %b = dot(%a, transpose(%a, perm=[1,0,2]))
           %c = dot(%b, transpose(%b, perm=[1,0,2]))
           return %c
         }",
    );
    assert_eq!(shape(&program.body), "rsrsr");
}

/// A batch of rows of which only the run knows how many, but for a bound that a choice states, goes
/// around a loop: no buffer is larger.
#[test]
fn open_sizes_that_stay_go_around_loops() {
    let program = lowered(
        "fn @main(%x: f32[1000,3], %k: i64[90]) -> (%y: f32[3]) {
           %sum = reduce(%k, kind=sum, axes=[0], keep=false)
           %count = min(max(%sum, 0), 5)
           %end = unsqueeze(%count, axes=[0])
           %few: f32[?<=5,3] = slice(%x, [0], %end, [1], axes=[0])
           %others: f32[?<=5,3] = slice(neg(%x), [0], %end, [1], axes=[0])
           %z: f32[?<=5,3] = loop %i trip 4 carry (%c: f32[?<=5,3] = %few) {
             %next: f32[?<=5,3] = tanh(add(%others, %c))
             continue carry %next
           }
           return reduce(%z, kind=sum, axes=[0], keep=false)
         }",
    );
    let scratch = program.buffers.iter().map(|(_, b)| b);
    let scratch = scratch.filter(|b| matches!(b.kind, BufferKind::Scratch));
    let lens: Vec<_> = scratch.map(|b| program.pool.as_int(b.len)).collect();
    assert!(!lens.is_empty());
    assert!(lens.contains(&Some(15)), "{lens:?}");
    let bounded = |len: &Option<i64>| len.is_some_and(|n| n <= 15);
    assert!(lens.iter().all(bounded), "{lens:?}");
}

/// Caches gain from less memory, which the model does not price, so a plan may cost a little.
#[test]
fn a_plan_may_cost_a_little() {
    let conv = |from: &str, weights: &str, pad: usize, stride: usize| {
        format!(
            "conv({from}, {weights}, [{pad},{pad},{pad},{pad}], strides=[{stride},{stride}], dilations=[1,1], input_dilations=[1,1], groups=1)"
        )
    };
    // A block with a convolution on its shortcut, beside its main path.
    let text = format!(
        "fn @main(%x: f32[1,64,28,28]) -> (%y: f32[1,64,14,14]) {{
           %k = const {:?}: f32[64,64,3,3]
           %p = const {:?}: f32[64,64,1,1]
           %a = max({}, 0)
           %b = max({}, 0)
           %c = max({}, 0)
           %d = {}
           %s = {}
           %y = max(add(%d, %s), 0)
           return %y
         }}",
        [[[[0.01; 3]; 3]; 64]; 64],
        [[[[0.01; 1]; 1]; 64]; 64],
        conv("%x", "%k", 1, 1),
        conv("%a", "%p", 0, 1),
        conv("%b", "%k", 1, 2),
        conv("%c", "%p", 0, 1),
        conv("%a", "%p", 0, 2),
    );
    let machine = Machine::reference_host(2);
    let mut program = lowered(&text);
    for pass in kernel_passes(&[]) {
        pass.apply(&mut program, &machine);
    }
    schedule(&mut program, &machine);
    assert_eq!(used(&program), 4);
}
