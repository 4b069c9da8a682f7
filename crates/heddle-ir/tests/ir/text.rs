//! The text form's limits, and constants outside the text.

use bytes::Bytes;
use heddle_ir::text::{Large, MAX_SPLAT, PrintOptions, parse, parse_with, print, print_with};
use heddle_ir::{Entity, FuncBuilder, FuncId, MAX_NESTING, Module, Signature, Tensor, verify};

/// A program that returns these constants.
fn constants(tensors: &[Tensor]) -> Module {
    let mut module = Module::default();
    let sig = Signature {
        name: "main".into(),
        ..Signature::default()
    };
    let id = module.declare(sig.clone());
    let mut b = FuncBuilder::new(sig);
    let values = tensors.iter().map(|t| b.constant(t.clone()));
    let results: Vec<_> = values
        .enumerate()
        .map(|(i, v)| (format!("y{i}"), v))
        .collect();
    module.functions[id] = b.finish(&results);
    module.set_entry(id);
    module
}

fn results(module: &Module) -> Vec<Tensor> {
    let f = module.entry();
    let tensor = |v| f.constant(v).expect("a constant").clone();
    f.regions[f.body]
        .yields
        .iter()
        .map(|v| tensor(*v))
        .collect()
}

fn large() -> Vec<Tensor> {
    let floats: Vec<f32> = (0..100).map(|i| i as f32 * 0.1).collect();
    let ints: Vec<i64> = (0..65).collect();
    let words = (0..70).map(|i| i.to_string().into()).collect();
    vec![
        Tensor::from_slice(vec![10, 10], &floats),
        Tensor::vector(&[1.0f64, 2.0]),
        Tensor::vector(&ints),
        Tensor::strings(vec![70], words).expect("70 words"),
    ]
}

#[test]
fn constants_in_a_sidecar_file() {
    let tensors = large();
    let mut blob = vec![];
    let mut options = PrintOptions {
        large: Large::Sidecar {
            file: "model \"x\".weights",
            blob: &mut blob,
        },
        ..PrintOptions::default()
    };
    let text = print_with(&constants(&tensors), &mut options).expect("a Vec takes all");
    assert_eq!(blob.len(), 448 + 65 * 8);
    assert!(
        text.contains(r#"const file("model \"x\".weights", 448, 520)"#),
        "{text}"
    );
    assert!(text.contains("const [1.0, 2.0]"), "{text}");
    let load = |file: &str, offset: u64, length: u64| {
        assert_eq!(file, "model \"x\".weights");
        let bytes = blob.get(offset as usize..(offset + length) as usize);
        bytes
            .map(Bytes::copy_from_slice)
            .ok_or("the file is too short".to_string())
    };
    let read = parse_with(&text, &load).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(results(&read), tensors);

    let fail = |_: &str, _: u64, _: u64| Err("no such file".to_string());
    let error = parse_with(&text, &fail).expect_err("nothing is loaded");
    assert_eq!(error.message, "no such file");
    let short = |_: &str, _: u64, _: u64| Ok(Bytes::from_static(&[1, 2]));
    let error = parse_with(&text, &short).expect_err("too little is loaded");
    assert!(
        error.message.contains("takes 400 bytes, but 2 are given"),
        "{error}"
    );
}

#[test]
fn constants_left_out() {
    let mut options = PrintOptions {
        large: Large::Elide,
        threshold: 69,
    };
    let text = print_with(&constants(&large()), &mut options).expect("nothing is written");
    assert_eq!(text.matches("const elided").count(), 2, "{text}");
    let error = parse(&text).expect_err("constants are missing");
    assert_eq!(
        error.message,
        "this constant was left out when the text was written"
    );
}

#[test]
fn large_constants_of_one_value() {
    let zeros = Tensor::splat(heddle_ir::DType::F32, vec![1 << 20], 0.0);
    let text = print(&constants(std::slice::from_ref(&zeros)));
    assert!(text.contains("const splat 0.0"), "{text}");
    assert_eq!(results(&parse(&text).expect("a program")), [zeros]);
    let size = MAX_SPLAT / 2 + 1;
    let text = format!(
        "fn @main() -> () {{
           %a: u8[{size}] = const splat 0
           %b: u8[{size}] = const splat 0
           return
         }}"
    );
    let error = parse(&text).expect_err("too much");
    assert_eq!(
        error.message,
        "the program's `splat` constants are too large"
    );
}

