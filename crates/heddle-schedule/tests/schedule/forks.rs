//! Calls that are independent run at the same time; others do not, and the verifier knows which are
//! which.

use crate::common::{lowered, shape};
use heddle_machine::Machine;
use heddle_schedule::{PLACE_SYNCS, schedule, schedule_without};
use heddle_uprogram::program::{Call, Procedure, Stmt};
use heddle_uprogram::{ScheduleError, UProgram, verify_schedule};

const FORKS: &str = include_str!("../programs/forks.heddle");

fn scheduled(text: &str, units: usize) -> UProgram {
    let (mut program, machine) = (lowered(text), Machine::reference_host(units));
    schedule(&mut program, &machine);
    verify_schedule(&program, machine.synced_lanes()).unwrap();
    program
}

/// A binary tree whose second call this is, with what stands before it.
fn tree(second: &str) -> String {
    format!(
        "fn @main(%l: i64[n], %r: i64[n], %x: f32[n,16], %root: i64[]) -> (%y: f32[16]) {{
           %down = const 1.0
           %y = call @f(%l, %r, %x, %root, gather(%x, %root, axis=0))
           return %y
         }}
         fn @f(%l: i64[n], %r: i64[n], %x: f32[n,16], %n: i64[], %v: f32[16]) -> (%y: f32[16]) {{
           %a = gather(%l, %n, axis=0)
           %b = gather(%r, %n, axis=0)
           %y = if lt(%a, 0) {{
             yield tanh(add(gather(%x, %n, axis=0), %v))
           }} else {{
             %p = call @f(%l, %r, %x, %a, %v)
             {second}
             yield tanh(sub(%p, %q))
           }}
           return %y
         }}"
    )
}

#[test]
fn independent_calls_run_at_the_same_time() {
    let program = scheduled(FORKS, 2);
    let shapes = program.procedures.iter().map(|(_, p)| shape(&p.body));
    let shapes: Vec<_> = shapes.collect();
    assert!(shapes.iter().any(|s| s.contains("f2")), "{shapes:?}");
    assert!(shapes.iter().any(|s| s.contains("f3")), "{shapes:?}");
    // Statements between the calls move before them.
    let before = |s: &String| s.replace('w', "s").contains("rrsf2");
    assert!(shapes.iter().any(before), "{shapes:?}");

    let program = scheduled(&tree("%q = call @f(%l, %r, %x, %b, %v)"), 2);
    assert!(program.has_forks());
}

#[test]
fn one_unit_has_nobody_to_part_from() {
    assert!(!scheduled(FORKS, 1).has_forks());
}

#[test]
fn a_call_that_needs_another_one_comes_after_it() {
    for second in [
        "%q = call @f(%l, %r, %x, %b, %p)",
        "%scaled = mul(%p, 2.0)
         %q = call @f(%l, %r, %x, %b, tanh(%scaled))",
        "%where = cast(gather(%p, const 3, axis=0), to=i64)
         %q = call @f(%l, %r, %x, %where, %v)",
    ] {
        let program = scheduled(&tree(second), 2);
        assert!(!program.has_forks(), "{second}");
    }
}

#[test]
fn what_all_units_share_they_share() {
    let large = tree("%q = call @f(%l, %r, %x, %b, %v)").replace("16]", "65536]");
    assert!(!scheduled(&large, 2).has_forks());
}

#[test]
fn results_in_variables_stay_with_their_units() {
    let text = include_str!("../programs/recursion.heddle");
    assert!(!scheduled(text, 2).has_forks());
    // Forks that should not be are noticed.
    let error = with_fork(scheduled(text, 2), |_| {});
    assert!(
        matches!(error, ScheduleError::Variables { .. }),
        "{error:?}"
    );
}

#[test]
fn calls_that_write_the_same_are_noticed() {
    let program = scheduled(&tree("%q = call @f(%l, %r, %x, %b, %p)"), 2);
    let error = with_fork(program, |_| {});
    assert!(matches!(error, ScheduleError::Beside { .. }), "{error:?}");

    let program = scheduled(&tree("%q = call @f(%l, %r, %x, %b, %v)"), 1);
    let error = with_fork(program, |calls| {
        let result = calls[0].buffers.last().unwrap().1;
        calls[1].buffers.last_mut().unwrap().1 = result;
    });
    assert!(matches!(error, ScheduleError::Beside { .. }), "{error:?}");
}

