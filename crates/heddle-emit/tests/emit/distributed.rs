//! Distributed loops, compiled, give what the interpreter gives: of constant, named and computed
//! trip counts, with chunks of several sizes.

use crate::harness::{Outcome, check, drawn};
use heddle_machine::Machine;
use heddle_opt::{CostModel, distribute_loops, optimize};

const PROGRAMS: &[(&str, &str)] = &[
    (
        "constant",
        "fn @main(%x: f32[13,2,3], %w: f32[3,5], %u: f32[5,5], %h: f32[2,5]) -> (%a: f32[2,5], %b: f32[2,5], %all: f32[13,2,5]) {
           %a, %b, %all = loop %t trip 13 carry (%r: f32[2,5] = %h, %s: f32[2,5] = %h) {
             %e = gather(%x, %t, axis=0)
             %m = tanh(add(dot(%e, %w), dot(%r, %u)))
             %l = tanh(add(dot(%m, %u), dot(%s, %u)))
             continue carry %m, %l stack dot(%l, %u)
           }
           return %a, %b, %all
         }",
    ),
    (
        "named",
        "fn @main(%x: f32[n,2,3], %w: f32[3,5], %u: f32[5,5], %h: f32[2,5]) -> (%a: f32[2,5], %b: f32[2,5], %all: f32[n,2,5]) {
           %n = gather(shape(%x), 0, axis=0)
           %a, %b, %all = loop %t trip %n carry (%r: f32[2,5] = %h, %s: f32[2,5] = %h) {
             %e = gather(%x, %t, axis=0)
             %m = tanh(add(dot(%e, %w), dot(%r, %u)))
             %l = tanh(add(dot(%m, %u), dot(%s, %u)))
             continue carry %m, %l stack dot(%l, %u)
           }
           return %a, %b, %all
         }",
    ),
    (
        "computed",
        "fn @main(%x: f32[40,2,3], %w: f32[3,5], %u: f32[5,5], %h: f32[2,5], %k: i64[]) -> (%a: f32[2,5], %b: f32[2,5]) {
           %n = mod(%k, 40)
           %a, %b = loop %t trip %n carry (%r: f32[2,5] = %h, %s: f32[2,5] = %h) {
             %e = gather(%x, %t, axis=0)
             %m = tanh(add(dot(%e, %w), dot(%r, %u)))
             %l = tanh(add(dot(%m, %u), dot(%s, %u)))
             continue carry %m, %l
           }
           return %a, %b
         }",
    ),
    (
        "until",
        "fn @main(%x: f32[37,2,3], %w: f32[3,5], %u: f32[5,5], %h: f32[2,5], %go: bool[]) -> (%a: f32[2,5], %b: f32[2,5], %all: f32[?<=37,2,5]) {
           %a, %b, %all = loop %t trip 37 while %go carry (%r: f32[2,5] = %h, %s: f32[2,5] = %h) {
             %e = gather(%x, %t, axis=0)
             %m = tanh(add(dot(%e, %w), %r))
             %l = tanh(add(dot(%m, %u), dot(%s, %u)))
             %sum = reduce(%m, kind=sum, axes=[0,1], keep=false)
             continue while lt(abs(%sum), 8.0) carry %m, %l stack dot(%l, %u)
           }
           return %a, %b, %all
         }",
    ),
    (
        "while",
        "fn @main(%w: f32[5,5], %u: f32[5,7], %v: f32[7,7], %h: f32[2,5], %g: f32[2,7]) -> (%a: f32[2,5], %b: f32[2,7]) {
           %a, %b = loop %t while true carry (%r: f32[2,5] = %h, %s: f32[2,7] = %g) {
             %m = tanh(add(dot(%r, %w), 0.25))
             %l = tanh(add(dot(%m, %u), dot(%s, %v)))
             %sum = reduce(%m, kind=sum, axes=[0,1], keep=false)
             continue while and(lt(%t, 40), lt(abs(%sum), 8.0)) carry %m, %l
           }
           return %a, %b
         }",
    ),
];

#[test]
fn distributed_loops() {
    for (name, text) in PROGRAMS {
        for (seed, chunk) in [(1, 1e9), (2, 500.0), (3, 1.0)] {
            for size in [1, 3, 37] {
                let (mut module, inputs) = drawn(name, text, size, seed);
                optimize(&mut module);
                let costs = CostModel {
                    arrays: f64::INFINITY,
                    step: 0.0,
                    chunk,
                    ..CostModel::of(&Machine::reference_host(2))
                };
                let stats = distribute_loops(&mut module, &costs);
                assert_eq!(stats.count("loop distributed"), 1, "{name}");
                match check(name, module, &inputs, 2) {
                    Outcome::Equal => {}
                    Outcome::Refused(why) => panic!("{name} is not compiled: {why}"),
                }
            }
        }
    }
}

#[test]
fn pipelined_layers() {
    for name in ["constant", "named", "computed"] {
        let text = PROGRAMS
            .iter()
            .find(|p| p.0 == name)
            .expect("it is there")
            .1;
        let text = text.replace("13", "40");
        for units in [2, 5] {
            let sizes: &[i64] = if name == "named" {
                &[0, 1, 2, 7, 100]
            } else {
                &[1]
            };
            for &size in sizes {
                let (mut module, inputs) = drawn(name, &text, size, 4);
                optimize(&mut module);
                let costs = CostModel {
                    flops: 1.0,
                    weights: 1.0,
                    step: 0.0,
                    units,
                    ..CostModel::of(&Machine::reference_host(2))
                };
                let stats = distribute_loops(&mut module, &costs);
                assert_eq!(stats.count("layers pipelined"), 1, "{name}");
                for threads in [1, 2, 5] {
                    match check(name, module.clone(), &inputs, threads) {
                        Outcome::Equal => {}
                        Outcome::Refused(why) => panic!("{name} is not compiled: {why}"),
                    }
                }
            }
        }
    }
}
