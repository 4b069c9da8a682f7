//! Loop distribution on programs that show its cases: that it happens, and that it keeps results,
//! with chunks of several sizes.

use crate::common::{costs, draw_inputs, draw_sized, machine, same_outcome};
use heddle_ir::{Module, text, verify::verify};
use heddle_opt::{CostModel, Edit, Stats, distribute_loops, optimize};

/// Costs by which every distribution pays, in chunks of a number of bytes.
fn free(chunk: f64) -> CostModel {
    CostModel {
        flops: f64::INFINITY,
        weights: 1.0,
        arrays: f64::INFINITY,
        step: 0.0,
        chunk,
        unknown: 5.0,
        ..costs()
    }
}

/// Distributes with chunks of several sizes; gives what the first one did.
fn distributed(program: &str) -> (Module, Stats) {
    let before = text::parse(program).expect("a program");
    let mut first = None;
    for chunk in [1e9, 1.0, 40.0, 100.0, 400.0] {
        let mut module = before.clone();
        let stats = distribute_loops(&mut module, &free(chunk));
        assert!(stats.rejected.is_empty(), "{:?}", stats.rejected);
        for cleared in [false, true] {
            if cleared {
                optimize(&mut module);
            }
            let show = || text::print(&module);
            verify(&module).unwrap_or_else(|e| panic!("chunk {chunk}: {}\n{}", e[0], show()));
            for seed in 0..12 {
                let inputs = draw_inputs(&before, seed);
                let same = same_outcome(&before, &module, &inputs);
                same.unwrap_or_else(|e| panic!("chunk {chunk}, seed {seed}: {e}\n{}", show()));
            }
        }
        first.get_or_insert((module, stats));
    }
    first.expect("there are sizes")
}

fn loops(module: &Module) -> usize {
    let mut count = 0;
    module.entry().for_each_inst(&mut |_, inst| {
        count += matches!(inst.op, heddle_ir::Op::Loop { .. }) as usize;
    });
    count
}

#[test]
fn input_of_a_recurrence() {
    let (module, stats) = distributed(
        "fn @main(%x: f32[6,1,3], %w: f32[3,2], %u: f32[2,2], %h: f32[1,2]) -> (%y: f32[1,2], %all: f32[6,1,2]) {
           %y, %all = loop %t trip 6 carry (%s: f32[1,2] = %h) {
             %e = gather(%x, %t, axis=0)
             %n = tanh(add(dot(%e, %w), dot(%s, %u)))
             continue carry %n stack %n
           }
           return %y, %all
         }",
    );
    assert_eq!(stats.count(Edit::LoopDistributed), 1);
    assert_eq!(stats.count(Edit::Batched), 1);
    assert_eq!(loops(&module), 1);
}

#[test]
fn layers_one_after_the_other() {
    let (module, stats) = distributed(
        "fn @main(%x: f32[2,6,3], %w: f32[3,2], %u: f32[2,2], %v: f32[2,2], %o: f32[2,4], %h: f32[2,2]) -> (%a: f32[2,2], %b: f32[2,2], %all: f32[6,2,4], %t: i64[6]) {
           %a, %b, %all, %ts = loop %t trip 6 carry (%r: f32[2,2] = %h, %s: f32[2,2] = %h) {
             %e = gather(%x, %t, axis=1)
             %n = tanh(add(dot(%e, %w), dot(%r, %u)))
             %m = tanh(add(dot(relu_of(%n), %v), dot(%s, %u)))
             %p = neg(dot(%m, %o))
             continue carry %n, %m stack %p, %t
           }
           return %a, %b, %all, %ts
         }"
        .replace("relu_of(%n)", "max(%n, 0.0)")
        .as_str(),
    );
    assert_eq!(stats.count(Edit::Batched), 3);
    assert_eq!(loops(&module), 2);
}

