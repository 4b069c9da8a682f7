//! uPrograms as text: what is written reads back as the same program, and text that is none ends in
//! an error.

use std::path::Path;
use std::time::{Duration, Instant};

use heddle_gen::Config;
use heddle_machine::Machine;
use heddle_schedule::schedule;
use heddle_uprogram::text::{ReadError, parse, print};
use heddle_uprogram::{UProgram, verify_program};

/// The programs of this crate's tests and of the emitter's that have a compiled form, lowered.
fn programs() -> Vec<(String, UProgram)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = [
        "heddle-schedule/tests/programs",
        "heddle-emit/tests/programs",
    ];
    let mut files: Vec<_> = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(crates.join(folder)).expect("a folder of programs"))
        .map(|entry| entry.expect("a file").path())
        .collect();
    files.sort();
    let lowered = files.into_iter().filter_map(|path| {
        let text = std::fs::read_to_string(&path).expect("a text file");
        let mut module = heddle_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        heddle_opt::optimize(&mut module);
        Some((
            path.display().to_string(),
            heddle_lower::lower(&module).ok()?,
        ))
    });
    let lowered: Vec<_> = lowered.collect();
    assert!(lowered.len() >= 25, "{}", lowered.len());
    lowered
}

/// The text of a program, which reads back as the same.
fn round_trip(what: &str, program: &UProgram) -> String {
    verify_program(program).unwrap_or_else(|e| panic!("{what}: {e}"));
    let text = print(program);
    let read = parse(&text).unwrap_or_else(|e| panic!("{what}: {e}\n{text}"));
    if let Some((a, b)) = text.lines().zip(print(&read).lines()).find(|(a, b)| a != b) {
        panic!("{what}: this line\n{a}\nbecame\n{b}");
    }
    assert_eq!(text, print(&read), "{what}");
    let candidates = |p: &UProgram| p.candidates.values().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(candidates(&read), candidates(program), "{what}");
    text
}

/// Before scheduling and after it. What is read back is scheduled alike.
fn both(what: &str, mut program: UProgram) {
    let machine = Machine::reference_host(3).with_barrier_ns(100.0);
    heddle_schedule::select_kernels(&mut program, &machine);
    let text = round_trip(what, &program);
    schedule(&mut program, &machine);
    let scheduled = round_trip(what, &program);
    let mut read = parse(&text).expect("it was read before");
    schedule(&mut read, &machine);
    let again = print(&read);
    let differ = scheduled.lines().zip(again.lines()).find(|(a, b)| a != b);
    assert_eq!(
        differ, None,
        "{what}: what is read back is scheduled otherwise"
    );
}

#[test]
fn programs_by_hand() {
    for (name, mut program) in programs() {
        round_trip(&name, &program);
        heddle_schedule::fuse(&mut program);
        both(&name, program);
    }
}

#[test]
fn candidates_read_back() {
    let text = "fn @main(%x: f32[1,4096], %w: f32[4096,16]) -> (%y: f32[1,16]) {
        %y = dot(%x, %w)
        return %y
    }";
    let module = heddle_ir::text::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let mut program = heddle_lower::lower(&module).unwrap_or_else(|e| panic!("{e}"));
    let machine = Machine::reference_host(2);
    heddle_schedule::select_kernels(&mut program, &machine);
    schedule(&mut program, &machine);
    let read = parse(&print(&program)).unwrap_or_else(|e| panic!("{e}"));
    let figures = |p: &UProgram| -> Vec<_> {
        let all = p.candidates.values().flatten();
        all.map(|c| (c.share.sides(2), c.parts, c.tasks, c.time))
            .collect()
    };
    let candidates = figures(&program);
    assert!(candidates.iter().any(|c| c.1 == 1) && candidates.iter().any(|c| c.1 > 1));
    assert_eq!(figures(&read), candidates);
}

