//! Random recursive functions: on tensors, and on trees and graphs in index arrays.

use std::fmt::Write;

use heddle_ir::{Datum, Tensor};

use super::Random;
use super::many::{f32s, i64, i64s};

/// The body of a function in the making. Its values are `f32[2]` and, if it is free, `f32[?,2]`.
struct Body {
    random: Random,
    text: String,
    names: usize,
    calls: usize,
    /// There are two functions, whose calls and control flow may need results of calls, and arrays
    /// whose size differs.
    is_free: bool,
}

/// Calls in the text of a body.
const MOST_CALLS: usize = 3;

/// A value that may be used, with whether it needs a call's result.
type Item = (String, bool);

/// The values that may be used.
#[derive(Clone)]
struct Pool {
    rows: Vec<Item>,
    /// Arrays of rows, if the function is free.
    arrays: Vec<Item>,
}

impl Pool {
    fn of(rows: &[&str]) -> Pool {
        Pool {
            rows: rows.iter().map(|name| (name.to_string(), false)).collect(),
            arrays: vec![],
        }
    }

    fn last(&self) -> Item {
        self.rows[self.rows.len() - 1].clone()
    }
}

impl Body {
    /// A body without calls.
    fn new(seed: u64, is_free: bool) -> Self {
        Body {
            random: Random(seed),
            text: String::new(),
            names: 0,
            calls: MOST_CALLS,
            is_free,
        }
    }

    fn below(&mut self, n: usize) -> usize {
        self.random.below(n as u64) as usize
    }

    fn fresh(&mut self) -> String {
        self.names += 1;
        format!("%v{}", self.names)
    }

    /// A value; seldom one that needs a call's result where that is not wanted.
    fn pick(&mut self, pool: &Pool, early: bool) -> (String, bool) {
        let early = early && !self.is_free && self.below(20) > 0;
        let some: Vec<_> = pool.rows.iter().filter(|v| !early || !v.1).collect();
        some[self.below(some.len())].clone()
    }

    fn pick_array(&mut self, pool: &Pool) -> String {
        pool.arrays[self.below(pool.arrays.len())].0.clone()
    }

    /// A `bool`, or a number from 0 to 3, that follows from a value.
    fn test(&mut self, value: &str) -> String {
        // Sums come close to round limits, where rounding would decide.
        let limit = self.below(5) as f32 * 0.25 - 0.4505;
        format!("lt(reduce({value}, kind=sum, axes=[0], keep=false), {limit:?})")
    }