/// The default is the first entry; a module with one of them keeps all functions.
#[test]
fn one_of_several_entries() {
    let text = "entry a = @f
entry @g
fn @f() -> () { return }
fn @g() -> () { return }";
    let module = parse(text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(module.entry().sig.name, "f");
    let [f, g] = [0, 1].map(FuncId::new);
    assert!(module.is_entry(f) && module.is_entry(g));
    let one = module.clone().with_entry("g").expect("an entry");
    assert_eq!(one.entry().sig.name, "g");
    assert!(!one.is_entry(f) && one.functions.len() == 2);
    let error = module.with_entry("f").expect_err("only a function");
    assert_eq!(
        error.to_string(),
        "there is no entry `f`; the program's entries are `a`, `g`"
    );
    let other = parse("entry main = @f fn @f() -> () { return }").expect("a program");
    assert!(print(&other).starts_with("entry main = @f\n"));
}

/// `before` and `after` repeated around a middle.
fn around(before: &str, middle: &str, after: &str, count: usize) -> String {
    [before.repeat(count), middle.into(), after.repeat(count)].concat()
}

#[test]
fn nesting_is_bounded() {
    let main = |body: &str| format!("fn @main(%x: f32[], %n: i64[]) -> () {{ {body} return }}");
    let ifs = |n| main(&around("if true { ", "", " yield } else { yield }", n));
    let loops = |n| main(&around("loop trip %n { ", "", " continue }", n));
    let calls = |n| main(&format!("%y = neg({})", around("neg(", "%x", ")", n)));
    let conds = |n| main(&around("if eq(1, loop trip %n carry (%a = ", "1", ") {", n));
    let types = |n| {
        main(&format!(
            "%y = opt_none(elem={})",
            around("opt<", "f32[]", ">", n)
        ))
    };
    for (text, deep) in [
        (ifs(MAX_NESTING), ifs(10_000)),
        (loops(MAX_NESTING), loops(10_000)),
        (calls(MAX_NESTING), calls(10_000)),
        (types(MAX_NESTING - 1), types(10_000)),
    ] {
        let module = parse(&text).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(verify(&module), Ok(()));
        let error = parse(&deep).expect_err("too deep");
        assert!(error.message.contains("nest"), "{error}");
    }
    parse(&conds(10_000)).expect_err("too deep");
    for (open, close) in [("[", "]"), ("(", ")"), ("-", "")] {
        let text = main(&format!("%y = const {}", around(open, "1", close, 100_000)));
        parse(&text).expect_err("no constant");
    }
    let size = |n| {
        format!(
            "fn @main(%x: f32[n,{}]) -> () {{ return }}",
            around("max(n, ", "1", ")", n)
        )
    };
    parse(&size(3)).unwrap_or_else(|e| panic!("{e}"));
    parse(&size(10_000)).expect_err("too deep");
}

/// Types that grow from one instruction to the next stop at a limit.
#[test]
fn types_are_bounded() {
    let repeated = |start: &str, step: &str, count: usize| {
        let mut text = format!("fn @main({start}) -> () {{\n");
        for i in 0..count {
            let step = step.replace('#', &i.to_string());
            text += &format!("%a{} = {step}\n", i + 1);
        }
        text + "return }"
    };
    for (start, step, count, message) in [
        (
            "%a0: f32[]",
            "unsqueeze(%a#, axes=[0])",
            100,
            "unsqueeze: gives 65 axes, more than 64",
        ),
        (
            "%a0: i64[1,1]",
            "gather(%a#, %a#, axis=0)",
            100,
            "gather: gives 65 axes, more than 64",
        ),
        (
            "%a0: f32[]",
            "opt_some(%a#)",
            300,
            "opt_some: gives a type that nests deeper than 256 levels",
        ),
        (
            "%a0: i64[]",
            "seq_new(%a#)",
            300,
            "seq_new: gives a type that nests deeper than 256 levels",
        ),
    ] {
        let error = parse(&repeated(start, step, count)).expect_err("too much");
        assert_eq!(error.message, message);
    }
    // Long sizes on many axes, handed on by short instructions.
    let size = (0..14)
        .map(|i| format!("n{i}*n{}*m", i + 1))
        .collect::<Vec<_>>()
        .join("+");
    let shape = vec![size; 60].join(",");
    let error = parse(&repeated(&format!("%a0: f32[{shape}]"), "neg(%a#)", 20_000));
    assert_eq!(
        error.expect_err("too much").message,
        "the program's types are too large"
    );
}

/// Programs that a type rule or the parser must refuse.
#[test]
fn odd_programs_are_refused() {
    for (params, body, message) in [
        (
            "%a: f32[..], %b: f32[2], %c: f32[..]",
            "%y = concat(%a, %b, %c, axis=5)",
            "axis 5 of 1",
        ),
        ("", "%y: str[1] = const [1]", "written in quotes"),
        ("", "%y = const [true, false]: str[2]", "written in quotes"),
    ] {
        let text = format!("fn @main({params}) -> () {{ {body} return }}");
        let error = parse(&text).expect_err(&text);
        assert!(error.message.contains(message), "{error}");
    }
    // A negative size is the verifier's to refuse; until then the rules stand it.
    let negative = "fn @main(%x: f32[-5]) -> () { %y = slice(%x, [0], [3], [1], axes=[0]) return }";
    assert!(verify(&parse(negative).unwrap()).is_err());
    let empty = "fn @main() -> () { %y: str[0] = const [] return }";
    assert!(parse(empty).is_ok());
}
