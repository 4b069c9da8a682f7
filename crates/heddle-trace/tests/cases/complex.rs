//! Complex numbers, which are pairs where they begin and end.

use std::f64::consts::TAU;

use serde_json::{Value as Json, json};

use super::super::Done;
use super::super::common::*;

/// The results, as pairs, of an operator on complex numbers of these shapes, given as pairs.
fn apply_to(
    d: &mut Done,
    name: &str,
    rest: &[Json],
    numbers: &[(&[usize], &[f32])],
    result: &str,
) -> (Vec<usize>, Vec<f64>) {
    let target = match name.contains('.') {
        true => format!("aten.{name}"),
        false => format!("aten.{name}.default"),
    };
    for used in [
        target.as_str(),
        "aten.view_as_complex.default",
        "aten.view_as_real.default",
    ] {
        d.0.insert(used.to_owned());
    }
    let (mut inputs, mut nodes, mut args, mut given) = (vec![], vec![], vec![], vec![]);
    for (k, (shape, values)) in numbers.iter().enumerate() {
        let k = k as i64;
        let dims: Vec<String> = shape.iter().map(usize::to_string).collect();
        let dims = dims.join(",");
        let (pairs, whole) = (format!("f32[{dims},2]"), format!("c64[{dims}]"));
        inputs.push((k, pairs.clone()));
        let made = [(10 + k, whole.as_str())];
        nodes.push(node("aten.view_as_complex.default", json!([v(k)]), &made));
        args.push(v(10 + k));
        given.push(f32s(&[*shape, &[2]].concat(), values));
    }
    args.extend_from_slice(rest);
    nodes.push(node(&target, json!(args), &[(20, result)]));
    let mut last = 20;
    if result.starts_with('c') {
        let pairs = format!("f32{},2]", result[3..].trim_end_matches(']'));
        let made = [(21, pairs.as_str())];
        nodes.push(node("aten.view_as_real.default", json!([v(20)]), &made));
        last = 21;
    }
    let inputs: Vec<(i64, &str)> = inputs.iter().map(|(k, ty)| (*k, ty.as_str())).collect();
    let found = results(&module(graph(&inputs, nodes, &[last])), &given);
    (found[0].shape().to_vec(), numbers_of(&found[0]))
}

fn numbers_of(t: &heddle_ir::Tensor) -> Vec<f64> {
    super::super::common::numbers(t)
}

#[track_caller]
fn near((shape, found): (Vec<usize>, Vec<f64>), wanted_shape: &[usize], wanted: &[f64]) {
    assert_eq!(shape, wanted_shape);
    let same = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-4;
    assert!(
        found.len() == wanted.len() && found.iter().zip(wanted).all(same),
        "{found:?}, expected {wanted:?}"
    );
}

/// The transform of `x` by its definition, with the given sign.
fn transform(x: &[(f64, f64)], sign: f64) -> Vec<f64> {
    let n = x.len();
    let one = |k: usize| {
        x.iter()
            .enumerate()
            .fold((0.0, 0.0), |(re, im), (j, (a, b))| {
                let (s, c) = (sign * TAU * (j * k) as f64 / n as f64).sin_cos();
                (re + a * c - b * s, im + a * s + b * c)
            })
    };
    (0..n).map(one).flat_map(|(re, im)| [re, im]).collect()
}

