//! Loops level by level give what loops iteration by iteration give, on trees and graphs of any
//! shape, and fail as they do.

use crate::common::{Random, assert_same, costs, machine};
use heddle_interp::{Options, run};
use heddle_ir::{Datum, Module, Op, Tensor, text, verify::verify};
use heddle_opt::{LevelOptions, Stats, TransformOptions, level_loops, optimize, transform};

/// Programs on `l, r: i64[n]` (rows that are read), `x: f32[n,3]`, `w: f32[6,3]`, and the first row
/// that is written and how many are.
const MAIN: &str =
    "fn @main(%l: i64[n], %r: i64[n], %x: f32[n,3], %w: f32[6,3], %base: i64[], %trip: i64[]) -> ";

const PROGRAMS: &[(&str, &str)] = &[
    (
        "autoencoder",
        "(%y: f32[n,3]) {
  %y: f32[n,3] = loop %i trip %trip carry (%s: f32[n,3] = %x) {
    %k = add(%i, %base)
    %p = gather(%s, gather(%l, %k, axis=0), axis=0)
    %q = gather(%s, gather(%r, %k, axis=0), axis=0)
    %z = tanh(dot(unsqueeze(concat(%p, %q, axis=0), axes=[0]), %w))
    %t = update_slice(%s, %z, concat(unsqueeze(%k, axes=[0]), [0], axis=0))
    continue carry %t
  }
  return %y
}",
    ),
    (
        "two arrays, one of matrices, one index of 32 bits",
        "(%y: f32[n,3], %m: f32[n,2,3]) {
  %o = concat(unsqueeze(%x, axes=[1]), unsqueeze(neg(%x), axes=[1]), axis=1)
  %y: f32[n,3], %m: f32[n,2,3] = loop %i trip %trip carry (%s: f32[n,3] = %x, %c: f32[n,2,3] = %o) {
    %k = add(%base, %i)
    %p = gather(%s, cast(gather(%l, %k, axis=0), to=i32), axis=0)
    %q = gather(%c, gather(%r, %k, axis=0), axis=0)
    %z = tanh(dot(unsqueeze(concat(%p, gather(%q, 1, axis=0), axis=0), axes=[0]), %w))
    %t = update_slice(%s, %z, concat(unsqueeze(%k, axes=[0]), [0], axis=0))
    %u = update_slice(%c, unsqueeze(mul(%q, %p), axes=[0]), concat(unsqueeze(%k, axes=[0]), [0, 0], axis=0))
    continue carry %t, %u
  }
  return %y, %m
}",
    ),
    (
        "several rows at once",
        "(%y: f32[n,3]) {
  %both = concat(unsqueeze(%l, axes=[1]), unsqueeze(%r, axes=[1]), axis=1)
  %y: f32[n,3] = loop %i trip %trip carry (%s: f32[n,3] = %x) {
    %k = add(%base, %i)
    %two = gather(%s, gather(%both, %k, axis=0), axis=0)
    %all = concat(reduce(%two, kind=sum, axes=[0], keep=false), gather(%x, %k, axis=0), axis=0)
    %z = dot(unsqueeze(%all, axes=[0]), %w)
    %t = update_slice(%s, %z, concat(reshape(%k, [1]), [0], axis=0))
    continue carry %t
  }
  return %y
}",
    ),
    (
        "numbers, no products",
        "(%y: i64[n]) {
  %start = mul(%l, 3)
  %y: i64[n] = loop %i trip %trip carry (%s: i64[n] = %start) {
    %k = add(%base, %i)
    %p = gather(%s, gather(%l, %k, axis=0), axis=0)
    %q = gather(%s, gather(%r, %k, axis=0), axis=0)
    %z = add(max(%p, %q), mul(%i, 2))
    %t = update_slice(%s, reshape(%z, [1]), reshape(%k, [1]))
    continue carry %t
  }
  return %y
}",
    ),
];

fn options() -> Options {
    Options {
        max_iterations: 100_000,
        check_types: true,
        ..Options::default()
    }
}

/// As if batches cost nothing.
fn always(batch: usize, width: f64) -> LevelOptions {
    LevelOptions {
        batch,
        width,
        always: true,
        ..LevelOptions::USUAL
    }
}

