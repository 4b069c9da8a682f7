//! Arrays that all units gather.

use crate::common::lowered_for;
use crate::proven::{refuse_all, scheduled};
use heddle_machine::Machine;
use heddle_uprogram::program::{
    Buffer, BufferKind, Gather, OperatorId, Share, Stmt, Sync, Team, for_each_stmt,
};
use heddle_uprogram::{Expr, ScheduleError, UProgram, text, verify_program, verify_schedule};

const LSTM: &str = include_str!("../programs/lstm.heddle");
const DECODER: &str = include_str!("../programs/decoder.heddle");
const TEAMS: &str = include_str!("../programs/teams.heddle");
const RECURSION: &str = include_str!("../programs/recursion.heddle");

fn gathered(program: &UProgram) -> Vec<(Buffer, Gather)> {
    program.gathered().collect()
}

/// The operators whose results all units gather.
fn gathering(program: &UProgram) -> Vec<OperatorId> {
    let running = program.running().into_iter();
    running
        .filter(|id| program.operators[*id].gathers(program).is_some())
        .collect()
}

/// Waits of units for others in loops.
fn waits_in_loops(program: &UProgram) -> usize {
    let mut waits = 0;
    program.for_each_outer_loop(&mut |body| {
        for_each_stmt(body, &mut |stmt| {
            let is_wait = matches!(stmt, Stmt::Sync(sync) if *sync != Sync::Unit);
            waits += usize::from(is_wait);
        });
    });
    waits
}

/// The state of a cell under both of its names, and nothing else; the first state is each unit's own work.
#[test]
fn the_state_of_a_cell_is_gathered() {
    let machine = Machine::h200();
    let program = scheduled(LSTM, &machine);
    let printed = text::print(&program);
    let found = gathered(&program);
    assert_eq!(found.len(), 2, "{printed}");
    assert!(found.iter().all(|(_, gather)| gather.units == 132));
    let [one] = gathering(&program)[..] else {
        panic!("{printed}");
    };
    assert!(program.operators[one].stores_once());
    let to = |id: &OperatorId| program.operators[*id].body.store().buffer;
    let stores = program.running().into_iter();
    let stores = stores.filter(|id| found.iter().any(|(buffer, _)| *buffer == to(id)));
    let others: Vec<_> = stores.filter(|id| *id != one).collect();
    assert!(
        others
            .iter()
            .all(|id| program.operators[*id].share == Share::Every),
        "{printed}"
    );
    assert_eq!(waits_in_loops(&program), 0, "{printed}");
    let schedule = heddle_schedule::print(&program, &machine);
    assert_eq!(schedule.matches(", all gather").count(), 1, "{schedule}");
}

/// A barrier in each step, without the pass, takes longer by the cost model.
#[test]
fn it_pays_by_the_cost_model() {
    let machine = Machine::h200();
    let with = scheduled(LSTM, &machine);
    let mut without = lowered_for(LSTM, &machine);
    for pass in heddle_schedule::schedule_passes(&[]) {
        if pass.name != "gather_state" {
            pass.apply(&mut without, &machine);
        }
    }
    assert!(gathered(&without).is_empty());
    assert_eq!(waits_in_loops(&without), 1);
    let time = |program: &UProgram| heddle_schedule::total(program, &machine);
    assert!(time(&with) < 0.9 * time(&without));
}

#[test]
fn nothing_is_gathered_where_that_takes_longer() {
    let mut slow = Machine::h200();
    slow.syncs.gather_ns = Some(5000.0);
    let mut none = Machine::h200();
    none.syncs.gather_ns = None;
    for machine in [slow, none, Machine::reference_host(4), Machine::bsp_tiles()] {
        let program = scheduled(LSTM, &machine);
        assert!(gathered(&program).is_empty(), "{}", machine.name);
    }
    // 4,000 scores take longer to take than a barrier.
    let program = scheduled(DECODER, &Machine::h200());
    let len = |buffer: Buffer| program.pool.as_int(program.buffers[buffer].len);
    for (buffer, _) in gathered(&program) {
        assert!(len(buffer) <= Some(4000), "{}", text::print(&program));
    }
}