    fn step(&mut self, pool: &mut Pool, depth: usize) {
        let name = self.fresh();
        match self.below(if self.is_free { 11 } else { 8 }) {
            3 | 4 if self.calls < MOST_CALLS => {
                self.calls += 1;
                let (arg, _) = self.pick(pool, true);
                let (count, own) = (self.fresh(), self.fresh());
                let callee = match self.is_free && self.below(3) == 0 {
                    true => "g",
                    false => "f",
                };
                let (mut more, mut result) = (String::new(), String::new());
                if self.is_free {
                    let (array, made) = (self.pick_array(pool), self.fresh());
                    (more, result) = (format!(", {array}"), format!(", {made}: f32[?,2]"));
                    pool.arrays.push((made, true));
                }
                let call = format!("call @{callee}(mul({arg}, 0.75), sub(%k, 1), %w{more})");
                writeln!(self.text, "{own}: f32[2], {count}: i64[]{result} = {call}")
                    .expect("writes");
                writeln!(self.text, "{name} = add({own}, cast({count}, to=f32))").expect("writes");
                pool.rows.push((name, true));
            }
            5 if depth > 0 => self.branch(&name, pool, depth),
            6 if depth > 0 => self.repeat(&name, pool, depth),
            7 => {
                let (of, late) = self.pick(pool, false);
                self.softmax(&name, &of);
                pool.rows.push((name, late));
            }
            8 => {
                let (of, late) = self.pick(pool, false);
                let size = format!("add(%k, cast({}, to=i64))", self.test(&of));
                let sizes =
                    format!("concat(unsqueeze({size}, axes=[0]), const [2]: i64[1], axis=0)");
                writeln!(
                    self.text,
                    "{name}: f32[?,2] = broadcast({of}, max({sizes}, 0))"
                )
                .expect("writes");
                pool.arrays.push((name, late));
            }
            9 => {
                let (x, y) = (self.pick_array(pool), self.pick_array(pool));
                let (by, _) = self.pick(pool, false);
                let joined = format!("concat(mul({x}, {by}), {y}, axis=0)");
                let few = 1 + self.below(7);
                let few = format!("slice({joined}, [0], [{few}], [1], axes=[0])");
                writeln!(self.text, "{name}: f32[?,2] = {few}").expect("writes");
                pool.arrays.push((name, true));
            }
            10 => {
                let of = self.pick_array(pool);
                self.sum(&name, &of);
                pool.rows.push((name, true));
            }
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
                pool.rows.push((name, x || y));
            }
        }
    }

    fn softmax(&mut self, name: &str, of: &str) {
        let [far, sum] = [(); 2].map(|()| self.fresh());
        let lines = [
            format!("{far} = exp(sub({of}, reduce({of}, kind=max, axes=[0], keep=true)))"),
            format!("{sum} = reduce({far}, kind=sum, axes=[0], keep=true)"),
            format!("{name} = div({far}, {sum})"),
        ];
        lines
            .iter()
            .for_each(|line| writeln!(self.text, "{line}").expect("writes"));
    }

    fn sum(&mut self, name: &str, of: &str) {
        let sum = format!("reduce({of}, kind=sum, axes=[0], keep=false)");
        writeln!(self.text, "{name} = {sum}").expect("writes");
    }

    fn block(&mut self, pool: &mut Pool, depth: usize) {
        for _ in 0..=self.below(4) {
            self.step(pool, depth);
        }
    }

    fn branch(&mut self, name: &str, pool: &mut Pool, depth: usize) {
        let (of, _) = self.pick(pool, true);
        let test = self.test(&of);
        let array = self.fresh();
        let more = self.if_free(format!(", {array}: f32[?,2]"));
        writeln!(self.text, "{name}: f32[2]{more} = if {test} {{").expect("writes");
        let mut late = false;
        for end in ["} else {", "}"] {
            let mut own = pool.clone();
            self.block(&mut own, depth - 1);
            let (value, is_late) = own.last();
            late |= is_late;
            let more = match self.is_free {
                true => format!(", {}", self.pick_array(&own)),
                false => String::new(),
            };
            writeln!(self.text, "yield {value}{more}\n{end}").expect("writes");
        }
        pool.rows.push((name.to_string(), late));
        if self.is_free {
            pool.arrays.push((array, true));
        }
    }

    fn if_free(&self, text: String) -> String {
        match self.is_free {
            true => text,
            false => String::new(),
        }
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
        // One array of two is carried.
        let (array, last, sum) = (self.fresh(), self.fresh(), self.fresh());
        let (mut carry, mut result) = (String::new(), String::new());
        if self.is_free {
            carry = format!(", {array}: f32[?,2] = {}", self.pick_array(pool));
            result = format!(", {last}: f32[?,2]");
        }
        let head =
            format!("loop {i} trip {trip}{start} carry ({carried}: f32[2] = {init}{carry}) {{");
        writeln!(
            self.text,
            "{name}: f32[2]{result}, {all}: f32[?,2] = {head}"
        )
        .expect("writes");
        let mut own = pool.clone();
        own.rows.push((carried, late));
        if self.is_free {
            own.arrays.push((array, true));
        }
        self.block(&mut own, depth - 1);
        let (next, is_late) = self.pick(&own, late);
        let (stacked, is_last) = self.pick(&own, false);
        let (of, _) = self.pick(&own, true);
        let test = if ends {
            format!("while {} ", self.test(&of))
        } else {
            String::new()
        };
        let carry = match self.is_free {
            true => format!(", {}", self.pick_array(&own)),
            false => String::new(),
        };
        writeln!(
            self.text,
            "continue {test}carry {next}{carry} stack {stacked}\n}}"
        )
        .expect("writes");
        pool.rows.push((name.to_string(), late || is_late));
        if self.is_free {
            pool.arrays.extend([(last, true), (all.clone(), true)]);
        }
        if self.below(2) == 0 {
            self.sum(&sum, &all);
            pool.rows.push((sum, late || is_late || is_last));
        }
    }
}

/// A recursion whose calls follow from tensors. One function calls itself, and calls seldom need
/// results of others; if `is_free`, two call each other, and whatever needs a call's result may say
/// which calls follow.
pub fn on_tensors(seed: u64, is_free: bool) -> String {
    let (result, array, more) = match is_free {
        true => (", %all: f32[?,2]", ", unsqueeze(%x, axes=[0])", ", %all"),
        false => ("", "", ""),
    };
    let main = format!(
        "fn @main(%x: f32[2], %k: i64[], %w: f32[2,2]) -> (%y: f32[2], %n: i64[]{result}) {{
%y: f32[2], %n: i64[]{result} = call @f(%x, %k, %w{array})
return %y, %n{more}
}}"
    );
    let mut all = vec![main, function("f", seed, is_free)];
    if is_free {
        all.push(function("g", seed + 1_000_000, is_free));
    }
    all.join("\n")
}

