//! Each op against values computed by hand: odd sizes, empty arrays, rank 0, and the edges of its definition.

use crate::common::{self, evaluate, fails, gives};
use heddle_ir::{Datum, Tensor};

#[test]
fn integer_arithmetic() {
    gives(
        "add([2147483647, 1]: i32, [1, 2]: i32)",
        "[-2147483648, 3]: i32[2]",
    );
    gives("sub([0]: u8, [1]: u8)", "[255]: u8[1]");
    gives(
        "div([7, -7, 3, -128]: i8, [2, 2, 0, -1]: i8)",
        "[3, -3, 0, -128]: i8[4]",
    );
    gives(
        "mod([7, -7, 7, -7, 5]: i64, [3, 3, -3, -3, 0]: i64)",
        "[1, 2, -2, -1, 0]: i64[5]",
    );
    gives(
        "rem([7, -7, 7, -7, 5]: i64, [3, 3, -3, -3, 0]: i64)",
        "[1, -1, 1, -1, 0]: i64[5]",
    );
    gives(
        "pow([2, 3, -1, 2]: i32, [10, 0, -3, -1]: i32)",
        "[1024, 1, -1, 0]: i32[4]",
    );
    gives("shl([1, 1]: u8, [7, 8]: u8)", "[128, 0]: u8[2]");
    gives("shr([-1, -1]: i8, [1, -1]: i8)", "[127, 0]: i8[2]");
    gives("neg([-128]: i8)", "[-128]: i8[1]");
    gives("abs([-128, -3]: i8)", "[-128, 3]: i8[2]");
    gives("not([0, 5]: u8)", "[255, 250]: u8[2]");
    gives("sign([-5, 0, 7]: i32)", "[-1, 0, 1]: i32[3]");
}

#[test]
fn float_arithmetic() {
    gives(
        "max([nan, 1.0, 2.0]: f32, [0.0, nan, 3.0]: f32)",
        "[nan, nan, 3.0]: f32[3]",
    );
    gives(
        "min([nan, 1.0, 2.0]: f32, [0.0, nan, 3.0]: f32)",
        "[nan, nan, 2.0]: f32[3]",
    );
    gives(
        "div([1.0, -1.0, 0.0]: f64, [0.0, 0.0, 0.0]: f64)",
        "[inf, -inf, nan]: f64[3]",
    );
    gives(
        "mod([5.5, -5.5, 5.5]: f32, [2.0, 2.0, -2.0]: f32)",
        "[1.5, 0.5, -0.5]: f32[3]",
    );
    gives(
        "rem([5.5, -5.5, 5.5]: f32, [2.0, 2.0, -2.0]: f32)",
        "[1.5, -1.5, 1.5]: f32[3]",
    );
    gives(
        "round([0.5, 1.5, 2.5, -0.5]: f32)",
        "[0.0, 2.0, 2.0, -0.0]: f32[4]",
    );
    gives("trunc([-1.7, 1.7]: f64)", "[-1.0, 1.0]: f64[2]");
    gives("sign([nan, -2.0, 0.0]: f32)", "[nan, -1.0, 0.0]: f32[3]");
    gives(
        "sigmoid([-1000.0, 0.0, 1000.0]: f32)",
        "[0.0, 0.5, 1.0]: f32[3]",
    );
    gives(
        "is_inf([-inf, inf, nan, 1.0]: f32)",
        "[true, true, false, false]: bool[4]",
    );
    gives("is_nan([-inf, nan]: f16)", "[false, true]: bool[2]");
    gives("erf([0.0, inf, -inf]: f32)", "[0.0, 1.0, -1.0]: f32[3]");
}

#[test]
fn sixteen_bit_floats_round_once() {
    // 2048 + 1 is a tie that goes to even; 65504 + 16 overflows only after rounding.
    gives(
        "add([2048.0, 65504.0, 65504.0]: f16, [1.0, 15.0, 16.0]: f16)",
        "[2048.0, 65504.0, inf]: f16[3]",
    );
    // Summed in f32: the ones are not lost one by one.
    gives(
        "reduce([2048.0, 1.0, 1.0]: f16, kind=sum, axes=[0])",
        "2050.0: f16[]",
    );
    gives("add([256.0]: bf16, [1.0]: bf16)", "[256.0]: bf16[1]");
    // 1 + 2^-11 + 2^-26 is just above a tie of f16, which f32 would hide.
    gives(
        "cast([1.00048829615116119384765625]: f64, to=f16)",
        "[1.0009765625]: f16[1]",
    );
}

