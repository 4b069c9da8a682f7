//! Random loops that a counter ends: of several types, with starts, steps, limits and comparisons of
//! all kinds, moved in branches, next to other conditions. With the trip counts that are derived
//! from them, they give what they gave.
//!
//! `HEDDLE_COUNTERS` says how many.

use crate::common::{Random, draw_inputs, same_outcome, variable};
use heddle_ir::{text, verify::verify};
use heddle_opt::{Edit, Stats, optimize};

fn pick<'a>(random: &mut Random, from: &[&'a str]) -> &'a str {
    from[random.below(from.len() as u64) as usize]
}

/// A loop with the counter `%c`, which an array's length may stand for.
fn random_counter(random: &mut Random) -> String {
    let dtype = pick(random, &["i64", "i64", "i64", "i32", "i8", "u8"]);
    let number = |random: &mut Random, most: u64| random.below(2 * most) as i64 - most as i64;
    let first = match random.below(5) {
        0 => "%a".to_owned(),
        1 if dtype == "i64" => "%m".to_owned(),
        _ if dtype == "u8" => random.below(9).to_string(),
        _ => number(random, 8).to_string(),
    };
    let limit = match random.below(5) {
        0 | 1 => "%n".to_owned(),
        2 if dtype == "i64" => "%m".to_owned(),
        3 => "%inner".to_owned(),
        _ if dtype == "u8" => random.below(12).to_string(),
        _ => number(random, 12).to_string(),
    };
    let step = |random: &mut Random| match random.below(4) {
        0 => format!("sub(%c, {})", 1 + random.below(3)),
        1 | 2 => "add(%c, 1)".into(),
        _ => format!("add({}, %c)", 1 + random.below(4)),
    };
    let (one, other) = (step(random), step(random));
    let moved = match random.below(7) {
        0 => format!(
            "%next: {dtype}[] = if %odd {{\n      yield {one}\n    }} else {{\n      yield {other}\n    }}"
        ),
        1 => format!("%next = select(%odd, {one}, {other})"),
        2 => format!("%next = add(cast(%odd, to={dtype}), {one})"),
        // The other arm ends the loop.
        6 => format!(
            "%next: {dtype}[] = if %odd {{\n      yield {one}\n    }} else {{\n      yield %c\n    }}"
        ),
        3 => format!("%next = max({one}, {other})"),
        4 if dtype == "i64" => "%next = gather(shape(%grown), 0, axis=0)".into(),
        _ => format!("%next = {one}"),
    };
    let grown = match moved.contains("%grown") {
        true => "concat(%o, %s, axis=0)",
        false => "neg(%o)",
    };
    let relation = pick(random, &["lt", "lt", "le", "gt", "ge", "ne"]);
    let tested = pick(random, &["%next", "%next", "%next", "%c", "add(%next, 2)"]);
    let wide = random.below(3) == 0;
    let test = |value: &str| match (wide, random.0 % 2) {
        (true, _) if dtype != "i64" => {
            format!("{relation}(cast({value}, to=i64), cast({limit}, to=i64))")
        }
        (true, 0) => format!("{relation}(cast({value}, to=f32), cast({limit}, to=f32))"),
        (true, _) => format!("not({relation}({limit}, {value}))"),
        _ => format!("{relation}({value}, {limit})"),
    };
    let (begins, goes_on) = (test(&first).replace("%inner", "%n"), test(tested));
    let begins = match random.below(3) {
        0 => "%true".to_owned(),
        _ => begins,
    };
    let goes_on = match random.below(4) {
        _ if moved.contains("yield %c") => format!("and(%odd, {goes_on})"),
        0 => format!("and(%small, {goes_on})"),
        1 => format!("and({goes_on}, lt(%i, 6))"),
        _ => goes_on,
    };
    format!(
        "fn @main(%x: f32[2], %y: f32[size], %a: {dtype}[], %n: {dtype}[]) -> (%r: f32[2], %last: {dtype}[], %out: f32[?]) {{
  %true = const true
  %m = gather(shape(%y), 0, axis=0)
  %r, %last, %out = loop %i while {begins} carry (%s: f32[2] = %x, %c: {dtype}[] = {first}, %o: f32[?] = %y) {{
    %inner = add(%n, 1)
    %sum = reduce(%s, kind=sum, axes=[0])
    %odd = lt(%sum, 0.5)
    %small = lt(%sum, 50.0)
    %grown = {grown}
    {moved}
    %more = {goes_on}
    continue while %more carry add(mul(%s, -1.25), 1.0), %next, %grown
  }}
  return %r, %last, %out
}}"
    )
}

