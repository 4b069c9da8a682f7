//! Copies of rows that products read by index, and copies that stay.

use crate::common::lowered_for;
use heddle_machine::Machine;
use heddle_uprogram::contract::Access;
use heddle_uprogram::program::Body;

/// The running maps and contractions of a program, those that read rows by index as `rows`.
fn kinds(text: &str, machine: &Machine) -> Vec<&'static str> {
    let program = lowered_for(text, machine);
    let running = program.running().into_iter();
    let kinds = running.filter_map(|id| match &program.operators[id].body {
        Body::Map { .. } => Some("map"),
        Body::Contract(c) if matches!(c.a.access, Access::Rows { .. }) => Some("rows"),
        Body::Contract(_) => Some("contract"),
        _ => None,
    });
    kinds.collect()
}

fn on_cpu(text: &str) -> Vec<&'static str> {
    kinds(text, &Machine::reference_host(2))
}

fn product(depth: usize, columns: &str, rest: &str) -> String {
    format!(
        "fn @main(%x: f32[v,{depth}], %i: i64[m], %w: f32[{depth},{columns}], %u: f32[m,{columns}]) -> (%y: f32[..]) {{
           %g = gather(%x, %i, axis=0)
           {rest}
           return %y
         }}"
    )
}

#[test]
fn rows_are_read_by_index() {
    let one = product(64, "48", "%y = tanh(dot(%g, %w))");
    assert_eq!(on_cpu(&one), ["rows"]);
    assert_eq!(kinds(&one, &Machine::h100()), ["map", "contract"]);
    let two = product(
        64,
        "64",
        "%y = add(dot(%g, %w), dot(%g, transpose(%w, perm=[1,0])))",
    );
    assert_eq!(on_cpu(&two), ["rows", "rows"]);
}

#[test]
fn short_rows_for_many_columns_are_copied() {
    let wide = |depth| product(depth, "8192", "%y = dot(%g, %w)");
    assert_eq!(on_cpu(&wide(2)), ["map", "contract"]);
    assert_eq!(on_cpu(&wide(256)), ["rows"]);
}

#[test]
fn matrices_that_indices_choose_are_read_where_they_lie() {
    let text = "fn @main(%m: f32[v,64,64], %x: f32[b,1,64], %i: i64[b]) -> (%y: f32[b,1,64], %z: f32[b,1,64]) {
           %a = gather(%m, %i, axis=0)
           %y = dot(%x, %a)
           %z = dot(%x, transpose(%a, perm=[0,2,1]))
           return %y, %z
         }";
    assert_eq!(on_cpu(text), ["contract", "contract"]);
}

#[test]
fn copies_with_other_readers_stay() {
    let text = product(
        64,
        "64",
        "%y = add(dot(%g, %w), reduce(%g, kind=sum, axes=[1], keep=true))",
    );
    // The sum reads the source itself.
    assert_eq!(on_cpu(&text), ["rows"]);
    let text =
        "fn @main(%x: f32[v,64], %i: i64[m], %w: f32[64,48]) -> (%y: f32[m,48], %g: f32[m,64]) {
           %g = tanh(gather(%x, %i, axis=0))
           %y = dot(%g, %w)
           return %y, %g
         }";
    assert!(!on_cpu(text).contains(&"rows"));
}

#[test]
fn rows_of_constants_stay_in_their_file() {
    let text = "fn @main(%i: i64[m], %w: f32[4,16]) -> (%y: f32[m,16]) {
           %x = const [[1, 2, 3, 4], [5, 6, 7, 8]]: f32[2,4]
           %y = dot(gather(%x, %i, axis=0), %w)
           return %y
         }";
    assert_eq!(on_cpu(text), ["map", "contract"]);
}

#[test]
fn indices_are_checked_where_nothing_is_computed() {
    let text = product(64, "n", "%y = dot(%g, %w)");
    assert_eq!(on_cpu(&text), ["map", "contract"]);
}

#[test]
fn a_product_in_an_arm_may_never_check_indices() {
    let text = include_str!("../filetests/read_rows.uprogram");
    let (text, _) = text.split_once("// ---- output").expect("an output");
    let is_copied = |text: &str, before: &str| {
        let main =
            format!("  run op0\n{before}  if eq(b1[0], 3) {{\n    run op1\n  }}\n  run op2\n");
        let body = "  run op0\n  run op1\n  run op2\n  run op3\n";
        assert!(text.contains(body));
        let text = text.replace(body, &main);
        let mut program = heddle_uprogram::text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        heddle_schedule::read_rows(&mut program, &Machine::reference_host(2));
        let names = program.running().into_iter();
        let mut names = names.map(|id| program.operators[id].name.clone());
        names.any(|name| name == "a copy for a product")
    };
    assert!(is_copied(text, ""));
    // Another product of the same rows always runs.
    assert!(!is_copied(&text.replace("a = b5", "a = b3"), "  run op3\n"));
}

#[test]
fn rows_that_change_before_the_product_are_copied() {
    let text =
        "fn @main(%x: f32[9,64], %i: i64[m], %w: f32[64,64], %u: f32[m,64]) -> (%y: f32[9,64]) {
           %y = loop %t trip 5 carry (%a: f32[9,64] = %x) {
             %g = gather(%a, %i, axis=0)
             %at = unsqueeze(%i, axes=[1])
             %b = scatter_nd(%a, %at, dot(%g, %w))
             continue carry %b
           }
           return %y
         }";
    let kinds = on_cpu(text);
    assert!(kinds.contains(&"rows"), "{kinds:?}");
    let text = text.replace(
        "%b = scatter_nd(%a, %at, dot(%g, %w))",
        "%b = scatter_nd(%a, %at, %u)\n%c = dot(%g, %w)\n%d = scatter_nd(%b, %at, %c)",
    );
    let text = text.replace("continue carry %b", "continue carry %d");
    let kinds = on_cpu(&text);
    assert!(!kinds.contains(&"rows"), "{kinds:?}");
}
