//! Contractions whose depth is summed in parts give what the interpreter gives: also where parts
//! are of different sizes, or empty.

use crate::harness::{Case, drawn_with};
use heddle_lower::lower;
use heddle_machine::Machine;
use heddle_runtime::BuildOptions;
use heddle_schedule::schedule;
use heddle_uprogram::program::{Body, UProgram};

/// A machine on which little but products takes time.
fn machine(units: usize) -> Machine {
    let mut machine = Machine::reference_host(units).with_barrier_ns(0.0);
    (machine.start_ns, machine.remote_read_rate) = (0.0, f64::INFINITY);
    for (_, rates) in &mut machine.arithmetic {
        (rates.elementwise_ns, rates.transcendental_ns) = (0.001, 0.001);
        rates.fma_ns = 0.02;
    }
    for memory in &mut machine.memories {
        (memory.unit_rate, memory.rate) = (f64::INFINITY, f64::INFINITY);
    }
    machine
}

/// The number of operators summed in parts.
fn split(program: &UProgram) -> usize {
    let running = program.running().into_iter();
    let split = running.filter(|id| {
        let op = &program.operators[*id];
        let first = op.axes.first().map(|a| program.locals[a.0].name.as_str());
        matches!(op.body, Body::Contract(_) | Body::Fold { .. }) && first == Some("part")
    });
    split.count()
}

/// Compares the program scheduled for these numbers of units, which sums so many operators in
/// parts, with the interpreter.
fn check(name: &str, text: &str, depth: i64, units: &[usize], expected: usize) {
    for &units in units {
        let name = format!("{name}, depth {depth}, for {units} units");
        let (module, inputs) = drawn_with(&name, text, &|_| depth, 1);
        let mut optimized = module.clone();
        heddle_opt::optimize(&mut optimized);
        let mut program = lower(&optimized).expect("compiled");
        heddle_schedule::fuse(&mut program);
        heddle_schedule::select_kernels(&mut program, &machine(units));
        schedule(&mut program, &machine(units));
        assert_eq!(split(&program), expected, "{name}");
        let case = Case::scheduled(&name, module, &inputs, &machine(units));
        let case = case.unwrap_or_else(|e| panic!("{name}: {e}"));
        case.check(&name, &BuildOptions::default(), &[1, 2, 5]);
    }
}

#[test]
fn depths_of_any_size() {
    // Read as it is, in both orders, and packed by the kernel; with an end, in a loop, in a branch.
    for ty in ["f32", "f64", "i32", "u64"] {
        // Carried floats stay small.
        let next = if ty.starts_with('f') {
            "tanh(%e)"
        } else {
            "%e"
        };
        let text = format!(
            "fn @main(%x: {ty}[1,k], %m: {ty}[7,k], %y: {ty}[k,3], %z: {ty}[3,k], %a: {ty}[1,3], %b: bool[], %t: i64[]) -> (%p: {ty}[1,3], %q: {ty}[1,3], %r: {ty}[7,3], %s: {ty}[1,3], %u: {ty}[1,3]) {{
               %d = dot(%x, %y)
               %p = add(mul(%d, %d), %a)
               %q = dot(%x, transpose(%z, perm=[1,0]))
               %r = dot(%m, %y)
               %s = loop trip %t carry (%c: {ty}[1,3] = %a) {{
                 %e = dot(%x, mul(%y, %c))
                 continue carry {next}
               }}
               %u = if %b {{
                 yield dot(%x, add(%y, %a))
               }} else {{
                 yield %a
               }}
               return %p, %q, %r, %s, %u
             }}"
        );
        match ty {
            "f32" | "i32" => {
                let depths = [0, 1, 3, 7, 1031];
                depths
                    .iter()
                    .for_each(|&depth| check(ty, &text, depth, &[2, 5], 5));
            }
            _ => check(ty, &text, 31, &[3], 5),
        }
    }
}

#[test]
fn panels_of_weights() {
    // Panels hold all of the depth, of which each part sums some; the last panel is not full.
    for (rows, depth, columns) in [(1, 1031, 17), (1, 67, 131), (7, 521, 33), (1, 4, 3)] {
        let row = |i: usize| {
            let one = |j: usize| ((i * 7 + j * 3) % 11).to_string();
            format!("[{}]", (0..columns).map(one).collect::<Vec<_>>().join(", "))
        };
        let weight = (0..depth).map(row).collect::<Vec<_>>().join(", ");
        let text = format!(
            "fn @main(%x: f32[{rows},{depth}]) -> (%y: f32[{rows},{columns}]) {{
               %w = const [{weight}]: f32[{depth},{columns}]
               %y = tanh(dot(%x, %w))
               return %y
             }}"
        );
        check("weights", &text, depth as i64, &[2, 5], 1);
    }
}

#[test]
fn products_of_two_vectors() {
    let text = "fn @main(%x: f32[1,k], %y: f32[k,1], %z: i64[1,k], %u: i64[k,1]) -> (%p: f32[1,1], %q: i64[1,1]) {
           %p = dot(%x, %y)
           %q = dot(%z, %u)
           return %p, %q
         }";
    for depth in [0, 1, 3, 1031] {
        check("vectors", text, depth, &[2, 5], 2);
    }
}
