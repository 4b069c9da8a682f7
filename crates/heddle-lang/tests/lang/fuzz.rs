//! Mutated programs are refused with an error or satisfy the verifier. `HEDDLE_FUZZ_SECONDS` makes
//! it go on for so long.

use std::time::{Duration, Instant};

use crate::common::{Random, model};

/// Up to eight characters exchanged, of any kind.
fn garbled(text: &str, random: &mut Random) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..1 + random.below(8) {
        let at = random.below(chars.len());
        let new = [
            '\0', 'é', '😀', '\u{202e}', '"', '(', '}', '9', '.', '\n', '|', '<', '\u{feff}',
        ];
        match random.below(3) {
            0 => chars[at] = new[random.below(new.len())],
            1 => chars.insert(at, new[random.below(new.len())]),
            _ => drop(chars.remove(at)),
        }
        if chars.is_empty() {
            break;
        }
    }
    chars.into_iter().collect()
}

/// One to four changes: words exchanged, cut out, doubled, or other characters.
fn mutate(text: &str, random: &mut Random) -> String {
    let mut words: Vec<&str> = text
        .split_inclusive([' ', '[', ']', '(', ')', '{', '}', ',', '\n'])
        .collect();
    for _ in 0..1 + random.below(4) {
        let (a, b) = (random.below(words.len()), random.below(words.len()));
        match random.below(5) {
            0 => words.swap(a, b),
            1 => words[a] = words[b],
            2 => drop(words.remove(a)),
            3 => words.insert(a, words[b]),
            _ => {
                words[a] = [
                    "-1 ",
                    "{ ",
                    "} ",
                    "9223372036854775807 ",
                    "Nil ",
                    "0.5e400 ",
                    "f32[?] ",
                    "é",
                    "(x, x) ",
                    "[] ",
                    "list<f32> ",
                    "[1, 2] ",
                    "fn(x) x ",
                    "x",
                    "map",
                    "reverse",
                ][random.below(16)]
            }
        }
        if words.is_empty() {
            break;
        }
    }
    words.concat()
}

const SMALL: &str = "
type Tree = Leaf(f32) | Node(Tree, Tree)
type Rose = Twig | Branch(Tree, Rose)
type Bag = Empty | Some(list<f32>, Bag)
table Nodes(left: i64, right: i64, v: f32) -> Tree { if left < 0 && right < 0 { Leaf(v) } else { Node(left, right - 1) } }
param w: f32[4];
vertex cell(x: f32[2]) -> (f32[2], f32) {
  let kids = gather();
  let s = fold(fn(s, k) s + k.0, x, kids);
  scatter((s, gather(0).1));
  push(s * 10)
}
vertex inner(x: f32) -> f32 {
  let s = fold(fn(s, k) s + gather(k), x, [0, 1]);
  scatter(if s > 1 { gather(0) } else { fold(max, s, gather()) });
  push(s)
}
fn over(t, f, g) { match t { Leaf(x) => f(x), Node(a, b) => g(over(a, f, g), over(b, f, g)) } }
fn halve(x: f32, n: i64) { if x > 1 { halve(x / 2, n + 1) } else { (x, n) } }
fn take(x, least) { match x { Nil => Nil, Cons(e, rest) => if e > least { Cons(e, take(rest, e)) } else { Nil } } }
fn sums(x, s) { match x { Nil => Nil, Cons(e, rest) => { let s = s + e; Cons(s, sums(rest, s)) } } }
fn count(r: Rose) -> i64 { match r { Twig => 0, Branch(_, rest) => 1 + count(rest) } }
fn grow(t, n: i64) { if n == 0 { t } else { grow(Node(Leaf(0.5), t), n - 1) } }
fn leaves(x) { fold(fn(ts, v) append(ts, Node(Leaf(v), ts[-1])), [Leaf(0.5)], x) }
fn double(b) { match b { Empty => Empty, Some(x, rest) => Some(map(fn(x) x * 2, append(x, 1)), double(rest)) } }
fn main(t: Tree, u: Nodes, r: Rose[m], b: Bag, g: graph, x: list<f32[2]>, y: list<f32>, z: list<list<f32>>, k: f32[])
    -> (i64, list<f32[2]>, list<f32>, list<f32>, f32, Tree, Bag, list<list<f32>>, Tree, list<Tree>) {
  let (a, n) = halve(k, 0);
  let p = zip(reverse(y), take(y[1..], 0.5));
  (count(r) + n, pull(cell, g, x), pull(inner, g, y), sums(map(fn(p) p.0 * p.1 + w[0], p), 0.0), over(t, fn(x) x * k, add),
    over(u, fn(x) Leaf(x + 1), Node), double(b), reverse(map(fn(x) append(x, k), z)), grow(t, n), append(reverse(leaves(y)), t))
}
";

#[test]
fn broken_text_ends_in_errors() {
    let seconds = std::env::var("HEDDLE_FUZZ_SECONDS").ok();
    let time = seconds.map(|s| Duration::from_secs(s.parse().expect("seconds")));
    let files = [
        "treelstm.hl",
        "treelstm_vertex.hl",
        "inner_vertex.hl",
        "rnn.hl",
        "drnn.hl",
        "stackrnn.hl",
    ];
    let mut corpus: Vec<String> = files.map(model).into();
    corpus.extend(vec![SMALL.to_string(); 4]);
    heddle_lang::compile(SMALL).unwrap_or_else(|error| panic!("{error}"));
    let begin = Instant::now();
    let mut read = 0;
    for seed in 1.. {
        if time.map_or(seed > 3000, |t| begin.elapsed() > t) {
            break;
        }
        let random = &mut Random(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed));
        let text = &corpus[random.below(corpus.len())];
        let text = match random.below(4) {
            0 => garbled(text, random),
            _ => mutate(text, random),
        };
        if let Ok(program) = heddle_lang::compile(&text) {
            read += 1;
            if let Err(errors) = heddle_ir::verify(&program.module) {
                panic!("seed {seed}: {errors:#?}\n{text}");
            }
        }
    }
    assert!(read > 0, "each change makes a program unreadable");
}

