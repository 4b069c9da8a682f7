//! Lanes that work on a point together give what the interpreter gives, in all forms, also where a warp or a block has a lane more
//! or less than places, in several orders of threads.

use crate::harness::{Case, drawn, drawn_with};
use heddle_machine::Machine;
use heddle_runtime::Grid;
use heddle_uprogram::contract::Rounding;
use heddle_uprogram::program::{Lanes, Multiplier, Stmt, Sync, Tile, for_each_stmt};

const PROGRAM: &str = "fn @main(%x: f32[n,m], %k: i32[n,m], %d: f64[n,m], %w: f32[m,n], %t: f32[7,m]) -> (%a: f32[n], %b: f32[], %c: i32[n], %e: i64[n], %f: i64[n], %g: f64[n], %h: f32[n,n], %i: f32[n,7], %j: f32[m], %l: i64[], %o: i32[n]) {
  %a = reduce(%x, kind=sum, axes=[1])
  %b = reduce(mul(%x, 0.01), kind=sum, axes=[0,1])
  %c = reduce(%k, kind=max, axes=[1])
  %e = arg_reduce(%x, kind=max, axis=1)
  %f = arg_reduce(mul(%k, %k), kind=min, axis=1, last=true)
  %g = reduce(%d, kind=min, axes=[1])
  %h = tanh(dot(%x, %w))
  %i = dot(%x, transpose(%t, perm=[1,0]))
  %j = reduce(%x, kind=prod, axes=[0])
  %l = arg_reduce(reshape(%d, [-1]), kind=min, axis=0)
  %o = reduce(%k, kind=sum, axes=[1])
  return %a, %b, %c, %e, %f, %g, %h, %i, %j, %l, %o
}
";

/// Rows of a fixed length: chains of a softmax, a normalisation, a single row, and rows of two axes.
pub fn rows(n: usize) -> String {
    format!(
        "fn @main(%x: f32[n,{n}], %v: f32[{n}], %u: f32[n,3,{n}]) -> (%a: f32[n,{n}], %b: f32[n,{n}], %c: f32[n,{n}], %d: i64[n], %f: f32[{n}], %h: f32[n,3,{n}]) {{
  %e = exp(sub(%x, reduce(%x, kind=max, axes=[1], keep=true)))
  %a = div(%e, reduce(%e, kind=sum, axes=[1], keep=true))
  %mean = div(reduce(%x, kind=sum, axes=[1], keep=true), {n}.0)
  %off = sub(%x, %mean)
  %var = div(reduce(mul(%off, %off), kind=sum, axes=[1], keep=true), {n}.0)
  %b = div(%off, sqrt(add(%var, 0.1)))
  %y = exp(%x)
  %c = sub(%y, reduce(%y, kind=min, axes=[1], keep=true))
  %d = arg_reduce(mul(%a, %b), kind=max, axis=1)
  %g = exp(%v)
  %f = div(%g, reduce(%g, kind=sum, axes=[0], keep=true))
  %p = exp(sub(%u, reduce(%u, kind=max, axes=[1,2], keep=true)))
  %h = div(%p, reduce(%p, kind=sum, axes=[1,2], keep=true))
  return %a, %b, %c, %d, %f, %h
}}
"
    )
}

const FORMS: [Lanes; 5] = [
    Lanes::Warp(2),
    Lanes::Warp(32),
    Lanes::Unit(1),
    Lanes::Unit(8),
    Lanes::Unit(32),
];

/// Warps of both kinds, and two orders of threads.
fn grids(blocks: u32, threads: u32) -> Vec<Grid> {
    let wide = if threads.is_multiple_of(64) { 64 } else { 32 };
    let grid = |warp, seed| Grid {
        blocks,
        threads,
        warp,
        cluster: 1,
        seed,
    };
    [(32, 1), (wide, 2), (32, 3)]
        .map(|(warp, seed)| grid(warp, seed))
        .to_vec()
}

