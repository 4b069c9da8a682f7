//! Recursion level by level gives what recursion call by call gives, on trees and graphs of any
//! shape, and fails as it does.

use crate::common::{Random, assert_same, costs, machine};
use heddle_interp::{Options, run};
use heddle_ir::{DType, Datum, Module, Op, Tensor, text, verify::verify};
use heddle_machine::Machine;
use heddle_opt::{
    CostModel, LevelOptions, Pace, Stats, TransformOptions, level_recursion, optimize, transform,
};

/// Programs on `l, r: i64[n]` (children, -1: none), `x: f32[n,3]`, `w: f32[6,3]` and a root.
const MAIN: &str = "fn @main(%l: i64[n], %r: i64[n], %x: f32[n,3], %w: f32[6,3], %root: i64[]) -> ";

const PROGRAMS: &[(&str, &str)] = &[
    (
        "autoencoder",
        "(%y: f32[3]) {
  %y: f32[3] = call @f(%l, %r, %x, %w, %root)
  return %y
}
fn @f(%l: i64[n], %r: i64[n], %x: f32[n,3], %w: f32[6,3], %n: i64[]) -> (%y: f32[3]) {
  %a = gather(%l, %n, axis=0)
  %y: f32[3] = if lt(%a, 0) {
    yield gather(%x, %n, axis=0)
  } else {
    %p: f32[3] = call @f(%l, %r, %x, %w, %a)
    %q: f32[3] = call @f(%l, %r, %x, %w, gather(%r, %n, axis=0))
    %z = dot(unsqueeze(concat(%p, %q, axis=0), axes=[0]), %w)
    yield tanh(squeeze(%z, axes=[0]))
  }
  return %y
}",
    ),
    (
        "absent nodes are calls, two results",
        "(%s: f32[3], %d: i64[]) {
  %s: f32[3], %d: i64[] = call @f(%root, %l, %r, %x)
  return %s, %d
}
fn @f(%n: i64[], %l: i64[n], %r: i64[n], %x: f32[n,3]) -> (%s: f32[3], %d: i64[]) {
  %s: f32[3], %d: i64[] = if lt(%n, 0) {
    %z = const [0.0, 0.0, 0.0]: f32[3]
    yield %z, 0
  } else {
    %a: f32[3], %i: i64[] = call @f(gather(%l, %n, axis=0), %l, %r, %x)
    %b: f32[3], %j: i64[] = call @f(gather(%r, %n, axis=0), %l, %r, %x)
    yield add(add(%a, %b), gather(%x, %n, axis=0)), add(max(%i, %j), 1)
  }
  return %s, %d
}",
    ),
    (
        "children that are absent are zeros",
        "(%h: f32[3], %c: f32[3]) {
  %h: f32[3], %c: f32[3] = call @f(%l, %r, %x, %w, %root)
  return %h, %c
}
fn @f(%l: i64[n], %r: i64[n], %x: f32[n,3], %w: f32[6,3], %n: i64[]) -> (%h: f32[3], %c: f32[3]) {
  %zero = const [0.0, 0.0, 0.0]: f32[3]
  %a = gather(%l, %n, axis=0)
  %b = gather(%r, %n, axis=0)
  %ha: f32[3], %ca: f32[3] = if lt(%a, 0) {
    yield %zero, %zero
  } else {
    %h1: f32[3], %c1: f32[3] = call @f(%l, %r, %x, %w, %a)
    yield %h1, %c1
  }
  %hb: f32[3], %cb: f32[3] = if lt(%b, 0) {
    yield %zero, %zero
  } else {
    %h2: f32[3], %c2: f32[3] = call @f(%l, %r, %x, %w, %b)
    yield %h2, %c2
  }
  %hs = unsqueeze(concat(%ha, %hb, axis=0), axes=[0])
  %u = squeeze(dot(%hs, %w), axes=[0])
  %i = sigmoid(add(%u, gather(%x, %n, axis=0)))
  %c = add(mul(%i, %ca), mul(sub(%ca, %i), %cb))
  return tanh(add(%c, %u)), %c
}",
    ),
    (
        "two functions, other order of parameters, other names of sizes",
        "(%y: f32[3], %z: f32[3]) {
  %y: f32[3] = call @f(%l, %r, %x, %w, %root)
  %z: f32[3] = call @g(%root, %x, %r, %w, %l)
  return %y, %z
}
fn @f(%l: i64[n], %r: i64[n], %x: f32[n,3], %w: f32[6,3], %n: i64[]) -> (%y: f32[3]) {
  %a = gather(%l, %n, axis=0)
  %own = gather(%x, %n, axis=0)
  %y: f32[3] = if lt(%a, 0) {
    yield %own
  } else {
    %p: f32[3] = call @g(%a, %x, %r, %w, %l)
    %q: f32[3] = call @g(gather(%r, %n, axis=0), %x, %r, %w, %l)
    yield max(%p, add(%q, %own))
  }
  return %y
}
fn @g(%k: i64[], %v: f32[m,3], %b: i64[m], %w: f32[6,3], %a: i64[m]) -> (%y: f32[3]) {
  %i = gather(%a, %k, axis=0)
  %y: f32[3] = if ge(%i, 0) {
    %p: f32[3] = call @f(%a, %b, %v, %w, %i)
    %q: f32[3] = call @g(gather(%b, %k, axis=0), %v, %b, %w, %a)
    yield squeeze(dot(unsqueeze(concat(%p, %q, axis=0), axes=[0]), %w), axes=[0])
  } else {
    yield neg(gather(%v, %k, axis=0))
  }
  return %y
}",
    ),
    (
        "one, two or three calls, a branch on results, matrices",
        "(%y: f32[2,3]) {
  %i = cast(%root, to=i32)
  %y: f32[2,3] = call @f(%l, %r, %x, %w, %i)
  return %y
}
fn @f(%l: i64[n], %r: i64[n], %x: f32[n,3], %w: f32[6,3], %n: i32[]) -> (%y: f32[2,3]) {
  %a = cast(gather(%l, %n, axis=0), to=i32)
  %b = gather(%r, %n, axis=0)
  %own = gather(%x, %n, axis=0)
  %y: f32[2,3] = if lt(%a, 0) {
    yield broadcast(%own, [2, 3])
  } else {
    %p: f32[2,3] = call @f(%l, %r, %x, %w, %a)
    %v: f32[2,3] = if eq(%b, 0) {
      yield exp(neg(abs(%p)))
    } else {
      %q: f32[2,3] = call @f(%l, %r, %x, %w, cast(%b, to=i32))
      %t: f32[2,3] = call @f(%l, %r, %x, %w, %a)
      %s = concat(%q, mul(%p, %t), axis=1)
      %big = reduce(%s, kind=sum, axes=[0,1], keep=false)
      %c: f32[2,3] = if gt(%big, 0.0) {
        yield dot(%s, %w)
      } else {
        yield sub(%p, %q)
      }
      yield %c
    }
    yield tanh(%v)
  }
  return %y
}",
    ),
    (
        "products of inputs, and logits that no call reads",
        "(%h: f32[3], %y: f32[3]) {
  %h: f32[3], %y: f32[3] = call @f(%l, %r, %x, %w, %root)
  return %h, %y
}
fn @f(%l: i64[n], %r: i64[n], %x: f32[n,3], %w: f32[6,3], %n: i64[]) -> (%h: f32[3], %y: f32[3]) {
  %a = gather(%l, %n, axis=0)
  %w0 = slice(%w, [0], [3], [1], axes=[0])
  %w1 = slice(%w, [3], [6], [1], axes=[0])
  %wx = dot(unsqueeze(gather(%x, %n, axis=0), axes=[0]), %w0)
  %u: f32[1,3] = if lt(%a, 0) {
    yield %wx
  } else {
    %p: f32[3], %i: f32[3] = call @f(%l, %r, %x, %w, %a)
    %q: f32[3], %j: f32[3] = call @f(%l, %r, %x, %w, gather(%r, %n, axis=0))
    yield add(%wx, dot(unsqueeze(add(%p, %q), axes=[0]), %w1))
  }
  %t = tanh(%u)
  return squeeze(%t, axes=[0]), squeeze(add(%wx, dot(%t, %w1)), axes=[0])
}",
    ),
    (
        "a sum of losses over the nodes",
        "(%h: f32[3], %loss: f32[]) {
  %h: f32[3], %loss: f32[] = call @f(%l, %r, %x, %w, %root)
  return %h, %loss
}
fn @f(%l: i64[n], %r: i64[n], %x: f32[n,3], %w: f32[6,3], %n: i64[]) -> (%h: f32[3], %loss: f32[]) {
  %a = gather(%l, %n, axis=0)
  %own = gather(%x, %n, axis=0)
  %h: f32[3], %rest: f32[] = if lt(%a, 0) {
    yield %own, 0.0
  } else {
    %p: f32[3], %i: f32[] = call @f(%l, %r, %x, %w, %a)
    %q: f32[3], %j: f32[] = call @f(%l, %r, %x, %w, gather(%r, %n, axis=0))
    %z = dot(unsqueeze(concat(%p, %q, axis=0), axes=[0]), %w)
    yield tanh(squeeze(%z, axes=[0])), add(%i, mul(%j, 0.5))
  }
  %y = dot(unsqueeze(concat(%h, %own, axis=0), axes=[0]), %w)
  return %h, add(%rest, reduce(mul(%y, %y), kind=sum, axes=[0,1], keep=false))
}",
    ),
    (
        "two functions with late results of their own",
        "(%y: f32[3], %s: f32[3], %c: i64[]) {
  %y: f32[3], %s: f32[3], %c: i64[] = call @f(%l, %r, %x, %w, %root)
  return %y, %s, %c
}
fn @f(%l: i64[n], %r: i64[n], %x: f32[n,3], %w: f32[6,3], %n: i64[]) -> (%y: f32[3], %s: f32[3], %c: i64[]) {
  %a = gather(%l, %n, axis=0)
  %own = unsqueeze(concat(gather(%x, %n, axis=0), gather(%x, 0, axis=0), axis=0), axes=[0])
  %y: f32[3], %s: f32[3], %c: i64[] = if lt(%a, 0) {
    %x1 = squeeze(dot(%own, %w), axes=[0])
    yield gather(%x, %n, axis=0), %x1, 1
  } else {
    %d: i64[], %v: f32[3], %p: f32[3] = call @g(%l, %r, %x, %w, %a)
    %q: f32[3], %t: f32[3], %e: i64[] = call @f(%l, %r, %x, %w, gather(%r, %n, axis=0))
    %wx = dot(%own, %w)
    %z = add(%wx, dot(unsqueeze(concat(%p, %q, axis=0), axes=[0]), %w))
    %s1 = dot(unsqueeze(concat(%q, %p, axis=0), axes=[0]), %w)
    yield sigmoid(squeeze(%z, axes=[0])), add(max(%v, %t), squeeze(%s1, axes=[0])), add(%d, %e)
  }
  return %y, %s, %c
}
fn @g(%l: i64[m], %r: i64[m], %x: f32[m,3], %w: f32[6,3], %k: i64[]) -> (%c: i64[], %s: f32[3], %y: f32[3]) {
  %a = gather(%l, %k, axis=0)
  %own = gather(%x, %k, axis=0)
  %c: i64[], %s: f32[3], %y: f32[3] = if lt(%a, 0) {
    yield 2, %own, neg(%own)
  } else {
    %p: f32[3], %v: f32[3], %d: i64[] = call @f(%l, %r, %x, %w, %a)
    yield %d, sub(%v, %own), tanh(%p)
  }
  return %c, %s, %y
}",
    ),
];

