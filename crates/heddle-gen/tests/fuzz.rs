//! Hostile text: programs that are cut, spliced and sprinkled with tokens. The reader must not
//! panic nor take much memory, and what it accepts must print, and if the verifier accepts it too,
//! read back as itself.
//!
//! Seeded and bounded; `HEDDLE_FUZZ_SECONDS` makes it go on with further seeds for so long.
//!
//! A program of its own: its allocator counts the bytes of the whole process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use heddle_gen::{Config, generate};
use heddle_ir::text::{parse, print};
use heddle_ir::verify;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Counts allocated bytes, now and at their peak.
struct Counting;
static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all calls are handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(held, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const RUNS: u64 = 20_000;
const MAX_MEMORY: usize = 1 << 30;

#[test]
fn hostile_text() {
    let seconds = std::env::var("HEDDLE_FUZZ_SECONDS")
        .ok()
        .and_then(|s| s.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(0));
    for (name, text) in bombs() {
        PEAK.store(0, Relaxed);
        check(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let peak = PEAK.load(Relaxed);
        println!(
            "{name}: {} MiB for {} KiB of text",
            peak >> 20,
            text.len() >> 10
        );
        assert!(peak < MAX_MEMORY, "{name}: {peak} bytes");
    }
    let corpus = corpus();
    let mut seed = 0;
    let mut accepted = [0; 2];
    while seed < RUNS || Instant::now() < end {
        let text = hostile(&mut ChaCha8Rng::seed_from_u64(seed), &corpus);
        PEAK.store(0, Relaxed);
        let outcome = std::panic::catch_unwind(|| check(&text));
        let peak = PEAK.load(Relaxed);
        match outcome {
            Ok(Ok(levels)) => (0..levels).for_each(|i| accepted[i] += 1),
            Ok(Err(message)) => panic!("seed {seed}: {message}\n{}", shown(&text)),
            Err(_) => panic!("seed {seed}: panicked on\n{}", shown(&text)),
        }
        assert!(
            peak < MAX_MEMORY,
            "seed {seed}: {peak} bytes for\n{}",
            shown(&text)
        );
        seed += 1;
    }
    println!(
        "of {seed} texts {} are programs, {} of them good ones",
        accepted[0], accepted[1]
    );
    assert!(
        accepted[1] > RUNS / 100,
        "hardly any text gets past the reader"
    );
}

fn shown(text: &str) -> String {
    text.chars().take(20_000).collect()
}

/// Number of stages that the text passes: parser, verifier.
fn check(text: &str) -> Result<usize, String> {
    let module = match parse(text) {
        Err(e) => {
            assert!(!e.to_string().is_empty());
            return Ok(0);
        }
        Ok(module) => module,
    };
    let printed = print(&module);
    if verify(&module).is_err() {
        return Ok(1);
    }
    let again = parse(&printed).map_err(|e| format!("what was printed does not parse: {e}"))?;
    if let Err(errors) = verify(&again) {
        return Err(format!("what was printed is not accepted: {}", errors[0]));
    }
    match print(&again) == printed {
        true => Ok(2),
        false => Err(format!(
            "printed again it differs:\n{printed}\n{}",
            print(&again)
        )),
    }
}

/// Texts of about a megabyte each that ask for far more than they are.
fn bombs() -> Vec<(&'static str, String)> {
    let chain = |start: &str, step: &str, more: &str| {
        let mut text = format!("fn @main({start}) -> () {{\n");
        for i in 0.. {
            if text.len() > 1 << 20 {
                break;
            }
            text += &step
                .replace("##", &(i + 1).to_string())
                .replace('#', &i.to_string());
        }
        text + "return }\n" + more
    };
    let sum = (0..14)
        .map(|i| format!("n{i}*n{}*m", i + 1))
        .collect::<Vec<_>>()
        .join("+");
    let wide = vec![sum.as_str(); 60].join(",");
    let symbols = (0..60)
        .map(|i| format!("n{i}"))
        .collect::<Vec<_>>()
        .join(",");
    let many = (0..2000)
        .map(|i| format!("%r{i}: f32[]"))
        .collect::<Vec<_>>()
        .join(", ");
    let values = vec!["%x"; 2000].join(", ");
    let callee = format!("fn @f(%x: f32[]) -> ({many}) {{ return {values} }}");
    let known = format!("%s0: i64[{sum}], %q: i64[1], %a0: i64[]");
    vec![
        (
            "long sizes",
            chain(&format!("%a0: f32[{wide}]"), "%a##=neg(%a#)\n", ""),
        ),
        (
            "many axes",
            chain(&format!("%a0: f32[{symbols}]"), "%a##=neg(%a#)\n", ""),
        ),
        ("scalars", chain("%a0: f32[]", "%a##=neg(%a#)\n", "")),
        ("many results", chain("%x: f32[]", "call @f(%x)\n", &callee)),
        (
            "known values",
            chain(
                &known,
                "%b##=broadcast(gather(shape(%s0),0,axis=0),[64])\n",
                "",
            ),
        ),
        (
            "regions",
            chain("%c: bool[]", "if %c{yield}else{yield}\n", ""),
        ),
        (
            "constants",
            chain("", "%c##=const splat 1:u8[1000000]\n", ""),
        ),
        (
            "axes",
            format!(
                "fn @main(%x: f32[]) -> () {{ %y = unsqueeze(%x, axes=[{}]) return }}",
                (0..150_000)
                    .map(|i| i.to_string())
                    .collect::<Vec<_>>()
                    .join(",")
            ),
        ),
        (
            "brackets",
            format!(
                "fn @main() -> () {{ %c = const {} return }}",
                "[".repeat(1 << 20)
            ),
        ),
        ("one line", "%".repeat(1 << 20)),
        (
            "strings",
            format!(
                "fn @main() -> () {{ %c = const [{}] return }}",
                "\"\",".repeat(1 << 18)
            ),
        ),
        (
            "names",
            format!(
                "fn @main({}) -> () {{ return }}",
                (0..60_000)
                    .map(|i| format!("%a{i}: f32[]"))
                    .collect::<Vec<_>>()
                    .join(",")
            ),
        ),
        (
            "functions",
            (0..30_000)
                .map(|i| format!("fn @f{i}() -> () {{ return }}\n"))
                .collect::<String>(),
        ),
    ]
}

fn corpus() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../heddle-ir/tests/filetests");
    let entries = std::fs::read_dir(folder).expect("the folder of tests");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    let mut texts: Vec<String> = vec![];
    for file in files {
        let content = std::fs::read_to_string(file).expect("a text file");
        texts.extend(content.split("\n// ---- output\n").map(Into::into));
    }
    let small = Config {
        functions: 2,
        steps: 4,
        depth: 3,
        cost: 100,
    };
    texts.extend((0..100).map(|seed| print(&generate(seed, &small).0)));
    texts
}

/// Words that mean something, and numbers at the edges.
const WORDS: [&str; 64] = [
    "fn",
    "entry",
    "where",
    "in",
    "const",
    "splat",
    "elided",
    "file",
    "if",
    "else",
    "loop",
    "trip",
    "while",
    "carry",
    "stack",
    "continue",
    "yield",
    "return",
    "call",
    "at",
    "%x",
    "%y",
    "%0",
    "@main",
    "@f",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    ",",
    ":",
    "=",
    "?",
    "?<=",
    "..",
    "..=",
    "->",
    "*",
    "+",
    "-",
    "\"",
    "\"a\\u{0}\"",
    "//",
    "f32[",
    "seq<",
    "opt<",
    "str",
    "i4[3]",
    "floordiv(",
    "max(",
    "-1",
    "0",
    "9223372036854775807",
    "18446744073709551615",
    "9223372036854775808",
    "1e999",
    "nan",
    "0xffffffffffffffff",
    "[..]",
    "%\"\"",
];

fn hostile(rng: &mut ChaCha8Rng, corpus: &[String]) -> String {
    let pick = |rng: &mut ChaCha8Rng| &corpus[rng.random_range(0..corpus.len())];
    if rng.random_bool(0.1) {
        let count = rng.random_range(0..200);
        let words: Vec<_> = (0..count)
            .map(|_| WORDS[rng.random_range(0..WORDS.len())])
            .collect();
        return words.join([" ", ""][rng.random_range(0..2)]);
    }
    let mut text = pick(rng).clone();
    if rng.random_bool(0.5) {
        // One small change, which often leaves a program.
        match rng.random_range(0..2) {
            0 => swap_words(rng, &mut text),
            _ => change_number(rng, &mut text),
        }
        return text;
    }
    for _ in 0..rng.random_range(1..4) {
        let place = |rng: &mut ChaCha8Rng, text: &str| {
            let mut at = rng.random_range(0..=text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let (mut from, mut to) = (place(rng, &text), place(rng, &text));
        if from > to {
            (from, to) = (to, from);
        }
        match rng.random_range(0..9) {
            0 => text.truncate(to),
            1 => {
                let near = (from + rng.random_range(0..12)).min(to);
                if text.is_char_boundary(near) {
                    text.replace_range(from..near, "");
                }
            }
            2 => {
                let part = text[from..to].to_string();
                let at = place(rng, &text);
                text.insert_str(at, &part);
            }
            3 => {
                let other = pick(rng);
                let (start, at) = (place(rng, other), place(rng, &text));
                text.truncate(at);
                text.push_str(&other[start..]);
            }
            4 => {
                let many = rng.random_range(1..3000);
                text.insert_str(from, &WORDS[rng.random_range(0..WORDS.len())].repeat(many));
            }
            5 => swap_words(rng, &mut text),
            6 => change_number(rng, &mut text),
            _ => text.insert_str(from, WORDS[rng.random_range(0..WORDS.len())]),
        }
    }
    text
}

/// Puts a word of the text in the place of another of its kind.
fn swap_words(rng: &mut ChaCha8Rng, text: &mut String) {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '%' | '@');
    let words: Vec<_> = text
        .split(|c| !is_part(c))
        .filter(|w| !w.is_empty())
        .map(|w| (w.as_ptr() as usize - text.as_ptr() as usize, w))
        .collect();
    if words.is_empty() {
        return;
    }
    let (at, old) = words[rng.random_range(0..words.len())];
    let alike: Vec<_> = words
        .iter()
        .filter(|(_, w)| w.chars().next() == old.chars().next() || old.len() > 4)
        .collect();
    let new = alike[rng.random_range(0..alike.len())].1.to_string();
    let end = at + old.len();
    text.replace_range(at..end, &new);
}

/// Replaces a number by another.
fn change_number(rng: &mut ChaCha8Rng, text: &mut String) {
    let digits: Vec<_> = text
        .match_indices(|c: char| c.is_ascii_digit())
        .map(|m| m.0)
        .collect();
    if digits.is_empty() {
        return;
    }
    let at = digits[rng.random_range(0..digits.len())];
    let new = [
        "0",
        "1",
        "2",
        "3",
        "-1",
        "64",
        "65",
        "1000000",
        "4294967296",
    ];
    text.replace_range(at..at + 1, new[rng.random_range(0..new.len())]);
}