fn check(name: &str, text: &str, [blocks, threads]: [u32; 2], size: i64, lanes: Option<Lanes>) {
    let what = format!("{name}, size {size}, {blocks} blocks of {threads}, {lanes:?}");
    let (module, inputs) = drawn(name, text, size, 1);
    let grid = [blocks, threads].map(|n| n as usize);
    let case = Case::joining(&what, module, &inputs, grid, lanes);
    let case = case.unwrap_or_else(|e| panic!("{what}: {e}"));
    let text = &case.source.text;
    match lanes {
        Some(Lanes::Warp(n)) => assert!(text.contains(&format!("heddle_over_warp<{n}>")), "{what}"),
        Some(Lanes::Unit(n)) => assert!(text.contains(&format!("heddle_over_unit<{n}>")), "{what}"),
        Some(Lanes::Tile(_)) => assert!(text.contains("own_column"), "{what}"),
        _ => {}
    }
    assert!(case.check_grids(&what, &grids(blocks, threads)), "{what}");
}

#[test]
fn each_form_of_reductions_and_products() {
    for (k, lanes) in FORMS.into_iter().enumerate() {
        let (threads, size) = ([64, 32, 96][k % 3], [33, 1, 7, 129][k % 4]);
        check("reductions", PROGRAM, [3, threads], size, Some(lanes));
    }
}

#[test]
fn sizes_around_a_warp_and_a_block() {
    for (size, lanes) in [
        (31, Lanes::Warp(32)),
        (64, Lanes::Unit(1)),
        (65, Lanes::Warp(32)),
        (63, Lanes::Unit(1)),
    ] {
        check("reductions", PROGRAM, [2, 64], size, Some(lanes));
    }
}

#[test]
fn each_form_of_rows() {
    for (k, lanes) in FORMS.into_iter().enumerate() {
        let row = [17, 257, 65, 31, 128][k];
        check("rows", &rows(row), [3, 64], 5, Some(lanes));
    }
}

/// Sums, running sums and places of the largest in rows, each of the same row's before, round after round.
pub const SUMS_IN_TURN: &str = "fn @main(%x: f32[n,m], %y: f32[n,m]) -> (%d: f32[n]) {
  %first = reduce(%x, kind=sum, axes=[1], keep=true)
  %three = const 3: i64[]
  %s = loop trip %three carry (%a: f32[n,1] = %first) {
    %b = reduce(mul(%y, mul(%a, 0.1)), kind=sum, axes=[1], keep=true)
    %c = cumulative(add(%x, %b), kind=sum, axis=1, exclusive=false, reverse=false)
    %e = arg_reduce(%c, kind=max, axis=1)
    %f = mul(add(%c, unsqueeze(cast(%e, to=f32), axes=[1])), 0.01)
    %g = reduce(%f, kind=sum, axes=[1], keep=true)
    continue carry %g
  }
  %d = reduce(mul(%y, mul(%s, 0.1)), kind=sum, axes=[1])
  return %d
}
";

/// Lanes of a warp that work on the same points in both wait for each other, not for those of other warps.
#[test]
fn groups_wait_for_their_warp() {
    for (lanes, wait) in [(Lanes::Warp(8), Sync::Warp), (Lanes::Unit(8), Sync::Unit)] {
        for size in [1, 5, 33, 100] {
            let (module, inputs) = drawn("sums", SUMS_IN_TURN, size, 2);
            let case = Case::joining("sums", module, &inputs, [3, 64], Some(lanes));
            let case = case.expect("it is compiled");
            let mut found = vec![];
            for_each_stmt(&case.program.body, &mut |stmt| {
                if let Stmt::Sync(sync) = stmt {
                    found.push(*sync);
                }
            });
            assert!(found.len() > 1, "{found:?}");
            assert!(found.iter().all(|sync| *sync == wait), "{found:?}");
            let what = format!("sums, size {size}, {lanes:?}");
            assert!(case.check_grids(&what, &grids(3, 64)), "{what}");
        }
    }
}