/// A synchronisation inside a team is not visible outside, even if the rest of the call
/// synchronises with all of the team.
#[test]
fn what_a_team_knows_the_others_do_not() {
    let text = "\
fn @main(%m: f32[16,16], %n: i64[], %v: f32[16]) -> (%y: f32[16]) {
  %y = call @whole(%m, %n, %v)
  return %y
}
fn @whole(%m: f32[16,16], %n: i64[], %v: f32[16]) -> (%y: f32[16]) {
  %y = if lt(%n, 2) {
    yield mul(%v, 2.0)
  } else {
    %a, %x = call @half(%m, div(%n, 2), tanh(%v))
    %b, %z = call @half(%m, sub(%n, div(%n, 2)), neg(%v))
    %first = dot(unsqueeze(sub(%a, %b), axes=[0]), %m)
    %second = dot(tanh(%first), %m)
    yield tanh(add(squeeze(%second, axes=[0]), sub(%x, %z)))
  }
  return %y
}
fn @half(%m: f32[16,16], %n: i64[], %v: f32[16]) -> (%a: f32[16], %y: f32[16]) {
  %a = tanh(squeeze(dot(unsqueeze(%v, axes=[0]), %m), axes=[0]))
  %y = call @whole(%m, %n, %v)
  return %a, %y
}";
    let machine = Machine::reference_host(2);
    let mut program = lowered(text);
    schedule_without(&mut program, &machine, &[PLACE_SYNCS]);
    verify_schedule(&program, machine.synced_lanes()).unwrap();
    assert!(program.has_forks());
    let ids: Vec<_> = program.procedures.keys().collect();
    for id in ids {
        let body = &mut program.procedures[id].body;
        // Writes before the call count.
        if let Some(call) = body.iter().position(|s| matches!(s, Stmt::Call(_))) {
            let call = body.remove(call);
            body.push(call);
        }
        deafen(body);
    }
    let error = verify_schedule(&program, machine.synced_lanes()).unwrap_err();
    assert!(
        matches!(error, ScheduleError::Unordered { .. }),
        "{error:?}"
    );
}

/// Removes what is waited for right after a fork.
fn deafen(block: &mut Vec<Stmt>) {
    let fork = block.iter().position(|s| matches!(s, Stmt::Fork(_)));
    if let Some(fork) = fork {
        let sync = (fork..block.len()).find(|&k| matches!(block[k], Stmt::Sync(_)));
        block.remove(sync.expect("somebody waits"));
    }
    for stmt in block {
        if let Stmt::If {
            then, otherwise, ..
        } = stmt
        {
            deafen(then);
            deafen(otherwise);
        }
    }
}

/// The error for a program in which the first two calls of a procedure run at the same time, after
/// a change to them.
fn with_fork(mut program: UProgram, change: impl Fn(&mut [Call])) -> ScheduleError {
    fn calls_of(block: &[Stmt]) -> Option<Vec<heddle_uprogram::program::CallId>> {
        let own: Vec<_> = block
            .iter()
            .flat_map(Stmt::calls)
            .copied()
            .take(2)
            .collect();
        if own.len() == 2 {
            return Some(own);
        }
        block.iter().find_map(|stmt| match stmt {
            Stmt::If {
                then, otherwise, ..
            } => calls_of(then).or_else(|| calls_of(otherwise)),
            _ => None,
        })
    }
    fn put(block: &mut Vec<Stmt>, calls: &[heddle_uprogram::program::CallId]) {
        for stmt in &mut *block {
            if let Stmt::If {
                then, otherwise, ..
            } = stmt
            {
                put(then, calls);
                put(otherwise, calls);
            }
        }
        if block.iter().flat_map(Stmt::calls).any(|c| *c == calls[1]) {
            block.retain(|stmt| !matches!(stmt.calls(), [c] if *c == calls[0]));
            let second = |stmt: &Stmt| stmt.calls().contains(&calls[1]);
            let place = block.iter().position(second).unwrap();
            block[place] = Stmt::Fork(calls.to_vec());
        }
    }
    let body = |p: &Procedure| calls_of(&p.body);
    let calls = program.procedures.iter().find_map(|(_, p)| body(p));
    let calls = calls.expect("two calls");
    let mut data: Vec<_> = calls.iter().map(|c| program.calls[*c].clone()).collect();
    change(&mut data);
    for (id, call) in calls.iter().zip(data) {
        program.calls[*id] = call;
    }
    let ids: Vec<_> = program.procedures.keys().collect();
    for id in ids {
        put(&mut program.procedures[id].body, &calls);
    }
    verify_schedule(&program, 1).unwrap_err()
}
