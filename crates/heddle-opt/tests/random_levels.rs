//! Random recursive functions on tensors, for 1 to 5 instances: for each the same as alone.
//!
//! `HEDDLE_SEED` and `HEDDLE_PROGRAMS` choose which and how many.

mod common;

use std::fmt::Write;

use common::many::{compare, f32s, i64};
use common::{Random, variable};
use heddle_ir::{Datum, Tensor, text};
use heddle_opt::Form::{Shared, Stacked};

/// The body of a function in the making. All its values are `f32[2]`.
struct Body {
    random: Random,
    text: String,
    names: usize,
    calls: usize,
}

/// Calls in the text of a body.
const MOST_CALLS: usize = 3;

/// The values that may be used, each with whether it needs a call's result.
type Pool = Vec<(String, bool)>;

impl Body {
    fn below(&mut self, n: usize) -> usize {
        self.random.below(n as u64) as usize
    }

    fn fresh(&mut self) -> String {
        self.names += 1;
        format!("%v{}", self.names)
    }

    /// A value; seldom one that needs a call's result where that is not wanted.
    fn pick(&mut self, pool: &Pool, early: bool) -> (String, bool) {
        let early = early && self.below(20) > 0;
        let some: Vec<_> = pool.iter().filter(|v| !early || !v.1).collect();
        some[self.below(some.len())].clone()
    }

    /// A `bool`, or a number from 0 to 3, that follows from a value.
    fn test(&mut self, value: &str) -> String {
        let limit = self.below(5) as f32 * 0.25 - 0.5;
        format!("lt(reduce({value}, kind=sum, axes=[0], keep=false), {limit:?})")
    }

    fn step(&mut self, pool: &mut Pool, depth: usize) {
        let name = self.fresh();
        match self.below(7) {
            3 | 4 if self.calls < MOST_CALLS => {
                self.calls += 1;
                let (arg, _) = self.pick(pool, true);
                let (count, own) = (self.fresh(), self.fresh());
                let call = format!("call @f(mul({arg}, 0.75), sub(%k, 1), %w)");
                writeln!(self.text, "{own}: f32[2], {count}: i64[] = {call}").expect("writes");
                writeln!(self.text, "{name} = add({own}, cast({count}, to=f32))").expect("writes");
                pool.push((name, true));
            }
            5 if depth > 0 => self.branch(&name, pool, depth),
            6 if depth > 0 => self.repeat(&name, pool, depth),
            kind => {
                let ((a, x), (b, y)) = (self.pick(pool, false), self.pick(pool, false));
                let op = match kind {
                    0 => format!("tanh(sub({a}, {b}))"),
                    1 => format!(
                        "squeeze(tanh(dot(unsqueeze(add({a}, {b}), axes=[0]), %w)), axes=[0])"
                    ),
                    _ => format!("sub(mul({a}, 0.5), {b})"),
                };
                writeln!(self.text, "{name} = {op}").expect("writes");
                pool.push((name, x || y));
            }
        }
    }

    fn block(&mut self, pool: &mut Pool, depth: usize) {
        for _ in 0..=self.below(4) {
            self.step(pool, depth);
        }
    }

    fn branch(&mut self, name: &str, pool: &mut Pool, depth: usize) {
        let (of, _) = self.pick(pool, true);
        let test = self.test(&of);
        writeln!(self.text, "{name}: f32[2] = if {test} {{").expect("writes");
        let mut late = false;
        for end in ["} else {", "}"] {
            let mut own = pool.clone();
            self.block(&mut own, depth - 1);
            let (value, is_late) = self.pick(&own[own.len() - 1..].to_vec(), false);
            late |= is_late;
            writeln!(self.text, "yield {value}\n{end}").expect("writes");
        }
        pool.push((name.to_string(), late));
    }