fn options() -> Options {
    Options {
        max_iterations: 100_000,
        max_depth: 300,
        check_types: true,
        ..Options::default()
    }
}

fn leveled(source: &str, options: &LevelOptions) -> (Module, Module, Stats) {
    leveled_by(source, options, &costs())
}

fn leveled_by(source: &str, options: &LevelOptions, costs: &CostModel) -> (Module, Module, Stats) {
    let before = text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    verify(&before).unwrap_or_else(|e| panic!("{}", e[0]));
    let mut after = before.clone();
    let stats = level_recursion(&mut after, options, costs);
    verify(&after).unwrap_or_else(|e| panic!("{}\n{}", e[0], text::print(&after)));
    assert!(stats.rejected.is_empty(), "{:?}", stats.rejected);
    (before, after, stats)
}

/// Children of `n` nodes: a tree of a random shape, or, with `shared`, a graph in which later nodes
/// are called by several.
fn children(n: usize, shape: u64, shared: bool, random: &mut Random) -> (Vec<i64>, Vec<i64>, i64) {
    let (mut left, mut right) = (vec![-1; n], vec![-1; n]);
    // Nodes are combined two by two until one is left; what is left over stays outside.
    let mut open: Vec<usize> = (0..n.div_ceil(2)).collect();
    let mut root = open[0];
    for node in n.div_ceil(2)..n {
        let mut pick = |open: &mut Vec<usize>| {
            let k = match shape {
                0 => 0,
                1 => open.len() - 1,
                _ => random.below(open.len() as u64) as usize,
            };
            if shared && random.below(3) == 0 {
                open[k]
            } else {
                open.remove(k)
            }
        };
        if open.len() < 2 {
            break;
        }
        left[node] = pick(&mut open) as i64;
        right[node] = if open.is_empty() {
            left[node]
        } else {
            pick(&mut open) as i64
        };
        open.push(node);
        root = node;
    }
    (left, right, root as i64)
}