pub fn complex(d: &mut Done) {
    let x: &[f32] = &[3.0, 4.0, -1.0, 2.0];
    let y: &[f32] = &[2.0, -1.0, 0.0, 3.0];
    let shape: &[usize] = &[2];
    let (a, b) = ((shape, x), (shape, y));
    for name in ["_conj", "_conj_physical"] {
        near(
            apply_to(d, name, &[], &[a], "c64[2]"),
            &[2, 2],
            &[3.0, -4.0, -1.0, -2.0],
        );
    }
    near(
        apply_to(d, "abs", &[], &[a], "f32[2]"),
        &[2],
        &[5.0, 5f64.sqrt()],
    );
    let angles = [4f64.atan2(3.0), 2f64.atan2(-1.0)];
    near(apply_to(d, "angle", &[], &[a], "f32[2]"), &[2], &angles);
    near(
        apply_to(d, "add.Tensor", &[], &[a, b], "c64[2]"),
        &[2, 2],
        &[5.0, 3.0, -1.0, 5.0],
    );
    near(
        apply_to(d, "sub.Tensor", &[], &[a, b], "c64[2]"),
        &[2, 2],
        &[1.0, 5.0, -1.0, -1.0],
    );
    near(
        apply_to(d, "mul.Tensor", &[], &[a, b], "c64[2]"),
        &[2, 2],
        &[10.0, 5.0, -6.0, -3.0],
    );
    near(
        apply_to(d, "mul.Scalar", &[f(2.0)], &[a], "c64[2]"),
        &[2, 2],
        &[6.0, 8.0, -2.0, 4.0],
    );
    near(
        apply_to(d, "div.Scalar", &[f(2.0)], &[a], "c64[2]"),
        &[2, 2],
        &[1.5, 2.0, -0.5, 1.0],
    );
    near(
        apply_to(d, "div.Tensor", &[f(2.0)], &[a], "c64[2]"),
        &[2, 2],
        &[1.5, 2.0, -0.5, 1.0],
    );
    for name in ["_to_copy", "resolve_conj", "resolve_neg", "clone", "alias"] {
        near(
            apply_to(d, name, &[], &[a], "c64[2]"),
            &[2, 2],
            &[3.0, 4.0, -1.0, 2.0],
        );
    }
    near(
        apply_to(d, "flip", &[ints(&[0])], &[a], "c64[2]"),
        &[2, 2],
        &[-1.0, 2.0, 3.0, 4.0],
    );
    near(apply_to(d, "sum", &[], &[a], "c64[]"), &[2], &[2.0, 6.0]);
    let padded = [0.0, 0.0, 3.0, 4.0, -1.0, 2.0];
    near(
        apply_to(d, "constant_pad_nd", &[ints(&[1, 0])], &[a], "c64[3]"),
        &[3, 2],
        &padded,
    );

    let parts = [
        ("f32[2]", f32s(&[2], &[1.0, 2.0])),
        ("f32[2]", f32s(&[2], &[3.0, 4.0])),
    ];
    let nodes = vec![
        node(
            "aten.complex.default",
            json!([v(0), v(1)]),
            &[(2, "c64[2]")],
        ),
        node(
            "aten.view_as_real.default",
            json!([v(2)]),
            &[(3, "f32[2,2]")],
        ),
    ];
    d.0.insert("aten.complex.default".into());
    let main = graph(&[(0, parts[0].0), (1, parts[1].0)], nodes, &[3]);
    let found = results(&module(main), &[parts[0].1.clone(), parts[1].1.clone()]);
    close(&found[0], &[2, 2], &[1.0, 3.0, 2.0, 4.0]);

    // Transforms of 1, 4 and 5 points.
    for n in [1usize, 4, 5] {
        let pairs: Vec<f32> = (0..2 * n).map(|i| (i * i % 7) as f32 - 2.0).collect();
        let x: Vec<(f64, f64)> = pairs
            .chunks(2)
            .map(|p| (p[0].into(), p[1].into()))
            .collect();
        let (shape, ty) = ([n], format!("c64[{n}]"));
        let given: (&[usize], &[f32]) = (&shape, &pairs);
        let yes = json!({"bool": true});
        let no = json!({"bool": false});
        let args = [ints(&[0]), i(0), yes.clone()];
        let forward = transform(&x, -1.0);
        near(
            apply_to(d, "_fft_c2c", &args, &[given], &ty),
            &[n, 2],
            &forward,
        );
        let args = [ints(&[0]), i(2), no.clone()];
        let back: Vec<f64> = transform(&x, 1.0).iter().map(|v| v / n as f64).collect();
        near(
            apply_to(d, "_fft_c2c", &args, &[given], &ty),
            &[n, 2],
            &back,
        );

        let half = n / 2 + 1;
        let real: Vec<(f64, f64)> = x.iter().map(|(a, _)| (*a, 0.0)).collect();
        let whole = transform(&real, -1.0);
        let values: Vec<f32> = real.iter().map(|(a, _)| *a as f32).collect();
        d.0.insert("aten._fft_r2c.default".into());
        let (own, ty, pairs) = (
            format!("f32[{n}]"),
            format!("c64[{half}]"),
            format!("f32[{half},2]"),
        );
        let nodes = vec![
            node(
                "aten._fft_r2c.default",
                json!([v(0), ints(&[0]), i(0), yes]),
                &[(1, &ty)],
            ),
            node("aten.view_as_real.default", json!([v(1)]), &[(2, &pairs)]),
            node(
                "aten._fft_c2r.default",
                json!([v(1), ints(&[0]), i(2), i(n as i64)]),
                &[(3, &own)],
            ),
        ];
        d.0.insert("aten._fft_c2r.default".into());
        let main = graph(&[(0, &own)], nodes, &[2, 3]);
        let found = results(&module(main), &[f32s(&[n], &values)]);
        close(&found[0], &[half, 2], &whole[..2 * half]);
        let values: Vec<f64> = values.iter().map(|v| f64::from(*v)).collect();
        close(&found[1], &[n], &values);
    }
}

