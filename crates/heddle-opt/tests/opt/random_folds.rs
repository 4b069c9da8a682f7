//! Random loops that fold terms, among others: reductions give what the loops give, or the same
//! error, for trip counts of 0, 1, primes and thousands, and for batches of 1, 7 and 64 instances.
//!
//! `HEDDLE_LOOPS` says how many.

use std::fmt::Write as _;

use crate::common::many::{compare, f32s, i64, i64s};
use crate::common::{Random, assert_same, same_but_for_sums, same_in_doubles, variable};
use heddle_interp::{Options, run};
use heddle_ir::{DType, Datum, Module, Tensor, text, verify::verify};
use heddle_opt::{Edit, Form, Stats, optimize, reduce_folds, remove_dead};

const TRIPS: [u64; 7] = [0, 1, 2, 7, 13, 101, 4_099];

/// A loop of 1 to 4 carried values; the trip count is a size, or a number of its own.
fn random_loop(random: &mut Random) -> String {
    let (mut carried, mut next, mut results, mut body) = (vec![], vec![], vec![], String::new());
    let by_size = random.below(3) > 0;
    let mut floats = vec!["%row".to_string(), "%s".into(), "%it".into()];
    let mut ints = vec!["%id".to_string(), "%i".into(), "%k".into()];
    let mut bools = vec!["%odd".to_string(), "%flag".into()];
    for k in 0..2 + random.below(6) {
        let mut pick = |all: &[String]| all[random.below(all.len() as u64) as usize].clone();
        let (f, g, n, p) = (pick(&floats), pick(&floats), pick(&ints), pick(&bools));
        let m = pick(&ints);
        let name = format!("%v{k}");
        let (value, of) = match random.below(10) {
            0 => (format!("tanh({f})"), &mut floats),
            1 => (format!("mul({f}, {g})"), &mut floats),
            2 => (
                format!("squeeze(dot(unsqueeze(broadcast({f}, [3]), axes=[0]), %w), axes=[0])"),
                &mut floats,
            ),
            3 => (format!("select({p}, {f}, {g})"), &mut floats),
            4 => (format!("gather(%table, mod({n}, 5), axis=0)"), &mut floats),
            5 => (format!("mul({n}, add({m}, 1))"), &mut ints),
            6 => (format!("select({p}, {n}, {m})"), &mut ints),
            7 => (format!("gather(%wrong, {n}, axis=0)"), &mut ints),
            8 => (format!("lt({n}, {m})"), &mut bools),
            _ => (format!("not({p})"), &mut bools),
        };
        writeln!(body, "    {name} = {value}").expect("a string can be written to");
        of.push(name);
    }
    let count = 1 + random.below(4);
    for k in 0..count {
        let mut pick = |all: &[String]| all[random.below(all.len() as u64) as usize].clone();
        let (f, n, p) = (pick(&floats), pick(&ints), pick(&bools));
        let a = format!("%a{k}");
        let (ty, init, value) = match random.below(9) {
            0 | 1 => ("f32[3]", "%s", format!("add({a}, {f})")),
            2 => ("f32[3]", "%s", format!("add(add({f}, {a}), %row)")),
            3 => ("f32[3]", "%s", format!("max({f}, {a})")),
            4 => ("i64[]", "%k", format!("add({n}, {a})")),
            5 => ("i64[]", "%k", format!("mul({a}, {n})")),
            6 => ("i64[]", "%k", format!("min({a}, {n})")),
            7 => match random.below(2) {
                0 => ("bool[]", "%flag", format!("and({a}, {p})")),
                _ => ("bool[]", "%flag", format!("or({p}, {a})")),
            },
            // No fold.
            _ => ("f32[3]", "%s", format!("tanh(add({a}, {f}))")),
        };
        carried.push(format!("{a}: {ty} = {init}"));
        next.push(value);
        results.push((format!("%r{k}"), ty));
    }
    let stacks = random.below(4) == 0;
    let mut names: Vec<&str> = results.iter().map(|r| r.0.as_str()).collect();
    let mut types: Vec<String> = results.iter().map(|(r, ty)| format!("{r}: {ty}")).collect();
    if stacks && by_size {
        names.push("%stack");
        types.push("%stack: i64[n]".into());
    }
    let trip = match by_size {
        true => "%size",
        false => "%trips",
    };
    let stack = match stacks && by_size {
        true => format!(" stack {}", ints[random.below(ints.len() as u64) as usize]),
        false => String::new(),
    };
    format!(
        "fn @main(%x: f32[n,3], %ids: i64[n], %s: f32[3], %k: i64[], %flag: bool[], %trips: i64[], %table: f32[5,3], %w: f32[3,3], %wrong: i64[4]) -> ({}) {{
  %size = gather(shape(%x), 0, axis=0)
  {} = loop %i trip {trip} carry ({}) {{
    %row = gather(%x, %i, axis=0)
    %id = gather(%ids, %i, axis=0)
    %it = cast(%i, to=f32)
    %odd = eq(mod(%i, 2), 1)
{body}    continue carry {}{stack}
  }}
  return {}
}}",
        types.join(", "),
        names.join(", "),
        carried.join(", "),
        next.join(", "),
        names.join(", "),
    )
}

