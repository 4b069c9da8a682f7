//! Programs on text, compiled as bytes, offsets and numbers, give what the interpreter gives.

use heddle::{
    ArrayView, CompileOptions, DType, Device, Error, Inputs, Model, OpenOptions, Outputs, Program,
    RunOptions, Tensor, Value, compile,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Strings of all kinds: empty, of several bytes a character, with white space of one, two and three
/// bytes at either end and within.
const STRINGS: &[&str] = &[
    "",
    "a",
    "é",
    " ",
    "a b",
    "  a\tb\n\nc  ",
    "\u{a0}wide\u{3000}spaces\u{2003}\u{85}",
    "a, b, c",
    ", ",
    ",,, ,",
    "aaaaa",
    "aa baaa",
    "日本, 語",
    "\u{1680}é\u{205f}é\u{2028}",
    "é\u{301}éé",
    "c\u{2}\u{200b}c",
    "a longer string, of several words  and clauses, all in one",
];

/// The interpreter, and the processor with one thread and with two.
struct Programs {
    interpreted: Program,
    compiled: [Program; 2],
}

impl Programs {
    /// A program in text form, all of which has a compiled form.
    fn of(text: &str) -> Programs {
        let model = Model::parse("m", text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let program = |device, threads| {
            let options = CompileOptions {
                device,
                threads: Some(threads),
                verify: true,
                check_text: true,
                ..Default::default()
            };
            compile(&model, &options).unwrap_or_else(|e| panic!("{e}\n{text}"))
        };
        let compiled = [1, 2].map(|threads| program(Device::Cpu, threads));
        for program in &compiled {
            assert_eq!(program.report().interpreted, None, "{text}");
        }
        Programs {
            interpreted: program(Device::Interp, 1),
            compiled,
        }
    }

    /// Runs all on the same inputs; the results of the interpreter.
    fn agree(&self, inputs: &[(&str, Value)]) -> Outputs {
        let inputs = named(inputs);
        let run = |p: &Program| p.run(inputs.clone(), &RunOptions::default());
        let want = run(&self.interpreted).unwrap_or_else(|e| panic!("{e}: {inputs:?}"));
        for program in &self.compiled {
            let got = run(program).unwrap_or_else(|e| panic!("{e}: {inputs:?}"));
            assert_eq!(got.report.interpreted, None);
            assert_eq!(got.outputs, want.outputs, "{inputs:?}");
        }
        want.outputs
    }

    /// None takes these inputs.
    fn fail(&self, inputs: &[(&str, Value)]) {
        for program in self.compiled.iter().chain([&self.interpreted]) {
            let run = program.run(named(inputs), &RunOptions::default());
            assert!(run.is_err(), "{inputs:?}");
        }
    }
}

fn named(inputs: &[(&str, Value)]) -> Inputs {
    let inputs = inputs.iter();
    let inputs = inputs.map(|(name, value)| (name.to_string(), value.clone()));
    inputs.collect()
}

fn strings(shape: &[usize], strings: &[&str]) -> Value {
    let strings = strings.iter().map(|s| (*s).into()).collect();
    Tensor::strings(shape.to_vec(), strings).unwrap().into()
}

fn scalar(value: i64) -> Value {
    Tensor::scalar(value).into()
}

fn places(shape: &[usize], values: &[i64]) -> Value {
    Tensor::from_slice(shape.to_vec(), values).into()
}

fn truths(shape: &[usize], values: &[bool]) -> Value {
    let bytes = values.iter().map(|&v| v.into()).collect();
    let tensor = Tensor::new(DType::Bool, shape.to_vec(), bytes);
    tensor.unwrap().into()
}

#[test]
fn text_goes_in_and_out() {
    let text = "fn @main(%x: str[n,m], %y: str[], %z: f32[k]) -> (%a: str[n,m], %b: f32[k], %c: str[], %d: str[2]) {
  return %x, neg(%z), %y, const [\"\", \"é\"]: str[2]
}
";
    let programs = Programs::of(text);
    let z = Value::from(Tensor::vector(&[1f32, 2.0]));
    for (shape, all) in [
        (vec![1, STRINGS.len()], STRINGS),
        (vec![2, 2], &["", "", "", ""]),
        (vec![0, 3], &[]),
        (vec![0, 0], &[]),
    ] {
        let x = strings(&shape, all);
        let inputs = [
            ("x", x.clone()),
            ("y", strings(&[], &["é"])),
            ("z", z.clone()),
        ];
        let outputs = programs.agree(&inputs);
        assert_eq!(outputs["a"], x);
    }
}

#[test]
fn split() {
    let pieces = "\
fn @main(%x: str[n]) -> (%p: str[n,?], %c: i64[n]) {
  %p, %c = str_split(%x)
  return %p, %c
}
";
    for operands in [
        "",
        ", max_splits=0",
        ", max_splits=2",
        ", delimiter=\",\", max_splits=0",
        ", delimiter=\", \"",
        ", delimiter=\"aa\"",
        ", delimiter=\"aa\", max_splits=1",
        ", delimiter=\"é\", max_splits=18446744073709551615",
        ", delimiter=\"日本, 語\"",
    ] {
        let programs = Programs::of(&pieces.replace("(%x)", &format!("(%x{operands})")));
        programs.agree(&[("x", strings(&[STRINGS.len()], STRINGS))]);
        programs.agree(&[("x", strings(&[2], &["", " "]))]);
        programs.agree(&[("x", strings(&[0], &[]))]);
    }
}

#[test]
fn split_of_arrays() {
    let text = "\
fn @main(%x: str[n,2], %y: str[]) -> (%p: str[n,2,?], %c: i64[n,2], %q: str[?], %d: i64[]) {
  %p, %c = str_split(%x, delimiter=\"a\")
  %q, %d = str_split(%y)
  return %p, %c, %q, %d
}
";
    let programs = Programs::of(text);
    for (n, all) in [(8, &STRINGS[..16]), (1, &["", ""]), (0, &[])] {
        for y in ["", " a  b", "abc"] {
            programs.agree(&[("x", strings(&[n, 2], all)), ("y", strings(&[], &[y]))]);
        }
    }
}

#[test]
fn concatenation_and_comparison_broadcast() {
    let text = "\
fn @main(%x: str[n,1], %y: str[m], %z: str[]) -> (%a: str[n,m], %b: bool[n,m], %c: bool[n,1], %d: str[m], %e: bool[m]) {
  %d = str_concat(%z, str_concat(%y, %y))
  return str_concat(%x, %y), eq(%x, %y), ne(%x, %z), %d, eq(%d, \"aa\")
}
";
    let programs = Programs::of(text);
    let all = [
        (STRINGS, STRINGS),
        (&["", "a"][..], &["a"][..]),
        (&[""], &[""]),
        (&[], STRINGS),
        (STRINGS, &[]),
        (&[], &[]),
    ];
    for (x, y) in all {
        for z in ["", "é", "a"] {
            programs.agree(&[
                ("x", strings(&[x.len(), 1], x)),
                ("y", strings(&[y.len()], y)),
                ("z", strings(&[], &[z])),
            ]);
        }
    }
    // Sizes that do not broadcast.
    let text = "fn @main(%x: str[?], %y: str[?]) -> (%a: str[?]) { return str_concat(%x, %y) }";
    let programs = Programs::of(text);
    let (x, y) = (strings(&[3], &STRINGS[..3]), strings(&[2], &STRINGS[3..5]));
    programs.agree(&[("x", x.clone()), ("y", strings(&[1], &["é"]))]);
    programs.fail(&[("x", x), ("y", y)]);
}

#[test]
fn moves() {
    let text = "\
fn @main(%x: str[2,3], %i: i64[k], %c: bool[3,1], %y: str[1,2]) -> (%a: str[3,2], %b: str[2,k], %d: str[?], %e: str[3,2], %f: str[2,?], %g: str[2,3], %h: str[2,3], %j: str[2], %o: str[2,3], %p: str[2,4], %r: str[2,3], %q: i64[2]) {
  %a = transpose(%x, perm=[1,0])
  %b = gather(%x, %i, axis=1)
  %d = reshape(slice(%x, [-1], [-3], [-1], axes=[0]), [-1])
  %e = select(%c, %a, broadcast(%y, [1,2]))
  %f = concat(%x, %b, %x, axis=1)
  %g = update_slice(%x, %y, [1,1])
  %h = scatter_elements(%x, [[2],[0]], const [[\"\"],[\"new\"]]: str[2,1], axis=1, reduce=set)
  %j = squeeze(unsqueeze(gather_nd(%x, [[0,2],[1,-1]], batch_dims=0), axes=[1]), axes=[1])
  %o = gather_elements(%x, [[2,2,0],[0,-1,1]], axis=1)
  %p = pad(%x, [0,0,0,1], \"pad\")
  %r = scatter_nd(%x, [[1]], broadcast(\"row\", [1,3]), reduce=set)
  return %a, %b, %d, %e, %f, %g, %h, %j, %o, %p, %r, shape(%x)
}
";
    let programs = Programs::of(text);
    let c = truths(&[3, 1], &[true, false, true]);
    let inputs = |x: &[&str], i: &[i64]| {
        [
            ("x", strings(&[2, 3], x)),
            ("i", places(&[i.len()], i)),
            ("c", c.clone()),
            ("y", strings(&[1, 2], &["é", ""])),
        ]
    };
    programs.agree(&inputs(&STRINGS[..6], &[2, -1, 0, 0]));
    programs.agree(&inputs(&STRINGS[6..12], &[]));
    programs.agree(&inputs(&[""; 6], &[1]));
    programs.fail(&inputs(&STRINGS[..6], &[3]));
}

#[test]
fn branches_loops_and_calls() {
    // `%s` and `%t` go around with lists of their own and of each other; `%u` grows by an element.
    let text = "\
fn @main(%x: str[n], %y: str[n], %k: i64[], %c: bool[]) -> (%s: str[n], %t: str[n], %u: str[?], %v: str[n], %w: str[?]) {
  %first = slice(%x, [0], [1], [1], axes=[0])
  %s, %t, %u = loop %i trip %k carry (%s: str[n] = %x, %t: str[n] = %y, %u: str[?] = %first) {
    %odd = eq(mod(%i, 2), 1)
    %longer = if %odd {
      yield str_concat(%s, \",\")
    } else {
      yield %t
    }
    %mask = ne(%longer, %y)
    %next = select(%mask, %longer, select(%odd, %s, %t))
    continue carry %next, %s, concat(%u, slice(%next, [0], [1], [1], axes=[0]), axis=0)
  }
  %v = if %c {
    yield %s
  } else {
    yield broadcast(\"é\", shape(%x))
  }
  %w = call @ends(%x)
  return %s, %t, %u, %v, %w
}

fn @ends(%x: str[n]) -> (%y: str[?]) {
  %first, %last = call @halves(%x)
  return str_concat(%first, %last)
}

fn @halves(%x: str[n]) -> (%y: str[?], %z: str[?]) {
  return slice(%x, [0], [1], [1], axes=[0]), slice(%x, [-1], [9], [1], axes=[0])
}
";
    let programs = Programs::of(text);
    let (x, y) = (&STRINGS[1..6], &STRINGS[6..11]);
    for n in [0, 1, 5] {
        for k in [0, 1, 7] {
            programs.agree(&[
                ("x", strings(&[n], &x[..n])),
                ("y", strings(&[n], &y[..n])),
                ("k", scalar(k)),
                ("c", truths(&[], &[k > 0])),
            ]);
        }
    }
}

#[test]
fn recursions_with_text() {
    // They are not compiled as a whole.
    let text = "\
fn @main(%x: str[n]) -> (%y: str[]) {
  return call @joined(%x, shape(%x))
}

fn @joined(%x: str[n], %k: i64[1]) -> (%y: str[]) {
  %last = sub(gather(%k, 0, axis=0), 1)
  %y = if lt(%last, 0) {
    yield const \"\"
  } else {
    %rest = call @joined(%x, sub(%k, 1))
    yield str_concat(%rest, gather(%x, %last, axis=0))
  }
  return %y
}
";
    let model = Model::parse("m", text).unwrap_or_else(|e| panic!("{e}"));
    let program = compile(&model, &CompileOptions::default()).unwrap();
    for n in [0, 1, STRINGS.len()] {
        let inputs = named(&[("x", strings(&[n], &STRINGS[..n]))]);
        let run = program.run(inputs, &RunOptions::default()).unwrap();
        assert_eq!(run.outputs["y"], strings(&[], &[&STRINGS[..n].concat()]));
    }
}

#[test]
fn lists_do_not_grow_beyond_their_elements() {
    // If a selection kept the lists of both its operands, 200 iterations would double one each time.
    let text = "\
fn @main(%x: str[n], %c: bool[n], %k: i64[]) -> (%y: str[n]) {
  %y = loop %i trip %k carry (%t: str[n] = %x) {
    %s = select(%c, %t, %x)
    continue carry select(%c, %s, %t)
  }
  return %y
}
";
    let c = truths(&[3], &[true, false, true]);
    let x = strings(&[3], &STRINGS[4..7]);
    Programs::of(text).agree(&[("x", x), ("c", c), ("k", scalar(200))]);
}

#[test]
fn labels() {
    // As an encoder of labels finds them, and none of them.
    let text = "\
fn @main(%x: str[n]) -> (%y: i64[n], %z: str[n]) {
  %keys = const [\"a\", \"é\", \"a b\"]: str[3]
  %same = eq(unsqueeze(%x, axes=[1]), %keys)
  %place = arg_reduce(cast(%same, to=i32), kind=max, axis=1, keep=false, last=false)
  %found = reduce(%same, kind=max, axes=[1], keep=false)
  %y = select(%found, gather([7, 8, 9], %place, axis=0), -1)
  %z = select(%found, gather(const [\"\", \"x\", \"é\"]: str[3], %place, axis=0), \"none\")
  return %y, %z
}
";
    let programs = Programs::of(text);
    let outputs = programs.agree(&[("x", strings(&[STRINGS.len()], STRINGS))]);
    let found = outputs["y"].as_tensor().unwrap().to_i64s().unwrap();
    assert_eq!(found[..5], [-1, 7, 8, -1, 9]);
    programs.agree(&[("x", strings(&[0], &[]))]);
}

#[test]
fn text_beside_sequences_and_optionals() {
    let text = "\
fn @main(%a: opt<f32[n]>, %s: str[n], %l: seq<f32[?]>, %t: str[]) -> (%x: seq<f32[?]>, %y: str[n], %z: opt<f32[n]>, %e: seq<f32[2]>, %w: str[]) {
  %x = seq_insert(%l, [1.0, 2.0], 0)
  %e = seq_new([1.0, 2.0], [3.0, 4.0], elem=f32[2])
  return %x, str_concat(%s, %t), %a, %e, %t
}
";
    let programs = Programs::of(text);
    for n in [0, 2] {
        let x = Value::from(Tensor::vector(&vec![0.5f32; n]));
        let optional = Value::Opt(Some(Box::new(x.clone())));
        for a in [optional, Value::Opt(None)] {
            programs.agree(&[
                ("a", a),
                ("s", strings(&[n], &STRINGS[2..2 + n])),
                ("l", Value::Seq(vec![x.clone()])),
                ("t", strings(&[], &["é"])),
            ]);
        }
    }
}

const EXCLAIM: &str = "fn @main(%x: str[n]) -> (%y: str[n]) { return str_concat(%x, \"!\") }";

#[test]
fn saved_programs_take_text() {
    let programs = Programs::of(EXCLAIM);
    let inputs = [("x", strings(&[3], &STRINGS[1..4]))];
    let want = programs.agree(&inputs);
    for program in programs.compiled {
        let bytes = program.to_bytes().unwrap();
        let opened = Program::from_bytes("p", bytes, &OpenOptions::default()).unwrap();
        assert_eq!(opened.report().interpreted, None);
        let run = opened.run(named(&inputs), &RunOptions::default()).unwrap();
        assert_eq!(run.outputs, want);
    }
}

#[test]
fn text_has_no_memory_of_the_caller() {
    let programs = Programs::of(EXCLAIM);
    let (dims, data) = ([1], [0u8; 16]);
    for program in &programs.compiled {
        let mut session = program.session(&RunOptions::default());
        let input = ArrayView {
            dtype: DType::Str,
            dims: &dims,
            data: &data,
        };
        let mut output = [0u8; 16];
        let run = session.run_into(&[input], &mut [&mut output]);
        assert!(matches!(run, Err(Error::Memory(_))), "{run:?}");
    }
}

/// A string of pieces, so that delimiters and white space meet in all ways.
fn drawn(random: &mut ChaCha8Rng) -> String {
    const PIECES: &[&str] = &["a", "aa", "ab", " ", ",", "\u{3000}", "\u{85}", "é", "日"];
    let count = random.random_range(0..8);
    let pieces = (0..count).map(|_| PIECES[random.random_range(0..PIECES.len())]);
    pieces.collect()
}

#[test]
fn random_strings() {
    let text = "\
fn @main(%x: str[n,1], %y: str[m], %i: i64[n]) -> (%a: str[n,m], %b: bool[n,m], %c: bool[n,m], %d: str[n,1,?], %e: i64[n,1], %f: str[m,?], %g: i64[m], %h: str[n,m,?], %j: i64[n,m]) {
  %a = str_concat(%x, %y)
  %d, %e = str_split(%x)
  %f, %g = str_split(%y, max_splits=1)
  %h, %j = str_split(gather(%a, %i, axis=0), delimiter=\"aa\", max_splits=2)
  return %a, eq(%x, %y), ne(%a, gather(%a, %i, axis=0)), %d, %e, %f, %g, %h, %j
}
";
    let programs = Programs::of(text);
    let mut random = ChaCha8Rng::seed_from_u64(7);
    for _ in 0..100 {
        let [n, m] = [random.random_range(0..6), random.random_range(0..9)];
        let mut draw = |shape: &[usize]| {
            let count = shape.iter().product();
            let all: Vec<String> = (0..count).map(|_| drawn(&mut random)).collect();
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            strings(shape, &all)
        };
        let (x, y) = (draw(&[n, 1]), draw(&[m]));
        let i: Vec<i64> = (0..n).map(|_| random.random_range(0..n) as i64).collect();
        programs.agree(&[("x", x), ("y", y), ("i", places(&[n], &i))]);
    }
}
