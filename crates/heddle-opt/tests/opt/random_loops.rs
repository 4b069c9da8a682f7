//! Random loops, counted and with conditions, of recurrences that depend on each other in random
//! ways: distributed, in chunks of several sizes, and without products with zeros, they give what
//! they gave.
//!
//! `HEDDLE_LOOPS` says how many.

use std::fmt::Write as _;

use crate::common::{Random, costs, draw_inputs, same_outcome, variable};
use heddle_ir::{Module, text, verify::verify};
use heddle_opt::{CostModel, Edit, Stats, distribute_loops, drop_zeros, optimize};

/// A loop of 1 to 3 carried values over `x`; weights are constants, and some values start as zeros.
fn random_loop(random: &mut Random) -> String {
    let carried = 1 + random.below(3) as usize;
    let mut body = String::from("    %e = gather(%x, %t, axis=0)\n");
    let mut values: Vec<String> = (0..carried).map(|k| format!("%c{k}")).collect();
    values.push("%e".into());
    for k in 0..3 + random.below(6) {
        let mut pick = || values[random.below(values.len() as u64) as usize].clone();
        let (a, b) = (pick(), pick());
        let value = match random.below(6) {
            0 | 1 => format!("dot({a}, %w)"),
            2 => format!("dot(neg({a}), %u)"),
            3 => format!("add({a}, {b})"),
            4 => format!("tanh(sub({a}, {b}))"),
            _ => format!("mul({a}, 0.5)"),
        };
        writeln!(body, "    %v{k} = {value}").expect("a string can be written to");
        values.push(format!("%v{k}"));
    }
    let mut pick = || values[random.below(values.len() as u64) as usize].clone();
    let next: Vec<String> = (0..carried).map(|_| pick()).collect();
    let (stacked, deciding) = (pick(), pick());
    let condition = random.below(2) == 0;
    let trips = 1 + random.below(9);
    let bound = (random.below(9) as f64 - 3.0) / 2.0;
    let zero = random.below(4);
    let inits: Vec<String> = (0..carried)
        .map(|k| match zero >> (k % 2) & 1 {
            0 => format!("%c{k}: f32[2,2] = %zero"),
            _ => format!("%c{k}: f32[2,2] = %h"),
        })
        .collect();
    let results: Vec<String> = (0..carried).map(|k| format!("%r{k}")).collect();
    let (results, next) = (results.join(", "), next.join(", "));
    let (start, goes_on, size) = match condition {
        true => ("while %go ", "while %more ", format!("?<={trips}")),
        false => ("", "", trips.to_string()),
    };
    format!(
        "fn @main(%x: f32[9,2,2], %h: f32[2,2], %go: bool[]) -> (%all: f32[{size},2,2], %y: f32[2,2]) {{
  %w = const [1.0, -0.5, 0.25, 2.0]: f32[2,2]
  %u = const [0.5, 1.5, -1.0, 0.125]: f32[2,2]
  %zero = const splat 0: f32[2,2]
  {results}, %all = loop %t trip {trips} {start}carry ({}) {{
{body}    %sum = reduce({deciding}, kind=sum, axes=[0,1], keep=false)
    %more = lt(%sum, {bound:.1})
    continue {goes_on}carry {next} stack {stacked}
  }}
  return %all, %r0
}}",
        inits.join(", ")
    )
}

#[test]
fn loops_keep_results() {
    let mut random = Random(11);
    let mut all = Stats::default();
    for number in 0..variable("HEDDLE_LOOPS", 150) {
        let source = random_loop(&mut random);
        let before = text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
        let mut optimized = before.clone();
        optimize(&mut optimized);
        let check = |module: &Module, what: &str| {
            let show = || format!("loop {number}, {what}\n{source}\n{}", text::print(module));
            verify(module).unwrap_or_else(|e| panic!("{}\n{}", e[0], show()));
            for seed in 0..4 {
                let inputs = draw_inputs(&before, seed);
                let same = same_outcome(&before, module, &inputs);
                same.unwrap_or_else(|e| panic!("{e}\n{}", show()));
            }
        };
        for chunk in [1e9, 1.0, 100.0] {
            let free = CostModel {
                arrays: f64::INFINITY,
                step: 0.0,
                chunk,
                ..costs()
            };
            let mut module = optimized.clone();
            all.merge(distribute_loops(&mut module, &free));
            check(&module, "distributed");
            all.merge(drop_zeros(&mut module, &free));
            check(&module, "without zeros");
            optimize(&mut module);
            check(&module, "and cleared");
        }
    }
    assert!(all.rejected.is_empty(), "{:?}", all.rejected);
    for edit in [
        Edit::LoopDistributed,
        Edit::ConditionChunked,
        Edit::LoopChunked,
        Edit::ZeroIterationPeeled,
        Edit::ZeroProduct,
    ] {
        let (count, name) = (all.count(edit), edit.name());
        assert!(count > 10, "{name}: {count}");
        println!("{count:6} {name}");
    }
}
