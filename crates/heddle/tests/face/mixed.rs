//! Programs with something that has no compiled form: the interpreter runs that part, the rest is compiled, and both give what the
//! interpreter alone gives.

use std::time::Duration;

use heddle::{
    CompileOptions, Device, Emit, Error, ErrorKind, Inputs, Model, Program, RunOptions, Step,
    Target, Tensor, Tolerance, Value, compare, compile,
};

/// A loop that only its condition ends collects rows in a sequence, between heavy work, and with heavy work in it.
const COLLECT: &str = "\
fn @main(%x: f32[n,n], %limit: f32[]) -> (%y: f32[?,n], %z: f32[n,n], %count: i64[]) {
  %big = tanh(dot(%x, dot(%x, %x)))
  %row = gather(%big, const [0], axis=0)
  %h, %found = loop %i while const true carry (%h: f32[1,n] = %row, %l: seq<f32[?,n]> = seq_new(%row)) {
    %h2 = tanh(dot(%h, dot(%big, %x)))
    %l2 = seq_insert(%l, %h2, seq_len(%l))
    %large = gt(reduce(abs(%h2), kind=max, axes=[0,1], keep=false), %limit)
    %few = lt(%i, 10)
    continue while min(%large, %few) carry mul(%h2, 0.875), %l2
  }
  %y = seq_concat(%found, axis=0, stack=false)
  %z = add(dot(%big, %big), reduce(%y, kind=sum, axes=[0], keep=true))
  return %y, %z, seq_len(%found)
}
";

/// Text around a network: which rows match says which are summed.
const STRINGS: &str = "\
fn @main(%words: str[m], %x: f32[m,32], %w: f32[32,32]) -> (%y: f32[32], %out: str[?]) {
  %h = tanh(dot(%x, %w))
  %lower = str_normalize(%words, stopwords=[], case=lower, case_sensitive=true)
  %hit = cast(str_full_match(%lower, pattern=\"[a-m].*\"), to=f32)
  %rows = mul(dot(%h, %w), unsqueeze(%hit, axes=[1]))
  %y = reduce(exp(%rows), kind=sum, axes=[0], keep=false)
  return %y, str_normalize(%words, case=upper)
}
";

/// A recursion that carries a sequence, with a product in each call; the sizes that the program knows only when it runs are an input of
/// the part behind.
const RECURSION: &str = "\
fn @main(%x: f32[n,n], %k: i64[]) -> (%y: f32[?,n]) {
  %list: seq<f32[n,n]> = call @f(%x, %k, seq_new(%x))
  %last = seq_at(%list, -1)
  %rows = reshape(nonzero(gt(reduce(%last, kind=max, axes=[1], keep=false), 0.0)), [-1])
  %y = tanh(gather(dot(%last, %last), %rows, axis=0))
  return %y
}

fn @f(%x: f32[n,n], %k: i64[], %l: seq<f32[n,n]>) -> (%r: seq<f32[n,n]>) {
  %r = if lt(%k, 1) {
    yield %l
  } else {
    %y = tanh(dot(%x, %x))
    %more: seq<f32[n,n]> = call @f(%y, sub(%k, 1), seq_insert(%l, %y, 0))
    yield %more
  }
  return %r
}
";

const TOLERANCE: Tolerance = Tolerance {
    rtol: 1e-4,
    atol: 1e-5,
    exact_integers: true,
    any_float: false,
};

/// Sequences have no compiled form with these.
fn options(device: Device) -> CompileOptions {
    CompileOptions {
        device,
        threads: Some(2),
        without: vec![Step::named("flatten_sequences").unwrap()],
        ..Default::default()
    }
}