fn leveled(source: &str, options: &LevelOptions) -> (Module, Module, Stats) {
    let before = text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    verify(&before).unwrap_or_else(|e| panic!("{}\n{source}", e[0]));
    let mut after = before.clone();
    let stats = level_loops(&mut after, options, &costs());
    verify(&after).unwrap_or_else(|e| panic!("{}\n{}", e[0], text::print(&after)));
    assert!(stats.rejected.is_empty(), "{:?}", stats.rejected);
    (before, after, stats)
}

/// A tree or, with `shared`, a graph.
struct Nodes {
    left: Vec<i64>,
    right: Vec<i64>,
    /// The first node that is no leaf, and how many there are.
    base: i64,
    trip: i64,
}

/// Nodes are combined two by two until one is left.
fn nodes(n: usize, shape: u64, shared: bool, random: &mut Random) -> Nodes {
    let base = n.div_ceil(2);
    let (mut left, mut right) = (vec![-1; n], vec![-1; n]);
    let mut open: Vec<usize> = (0..base).collect();
    let mut trip = 0;
    for node in base..n {
        let mut pick = |open: &mut Vec<usize>| {
            let k = match shape {
                0 => 0,
                1 => open.len() - 1,
                _ => random.below(open.len() as u64) as usize,
            };
            match shared && open.len() > 1 && random.below(3) == 0 {
                true => open[k],
                false => open.remove(k),
            }
        };
        if open.len() < 2 {
            break;
        }
        left[node] = pick(&mut open) as i64;
        // Some count from the end.
        right[node] = pick(&mut open) as i64 - if node % 3 == 0 { n as i64 } else { 0 };
        open.push(node);
        trip += 1;
    }
    let base = base as i64;
    Nodes {
        left,
        right,
        base,
        trip,
    }
}

fn inputs(nodes: &Nodes, random: &mut Random) -> Vec<Datum> {
    let mut floats = |count: usize| -> Vec<f32> {
        let numbers = (0..count).map(|_| random.below(65) as f32 / 32.0 - 1.0);
        numbers.collect()
    };
    let n = nodes.left.len();
    let tensors = [
        Tensor::vector(&nodes.left),
        Tensor::vector(&nodes.right),
        Tensor::from_slice(vec![n, 3], &floats(3 * n)),
        Tensor::from_slice(vec![6, 3], &floats(18)),
        Tensor::scalar(nodes.base),
        Tensor::scalar(nodes.trip),
    ];
    tensors.map(Datum::Tensor).to_vec()
}

#[test]
fn same_results_in_batches() {
    for (name, program) in PROGRAMS {
        for (k, batch) in [24, 1, 3].into_iter().enumerate() {
            let (before, after, stats) = leveled(&format!("{MAIN}{program}"), &always(batch, 0.0));
            assert!(stats.total() > 0, "{name} was not changed");
            let mut optimized = after.clone();
            let report = optimize(&mut optimized);
            assert!(
                report.total().rejected.is_empty(),
                "{name}: {:?}",
                report.total()
            );
            let mut random = Random(k as u64);
            for n in [0, 1, 2, 3, 5, 9, 33, 64] {
                for (shape, shared) in [(0, false), (1, false), (2, false), (2, true)] {
                    let nodes = nodes(n, shape, shared, &mut random);
                    let inputs = inputs(&nodes, &mut random);
                    let what = format!("{name}, {:?} {:?}", nodes.left, nodes.right);
                    let expected = run(&before, &inputs, &options());
                    let expected = expected.unwrap_or_else(|e| panic!("{what}: {e}"));
                    for module in [&after, &optimized] {
                        let found = run(module, &inputs, &options());
                        let found = found
                            .unwrap_or_else(|e| panic!("{what}: {e}\n{}", text::print(module)));
                        assert_same(&expected, &found, &what);
                    }
                }
            }
        }
    }
}

