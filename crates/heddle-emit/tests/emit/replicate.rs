//! Operators that every unit runs give what the interpreter gives, on CPUs and on simulated GPUs. Waits cost so much here that all
//! operators that every unit may run are run by all.

use std::cell::Cell;

use crate::harness::{Case, drawn, grids, random};
use heddle_gen::Config;
use heddle_ir::{Datum, Module};
use heddle_machine::Machine;
use heddle_runtime::BuildOptions;
use heddle_runtime::cache::CacheChoice;
use heddle_uprogram::UProgram;
use heddle_uprogram::program::Share;

/// A decoder, whose next word all units find, and within each step a loop over numbers that all of them compute.
const DECODER: &str = "fn @main(%x: f32[1,9], %words: f32[37,9], %w: f32[9,9], %out: f32[9,37], %u: f32[2,2]) -> (%last: i64[1], %y: f32[1,9], %s: f32[2]) {
  %last: i64[1], %y: f32[1,9], %s: f32[2] = loop %i trip 6 carry (%n: i64[1] = const [1], %h: f32[1,9] = %x, %p: f32[2] = const splat 0.5: f32[2]) {
    %q: f32[2] = loop %j trip 3 carry (%c: f32[2] = %p) {
      continue carry tanh(squeeze(dot(unsqueeze(%c, axes=[0]), %u), axes=[0]))
    }
    %g = tanh(add(mul(gather(%words, %n, axis=0), reduce(%q, kind=sum, axes=[0], keep=true)), mul(dot(%h, %w), 0.1)))
    %m = arg_reduce(dot(%g, %out), kind=max, axis=1, keep=false, last=false)
    continue carry %m, %g, %q
  }
  return %last, %y, %s
}";

/// Schedules a program as if waits were far dearer than work. Counts the operators that every unit runs.
fn schedule(program: &mut UProgram, machine: &Machine, every: &Cell<usize>) {
    let dear = machine.clone().with_barrier_ns(1e9);
    for pass in heddle_schedule::schedule_passes(&[]) {
        match pass.name {
            "replicate" => pass.apply(program, &dear),
            _ => pass.apply(program, machine),
        }
    }
    program.drop_idle_operators();
    let operators = program.operators.iter();
    let found = operators.filter(|(_, op)| op.share == Share::Every).count();
    every.set(every.get() + found);
}

fn on_cpu(
    name: &str,
    module: Module,
    inputs: &[Datum],
    every: &Cell<usize>,
) -> Result<Case, String> {
    let machine = Machine::reference_host(2).with_barrier_ns(0.0);
    let schedule = |program: &mut UProgram| schedule(program, &machine, every);
    Case::with(name, module, inputs, &machine, &schedule)
}

fn on_gpu(
    name: &str,
    module: Module,
    inputs: &[Datum],
    blocks: usize,
    every: &Cell<usize>,
) -> Result<Case, String> {
    let machine = Machine::h100().with_grid(blocks, 64).with_barrier_ns(0.0);
    let schedule = |program: &mut UProgram| schedule(program, &machine, every);
    Case::on_gpu(name, module, inputs, &machine, &schedule)
}

fn quick() -> BuildOptions {
    BuildOptions {
        cache: CacheChoice::Off,
        optimize: Some(1),
        ..Default::default()
    }
}

#[test]
fn a_decoder() {
    let every = Cell::new(0);
    let (module, inputs) = drawn("decoder", DECODER, 1, 5);
    let case = on_cpu("decoder", module.clone(), &inputs, &every).expect("it is compiled");
    assert!(every.take() > 0, "{}", case.source.text);
    case.check("decoder", &quick(), &[1, 2, 5]);
    case.hosted()
        .check("decoder, control flow on the host", &quick(), &[1, 2]);
    for blocks in [1, 3, 4] {
        let case = on_gpu("decoder", module.clone(), &inputs, blocks, &every);
        let case = case.expect("it is compiled");
        assert_eq!(every.take() > 0, blocks > 1, "{}", case.source.text);
        assert!(case.check_grids("decoder", &grids(blocks as u32, 64)));
    }
}

/// `HEDDLE_REPLICATED` says how many.
#[test]
fn random_programs() {
    let seeds = random::seeds("HEDDLE_REPLICATED", 24);
    let count = std::sync::atomic::AtomicUsize::new(0);
    let make = |seed| {
        let every = Cell::new(0);
        let (module, inputs) = heddle_gen::generate(seed, &Config::default());
        let name = format!("seed {seed}");
        let case = match seed % 4 {
            0 => on_gpu(&name, module, &inputs, 3, &every),
            _ => on_cpu(&name, module, &inputs, &every),
        };
        count.fetch_add(every.get(), std::sync::atomic::Ordering::Relaxed);
        case
    };
    random::check_all(seeds, make, |seed, case| {
        let name = format!("seed {seed}");
        match seed % 4 {
            0 => assert!(case.check_grids(&name, &grids(3, 64)), "{name}"),
            _ => case.check(&name, &quick(), &[1, 2, 5]),
        }
    });
    assert!(count.into_inner() > 0, "no operator is run by every unit");
}
