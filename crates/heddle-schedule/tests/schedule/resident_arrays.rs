//! Arrays that units keep in their shared memory.

use crate::common::lowered_for;
use crate::proven::scheduled;
use heddle_machine::Machine;
use heddle_schedule::schedule;
use heddle_uprogram::program::{Buffer, BufferKind, OperatorId, Share, Stmt, for_each_stmt};
use heddle_uprogram::{Expr, ScheduleError, UProgram, text, verify_program, verify_schedule};

const LSTM: &str = include_str!("../programs/lstm.heddle");

/// Two layers, each on its own half of the units, whose cells nobody else reads.
const LAYERS: &str =
    "fn @main(%x: f32[1,96], %k: i64[], %w: f32[96,96]) -> (%p: f32[1,96], %q: f32[1,96]) {
  %p: f32[1,96], %q: f32[1,96] = loop %i trip %k carry (%a: f32[1,96] = %x, %b: f32[1,96] = %x) {
    %a1: f32[1,96], %m = loop %j trip 5 carry (%h: f32[1,96] = %a, %c: f32[1,96] = %a) {
      %g = tanh(dot(%h, %w))
      %d = add(mul(%c, 0.5), %g)
      continue carry tanh(%d), %d
    }
    %b1: f32[1,96], %n = loop %j trip 5 carry (%h: f32[1,96] = %b, %c: f32[1,96] = %b) {
      %g = tanh(add(dot(%h, %w), %a))
      %d = add(mul(%c, 0.5), %g)
      continue carry tanh(%d), %d
    }
    continue carry %a1, %b1
  }
  return %p, %q
}";

/// The arrays, each with its first word and its length.
fn arrays(program: &UProgram) -> Vec<(Buffer, u32, i64)> {
    let of = program.buffers.iter().filter_map(|(id, data)| {
        let BufferKind::Resident(at) = data.kind else {
            return None;
        };
        Some((id, at, program.pool.as_int(data.len)?))
    });
    of.collect()
}

/// An operator that stores to an array.
fn writer(program: &UProgram, to: Buffer) -> OperatorId {
    let mut running = program.running().into_iter();
    let found = running.find(|id| program.operators[*id].body.store().buffer == to);
    found.expect("it is written")
}

/// The gates of an LSTM and its cell, under both of its names, but not the state, which all units read.
#[test]
fn gates_and_cells_are_resident() {
    let program = scheduled(LSTM, &Machine::h100());
    let mut lens: Vec<_> = arrays(&program).iter().map(|a| a.2).collect();
    lens.sort_unstable();
    let printed = text::print(&program);
    assert!(lens.ends_with(&[1024]), "{printed}");
    assert!(lens.starts_with(&[256, 256]), "{printed}");
    let mut exchanged = vec![];
    for_each_stmt(&program.body, &mut |stmt| {
        if let Stmt::Swap(a, b) = stmt {
            let is_resident = |b: &Buffer| arrays(&program).iter().any(|(id, ..)| id == b);
            exchanged.push([a, b].map(is_resident));
        }
    });
    exchanged.sort_unstable();
    assert_eq!(exchanged, [[false; 2], [true; 2]], "{printed}");
}

#[test]
fn a_printed_program_reads_back() {
    let program = scheduled(LSTM, &Machine::h100());
    let printed = text::print(&program);
    assert!(printed.contains(" resident at "), "{printed}");
    let read = text::parse(&printed).expect("it reads back");
    assert_eq!(text::print(&read), printed);
}

#[test]
fn arrays_of_teams_begin_at_the_same_word() {
    let program = scheduled(LAYERS, &Machine::h100().with_grid(8, 64));
    let mut begins: Vec<_> = arrays(&program).iter().map(|a| a.1).collect();
    begins.sort_unstable();
    let printed = text::print(&program);
    assert!(begins.len() > 2, "{printed}");
    assert!(begins.windows(2).any(|two| two[0] == two[1]), "{printed}");
}

#[test]
fn a_core_has_none() {
    let program = scheduled(LSTM, &Machine::reference_host(4));
    assert!(arrays(&program).is_empty());
}