/// The last layer gathers its state on its team; what a layer reads of another one lies in global memory.
#[test]
fn teams_gather_their_own() {
    let machine = Machine::h200();
    let program = scheduled(TEAMS, &machine);
    let printed = text::print(&program);
    let found = gathered(&program);
    let last = Some(Team { index: 2, of: 3 });
    assert!(!found.is_empty(), "{printed}");
    assert!(
        found.iter().all(|(_, gather)| gather.team == last),
        "{printed}"
    );
    for id in program.running() {
        let op = &program.operators[id];
        for (buffer, _) in program.accesses_of(op) {
            if let Some(gather) = program.buffers[buffer].kind.gather() {
                assert_eq!(gather.team, op.team, "{printed}");
            }
        }
    }
    assert!(printed.contains("] gathered team 2 of 3 units 132 at "));
    let read = text::parse(&printed).expect("it reads back");
    assert_eq!(text::print(&read), printed);
    // Units of other teams have no copy.
    for (buffer, gather) in found {
        let mut program = program.clone();
        let team = gather.team.map(|team| Team {
            index: (team.index + 1) % 3,
            ..team
        });
        program.buffers[buffer].kind = BufferKind::Gathered(Gather { team, ..gather });
        let error = verify_program(&program)
            .map_err(|e| e.to_string())
            .and_then(|()| verify_schedule(&program, 256).map_err(|e| e.to_string()));
        assert!(error.is_err(), "{printed}");
    }
}

/// Parts of three teams have no common count with parts of two, so that only one division gathers.
#[test]
fn one_division_gathers() {
    let loops = |first: &str, count: usize, from: &str| {
        let list =
            |form: &dyn Fn(usize) -> String| (0..count).map(form).collect::<Vec<_>>().join(", ");
        let layer = |k: usize| {
            format!(
                "%{first}n{k}: f32[1,96] = loop %j trip 3 carry (%h: f32[1,96] = %{first}c{k}) {{
      continue carry tanh(add(dot(%h, %w), {k}.5))
    }}\n"
            )
        };
        let layers: String = (0..count).map(layer).collect();
        format!(
            "{} = loop %i trip %k carry ({}) {{
    {layers} continue carry {}
  }}\n",
            list(&|k| format!("%{first}y{k}: f32[1,96]")),
            list(&|k| format!("%{first}c{k}: f32[1,96] = %{from}")),
            list(&|k| format!("%{first}n{k}")),
        )
    };
    let text = format!(
        "fn @main(%x: f32[1,96], %k: i64[], %w: f32[96,96]) -> (%a: f32[1,96], %b: f32[1,96]) {{
  {}{}%a = exp(%py2)
  %b = exp(%qy1)
  return %a, %b
}}",
        loops("p", 3, "x"),
        loops("q", 2, "py0"),
    );
    let machine = Machine::h200();
    let program = scheduled(&text, &machine);
    let printed = text::print(&program);
    let mut divisions = std::collections::BTreeSet::new();
    for id in program.running() {
        divisions.extend(program.operators[id].team.map(|team| team.of));
    }
    assert_eq!(
        divisions.into_iter().collect::<Vec<_>>(),
        [2, 3],
        "{printed}"
    );
    let found = gathered(&program);
    let of: std::collections::BTreeSet<_> = found
        .iter()
        .filter_map(|(_, gather)| gather.team)
        .map(|team| team.of)
        .collect();
    assert_eq!(of.len(), 1, "{printed}");
}

/// Arrays of procedures lie in frames.
#[test]
fn a_recursion_has_none() {
    let program = scheduled(RECURSION, &Machine::h200());
    assert!(gathered(&program).is_empty(), "{}", text::print(&program));
}

/// Fewer columns than units, of which some have none.
#[test]
fn units_may_have_no_share() {
    let text =
        "fn @main(%x: f32[1,100], %w: f32[100,3000], %u: f32[3000,100]) -> (%y: f32[1,100]) {
  %y = loop %i trip 100 carry (%h: f32[1,100] = %x) {
    continue carry tanh(dot(tanh(dot(%h, %w)), %u))
  }
  return %y
}";
    let program = scheduled(text, &Machine::h200());
    let printed = text::print(&program);
    let grains = |id: &OperatorId| program.operators[*id].grains(&program.pool);
    let all: Vec<_> = gathering(&program).iter().filter_map(grains).collect();
    assert!(
        all.iter().any(|(grains, _)| *grains < 132),
        "{all:?}: {printed}"
    );
}