/// An infinite part makes the absolute value infinite, whatever the other one is.
#[test]
fn absolute_values_of_infinite_numbers() {
    let mut done = Done(Default::default());
    let inf = f32::INFINITY;
    let x = [inf, 1.0, -inf, inf, 2.0, -inf, inf, f32::NAN, f32::NAN, 1.0];
    let (shape, found) = apply_to(&mut done, "abs", &[], &[(&[5], &x)], "f32[5]");
    assert_eq!(shape, [5]);
    assert_eq!(found[..4], [f64::INFINITY; 4]);
    assert!(found[4].is_nan(), "{found:?}");
}

/// Integers beside complex numbers have no imaginary part.
#[test]
fn integers_are_joined_to_complex_numbers() {
    let nodes = vec![
        node(
            "aten.view_as_complex.default",
            json!([v(0)]),
            &[(2, "c64[1]")],
        ),
        node(
            "aten.cat.default",
            json!([list(&[v(2), v(1)])]),
            &[(3, "c64[3]")],
        ),
        node(
            "aten.view_as_real.default",
            json!([v(3)]),
            &[(4, "f32[3,2]")],
        ),
    ];
    let main = graph(&[(0, "f32[1,2]"), (1, "i64[2]")], nodes, &[4]);
    let inputs = [f32s(&[1, 2], &[5.0, 6.0]), i64s(&[2], &[7, 8])];
    let found = results(&module(main), &inputs);
    close(&found[0], &[3, 2], &[5.0, 6.0, 7.0, 0.0, 8.0, 0.0]);
}

#[test]
fn pairs_have_two_parts() {
    let program = |ty: &str, whole: &str| {
        let nodes = vec![
            node("aten.view_as_complex.default", json!([v(0)]), &[(1, whole)]),
            node("aten.abs.default", json!([v(1)]), &[(2, "f32[3]")]),
        ];
        module(graph(&[(0, ty)], nodes, &[2]))
    };
    for size in ["1", "3"] {
        let error = read(&program(&format!("f32[3,{size}]"), "c64[3]")).unwrap_err();
        assert!(error.to_string().contains("not 2"), "{error}");
    }
    let module = read(&program("f32[3,k]", "c64[3]")).unwrap();
    let run = |k: usize| {
        let x = f32s(&[3, k], &vec![1.0; 3 * k]);
        heddle_interp::run(&module, &[x.into()], &Default::default())
    };
    assert!(run(2).is_ok());
    assert!(run(3).unwrap_err().to_string().contains("size 2"));
}

/// Complex numbers that leave their graph, and operators that can't take them.
#[test]
fn complex_numbers_stay_between_operators() {
    let begin = node(
        "aten.view_as_complex.default",
        json!([v(0)]),
        &[(1, "c64[3]")],
    );
    let inputs = [(0, "f32[3,2]")];
    let leaves = read(&module(graph(&inputs, vec![begin.clone()], &[1])));
    let message = leaves.unwrap_err().to_string();
    assert!(message.contains("view_as_real"), "{message}");
    let exp = node("aten.exp.default", json!([v(1)]), &[(2, "c64[3]")]);
    let end = node(
        "aten.view_as_real.default",
        json!([v(2)]),
        &[(3, "f32[3,2]")],
    );
    let refused = read(&module(graph(&inputs, vec![begin, exp, end], &[3])));
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("aten.exp.default"), "{message}");
    let inputs = [(0, "c64[3]")];
    let given = read(&module(graph(&inputs, vec![], &[0])));
    assert!(given.unwrap_err().to_string().contains("view_as_real"));
}