/// Scans of each kind and type, along either axis, in either direction, with and without the own value.
pub const SCANS: &str = "fn @main(%x: f32[n,m], %k: i32[n,m], %d: f64[n,m], %v: f32[m]) -> (%a: f32[n,m], %b: f64[n,m], %c: i32[n,m], %e: f32[n,m], %f: i32[n,m], %g: f32[m], %i: f16[n,m]) {
  %a = cumulative(mul(%x, 0.1), kind=sum, axis=1, exclusive=false, reverse=false)
  %b = cumulative(%d, kind=max, axis=1, exclusive=false, reverse=true)
  %c = cumulative(%k, kind=sum, axis=0, exclusive=true, reverse=true)
  %e = cumulative(%x, kind=prod, axis=0, exclusive=false, reverse=false)
  %f = cumulative(%k, kind=min, axis=1, exclusive=true, reverse=false)
  %g = cumulative(exp(mul(%v, 0.1)), kind=sum, axis=0, exclusive=true, reverse=false)
  %i = cumulative(cast(mul(%x, 0.1), to=f16), kind=sum, axis=1, exclusive=false, reverse=false)
  return %a, %b, %c, %e, %f, %g, %i
}
";

#[test]
fn each_form_of_scans() {
    for (k, lanes) in FORMS.into_iter().enumerate() {
        for size in [[1, 33, 100, 7, 64][k], [65, 2, 31, 129, 32][k]] {
            let threads = [64, 32, 96][k % 3];
            let (module, inputs) = drawn("scans", SCANS, size, 2);
            let case = Case::joining("scans", module, &inputs, [3, threads], Some(lanes));
            let what = format!("scans, size {size}, 3 blocks of {threads}, {lanes:?}");
            let case = case.unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(case.source.text.contains("before = heddle_scan_"), "{what}");
            assert!(case.check_grids(&what, &grids(3, threads as u32)), "{what}");
        }
    }
}

/// One long row is no work of one lane.
#[test]
fn lanes_divide_a_long_row_of_a_scan() {
    let text = "fn @main(%x: f32[5000], %y: f32[2,3]) -> (%a: f32[5000], %b: f32[2,3]) {
  %a = cumulative(mul(%x, 0.01), kind=sum, axis=0, exclusive=false, reverse=false)
  %b = cumulative(%y, kind=sum, axis=0, exclusive=false, reverse=false)
  return %a, %b
}";
    let (module, inputs) = drawn("a row", text, 1, 1);
    let case = Case::joining("a row", module, &inputs, [2, 64], None).expect("it is compiled");
    let text = &case.source.text;
    let forms = text.split("before = heddle_scan_").skip(1);
    let forms: Vec<_> = forms.filter_map(|form| form.split('(').next()).collect();
    assert_eq!(forms, ["unit<1>"]);
    assert!(case.check_grids("a row", &grids(2, 64)));
}

/// Products of matrices: plain, with an epilogue, with either operand transposed, of whole numbers, of many matrices, of rows that indices
/// choose, of half precision, into its own operand, and windows of a convolution.
pub const PRODUCTS: &str = "fn @main(%x: f32[n,m], %w: f32[m,n], %t: f32[19,m], %k: i32[n,m], %u: i32[m,5], %s: f32[3,n,m], %v: f32[3,m,n], %at: i64[7], %f: f32[2,3,n,9], %g: f32[5,3,3,2]) -> (%a: f32[n,n], %b: f32[n,19], %c: f32[m,m], %d: i32[n,5], %e: f32[3,n,n], %h: f32[7,n], %i: f16[n,n], %j: f32[n,n], %l: f32[2,5,n,8]) {
  %a = dot(%x, %w)
  %b = tanh(add(dot(%x, transpose(%t, perm=[1,0])), 1.0))
  %c = dot(transpose(%x, perm=[1,0]), transpose(%w, perm=[1,0]))
  %d = dot(%k, %u)
  %e = dot(%s, %v)
  %h = dot(gather(%t, mod(abs(%at), 19), axis=0), %w)
  %i = dot(cast(%x, to=f16), cast(%w, to=f16))
  %j = add(dot(mul(%x, 0.5), %w), %a)
  %l = conv(%f, %g, [1, 0, 1, 0], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1)
  return %a, %b, %c, %d, %e, %h, %i, %j, %l
}
";

fn of(by: Multiplier, [rows, columns]: [u32; 2], [own_rows, own_columns]: [u32; 2]) -> Lanes {
    Lanes::Tile(Tile {
        rows,
        columns,
        own_rows,
        own_columns,
        by,
    })
}