#[test]
fn a_printed_program_reads_back() {
    let printed = text::print(&scheduled(LSTM, &Machine::h200()));
    assert!(printed.contains("] gathered units 132 at "), "{printed}");
    let read = text::parse(&printed).expect("it reads back");
    assert_eq!(text::print(&read), printed);
}

/// The synchronisations that are left are needed.
#[test]
fn programs_with_a_synchronisation_less_are_refused() {
    let machine = Machine::h200();
    for text in [LSTM, DECODER, TEAMS] {
        let program = scheduled(text, &machine);
        assert!(!gathered(&program).is_empty());
        assert!(refuse_all(&program, machine.synced_lanes()) > 0);
    }
}

/// Each wrong place, number of units and operator is named.
#[test]
fn wrong_programs_are_refused() {
    let sound = scheduled(LSTM, &Machine::h200());
    let found = gathered(&sound);
    let [one] = gathering(&sound)[..] else {
        panic!("one operator gathers");
    };
    let to = sound.operators[one].body.store().buffer;
    let refused = |change: &dyn Fn(&mut UProgram)| {
        let mut program = sound.clone();
        change(&mut program);
        verify_program(&program).unwrap_err().to_string()
    };
    let set = |program: &mut UProgram, change: &dyn Fn(&mut Gather)| {
        for (buffer, gather) in &found {
            let mut gather = *gather;
            change(&mut gather);
            program.buffers[*buffer].kind = BufferKind::Gathered(gather);
        }
    };
    let error = refused(&|p| set(p, &|gather| gather.at = 0));
    assert!(error.contains("two of them overlap"), "{error}");
    let error = refused(&|p| set(p, &|gather| gather.units = 0));
    assert!(error.contains("by no unit"), "{error}");
    let error = refused(&|p| set(p, &|gather| gather.units = 131));
    assert!(error.contains("another launch"), "{error}");
    let error = refused(&|p| p.operators[one].share = Share::One(0));
    assert!(
        error.contains("not split over the units that gather"),
        "{error}"
    );
    let error = refused(&|p| {
        let Share::Split(split) = &mut p.operators[one].share else {
            panic!("it is split");
        };
        split.piece = Some(1);
    });
    assert!(
        error.contains("not split over the units that gather"),
        "{error}"
    );
    let error = refused(&|p| p.buffers[to].kind = BufferKind::Resident(40_000));
    assert!(error.contains("another kind, length or cluster"), "{error}");
    let error = refused(&|p| {
        let half = p.pool.int(128);
        p.operators[one].axes[0].1 = half;
    });
    assert!(error.contains("each element once"), "{error}");
}

/// A unit has nothing before it has gathered, whatever name it reads by.
#[test]
fn what_has_not_been_gathered_is_not_read() {
    let sound = scheduled(LSTM, &Machine::h200());
    let zero = |program: &mut UProgram| program.pool.int(0);
    for (buffer, _) in gathered(&sound) {
        let mut program = sound.clone();
        let offset = zero(&mut program);
        let read = program.pool.add(Expr::Load(buffer, offset));
        let local = program.locals.push(heddle_uprogram::program::LocalData {
            dtype: heddle_ir::DType::F32,
            kind: heddle_uprogram::program::LocalKind::Variable,
            name: "early".into(),
        });
        program.body.insert(0, Stmt::Let(local, read));
        let error = verify_schedule(&program, 256).unwrap_err();
        assert!(matches!(error, ScheduleError::Own { .. }), "{error}");
    }
    // The first state is left out: the first step would read nothing.
    let mut program = sound.clone();
    program.body.retain(|stmt| match stmt {
        Stmt::Run(id) => program.operators[*id].share != Share::Every,
        _ => true,
    });
    let error = verify_schedule(&program, 256).unwrap_err();
    assert!(matches!(error, ScheduleError::Own { .. }), "{error}");
}