/// Inputs for so many rows; small numbers, so that products of a few stay small, some NaN and infinite. A trip count of its own is
/// that of the rows, or less, negative, or one more, which is an error.
fn inputs(rows: u64, random: &mut Random) -> Vec<Datum> {
    let mut floats = |n: u64, shape: Vec<usize>| {
        let all: Vec<f32> = (0..n)
            .map(|_| match random.below(200) {
                0 => [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][random.below(3) as usize],
                _ => (random.below(33) as f32 - 16.0) / 16.0,
            })
            .collect();
        Datum::Tensor(Tensor::from_slice(shape, &all))
    };
    let x = floats(rows * 3, vec![rows as usize, 3]);
    let (s, table, w) = (
        floats(3, vec![3]),
        floats(15, vec![5, 3]),
        floats(9, vec![3, 3]),
    );
    let ids: Vec<i64> = (0..rows).map(|_| random.below(4) as i64).collect();
    let (k, flag) = (random.below(5) as i64, random.below(2) as u8);
    let trips = [rows, rows, rows / 2, rows + 1].map(|n| n as i64);
    let trips = match random.below(5) {
        4 => -3,
        n => trips[n as usize],
    };
    vec![
        x,
        i64s(&ids),
        s,
        i64(k),
        Datum::Tensor(Tensor::splat(DType::Bool, vec![], f64::from(flag))),
        i64(trips),
        table,
        w,
        i64s(&[3, 0, 1, 2]),
    ]
}

fn outcome(module: &Module, inputs: &[Datum]) -> Result<(), String> {
    let done = run(module, inputs, &Options::default());
    done.map(drop).map_err(|error| error.to_string())
}

#[test]
fn folds_keep_results() {
    let mut random = Random(23);
    let (mut all, mut failing, mut many) = (Stats::default(), 0, 0);
    let loops = variable("HEDDLE_LOOPS", 50);
    for number in 0..loops {
        let source = random_loop(&mut random);
        let mut before = text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
        // Errors that no result depends on may go.
        remove_dead(&mut before);
        let mut optimized = before.clone();
        optimize(&mut optimized);
        for (from, bytes) in [(&before, 1e9), (&optimized, 1e9), (&before, 200.0)] {
            let mut module = from.clone();
            let stats = reduce_folds(&mut module, bytes);
            let show = || {
                format!(
                    "loop {number}, {bytes}\n{}\n{}",
                    text::print(from),
                    text::print(&module)
                )
            };
            verify(&module).unwrap_or_else(|e| panic!("{}\n{}", e[0], show()));
            let folds = stats.count(Edit::FoldReduced);
            all.merge(stats);
            if folds == 0 {
                continue;
            }
            for rows in TRIPS {
                let inputs = inputs(rows, &mut random);
                let (expected, found) = (outcome(from, &inputs), outcome(&module, &inputs));
                assert_eq!(expected.clone().err(), found.err(), "{}", show());
                failing += expected.is_err() as u32;
                let same = match rows {
                    0..1_000 => same_but_for_sums(from, &module, &inputs),
                    _ => same_in_doubles(from, &module, &inputs),
                };
                same.unwrap_or_else(|e| panic!("{rows} rows: {e}\n{}", show()));
            }
            let (shared, stacked) = (Form::Shared, Form::Stacked);
            let mut forms = vec![stacked; 6];
            forms[..2].fill(Form::Ragged);
            forms.extend([shared; 3]);
            for count in [1, 7, 64] {
                let rows = |random: &mut Random| [0, 1, 2, 5, 17][random.below(5) as usize];
                let mut instances: Vec<Vec<Datum>> = (0..count)
                    .map(|_| inputs(rows(&mut random), &mut random))
                    .collect();
                let like = instances[0][6..].to_vec();
                instances
                    .iter_mut()
                    .for_each(|i| i[6..].clone_from_slice(&like));
                many += compare(&module, &forms, &instances).is_some() as u32;
            }
        }
    }
    assert!(all.rejected.is_empty(), "{:?}", all.rejected);
    let folds = all.count(Edit::FoldReduced);
    println!("{folds} folds; {failing} runs that fail; {many} batches");
    assert!(folds as u64 > 2 * loops && 8 * failing as u64 > loops && many as u64 > 2 * loops);
}