#[test]
fn logic_and_comparison() {
    gives(
        "and([true, true]: bool, [true, false]: bool)",
        "[true, false]: bool[2]",
    );
    gives(
        "max([false, true]: bool, [false, false]: bool)",
        "[false, true]: bool[2]",
    );
    gives(
        "lt([nan, 1.0]: f32, [1.0, 2.0]: f32)",
        "[false, true]: bool[2]",
    );
    gives(
        "ne([nan, 1.0]: f32, [nan, 1.0]: f32)",
        "[true, false]: bool[2]",
    );
    gives(
        "eq([\"a\", \"b\"]: str, [\"a\", \"c\"]: str)",
        "[true, false]: bool[2]",
    );
    gives(
        "select([true, false]: bool, [[1], [2]]: i32, 0: i32)",
        "[[1, 0], [2, 0]]: i32[2,2]",
    );
    gives(
        "select(true, \"x\": str, [\"y\", \"z\"]: str)",
        "[\"x\", \"x\"]: str[2]",
    );
}

#[test]
fn broadcasting() {
    gives(
        "add([[1, 2, 3]]: i32, [[10], [20]]: i32)",
        "[[11, 12, 13], [21, 22, 23]]: i32[2,3]",
    );
    gives("add(1: i32, [1, 2]: i32)", "[2, 3]: i32[2]");
    gives("add([]: f32[0,1], [1.0, 2.0]: f32)", "[]: f32[0,2]");
    gives(
        "broadcast([[1], [2]]: i32, [3, 1, 2])",
        "[[[1,1],[2,2]],[[1,1],[2,2]],[[1,1],[2,2]]]: i32[3,2,2]",
    );
    gives("broadcast([1, 2]: i32, [1])", "[1, 2]: i32[2]");
}

#[test]
fn shapes() {
    gives("shape([[1, 2, 3]]: i8)", "[1, 3]: i64[2]");
    gives("shape(1.0: f32)", "[]: i64[0]");
    gives(
        "reshape([1, 2, 3, 4, 5, 6]: i32, [2, -1])",
        "[[1, 2, 3], [4, 5, 6]]: i32[2,3]",
    );
    gives("reshape([]: i32[0,3], [3, -1])", "[]: i32[3,0]");
    gives(
        "transpose([[1, 2, 3], [4, 5, 6]]: i32, perm=[1, 0])",
        "[[1, 4], [2, 5], [3, 6]]: i32[3,2]",
    );
    gives(
        "unsqueeze([1, 2]: i32, axes=[0, 2])",
        "[[[1], [2]]]: i32[1,2,1]",
    );
    gives("squeeze([[[1], [2]]]: i32, axes=[0, 2])", "[1, 2]: i32[2]");
    gives(
        "concat([[1], [2]]: u8, []: u8[2,0], [[3, 4], [5, 6]]: u8, axis=1)",
        "[[1, 3, 4], [2, 5, 6]]: u8[2,3]",
    );
}

#[test]
fn slices() {
    let x = "[0, 1, 2, 3, 4, 5, 6]: i32";
    gives(
        &format!("slice({x}, [-3], [100], [1], axes=[0])"),
        "[4, 5, 6]: i32[3]",
    );
    gives(
        &format!("slice({x}, [6], [-100], [-2], axes=[0])"),
        "[6, 4, 2, 0]: i32[4]",
    );
    gives(
        &format!("slice({x}, [1], [6], [3], axes=[0])"),
        "[1, 4]: i32[2]",
    );
    gives(
        &format!("slice({x}, [5], [2], [1], axes=[0])"),
        "[]: i32[0]",
    );
    gives(
        &format!("slice({x}, [0], [7], [9223372036854775807], axes=[0])"),
        "[0]: i32[1]",
    );
    gives(
        &format!("slice({x}, [6], [-9223372036854775808], [-9223372036854775808], axes=[0])"),
        "[6]: i32[1]",
    );
    gives(
        "slice([[1, 2, 3], [4, 5, 6]]: i32, [1, 0], [2, 3], [1, 2], axes=[0, 1])",
        "[[4, 6]]: i32[1,2]",
    );
    gives(
        "slice([[1, 2, 3], [4, 5, 6]]: i32, [-1], [-9], [-1], axes=[1])",
        "[[3, 2, 1], [6, 5, 4]]: i32[2,3]",
    );
    gives(
        "slice([]: i32[0,3], [2], [-9], [-1], axes=[0])",
        "[]: i32[0,3]",
    );
}

