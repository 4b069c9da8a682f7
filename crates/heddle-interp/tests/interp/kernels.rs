//! Contractions, windows, casts, text, sequences and random numbers against values computed by hand or from the
//! definition.

use crate::common::{self, gives};
use heddle_ir::{Datum, Tensor};

#[test]
fn products() {
    gives(
        "dot([[1, 2, 3], [4, 5, 6]]: i32, [[1, 0], [0, 1], [1, 1]]: i32)",
        "[[4, 5], [10, 11]]: i32[2,2]",
    );
    gives(
        "dot([[[1.0]], [[2.0]]]: f32, [[3.0, 4.0]]: f32)",
        "[[[3.0, 4.0]], [[6.0, 8.0]]]: f32[2,1,2]",
    );
    gives(
        "dot([]: f32[2,0], []: f32[0,2])",
        "[[0.0, 0.0], [0.0, 0.0]]: f32[2,2]",
    );
    gives("dot([]: f32[0,2], [[1.0], [2.0]]: f32)", "[]: f32[0,1]");
    gives("dot([[100, 100]]: i8, [[2], [2]]: i8)", "[[-112]]: i8[1,1]");
}

/// Against the definition, at sizes around those of the blocks.
#[test]
fn products_of_many_sizes() {
    for (m, n, k) in [
        (1, 17, 5),
        (3, 1, 300),
        (4, 16, 256),
        (5, 4, 257),
        (9, 33, 513),
        (13, 7, 3),
    ] {
        let a: Vec<i32> = (0..m * k).map(|i| (i * 7 % 23) as i32 - 11).collect();
        let b: Vec<i32> = (0..k * n).map(|i| (i * 5 % 19) as i32 - 9).collect();
        let mut c = vec![0; m * n];
        for i in 0..m {
            for j in 0..n {
                c[i * n + j] = (0..k).map(|p| a[i * k + p] * b[p * n + j]).sum();
            }
        }
        let text =
            "fn @main(%a: i32[m,k], %b: i32[k,n]) -> (%c: i32[m,n]) { %c = dot(%a, %b) return %c }";
        let inputs = [
            Tensor::from_slice(vec![m, k], &a),
            Tensor::from_slice(vec![k, n], &b),
        ];
        let found = common::execute(text, &inputs.map(Datum::from)).unwrap();
        assert_eq!(
            found[0],
            Tensor::from_slice(vec![m, n], &c).into(),
            "{m} {n} {k}"
        );
    }
}

#[test]
fn convolutions() {
    let x = "[[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]]: i32";
    let w = "[[[[1, 0], [0, 1]]]]: i32";
    gives(
        &format!("conv({x}, {w}, [0, 0, 0, 0], strides=[1, 1])"),
        "[[[[6, 8], [12, 14]]]]: i32[1,1,2,2]",
    );
    gives(
        &format!("conv({x}, {w}, [1, 1, 0, 0], strides=[2, 2])"),
        "[[[[1, 3], [7, 14]]]]: i32[1,1,2,2]",
    );
    gives(
        &format!("conv({x}, {w}, [0, 0, 0, 0], strides=[1, 1], dilations=[2, 2])"),
        "[[[[10]]]]: i32[1,1,1,1]",
    );
    gives(
        &format!("conv({x}, {w}, [-1, 0, 0, 0], strides=[1, 1])"),
        "[[[[12, 14]]]]: i32[1,1,1,2]",
    );
    // Zeros between the elements, as transposed convolution needs them.
    gives(
        "conv([[[1, 2]]]: i32, [[[1, 1, 1]]]: i32, [1, 1], strides=[1], input_dilations=[2])",
        "[[[1, 3, 2]]]: i32[1,1,3]",
    );
    gives(
        "conv([[[1, 2], [3, 4]]]: i32, [[[10]], [[100]]]: i32, [0, 0], strides=[1], groups=2)",
        "[[[10, 20], [300, 400]]]: i32[1,2,2]",
    );
    gives(
        "conv([[[1], [2]]]: i32, [[[1], [1]], [[2], [3]]]: i32, [0, 0], strides=[1])",
        "[[[3], [8]]]: i32[1,2,1]",
    );
    gives(
        "conv([[[1.0]]]: f32, [[[1.0, 1.0, 1.0]]]: f32, [0, 0], strides=[1])",
        "[]: f32[1,1,0]",
    );
    gives(
        "conv([[[1, 2, 3]]]: i32, []: i32[0,1,1], [0, 0], strides=[1])",
        "[]: i32[1,0,3]",
    );
}

