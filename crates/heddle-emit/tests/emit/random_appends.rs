//! Random loops that append to arrays, go back to their first elements and read them, along any of
//! their axes and with any kind of limit: compiled whole, and equal to the interpreter.
//! `HEDDLE_PROGRAMS=N` tries N of them.

use crate::harness::{Case, drawn_with};
use heddle_runtime::BuildOptions;
use heddle_runtime::cache::CacheChoice;

const END: &str = "[9223372036854775807]";

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) % n
    }

    fn of<'a>(&mut self, options: &[&'a str]) -> &'a str {
        options[self.below(options.len() as u64) as usize]
    }
}

/// The body of a loop, for its carried arrays.
#[derive(Default)]
struct Body {
    lines: Vec<String>,
    values: usize,
}

impl Body {
    fn value(&mut self, expr: String) -> String {
        self.values += 1;
        let name = format!("%v{}", self.values);
        self.lines.push(format!("    {name} = {expr}"));
        name
    }

    /// The next value of an array.
    fn next(&mut self, random: &mut Random, param: &str, rank: u64) -> String {
        let mut now = param.to_string();
        for _ in 0..1 + random.below(4) {
            let axis = random.below(rank);
            now = match random.below(12) {
                0..6 => self.append(random, param, &now, axis),
                6..9 => {
                    let end = self.end(random, &now, axis);
                    let start = if random.below(8) == 0 { 1 } else { 0 };
                    self.value(format!(
                        "slice({now}, [{start}], {end}, [1], axes=[{axis}])"
                    ))
                }
                9 => self.value(format!("mul({now}, 0.75)")),
                _ => self.write(random, param, &now, rank),
            };
        }
        now
    }

    fn append(&mut self, random: &mut Random, param: &str, now: &str, axis: u64) -> String {
        let of = if random.below(8) == 0 { param } else { now };
        let part = match random.below(3) {
            0 => format!("slice({now}, [0], [1], [1], axes=[{axis}])"),
            1 => format!("slice({now}, [-1], {END}, [1], axes=[{axis}])"),
            _ if of == param && now != param => {
                let sum = format!("reduce({param}, kind=sum, axes=[0], keep=true)");
                let sum = self.value(sum);
                let least = format!("slice({now}, [0], [1], [1], axes=[{axis}])");
                let least = self.value(least);
                // An array of unknown size may have only one element.
                let flat = self.value(format!("reshape({sum}, [-1])"));
                let first = self.value(format!("slice({flat}, [0], [1], [1], axes=[0])"));
                let first = self.value(format!("reduce({first}, kind=sum, axes=[0], keep=false)"));
                format!("add({least}, {first})")
            }
            _ => format!("reduce({now}, kind=sum, axes=[{axis}], keep=true)"),
        };
        let part = self.value(part);
        let part = match random.below(2) {
            0 => self.value(format!("tanh({part})")),
            _ => self.value(format!("mul({part}, 0.5)")),
        };
        match random.below(8) {
            0 => self.value(format!("concat({part}, {now}, axis={axis})")),
            1 => self.value(format!("concat({now}, {part}, {part}, axis={axis})")),
            _ => self.value(format!("concat({now}, {part}, axis={axis})")),
        }
    }

    /// Writes every second row, in an order that is not that of the places.
    fn write(&mut self, random: &mut Random, param: &str, now: &str, rank: u64) -> String {
        let size = self.value(format!("gather(shape({now}), 0, axis=0)"));
        let places = self.value(format!("range(0, {size}, 2)"));
        let from = match random.below(4) {
            // The array before other changes is read behind the write as well.
            0 if rank == 1 => self.value(format!("concat({param}, {now}, axis=0)")),
            _ => now.to_string(),
        };
        let last = self.value(format!("gather(shape({from}), 0, axis=0)"));
        let rows = self.value(format!("sub(sub({last}, 1), {places})"));
        let rows = self.value(format!("gather({from}, {rows}, axis=0)"));
        let rows = self.value(format!("mul({rows}, 0.5)"));
        let index = self.value(format!("unsqueeze({places}, axes=[1])"));
        let reduce = random.of(&["set", "once", "add"]);
        self.value(format!(
            "scatter_nd({now}, {index}, {rows}, reduce={reduce})"
        ))
    }

    /// The end of a slice.
    fn end(&mut self, random: &mut Random, now: &str, axis: u64) -> String {
        let size = format!("gather(shape({now}), {axis}, axis=0)");
        let number = match random.below(6) {
            0 => return "[-1]".into(),
            1 => return format!("[{}]", random.below(6)),
            2 => format!("sub({size}, {})", random.below(3)),
            3 => format!("add(%i, {})", random.below(3)),
            4 => "add(%token, 0)".to_string(),
            _ => format!("sub({}, %token)", random.below(4)),
        };
        let number = self.value(number);
        self.value(format!("reshape({number}, [1])"))
    }
}

fn program(random: &mut Random) -> String {
    let mut body = Body::default();
    let (mut carried, mut next, mut results) = (vec![], vec![], vec![]);
    for k in 0..5 {
        let rank = 1 + random.below(3);
        let ty = format!("f32[{}]", vec!["?"; rank as usize].join(","));
        carried.push(format!("%a{k}: {ty} = %x{rank}"));
        next.push(body.next(random, &format!("%a{k}"), rank));
        results.push((format!("%y{k}"), ty));
    }
    let limit = random.of(&["", "trip %m ", "trip 9 ", "trip 16000000 "]);
    let list = |of: Vec<String>| of.join(", ");
    let names: Vec<_> = results.iter().map(|r| r.0.clone()).collect();
    let types = results.iter().map(|r| format!("{}: {}", r.0, r.1));
    format!(
        "fn @main(%x1: f32[a], %x2: f32[a,b], %x3: f32[b,a,c], %k: i64[3], %o: i64[]) -> ({}) {{
  %steps = add(reduce(%k, kind=max, axes=[0], keep=false), 0)
  %m = mul(add(%o, 1), 100000000)
  {}, %left = loop %i {limit}while const true carry ({}, %rest: i64[] = %steps) {{
    %token = sub(gather(%k, sub(%i, mul(div(%i, 3), 3)), axis=0), %i)
{}
    %rest2 = sub(%rest, 1)
    continue while gt(%rest2, 0) carry {}, %rest2
  }}
  return {}
}}
",
        list(types.collect()),
        list(names.clone()),
        list(carried),
        body.lines.join("\n"),
        list(next),
        list(names),
    )
}

#[test]
fn random_appends_are_right() {
    let count = std::env::var("HEDDLE_PROGRAMS").ok();
    let count: u64 = count.and_then(|n| n.parse().ok()).unwrap_or(8);
    for seed in 1..=count {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.below(1);
        let text = program(&mut random);
        let sizes = [(); 3].map(|()| [0, 1, 2, 3, 5][random.below(5) as usize]);
        let size = |name: &str| sizes["abc".find(name).expect("a size")];
        let (module, inputs) = drawn_with("appends", &text, &size, seed);
        let case = Case::new("appends", module, &inputs);
        let case = case.unwrap_or_else(|e| panic!("{e}\n{text}"));
        let options = BuildOptions {
            cache: CacheChoice::Off,
            optimize: Some(1),
            ..Default::default()
        };
        case.check(&text, &options, &[1, 2, 5]);
    }
}