fn inputs(left: &[i64], right: &[i64], root: i64, random: &mut Random) -> Vec<Datum> {
    let mut floats = |count: usize| -> Vec<f32> {
        (0..count)
            .map(|_| random.below(65) as f32 / 32.0 - 1.0)
            .collect()
    };
    let n = left.len();
    let x = Tensor::from_slice(vec![n, 3], &floats(3 * n));
    let w = Tensor::from_slice(vec![6, 3], &floats(18));
    let tensors = [
        Tensor::vector(left),
        Tensor::vector(right),
        x,
        w,
        Tensor::scalar(root),
    ];
    tensors.map(Datum::Tensor).to_vec()
}

/// Paces of early work beside the levels: nothing ahead of the next batch, and more or fewer rows
/// ahead than a batch has.
const PACES: [Pace; 3] = [
    Pace {
        share: 0.0,
        ahead: 0,
    },
    Pace {
        share: 1.0,
        ahead: 5,
    },
    Pace {
        share: 4.0,
        ahead: 24,
    },
];

/// Levels whatever they cost.
const ALWAYS: LevelOptions = LevelOptions {
    always: true,
    width: 0.0,
    ..LevelOptions::USUAL
};

#[test]
fn same_results_without_calls() {
    for (name, program) in PROGRAMS {
        for (k, batch) in [24, 1, 3].into_iter().enumerate() {
            let options = LevelOptions { batch, ..ALWAYS };
            same_results(name, program, &options, k as u64);
        }
    }
}