fn tile(sides: [u32; 2], own: [u32; 2]) -> Lanes {
    of(Multiplier::Lane, sides, own)
}

/// Checks a program in tiles of all forms, also of fewer lanes than a block has, around sizes that are a tile's, one more, one less, or nothing.
fn by_tiles(name: &str, text: &str) {
    for (k, (threads, size, form)) in [
        (64, 33, tile([32, 32], [4, 4])),
        (96, 31, tile([8, 8], [1, 1])),
        (64, 1, tile([64, 8], [2, 4])),
        (32, 65, tile([16, 64], [8, 4])),
        (96, 17, tile([2, 64], [1, 8])),
        (64, 0, tile([32, 16], [4, 2])),
        (128, 16, tile([64, 32], [8, 2])),
    ]
    .into_iter()
    .enumerate()
    {
        let blocks = [3, 1, 2][k % 3];
        check(name, text, [blocks, threads], size, Some(form));
    }
}

#[test]
fn products_by_tiles() {
    by_tiles("products", PRODUCTS);
}

/// Products of operands that lie in memory as tiles share them: the second one in `a`, both in `b`, the second ones of many in `c`.
pub const COPIED: &str = "fn @main(%x: f32[n,37], %w: f32[37,100], %t: f32[37,52], %v: f32[3,n,37], %s: f32[3,37,36]) -> (%a: f32[n,100], %b: f32[52,100], %c: f32[3,n,36]) {
  %a = dot(%x, %w)
  %b = dot(transpose(%t, perm=[1,0]), %w)
  %c = dot(%v, %s)
  return %a, %b, %c
}";

/// The case of a program on two or three blocks of 64 threads.
fn tiled(text: &str, blocks: usize) -> Case {
    let (module, inputs) = drawn("copied", text, 33, 1);
    let form = tile([32, 32], [4, 4]);
    let case = Case::joining("copied", module, &inputs, [blocks, 64], Some(form));
    case.expect("it is compiled")
}

/// Also of units whose first place is no multiple of four, as with three blocks, and of the last places.
#[test]
fn operands_are_copied() {
    by_tiles("copied", COPIED);
    let copied = tiled(COPIED, 3);
    let own = copied.own_text();
    // Fours and single elements: of both operands of one product, and of one of the others.
    assert_eq!(own.matches("heddle_copy_async(").count(), 2 * 4, "{own}");
    for odd in [
        COPIED
            .replace("100]", "99]")
            .replace("52", "51")
            .replace("36]", "35]"),
        COPIED.replace("f32", "f64"),
    ] {
        let odd = tiled(&odd, 3);
        let own = odd.own_text();
        assert!(!own.contains("heddle_copy_async("), "{own}");
    }
}

/// Without the wait, lanes read what is still to be copied.
#[test]
fn copies_are_waited_for() {
    let mut case = tiled(COPIED, 2);
    let own = case.own_text();
    assert!(own.contains("heddle_copy_wait(0);"), "{own}");
    case.source.text = case.source.text.replace("heddle_copy_wait(0);", "");
    let error = case.error_on("copied", grids(2, 64)[0]);
    assert!(error.to_string().contains("asynchronous cop"), "{error}");
}

/// Products whose operands are numbers of bf16, which are numbers of tf32, too, and of f16 if they are not very small.
fn exact() -> String {
    let names = ["x", "w", "t", "s", "v", "f", "g"];
    let given = names.iter().fold(PRODUCTS.to_owned(), |text, name| {
        text.replace(&format!("%{name}: f32["), &format!("%{name}0: f32["))
    });
    let (head, body) = given.split_once("{\n").expect("a function");
    let casts = names.map(|name| format!("  %{name} = cast(cast(%{name}0, to=bf16), to=f32)\n"));
    format!("{head}{{\n{}{body}", casts.concat())
}

