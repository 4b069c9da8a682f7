//! Branches of which one arm passes an array on, in sequence, in each other and in loops: their results are those of the interpreter,
//! whichever arms are taken.

use crate::harness::{Outcome, check, drawn, run_text};

/// Places of the map, channels and images; sizes that fill no vector among them.
const MAPS: [([usize; 2], usize, &str); 4] = [
    ([7, 5], 16, "n"),
    ([1, 1], 4, "1"),
    ([9, 13], 17, "1"),
    ([8, 8], 32, "n"),
];

/// A residual block, with a name before its values' and the map that it reads.
fn block(name: &str, map: &str) -> String {
    let conv = |to: &str, from: &str| {
        format!(
            "%{name}{to} = conv(%{from}, %w, [1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1)\n"
        )
    };
    let (first, second) = (conv("a", map), conv("c", &format!("{name}b")));
    format!(
        "{first} %{name}b = max(%{name}a, 0.0)\n {second} %{name}d = add(%{name}c, %{map})\n %{name}e = max(%{name}d, -2.0)\n"
    )
}

/// Blocks in sequence, one in the arm of another, one in a loop, and one whose map is read once more.
fn program([high, wide]: [usize; 2], channels: usize, images: &str) -> String {
    let ty = format!("f32[{images},{channels},{high},{wide}]");
    let gated = |result: &str, flag: &str, name: &str, map: &str| {
        let block = block(name, map);
        format!(
            "%{result} = if %{flag} {{\n {block} yield %{name}e\n }} else {{\n yield %{map}\n }}\n"
        )
    };
    format!(
        "fn @main(%x: {ty}, %f: bool[3], %trips: i64[]) -> (%y: {ty}) {{
%w = const splat 0.03125: f32[{channels},{channels},3,3]
%k0 = const 0: i64[]
%k1 = const 1: i64[]
%k2 = const 2: i64[]
%f0 = gather(%f, %k0, axis=0)
%f1 = gather(%f, %k1, axis=0)
%f2 = gather(%f, %k2, axis=0)
%t = mod(%trips, 4)
%s = tanh(%x)
{}{}%r = if %f2 {{
{}{}yield %ve
}} else {{
yield %q
}}
%l = loop %i trip %t carry (%m: {ty} = %r) {{
%at = mod(%i, 3)
%g = gather(%f, %at, axis=0)
{}continue carry %n
}}
{}%y = add(%o, %l)
return %y
}}\n",
        gated("p", "f0", "pp", "s"),
        gated("q", "f1", "qq", "p"),
        gated("u", "f0", "uu", "q"),
        block("v", "u"),
        gated("n", "g", "nn", "m"),
        gated("o", "f1", "oo", "l"),
    )
}

#[test]
fn each_arm_gives_the_interpreters_results() {
    for (k, (sizes, channels, images)) in MAPS.into_iter().enumerate() {
        let text = program(sizes, channels, images);
        for seed in 0..3 {
            let name = format!("arms {k}, {seed}");
            for size in [1, 3] {
                let (module, inputs) = drawn(&name, &text, size, seed);
                let outcome = check(&name, module, &inputs, 1 + seed as usize % 2);
                assert!(matches!(outcome, Outcome::Equal), "{name} is compiled");
            }
        }
    }
}

/// An arm that changes some elements of what the other one passes on, and an arm whose result depends on whole rows.
const PARTS: &str = "
fn @main(%x: f32[n,33], %f: bool[3]) -> (%y: f32[n,33]) {
  %k0 = const 0: i64[]
  %ww = const splat 0.1: f32[33,33]
  %h = dot(%x, %ww)
  %k1 = const 1: i64[]
  %f0 = gather(%f, %k0, axis=0)
  %f1 = gather(%f, %k1, axis=0)
  %a = if %f0 {
    %u = const [[5.0, 6.0]]: f32[1,2]
    %s = update_slice(%h, %u, [0, 7])
    yield %s
  } else {
    yield %h
  }
  %b = if %f1 {
    yield %a
  } else {
    %t = tanh(%a)
    %v = reduce(%t, kind=sum, axes=[1], keep=true)
    yield add(%t, %v)
  }
  %y = mul(%b, 2.0)
  return %y
}
";

#[test]
fn parts_of_arrays() {
    for seed in 0..4 {
        run_text(
            "parts of arrays in arms",
            PARTS,
            1 + seed as usize % 2,
            seed,
        );
    }
}