/// The results of a program by levels are those by calls, for trees and graphs of many shapes.
fn same_results(name: &str, program: &str, level_options: &LevelOptions, seed: u64) {
    let (before, after, stats) = leveled(&format!("{MAIN}{program}"), level_options);
    assert!(stats.total() > 0, "{name} was not changed");
    let mut optimized = after.clone();
    let report = optimize(&mut optimized).total();
    assert!(report.rejected.is_empty(), "{name}: {report:?}");
    let mut random = Random(seed);
    for n in [1, 2, 3, 5, 9, 33, 64] {
        for (shape, shared) in [(0, false), (1, false), (2, false), (2, true)] {
            // Call by call, nodes that several call take exponential time.
            if n > 12 && (shared || name.contains("three calls")) {
                continue;
            }
            let (left, right, root) = children(n, shape, shared, &mut random);
            let inputs = inputs(&left, &right, root, &mut random);
            let what = format!("{name}, {level_options:?}, {left:?} {right:?} {root}");
            let expected = run(&before, &inputs, &options());
            let expected = expected.unwrap_or_else(|e| panic!("{what}: {e}"));
            // Nothing is left to the original function: it would exceed this depth.
            let shallow = Options {
                max_depth: 2,
                ..options()
            };
            for module in [&after, &optimized] {
                let found = run(module, &inputs, &shallow);
                let found =
                    found.unwrap_or_else(|e| panic!("{what}: {e}\n{}", text::print(module)));
                assert_same(&expected, &found, &what);
            }
        }
    }
}

/// Programs with early work.
const EARLY: &[(&str, &str)] = &[
    (
        "kinds in any order, of which two have early work",
        "(%y: f32[3]) {
  %y: f32[3] = call @f(%l, %r, %x, %w, %root)
  return %y
}
fn @f(%l: i64[n], %r: i64[n], %x: f32[n,3], %w: f32[6,3], %n: i64[]) -> (%y: f32[3]) {
  %a = gather(%l, %n, axis=0)
  %b = gather(%r, %n, axis=0)
  %own = gather(%x, %n, axis=0)
  %y: f32[3] = if lt(%a, 0) {
    yield %own
  } else {
    %p: f32[3] = call @f(%l, %r, %x, %w, %a)
    %v: f32[3] = if eq(mod(%b, 3), 0) {
      %q: f32[3] = call @f(%l, %r, %x, %w, %b)
      %e = dot(unsqueeze(concat(%own, %own, axis=0), axes=[0]), %w)
      %z = add(%e, dot(unsqueeze(concat(%p, %q, axis=0), axes=[0]), %w))
      yield squeeze(%z, axes=[0])
    } else {
      %u: f32[3] = if eq(mod(%b, 3), 1) {
        %q: f32[3] = call @f(%l, %r, %x, %w, %b)
        %e = dot(unsqueeze(concat(%own, neg(%own), axis=0), axes=[0]), %w)
        yield mul(squeeze(%e, axes=[0]), add(%p, %q))
      } else {
        %c = dot(unsqueeze(concat(%p, %p, axis=0), axes=[0]), %w)
        yield squeeze(%c, axes=[0])
      }
      yield %u
    }
    yield tanh(%v)
  }
  return %y
}",
    ),
    (
        "early rows with an axis of dynamic size, and integers",
        "(%y: f32[3]) {
  %y: f32[3] = call @f(%l, %r, %x, %w, %root)
  return %y
}
fn @f(%l: i64[n], %r: i64[n], %x: f32[n,3], %w: f32[6,3], %n: i64[]) -> (%y: f32[3]) {
  %a = gather(%l, %n, axis=0)
  %own = gather(%x, %n, axis=0)
  %y: f32[3] = if lt(%a, 0) {
    yield %own
  } else {
    %p: f32[3] = call @f(%l, %r, %x, %w, %a)
    %q: f32[3] = call @f(%l, %r, %x, %w, gather(%r, %n, axis=0))
    %e = dot(mul(%x, %own), slice(%w, [0], [3], [1], axes=[0]))
    %i = cast(dot(unsqueeze(concat(%own, %own, axis=0), axes=[0]), %w), to=i64)
    %s = reduce(mul(%e, %p), kind=sum, axes=[0], keep=false)
    %t = cast(add(squeeze(%i, axes=[0]), cast(%q, to=i64)), to=f32)
    yield tanh(add(%s, %t))
  }
  return %y
}",
    ),
    (
        "early rows of a size that nothing names",
        "(%y: f32[3]) {
  %y: f32[3] = call @f(%l, %r, %x, %w, %root)
  return %y
}
fn @f(%l: i64[n], %r: i64[n], %x: f32[n,3], %w: f32[6,3], %n: i64[]) -> (%y: f32[3]) {
  %a = gather(%l, %n, axis=0)
  %own = gather(%x, %n, axis=0)
  %y: f32[3] = if lt(%a, 0) {
    yield %own
  } else {
    %p: f32[3] = call @f(%l, %r, %x, %w, %a)
    %q: f32[3] = call @f(%l, %r, %x, %w, gather(%r, %n, axis=0))
    %at = gather(nonzero(gt(gather(%x, 0, axis=1), 0.0)), 0, axis=0)
    %e = dot(mul(gather(%x, %at, axis=0), %own), slice(%w, [0], [3], [1], axes=[0]))
    %s = reduce(mul(%e, %p), kind=sum, axes=[0], keep=false)
    yield tanh(add(%s, %q))
  }
  return %y
}",
    ),
    (
        "early work in two functions",
        "(%y: f32[3], %z: f32[3]) {
  %y: f32[3] = call @f(%l, %r, %x, %w, %root)
  %z: f32[3] = call @g(%root, %x, %r, %w, %l)
  return %y, %z
}
fn @f(%l: i64[n], %r: i64[n], %x: f32[n,3], %w: f32[6,3], %n: i64[]) -> (%y: f32[3]) {
  %a = gather(%l, %n, axis=0)
  %own = gather(%x, %n, axis=0)
  %y: f32[3] = if lt(%a, 0) {
    yield %own
  } else {
    %p: f32[3] = call @g(%a, %x, %r, %w, %l)
    %q: f32[3] = call @g(gather(%r, %n, axis=0), %x, %r, %w, %l)
    %e = dot(unsqueeze(concat(%own, %own, axis=0), axes=[0]), %w)
    yield max(%p, add(%q, squeeze(%e, axes=[0])))
  }
  return %y
}
fn @g(%k: i64[], %v: f32[m,3], %b: i64[m], %w: f32[6,3], %a: i64[m]) -> (%y: f32[3]) {
  %i = gather(%a, %k, axis=0)
  %own = gather(%v, %k, axis=0)
  %e = tanh(dot(unsqueeze(concat(%own, neg(%own), axis=0), axes=[0]), %w))
  %y: f32[3] = if ge(%i, 0) {
    %p: f32[3] = call @f(%a, %b, %v, %w, %i)
    %q: f32[3] = call @g(gather(%b, %k, axis=0), %v, %b, %w, %a)
    %c = dot(unsqueeze(concat(%p, %q, axis=0), axes=[0]), %w)
    yield squeeze(add(%c, %e), axes=[0])
  } else {
    yield squeeze(neg(%e), axes=[0])
  }
  return %y
}",
    ),
];

