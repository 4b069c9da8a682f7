//! Elementwise operators.

use serde_json::{Value as Json, json};

use super::super::Done;
use crate::common::*;

type Functions<'a> = &'a [(&'a str, fn(f64) -> f64)];
type Pairs<'a> = &'a [(&'a str, fn(f64, f64) -> f64)];
type Comparisons<'a> = &'a [(&'a str, fn(f64, f64) -> bool)];

pub fn elementwise(d: &mut Done) {
    let small = [0.5, -0.25, 0.0, 0.75, -0.875];
    let any = [0.5, -1.25, 3.0, 2.5, -7.0, 0.0, -2.5];
    let above = [0.5, 1.25, 3.0, 0.125, 7.0];
    let args = || json!([v(0)]);
    let functions: Functions = &[
        ("acos", f64::acos),
        ("asin", f64::asin),
        ("atan", f64::atan),
        ("atanh", f64::atanh),
        ("asinh", f64::asinh),
        ("cos", f64::cos),
        ("cosh", f64::cosh),
        ("exp", f64::exp),
        ("exp2", f64::exp2),
        ("expm1", f64::exp_m1),
        ("sin", f64::sin),
        ("sinh", f64::sinh),
        ("tan", f64::tan),
        ("tanh", f64::tanh),
        ("log1p", f64::ln_1p),
        ("sigmoid", |x| 1.0 / (1.0 + (-x).exp())),
    ];
    for (name, f) in functions {
        d.function(name, args(), &small, f);
    }
    let functions: Functions = &[
        ("abs", f64::abs),
        ("ceil", f64::ceil),
        ("floor", f64::floor),
        ("trunc", f64::trunc),
        ("neg", |x| -x),
        ("round", f64::round_ties_even),
        ("frac", f64::fract),
        ("square", |x| x * x),
        ("relu", |x| x.max(0.0)),
        ("sign", |x| if x == 0.0 { 0.0 } else { x.signum() }),
        ("sgn", |x| if x == 0.0 { 0.0 } else { x.signum() }),
        ("relu6", |x| x.clamp(0.0, 6.0)),
        ("silu", |x| x / (1.0 + (-x).exp())),
        ("hardsigmoid", |x| (x + 3.0).clamp(0.0, 6.0) / 6.0),
        ("hardswish", |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0),
        ("mish", |x| x * x.exp().ln_1p().tanh()),
        ("softplus", |x| x.exp().ln_1p()),
        ("log_sigmoid", |x| -(-x).exp().ln_1p()),
        ("selu", |x| {
            1.0507009873554805
                * if x > 0.0 {
                    x
                } else {
                    1.6732632423543772 * x.exp_m1()
                }
        }),
    ];
    for (name, f) in functions {
        d.function(name, args(), &any, f);
    }
    for name in [
        "alias",
        "clone",
        "contiguous",
        "detach",
        "detach_",
        "lift",
        "lift_fresh",
        "lift_fresh_copy",
        "positive",
        "resolve_conj",
        "resolve_neg",
        "_conj",
        "_conj_physical",
        "_to_copy",
    ] {
        d.function(name, args(), &any, |x| x);
    }
    let functions: Functions = &[
        ("log", f64::ln),
        ("log2", f64::log2),
        ("log10", f64::log10),
        ("sqrt", f64::sqrt),
        ("rsqrt", |x| 1.0 / x.sqrt()),
        ("reciprocal", |x| 1.0 / x),
    ];
    for (name, f) in functions {
        d.function(name, args(), &above, f);
    }
    d.function("acosh", args(), &[1.0, 2.0, 3.5], f64::acosh);
    // erf(1/2) and erf(1), of tables.
    let erf = |x: f64| {
        x.signum()
            * if x.abs() == 1.0 {
                0.8427007929497149
            } else {
                0.5204998778130465
            }
    };
    d.function("erf", args(), &[0.5, -1.0], erf);
    d.function("erfc", args(), &[0.5, -1.0], |x| 1.0 - erf(x));
    d.function("logit", args(), &[0.25, 0.5, 0.875], |x| {
        (x / (1.0 - x)).ln()
    });
    d.function("celu", json!([v(0), f(2.0)]), &any, |x| {
        x.max(0.0) + (2.0 * (x / 2.0).exp_m1()).min(0.0)
    });
    d.function("elu", json!([v(0), f(1.5)]), &any, |x| {
        if x > 0.0 { x } else { 1.5 * x.exp_m1() }
    });
    d.function("leaky_relu", json!([v(0), f(0.2)]), &any, |x| {
        if x > 0.0 { x } else { 0.2 * x }
    });
    d.function("hardtanh", json!([v(0), f(-0.5), f(2.0)]), &any, |x| {
        x.clamp(-0.5, 2.0)
    });
    d.function("threshold", json!([v(0), f(1.0), f(9.0)]), &any, |x| {
        if x > 1.0 { x } else { 9.0 }
    });
    d.function("clamp", json!([v(0), f(-1.0), f(2.0)]), &any, |x| {
        x.clamp(-1.0, 2.0)
    });
    d.function("clamp_min", json!([v(0), f(-1.0)]), &any, |x| x.max(-1.0));
    d.function("clamp_max", json!([v(0), f(1.0)]), &any, |x| x.min(1.0));
    let phi = |x: f64| {
        if x == 0.0 {
            0.5
        } else {
            0.5 * (1.0 + x.signum() * 0.6826894921370859)
        }
    };
    d.function("gelu", args(), &[1.0, -1.0, 0.0], |x| x * phi(x));
    let decimals = d.run(
        "round.decimals",
        args(),
        json!({"decimals": i(1)}),
        &[("f32[n]", f32s(&[2], &[1.27, -0.34]))],
        &["f32[n]"],
    );
    close(&decimals[0], &[2], &[1.3, -0.3]);
    let log = d.run(
        "log_sigmoid_forward",
        args(),
        json!({}),
        &[("f32[n]", f32s(&[1], &[0.0]))],
        &["f32[n]", "f32[0]"],
    );
    close(&log[0], &[1], &[0.5f64.ln()]);
    // The lower bound wins where the bounds cross, as PyTorch has it.
    let crossed = json!([v(0), f(0.6)]);
    d.function("logit", crossed, &[0.5, 0.7], |x| {
        if x < 0.6 { 1.5f64.ln() } else { -(1.5f64.ln()) }
    });
    let log = d.run(
        "log_sigmoid_forward",
        args(),
        json!({}),
        &[("f32[n]", f32s(&[1], &[0.0]))],
        &["f32[n]", "f32[n]"],
    );
    close(&log[1], &[1], &[1.0]);
    let odd = f32s(&[3], &[f32::NAN, f32::INFINITY, 2.0]);
    d.one(
        "isnan",
        args(),
        &[("f32[n]", odd.clone())],
        "bool[n]",
        &[3],
        &[1.0, 0.0, 0.0],
    );
    d.one(
        "isinf",
        args(),
        &[("f32[n]", odd.clone())],
        "bool[n]",
        &[3],
        &[0.0, 1.0, 0.0],
    );
    d.one(
        "isfinite",
        args(),
        &[("f32[n]", odd.clone())],
        "bool[n]",
        &[3],
        &[0.0, 0.0, 1.0],
    );
    d.one(
        "nan_to_num",
        json!([v(0), f(5.0), f(7.0)]),
        &[("f32[n]", odd.clone())],
        "f32[n]",
        &[3],
        &[5.0, 7.0, 2.0],
    );
    d.one(
        "logical_not",
        args(),
        &[("f32[n]", odd)],
        "bool[n]",
        &[3],
        &[0.0, 0.0, 0.0],
    );

    let pairs: Pairs = &[
        ("add.Tensor", |a, b| a + b),
        ("sub.Tensor", |a, b| a - b),
        ("mul.Tensor", |a, b| a * b),
        ("div.Tensor", |a, b| a / b),
        ("rsub.Tensor", |a, b| b - a),
        ("maximum", f64::max),
        ("minimum", f64::min),
        ("max.other", f64::max),
        ("min.other", f64::min),
        ("fmax", f64::max),
        ("fmin", f64::min),
        ("atan2", f64::atan2),
        ("atan2.out", f64::atan2),
        ("fmod.Tensor", |a, b| a % b),
        ("remainder.Tensor", |a, b| a - b * (a / b).floor()),
        ("floor_divide", |a, b| (a / b).floor()),
        ("logaddexp", |a, b| (a.exp() + b.exp()).ln()),
        ("div.Tensor_mode", |a, b| a / b),
        ("clamp_min.Tensor", f64::max),
        ("clamp_max.Tensor", f64::min),
        ("clamp.Tensor", f64::max),
        ("copy", |_, b| b),
    ];
    for (name, f) in pairs {
        d.pair(name, "f32[n]", f);
    }
    {
        let x = [
            ("f32[n]", f32s(&[4], &[2.0, -3.0, 4.0, 0.0])),
            ("f32[n]", f32s(&[4], &[-0.0, 0.0, -1.0, f32::NEG_INFINITY])),
        ];
        let args = json!([v(0), v(1)]);
        let found = d.run("copysign.Tensor", args, json!({}), &x, &["f32[n]"]);
        close(&found[0], &[4], &[-2.0, 3.0, -4.0, 0.0]);
        assert!(numbers(&found[0])[3].is_sign_negative());
        let args = json!([v(0), f(-1.0)]);
        let wanted = [-2.0, -3.0, -4.0, 0.0];
        d.one("copysign.Scalar", args, &x[..1], "f32[n]", &[4], &wanted);
        d.pair("hypot", "f32[n]", f64::hypot);
        let powers = [
            ("f32[n]", f32s(&[3], &[1.5, -3.0, 1.0])),
            ("i64[n]", i64s(&[3], &[2, -1, 0])),
        ];
        let args = json!([v(0), v(1)]);
        d.one(
            "ldexp.Tensor",
            args,
            &powers,
            "f32[n]",
            &[3],
            &[6.0, -1.5, 1.0],
        );
    }
    {
        let (a, b) = (f32s(&[2], &[2.0, 9.0]), f32s(&[2], &[-1.0, 0.5]));
        d.one(
            "pow.Tensor_Tensor",
            json!([v(0), v(1)]),
            &[("f32[n]", a), ("f32[n]", b)],
            "f32[n]",
            &[2],
            &[0.5, 3.0],
        );
    }
    let compares: Comparisons = &[
        ("eq", |a, b| a == b),
        ("ne", |a, b| a != b),
        ("lt", |a, b| a < b),
        ("le", |a, b| a <= b),
        ("gt", |a, b| a > b),
        ("ge", |a, b| a >= b),
    ];
    for (name, f) in compares {
        d.pair(&format!("{name}.Tensor"), "bool[n]", |a, b| truth(f(a, b)));
        d.with(&format!("{name}.Scalar"), "bool[n]", 1.5, |a, b| {
            truth(f(a, b))
        });
    }
    let withs: Pairs = &[
        ("add.Scalar", |a, b| a + b),
        ("sub.Scalar", |a, b| a - b),
        ("rsub.Scalar", |a, b| b - a),
        ("mul.Scalar", |a, b| a * b),
        ("div.Scalar", |a, b| a / b),
        ("div.Scalar_mode", |a, b| a / b),
        ("fmod.Scalar", |a, b| a % b),
        ("remainder.Scalar", |a, b| a - b * (a / b).floor()),
        ("fill.Scalar", |_, b| b),
        ("full_like", |_, b| b),
    ];
    for (name, f) in withs {
        d.with(name, "f32[n]", 1.5, f);
    }
    d.with("pow.Tensor_Scalar", "f32[n]", 3.0, |a, b| a.powf(b));
    d.one(
        "pow.Scalar",
        json!([f(2.0), v(0)]),
        &[("f32[n]", f32s(&[2], &[3.0, -1.0]))],
        "f32[n]",
        &[2],
        &[8.0, 0.5],
    );
    d.one(
        "remainder.Scalar_Tensor",
        json!([i(7), v(0)]),
        &[("i64[n]", i64s(&[2], &[3, -4]))],
        "i64[n]",
        &[2],
        &[1.0, -1.0],
    );
    let (a, b) = ([7, -9, 12, -1, 0], [2, 3, 1, 5, 3]);
    let args = || json!([v(0), v(1)]);
    let scalar = || json!([v(0), i(3)]);
    let threes = [3; 5];
    for (name, f) in [
        ("and", (|a, b| a & b) as fn(i64, i64) -> i64),
        ("or", |a, b| a | b),
        ("xor", |a, b| a ^ b),
    ] {
        d.integers(&format!("bitwise_{name}.Tensor"), args(), &a, &b, f);
        d.integers(&format!("bitwise_{name}.Scalar"), scalar(), &a, &threes, f);
    }
    d.integers("bitwise_left_shift.Tensor", args(), &a, &b, |a, b| a << b);
    d.integers(
        "bitwise_left_shift.Tensor_Scalar",
        scalar(),
        &a,
        &threes,
        |a, b| a << b,
    );
    d.integers("bitwise_right_shift.Tensor", args(), &a, &b, |a, b| a >> b);
    d.integers(
        "bitwise_right_shift.Tensor_Scalar",
        scalar(),
        &a,
        &threes,
        |a, b| a >> b,
    );
    d.integers("bitwise_not", json!([v(0)]), &a, &b, |a, _| !a);
    d.integers("floor_divide", args(), &a, &b, i64::div_euclid);
    d.integers("type_as", args(), &a, &b, |a, _| a);
    d.integers("to.other", args(), &a, &b, |a, _| a);
    for (name, f) in [
        ("and", (|a, b| a && b) as fn(bool, bool) -> bool),
        ("or", |a, b| a || b),
        ("xor", |a, b| a != b),
    ] {
        let (x, y) = ([true, true, false, false], [true, false, true, false]);
        let expected: Vec<f64> = x.iter().zip(y).map(|(x, y)| truth(f(*x, y))).collect();
        let inputs = [
            ("bool[n]", bools(&[4], &x)),
            ("f32[n]", f32s(&[4], &y.map(|y| truth(y) as f32 * 2.5))),
        ];
        d.one(
            &format!("logical_{name}"),
            args(),
            &inputs,
            "bool[n]",
            &[4],
            &expected,
        );
    }
    let mask = ("bool[n]", bools(&[3], &[true, false, true]));
    let (x, y) = (
        ("f32[n]", f32s(&[3], &[1.0, 2.0, 3.0])),
        ("f32[n]", f32s(&[3], &[10.0, 20.0, 30.0])),
    );
    let choice = |args: Json, d: &mut Done, name: &str, expected: [f64; 3]| {
        d.one(
            name,
            args,
            &[mask.clone(), x.clone(), y.clone()],
            "f32[n]",
            &[3],
            &expected,
        );
    };
    choice(json!([v(0), v(1), v(2)]), d, "where.self", [1.0, 20.0, 3.0]);
    choice(
        json!([v(0), f(5.0), v(2)]),
        d,
        "where.ScalarSelf",
        [5.0, 20.0, 5.0],
    );
    choice(
        json!([v(0), v(1), f(5.0)]),
        d,
        "where.ScalarOther",
        [1.0, 5.0, 3.0],
    );
    choice(
        json!([v(0), f(6.0), f(5.0)]),
        d,
        "where.Scalar",
        [6.0, 5.0, 6.0],
    );
    choice(
        json!([v(1), v(0), f(9.0)]),
        d,
        "masked_fill.Scalar",
        [9.0, 2.0, 9.0],
    );
    choice(
        json!([v(1), v(2), f(0.5)]),
        d,
        "lerp.Scalar",
        [5.5, 11.0, 16.5],
    );
    choice(
        json!([v(1), v(2), v(1)]),
        d,
        "lerp.Tensor",
        [10.0, 38.0, 84.0],
    );
    choice(json!([v(1), v(1), v(2)]), d, "addcmul", [11.0, 42.0, 93.0]);
    choice(json!([v(1), v(2), v(1)]), d, "addcdiv", [11.0, 12.0, 13.0]);
    d.one(
        "masked_fill.Tensor",
        json!([v(1), v(0), v(2)]),
        &[mask, x, ("f32[]", f32s(&[], &[4.0]))],
        "f32[n]",
        &[3],
        &[4.0, 2.0, 4.0],
    );
    let grad = [
        ("f32[n]", f32s(&[2], &[2.0, 3.0])),
        ("f32[n]", f32s(&[2], &[0.25, -1.0])),
    ];
    d.one(
        "sigmoid_backward",
        args(),
        &grad,
        "f32[n]",
        &[2],
        &[2.0 * 0.25 * 0.75, 3.0 * -2.0],
    );
    d.one(
        "tanh_backward",
        args(),
        &grad,
        "f32[n]",
        &[2],
        &[2.0 * (1.0 - 0.0625), 0.0],
    );
    d.one(
        "threshold_backward",
        json!([v(0), v(1), i(0)]),
        &grad,
        "f32[n]",
        &[2],
        &[2.0, 0.0],
    );
    let at_zero = [
        ("f32[n]", f32s(&[1], &[3.0])),
        ("f32[n]", f32s(&[1], &[0.0])),
    ];
    d.one("gelu_backward", args(), &at_zero, "f32[n]", &[1], &[1.5]);
    let x = [
        ("f32[1,2]", f32s(&[1, 2], &[2.0, -2.0])),
        ("f32[2]", f32s(&[2], &[9.0, 0.5])),
    ];
    d.one("prelu", args(), &x, "f32[1,2]", &[1, 2], &[2.0, -1.0]);
    d.one(
        "_prelu_kernel",
        args(),
        &x,
        "f32[1,2]",
        &[1, 2],
        &[2.0, -1.0],
    );
    d.one(
        "glu",
        json!([v(0)]),
        &[("f32[4]", f32s(&[4], &[2.0, 4.0, 0.0, 0.0]))],
        "f32[2]",
        &[2],
        &[1.0, 2.0],
    );
}

fn truth(b: bool) -> f64 {
    f64::from(u8::from(b))
}