#[test]
fn chunks_have_room_for_what_is_needed_at_once() {
    let layers = |count: usize| {
        let rows = |form: &dyn Fn(usize) -> String, by: &str| {
            let rows: Vec<_> = (1..=count).map(form).collect();
            rows.join(by)
        };
        format!(
            "fn @main(%n0: f32[2,4], %w: f32[4,4], %u: f32[4,4], %h: f32[2,4]) -> ({}) {{
               {} = loop %t trip 6 carry ({}) {{
                 {}
                 continue carry {}
               }}
               return {}
             }}",
            rows(&|i| format!("%y{i}: f32[2,4]"), ", "),
            rows(&|i| format!("%y{i}"), ", "),
            rows(&|i| format!("%h{i}: f32[2,4] = %h"), ", "),
            rows(
                &|i| {
                    let x = if i == 1 {
                        "add(%n0, cast(%t, to=f32))".into()
                    } else {
                        format!("%n{}", i - 1)
                    };
                    format!("%n{i} = tanh(add(dot({x}, %w), dot(%h{i}, %u)))")
                },
                "\n"
            ),
            rows(&|i| format!("%n{i}"), ", "),
            rows(&|i| format!("%y{i}"), ", "),
        )
    };
    // A layer needs what the one before left, the product of that, and room for its own: 32 bytes
    // each an iteration.
    let chunked = |count: usize, chunk: f64| {
        let mut module = text::parse(&layers(count)).expect("a program");
        let stats = distribute_loops(&mut module, &free(chunk));
        assert_eq!(stats.count(Edit::LoopDistributed), 1);
        stats.count(Edit::LoopChunked)
    };
    for count in [3, 6] {
        distributed(&layers(count));
        assert_eq!(chunked(count, 6.0 * 96.0), 0, "{count} layers");
        assert_eq!(chunked(count, 5.0 * 96.0), 1, "{count} layers");
    }
}

#[test]
fn trip_counts_of_the_run() {
    for (count, trip) in [("n", "%n"), ("8", "%k")] {
        let (_, stats) = distributed(&format!(
            "fn @main(%x: f32[{count},2,3], %w: f32[3,2], %h: f32[2,2], %k: i64[]) -> (%y: f32[2,2]) {{
               %n = gather(shape(%x), 0, axis=0)
               %y = loop %t trip {trip} carry (%s: f32[2,2] = %h) {{
                 %m = tanh(add(dot(gather(%x, %t, axis=0), %w), %s))
                 continue carry mul(%m, %s)
               }}
               return %y
             }}"
        ));
        assert_eq!(stats.count(Edit::LoopDistributed), 1, "{trip}");
    }
}

#[test]
fn layers_over_sequences_of_any_length() {
    for batch in ["2", "b"] {
        let (module, stats) = distributed(&format!(
            "fn @main(%x: f32[n,{batch},3], %w: f32[3,2], %u: f32[2,2], %h: f32[{batch},2]) -> (%a: f32[{batch},2], %b: f32[{batch},2], %all: f32[n,{batch},2], %twice: f32[n,{batch},2]) {{
               %n = gather(shape(%x), 0, axis=0)
               %a, %b, %all, %twice = loop %t trip %n carry (%r: f32[{batch},2] = %h, %s: f32[{batch},2] = %h) {{
                 %e = gather(%x, %t, axis=0)
                 %m = tanh(add(dot(%e, %w), %r))
                 %k = tanh(add(dot(%m, %u), %s))
                 continue carry %m, %k stack %k, dot(%k, %u)
               }}
               return %a, %b, %all, %twice
             }}"
        ));
        assert_eq!(stats.count(Edit::Batched), 3);
        let known = |ty: &heddle_ir::Type| {
            let shape = ty.as_tensor().and_then(|t| t.shape.clone());
            shape.is_some_and(|s| s.iter().all(|d| d.as_expr().is_some()))
        };
        let func = module.entry();
        func.for_each_inst(&mut |_, inst| {
            let op = inst.op.name();
            let vague = inst.results.iter().find(|v| !known(func.ty(**v)));
            assert!(vague.is_none(), "{op}:\n{}", text::print(&module));
        });
    }
}