/// Checks a program in tiles of tensor cores in three orders of threads. `word` begins those that multiply.
fn by_cores(text: &str, [threads, size]: [u32; 2], lanes: Lanes, to: Rounding, word: &str) {
    let what = format!("{}, size {size}, {threads} lanes, {lanes:?}", to.name());
    let (module, inputs) = drawn("cores", text, size.into(), 1);
    let grid = [2, threads as usize];
    let case = Case::rounding("cores", module, &inputs, grid, (Some(lanes), Some(to)));
    let case = case.unwrap_or_else(|e| panic!("{what}: {e}"));
    let own = case.own_text();
    let word = format!("{word}{}(", to.name());
    assert!(own.contains(&word), "{what}: {own}");
    let grids = [1, 2, 3].map(|seed| Grid {
        blocks: 2,
        threads,
        warp: 32,
        cluster: 1,
        seed,
    });
    assert!(case.check_grids(&what, &grids), "{what}");
}

/// Tensor cores multiply numbers that they do not have to round as lanes do: warps of one rectangle and of several, also where a block has
/// more warps than a tile.
#[test]
fn products_by_tensor_cores() {
    for (k, (threads, size, sides, own)) in [
        (32, 33, [16, 8], [16, 8]),
        (64, 31, [32, 16], [16, 16]),
        (128, 70, [64, 32], [32, 16]),
        (96, 16, [16, 32], [16, 16]),
        (64, 1, [64, 8], [32, 8]),
        (32, 0, [16, 64], [16, 64]),
        (64, 49, [32, 64], [16, 64]),
    ]
    .into_iter()
    .enumerate()
    {
        let lanes = of(Multiplier::Warp, sides, own);
        let to = Rounding::ALL[k % 3];
        by_cores(&exact(), [threads, size], lanes, to, "heddle_mma_");
    }
}

/// The same by warpgroups.
#[test]
fn products_by_warpgroups() {
    for (k, (threads, size, sides, own)) in [
        (128, 33, [64, 8], [64, 8]),
        (256, 129, [128, 64], [64, 64]),
        (384, 65, [64, 64], [64, 32]),
        (256, 70, [64, 256], [64, 128]),
        (128, 1, [128, 128], [128, 128]),
        (128, 0, [64, 16], [64, 16]),
        (256, 63, [256, 16], [128, 16]),
        (128, 64, [64, 64], [64, 64]),
    ]
    .into_iter()
    .enumerate()
    {
        let lanes = of(Multiplier::Warpgroup, sides, own);
        let to = Rounding::ALL[k % 3];
        by_cores(&exact(), [threads, size], lanes, to, "heddle_wgmma_");
    }
}

/// Rows around a warpgroup's, depths around an instruction's, and columns that fill no tile.
#[test]
fn warpgroups_multiply_odd_sizes() {
    let sizes = [
        [63, 7, 8],
        [64, 1, 24],
        [65, 17, 1],
        [127, 8, 100],
        [129, 17, 24],
        [129, 33, 100],
    ];
    // Quarters are numbers of all types.
    let lines = sizes.iter().enumerate();
    let (mut parameters, mut results, mut body, mut names) = (vec![], vec![], vec![], vec![]);
    for (k, [rows, depth, columns]) in lines {
        parameters.push(format!(
            "%a{k}: f32[{rows},{depth}], %b{k}: f32[{depth},{columns}], %c{k}: f32[{columns}]"
        ));
        results.push(format!("%y{k}: f32[{rows},{columns}]"));
        body.push(format!(
            "  %x{k} = mul(floor(mul(%a{k}, 4.0)), 0.25)
  %w{k} = mul(floor(mul(%b{k}, 4.0)), 0.25)
  %y{k} = tanh(add(dot(%x{k}, %w{k}), %c{k}))
"
        ));
        names.push(format!("%y{k}"));
    }
    let text = format!(
        "fn @main({}) -> ({}) {{\n{}  return {}\n}}\n",
        parameters.join(", "),
        results.join(", "),
        body.concat(),
        names.join(", ")
    );
    for (to, threads, sides, own) in [
        (Rounding::Tf32, 256, [128, 64], [64, 64]),
        (Rounding::Bf16, 256, [64, 128], [64, 64]),
        (Rounding::F16, 128, [128, 32], [128, 32]),
    ] {
        let lanes = of(Multiplier::Warpgroup, sides, own);
        by_cores(&text, [threads, 1], lanes, to, "heddle_wgmma_");
    }
}