#[test]
fn random_programs() {
    let count = std::env::var("HEDDLE_TEXT_SEEDS").ok();
    let count = count.map_or(150, |n| n.parse().expect("a number"));
    let mut lowered = 0;
    for seed in 0..count {
        let (mut module, _) = heddle_gen::generate(seed, &Config::default());
        heddle_opt::optimize(&mut module);
        let Ok(mut program) = heddle_lower::lower(&module) else {
            continue;
        };
        lowered += 1;
        round_trip(&format!("seed {seed}"), &program);
        heddle_schedule::fuse(&mut program);
        both(&format!("seed {seed}"), program);
    }
    assert!(lowered > 0, "no random program is lowered at all");
}

#[test]
fn errors_have_a_place() {
    for (text, line, message) in [
        ("main {\n  run op3\n}", 2, "not defined above"),
        ("buffer b0: f32[4] heap \"x\"", 1, "no kind of memory"),
        ("main {\n  let %x = 1\n}", 2, "not defined above"),
        (
            "local %x: i64 variable\nmain { let %x = frob(1) }",
            2,
            "no such op",
        ),
        (
            "local %x: i64 variable\nmain { let %x = 1:c64 }",
            2,
            "no number is of type c64",
        ),
        ("procedure @f {} procedure @f {}", 1, "defined twice"),
        ("main {", 1, "found the end"),
        ("main { call @g() \"\" }", 1, "no such procedure"),
    ] {
        match parse(text) {
            Err(ReadError::Text(e)) => {
                assert!(e.message.contains(message), "{text}: {e}");
                assert_eq!(e.line, line, "{text}: {e}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn programs_that_break_rules_are_refused() {
    let locals =
        "local %i: i64 axis\nlocal %j: i64 axis\nlocal %v: i64 variable\nlocal %b: bool variable\n";
    let buffers = "buffer b0: f32[4] input \"x\"\nbuffer b1: f32[4] output \"y\"\n";
    for (text, message) in [
        ("main { let %v = true }", "a value is bool, not i64"),
        ("main { let %i = 1 }", "%i has no place here"),
        ("main { let %v = %i }", "%i has no place here"),
        (
            "main { let %b = lt(1, true) }",
            "an operand is bool, not i64",
        ),
        ("main { swap b0 b1 }", "b0 has no place here"),
        (
            "operator op0 \"\" [%i < 4, %i < 4] unit 0 { b1[%i] = b0[%i] }",
            "%i is set twice",
        ),
        (
            "operator op0 \"\" [%i < 4] split %i grain 0 { b1[%i] = b0[%i] }",
            "grain is below 1",
        ),
        (
            "operator op0 \"\" [%i < 4] split %i pieces 0 { b1[%i] = b0[%i] }",
            "pieces are below 1",
        ),
        (
            "operator op0 \"\" [%i < 4, %j < 1] split %i pieces 2 x %j across 2 { b1[%i] = b0[%i] }",
            "its grid needs two whole axes",
        ),
        (
            "operator op0 \"\" [%i < 4] split %i pieces 2 { b1[%i] = b0[%i] } procedure @f { run op0 }",
            "only the main program runs operators in pieces",
        ),
        (
            "operator op0 \"\" [%i < 4] unit 0 { b1[%i] = b0[%i] } candidate parts 0 tasks 1 time 1",
            "a candidate has no parts",
        ),
        (
            "operator op0 \"\" [%i < 4] unit 0 { b0[%i] = b1[%i] }",
            "b0 has no place here",
        ),
        (
            "operator op0 \"\" [%i < 4] unit 0 { b1[%i] = 1 }",
            "what is stored is i64, not f32",
        ),
        (
            "operator op0 \"\" [] unit 0 { b1[%i] = 1.0 }",
            "%i has no place here",
        ),
        ("input \"y\" b1 [4]", "b1 has no place here"),
        (
            "buffer b2: f32[4] constant \"c\" = [1.0]: f32[1]",
            "holds 1 elements, not 4",
        ),
    ] {
        let text = format!("{locals}{buffers}{text}");
        match parse(&text) {
            Err(ReadError::Program(e)) => assert!(e.to_string().contains(message), "{text}: {e}"),
            other => panic!("{text}: {:?}", other.err()),
        }
    }
}

#[test]
fn depth_is_bounded() {
    let main = |expr: String| format!("local %v: i64 variable\nmain {{ let %v = {expr} }}");
    let around = |n: usize| main(["(".repeat(n), "1".into(), ")".repeat(n)].concat());
    parse(&around(100)).unwrap_or_else(|e| panic!("{e}"));
    for text in [
        around(100_000),
        main("neg(".repeat(100_000)),
        main(format!("%v{}", " + %v".repeat(100_000))),
        format!("main {}", "{ if true ".repeat(100_000)),
        format!(
            "operator op0 \"\" [] unit 0 {}",
            "{ chain over [] { step \"\" over [] ".repeat(10_000)
        ),
    ] {
        assert!(matches!(parse(&text), Err(ReadError::Text(_))));
    }
    let deep = main(format!("%v{}", " + %v".repeat(4_000)));
    round_trip(
        "a deep expression",
        &parse(&deep).unwrap_or_else(|e| panic!("{e}")),
    );
}

/// Text stays as long as the graph of an expression, not as its tree.
#[test]
fn shared_parts_are_written_once() {
    let mut text = String::from("local %v: i64 variable\ne0 = %v + 1\n");
    for k in 1..60 {
        text += &format!("e{k} = e{} * e{} + {k}\n", k - 1, k - 1);
    }
    text += "main {\n  let %v = e59\n}\n";
    let text = round_trip(
        "shared parts",
        &parse(&text).unwrap_or_else(|e| panic!("{e}")),
    );
    assert!(text.len() < 4000, "{text}");
}

/// A small generator of pseudo-random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// One to four changes: words exchanged, cut out, doubled, or other characters.
fn mutate(text: &str, random: &mut Random) -> String {
    let mut words: Vec<&str> = text
        .split_inclusive([' ', '[', ']', '(', ')', '\n'])
        .collect();
    for _ in 0..1 + random.below(4) {
        let (a, b) = (random.below(words.len()), random.below(words.len()));
        match random.below(5) {
            0 => words.swap(a, b),
            1 => words[a] = words[b],
            2 => drop(words.remove(a)),
            3 => words.insert(a, words[b]),
            _ => {
                words[a] =
                    ["-1 ", "{ ", "} ", "9223372036854775807 ", "%\"\" ", "e0 "][random.below(6)]
            }
        }
        if words.is_empty() {
            break;
        }
    }
    words.concat()
}

/// Mutated programs are refused with an error or are programs that go round. `HEDDLE_FUZZ_SECONDS`
/// makes it go on for so long.
#[test]
fn broken_text_ends_in_errors() {
    let seconds = std::env::var("HEDDLE_FUZZ_SECONDS").ok();
    let time = seconds.map(|s| Duration::from_secs(s.parse().expect("seconds")));
    let mut corpus = vec![];
    for (_, mut program) in programs() {
        corpus.push(print(&program));
        let machine = Machine::reference_host(2);
        heddle_schedule::fuse(&mut program);
        heddle_schedule::select_kernels(&mut program, &machine);
        schedule(&mut program, &machine);
        corpus.push(print(&program));
    }
    corpus.retain(|text| text.len() < 20_000);
    let begin = Instant::now();
    let mut read = 0;
    for seed in 1.. {
        if time.map_or(seed > 3000, |t| begin.elapsed() > t) {
            break;
        }
        let random = &mut Random(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed));
        let text = mutate(&corpus[random.below(corpus.len())], random);
        if let Ok(program) = parse(&text) {
            read += 1;
            round_trip(&format!("seed {seed}"), &program);
        }
    }
    assert!(read > 0, "each change makes a program unreadable");
}