/// A loop that compares two counters, which approach each other or not.
fn random_pair(random: &mut Random) -> String {
    let start = |random: &mut Random, given: &str| match random.below(4) {
        0 => "%m".to_owned(),
        1 => (random.below(9) as i64 - 4).to_string(),
        _ => given.to_owned(),
    };
    let (low, high) = (start(random, "%a"), start(random, "%n"));
    let step = |random: &mut Random, usual: &str, own: &str| {
        let by = random.below(3);
        match random.below(5) {
            0 => format!("sub({own}, {by})"),
            1 => format!("add({own}, {by})"),
            2 => format!("{usual}({own}, select(%odd, 1, 2))"),
            _ => format!("{usual}({own}, {})", 1 + by),
        }
    };
    let (up, down) = (step(random, "add", "%low"), step(random, "sub", "%high"));
    let relation = pick(random, &["lt", "le", "gt", "ge"]);
    let test = |low: &str, high: &str| match relation {
        "lt" | "le" => format!("{relation}({low}, {high})"),
        _ => format!("{relation}({high}, {low})"),
    };
    let begins = match random.below(4) {
        0 => "%true".to_owned(),
        _ => test(&low, &high),
    };
    let goes_on = match random.below(4) {
        0 => format!("and(%odd, {})", test("%up", "%down")),
        _ => test("%up", "%down"),
    };
    format!(
        "fn @main(%x: f32[2], %y: f32[size], %a: i64[], %n: i64[]) -> (%r: f32[2], %l: i64[], %h: i64[]) {{
  %true = const true
  %m = gather(shape(%y), 0, axis=0)
  %r, %l, %h = loop %i while {begins} carry (%s: f32[2] = %x, %low: i64[] = {low}, %high: i64[] = {high}) {{
    %odd = lt(reduce(%s, kind=sum, axes=[0]), 0.5)
    %up = {up}
    %down = {down}
    continue while {goes_on} carry add(mul(%s, -1.25), 1.0), %up, %down
  }}
  return %r, %l, %h
}}"
    )
}

#[test]
fn counters_keep_results() {
    keep_results(random_counter, 120);
}

#[test]
fn pairs_of_counters_keep_results() {
    keep_results(random_pair, 80);
}

fn keep_results(program: fn(&mut Random) -> String, usual: u64) {
    let mut random = Random(5);
    let mut all = Stats::default();
    let loops = variable("HEDDLE_COUNTERS", usual);
    for number in 0..loops {
        let source = program(&mut random);
        let before = text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
        let mut after = before.clone();
        all.merge(optimize(&mut after).total());
        let show = || format!("loop {number}\n{source}\n{}", text::print(&after));
        verify(&after).unwrap_or_else(|e| panic!("{}\n{}", e[0], show()));
        for seed in 0..8 {
            let inputs = draw_inputs(&before, seed);
            let same = same_outcome(&before, &after, &inputs);
            same.unwrap_or_else(|e| panic!("{e}\n{inputs:?}\n{}", show()));
        }
    }
    assert!(all.rejected.is_empty(), "{:?}", all.rejected);
    for edit in [Edit::ConditionCounts, Edit::ConditionBounds] {
        let (count, name) = (all.count(edit), edit.name());
        assert!(25 * count as u64 > loops, "{name}: {count}");
        println!("{count:6} {name}");
    }
}