/// The simulator stops a run that writes operands before they were multiplied, and one whose tensor cores may not see them.
#[test]
fn products_of_warpgroups_are_waited_for() {
    let text = "fn @main(%x: f32[n,m], %w: f32[m,n]) -> (%y: f32[n,n]) {
  return dot(%x, %w)
}
";
    let lanes = of(Multiplier::Warpgroup, [64, 64], [64, 64]);
    for word in [
        "heddle_wgmma_open();",
        "heddle_wgmma_shared();",
        "heddle_wgmma_wait(sum);",
    ] {
        let (module, inputs) = drawn("waits", text, 100, 1);
        let forms = (Some(lanes), Some(Rounding::Tf32));
        let case = Case::rounding("waits", module, &inputs, [1, 128], forms);
        let mut case = case.expect("it is compiled");
        let own = case.own_text();
        assert_eq!(own.matches(word).count(), 1, "{own}");
        // Barriers alone let the next round write over what is still read.
        let moved = match word {
            "heddle_wgmma_wait(sum);" => "if (ahead >= depth) heddle_wgmma_wait(sum);",
            _ => "",
        };
        case.source.text = case.source.text.replace(word, moved);
        let error = case.error_on("waits", grids(1, 128)[0]).to_string();
        assert!(error.contains("asynchronous product"), "{word}: {error}");
    }
}

/// A reduction of short rows, of which there are many.
const SHORT: &str = "fn @main(%x: f32[4096,3]) -> (%y: f32[4096]) {
  %y = reduce(%x, kind=sum, axes=[1])
  return %y
}
";

/// The scheduler has lanes work together on long rows and on a whole array, and apart on many short rows.
#[test]
fn what_is_chosen() {
    for (program, size, joined) in [(PROGRAM, 200, true), (SHORT, 1, false)] {
        let (module, inputs) = drawn("reductions", program, size, 1);
        let case = Case::simulated("reductions", module, &inputs, 3).expect("it is compiled");
        let own = case
            .source
            .text
            .rfind("HEDDLE_PROGRAM(")
            .expect("a program");
        let own = &case.source.text[own..];
        assert_eq!(own.contains("heddle_over_"), joined, "size {size}: {own}");
        assert!(case.check_grids("chosen", &grids(3, 64)));
    }
}

/// A point with one element has no axis to divide, and lanes that take it together must not add it up.
#[test]
fn single_elements_are_counted_once() {
    let text = "fn @main(%x: f32[n,1,2], %m: f32[1,3,4,n], %v: f32[3,1,1,1]) -> (%a: f32[n,2], %b: f32[n,2], %c: f32[1,3,2,?], %d: f32[1,2]) {
  %a = reduce(%x, kind=sum, axes=[1])
  %b = tanh(reduce(add(%x, 1), kind=prod, axes=[1]))
  %c = conv(%m, %v, [0, 0, 0, 0], strides=[2,2], dilations=[1,1], input_dilations=[1,1], groups=3)
  %d = reduce(%x, kind=sum, axes=[0])
  return %a, %b, %c, %d
}
";
    for lanes in [None, Some(Lanes::Warp(2)), Some(Lanes::Unit(4))] {
        check("single elements", text, [3, 64], 100, lanes);
    }
}

/// Elements of 16 bits, all negative, in rows that are shorter than a group.
#[test]
fn best_elements_of_half_precision() {
    let text = "fn @main(%x: f32[n,k], %y: f32[n,3]) -> (%a: i64[n], %b: i64[n], %c: i64[n]) {
  %low = sub(neg(abs(%x)), 1)
  %a = arg_reduce(cast(%low, to=f16), kind=max, axis=1)
  %b = arg_reduce(cast(%low, to=bf16), kind=min, axis=1)
  %c = arg_reduce(cast(sub(neg(abs(%y)), 1), to=f16), kind=max, axis=1)
  return %a, %b, %c
}
";
    for lanes in FORMS {
        check("half precision", text, [2, 64], 20, Some(lanes));
    }
}

