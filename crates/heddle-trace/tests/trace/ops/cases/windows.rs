//! Convolutions, pooling, and images in other sizes.

use serde_json::json;

use super::super::Done;
use super::count;
use crate::common::*;

/// An array of ones and twos: sums of its windows are easy.
pub fn windows(d: &mut Done) {
    let zeros = |n: usize| ints(&vec![0; n]);
    let ones = |n: usize| ints(&vec![1; n]);
    // A row of 5, with as many axes of size 1 before it as there are.
    let row = |axes: usize| [vec![1; axes + 1], vec![5]].concat();
    for axes in 1..=3usize {
        let shape = row(axes);
        let (ty, x) = (format!("f32{}", json!(shape)), count(&shape));
        let kernel = [vec![1; axes + 1], vec![2]].concat();
        let weight = (format!("f32{}", json!(kernel)), f32s(&kernel, &[1.0, 10.0]));
        let out = [vec![1; axes + 1], vec![4]].concat();
        let to = format!("f32{}", json!(out));
        let expected = [21.0, 32.0, 43.0, 54.0];
        let inputs = [
            (ty.as_str(), x.clone()),
            (weight.0.as_str(), weight.1.clone()),
        ];
        let args = json!([v(0), v(1), none(), ones(axes), zeros(axes), ones(axes)]);
        d.one(&format!("conv{axes}d"), args, &inputs, &to, &out, &expected);
        let args = json!([v(0), v(1), none(), ones(axes), zeros(axes), ones(axes), {"bool": false}, zeros(axes), i(1)]);
        d.one("convolution", args, &inputs, &to, &out, &expected);
        let window = ints(&[vec![1; axes - 1], vec![2]].concat());
        let mut halved = shape.clone();
        halved[axes + 1] = 2;
        let to = format!("f32{}", json!(halved));
        d.one(
            &format!("avg_pool{axes}d"),
            json!([v(0), window.clone()]),
            &inputs[..1],
            &to,
            &halved,
            &[1.5, 3.5],
        );
        if axes > 1 {
            let found = d.run(
                &format!("max_pool{axes}d_with_indices"),
                json!([v(0), window.clone()]),
                json!({}),
                &inputs[..1],
                &[&to, &to.replace("f32", "i64")],
            );
            close(&found[0], &halved, &[2.0, 4.0]);
            close(&found[1], &halved, &[1.0, 3.0]);
        }
        if axes == 2 {
            d.one(
                "max_pool2d",
                json!([v(0), window]),
                &inputs[..1],
                &to,
                &halved,
                &[2.0, 4.0],
            );
        }
        let parts = ints(&[vec![1; axes - 1], vec![2]].concat());
        let names: &[&str] = match axes {
            1 => &["adaptive_avg_pool1d"],
            2 => &["adaptive_avg_pool2d", "_adaptive_avg_pool2d"],
            _ => &["_adaptive_avg_pool3d"],
        };
        for name in names {
            d.one(
                name,
                json!([v(0), parts]),
                &inputs[..1],
                &to,
                &halved,
                &[2.0, 4.0],
            );
        }
        let mut doubled = shape.clone();
        doubled[axes + 1] = 10;
        let to = format!("f32{}", json!(doubled));
        let sizes = ints(&[vec![1; axes - 1], vec![10]].concat());
        let expected: Vec<f64> = (0..10).map(|i| (i / 2 + 1) as f64).collect();
        d.one(
            &format!("upsample_nearest{axes}d.vec"),
            json!([v(0), sizes, none()]),
            &inputs[..1],
            &to,
            &doubled,
            &expected,
        );
    }
    let integers = [("i64[1,1,1,4]", i64s(&[1, 1, 1, 4], &[1, 2, 3, 5]))];
    d.one(
        "avg_pool2d",
        json!([v(0), ints(&[1, 2])]),
        &integers,
        "i64[1,1,1,2]",
        &[1, 1, 1, 2],
        &[1.0, 4.0],
    );
    let transposed = json!([v(0), v(1), none(), ints(&[2]), ints(&[0]), ints(&[1]), {"bool": true}, ints(&[1]), i(1)]);
    let inputs = [
        ("f32[1,1,2]", count(&[1, 1, 2])),
        ("f32[1,1,2]", f32s(&[1, 1, 2], &[1.0, 10.0])),
    ];
    d.one(
        "convolution",
        transposed,
        &inputs,
        "f32[1,1,5]",
        &[1, 1, 5],
        &[1.0, 10.0, 2.0, 20.0, 0.0],
    );
    let args = json!([v(0), v(1), v(2), ints(&[1]), ints(&[1]), ints(&[0]), ints(&[1]), {"bool": false}, ints(&[0]), i(1),
        list(&[json!({"bool": true}), json!({"bool": true}), json!({"bool": false})])]);
    let inputs = [
        ("f32[1,1,2]", count(&[1, 1, 2])),
        ("f32[1,1,3]", count(&[1, 1, 3])),
        ("f32[1,1,2]", f32s(&[1, 1, 2], &[1.0, 10.0])),
    ];
    let found = d.run(
        "convolution_backward",
        args,
        json!({}),
        &inputs,
        &["f32[1,1,3]", "f32[1,1,2]", "f32[0]"],
    );
    close(&found[0], &[1, 1, 3], &[1.0, 12.0, 20.0]);
    close(&found[1], &[1, 1, 2], &[5.0, 8.0]);

    let plane = ("f32[1,1,1,4]", count(&[1, 1, 1, 4]));
    let half = ("f32[1,1,1,2]", count(&[1, 1, 1, 2]));
    let args = json!([v(0), v(1), ints(&[1, 2]), ints(&[1, 2]), zeros(2), {"bool": false}, {"bool": true}, none()]);
    d.one(
        "avg_pool2d_backward",
        args,
        &[half.clone(), plane.clone()],
        "f32[1,1,1,4]",
        &[1, 1, 1, 4],
        &[0.5, 0.5, 1.0, 1.0],
    );
    d.one(
        "_adaptive_avg_pool2d_backward",
        json!([v(0), v(1)]),
        &[half.clone(), plane.clone()],
        "f32[1,1,1,4]",
        &[1, 1, 1, 4],
        &[0.5, 0.5, 1.0, 1.0],
    );
    let args =
        json!([v(0), v(1), ints(&[1, 2]), ints(&[1, 2]), zeros(2), ones(2), {"bool": false}, v(2)]);
    let inputs = [
        half,
        plane.clone(),
        ("i64[1,1,1,2]", i64s(&[1, 1, 1, 2], &[1, 3])),
    ];
    d.one(
        "max_pool2d_with_indices_backward",
        args,
        &inputs,
        "f32[1,1,1,4]",
        &[1, 1, 1, 4],
        &[0.0, 1.0, 0.0, 2.0],
    );
    let line = ("f32[1,1,2]", f32s(&[1, 1, 2], &[0.0, 4.0]));
    let args = json!([v(0), ints(&[4]), {"bool": false}, none()]);
    d.one(
        "upsample_linear1d.vec",
        args,
        &[line],
        "f32[1,1,4]",
        &[1, 1, 4],
        &[0.0, 1.0, 3.0, 4.0],
    );
    let square = ("f32[1,1,2,2]", f32s(&[1, 1, 2, 2], &[0.0, 2.0, 4.0, 6.0]));
    let args = json!([v(0), ints(&[3, 3]), {"bool": true}, none()]);
    let nine: Vec<f64> = (0..9).map(|i| (i % 3 + 2 * (i / 3)) as f64).collect();
    d.one(
        "upsample_bilinear2d.vec",
        args,
        std::slice::from_ref(&square),
        "f32[1,1,3,3]",
        &[1, 1, 3, 3],
        &nine,
    );
    let grid = ("f32[1,1,2,2]", f32s(&[1, 1, 2, 2], &[0.0, 0.0, 1.0, -1.0]));
    let args = json!([v(0), v(1), i(0), i(0), {"bool": true}]);
    d.one(
        "grid_sampler_2d",
        args,
        &[square.clone(), grid],
        "f32[1,1,1,2]",
        &[1, 1, 1, 2],
        &[3.0, 2.0],
    );
    let forms = [ints(&[1, 2]), ones(2), zeros(2), ones(2)];
    let args = json!([v(0), forms[0], forms[1], forms[2], forms[3]]);
    d.one(
        "im2col",
        args,
        &[plane],
        "f32[1,2,3]",
        &[1, 2, 3],
        &[1.0, 2.0, 3.0, 2.0, 3.0, 4.0],
    );
    let columns = ("f32[1,2,3]", f32s(&[1, 2, 3], &[1.0; 6]));
    let args = json!([v(0), ints(&[1, 4]), forms[0], forms[1], forms[2], forms[3]]);
    d.one(
        "col2im",
        args,
        &[columns],
        "f32[1,1,1,4]",
        &[1, 1, 1, 4],
        &[1.0, 2.0, 2.0, 1.0],
    );
}