#[test]
fn pads() {
    let x = "[[1, 2, 3], [4, 5, 6]]: i32";
    gives(
        &format!("pad({x}, [1, 0, 0, 1], 9)"),
        "[[9,9,9,9],[1,2,3,9],[4,5,6,9]]: i32[3,4]",
    );
    gives(
        &format!("pad({x}, [0, -1, 0, -1], 9)"),
        "[[2],[5]]: i32[2,1]",
    );
    gives(
        &format!("pad({x}, [-1, 2, 1, -2], 9)"),
        "[[9,9,4],[9,9,9]]: i32[2,3]",
    );
    gives(
        &format!("pad({x}, [-5, 0, 6, 0], 9)"),
        "[[9,9,9],[9,9,9],[9,9,9]]: i32[3,3]",
    );
    gives(
        "pad([1, 2, 3]: i32, [4, 5], 0, mode=reflect)",
        "[1,2,3,2,1,2,3,2,1,2,3,2]: i32[12]",
    );
    gives(
        "pad([1, 2, 3]: i32, [2, -1], 0, mode=edge)",
        "[1,1,1,2]: i32[4]",
    );
    gives(
        "pad([1, 2, 3]: i32, [4, 1], 0, mode=wrap)",
        "[3,1,2,3,1,2,3,1]: i32[8]",
    );
    gives("pad([7]: i32, [1, 1], 0, mode=reflect)", "[7,7,7]: i32[3]");
    gives(
        "pad([]: f32[0,2], [1, 0, 0, 0], 5.0)",
        "[[5.0, 5.0]]: f32[1,2]",
    );
}

#[test]
fn gathering() {
    let x = "[[1, 2, 3], [4, 5, 6]]: i32";
    gives(
        &format!("gather({x}, [[0, -1], [1, 1]], axis=1)"),
        "[[[1,3],[2,2]],[[4,6],[5,5]]]: i32[2,2,2]",
    );
    gives(&format!("gather({x}, 1, axis=0)"), "[4, 5, 6]: i32[3]");
    gives("gather([]: f32[0,2], []: i64[0], axis=0)", "[]: f32[0,2]");
    gives(
        &format!("gather_elements({x}, [[2, 0], [-1, 1]], axis=1)"),
        "[[3, 1], [6, 5]]: i32[2,2]",
    );
    gives(
        &format!("gather_elements({x}, [[1, 0, 1]], axis=0)"),
        "[[4, 2, 6]]: i32[1,3]",
    );
    gives(
        &format!("gather_nd({x}, [[0, 1], [-1, -1]])"),
        "[2, 6]: i32[2]",
    );
    gives(
        &format!("gather_nd({x}, [[1], [0]])"),
        "[[4,5,6],[1,2,3]]: i32[2,3]",
    );
    gives(
        &format!("gather_nd({x}, [[2], [0]], batch_dims=1)"),
        "[3, 4]: i32[2]",
    );
}

#[test]
fn scattering() {
    let x = "[[1, 2, 3], [4, 5, 6]]: i32";
    gives(
        &format!("scatter_elements({x}, [[0, -1]], [[10, 20]], axis=1)"),
        "[[10,2,20],[4,5,6]]: i32[2,3]",
    );
    gives(
        &format!("scatter_elements({x}, [[1, 1, 1]], [[1, 1, 1]], axis=0, reduce=add)"),
        "[[1,2,3],[5,6,7]]: i32[2,3]",
    );
    gives(
        "scatter_elements([5]: i32, [0, 0], [7, 6], axis=0, reduce=max)",
        "[7]: i32[1]",
    );
    gives(
        "scatter_elements([5]: i32, [0, 0], [7, 6], axis=0)",
        "[6]: i32[1]",
    );
    gives(
        &format!("scatter_nd({x}, [[1], [0]], [[1,1,1],[2,2,2]], reduce=once)"),
        "[[2,2,2],[1,1,1]]: i32[2,3]",
    );
    fails(
        "fn @main(%x: i32[4]) -> (%y: i32[4]) {
           return scatter_elements(%x, [2, 0, -2, 1], %x, axis=0, reduce=once)
         }",
        &[Datum::from(Tensor::from_slice(vec![4], &[1i32, 2, 3, 4]))],
        "two updates of element 2",
    );
    gives(
        &format!("scatter_nd({x}, [[1], [1]], [[1,1,1],[2,2,2]], reduce=mul)"),
        "[[1,2,3],[8,10,12]]: i32[2,3]",
    );
    gives(
        &format!("scatter_nd({x}, [[0, -1]], [9])"),
        "[[1,2,9],[4,5,6]]: i32[2,3]",
    );
    gives(
        &format!("update_slice({x}, [[8],[9]], [0, 1])"),
        "[[1,8,3],[4,9,6]]: i32[2,3]",
    );
    gives("update_slice(3: i32, 4: i32, []: i64[0])", "4: i32[]");
}