/// Early work beside the levels gives the same as before them, at any pace.
#[test]
fn same_results_with_early_work_beside_the_levels() {
    let some = PROGRAMS.iter().filter(|(name, _)| {
        name.starts_with("products of inputs") || name.starts_with("two functions with late")
    });
    for (name, program) in some.chain(EARLY) {
        let in_loops = |options: &LevelOptions| {
            let (_, after, _) = leveled(&format!("{MAIN}{program}"), options);
            contractions(&after, "f.levels").0
        };
        for (k, pace) in PACES.into_iter().enumerate() {
            for batch in [1, 2, 24] {
                let options = LevelOptions {
                    batch,
                    streams: Some(pace),
                    ..ALWAYS
                };
                same_results(name, program, &options, k as u64);
                // Rows of a size that nothing names are evaluated before the levels.
                let is_beside = in_loops(&options) > in_loops(&ALWAYS);
                assert_eq!(is_beside, !name.contains("nothing names"), "{name}");
            }
        }
    }
}

/// Chains have levels of one node: each iteration has one row, and prepares the next.
#[test]
fn chains_with_early_work_beside_the_levels() {
    let mut random = Random(4);
    for (name, program) in EARLY {
        let source = format!("{MAIN}{program}");
        for pace in PACES {
            let streams = Some(pace);
            let (before, after, _) = leveled(&source, &LevelOptions { streams, ..ALWAYS });
            for n in [2, 3, 50] {
                let (left, right, root) = chain(n);
                let inputs = inputs(&left, &right, root, &mut random);
                let expected = run(&before, &inputs, &options()).expect("a chain");
                let shallow = Options {
                    max_depth: 2,
                    ..options()
                };
                let found = run(&after, &inputs, &shallow).expect("a chain by levels");
                assert_same(&expected, &found, &format!("{name}, {pace:?}, {n} nodes"));
            }
        }
    }
}

/// Any numbers for children and root: most of them end in errors, which must stay errors, and
/// nothing else may become one; whether calls are walked first or, as by default on weights this
/// small, only looked at.
#[test]
fn same_outcome_on_any_numbers() {
    let walked = LevelOptions {
        always: true,
        ..LevelOptions::USUAL
    };
    for options in [walked, LevelOptions::USUAL] {
        PROGRAMS
            .iter()
            .for_each(|(name, program)| same_outcomes(name, program, &options));
    }
    let streams = Some(PACES[1]);
    for (name, program) in EARLY {
        same_outcomes(name, program, &LevelOptions { streams, ..walked });
    }
}