/// Any numbers for rows: many end in errors, which must stay errors; others read rows that a later
/// iteration writes.
#[test]
fn same_outcome_on_any_numbers() {
    for (name, program) in PROGRAMS {
        let (before, after, _) = leveled(&format!("{MAIN}{program}"), &always(3, 0.0));
        let mut random = Random(11);
        let (mut good, mut bad) = (0, 0);
        for round in 0..600 {
            let n = random.below(7) as usize;
            let most = n as u64 + 2 * (round % 2);
            let mut number = || random.below(most.max(1)) as i64 - (round % 2) as i64;
            let left: Vec<i64> = (0..n).map(|_| number()).collect();
            let right: Vec<i64> = (0..n).map(|_| number()).collect();
            let (base, trip) = (number(), number());
            let nodes = Nodes {
                left,
                right,
                base,
                trip,
            };
            let inputs = inputs(&nodes, &mut random);
            let what = format!("{name}, {:?} {:?} {base} {trip}", nodes.left, nodes.right);
            match (
                run(&before, &inputs, &options()),
                run(&after, &inputs, &options()),
            ) {
                (Ok(expected), Ok(found)) => {
                    good += 1;
                    assert_same(&expected, &found, &what);
                }
                (Err(_), Err(_)) => bad += 1,
                (Ok(_), Err(e)) => panic!("{what}: now fails: {e}"),
                (Err(e), Ok(_)) => panic!("{what}: no longer fails: {e}"),
            }
        }
        assert!(good > 100 && bad > 100, "{name}: {good} {bad}");
    }
}

/// The iterations of the loop itself are more than these options allow, those of levels are not.
#[test]
fn narrow_trees_run_one_by_one() {
    for (name, program) in PROGRAMS {
        let (_, after, _) = leveled(&format!("{MAIN}{program}"), &always(24, 1.5));
        let in_levels = |nodes: &Nodes| {
            let inputs = inputs(nodes, &mut Random(1));
            let few = Options {
                max_iterations: 40,
                ..options()
            };
            run(&after, &inputs, &options()).expect("a tree");
            run(&after, &inputs, &few).is_ok()
        };
        let shaped = |shape| nodes(128, shape, false, &mut Random(2));
        assert!(in_levels(&shaped(0)), "{name}: a complete tree");
        assert!(in_levels(&shaped(2)), "{name}: a tree of random shape");
        assert!(!in_levels(&shaped(1)), "{name}: a chain");
        // Row 64 is written by the first iteration, and would be read before by the second one.
        let mut late = shaped(0);
        late.left[64] = 65;
        assert!(
            !in_levels(&late),
            "{name}: a row that is read before it is written"
        );
    }
}

#[test]
fn what_is_no_loop_over_rows_stays() {
    let around = |carried: &str, results: &str, body: &str, next: &str| {
        format!(
            "{MAIN}(%y: f32[n,3]) {{
  {results} = loop %i trip %trip {carried} {{
    %k = add(%i, %base)
    %starts = concat(unsqueeze(%k, axes=[0]), [0], axis=0)
    {body}
    continue {next}
  }}
  return %y
}}"
        )
    };
    let one = |body: &str| {
        around(
            "carry (%s: f32[n,3] = %x)",
            "%y: f32[n,3]",
            body,
            "carry %t",
        )
    };
    let product = "%z = dot(unsqueeze(concat(%p, %p, axis=0), axes=[0]), %w)\n";
    let read = "%p = gather(%s, gather(%l, %k, axis=0), axis=0)\n";
    let write = "%t = update_slice(%s, %z, %starts)\n";
    let changed = |source: &str| leveled(source, &always(24, 0.0)).2.total() > 0;
    assert!(changed(&one(&[read, product, write].concat())));
    for (what, source) in [
        (
            "a recurrence",
            one(&["%p = gather(%s, sub(%k, 1), axis=0)\n", product, write].concat()),
        ),
        (
            "all rows are read",
            one(&[read, product, "%v = add(%z, reduce(%s, kind=sum, axes=[0], keep=true))\n", "%t = update_slice(%s, %v, %starts)"].concat()),
        ),
        (
            "what was written is read",
            one(&[read, product, "%u = update_slice(%s, %z, %starts)\n", "%v = unsqueeze(gather(%u, gather(%r, %k, axis=0), axis=0), axes=[0])\n", "%t = update_slice(%u, %v, %starts)"].concat()),
        ),
        (
            "the index follows from rows",
            one(&[read, "%j = cast(reduce(%p, kind=max, axes=[0], keep=false), to=i64)\n%p2 = gather(%s, gather(%l, %j, axis=0), axis=0)\n%z = dot(unsqueeze(concat(%p2, %p, axis=0), axes=[0]), %w)\n", write].concat()),
        ),
        (
            "two rows are written",
            one(&[read, "%z = concat(unsqueeze(%p, axes=[0]), unsqueeze(neg(%p), axes=[0]), axis=0)\n", write].concat()),
        ),
        (
            "something else is carried",
            around("carry (%s: f32[n,3] = %x, %e: f32[3] = %g)", "%y: f32[n,3], %last: f32[3]", &[read, product, write].concat(), "carry %t, %p")
                .replace("  %y: f32[n,3], %last", "  %g = const [1.0, 2.0, 3.0]: f32[3]\n  %y: f32[n,3], %last"),
        ),
    ] {
        assert!(!changed(&source), "{what}");
    }
}