#[test]
fn ranges_and_nonzero() {
    gives("range(1: i32, 10: i32, 4: i32)", "[1, 5, 9]: i32[3]");
    gives("range(10: i8, 1: i8, -3: i8)", "[10, 7, 4]: i8[3]");
    gives("range(1: i64, 1: i64, 1: i64)", "[]: i64[0]");
    gives("range(0: i8, 127: i8, 100: i8)", "[0, 100]: i8[2]");
    gives(
        "range(0.0: f32, 1.0: f32, 0.375: f32)",
        "[0.0, 0.375, 0.75]: f32[3]",
    );
    gives(
        "nonzero([[0.0, 2.0], [nan, 0.0]]: f32)",
        "[[0, 1], [1, 0]]: i64[2,2]",
    );
    gives("nonzero(5: i32)", "[]: i64[0,1]");
}

#[test]
fn reductions() {
    let x = "[[1, 2, 3], [4, 5, 6]]: i32";
    gives(
        &format!("reduce({x}, kind=sum, axes=[0])"),
        "[5, 7, 9]: i32[3]",
    );
    gives(
        &format!("reduce({x}, kind=prod, axes=[1], keep=true)"),
        "[[6], [120]]: i32[2,1]",
    );
    gives(&format!("reduce({x}, kind=max, axes=[0, 1])"), "6: i32[]");
    gives(
        &format!("reduce({x}, kind=sum, axes=[])"),
        "[[1, 2, 3], [4, 5, 6]]: i32[2,3]",
    );
    gives(
        "reduce([[[1,2],[3,4]],[[5,6],[7,8]]]: i64, kind=sum, axes=[0, 2])",
        "[14, 22]: i64[2]",
    );
    gives(
        "reduce([]: f32[2,0], kind=max, axes=[1])",
        "[-inf, -inf]: f32[2]",
    );
    gives("reduce([]: i8[0], kind=min, axes=[0])", "127: i8[]");
    gives("reduce([]: f32[0], kind=prod, axes=[0])", "1.0: f32[]");
    gives(
        "reduce([1.0, nan, 2.0]: f32, kind=max, axes=[0])",
        "nan: f32[]",
    );
    gives(
        "reduce([true, false]: bool, kind=min, axes=[0])",
        "false: bool[]",
    );
    let ones = vec!["1.0"; 37].join(",");
    gives(
        &format!("reduce([{ones}]: f32, kind=sum, axes=[0])"),
        "37.0: f32[]",
    );
}

#[test]
fn cumulative() {
    let x = "[[1, 2, 3], [4, 5, 6]]: i32";
    gives(
        &format!("cumulative({x}, kind=sum, axis=1)"),
        "[[1,3,6],[4,9,15]]: i32[2,3]",
    );
    gives(
        &format!("cumulative({x}, kind=sum, axis=1, exclusive=true, reverse=true)"),
        "[[5,3,0],[11,6,0]]: i32[2,3]",
    );
    gives(
        &format!("cumulative({x}, kind=prod, axis=0)"),
        "[[1,2,3],[4,10,18]]: i32[2,3]",
    );
}

