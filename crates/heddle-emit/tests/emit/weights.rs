//! Products with weights in fewer bytes give what the interpreter gives with rounded weights.

use crate::harness::{Case, drawn_with};
use heddle_ir::DType;
use heddle_runtime::BuildOptions;
use heddle_uprogram::contract::NARROW;

/// A constant of this shape with numbers that no narrow type holds.
fn constant(shape: &[usize]) -> String {
    fn nested(shape: &[usize], next: &mut usize) -> String {
        let Some((&size, rest)) = shape.split_first() else {
            *next += 1;
            return format!("{:?}", (*next * 7919 % 1009) as f32 / 517.0 - 0.9);
        };
        let parts: Vec<String> = (0..size).map(|_| nested(rest, next)).collect();
        format!("[{}]", parts.join(", "))
    }
    let dims: Vec<String> = shape.iter().map(usize::to_string).collect();
    format!("const {}: f32[{}]", nested(shape, &mut 0), dims.join(","))
}

/// Vectors of 64 bytes, each of which is a panel's row, whatever this processor has.
fn long_vectors() -> BuildOptions {
    BuildOptions {
        extra_flags: vec!["-DHEDDLE_LONG_VECTORS".into(), "-Wno-psabi".into()],
        ..Default::default()
    }
}

/// Checks a program with weights in each of these types, some of which a product reads.
fn check(name: &str, text: &str, rows: i64, types: &[DType]) {
    for &stored in types {
        let name = format!("{name}, {rows} rows, in {stored}");
        let case = narrowed(&name, text, rows, stored);
        let kernel = format!("_f32_{stored}(");
        assert!(
            case.source.text.contains(&kernel),
            "{name} has wide weights"
        );
        case.check(&name, &BuildOptions::default(), &[1, 2]);
    }
}

fn narrowed(name: &str, text: &str, rows: i64, stored: DType) -> Case {
    let (module, inputs) = drawn_with(name, text, &|_| rows, 1);
    let case = Case::narrowed(name, module, &inputs, stored);
    case.unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Each size in bytes, and in one of the types of 16 bits.
#[test]
fn products_of_any_size() {
    for (i, (k, n)) in [
        (2, 8),
        (3, 17),
        (4, 16),
        (5, 67),
        (6, 33),
        (67, 131),
        (1031, 33),
    ]
    .into_iter()
    .enumerate()
    {
        let text = format!(
            "fn @main(%x: f32[m,{k}], %v: f32[1,{k}], %t: f32[{k},m], %b: f32[{n}]) -> (%p: f32[m,{n}], %q: f32[1,{n}], %r: f32[m,{n}]) {{
               %w = {}
               %p = dot(%x, %w)
               %q = tanh(add(dot(%v, %w), %b))
               %r = dot(transpose(%t, perm=[1,0]), %w)
               return %p, %q, %r
             }}",
            constant(&[k, n])
        );
        let types = [[DType::Bf16, DType::F16][i % 2], DType::I8];
        for rows in [0, 1, 2, 3, 5, 13, 97] {
            check(&format!("[{k},{n}]"), &text, rows, &types);
        }
    }
}

#[test]
fn products_by_long_vectors() {
    for ((k, n), stored) in [(3, 17), (7, 32), (67, 131)].into_iter().zip(NARROW) {
        let text = format!(
            "fn @main(%x: f32[m,{k}]) -> (%p: f32[m,{n}]) {{
               return dot(%x, {})
             }}",
            constant(&[k, n])
        );
        for rows in [1, 3, 8, 97] {
            let name = format!("[{k},{n}], {rows} rows, in {stored} by long vectors");
            narrowed(&name, &text, rows, stored).check(&name, &long_vectors(), &[1, 2]);
        }
    }
}

/// Transposed weights, one matrix for each batch, rows that indices choose, a first operand of constants, and one constant that
/// products read with other columns.
#[test]
fn products_of_any_form() {
    let text = format!(
        "fn @main(%x: f32[m,13], %b: f32[3,m,13], %i: i64[m], %c: f32[37,3]) -> (%p: f32[m,37], %q: f32[3,m,21], %r: f32[m,37], %s: f32[13,3], %u: f32[m,13]) {{
           %w = {}
           %many = {}
           %last = {}
           %rows = squeeze(slice(shape(%x), [0], [1], [1], axes=[0]), axes=[0])
           %p = dot(%x, transpose(%w, perm=[1,0]))
           %q = dot(%b, %many)
           %r = dot(gather(%x, mod(abs(%i), %rows), axis=0), transpose(%w, perm=[1,0]))
           %s = dot(%last, %c)
           %u = dot(dot(%x, transpose(%w, perm=[1,0])), %w)
           return %p, %q, %r, %s, %u
         }}",
        constant(&[37, 13]),
        constant(&[3, 13, 21]),
        constant(&[13, 37]),
    );
    for rows in [1, 2, 19, 101] {
        check("forms", &text, rows, &NARROW);
    }
}

/// Weights are read in loops, in arms of branches, and in functions that recurse.
#[test]
fn control_flow() {
    let text = format!(
        "fn @main(%x: f32[m,16], %n: i64[]) -> (%y: f32[m,16], %z: f32[m,16]) {{
           %k = mod(abs(%n), 5)
           %y = loop %i trip 7 carry (%h: f32[m,16] = %x) {{
             %w = {0}
             %even = eq(mod(%i, 2), 0)
             %next: f32[m,16] = if %even {{
               yield tanh(dot(%h, %w))
             }} else {{
               yield sigmoid(dot(%h, transpose(%w, perm=[1,0])))
             }}
             continue carry %next
           }}
           %z = call @down(%x, %k)
           return %y, %z
         }}

         fn @down(%x: f32[m,16], %n: i64[]) -> (%y: f32[m,16]) {{
           %y: f32[m,16] = if gt(%n, 0) {{
             %below = call @down(tanh(%x), sub(%n, 1))
             %w = {0}
             yield tanh(dot(%below, %w))
           }} else {{
             yield %x
           }}
           return %y
         }}",
        constant(&[16, 16])
    );
    for rows in [1, 5] {
        check("control flow", &text, rows, &NARROW);
    }
}

#[test]
fn weights_take_fewer_bytes() {
    let text = format!(
        "fn @main(%x: f32[1,64]) -> (%p: f32[1,256]) {{
           return dot(%x, {})
         }}",
        constant(&[64, 256])
    );
    let (module, inputs) = drawn_with("wide", &text, &|_| 1, 1);
    let wide = Case::new("wide", module, &inputs).unwrap_or_else(|e| panic!("{e}"));
    let others = wide.constant_bytes() - 4 * 64 * 256;
    for (stored, each, scales) in [(DType::Bf16, 2, 0), (DType::F16, 2, 0), (DType::I8, 1, 256)] {
        let narrow = narrowed("narrow", &text, 1, stored).constant_bytes();
        assert_eq!(narrow - others, each * 64 * 256 + 4 * scales, "{stored}");
    }
}