    fn repeat(&mut self, name: &str, pool: &mut Pool, depth: usize) {
        let (of, _) = self.pick(pool, true);
        let (init, late) = self.pick(pool, false);
        let (carried, all, i) = (self.fresh(), self.fresh(), self.fresh());
        let trip = match self.below(3) {
            0 => "2".to_string(),
            1 => "min(%k, 3)".to_string(),
            _ => format!("add(1, cast({}, to=i64))", self.test(&of)),
        };
        let ends = self.below(2) == 0;
        let start = if ends { " while const true" } else { "" };
        let head = format!("loop {i} trip {trip}{start} carry ({carried}: f32[2] = {init}) {{");
        writeln!(self.text, "{name}: f32[2], {all}: f32[?,2] = {head}").expect("writes");
        let mut own = pool.clone();
        own.push((carried, late));
        self.block(&mut own, depth - 1);
        let (next, is_late) = self.pick(&own, late);
        let (stacked, _) = self.pick(&own, false);
        let (of, _) = self.pick(&own, true);
        let test = if ends {
            format!("while {} ", self.test(&of))
        } else {
            String::new()
        };
        writeln!(self.text, "continue {test}carry {next} stack {stacked}\n}}").expect("writes");
        pool.push((name.to_string(), late || is_late));
    }
}

fn program(seed: u64) -> String {
    // In front of the branch stand no calls, as nothing would end those.
    let mut body = Body {
        random: Random(seed),
        text: String::new(),
        names: 0,
        calls: MOST_CALLS,
    };
    let mut pool = vec![("%x".to_string(), false)];
    body.block(&mut pool, 2);
    let first = std::mem::take(&mut body.text);
    body.calls = 0;
    body.block(&mut pool, 2);
    body.block(&mut pool, 2);
    let (last, _) = pool[pool.len() - 1].clone();
    let body = body.text;
    format!(
        "fn @main(%x: f32[2], %k: i64[], %w: f32[2,2]) -> (%y: f32[2], %n: i64[]) {{
%y: f32[2], %n: i64[] = call @f(%x, %k, %w)
return %y, %n
}}
fn @f(%x: f32[2], %k: i64[], %w: f32[2,2]) -> (%y: f32[2], %n: i64[]) {{
{first}%y: f32[2] = if gt(%k, 0) {{
{body}yield tanh({last})
}} else {{
yield mul(%x, 0.5)
}}
%n = add(cast(lt(reduce(%y, kind=sum, axes=[0], keep=false), 0.25), to=i64), %k)
return %y, %n
}}"
    )
}

#[test]
fn random_recursions() {
    let first = variable("HEDDLE_SEED", 0);
    let count = variable("HEDDLE_PROGRAMS", 300);
    let (mut together, mut reasons) = (0, std::collections::BTreeMap::<String, u32>::new());
    for seed in first..first + count {
        let program = program(seed);
        let module = text::parse(&program).unwrap_or_else(|e| panic!("{e}\n{program}"));
        let mut random = Random(seed + 1);
        let mut number = |n: u64| random.below(n);
        let w = [0, 1, 2, 3].map(|_| number(9) as f32 / 4.0 - 1.0);
        let w = Datum::Tensor(Tensor::from_slice(vec![2, 2], &w));
        let instances: Vec<Vec<Datum>> = (0..1 + number(5))
            .map(|_| {
                let x = [0, 1].map(|_| number(17) as f32 / 8.0 - 1.0);
                vec![f32s(&x), i64(number(4) as i64), w.clone()]
            })
            .collect();
        let batch = compare(&module, &[Stacked, Stacked, Shared], &instances);
        let batch = batch.unwrap_or_else(|| panic!("runs alone\n{program}"));
        together += batch.one_by_one.is_empty() as u64;
        for left in batch.one_by_one {
            let reason = format!("{}: {}", left.op, left.refusal);
            *reasons.entry(reason).or_default() += 1;
        }
    }
    println!("{together} together; one by one: {reasons:#?}");
    assert!(2 * together > count, "{together} of {count}: {reasons:?}");
}