#[test]
fn segments() {
    let x = "[[1, 2], [3, 4], [5, 6]]: i32";
    let rows = |offsets: &str, kind: &str| format!("segment_reduce({x}, {offsets}, kind={kind})");
    gives(
        &rows("[0, 1, 1, 3]", "sum"),
        "[[1,2],[0,0],[8,10]]: i32[3,2]",
    );
    gives(&rows("[0, 3]", "prod"), "[[15,48]]: i32[1,2]");
    gives(
        &rows("[0, 0, 3]", "max"),
        "[[-2147483648,-2147483648],[5,6]]: i32[2,2]",
    );
    gives(
        "segment_reduce([1.0, 2.0]: f32, [0, 2, 2], kind=min)",
        "[1.0, inf]: f32[2]",
    );
    gives(
        "segment_reduce([true, false]: bool, [0, 0, 2, 2], kind=min)",
        "[true, false, true]: bool[3]",
    );
    gives("segment_reduce([]: f32, [0], kind=sum)", "[]: f32[0]");
    gives("segment_reduce([]: f32, [0, 0], kind=sum)", "[0.0]: f32[1]");
    for offsets in [
        "[0, 2, 1, 3]",
        "[0, 2]",
        "[1, 3]",
        "[0, 4]",
        "[-1, 3]",
        "[1]",
    ] {
        let text = format!(
            "fn @main() -> (%y: i32[..]) {{ %y = {} return %y }}",
            rows(offsets, "sum")
        );
        fails(&text, &[], "begin with 0, never to fall");
    }
}

#[test]
fn order() {
    gives("arg_reduce([1, 3, 3]: i32, kind=max, axis=0)", "1: i64[]");
    gives(
        "arg_reduce([1, 3, 3]: i32, kind=max, axis=0, last=true)",
        "2: i64[]",
    );
    gives(
        "arg_reduce([[2.0, nan], [nan, 1.0]]: f32, kind=min, axis=1, keep=true)",
        "[[1], [0]]: i64[2,1]",
    );
    let results = common::execute(
        "fn @main() -> (%v: f32[3], %i: i64[3]) {
           %v, %i = top_k([1.0, nan, 2.0, 1.0]: f32, 3, axis=0, kind=max) return %v, %i }",
        &[],
    )
    .unwrap();
    common::assert_same(
        &common::tensor(&results[0]),
        &common::constant("[nan, 2.0, 1.0]: f32[3]"),
        "values",
    );
    assert_eq!(results[1], Tensor::vector(&[1i64, 2, 0]).into());
    let unique = |expr: &str| {
        let text = format!(
            "fn @main() -> (%u: i32[..], %f: i64[..], %i: i64[..], %c: i64[..]) {{
               %u, %f, %i, %c = {expr} return %u, %f, %i, %c }}"
        );
        let results = common::execute(&text, &[]).unwrap();
        let lists = results[1..]
            .iter()
            .map(|d| common::tensor(d).to_i64s().unwrap());
        (common::tensor(&results[0]), lists.collect::<Vec<_>>())
    };
    let (values, lists) = unique("unique([3, 1, 3, 2, 1]: i32)");
    assert_eq!(values, Tensor::vector(&[1, 2, 3]));
    assert_eq!(lists, [vec![1, 3, 0], vec![2, 0, 2, 1, 0], vec![2, 1, 2]]);
    let (values, lists) = unique("unique([3, 1, 3, 2, 1]: i32, sorted=false)");
    assert_eq!(values, Tensor::vector(&[3, 1, 2]));
    assert_eq!(lists, [vec![0, 1, 3], vec![0, 1, 0, 2, 1], vec![2, 2, 1]]);
    let (values, lists) = unique("unique([[2, 1, 2], [0, 5, 0]]: i32, axis=1)");
    assert_eq!(values, Tensor::from_slice(vec![2, 2], &[1, 2, 5, 0]));
    assert_eq!(lists, [vec![1, 0], vec![1, 0, 1], vec![1, 2]]);
    let (values, lists) = unique("unique([]: i32[0])");
    assert_eq!((values.shape(), lists), (&[0][..], vec![vec![]; 3]));
}