#[test]
fn previous_values_and_branches_and_inner_loops() {
    let (_, stats) = distributed(
        "fn @main(%x: f32[7,1,3], %w: f32[3,3], %h: f32[1,3], %c: bool[7]) -> (%y: f32[1,3], %z: f32[1,3], %all: f32[7,1,3]) {
           %y, %z, %all = loop %t trip 7 carry (%s: f32[1,3] = %h, %before: f32[1,3] = %h) {
             %e = gather(%x, %t, axis=0)
             %d = dot(add(%e, 1.0), %w)
             %b = if gather(%c, %t, axis=0) { yield %before } else { yield mul(%d, %before) }
             %i = loop %j trip 2 carry (%a: f32[1,3] = %b) { continue carry add(%a, mul(%d, cast(%t, to=f32))) }
             %m = dot(%i, %w)
             %n = add(%s, %m)
             continue carry %n, %e stack %d
           }
           return %y, %z, %all
         }",
    );
    assert_eq!(stats.count(Edit::LoopDistributed), 1);
    assert_eq!(stats.count(Edit::Batched), 2);
}

#[test]
fn what_stays() {
    for body in [
        // The contraction depends on what is carried.
        "%n = dot(%s, %w) continue carry %n",
        // It has no weight that is the same for all iterations.
        "%e = gather(%x, %t, axis=0) %n = dot(%e, transpose(%e, perm=[1,0])) continue carry add(%s, %n)",
    ] {
        let text = format!(
            "fn @main(%x: f32[7,3,3], %w: f32[3,3]) -> (%y: f32[3,3]) {{
               %y = loop %t trip 7 carry (%s: f32[3,3] = %w) {{ {body} }}
               return %y
             }}"
        );
        assert_eq!(distributed(&text).1.total(), 0, "{body}");
    }
    // A loop of little work is not worth it.
    let mut module = text::parse(
        "fn @main(%x: f32[6,1,3], %w: f32[3,2], %h: f32[1,2]) -> (%y: f32[1,2]) {
           %y = loop %t trip 6 carry (%s: f32[1,2] = %h) {
             continue carry tanh(add(dot(gather(%x, %t, axis=0), %w), %s))
           }
           return %y
         }",
    )
    .expect("a program");
    let stats = distribute_loops(&mut module, &costs());
    assert_eq!(stats.total(), 0);
}

/// A batch whose size only the run knows may be one row, for which reading the weights in each
/// iteration is all the time.
#[test]
fn an_open_batch_may_be_one_row() {
    let text = "fn @main(%x: f32[64,n,128], %w: f32[128,512], %u: f32[512,512], %h: f32[n,512]) -> (%y: f32[n,512]) {
           %y = loop %t trip 64 carry (%s: f32[n,512] = %h) {
             continue carry tanh(add(dot(gather(%x, %t, axis=0), %w), dot(%s, %u)))
           }
           return %y
         }";
    for (batch, times) in [("n", 1), ("1", 1), ("4096", 0)] {
        let mut module = text::parse(&text.replace("n,", &format!("{batch},"))).expect("a program");
        let stats = distribute_loops(&mut module, &costs());
        assert_eq!(stats.count(Edit::LoopDistributed), times, "batch {batch}");
    }
}