fn same_outcomes(name: &str, program: &str, level_options: &LevelOptions) {
    let (before, after, _) = leveled(&format!("{MAIN}{program}"), level_options);
    let mut random = Random(7);
    let (mut good, mut bad) = (0, 0);
    for _ in 0..400 {
        let n = 1 + random.below(5) as usize;
        let spread = 2 + random.below(n as u64 + 3);
        let mut number = || random.below(spread) as i64 - 1 - (spread as i64 > n as i64 + 2) as i64;
        let left: Vec<i64> = (0..n).map(|_| number()).collect();
        let right: Vec<i64> = (0..n).map(|_| number()).collect();
        let root = number();
        let inputs = inputs(&left, &right, root, &mut random);
        let what = format!("{name}, {left:?} {right:?} {root}");
        let options = Options {
            max_depth: 20,
            max_iterations: 5_000,
            ..options()
        };
        match (
            run(&before, &inputs, &options),
            run(&after, &inputs, &options),
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
    assert!(good > 50 && bad > 50, "{name}: {good} {bad}");
}

/// Are the levels of these nodes evaluated as batches? Then no call is made inside another one.
fn in_levels(module: &Module, left: &[i64], right: &[i64], root: i64) -> bool {
    let inputs = inputs(left, right, root, &mut Random(3));
    let options = |max_depth| Options {
        max_depth,
        ..options()
    };
    run(module, &inputs, &options(300)).expect("deep enough");
    run(module, &inputs, &options(2)).is_ok()
}

/// A chain is a tree of levels of one node: batches gain nothing there. But a graph of such levels
/// may have many ways through it.
#[test]
fn narrow_trees_are_left_to_calls() {
    let program = format!("{MAIN}{}", PROGRAMS[0].1);
    // As if batches cost nothing, which are not worth it on weights this small.
    let cheap = CostModel {
        call: 0.0,
        level: 0.0,
        ..costs()
    };
    let (before, after, _) = leveled_by(&program, &LevelOptions::USUAL, &cheap);
    let mut random = Random(1);
    let (left, right, root) = children(64, 0, false, &mut random);
    assert!(in_levels(&after, &left, &right, root), "a complete tree");
    // Leaves 0 to 8, and inner nodes that each call the one before and a leaf of their own.
    let left = [vec![-1; 9], (8..16).collect()].concat();
    let own = [vec![-1; 9], (0..8).collect()].concat();
    assert!(!in_levels(&after, &left, &own, 16), "a chain");
    assert!(in_levels(&after, &left, &left, 16), "a graph");
    let inputs = inputs(&left, &own, 16, &mut random);
    let expected = run(&before, &inputs, &options()).expect("a chain");
    let found = run(&after, &inputs, &options()).expect("a chain");
    assert_same(&expected, &found, "a chain");
}

/// Batches of small products save less than they cost: trees are left to calls without a walk, but
/// not graphs, in which calls would be repeated, nor trees that are too deep for calls.
#[test]
fn trees_of_small_products_are_left_to_calls() {
    let program = format!("{MAIN}{}", PROGRAMS[0].1);
    let (before, after, _) = leveled(&program, &LevelOptions::USUAL);
    let mut random = Random(2);
    for (n, shape, shared, levels) in [
        (3, 0, false, false),
        (64, 0, false, false),
        (64, 2, false, false),
        (256, 1, false, false),
        (257, 1, false, false),
        (400, 0, false, false),
        (512, 1, false, false),
        (520, 1, false, true),
        (1100, 0, false, false),
        (64, 0, true, true),
    ] {
        let (left, right, root) = match shape {
            1 => chain(n),
            _ => children(n, shape, shared, &mut random),
        };
        let what = format!("{n} nodes, shape {shape}");
        assert_eq!(in_levels(&after, &left, &right, root), levels, "{what}");
        if !levels {
            let inputs = inputs(&left, &right, root, &mut random);
            let expected = run(&before, &inputs, &options()).expect("a tree");
            let found = run(&after, &inputs, &options()).expect("a tree");
            assert_same(&expected, &found, &what);
        }
    }
}

/// A little more than half of the nodes are leaves; each other node calls the one before it and a
/// leaf of its own.
fn chain(n: usize) -> (Vec<i64>, Vec<i64>, i64) {
    let leaves = n / 2 + 1;
    let none = vec![-1; leaves];
    let left = (leaves..n).map(|k| k as i64 - 1);
    let right = (0..n - leaves).map(|k| k as i64);
    let (left, right) = (left.collect(), right.collect());
    (
        [none.clone(), left].concat(),
        [none, right].concat(),
        n as i64 - 1,
    )
}

/// One of the four paths through this function, that of leaves, has no product: both of its
/// operands are zeros.
#[test]
fn leaves_multiply_no_zeros() {
    let source = "fn @main(%l: i64[n], %r: i64[n], %x: f32[n,3], %root: i64[]) -> (%h: f32[3]) {
  %w = const splat 0.25: f32[6,3]
  %h: f32[3] = call @f(%l, %r, %x, %w, %root)
  return %h
}
fn @f(%l: i64[n], %r: i64[n], %x: f32[n,3], %w: f32[6,3], %n: i64[]) -> (%h: f32[3]) {
  %zero = const splat 0: f32[3]
  %a = gather(%l, %n, axis=0)
  %b = gather(%r, %n, axis=0)
  %p: f32[3] = if lt(%a, 0) {
    yield %zero
  } else {
    %h1: f32[3] = call @f(%l, %r, %x, %w, %a)
    yield %h1
  }
  %q: f32[3] = if lt(%b, 0) {
    yield %zero
  } else {
    %h2: f32[3] = call @f(%l, %r, %x, %w, %b)
    yield %h2
  }
  %u = squeeze(dot(unsqueeze(concat(%p, %q, axis=0), axes=[0]), %w), axes=[0])
  return tanh(add(%u, gather(%x, %n, axis=0)))
}";
    let before = text::parse(source).expect("a program");
    let mut after = before.clone();
    optimize(&mut after);
    let report = transform(&mut after, &TransformOptions::default(), &machine());
    assert!(report.total().rejected.is_empty(), "{:?}", report.total());
    let mut products = 0;
    for (_, f) in after.functions.iter() {
        f.for_each_inst(&mut |_, inst| products += matches!(inst.op, Op::Dot) as usize);
    }
    // Three ways in batches, and the function that is left for narrow trees.
    assert_eq!(products, 3 + 1, "{}", text::print(&after));
    let mut random = Random(5);
    for (n, shape) in [(1, 0), (9, 0), (9, 1), (33, 2)] {
        let (left, right, root) = children(n, shape, false, &mut random);
        let mut inputs = inputs(&left, &right, root, &mut random);
        inputs.remove(3);
        let expected = run(&before, &inputs, &options()).expect("a tree");
        let found = run(&after, &inputs, &options()).expect("a tree");
        assert_same(&expected, &found, "a tree");
    }
}

/// A path that no node takes is not evaluated: neither in the first level, nor before it, nor for
/// the roots.
#[test]
fn paths_without_nodes_do_not_fail() {
    let leaf = "%y: f32[1,3] = if eq(%g, 1) {
      yield gather(%x, unsqueeze(%bad, axes=[0]), axis=0)
    } else {
      yield gather(%x, unsqueeze(%n, axes=[0]), axis=0)
    }
    yield %y, %y";
    let early = "%own: f32[1,3] = if eq(%g, 1) {
      yield dot(unsqueeze(concat(gather(%x, %n, axis=0), gather(%x, %bad, axis=0), axis=0), axes=[0]), %w)
    } else {
      yield gather(%x, unsqueeze(%n, axes=[0]), axis=0)
    }
    %h = tanh(add(dot(concat(%p, %q, axis=1), %w), %own))
    yield %h, %h";
    let late = "%h = tanh(dot(concat(%p, %q, axis=1), %w))
    %o: f32[1,3] = if eq(%g, 1) {
      yield dot(concat(%h, gather(%x, unsqueeze(%bad, axes=[0]), axis=0), axis=1), %w)
    } else {
      yield dot(concat(%h, %h, axis=1), %w)
    }
    yield %h, %o";
    let usual_leaf = "%y = gather(%x, unsqueeze(%n, axes=[0]), axis=0)
    yield %y, %y";
    let usual = "%h = tanh(dot(concat(%p, %q, axis=1), %w))
    yield %h, %h";
    for (leaf, node, streams) in [
        (leaf, usual, None),
        (usual_leaf, early, None),
        (usual_leaf, late, None),
        (usual_leaf, early, Some(PACES[0])),
        (usual_leaf, early, Some(PACES[1])),
        (usual_leaf, early, Some(PACES[2])),
    ] {
        let source = format!(
            "fn @main(%l: i64[n], %r: i64[n], %x: f32[n,3], %w: f32[6,3], %root: i64[], %tag: i64[n], %bad: i64[]) -> (%h: f32[1,3], %o: f32[1,3]) {{
  %h, %o = call @f(%l, %r, %x, %w, %root, %tag, %bad)
  return %h, %o
}}
fn @f(%l: i64[n], %r: i64[n], %x: f32[n,3], %w: f32[6,3], %n: i64[], %tag: i64[n], %bad: i64[]) -> (%h: f32[1,3], %o: f32[1,3]) {{
  %a = gather(%l, %n, axis=0)
  %g = gather(%tag, %n, axis=0)
  %h: f32[1,3], %o: f32[1,3] = if lt(%a, 0) {{
    {leaf}
  }} else {{
    %p, %po = call @f(%l, %r, %x, %w, %a, %tag, %bad)
    %q, %qo = call @f(%l, %r, %x, %w, gather(%r, %n, axis=0), %tag, %bad)
    {node}
  }}
  return %h, %o
}}"
        );
        let (before, after, stats) = leveled(&source, &LevelOptions { streams, ..ALWAYS });
        assert!(!stats.reasons.is_empty(), "{source}");
        let mut random = Random(5);
        for (tags, bad) in [(0, 99), (1, 2), (1, 99)] {
            let (left, right, root) = children(9, 0, false, &mut random);
            let mut inputs = inputs(&left, &right, root, &mut random);
            inputs.push(Datum::Tensor(Tensor::splat(
                DType::I64,
                vec![9],
                tags as f64,
            )));
            inputs.push(Datum::Tensor(Tensor::scalar(bad as i64)));
            let expected = run(&before, &inputs, &options());
            let found = run(&after, &inputs, &options());
            assert_eq!(expected.is_ok(), (tags, bad) != (1, 99));
            match (expected, found) {
                (Ok(expected), Ok(found)) => assert_same(&expected, &found, &source),
                (expected, found) => {
                    assert!(expected.is_err() && found.is_err(), "{found:?}\n{source}");
                }
            }
        }
    }
}

