//! Operators that every unit runs.

use crate::common::{lowered, lowered_for};
use heddle_machine::Machine;
use heddle_schedule::{Pass, find_pass, schedule_without};
use heddle_uprogram::program::{BufferKind, OperatorId, Share, Stmt, Sync, for_each_stmt};
use heddle_uprogram::{ScheduleError, UProgram, text, verify_program, verify_schedule};

const DECODER: &str = include_str!("../programs/decoder.heddle");

/// A state of eight numbers, which becomes variables, and a matrix.
const SMALL: &str = "fn @main(%x: f32[8], %k: i64[], %w: f32[8,8]) -> (%y: f32[8]) {
  %y = loop %i trip %k carry (%h: f32[8] = %x) {
    continue carry tanh(squeeze(dot(unsqueeze(%h, axes=[0]), %w), axes=[0]))
  }
  return %y
}";

fn machines() -> [Machine; 4] {
    [
        Machine::reference_host(2),
        Machine::reference_host(64),
        Machine::h100(),
        Machine::mi300x(),
    ]
}

/// Without arrays that units gather, which would save the same waits.
fn scheduled(text: &str, machine: &Machine) -> UProgram {
    let mut program = lowered_for(text, machine);
    schedule_without(&mut program, machine, &[pass("gather_state")]);
    assert_eq!(verify_schedule(&program, machine.synced_lanes()), Ok(()));
    program
}

fn pass(name: &str) -> Pass {
    *find_pass(name).expect("a pass")
}

fn on_every_unit(program: &UProgram) -> Vec<OperatorId> {
    let running = program.running().into_iter();
    running
        .filter(|id| program.operators[*id].share == Share::Every)
        .collect()
}

fn waits(program: &UProgram) -> usize {
    let mut waits = 0;
    program.for_each_outer_loop(&mut |body| {
        for_each_stmt(body, &mut |stmt| {
            waits += usize::from(matches!(stmt, Stmt::Sync(Sync::Wait { .. })));
        });
    });
    waits
}

#[test]
fn what_all_read_is_computed_by_all() {
    for (text, machine) in [
        (DECODER, Machine::h100()),
        (DECODER, Machine::h200()),
        (SMALL, Machine::h100()),
        (SMALL, Machine::mi300x()),
    ] {
        let with = scheduled(text, &machine);
        let found = on_every_unit(&with);
        assert!(!found.is_empty(), "{}", text::print(&with));
        for id in found {
            let to = with.operators[id].body.store().buffer;
            assert!(matches!(with.buffers[to].kind, BufferKind::Own));
        }
        let mut without = lowered_for(text, &machine);
        let left_out = ["replicate", "gather_state"].map(pass);
        schedule_without(&mut without, &machine, &left_out);
        assert_eq!(on_every_unit(&without), []);
        assert!(
            waits(&with) < waits(&without),
            "{} {}",
            text::print(&with),
            text::print(&without)
        );
    }
}

#[test]
fn its_text_is_read_back() {
    let program = scheduled(DECODER, &Machine::h100());
    let printed = text::print(&program);
    let again = text::parse(&printed).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(verify_program(&again), Ok(()));
    assert_eq!(text::print(&again), printed);
    assert!(printed.contains("] every"), "{printed}");
}

#[test]
fn one_unit_shares_nothing() {
    let program = scheduled(DECODER, &Machine::reference_host(1));
    assert_eq!(on_every_unit(&program), []);
}

#[test]
fn long_work_is_done_once() {
    // Every unit would read 4 MB of scores.
    let text = DECODER.replace("4000", "1000000");
    for machine in machines() {
        let program = scheduled(&text, &machine);
        for id in on_every_unit(&program) {
            let to = program.operators[id].body.store().buffer;
            let len = program.pool.as_int(program.buffers[to].len);
            assert!(
                len.is_some_and(|len| len < 10_000),
                "{}",
                text::print(&program)
            );
        }
    }
}

#[test]
fn what_a_loop_carries_is_not() {
    // At the head of the loop a unit may join that has not computed it.
    let text = "fn @main(%x: f32[1,24], %k: i64[], %w: f32[24,24]) -> (%y: f32[1,24]) {
      %y = loop %i trip %k carry (%h: f32[1,24] = %x) {
        continue carry tanh(dot(%h, %w))
      }
      return %y
    }";
    for machine in machines() {
        let program = scheduled(text, &machine);
        assert_eq!(on_every_unit(&program), [], "{}", text::print(&program));
    }
}

#[test]
fn results_must_be_there() {
    let machine = Machine::h100();
    let program = scheduled(DECODER, &machine);
    let lanes = machine.synced_lanes();
    let every = on_every_unit(&program);
    let is_own = |error: &ScheduleError| matches!(error, ScheduleError::Own { .. });
    // Not computed, computed in one arm only, and before units may have joined.
    for (what, change) in [
        ("left out", (|_| vec![]) as fn(Stmt) -> Vec<Stmt>),
        ("behind a resize", |run| vec![run, Stmt::Sync(Sync::Resize)]),
    ] {
        let mut broken = program.clone();
        broken.for_each_stmt_mut(&mut |stmt| {
            for block in stmt.blocks_mut() {
                let old = std::mem::take(block).into_iter();
                let new = old.flat_map(|stmt| match stmt {
                    Stmt::Run(id) if every.contains(&id) => change(stmt),
                    _ => vec![stmt],
                });
                *block = new.collect();
            }
        });
        let error = verify_schedule(&broken, lanes).expect_err(what);
        assert!(is_own(&error), "{what}: {error}");
    }
}

#[test]
fn only_every_unit_has_results_of_its_own() {
    let program = scheduled(DECODER, &Machine::h100());
    let every = on_every_unit(&program)[0];
    let mut shared = program.clone();
    shared.operators[every].share = Share::One(0);
    let error = verify_program(&shared).expect_err("one unit writes what is each unit's own");
    assert!(error.to_string().contains("every unit"), "{error}");
    let mut common = program.clone();
    let to = common.operators[every].body.store().buffer;
    common.buffers[to].kind = BufferKind::Scratch;
    verify_program(&common).expect_err("every unit writes what is common");
    let mut workspace = lowered(DECODER);
    let some = workspace.running().into_iter().next().expect("an operator");
    let to = workspace.operators[some].body.store().buffer;
    workspace.buffers[to].kind = BufferKind::Own;
    verify_program(&workspace).expect_err("workspace that is read");
}