#[test]
fn what_types_leave_open_is_checked() {
    let one = |body: &str, inputs: &[Tensor], message: &str| {
        let text = format!(
            "fn @main(%x: f32[..], %i: i64[..]) -> (%y: f32[..]) {{ %y = {body} return %y }}"
        );
        let inputs: Vec<Datum> = inputs.iter().cloned().map(Datum::from).collect();
        fails(&text, &inputs, message);
    };
    let x = Tensor::vector(&[1f32, 2.0, 3.0]);
    let i = |v: &[i64]| Tensor::vector(v);
    one(
        "gather(%x, %i, axis=0)",
        &[x.clone(), i(&[0, 3])],
        "index 3 is out of range for axis 0 of size 3",
    );
    one("gather(%x, %i, axis=0)", &[x.clone(), i(&[-4])], "index -4");
    one(
        "gather(%x, %i, axis=0)",
        &[x.clone(), i(&[i64::MIN])],
        "out of range",
    );
    one(
        "gather(%x, %i, axis=1)",
        &[x.clone(), i(&[0])],
        "there is no axis 1",
    );
    one(
        "reshape(%x, %i)",
        &[x.clone(), i(&[2, 2])],
        "cannot be reshaped",
    );
    one(
        "reshape(%x, %i)",
        &[x.clone(), i(&[-1, -1])],
        "cannot be reshaped",
    );
    one("reshape(%x, %i)", &[x.clone(), i(&[-2])], "negative");
    one(
        "broadcast(%x, %i)",
        &[x.clone(), i(&[2])],
        "do not broadcast",
    );
    one(
        "broadcast(%x, %i)",
        &[x.clone(), i(&[1 << 62, 3])],
        "too large",
    );
    one(
        "broadcast(%x, %i)",
        &[x.clone(), i(&[1 << 40, 3])],
        "over the limit",
    );
    one("pad(%x, %i, 0.0)", &[x.clone(), i(&[-2, -2])], "negative");
    one(
        "pad(%x, %i, 0.0)",
        &[x.clone(), i(&[i64::MAX, i64::MAX])],
        "too large",
    );
    one(
        "slice(%x, %i, [3], %i, axes=[0])",
        &[x.clone(), i(&[0])],
        "the step of axis 0 is 0",
    );
    one(
        "squeeze(%x, axes=[0])",
        &[x.clone(), i(&[])],
        "has size 3, not 1",
    );
    one("dot(%x, %x)", &[x.clone(), i(&[])], "no matrix product");
    one(
        "add(%x, cast(%i, to=f32))",
        &[x.clone(), i(&[1, 2])],
        "do not broadcast",
    );
    one(
        "update_slice(%x, %x, %i)",
        &[x.clone(), i(&[1])],
        "does not lie inside",
    );
    one(
        "transpose(%x, perm=[1, 0])",
        &[x.clone(), i(&[])],
        "permutation",
    );
    one(
        "conv(%x, %x, [0, 0], strides=[1])",
        &[x.clone(), i(&[])],
        "do not fit",
    );
    one(
        "window(%x, %i, kind=max, window=[1, 1])",
        &[x, i(&[0, 0, 0, 0])],
        "window",
    );
}

#[test]
fn errors_say_where() {
    let text = "fn @main(%i: i64[]) -> (%y: i32[]) {
        %y = gather([1, 2]: i32, %i, axis=0) at Gather \"pick\" return %y }";
    fails(
        text,
        &[Tensor::scalar(2i64).into()],
        "`gather` in @main (Gather node `pick`): index 2",
    );
    assert!(evaluate("range(0: i32, 1: i32, 1: i32)", "[0]: i32[1]").is_ok());
}

/// Sizes whose product does not fit a machine word, in arrays without elements.
#[test]
fn empty_arrays_of_absurd_shape() {
    let text = "fn @main(%n: i64[3], %zero: i64[3]) -> (%y: f32[..], %z: f32[..], %u: f32[..], %s: f32[..]) {
        %x = broadcast([]: f32[0,1,1], %n)
        %t = transpose(%x, perm=[2, 1, 0])
        %c = slice(%t, [1, 1], [9223372036854775807, 9223372036854775807], [3, 1], axes=[0, 1])
        %y = reduce(%c, kind=max, axes=[2], keep=true)
        %z = concat(%x, %x, axis=0)
        %u = update_slice(%x, %x, %zero)
        %s = add(%x, [1.0]: f32)
        return %y, %z, %u, %s }";
    let n = 1i64 << 40;
    let inputs = [
        Tensor::vector(&[1, n, n]).into(),
        Tensor::vector(&[0i64; 3]).into(),
    ];
    fails(text, &inputs, "too large");
    let fine = text.replace(
        "reduce(%c, kind=max, axes=[2], keep=true)",
        "reduce(%c, kind=max, axes=[0])",
    );
    let found = common::execute(&fine, &inputs).unwrap();
    let shapes: Vec<_> = found
        .iter()
        .map(|d| common::tensor(d).shape().to_vec())
        .collect();
    let n = n as usize;
    assert_eq!(
        shapes,
        [vec![n - 1, 0], vec![0, n, n], vec![0, n, n], vec![0, n, n]]
    );
}