#[test]
fn extremes_are_exact() {
    let program = "fn @main(%x: f32[n], %i: i64[n]) -> (%y: f32[], %z: f32[], %m: i64[]) {
  %n = gather(shape(%x), 0, axis=0)
  %y, %z, %m = loop %t trip %n carry (%a: f32[] = 0.0, %b: f32[] = 0.0, %c: i64[] = 1) {
    %e = gather(%x, %t, axis=0)
    continue carry max(%a, %e), min(%e, %b), mul(%c, gather(%i, %t, axis=0))
  }
  return %y, %z, %m
}";
    let before = text::parse(program).unwrap_or_else(|e| panic!("{e}"));
    let mut after = before.clone();
    assert_eq!(reduce_folds(&mut after, 1e9).count(Edit::FoldReduced), 3);
    let next = f32::from_bits(1.0f32.to_bits() + 1);
    let nan = f32::NAN;
    for values in [
        vec![],
        vec![1.0, next, -1.0, -next],
        vec![nan, 2.0],
        vec![f32::INFINITY, 1.0, -3.0],
    ] {
        let factors: Vec<i64> = (0..values.len() as i64).map(|k| k * 7 - 3).collect();
        let inputs = [f32s(&values), i64s(&factors)];
        let [expected, found] =
            [&before, &after].map(|module| run(module, &inputs, &Options::default()));
        let (expected, found) = (expected.expect("it runs"), found.expect("it runs"));
        assert_same(&expected, &found, &format!("{values:?}"));
    }
}

#[test]
fn loops_in_which_several_instructions_may_fail_stay() {
    let program = "fn @main(%x: f32[4], %i: i64[3], %j: i64[3]) -> (%y: f32[]) {
  %y = loop %t trip 3 carry (%a: f32[] = 0.0) {
    %p = gather(%i, %t, axis=0)
    %q = gather(%j, %t, axis=0)
    %s: f32[] = loop %u trip 2 carry (%b: f32[] = 0.0) {
      continue carry tanh(add(%b, FIRST))
    }
    continue carry add(%a, %s)
  }
  return %y
}";
    let folds = |first: &str| {
        let mut module =
            text::parse(&program.replace("FIRST", first)).unwrap_or_else(|e| panic!("{e}"));
        reduce_folds(&mut module, 1e9).count(Edit::FoldReduced)
    };
    assert_eq!(folds("gather(%x, %p, axis=0)"), 1);
    assert_eq!(
        folds("add(gather(%x, %p, axis=0), gather(%x, %q, axis=0))"),
        0
    );
}

#[test]
fn many_terms() {
    let program = "fn @main(%x: f32[n]) -> (%y: f32[], %z: f64[]) {
  %n = gather(shape(%x), 0, axis=0)
  %y, %z = loop %i trip %n carry (%a: f32[] = 0.0, %b: f64[] = const 0.0: f64[]) {
    %e = gather(%x, %i, axis=0)
    continue carry add(%a, %e), add(%b, cast(%e, to=f64))
  }
  return %y, %z
}";
    let before = text::parse(program).unwrap_or_else(|e| panic!("{e}"));
    let mut after = before.clone();
    assert_eq!(reduce_folds(&mut after, 1e9).count(Edit::FoldReduced), 2);
    let values: Vec<f32> = (0..9_973).map(|k| 1.0 / (1 + k % 97) as f32).collect();
    same_in_doubles(&before, &after, &[f32s(&values)]).unwrap_or_else(|e| panic!("{e}"));
}