#[test]
fn empty_reductions_have_their_neutral_element() {
    let text = "fn @main(%x: f32[n,m], %k: i32[n,m]) -> (%a: f32[n], %b: i32[], %c: f32[n]) {
  %a = reduce(%x, kind=sum, axes=[1])
  %b = reduce(%k, kind=sum, axes=[0,1])
  %c = reduce(%x, kind=prod, axes=[1])
  return %a, %b, %c
}
";
    for lanes in [Lanes::Warp(32), Lanes::Unit(4)] {
        let sizes = |size: &str| if size == "m" { 0 } else { 5 };
        let (module, inputs) = drawn_with("empty", text, &sizes, 1);
        let case = Case::joining("empty", module, &inputs, [2, 64], Some(lanes));
        let case = case.expect("it is compiled");
        assert!(case.check_grids("empty", &grids(2, 64)), "{lanes:?}");
    }
}

/// A row that lanes read in another order than they wrote it: `PLACE` is read at `%i1`.
const EXCHANGED: &str = "local %i0: i64 axis
local %i1: i64 axis

buffer b0: f32[68] input \"x\"
buffer b1: f32[17] shared \"row\"
buffer b2: f32[68] output \"y\"

input \"x\" b0 [4, 17]
output \"y\" b2 [4, 17]

operator op0 \"reversed\" [%i0 < 4] split %i0 lanes LANES {
  chain over [%i1 < 17] {
    step \"row\" over [%i1 < 17] {
      b1[%i1] = exp.f32(b0[%i0 * 17 + %i1])
    }
    step \"reversed\" over [%i1 < 17] {
      b2[%i0 * 17 + %i1] = b1[PLACE]
    }
  }
}

main {
  run op0
}
";

/// One barrier before the row of the point before is written over, one before it is read.
#[test]
fn lanes_wait_for_what_others_wrote_to_a_row() {
    for (lanes, sync, others) in [
        ("warp 8", "HEDDLE_WARP_SYNC;", 0),
        // And one before anything is written.
        ("unit 2", "HEDDLE_UNIT_SYNC;", 1),
    ] {
        for (place, count) in [("%i1", 0), ("16 - %i1", 2)] {
            let text = EXCHANGED.replace("LANES", lanes).replace("PLACE", place);
            let program = heddle_uprogram::text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
            let layout = heddle_uprogram::layout(&program).expect("a plan");
            let text = heddle_emit::write(&program, &layout, &heddle_emit::CUDA).source;
            let own = &text[text.rfind("HEDDLE_PROGRAM(").expect("a program")..];
            let found = own.matches(sync).count();
            assert_eq!(found, count + others, "{lanes}, {place}: {own}");
        }
    }
}

/// An operator whose shares begin at another unit has the same function, which is called with this unit's number from there.
#[test]
fn a_function_does_not_know_where_shares_begin() {
    let texts = ["from 0", "from 1", "from 3"].map(|from| {
        let text = EXCHANGED.replace("lanes LANES", &format!("{from} lanes unit 2"));
        let text = text.replace("PLACE", "16 - %i1");
        let program = heddle_uprogram::text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        let layout = heddle_uprogram::layout(&program).expect("a plan");
        let text = heddle_emit::write(&program, &layout, &heddle_emit::CUDA).source;
        text[text.rfind("HEDDLE_PROGRAM(").expect("a program")..].to_string()
    });
    let calls = [
        "worker",
        "heddle_from(worker, workers, 1)",
        "heddle_from(worker, workers, 3)",
    ];
    for (text, unit) in texts.iter().zip(calls) {
        assert!(
            text.contains(&format!("op0(env, {unit}, workers, ")),
            "{text}"
        );
        assert_eq!(text.replace(unit, "worker"), texts[0]);
    }
}

/// The prelude has as much memory for rows as the scheduler fills on any machine.
#[test]
fn rows_have_the_room_that_machines_promise() {
    let mut defined = heddle_emit::CUDA.routines.lines();
    let words = defined.find_map(|line| line.strip_prefix("#define HEDDLE_ROW_WORDS "));
    let bytes = 4 * words
        .and_then(|n| n.parse::<usize>().ok())
        .expect("a number");
    let machines = [Machine::h100(), Machine::h200(), Machine::mi300x()];
    for machine in machines {
        let exchange = machine.exchange.expect("lanes of a GPU exchange values");
        assert_eq!(exchange.shared_bytes, bytes);
        assert_eq!(4 * Tile::WORDS as usize, bytes);
    }
}