/// The stage with the condition runs first. An output layer that is not fed back, and a layer above
/// the deciding one, follow for as many iterations as it took.
#[test]
fn loops_that_a_condition_ends() {
    let ends = "lt(reduce(%m, kind=sum, axes=[0,1], keep=false), 1.5)";
    let (module, stats) = distributed(&format!(
        "fn @main(%x: f32[21,1,3], %w: f32[3,2], %o: f32[2,4], %h: f32[1,2], %go: bool[], %q: f32[1,4]) -> (%y: f32[1,2], %last: f32[1,4], %all: f32[?<=21,1,4], %ts: i64[?<=21]) {{
           %y, %last, %all, %ts = loop %t trip 21 while %go carry (%s: f32[1,2] = %h, %l: f32[1,4] = %q) {{
             %e = gather(%x, %t, axis=0)
             %m = tanh(add(dot(%e, %w), %s))
             %p = dot(%m, %o)
             continue while {ends} carry %m, %p stack %p, %t
           }}
           return %y, %last, %all, %ts
         }}"
    ));
    assert_eq!(stats.count(Edit::ConditionChunked), 1);
    assert_eq!(stats.count(Edit::Batched), 1);
    // The deciding loop and the one that carries the last output, in a loop over chunks.
    assert_eq!(loops(&module), 3);
    for trip in ["", "trip %k"] {
        let (_, stats) = distributed(&format!(
            "fn @main(%w: f32[2,2], %u: f32[2,3], %v: f32[3,3], %h: f32[1,2], %g: f32[1,3], %k: i64[]) -> (%a: f32[1,2], %b: f32[1,3]) {{
               %a, %b = loop %t {trip} while true carry (%r: f32[1,2] = %h, %s: f32[1,3] = %g) {{
                 %m = tanh(add(dot(%r, %w), 0.5))
                 %n = tanh(add(dot(%m, %u), dot(%s, %v)))
                 %small = {ends}
                 continue while and(%small, lt(%t, 40)) carry %m, %n
               }}
               return %a, %b
             }}"
        ));
        assert_eq!(stats.count(Edit::ConditionChunked), 1);
        assert_eq!(stats.count(Edit::Batched), 1);
    }
    // All of it decides.
    let (_, stats) = distributed(&format!(
        "fn @main(%x: f32[21,1,3], %w: f32[3,2], %h: f32[1,2], %go: bool[]) -> (%y: f32[1,2]) {{
           %y = loop %t trip 21 while %go carry (%s: f32[1,2] = %h) {{
             %m = tanh(add(dot(gather(%x, %t, axis=0), %w), %s))
             continue while {ends} carry %m
           }}
           return %y
         }}"
    ));
    assert_eq!(stats.total(), 0);
}

/// Exporters write the highest number where there is no trip count; and sizes are only declared.
#[test]
fn sizes_at_the_end_of_64_bits() {
    let (_, stats) = distributed(
        "fn @main(%x: f32[21,1,3], %w: f32[3,2], %o: f32[2,4], %h: f32[1,2], %go: bool[]) -> (%y: f32[1,2], %all: f32[?,1,4]) {
           %y, %all = loop %t trip 9223372036854775807 while %go carry (%s: f32[1,2] = %h) {
             %m = tanh(add(dot(gather(%x, %t, axis=0), %w), %s))
             %p = dot(%m, %o)
             continue while lt(%t, 20) carry %m stack %p
           }
           return %y, %all
         }",
    );
    assert_eq!(stats.count(Edit::ConditionChunked), 0);
    for program in [
        "fn @main(%h: f32[2]) -> (%y: f32[2]) {
           %y = loop %t trip 9223372036854775807 carry (%s: f32[2] = %h) {
             continue carry tanh(add(%s, neg(%s)))
           }
           return %y
         }",
        "fn @main(%x: f32[4], %i: i64[4294967296,4294967296,1], %u: f32[4294967296,4294967296]) -> (%y: f32[4]) {
           %y = scatter_nd(%x, %i, %u)
           return %y
         }",
    ] {
        let mut module = text::parse(program).expect("a program");
        optimize(&mut module);
        heddle_opt::transform(&mut module, &Default::default(), &machine());
        verify(&module).unwrap_or_else(|e| panic!("{}", e[0]));
    }
}

/// Costs by which layers are pipelined over so many units.
fn pipelined(units: usize) -> CostModel {
    CostModel {
        flops: 1.0,
        weights: 0.001,
        arrays: 1.0,
        step: 0.0,
        near: f64::INFINITY,
        units,
        ..costs()
    }
}

