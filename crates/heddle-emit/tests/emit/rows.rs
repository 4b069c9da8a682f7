//! Programs whose rows leave a loop give what the interpreter gives, with a version for many rows and one for few.

use crate::harness::{Case, drawn_with};
use heddle_lower::lower;
use heddle_machine::Machine;
use heddle_runtime::BuildOptions;
use heddle_schedule::schedule;
use heddle_uprogram::text::print;

/// A row goes through two products in each iteration until its count is used up.
const TEXT: &str = "fn @main(%h: f32[n,64], %k: i64[n], %w: f32[64,64]) -> (%y: f32[?,64], %z: f32[?,64]) {
  %y: f32[?,64], %z: f32[?,64], %l: i64[?] = loop %t trip 4 carry (%a: f32[?,64] = %h, %b: f32[?,64] = %h, %c: i64[?] = %k) {
    %p = tanh(mul(dot(tanh(mul(dot(%a, %w), 0.125)), %w), 0.125))
    %q = add(%p, %b)
    %i = squeeze(nonzero(gt(%c, 0)), axes=[0])
    continue carry gather(%q, %i, axis=0), gather(%p, %i, axis=0), gather(sub(%c, 1), %i, axis=0)
  }
  return %y, %z
}
";

#[test]
fn many_rows_and_few() {
    for units in [2, 5] {
        let machine = Machine::reference_host(units);
        let (mut module, _) = drawn_with("rows", TEXT, &|_| 1, 1);
        heddle_opt::optimize(&mut module);
        let mut program = lower(&module).expect("compiled");
        heddle_schedule::merge_variables(&mut program);
        heddle_schedule::fuse(&mut program);
        heddle_schedule::select_kernels(&mut program, &machine);
        schedule(&mut program, &machine);
        assert!(print(&program).contains("%many"), "{units} units");
        for rows in [0, 1, 15, 16, 17, 39, 40, 67] {
            let name = format!("{rows} rows for {units} units");
            let (module, inputs) = drawn_with(&name, TEXT, &|_| rows, 1);
            let case = Case::scheduled(&name, module, &inputs, &machine);
            let case = case.unwrap_or_else(|e| panic!("{name}: {e}"));
            case.check(&name, &BuildOptions::default(), &[1, 2, 5]);
        }
    }
}
