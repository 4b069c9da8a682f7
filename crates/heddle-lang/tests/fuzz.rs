//! Mutated programs are refused with an error or satisfy the verifier. `HEDDLE_FUZZ_SECONDS` makes
//! it go on for so long.

mod common;

use std::time::{Duration, Instant};

use common::{Random, model};

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
param w: f32[4];
vertex cell(x: f32[2]) -> (f32[2], f32) {
  let kids = gather();
  let s = fold(fn(s, k) s + k.0, x, kids);
  scatter((s, gather(0).1));
  push(s * 10)
}
fn over(t, f, g) { match t { Leaf(x) => f(x), Node(a, b) => g(over(a, f, g), over(b, f, g)) } }
fn halve(x: f32, n: i64) { if x > 1 { halve(x / 2, n + 1) } else { (x, n) } }
fn take(x, least) { match x { Nil => Nil, Cons(e, rest) => if e > least { Cons(e, take(rest, e)) } else { Nil } } }
fn sums(x, s) { match x { Nil => Nil, Cons(e, rest) => { let s = s + e; Cons(s, sums(rest, s)) } } }
fn count(r: Rose) -> i64 { match r { Twig => 0, Branch(_, rest) => 1 + count(rest) } }
fn main(t: Tree, r: Rose[m], g: graph, x: list<f32[2]>, y: list<f32>, k: f32[]) -> (i64, list<f32[2]>, list<f32>, f32) {
  let (a, b) = halve(k, 0);
  let z = zip(reverse(y), take(y[1..], 0.5));
  (count(r) + b, pull(cell, g, x), sums(map(fn(p) p.0 * p.1 + w[0], z), 0.0), over(t, fn(x) x * k, add))
}
";

#[test]
fn broken_text_ends_in_errors() {
    let seconds = std::env::var("HEDDLE_FUZZ_SECONDS").ok();
    let time = seconds.map(|s| Duration::from_secs(s.parse().expect("seconds")));
    let files = ["treelstm.hl", "rnn.hl", "drnn.hl", "stackrnn.hl"];
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
        let text = mutate(&corpus[random.below(corpus.len())], random);
        if let Ok(program) = heddle_lang::compile(&text) {
            read += 1;
            if let Err(errors) = heddle_ir::verify(&program.module) {
                panic!("seed {seed}: {errors:#?}\n{text}");
            }
        }
    }
    assert!(read > 0, "each change makes a program unreadable");
}
