//! Contractions of every type and of sizes that fit no tile give what the interpreter gives.

use crate::harness::{Case, drawn_with};
use heddle_emit::{C, write};
use heddle_ir::text::parse;
use heddle_ir::{Datum, Tensor};
use heddle_lower::lower;
use heddle_machine::Machine;
use heddle_runtime::{BuildOptions, Pool, Program, Session};
use heddle_schedule::schedule;
use heddle_uprogram::{UProgram, layout};

fn source(program: &UProgram) -> String {
    let layout = layout(program).expect("a plan");
    write(program, &layout, &C).source
}

const TYPES: [&str; 6] = ["f32", "f64", "i32", "i64", "u32", "u64"];

/// Rows, columns and depth: none, one, primes, more than a block has, deep enough for several
/// parts.
const SIZES: [[i64; 3]; 13] = [
    [0, 5, 3],
    [5, 0, 3],
    [5, 3, 0],
    [1, 1, 1],
    [2, 3, 5],
    [4, 70, 19],
    [7, 17, 13],
    [13, 67, 31],
    [97, 129, 11],
    [8, 64, 64],
    [11, 37, 1031],
    [1, 300, 257],
    [101, 1, 67],
];

fn check(name: &str, text: &str, [m, n, k]: [i64; 3]) {
    let sizes = |size: &str| match size {
        "m" => m,
        "n" => n,
        _ => k,
    };
    let (module, inputs) = drawn_with(name, text, &sizes, 1);
    let name = format!("{name} [{m},{k}] · [{k},{n}]");
    let case = Case::new(&name, module, &inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
    case.check(&name, &BuildOptions::default(), &[1, 2]);
}

#[test]
fn operands_that_the_kernel_packs() {
    for ty in TYPES {
        let text = format!(
            "fn @main(%x: {ty}[m,k], %y: {ty}[k,n], %z: {ty}[n,k], %b: {ty}[3,m,k], %c: {ty}[3,k,n], %d: {ty}[3,n,k], %t: {ty}[k,m]) -> (%p: {ty}[m,n], %q: {ty}[m,n], %r: {ty}[3,m,n], %s: {ty}[3,m,n], %u: {ty}[m,n]) {{
               %p = dot(%x, %y)
               %q = dot(%x, transpose(%z, perm=[1,0]))
               %r = dot(%b, %c)
               %s = dot(%b, transpose(%d, perm=[0,2,1]))
               %u = dot(transpose(%t, perm=[1,0]), %y)
               return %p, %q, %r, %s, %u
             }}"
        );
        SIZES.iter().for_each(|&sizes| check(ty, &text, sizes));
    }
}

#[test]
fn operands_that_are_read_where_they_lie() {
    for ty in TYPES {
        let text = format!(
            "fn @main(%x: {ty}[1,k], %y: {ty}[k,n], %z: {ty}[n,k], %b: {ty}[3,4,k], %c: {ty}[3,k,n], %d: {ty}[3,n,k]) -> (%p: {ty}[1,n], %q: {ty}[1,n], %r: {ty}[3,4,n], %s: {ty}[3,4,n]) {{
               %p = dot(%x, %y)
               %q = dot(%x, transpose(%z, perm=[1,0]))
               %r = dot(%b, %c)
               %s = dot(%b, transpose(%d, perm=[0,2,1]))
               return %p, %q, %r, %s
             }}"
        );
        SIZES.iter().for_each(|&sizes| check(ty, &text, sizes));
    }
}

#[test]
fn weights() {
    for ty in TYPES {
        for (k, n) in [(1, 1), (3, 17), (67, 131), (1031, 33)] {
            let row = |i: usize| {
                let one = |j: usize| ((i * 7 + j * 3) % 11).to_string();
                format!("[{}]", (0..n).map(one).collect::<Vec<_>>().join(", "))
            };
            let rows = (0..k).map(row).collect::<Vec<_>>().join(", ");
            let text = format!(
                "fn @main(%x: {ty}[m,{k}], %v: {ty}[1,{k}]) -> (%p: {ty}[m,{n}], %q: {ty}[1,{n}]) {{
                   %w = const [{rows}]: {ty}[{k},{n}]
                   %p = dot(%x, %w)
                   %q = dot(%v, %w)
                   return %p, %q
                 }}"
            );
            for m in [0, 1, 2, 3, 5, 13, 97] {
                check(ty, &text, [m, n as i64, k as i64]);
            }
        }
    }
}