/// A function; nothing but `%k` ends it.
fn function(name: &str, seed: u64, is_free: bool) -> String {
    // In front of the branch stand no calls, as nothing would end those.
    let mut body = Body::new(seed, is_free);
    let mut pool = Pool::of(&["%x"]);
    if is_free {
        pool.arrays.push(("%r".to_string(), false));
    }
    body.block(&mut pool, 2);
    let first = std::mem::take(&mut body.text);
    body.calls = 0;
    body.block(&mut pool, 2);
    body.block(&mut pool, 2);
    let (last, _) = pool.last();
    let (mut param, mut more, mut result, mut array) = ("", "", "", String::new());
    if is_free {
        (param, more, result) = (", %r: f32[m,2]", ", %all", ", %all: f32[?,2]");
        array = format!(", {}", body.pick_array(&pool));
    }
    let other = if is_free { ", %r" } else { "" };
    let body = body.text;
    format!(
        "fn @{name}(%x: f32[2], %k: i64[], %w: f32[2,2]{param}) -> (%y: f32[2], %n: i64[]{result}) {{
{first}%y: f32[2]{result} = if gt(%k, 0) {{
{body}yield tanh({last}){array}
}} else {{
yield mul(%x, 0.5){other}
}}
%n = add(cast(lt(reduce(%y, kind=sum, axes=[0], keep=false), 0.25), to=i64), %k)
return %y, %n{more}
}}"
    )
}

/// Inputs of this many instances for such a recursion, whose depth is below `deepest`.
pub fn tensors(seed: u64, count: u64, deepest: u64) -> Vec<Vec<Datum>> {
    let mut random = Random(seed);
    let w = product(&mut random);
    let with = |_| {
        let x = [0, 1].map(|_| random.below(17) as f32 / 8.0 - 1.0);
        vec![f32s(&x), i64(random.below(deepest) as i64), w.clone()]
    };
    (0..count).map(with).collect()
}

fn product(random: &mut Random) -> Datum {
    let w = [0, 1, 2, 3].map(|_| random.below(9) as f32 / 4.0 - 1.0);
    Datum::Tensor(Tensor::from_slice(vec![2, 2], &w))
}

/// A recursion over trees or graphs in arrays, each node with two children or none. With
/// `has_depth`, calls pass on their depth, which no result depends on: one argument more that
/// differs by call, so that calls are no places in arrays.
pub fn on_trees(seed: u64, has_depth: bool) -> String {
    let mut body = Body::new(seed, false);
    let mut part = |names: &[&str]| {
        let mut pool = Pool::of(names);
        body.block(&mut pool, 1);
        let (last, _) = pool.last();
        (std::mem::take(&mut body.text), last)
    };
    let (first, x) = part(&["%word"]);
    let (leaf, small) = part(&["%word", &x]);
    let (node, large) = part(&["%word", &x, "%a", "%b"]);
    let (last, y) = part(&["%word", &x, "%z"]);
    let (depth, own, deeper) = match has_depth {
        true => (", 0", ", %d: i64[]", ", add(%d, 1)"),
        false => ("", "", ""),
    };
    let arrays = "%left, %right, %words, %table, %w";
    let types = "%left: i64[n], %right: i64[n], %words: i64[n], %table: f32[5,2], %w: f32[2,2]";
    format!(
        "fn @main({types}) -> (%y: f32[2], %c: i64[]) {{
%root = sub(squeeze(shape(%left), axes=[0]), 1)
%y: f32[2], %c: i64[] = call @node({arrays}, %root{depth})
return %y, %c
}}
fn @node({types}, %i: i64[]{own}) -> (%y: f32[2], %c: i64[]) {{
%word = gather(%table, gather(%words, %i, axis=0), axis=0)
%l = gather(%left, %i, axis=0)
%k = gather(%words, %i, axis=0)
{first}%z: f32[2], %c: i64[] = if lt(%l, 0) {{
{leaf}yield tanh({small}), 1
}} else {{
%a: f32[2], %m: i64[] = call @node({arrays}, %l{deeper})
%b: f32[2], %n: i64[] = call @node({arrays}, gather(%right, %i, axis=0){deeper})
{node}yield tanh({large}), add(add(%m, %n), 1)
}}
{last}return tanh({y}), %c
}}"
    )
}

/// This many trees, of which some share subtrees.
pub fn trees(seed: u64, count: u64) -> Vec<Vec<Datum>> {
    let mut random = Random(seed);
    let w = product(&mut random);
    let table: Vec<f32> = (0..10)
        .map(|_| random.below(9) as f32 / 4.0 - 1.0)
        .collect();
    let table = Datum::Tensor(Tensor::from_slice(vec![5, 2], &table));
    let with = |_| {
        let size = 1 + random.below(9);
        let (mut left, mut right, mut words) = (vec![], vec![], vec![]);
        for k in 0..size {
            // The last nodes have children, or most would hang on no root.
            let is_leaf = k == 0 || k + 2 < size && random.below(2) == 0;
            let mut child = |from: u64| match is_leaf {
                true => -1,
                false => (from + random.below(k - from)) as i64,
            };
            left.push(child(k.saturating_sub(3)));
            right.push(child(0));
            words.push(random.below(5) as i64);
        }
        let arrays = [left, right, words].map(|a| i64s(&a));
        [arrays.to_vec(), vec![table.clone(), w.clone()]].concat()
    };
    (0..count).map(with).collect()
}
