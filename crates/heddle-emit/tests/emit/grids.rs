//! Operators that are split by two axes give what the interpreter gives on any number of workers:
//! also where grids do not fill the workers, or there are fewer workers than a grid is wide.

use crate::harness::{Case, PROGRAMS, drawn};
use crate::schedule_grids::{SHARING, force_grids};
use heddle_gen::Config;
use heddle_ir::{Datum, Module};
use heddle_machine::Machine;
use heddle_runtime::BuildOptions;
use heddle_runtime::cache::CacheChoice;
use heddle_schedule::{find_pass, schedule, schedule_without};

/// Runs a program whose operators are split by two axes; says how many are, or why it is not
/// compiled.
fn check(name: &str, module: Module, inputs: &[Datum], seed: u64) -> Result<usize, String> {
    let machine = Machine::reference_host(4).with_barrier_ns(0.0);
    let without = SHARING.map(|name| *find_pass(name).expect("a pass"));
    let forced = std::cell::Cell::new(0);
    let case = Case::with(name, module, inputs, &machine, &|program| {
        forced.set(force_grids(program, seed).len());
        schedule_without(program, &machine, &without);
    })?;
    let options = BuildOptions {
        cache: CacheChoice::Off,
        optimize: Some(1),
        ..Default::default()
    };
    case.check(name, &options, &[1, 2, 3, 5, 8]);
    Ok(forced.get())
}

#[test]
fn programs() {
    let mut forced = 0;
    for (k, (name, text)) in PROGRAMS.iter().enumerate() {
        let size = [3, 70][k % 2];
        let seed = k as u64 * 100 + size as u64;
        let (module, inputs) = drawn(name, text, size, 1);
        let found = check(name, module, &inputs, seed);
        forced += found.unwrap_or_else(|why| panic!("{name} is not compiled: {why}"));
    }
    assert!(forced > 50, "{forced}");
}

#[test]
fn random_programs() {
    let mut forced = 0;
    for seed in 1000..1030 {
        let (mut module, inputs) = heddle_gen::generate(seed, &Config::default());
        heddle_opt::optimize(&mut module);
        let found = check(&format!("seed {seed}"), module, &inputs, seed);
        forced += found.unwrap_or(0);
    }
    assert!(forced > 10, "{forced}");
}

#[test]
fn products_on_many_workers() {
    let text = "fn @main(%x: f32[40,m], %y: f32[40,40]) -> (%z: f32[40,40]) {
           %w = const splat 0.5: f32[70,40]
           %a = dot(%x, %w)
           %z = tanh(add(dot(%a, %y), %a))
           return %z
         }";
    let (module, inputs) = drawn("products", text, 70, 1);
    let machine = Machine {
        start_ns: 0.0,
        ..Machine::reference_host(16).with_barrier_ns(0.0)
    };
    let case = Case::with("products", module, &inputs, &machine, &|program| {
        schedule(program, &machine);
    });
    let case = case.unwrap_or_else(|why| panic!("not compiled: {why}"));
    let text = &case.source.text;
    assert!(text.contains("along * across"), "{text}");
    case.check("products", &BuildOptions::default(), &[1, 2, 5, 16]);
}