/// Contractions of a function within loops, and outside of them.
fn contractions(module: &Module, name: &str) -> (usize, usize) {
    let id = module.find(name).unwrap_or_else(|| panic!("no @{name}"));
    let func = &module.functions[id];
    let (mut inner, mut all) = (0, 0);
    let is_one = |op: &Op| matches!(op, Op::Dot) as usize;
    func.for_each_inst(&mut |_, inst| {
        all += is_one(&inst.op);
        if matches!(inst.op, Op::Loop { .. }) {
            func.for_each_inst_in(inst.regions[0], &mut |_, i| inner += is_one(&i.op));
        }
    });
    (inner, all - inner)
}

/// Products of inputs are evaluated before the levels, those of late results behind them: for the
/// root, or for all nodes of a kind. The levels keep the products with results of calls, and those
/// of leaves, which are one level.
#[test]
fn early_and_late_products_leave_the_levels() {
    let always = LevelOptions {
        always: true,
        ..LevelOptions::USUAL
    };
    // A second pass by levels costs more than it saves on weights this small.
    for (options, name, inner, outer) in [
        (always, "autoencoder", 1, 0),
        (always, "products of inputs", 2, 1 + 3),
        (always, "a sum of losses", 1, 2),
        (always, "two functions with late", 1, 1 + 2),
        (LevelOptions::USUAL, "products of inputs", 2, 1 + 3),
        (LevelOptions::USUAL, "a sum of losses", 3, 0),
    ] {
        let (_, program) = PROGRAMS.iter().find(|p| p.0.starts_with(name)).expect("it");
        let (_, after, _) = leveled(&format!("{MAIN}{program}"), &options);
        assert_eq!(
            contractions(&after, "f.levels"),
            (inner, outer),
            "{name}: {}",
            text::print(&after)
        );
    }
}