/// Shared memory ends with a launch, which a lack of memory may end early.
#[test]
fn programs_that_may_be_interrupted_have_none() {
    let text = "fn @main(%x: f32[1,64], %w: f32[64,64], %row: f32[?,4]) -> (%y: f32[1,64], %all: f32[?,4]) {
  %y, %all, %c = loop %i while const true carry (%h: f32[1,64] = %x, %a: f32[?,4] = %row, %c: f32[1,64] = %x) {
    %g = add(mul(%c, 0.5), dot(%h, %w))
    %next = lt(reduce(abs(%g), kind=sum, axes=[0,1]), 9.0)
    continue while %next carry tanh(%g), concat(%a, %row, axis=0), %g
  }
  return %y, %all
}";
    let mut program = lowered_for(text, &Machine::h100());
    schedule(&mut program, &Machine::h100());
    let mut kinds = program.buffers.iter().map(|(_, data)| &data.kind);
    assert!(kinds.any(|kind| matches!(kind, BufferKind::Segment)));
    assert!(arrays(&program).is_empty(), "{}", text::print(&program));
}

/// Each wrong place of an array is named.
#[test]
fn wrong_arrays_are_refused() {
    let sound = scheduled(LSTM, &Machine::h100());
    let found = arrays(&sound);
    let refused = |change: &dyn Fn(&mut UProgram)| {
        let mut program = sound.clone();
        change(&mut program);
        verify_program(&program).unwrap_err().to_string()
    };
    let (first, at, _) = found[0];
    let error = refused(&|p| p.buffers[found[1].0].kind = BufferKind::Resident(at));
    assert!(error.contains("two of them overlap"), "{error}");
    let error = refused(&|p| p.buffers[first].len = p.pool.int(0));
    assert!(error.contains("known number of f32"), "{error}");
    let exchanged = |p: &UProgram| {
        let mut pair = None;
        for_each_stmt(&p.body, &mut |stmt| {
            if let Stmt::Swap(a, b) = stmt
                && found.iter().any(|array| array.0 == *a)
            {
                pair = Some([*a, *b]);
            }
        });
        pair.expect("the cell is exchanged")
    };
    let error = refused(&|p| {
        let [one, _] = exchanged(p);
        p.buffers[one].kind = BufferKind::Scratch;
    });
    assert!(error.contains("exchanged with one that is not"), "{error}");
    let error = refused(&|p| {
        let other = p
            .buffers
            .iter()
            .find(|(_, data)| matches!(data.kind, BufferKind::Scratch));
        let id = other.expect("an array in global memory").0;
        p.buffers[id].kind = BufferKind::Segment;
    });
    assert!(error.contains("a lack of memory may interrupt"), "{error}");
}

/// A unit that writes what another one reads, whatever they wait for.
#[test]
fn arrays_that_units_share_are_refused() {
    let sound = scheduled(LSTM, &Machine::h100());
    for (buffer, ..) in arrays(&sound) {
        let mut program = sound.clone();
        let id = writer(&program, buffer);
        program.operators[id].share = Share::One(3);
        program.operators[id].resident = None;
        let error = verify_schedule(&program, 256).unwrap_err();
        assert!(matches!(error, ScheduleError::Shared { .. }), "{error}");
    }
}

/// All units read what a statement reads.
#[test]
fn arrays_that_statements_read_are_refused() {
    let mut program = scheduled(LSTM, &Machine::h100());
    let (buffer, ..) = arrays(&program)[0];
    let zero = program.pool.int(0);
    let read = program.pool.add(Expr::Load(buffer, zero));
    let is_positive = program.pool.compare(
        heddle_ir::op::CompareOp::Gt,
        heddle_ir::DType::F32,
        read,
        read,
    );
    program.body.push(Stmt::If {
        cond: is_positive,
        then: vec![],
        otherwise: vec![],
    });
    let error = verify_schedule(&program, 256).unwrap_err();
    assert!(matches!(error, ScheduleError::Shared { .. }), "{error}");
}