/// Against the definition, with windows over several panels.
#[test]
fn convolutions_of_many_sizes() {
    for (c, o, size, k, groups) in [
        (3, 5, 9, 3, 1),
        (4, 8, 11, 2, 2),
        (6, 6, 7, 3, 6),
        (40, 3, 5, 3, 1),
    ] {
        let per = c / groups;
        let x: Vec<i32> = (0..2 * c * size * size)
            .map(|i| (i * 7 % 23) as i32 - 11)
            .collect();
        let w: Vec<i32> = (0..o * per * k * k)
            .map(|i| (i * 5 % 19) as i32 - 9)
            .collect();
        let out = size + 2 - k + 1;
        let mut y = vec![0; 2 * o * out * out];
        for (i, y) in y.iter_mut().enumerate() {
            let (b, f, r, q) = (
                i / (o * out * out),
                i / (out * out) % o,
                i / out % out,
                i % out,
            );
            for (ch, u, v) in (0..per * k * k).map(|t| (t / (k * k), t / k % k, t % k)) {
                let (yy, xx) = ((r + u).wrapping_sub(1), (q + v).wrapping_sub(1));
                if yy < size && xx < size {
                    let channel = f / (o / groups) * per + ch;
                    *y += x[((b * c + channel) * size + yy) * size + xx]
                        * w[((f * per + ch) * k + u) * k + v];
                }
            }
        }
        let text = format!(
            "fn @main(%x: i32[n,c,h,h], %w: i32[o,p,k,k]) -> (%y: i32[..]) {{
               %y = conv(%x, %w, [1, 1, 1, 1], strides=[1, 1], groups={groups}) return %y }}"
        );
        let inputs = [
            Tensor::from_slice(vec![2, c, size, size], &x),
            Tensor::from_slice(vec![o, per, k, k], &w),
        ];
        let found = common::execute(&text, &inputs.map(Datum::from)).unwrap();
        assert_eq!(
            found[0],
            Tensor::from_slice(vec![2, o, out, out], &y).into()
        );
    }
}

#[test]
fn windows() {
    let x = "[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]: f32";
    gives(
        &format!("window({x}, [0, 0], kind=sum, window=[2])"),
        "[[3.0, 5.0], [9.0, 11.0]]: f32[2,2]",
    );
    gives(
        &format!("window({x}, [1, 1], kind=max, window=[2], strides=[2])"),
        "[[1.0, 3.0], [4.0, 6.0]]: f32[2,2]",
    );
    gives(
        &format!("window({x}, [0, 1, 0, 1], kind=min, window=[2, 3], strides=[1, 2])"),
        "[[1.0, 2.0]]: f32[1,2]",
    );
    gives(
        &format!("window({x}, [2, 0], kind=max, window=[2])"),
        "[[-inf, 1.0, 2.0, 3.0], [-inf, 4.0, 5.0, 6.0]]: f32[2,4]",
    );
    gives(
        &format!("window({x}, [0, 0], kind=sum, window=[2], dilations=[2])"),
        "[[4.0], [10.0]]: f32[2,1]",
    );
    gives(
        &format!("window({x}, [0, 0], kind=sum, window=[4])"),
        "[]: f32[2,0]",
    );
    gives(
        "window([nan, 1.0]: f32, [0, 0], kind=max, window=[2])",
        "[nan]: f32[1]",
    );
}

#[test]
fn casts() {
    gives(
        "cast([1.9, -1.9, nan, 300.0, -300.0]: f32, to=i8)",
        "[1, -1, 0, 127, -128]: i8[5]",
    );
    gives("cast([1.9, -1.9]: f32, to=u8)", "[1, 0]: u8[2]");
    gives("cast([300, -1]: i32, to=u8)", "[44, 255]: u8[2]");
    gives(
        "cast([0.0, -0.0, nan, 0.1]: f32, to=bool)",
        "[false, false, true, true]: bool[4]",
    );
    gives("cast([true, false]: bool, to=f16)", "[1.0, 0.0]: f16[2]");
    gives(
        "cast([9007199254740993]: i64, to=f64)",
        "[9007199254740992.0]: f64[1]",
    );
    gives(
        "cast([1.5, -3.25, nan, inf, -inf, 0.0]: f32, to=str)",
        "[\"1.5\", \"-3.25\", \"NaN\", \"INF\", \"-INF\", \"0\"]: str[6]",
    );
    gives(
        "cast([\" 3.5\", \"NaN\", \"-INF\", \"1e3\"]: str, to=f32)",
        "[3.5, nan, -inf, 1000.0]: f32[4]",
    );
    gives("cast([\"42\", \"-7\"]: str, to=i32)", "[42, -7]: i32[2]");
    gives("bitcast([1.0]: f32, to=i32)", "[1065353216]: i32[1]");
    gives(
        "cast(cast([7, -8, 3]: i32, to=i4), to=i32)",
        "[7, -8, 3]: i32[3]",
    );
    gives(
        "cast(cast([17, -1]: i32, to=u4), to=i32)",
        "[1, 15]: i32[2]",
    );
    gives(
        "cast(bitcast([-1, 5]: i8, to=u8), to=i32)",
        "[255, 5]: i32[2]",
    );
}