#[test]
fn matrices_that_are_packed_before_a_loop() {
    for ty in TYPES {
        for (k, n) in [(1, 1), (3, 17), (16, 32), (67, 131), (1031, 33)] {
            // Also transposed, in an arm, by a product whose epilogue gathers rows.
            let text = format!(
                "fn @main(%x: {ty}[m,{k}], %w: {ty}[{k},{n}], %i: i64[m]) -> (%y: {ty}[m,{n}], %z: {ty}[m,{k}]) {{
                   %rows = squeeze(slice(shape(%x), [0], [1], [1], axes=[0]), axes=[0])
                   %j = mod(abs(%i), %rows)
                   %y: {ty}[m,{n}], %z: {ty}[m,{k}] = loop %t trip 3 carry (%a: {ty}[m,{n}] = sub(dot(%x, %w), dot(%x, %w)), %b: {ty}[m,{k}] = %x) {{
                     %c = dot(%b, %w)
                     %d: {ty}[m,{k}] = if eq(%t, 1) {{
                       yield add(dot(%c, transpose(%w, perm=[1,0])), gather(%b, %j, axis=0))
                     }} else {{
                       yield gather(%b, %j, axis=0)
                     }}
                     continue carry add(%a, %c), %d
                   }}
                   return %y, %z
                 }}"
            );
            for m in [0, 1, 5, 97] {
                check(ty, &text, [m, n, k]);
            }
        }
    }
}

#[test]
fn sums_that_stay_as_they_are_go_straight_to_their_place() {
    let straight = |result: &str| {
        let text = format!(
            "fn @main(%x: f32[m,64], %y: f32[64,80]) -> (%p: f32[m,80]) {{
               %p = {result}
               return %p
             }}"
        );
        let module = parse(&text).expect("a program");
        let mut program = lower(&module).expect("a program of uOperators");
        heddle_schedule::fuse(&mut program);
        heddle_schedule::select_kernels(&mut program, &Machine::reference_host(2));
        schedule(&mut program, &Machine::reference_host(2));
        source(&program).contains(" + row * out_row + start, out_row, 0, 0);")
    };
    assert!(straight("dot(%x, %y)"));
    assert!(!straight("neg(dot(%x, %y))"));
}

#[test]
fn few_rows_of_many_are_not_worth_packing_for() {
    let both_ways = |rows: &str, operand: &str| {
        let text = format!(
            "fn @main(%x: f32[{rows},64], %y: f32[64,80], %z: f32[80,64], %t: f32[64,{rows}]) -> (%p: f32[{rows},80]) {{
               %p = dot({operand})
               return %p
             }}"
        );
        let module = parse(&text).expect("a program");
        let mut program = lower(&module).expect("a program of uOperators");
        heddle_schedule::fuse(&mut program);
        heddle_schedule::select_kernels(&mut program, &Machine::reference_host(2));
        schedule(&mut program, &Machine::reference_host(2));
        let source = source(&program);
        let tiles = source.contains("heddle_block_f32(rows,");
        let rows = source.contains("if (last_row - first_row <= 4) {");
        assert!(tiles, "{source}");
        rows
    };
    assert!(both_ways("m", "%x, %y"));
    assert!(both_ways("m", "%x, transpose(%z, perm=[1,0])"));
    // Known to be many; in no even steps along rows of both.
    assert!(!both_ways("40", "%x, %y"));
    assert!(!both_ways(
        "m",
        "transpose(%t, perm=[1,0]), transpose(%z, perm=[1,0])"
    ));
}

/// Sums that others are added to: a whole array of them, a row, a column, rows in turn.
#[test]
fn what_sums_meet_is_asked_for() {
    let text = |result: &str| {
        format!(
            "fn @main(%x: f32[m,k], %y: f32[k,n], %z: f32[m,n], %b: f32[n], %c: f32[m,1], %t: f32[n,m], %s: f32[3,m,n]) -> (%p: f32[m,n]) {{
               %d = dot(%x, %y)
               %p = {result}
               return %p
             }}"
        )
    };
    let asked = |result: &str| {
        let module = parse(&text(result)).expect("a program");
        let mut program = lower(&module).expect("a program of uOperators");
        heddle_schedule::fuse(&mut program);
        heddle_schedule::select_kernels(&mut program, &Machine::reference_host(2));
        schedule(&mut program, &Machine::reference_host(2));
        let source = source(&program);
        source.contains(" + row * beside_row + start, beside_row);")
    };
    let near = [
        "add(%z, %d)",
        "add(mul(%d, %b), %z)",
        "add(gather(%s, 1, axis=0), %d)",
    ];
    let far = [
        "add(%d, %b)",
        "add(%d, %c)",
        "add(%d, transpose(%t, perm=[1,0]))",
        "neg(%d)",
    ];
    for (results, there) in [(&near[..], true), (&far[..], false)] {
        for result in results {
            assert_eq!(asked(result), there, "{result}");
            for sizes in [
                [0, 3, 5],
                [1, 1, 1],
                [7, 17, 13],
                [97, 129, 11],
                [11, 37, 1031],
            ] {
                check(result, &text(result), sizes);
            }
        }
    }
}

