//! Small operators run side by side.

use crate::common::lowered_for;
use heddle_machine::Machine;
use heddle_schedule::{Latency, schedule_passes, total};
use heddle_uprogram::program::{Share, Stmt};
use heddle_uprogram::{UProgram, text, verify_program, verify_schedule};

/// Branches that work along 32 rows, and meet in a sum of rows.
fn branches(count: usize) -> String {
    let branch = |k: usize| {
        format!(
            "%a{k} = exp(mul(%x, {k}.5))
  %b{k} = div(%a{k}, reduce(%a{k}, kind=sum, axes=[1], keep=true))
  %c{k} = sub(%b{k}, reduce(%b{k}, kind=max, axes=[1], keep=true))\n"
        )
    };
    let all: String = (0..count).map(branch).collect();
    let sum = (1..count).fold("%c0".to_string(), |sum, k| format!("add({sum}, %c{k})"));
    format!(
        "fn @main(%x: f32[32,4000]) -> (%y: f32[4000]) {{
  {all}
  %y = reduce({sum}, kind=sum, axes=[0], keep=false)
  return %y
}}"
    )
}

fn scheduled(text: &str, machine: &Machine, without: &str) -> UProgram {
    let mut program = lowered_for(text, machine);
    for pass in schedule_passes(&[]) {
        if pass.name != without {
            pass.apply(&mut program, machine);
        }
    }
    assert_eq!(verify_program(&program), Ok(()));
    assert_eq!(verify_schedule(&program, machine.synced_lanes()), Ok(()));
    program
}

/// Units with which operators begin.
fn firsts(program: &UProgram) -> Vec<u32> {
    let mut found = vec![];
    program.for_each_stmt(&mut |stmt| {
        if let Stmt::Run(id) = stmt {
            match program.operators[*id].share {
                Share::One(unit) => found.push(unit),
                Share::Every => {}
                share => found.extend(share.splits().iter().map(|split| split.first)),
            }
        }
    });
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn branches_begin_with_different_units() {
    let machine = Machine::h200();
    let text = branches(4);
    let [with, without] = ["", "spread_shares"].map(|without| scheduled(&text, &machine, without));
    let printed = text::print(&with);
    assert!(firsts(&with).len() > firsts(&without).len(), "{printed}");
    let time = |program: &UProgram| total(program, &machine);
    assert!(time(&with) < 0.95 * time(&without), "{printed}");
}

/// A processor's caches belong to its cores: what another core has written takes longer to read.
#[test]
fn processors_keep_their_shares() {
    let machine = Machine::reference_host(64);
    let text = branches(4);
    let [with, without] =
        ["", "spread_shares"].map(|without| text::print(&scheduled(&text, &machine, without)));
    assert_eq!(with, without);
    assert!(machine.barrier() > 0.0);
}

/// A chain alone has all units to itself, wherever it begins.
#[test]
fn a_chain_stays_where_it_is() {
    let machine = Machine::h200();
    let text = branches(1);
    let [with, without] =
        ["", "spread_shares"].map(|without| text::print(&scheduled(&text, &machine, without)));
    assert_eq!(with, without);
}