fn program(text: &str, device: Device) -> Program {
    let model = Model::parse("m", text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    compile(&model, &options(device)).unwrap()
}

/// Number of compiled parts, and the nodes that are not compiled.
fn parts(program: &Program) -> (usize, Vec<String>) {
    let how = program
        .report()
        .interpreted
        .clone()
        .expect("all is compiled");
    let nodes = how.uncompiled.into_iter();
    let nodes = nodes.map(|what| format!("{}: {}", what.node.unwrap_or_default(), what.reason));
    (how.compiled_parts, nodes.collect())
}

fn array(shape: &[usize], scale: f32) -> Value {
    let count: usize = shape.iter().product();
    let data = (0..count).map(|i| ((i * 37 % 101) as f32 / 50.0 - 1.0) * scale);
    Tensor::from_slice(shape.to_vec(), &data.collect::<Vec<_>>()).into()
}

/// Both devices on the same inputs.
fn agree(text: &str, inputs: &[(&str, Value)]) -> Program {
    let inputs: Inputs = inputs
        .iter()
        .map(|(name, value)| (name.to_string(), value.clone()))
        .collect();
    let mixed = program(text, Device::Cpu);
    assert_eq!(mixed.device(), Device::Cpu);
    let options = RunOptions::default();
    let want = program(text, Device::Interp)
        .run(inputs.clone(), &options)
        .unwrap();
    for _ in 0..2 {
        let got = mixed.run(inputs.clone(), &options).unwrap();
        assert_eq!(got.report.interpreted, mixed.report().interpreted);
        for ((name, got), (_, want)) in got.outputs.iter().zip(&want.outputs) {
            compare(got, want, &TOLERANCE).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
    mixed
}

#[test]
fn a_loop_with_a_sequence() {
    for (n, limit) in [(1, 2.0), (13, 0.0), (64, 0.0)] {
        let limit = Value::from(Tensor::from_slice(vec![], &[limit as f32]));
        let mixed = agree(COLLECT, &[("x", array(&[n, n], 0.25)), ("limit", limit)]);
        let (count, nodes) = parts(&mixed);
        // Before the loop, in it, and behind it.
        assert_eq!(count, 3, "{nodes:?}");
        assert!(
            nodes
                .iter()
                .any(|n| n.contains("`seq_new` is not compiled")),
            "{nodes:?}"
        );
        assert!(nodes.iter().all(|n| n.starts_with("line ")), "{nodes:?}");
    }
}

#[test]
fn large_arguments_that_change_and_that_stay() {
    // A table that stays, one that changes in place, and one that changes in every other iteration, in a loop whose body is a part.
    let text = "\
fn @main(%table: f32[n,64], %x: f32[n,64], %k: i64[]) -> (%l: seq<f32[64]>, %y: f32[n,64], %z: f32[n,64]) {
  %y, %z, %l = loop %i while const true carry (%a: f32[n,64] = %x, %b: f32[n,64] = %x, %s: seq<f32[64]> = seq_new(elem=f32[64])) {
    %sum = reduce(add(mul(%table, %a), %b), kind=sum, axes=[0], keep=false)
    %a2 = mul(%a, 0.75)
    %b2 = if eq(sub(%i, mul(div(%i, 2), 2)), 0) {
      yield %b
    } else {
      yield add(%b, 0.125)
    }
    continue while lt(%i, %k) carry %a2, %b2, seq_insert(%s, %sum, seq_len(%s))
  }
  return %l, %y, %z
}
";
    let k = Value::from(Tensor::from_slice(vec![], &[6i64]));
    let inputs = [
        ("table", array(&[300, 64], 1.0)),
        ("x", array(&[300, 64], 0.5)),
        ("k", k),
    ];
    let mixed = agree(text, &inputs);
    assert!(parts(&mixed).0 > 0);
}

#[test]
fn text_that_is_no_number() {
    let text = "\
fn @main(%x: f32[n]) -> (%y: f32[n], %z: i32[]) {
  %y = neg(%x)
  %z = cast(const \"a\", to=i32)
  return %y, %z
}
";
    let model = Model::parse("m", text).unwrap_or_else(|e| panic!("{e}"));
    let options = CompileOptions {
        device: Device::Cpu,
        ..Default::default()
    };
    let program = compile(&model, &options).unwrap_or_else(|e| panic!("{e}"));
    let inputs = [("x".to_string(), array(&[3], 1.0))].into_iter().collect();
    let error = program.run(inputs, &RunOptions::default()).unwrap_err();
    assert!(error.to_string().contains("`a` is no number"), "{error}");
}

#[test]
fn text_around_a_network() {
    let words = ["Apple", "zebra", "mango", "Quince", "fig"].map(Into::into);
    let words = Tensor::strings(vec![5], words.to_vec()).unwrap();
    let inputs = [
        ("words", words.into()),
        ("x", array(&[5, 32], 1.0)),
        ("w", array(&[32, 32], 0.125)),
    ];
    let (count, nodes) = parts(&agree(STRINGS, &inputs));
    assert_eq!((count, nodes.len()), (2, 3), "{nodes:?}");
}

#[test]
fn recursion_with_a_sequence() {
    for k in [0i64, 1, 5] {
        let k = Value::from(Tensor::from_slice(vec![], &[k]));
        let mixed = agree(RECURSION, &[("x", array(&[9, 9], 0.5)), ("k", k)]);
        let (count, nodes) = parts(&mixed);
        assert_eq!(count, 2, "{nodes:?}");
    }
}

#[test]
fn errors_name_the_node_and_limits_hold() {
    let text = "\
fn @main(%x: f32[n,8], %i: i64[], %k: i64[]) -> (%y: f32[8], %l: seq<f32[8]>) {
  %e = exp(dot(%x, transpose(%x, perm=[1,0])))
  %y = add(gather(%e, %i, axis=0), reduce(%e, kind=sum, axes=[0], keep=false))
  %z, %l = loop %j while const true carry (%a: f32[8] = gather(%y, const [0, 1, 2, 3, 4, 5, 6, 7], axis=0), %s: seq<f32[8]> = seq_new(elem=f32[8])) {
    %b = tanh(%a)
    continue while lt(%j, %k) carry %b, seq_insert(%s, %b, 0)
  }
  return %z, %l
}
";
    let mixed = program(text, Device::Cpu);
    assert!(parts(&mixed).0 > 0);
    let run = |i: i64, k: i64, options: &RunOptions| {
        let scalar = |v: i64| Value::from(Tensor::from_slice(vec![], &[v]));
        let inputs = [
            ("x", array(&[8, 8], 0.5)),
            ("i", scalar(i)),
            ("k", scalar(k)),
        ];
        let inputs: Inputs = inputs
            .map(|(n, v)| (n.to_string(), v))
            .into_iter()
            .collect();
        mixed.run(inputs, options)
    };
    run(7, 3, &RunOptions::default()).unwrap();
    let error = run(8, 3, &RunOptions::default()).unwrap_err();
    assert!(error.to_string().contains("line 3"), "{error}");
    assert!(matches!(error, Error::Run(_)), "{error}");
    let short = RunOptions {
        timeout: Some(Duration::from_millis(200)),
        ..Default::default()
    };
    let error = run(0, i64::MAX, &short).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    let exact = RunOptions {
        f64: true,
        ..Default::default()
    };
    let run = run(7, 3, &exact).unwrap();
    assert_eq!(run.report.interpreted.map(|i| i.compiled_parts), Some(0));
}

fn is_compiled_whole(model: &Model) -> bool {
    match heddle::emit(model, &options(Device::Cpu), Target::Cpu, Emit::Source) {
        Ok(dump) => dump.whole().is_some(),
        Err(Error::NotCompiled(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn sizes_that_the_run_computes_need_no_part() {
    let text = "\
fn @main(%x: f32[n,8], %w: f32[8,8]) -> (%y: f32[?,8]) {
  %h = tanh(dot(%x, %w))
  %large = reduce(cast(gt(%h, 0.25), to=i64), kind=sum, axes=[0,1], keep=false)
  %s, %y = loop %i trip %large carry (%s: f32[1,8] = gather(%h, const [0], axis=0)) {
    %t = tanh(dot(%s, %w))
    continue carry %t stack reshape(%t, const [8])
  }
  return %y
}
";
    assert!(is_compiled_whole(&Model::parse("m", text).unwrap()));
    for n in [1, 2, 37] {
        let inputs = [("x", array(&[n, 8], 1.0)), ("w", array(&[8, 8], 0.5))];
        let mixed = agree(text, &inputs);
        assert_eq!(mixed.report().interpreted, None);
    }
}

#[test]
fn dumps_show_each_part() {
    let model = Model::parse("m", COLLECT).unwrap();
    let options = options(Device::Cpu);
    let all = [
        (Emit::Transformed, "fn @part.0("),
        (Emit::Lowered, "contract"),
        (Emit::Uprogram, "contract"),
        (Emit::Schedule, "units"),
    ];
    let sources = [(Target::Cpu, "HEDDLE_MAIN"), (Target::Cuda, "__global__")];
    let sources = sources.map(|(target, text)| (target, Emit::Source, text));
    let cases = all.map(|(stage, text)| (Target::Cpu, stage, text));
    for (target, stage, part) in cases.into_iter().chain(sources) {
        let dump = heddle::emit(&model, &options, target, stage).unwrap();
        assert!(dump.whole().is_none(), "{stage:?}");
        let rest = dump.rest.as_ref().unwrap().to_string();
        assert!(
            rest.contains("seq_insert") && rest.contains("call @part.0"),
            "{rest}"
        );
        let text = dump.part("part.0").unwrap().to_string();
        assert!(text.contains(part), "{stage:?}: {text}");
        let all = dump.to_string();
        for (name, program) in &dump.programs {
            assert!(
                all.contains(&format!("// {name}\n{program}")),
                "{stage:?}: {all}"
            );
        }
    }
    // The graph passes come before the partition.
    let dump = heddle::emit(&model, &options, Target::Cpu, Emit::Ir).unwrap();
    assert!(dump.whole().is_some());
}

#[test]
fn a_part_is_printed_as_it_runs() {
    let model = Model::parse("m", COLLECT).unwrap();
    let options = options(Device::Cpu);
    let dump = heddle::emit(&model, &options, Target::Cpu, Emit::Source).unwrap();
    let program = compile(&model, &options).unwrap();
    let interpreted = program.report().interpreted.as_ref().unwrap();
    assert_eq!(dump.programs.len(), interpreted.compiled_parts);
}

#[test]
fn what_has_no_compiled_part_says_why() {
    let text = "fn @main(%x: str[n]) -> (%y: str[?]) {
  %y = str_normalize(%x)
  return %y
}
";
    let model = Model::parse("m", text).unwrap();
    let dump = heddle::emit(
        &model,
        &CompileOptions::default(),
        Target::Cpu,
        Emit::Source,
    );
    let error = dump.unwrap_err();
    assert!(matches!(error, Error::NotCompiled(_)));
    assert!(error.to_string().contains("line 2"), "{error}");
}

#[test]
fn random_programs() {
    // Some 4 of 10 have no compiled form as a whole.
    let count = std::env::var("HEDDLE_MIXED").ok();
    let count = count.map_or(24, |n| n.parse().expect("a number"));
    let (mut seen, mut tried) = (0, 0);
    for seed in 0..count {
        let (module, inputs) = heddle_gen::generate(seed, &heddle_gen::Config::default());
        let text = heddle_ir::text::print(&module);
        let model = Model::parse("m", &text).unwrap();
        if is_compiled_whole(&model) {
            continue;
        }
        tried += 1;
        let names = module
            .entry()
            .sig
            .params
            .iter()
            .map(|(name, _)| name.clone());
        let inputs: Inputs = names.zip(inputs.into_iter().map(Value::from)).collect();
        let want = program(&text, Device::Interp).run(inputs.clone(), &RunOptions::default());
        let mixed = program(&text, Device::Cpu);
        seen += usize::from(mixed.device() == Device::Cpu);
        let got = mixed.run(inputs, &RunOptions::default());
        match (got, want) {
            (Ok(got), Ok(want)) => {
                for ((name, got), (_, want)) in got.outputs.iter().zip(&want.outputs) {
                    compare(got, want, &TOLERANCE)
                        .unwrap_or_else(|e| panic!("seed {seed}, {name}: {e}\n{text}"));
                }
            }
            (Err(got), Err(want)) => assert_eq!(got.kind(), want.kind(), "seed {seed}"),
            (got, want) => panic!("seed {seed}: {:?}, {:?}", got.is_ok(), want.is_ok()),
        }
    }
    assert!(seen > 0, "{seen} of {tried}");
    eprintln!("{seen} of {tried} are compiled in part");
}

#[test]
fn parts_draw_with_the_runs_key() {
    // Both draw with the same key: one in a part, the other behind text.
    let text = "\
fn @main(%words: str[m], %x: f32[m,64]) -> (%a: u64[?], %b: u64[64], %y: f32[m,64]) {
  %hit = cast(str_full_match(%words, pattern=\"[a-m].*\"), to=f32)
  %y = tanh(exp(sin(mul(%x, unsqueeze(%hit, axes=[1])))))
  %s = reduce(cast(gt(%y, 0.0), to=i64), kind=sum, axes=[0], keep=false)
  %a = philox(run_key(), cast(range(0, gather(%s, 0, axis=0), 1), to=u64))
  %b = philox(run_key(), cast(%s, to=u64))
  return %a, %b, %y
}
";
    let words = ["Apple", "fig"].map(Into::into).to_vec();
    let words = Tensor::strings(vec![2], words).unwrap();
    let mixed = agree(
        text,
        &[("words", words.into()), ("x", array(&[2, 64], 1.0))],
    );
    assert!(parts(&mixed).0 > 0);
}

#[test]
fn parts_are_no_levels_of_calls() {
    let text = "\
fn @main(%words: str[m], %x: f32[64,64]) -> (%y: f32[64,64], %out: str[?]) {
  return tanh(dot(%x, %x)), str_normalize(%words, case=upper)
}
";
    let words = Tensor::strings(vec![1], vec!["a".into()]).unwrap();
    let inputs = [("words", words.into()), ("x", array(&[64, 64], 0.125))];
    let mixed = agree(text, &inputs);
    let inputs = inputs
        .map(|(n, v)| (n.to_string(), v))
        .into_iter()
        .collect();
    let flat = RunOptions {
        max_depth: Some(1),
        ..Default::default()
    };
    mixed.run(inputs, &flat).unwrap();
}

#[test]
fn one_instruction_does_not_cut_all_behind_it() {
    // Nodes that take an array of unknown rank are found at once, and the rest is one part.
    let chain: String = (1..200)
        .map(|i| format!("  %x{i} = add(%x{}, 0.5)\n", i - 1))
        .collect();
    let text = format!(
        "fn @main(%r: f32[..], %x: f32[64,64]) -> (%y: f32[64,64], %z: f32[..]) {{
  %z = tanh(%r)
  %s = reduce(reshape(%z, [-1]), kind=sum, axes=[0], keep=false)
  %x0 = mul(dot(%x, %x), %s)
{chain}  return %x199, %z
}}
"
    );
    let mixed = agree(
        &text,
        &[("r", array(&[2, 3], 1.0)), ("x", array(&[64, 64], 0.125))],
    );
    let (count, nodes) = parts(&mixed);
    assert!(count <= 2, "{count} {nodes:?}");
}

#[test]
fn large_arrays_of_which_little_changes_are_not_moved() {
    let text = "\
fn @main(%x: f32[n,n], %k: i64[]) -> (%y: f32[n,n], %l: seq<f32[]>) {
  %y, %l = loop %i while const true carry (%a: f32[n,n] = %x, %s: seq<f32[]> = seq_new(elem=f32[])) {
    %row = gather(%a, mod(add(%i, const [0]), 64), axis=0)
    %m = reduce(exp(%row), kind=sum, axes=[0,1], keep=false)
    %f = seq_insert(%s, %m, seq_len(%s))
    %a2 = update_slice(%a, reshape(seq_at(%f, -1), [1,1]), [3,3])
    continue while lt(%i, %k) carry %a2, %f
  }
  return %y, %l
}
";
    let k = Value::from(Tensor::from_slice(vec![], &[9i64]));
    assert_eq!(program(text, Device::Cpu).device(), Device::Interp);
    let inputs = [("x", array(&[70, 70], 0.5)), ("k", k)];
    let inputs = inputs
        .map(|(n, v)| (n.to_string(), v))
        .into_iter()
        .collect();
    program(text, Device::Cpu)
        .run(inputs, &RunOptions::default())
        .unwrap();
}

#[test]
fn what_is_no_work_is_left_with_the_rest() {
    let text = "\
fn @main(%x: f32[4], %k: i64[]) -> (%y: seq<f32[4]>, %n: i64[]) {
  %l = loop %i while const true carry (%s: seq<f32[4]> = seq_new(elem=f32[4])) {
    continue while lt(%i, %k) carry seq_insert(%s, mul(%x, 2.0), 0)
  }
  return %l, add(seq_len(%l), 1)
}
";
    let mixed = program(text, Device::Cpu);
    assert_eq!(mixed.device(), Device::Interp);
    assert_eq!(parts(&mixed).0, 0);
}