/// A recursion whose levels and early work have products of so many columns.
fn of_width(columns: usize) -> String {
    let (d, both) = (columns, 2 * columns);
    format!(
        "fn @main(%l: i64[n], %r: i64[n], %x: f32[n,{d}], %w: f32[{both},{d}], %root: i64[]) -> (%h: f32[{d}]) {{
  %h: f32[{d}] = call @f(%l, %r, %x, %w, %root)
  return %h
}}
fn @f(%l: i64[n], %r: i64[n], %x: f32[n,{d}], %w: f32[{both},{d}], %n: i64[]) -> (%h: f32[{d}]) {{
  %a = gather(%l, %n, axis=0)
  %own = gather(%x, %n, axis=0)
  %h: f32[{d}] = if lt(%a, 0) {{
    yield %own
  }} else {{
    %p: f32[{d}] = call @f(%l, %r, %x, %w, %a)
    %q: f32[{d}] = call @f(%l, %r, %x, %w, gather(%r, %n, axis=0))
    %e = dot(unsqueeze(concat(%own, %own, axis=0), axes=[0]), %w)
    %z = add(%e, dot(unsqueeze(concat(%p, %q, axis=0), axes=[0]), %w))
    yield tanh(squeeze(%z, axes=[0]))
  }}
  return %h
}}"
    )
}

/// Early work goes beside the levels where these leave units idle: on many units, where the products
/// of a level have fewer tiles of columns.
#[test]
fn narrow_levels_leave_units_to_early_work() {
    for (units, columns, is_beside) in [
        (2, 16, false),
        (2, 128, false),
        (2, 256, false),
        (64, 256, true),
        (64, 1024, false),
    ] {
        let costs = CostModel::of(&Machine::reference_host(units));
        let source = of_width(columns);
        let (_, after, stats) = leveled_by(&source, &LevelOptions::USUAL, &costs);
        assert!(stats.total() > 0, "{units} units, {columns} columns");
        // In the loop, besides the level's; and in front of it, all or those of the first batch.
        let expected = if is_beside { (2, 1) } else { (1, 1) };
        assert_eq!(
            contractions(&after, "f.levels"),
            expected,
            "{units} units, {columns} columns: {}",
            text::print(&after)
        );
    }
}