/// Three layers of which the last also reads what the first left; state that nothing reads in its
/// own layer, old state that another layer reads, and a stacked result of each layer.
fn layers_of(trip: &str, rows: &str, params: &str) -> String {
    format!(
        "fn @main(%x: f32[{rows},1,3], %w: f32[3,2], %u: f32[2,2], %h: f32[1,2]{params}) -> (%a: f32[1,2], %b: f32[1,2], %c: f32[1,2], %d: f32[1,2], %all: f32[?,1,2], %ms: f32[?,1,2], %ts: i64[?], %old: f32[?,1,2]) {{
           %k = gather(shape(%x), 0, axis=0)
           %a, %b, %c, %d, %all, %ms, %ts, %old = loop %t trip {trip} carry (%p: f32[1,2] = %h, %q: f32[1,2] = %h, %r: f32[1,2] = %h, %s: f32[1,2] = %h) {{
             %e = gather(%x, %t, axis=0)
             %m = tanh(add(dot(%e, %w), dot(%p, %u)))
             %n = tanh(add(dot(%m, %u), dot(%q, %u)))
             %o = tanh(add(add(dot(%n, %u), dot(%r, %u)), add(%m, %p)))
             continue carry %m, %n, %o, %n stack %o, %m, %t, %q
           }}
           return %a, %b, %c, %d, %all, %ms, %ts, %old
         }}"
    )
}

#[test]
fn layers_work_on_different_chunks() {
    for trips in [0, 1, 2, 7, 16, 33, 100] {
        let constant = layers_of(&trips.to_string(), "100", "").replace("[?", &format!("[{trips}"));
        let named = layers_of("%k", "n", "").replace("[?", "[n");
        for (text, enough) in [(constant, trips >= 33), (named, true)] {
            let before = text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            for units in [2, 3, 5] {
                let mut module = before.clone();
                let stats = distribute_loops(&mut module, &pipelined(units));
                assert!(stats.rejected.is_empty(), "{:?}", stats.rejected);
                let count = stats.count(Edit::LayersPipelined);
                // Two units would have one layer and two, which hardly pays.
                if units > 2 {
                    assert_eq!(count > 0, enough, "{trips} iterations, {units} units");
                }
                for cleared in [false, true] {
                    if cleared {
                        optimize(&mut module);
                    }
                    let show = || text::print(&module);
                    verify(&module).unwrap_or_else(|e| panic!("{}\n{}", e[0], show()));
                    for seed in 0..3 {
                        let inputs = draw_sized(&before, trips, seed);
                        let same = same_outcome(&before, &module, &inputs);
                        same.unwrap_or_else(|e| panic!("{trips}, {units}: {e}\n{}", show()));
                    }
                }
            }
        }
    }
}

#[test]
fn large_layers_and_single_ones_are_not_pipelined() {
    let text = layers_of("%k", "n", "").replace("[?", "[n");
    let one =
        "fn @main(%x: f32[100,1,3], %w: f32[3,2], %u: f32[2,2], %h: f32[1,2]) -> (%y: f32[1,2]) {
         %y = loop %t trip 100 carry (%s: f32[1,2] = %h) {
           %e = gather(%x, %t, axis=0)
           continue carry tanh(add(dot(%e, %w), dot(%s, %u)))
         }
         return %y
       }";
    let far = CostModel {
        near: 8.0,
        ..pipelined(2)
    };
    for (text, costs) in [
        (text.as_str(), far),
        (text.as_str(), pipelined(1)),
        (one, pipelined(2)),
    ] {
        let mut module = text::parse(text).expect("a program");
        let stats = distribute_loops(&mut module, &costs);
        assert_eq!(stats.count(Edit::LayersPipelined), 0);
        assert_eq!(stats.count(Edit::LoopDistributed), 1);
    }
}