#[test]
fn small_floats() {
    let there = |dtype: &str, from: &str, to: &str| {
        gives(&format!("cast(cast({from}, to={dtype}), to=f32)"), to);
    };
    there(
        "f8e4m3fn",
        "[448.0, 464.0, 465.0, inf, -1000.0, nan, 0.001]: f32",
        "[448.0, 448.0, 448.0, 448.0, -448.0, nan, 0.001953125]: f32[7]",
    );
    there(
        "f8e4m3fnuz",
        "[240.0, 300.0, -0.0, nan, 0.0009765625]: f32",
        "[240.0, 240.0, 0.0, nan, 0.0009765625]: f32[5]",
    );
    there(
        "f8e5m2",
        "[57344.0, 61440.0, inf, 1.125, 1.375]: f32",
        "[57344.0, 57344.0, 57344.0, 1.0, 1.5]: f32[5]",
    );
    there(
        "f8e5m2fnuz",
        "[57344.0, -1e9, 0.00000762939453125]: f32",
        "[57344.0, -57344.0, 0.00000762939453125]: f32[3]",
    );
    there(
        "f4e2m1",
        "[0.25, 0.75, 2.5, 5.0, 7.0, -100.0, nan, -0.0]: f32",
        "[0.0, 1.0, 2.0, 4.0, 6.0, -6.0, -0.0, -0.0]: f32[8]",
    );
    there(
        "f8e8m0",
        "[1.0, 1.1, 3.0, 0.0, nan, inf]: f32",
        "[1.0, 2.0, 4.0, 5.877471754111438e-39, nan, 1.7014118346046923e38]: f32[6]",
    );
    gives(
        "cast(cast([500.0, inf, -500.0]: f32, to=f8e4m3fn, saturate=false), to=f32)",
        "[nan, nan, nan]: f32[3]",
    );
    gives(
        "cast(cast([1e9, -inf]: f32, to=f8e5m2, saturate=false), to=f32)",
        "[inf, -inf]: f32[2]",
    );
    gives(
        "cast(cast([1.4, 1.5, 3.0]: f32, to=f8e8m0, round=nearest), to=f32)",
        "[1.0, 2.0, 4.0]: f32[3]",
    );
    gives(
        "cast(cast([1.9]: f32, to=f8e8m0, round=down), to=f32)",
        "[1.0]: f32[1]",
    );
    gives(
        "is_nan(cast([nan, 1.0]: f32, to=f8e5m2))",
        "[true, false]: bool[2]",
    );
}

#[test]
fn text() {
    gives(
        "str_concat([[\"a\"], [\"b\"]]: str, [\"x\", \"y\"]: str)",
        "[[\"ax\", \"ay\"], [\"bx\", \"by\"]]: str[2,2]",
    );
    gives(
        "str_full_match([\"ab12\", \"ab\"]: str, pattern=\"[a-z]+\\\\d+\")",
        "[true, false]: bool[2]",
    );
    gives(
        "str_normalize([\"The\", \"cat\"]: str, stopwords=[\"the\"], case=upper, case_sensitive=false)",
        "[\"CAT\"]: str[1]",
    );
}

#[test]
fn sequences() {
    let text = "fn @main() -> (%y: i32[..], %n: i64[], %e: i32[..], %s: seq<i32[]>) {
        %s0 = seq_new([1]: i32, [2, 3]: i32, elem=i32[?])
        %s1 = seq_insert(%s0, [4]: i32, -1)
        %s2 = seq_insert(%s1, [5]: i32, 3)
        %s3 = seq_erase(%s2, 0)
        %y = seq_concat(%s3, axis=0)
        %n = seq_len(%s3)
        %e = seq_at(%s3, -1)
        %s = seq_split([7, 8]: i32, [1, 1], axis=0, squeeze=true)
        return %y, %n, %e, %s }";
    let found = common::execute(text, &[]).unwrap();
    assert_eq!(found[0], Tensor::vector(&[4, 2, 3, 5]).into());
    assert_eq!(found[1], Tensor::scalar(3i64).into());
    assert_eq!(found[2], Tensor::vector(&[5]).into());
    assert_eq!(
        found[3],
        Datum::Seq(vec![Tensor::scalar(7).into(), Tensor::scalar(8).into()])
    );
    gives("opt_has(opt_none(elem=f32[]))", "false: bool[]");
    gives("opt_get(opt_some([1, 2]: i32))", "[1, 2]: i32[2]");
}

#[test]
fn random_bits_follow_from_key_and_counter() {
    gives(
        "philox([0, 1]: u64, [0, 0]: u64)",
        "[16242730742183356629, 16504019988892878448]: u64[2]",
    );
    gives("philox(run_key(), 0)", "16242730742183356629: u64[]");
}

/// Empty arrays with sizes whose products no memory holds.
#[test]
fn empty_arrays_of_many_rows() {
    let text = "fn @main(%x: f32[1099511627776,0]) -> (%n: i64[2]) {
        %v, %i = top_k(%x, 0, axis=1, kind=max)
        %n = shape(%v)
        return %n }";
    let x = Tensor::new(heddle_ir::DType::F32, vec![1 << 40, 0], Default::default()).unwrap();
    let found = common::execute(text, &[x.into()]).unwrap();
    assert_eq!(found[0], Tensor::vector(&[1i64 << 40, 0]).into());
    let shape = vec![usize::MAX, 0];
    assert!(Tensor::new(heddle_ir::DType::F32, shape.clone(), Default::default()).is_err());
    assert!(Tensor::strings(shape, vec![]).is_err());
}
