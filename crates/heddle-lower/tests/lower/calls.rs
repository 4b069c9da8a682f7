//! Specialisations of recursive functions by the arguments of outer calls.

use heddle_lower::lower;
use heddle_uprogram::program::BufferKind;

/// A recursive function that is called `calls` times, each time with other weights, and with `more`
/// instructions in it.
fn program(calls: usize, more: usize) -> String {
    let params: Vec<String> = (0..calls).map(|k| format!("%w{k}: f32[16,16]")).collect();
    let params = params.join(", ");
    let mut text = format!("fn @main(%x: f32[1,16], {params}) -> (%y0: f32[1,16]) {{\n");
    for k in 0..calls {
        let x = match k {
            0 => "%x".into(),
            k => format!("%h{}", k - 1),
        };
        text += &format!("  %h{k}: f32[1,16] = call @fall({x}, %w{k}, 3)\n");
    }
    text += &format!(
        "  return %h{}
}}
fn @fall(%x: f32[1,16], %w: f32[16,16], %n: i64[]) -> (%y: f32[1,16]) {{
  %y: f32[1,16] = if gt(%n, 0) {{
    %a0 = tanh(dot(%x, %w))\n",
        calls - 1
    );
    for k in 0..more {
        text += &format!("    %a{} = sin(%a{k})\n", k + 1);
    }
    text += &format!(
        "    %r: f32[1,16] = call @fall(%a{more}, %w, sub(%n, 1))
    yield %r
  }} else {{
    yield %x
  }}
  return %y
}}"
    );
    text
}

/// The number of procedures, and of arrays of weights that they take.
fn counts(text: &str) -> (usize, usize) {
    let module = heddle_ir::text::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let program = lower(&module).unwrap_or_else(|e| panic!("{e}"));
    let weights = program.buffers.iter().filter(|(_, buffer)| {
        let is_param = matches!(buffer.kind, BufferKind::Param);
        is_param && buffer.name.starts_with('w')
    });
    (program.procedures.len(), weights.count())
}

#[test]
fn each_call_with_other_weights_has_a_copy() {
    for calls in [1, 2, 8, 9, 40] {
        assert_eq!(counts(&program(calls, 0)), (calls, 0));
    }
}

/// The instructions of all copies are some times those of the program; further calls share one
/// procedure that takes the weights.
#[test]
fn copies_are_bounded_by_the_size_of_the_program() {
    let (procedures, weights) = counts(&program(40, 1500));
    assert!((5..20).contains(&procedures), "{procedures}");
    assert_eq!(weights, 1);
}

/// There are as many procedures as a program may have at most, and still it is compiled.
#[test]
fn many_calls_share_a_procedure() {
    let (procedures, weights) = counts(&program(700, 0));
    assert!(procedures <= 513, "{procedures}");
    assert_eq!(weights, 1);
}

/// A function of `more` instructions that is called with arrays of so many sizes, beyond what may be
/// copied for each call alone.
fn sized(calls: usize, more: usize) -> String {
    let size = |k: usize| 16 + k;
    let params: Vec<String> = (0..calls)
        .map(|k| format!("%x{k}: f32[{}]", size(k)))
        .collect();
    let results: Vec<String> = (0..calls)
        .map(|k| format!("%y{k}: f32[{}]", size(k)))
        .collect();
    let mut text = format!(
        "fn @main({}) -> ({}) {{\n",
        params.join(", "),
        results.join(", ")
    );
    for k in 0..calls {
        text += &format!("  %y{k}: f32[{}] = call @f(%x{k})\n", size(k));
    }
    let names: Vec<String> = (0..calls).map(|k| format!("%y{k}")).collect();
    text += &format!("  return {}\n}}\n", names.join(", "));
    text += "fn @f(%x: f32[n]) -> (%y: f32[n]) {\n  %a0 = tanh(%x)\n";
    for k in 0..more {
        text += &format!("  %a{} = sin(%a{k})\n", k + 1);
    }
    text + &format!("  return %a{more}\n}}")
}

/// Arrays of a few sizes have procedures of their own, also of a large function. So do many sizes of a
/// small one, while a large one is left to the interpreter.
#[test]
fn sizes_are_bounded() {
    let lowered = |calls, more| {
        let text = sized(calls, more);
        let module = heddle_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        lower(&module)
    };
    assert_eq!(lowered(12, 1500).map(|p| p.procedures.len()), Ok(12));
    assert_eq!(lowered(200, 5).map(|p| p.procedures.len()), Ok(200));
    let error = lowered(40, 1500)
        .expect_err("too many procedures")
        .to_string();
    assert!(error.contains("too many sizes"), "{error}");
}
