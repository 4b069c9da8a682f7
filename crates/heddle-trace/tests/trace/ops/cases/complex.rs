//! Complex numbers, which are pairs.

use std::f64::consts::TAU;

use serde_json::{Value as Json, json};

use super::super::Done;
use crate::common::*;

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
    crate::common::numbers(t)
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

    // (3 + 4i) / (2 - i) and (-1 + 2i) / 3i.
    near(
        apply_to(d, "div.Tensor", &[], &[a, b], "c64[2]"),
        &[2, 2],
        &[0.4, 2.2, 2.0 / 3.0, 1.0 / 3.0],
    );
    near(
        apply_to(d, "reciprocal", &[], &[b], "c64[2]"),
        &[2, 2],
        &[0.4, 0.2, 0.0, -1.0 / 3.0],
    );
    let e = std::f64::consts::E;
    let turned = |(re, im): (f64, f64)| [re.exp() * im.cos(), re.exp() * im.sin()];
    near(
        apply_to(d, "exp", &[], &[(&[2], &[1.0, 0.0, -1.0, 2.0])], "c64[2]"),
        &[2, 2],
        &[&[e, 0.0], &turned((-1.0, 2.0))[..]].concat(),
    );
    let same = (shape, &[3.0, 4.0, 0.0, 3.0][..]);
    for (name, wanted) in [("eq.Tensor", [1.0, 0.0]), ("ne.Tensor", [0.0, 1.0])] {
        near(apply_to(d, name, &[], &[a, same], "bool[2]"), &[2], &wanted);
    }
    for (name, wanted) in [("eq.Scalar", [0.0, 1.0]), ("ne.Scalar", [1.0, 0.0])] {
        let x = (shape, &[2.0, 1.0, 2.0, 0.0][..]);
        near(apply_to(d, name, &[f(2.0)], &[x], "bool[2]"), &[2], &wanted);
    }
    let gap = (shape, &[0.0, f32::NAN, 1.0, 1.0][..]);
    near(
        apply_to(d, "isnan", &[], &[gap], "bool[2]"),
        &[2],
        &[1.0, 0.0],
    );
    near(
        apply_to(d, "full_like", &[f(0.5)], &[a], "c64[2]"),
        &[2, 2],
        &[0.5, 0.0, 0.5, 0.0],
    );
    // [[3 + 4i, -1 + 2i]] [[2 - i], [3i]]
    let [row, column]: [&[usize]; 2] = [&[1, 2], &[2, 1]];
    near(
        apply_to(d, "mm", &[], &[(row, x), (column, y)], "c64[1,1]"),
        &[1, 1, 2],
        &[4.0, 2.0],
    );
    let [row, column]: [&[usize]; 2] = [&[1, 1, 2], &[1, 2, 1]];
    near(
        apply_to(d, "bmm", &[], &[(row, x), (column, y)], "c64[1,1,1]"),
        &[1, 1, 1, 2],
        &[4.0, 2.0],
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
    d.0.insert("aten.polar.default".into());
    let polar = node("aten.polar.default", json!([v(0), v(1)]), &[(2, "c64[2]")]);
    let main = graph(&[(0, parts[0].0), (1, parts[1].0)], vec![polar], &[2]);
    let found = results(&module(main), &[parts[0].1.clone(), parts[1].1.clone()]);
    let wanted = [3f64.cos(), 3f64.sin(), 2.0 * 4f64.cos(), 2.0 * 4f64.sin()];
    close(&found[0], &[2, 2], &wanted);
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

/// Integers that take the place of complex numbers have no imaginary part, and indices are the same for both parts.
#[test]
fn integers_are_real_numbers_or_indices() {
    let apply = |target: &str, args: Json, ty: &str| {
        let target = format!("aten.{target}");
        let nodes = vec![
            node(
                "aten.view_as_complex.default",
                json!([v(0)]),
                &[(3, "c64[2]")],
            ),
            node(&target, args, &[(4, ty)]),
        ];
        let inputs = [(0, "f32[2,2]"), (1, "i64[]"), (2, "i64[1]")];
        let program = module(graph(&inputs, nodes, &[4]));
        let x = f32s(&[2, 2], &[5.0, 6.0, 7.0, 8.0]);
        let given = [x, i64s(&[], &[1]), i64s(&[1], &[1])];
        results(&program, &given).remove(0)
    };
    for (target, from) in [("select_scatter", 1), ("slice_scatter", 2)] {
        let args = json!([v(3), v(from), i(0), i(1)]);
        let found = apply(&format!("{target}.default"), args, "c64[2]");
        close(&found, &[2, 2], &[5.0, 6.0, 1.0, 0.0]);
    }
    let selected = [
        ("gather.default", json!([v(3), i(0), v(2)])),
        ("index_select.default", json!([v(3), i(0), v(2)])),
        ("index.Tensor", json!([v(3), list(&[v(2)])])),
    ];
    for (target, args) in selected {
        close(&apply(target, args, "c64[1]"), &[1, 2], &[7.0, 8.0]);
    }
}

/// A number of Python, a constant in double precision, is compared in the precision of the array; another array is not.
#[test]
fn numbers_are_compared_in_the_precision_of_the_array() {
    let arrays = [
        ("c64[1]", f32s(&[1, 2], &[0.1, 0.0]), 0.1),
        ("f32[1]", f32s(&[1], &[0.1]), 0.1),
        // The next number in single precision.
        ("i64[1]", i64s(&[1], &[16_777_217]), 16_777_216.0),
    ];
    for (ty, x, number) in arrays {
        for (target, wanted) in [("eq.Scalar", 1.0), ("ne.Scalar", 0.0), ("eq.Tensor", 0.0)] {
            let target = format!("aten.{target}");
            let nodes = vec![node(&target, json!([v(0), v(1)]), &[(2, "bool[1]")])];
            let program = module(graph(&[(0, ty), (1, "c128[]")], nodes, &[2]));
            let number = heddle_ir::Tensor::from_slice(vec![2], &[number, 0f64]);
            let found = results(&program, &[x.clone(), number]);
            assert_eq!(numbers(&found[0]), [wanted], "{target} of {ty}");
        }
    }
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

/// Large and small divisors neither overflow nor vanish; zero gives no numbers.
#[test]
fn quotients_of_extreme_numbers() {
    let mut done = Done(Default::default());
    let (shape, big): (&[usize], f32) = (&[3], 1e30);
    let x = [big, big, 1e-30, 0.0, 1.0, 1.0];
    let y = [big, big, 0.0, 1e-30, 0.0, 0.0];
    let (_, found) = apply_to(
        &mut done,
        "div.Tensor",
        &[],
        &[(shape, &x), (shape, &y)],
        "c64[3]",
    );
    assert_eq!(found[..4], [1.0, 0.0, 0.0, -1.0]);
    assert!(found[4..].iter().all(|x| !x.is_finite()), "{found:?}");
}

/// Arguments, results, and values of branches, loops and calls are pairs.
#[test]
fn complex_numbers_go_in_and_out() {
    let inputs = [(0, "c64[n]"), (1, "bool[]")];
    let double = json!({"graph": graph(&[(0, "c64[n]")],
        vec![node("aten.add.Tensor", json!([v(0), v(0)]), &[(1, "c64[n]")])], &[1])});
    let same = json!({"graph": graph(&[(0, "c64[n]")], vec![], &[0])});
    let square = node("aten.mul.Tensor", json!([v(0), v(1)]), &[(2, "c64[n]")]);
    let step = json!({"graph": graph(&[(0, "c64[n]"), (1, "c64[n]")], vec![square], &[2, 2])});
    let nodes = vec![
        node(
            "cond",
            json!([v(1), double, same, list(&[v(0)])]),
            &[(2, "c64[n]")],
        ),
        node(
            "aten.unsqueeze.default",
            json!([v(2), i(0)]),
            &[(3, "c64[1,n]")],
        ),
        node(
            "aten.cat.default",
            json!([list(&[v(3), v(3)])]),
            &[(4, "c64[2,n]")],
        ),
        node(
            "scan",
            json!([step, list(&[v(2)]), list(&[v(4)]), list(&[])]),
            &[(5, "c64[n]"), (6, "c64[2,n]")],
        ),
    ];
    let program = module(graph(&inputs, nodes, &[2, 5, 6]));
    let printed = text(&read(&program).unwrap());
    assert!(printed.contains("f32[n,2]"), "{printed}");
    let i_ = f32s(&[1, 2], &[0.0, 1.0]);
    let found = results(&program, &[i_, bools(&[], &[true])]);
    close(&found[0], &[1, 2], &[0.0, 2.0]);
    // (2i)^3 after (2i)^2.
    close(&found[1], &[1, 2], &[0.0, -8.0]);
    close(&found[2], &[2, 1, 2], &[-4.0, 0.0, 0.0, -8.0]);
}

/// Operators that can't take them, and real numbers where complex ones are stated.
#[test]
fn complex_numbers_that_are_refused() {
    let erf = node("aten.erf.default", json!([v(0)]), &[(1, "c64[3]")]);
    let refused = read(&module(graph(&[(0, "c64[3]")], vec![erf], &[1])));
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("aten.erf.default"), "{message}");
    let inner = json!({"graph": graph(&[(0, "c64[3]")], vec![], &[0])});
    let call = node(
        "invoke_subgraph",
        json!([inner, list(&[v(0)])]),
        &[(1, "c64[3]")],
    );
    let given = read(&module(graph(&[(0, "f32[3,2]")], vec![call], &[1])));
    let message = given.unwrap_err().to_string();
    assert!(message.contains("is of complex numbers"), "{message}");
}