/// With weights that do not stay near, levels pay by themselves; with small ones they do not. Where
/// arrays may be so long that looking at their rows takes longer than a short loop, the loop's
/// length decides first.
#[test]
fn large_products_are_worth_it() {
    for (rows, width, products) in [
        ("9", 8, 1),
        ("9", 512, 2),
        ("n", 512, 3),
        ("100000", 512, 3),
    ] {
        let source = format!(
            "fn @main(%l: i64[{rows}], %r: i64[{rows}], %x: f32[{rows},{width}], %trip: i64[]) -> (%y: f32[{rows},{width}]) {{
  %w = const splat 0.01: f32[{},{width}]
  %y = loop %i trip %trip carry (%s: f32[{rows},{width}] = %x) {{
    %k = add(%i, 5)
    %p = gather(%s, gather(%l, %k, axis=0), axis=0)
    %q = gather(%s, gather(%r, %k, axis=0), axis=0)
    %z = tanh(dot(unsqueeze(concat(%p, %q, axis=0), axes=[0]), %w))
    %t = scatter_nd(%s, reshape(%k, [1, 1]), %z)
    continue carry %t
  }}
  return %y
}}",
            2 * width
        );
        let mut module = text::parse(&source).unwrap_or_else(|e| panic!("{e}"));
        optimize(&mut module);
        let report = transform(&mut module, &TransformOptions::default(), &machine());
        assert!(report.total().rejected.is_empty(), "{:?}", report.total());
        let mut found = 0;
        for (_, f) in module.functions.iter() {
            f.for_each_inst(&mut |_, inst| found += matches!(inst.op, Op::Dot) as usize);
        }
        assert_eq!(found, products, "{rows}, {width}: {}", text::print(&module));
    }
}

/// Branches that differ by row would be computed for all rows, and what an inner loop carries is no
/// weight.
#[test]
fn only_weights_that_all_iterations_use_count() {
    let body = |product: &str| {
        format!(
            "fn @main(%l: i64[9], %x: f32[9,512], %w: f32[512,512], %trip: i64[]) -> (%y: f32[9,512]) {{
  %y = loop %i trip %trip carry (%s: f32[9,512] = %x) {{
    %k = add(%i, 5)
    %p = unsqueeze(gather(%s, gather(%l, %k, axis=0), axis=0), axes=[0])
    {product}
    %t = update_slice(%s, %z, concat(unsqueeze(%k, axes=[0]), [0], axis=0))
    continue carry %t
  }}
  return %y
}}"
        )
    };
    let changed = |product: &str| {
        let (_, _, stats) = leveled(&body(product), &LevelOptions::USUAL);
        stats.total() > 0
    };
    assert!(changed("%z = dot(%p, %w)"));
    assert!(!changed(
        "%z: f32[1,512] = if gt(gather(%l, %k, axis=0), 2) {
           yield dot(%p, %w)
         } else {
           yield tanh(%p)
         }"
    ));
    assert!(!changed(
        "%m = dot(transpose(%p, perm=[1,0]), %p)
         %z: f32[1,512], %last: f32[512,512] = loop %j trip 3 carry (%a: f32[1,512] = %p, %c: f32[512,512] = %m) {
           continue carry dot(%a, %c), neg(%c)
         }"
    ));
}
