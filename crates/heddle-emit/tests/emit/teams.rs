//! Layers on teams of units: any number of workers or blocks, fewer than teams among them, gives what the interpreter gives.

use crate::harness::{Case, drawn};
use heddle_machine::Machine;
use heddle_runtime::{BuildOptions, Grid};
use heddle_uprogram::UProgram;
use heddle_uprogram::program::{OperatorId, Stmt, Team, for_each_stmt};

/// Layers of so many rows, of which each works on what the one before left in the last step.
pub fn layers(rows: usize, count: usize, trips: usize, inner: usize) -> String {
    let list = |form: &dyn Fn(usize) -> String| (0..count).map(form).collect::<Vec<_>>().join(", ");
    let layer = |k: usize| {
        let other = if k == 0 {
            "x".into()
        } else {
            format!("c{}", k - 1)
        };
        format!(
            "  %n{k}: f32[{rows},33] = loop %j{k} trip {inner} carry (%h{k}: f32[{rows},33] = %c{k}) {{
      continue carry tanh(add(dot(%h{k}, %small), dot(%{other}, %u)))
    }}\n"
        )
    };
    format!(
        "fn @main(%x: f32[{rows},33], %w: f32[33,33], %u: f32[33,33]) -> ({}) {{
  %small = mul(%w, 0.1)
  {} = loop %i trip {trips} carry ({}) {{
{}    continue carry {}
  }}
  return {}
}}",
        list(&|k| format!("%y{k}: f32[{rows},33]")),
        list(&|k| format!("%y{k}: f32[{rows},33]")),
        list(&|k| format!("%c{k}: f32[{rows},33] = %x")),
        (0..count).map(layer).collect::<String>(),
        list(&|k| format!("%n{k}")),
        list(&|k| format!("%y{k}")),
    )
}

/// Schedules a program with each loop within its loop on a team.
pub fn on_teams(program: &mut UProgram, machine: &Machine) {
    for pass in heddle_schedule::schedule_passes(&[]) {
        // Memory is planned for the teams, that of each unit first.
        if pass.name == "keep_resident" {
            set_teams(program);
        }
        pass.apply(program, machine);
    }
}

/// Puts each loop within its loop on a team.
pub fn set_teams(program: &mut UProgram) {
    let mut found: Vec<Vec<OperatorId>> = vec![];
    for stmt in &program.body {
        let Stmt::Loop { body, .. } = stmt else {
            continue;
        };
        // Operators before an inner loop belong to it.
        let mut own = vec![];
        for stmt in body {
            for_each_stmt(std::slice::from_ref(stmt), &mut |stmt| {
                if let Stmt::Run(id) = stmt {
                    own.push(*id);
                }
            });
            if let Stmt::Loop { .. } = stmt {
                found.push(std::mem::take(&mut own));
            }
        }
        assert!(own.is_empty(), "operators behind the last layer");
    }
    let of = found.len() as u32;
    for (ids, index) in found.into_iter().zip(0..) {
        for id in ids {
            let op = &mut program.operators[id];
            op.share = op.share.whole();
            op.team = Some(Team { index, of });
        }
    }
}

/// Do units of other teams skip the loops of one?
fn skips_loops(text: &str) -> bool {
    text.contains(" % 2 != 0) {")
}

#[test]
fn on_workers() {
    let machine = Machine::reference_host(8).with_barrier_ns(0.0);
    for (count, trips, inner) in [(2, 9, 3), (3, 5, 2), (5, 2, 3), (4, 7, 4)] {
        let name = format!("{count} layers, {trips} steps");
        let (module, inputs) = drawn(&name, &layers(3, count, trips, inner), 1, 7);
        let schedule = |program: &mut UProgram| on_teams(program, &machine);
        let case = Case::with(&name, module, &inputs, &machine, &schedule);
        let case = case.unwrap_or_else(|e| panic!("{name}: {e}"));
        let near = case.source.text.contains("= heddle_near_first");
        assert!(near, "{}", case.source.text);
        assert!(skips_loops(&case.source.text), "{}", case.source.text);
        case.check(&name, &BuildOptions::default(), &[1, 2, 3, 5, 8]);
    }
}

#[test]
fn on_blocks() {
    for (rows, blocks, count) in [(3, 1, 2), (3, 2, 3), (1, 7, 3), (3, 9, 4), (1, 9, 4)] {
        let machine = Machine::h100().with_grid(blocks, 64);
        let name = format!("{count} layers of {rows} rows on {blocks} blocks");
        let (module, inputs) = drawn(&name, &layers(rows, count, 4, 3), 1, 7);
        let schedule = |program: &mut UProgram| on_teams(program, &machine);
        let case = Case::on_gpu(&name, module, &inputs, &machine, &schedule);
        let case = case.unwrap_or_else(|e| panic!("{name}: {e}"));
        let text = &case.source.text;
        assert!(text.contains("= heddle_near_first"), "{name}");
        assert!(skips_loops(text), "{name}: {text}");
        // The blocks of a team wait for each other in its loop; the others count these waits.
        assert_eq!(
            text.contains("epoch += (uint64_t)"),
            rows == 1,
            "{name}: {text}"
        );
        // Each block knows its teams.
        let own = format!("first_team_of{count} <= 1 && 1 <= last_team_of{count}");
        assert!(text.contains(&own), "{name}: {text}");
        let grids = [(32, 1), (64, 2), (32, 3)].map(|(warp, seed)| Grid {
            blocks: blocks as u32,
            threads: 64,
            warp,
            cluster: 1,
            seed,
        });
        assert!(case.check_grids(&name, &grids), "{name}");
    }
}

/// A barrier of lanes between operators of teams is one of all blocks' lanes: what it orders may be another team's than that of the
/// operator before it.
#[test]
fn lanes_of_all_teams_meet() {
    let text = "
local %i: i64 axis
buffer b0: f32[64] input \"x\"
buffer b1: f32[64] scratch \"of the first team\"
buffer b2: f32[64] output \"of the second\"
buffer b3: f32[64] output \"of the first again\"
input \"x\" b0 [64]
output \"y\" b2 [64]
output \"z\" b3 [64]
operator op0 \"\" [%i < 64] split %i team 0 of 2 { b1[%i] = exp.f32(b0[%i]) }
operator op1 \"\" [%i < 64] split %i team 1 of 2 { b2[%i] = exp.f32(b0[%i]) }
operator op2 \"\" [%i < 64] split %i team 0 of 2 { b3[%i] = exp.f32(b1[%i]) }
main { run op0 run op1 sync SYNC run op2 }";
    for (sync, word) in [
        ("warp", "HEDDLE_WARP_SYNC;"),
        ("lanes", "HEDDLE_UNIT_SYNC;"),
    ] {
        let program = heddle_uprogram::text::parse(&text.replace("SYNC", sync));
        let program = program.unwrap_or_else(|e| panic!("{e}"));
        let layout = heddle_uprogram::layout(&program).expect("it has memory");
        let source = heddle_emit::write(&program, &layout, &heddle_emit::CUDA).source;
        let mut lines = source.lines().map(str::trim);
        let runs = lines
            .by_ref()
            .filter(|line| line.starts_with("HEDDLE_RUN("));
        assert_eq!(runs.take(2).count(), 2, "{source}");
        let next: Vec<_> = lines.take(3).collect();
        assert_eq!(next[..2], ["}", word], "{source}");
        assert!(next[2].starts_with("if ("), "{source}");
    }
}