/// Begin, opening, middle, closing and end of a text; the middle stands in many openings and closings.
const NESTED: &[(&str, &str, &str, &str, &str)] = &[
    ("fn main(x: f32) { ", "(", "x", ")", " }"),
    ("fn main(x: f32) { ", "[", "x", "]", " }"),
    ("fn main(x: f32) { ", "[", "1", "]", " }"),
    ("fn main(x: f32) { ", "-", "x", "", " }"),
    ("fn main(x: f32) { ", "- - ", "1", "", " }"),
    ("fn main(x: f32) { ", "relu(", "x", ")", " }"),
    ("fn main(x: f32) { ", "{ let y = x; ", "x", "}", " }"),
    (
        "fn main(x: f32) { ",
        "if x > 0 { ",
        "x",
        "} else { x }",
        " }",
    ),
    ("fn main(x: f32) { ", "match x { _ => ", "x", "}", " }"),
    ("fn main(x: f32) { ", "fn(y) ", "x", "", " }"),
    ("fn main(x: f32) { x", "", "", " + x", " }"),
    ("fn main(x: f32) { x", "", "", ".0", " }"),
    ("fn main(x: f32[2]) { x", "", "", "[0]", " }"),
    ("fn main(x: bool) { x", "", "", " && x", " }"),
    ("fn main(x: f32) { ", "(x, ", "x", ")", " }"),
    ("fn main(x: ", "list<", "f32", ">", ") { x }"),
    ("fn main(x: ", "(", "f32", ",)", ") { x }"),
    ("fn main(x: f32[n", "", "", "+n", "]) { x }"),
    ("fn main(x: f32[n", "", "", "*n", "]) { x }"),
    ("fn main(x: f32[n", "", "", ",n", "]) { x }"),
    (
        "fn main(x: list<f32>) { match x { ",
        "Cons(",
        "_",
        ", _)",
        " => 1, _ => 2 } }",
    ),
    (
        "type T = L | N(T) fn main(t: T) { match t { ",
        "N(",
        "_",
        ")",
        " => t, L => t } }",
    ),
    ("type T = L | N(T) fn main(x: i64) { ", "N(", "L", ")", " }"),
    (
        "type T = L | N(T, T) fn main(x: i64) { let a = L; ",
        "let a = N(a, a); ",
        "a",
        "",
        " }",
    ),
    (
        "fn main(x: f32) { let a = x; ",
        "let a = (a, a); ",
        "a",
        "",
        " }",
    ),
    (
        "fn main(x: f32) { let a = x; ",
        "let a = [a, a]; ",
        "a",
        "",
        " }",
    ),
    ("type T = A0", " | A", "", "", " fn main(t: T) { t }"),
    (
        "type T = A(f32) ",
        "| B(f32",
        "",
        ")",
        " fn main(t: T) { t }",
    ),
    (
        "type T = A(i64) | B(T) table R(x: i64) -> T { ",
        "if x > 0 { A(x) } else { ",
        "B(x)",
        "}",
        " } fn main(t: R) { t }",
    ),
    (
        "type T = A(i64) | B(T) table R(x: i64) -> T { if ",
        "!(",
        "x > 0",
        ")",
        " { A(x) } else { B(x) } } fn main(t: R) { t }",
    ),
    ("fn main(x: f32) { ", "1", "", "", " }"),
    ("fn main(x: f32) { 0.", "0", "", "", " }"),
    ("fn main(x: f32) { x + 1e", "9", "", "", " }"),
    (
        "fn main(x: i64) { match x { ",
        "9",
        "",
        "",
        " => 1, _ => 2 } }",
    ),
    ("fn main(x: f32[", "9", "", "", "]) { x }"),
    ("fn main(x: (f32, f32)) { x.", "9", "", "", " }"),
    ("", "// é\n", "fn main(x: f32) { x }", "\n", ""),
    ("fn main(", "é", "", "", ") { 1 }"),
    ("fn main(", "a", "", "", ": f32) { 1 }"),
    ("", "/", "", "", ""),
    ("\"", "", "", "", ""),
    (
        "fn f(x) { f([x]) }",
        "",
        "",
        "",
        " fn main(x: f32) { f(x) }",
    ),
    (
        "fn f(x) { (f([x]), 1).1 }",
        "",
        "",
        "",
        " fn main(x: f32) { f(x) }",
    ),
    (
        "type T = L | N(T) fn f(x) { match x { L => f(N(x)), N(_) => f(N(N(x))) } }",
        "",
        "",
        "",
        " fn main(t: T) { f(t) }",
    ),
    (
        "type T = L | N(T) fn f(x) { match f(N(x)) { L => 1, N(_) => 2 } }",
        "",
        "",
        "",
        " fn main(t: T) { f(t) }",
    ),
];

#[test]
fn extremes_end_in_errors() {
    for (k, (begin, open, middle, close, end)) in NESTED.iter().enumerate() {
        for count in [1, 60, 250, 300, 20_000] {
            // Each of so many bindings looks through those before.
            if count > 1000 && open.starts_with("let") {
                continue;
            }
            let (open, close) = (open.repeat(count), close.repeat(count));
            let text = [*begin, &open, middle, &close, end].concat();
            if let Ok(program) = heddle_lang::compile(&text)
                && let Err(errors) = heddle_ir::verify(&program.module)
            {
                panic!("{k}, {count}: {errors:#?}");
            }
        }
    }
}