/// Products of rows that indices choose. Some repeat, some count from the end; two products read the same rows.
fn gathered(ty: &str, k: i64, n: i64) -> String {
    format!(
        "fn @main(%x: {ty}[v,{k}], %i: i64[m], %w: {ty}[{k},{n}], %u: {ty}[{n},{k}], %c: {ty}[m,{n}], %y: {ty}[3,v,{k}], %j: i64[1]) -> (%p: {ty}[m,{n}], %q: {ty}[m,{n}], %r: {ty}[3,m,{n}], %s: {ty}[1,{n}]) {{
           %rows = squeeze(slice(shape(%x), [0], [1], [1], axes=[0]), axes=[0])
           %places = rem(%i, %rows)
           %g = gather(%x, %places, axis=0)
           %p = dot(%g, %w)
           %q = add(dot(%g, transpose(%u, perm=[1,0])), %c)
           %r = dot(gather(%y, %places, axis=1), %w)
           %s = dot(gather(%x, mod(%j, %rows), axis=0), %w)
           return %p, %q, %r, %s
         }}"
    )
}

#[test]
fn rows_that_indices_choose() {
    let machine = Machine::reference_host(2).with_barrier_ns(0.0);
    let schedule = |program: &mut UProgram| heddle_schedule::schedule(program, &machine);
    for ty in TYPES {
        let few = [(2, 3), (13, 17), (64, 64), (67, 131), (1031, 33)];
        let some = if ty == "f32" { 0..5 } else { 1..2 };
        for &(k, n) in &few[some] {
            let text = gathered(ty, k, n);
            for (m, v) in [
                (0, 1),
                (1, 1),
                (2, 5),
                (5, 3),
                (13, 31),
                (97, 7),
                (101, 101),
            ] {
                let name = format!("{ty} [{m} of {v},{k}] · [{k},{n}]");
                let sizes = |size: &str| if size == "m" { m } else { v };
                let (module, inputs) = drawn_with(&name, &text, &sizes, 1);
                for copies in [false, true] {
                    let case =
                        Case::copying(&name, module.clone(), &inputs, &machine, &schedule, copies);
                    let case = case.unwrap_or_else(|e| panic!("{name}: {e}"));
                    let by_index = case.source.text.contains("heddle_block_of_rows_");
                    assert_eq!(by_index, !copies, "{name}");
                    case.check(&name, &BuildOptions::default(), &[1, 2]);
                }
            }
        }
    }
}

#[test]
fn an_index_out_of_range_stops_a_product_of_rows() {
    let text = gathered("f32", 8, 16).replace("rem(%i, %rows)", "neg(neg(%i))");
    let module = parse(&text).expect("a program");
    let tensor = |shape: &[usize]| {
        let count = shape.iter().product();
        Datum::from(Tensor::from_slice(shape.to_vec(), &vec![1.0f32; count]))
    };
    let inputs = |index: i64| {
        let indices = Tensor::from_slice(vec![3], &[0, index, 4i64]);
        let one = Tensor::from_slice(vec![1], &[0i64]);
        [
            tensor(&[5, 8]),
            indices.into(),
            tensor(&[8, 16]),
            tensor(&[16, 8]),
            tensor(&[3, 16]),
            tensor(&[3, 5, 8]),
            one.into(),
        ]
    };
    let case = Case::new("rows", module.clone(), &inputs(-5)).expect("a program");
    assert!(case.source.text.contains("heddle_block_of_rows_"));
    let program = Program::build(&case.source, &BuildOptions::default()).expect("it builds");
    let pool = Pool::shared(2).expect("threads");
    let mut session = Session::new(program.into(), pool, Default::default());
    for index in [5, -6, i64::MAX, i64::MIN] {
        let data = inputs(index);
        let tensors = data.each_ref().map(|datum| match datum {
            Datum::Tensor(t) => t,
            _ => unreachable!("all are arrays"),
        });
        let dims = tensors.map(|t| t.shape().iter().map(|&d| d as i64).collect::<Vec<_>>());
        let given: Vec<_> = tensors.iter().zip(&dims).collect();
        let given = given.iter().map(|(t, dims)| heddle_runtime::Input {
            data: t.bytes(),
            dims,
        });
        let given: Vec<_> = given.collect();
        let result = session.run(&given, &[5, 3], &Default::default());
        let error = result.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains("out of range"), "{index}: {error}");
    }
}

/// Vectors of 64 bytes, each of which is a panel's row, whatever this processor has.
#[test]
fn long_vectors() {
    let options = BuildOptions {
        extra_flags: vec!["-DHEDDLE_LONG_VECTORS".into(), "-Wno-psabi".into()],
        ..Default::default()
    };
    let text =
        "fn @main(%x: f32[m,k], %y: f32[k,n], %r: f32[m,n]) -> (%p: f32[m,n], %q: f32[m,n]) {
      %p = dot(%x, %y)
      %q = max(add(dot(%x, %y), %r), 0)
      return %p, %q
    }";
    for [m, n, k] in SIZES
        .into_iter()
        .chain([[8, 64, 0], [8, 48, 3000], [16, 16, 2500]])
    {
        let sizes = |size: &str| match size {
            "m" => m,
            "n" => n,
            _ => k,
        };
        let (module, inputs) = drawn_with("long vectors", text, &sizes, 1);
        let name = format!("long vectors [{m},{k}] · [{k},{n}]");
        let case = Case::new(&name, module, &inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
        case.check(&name, &options, &[1, 2]);
    }
}
