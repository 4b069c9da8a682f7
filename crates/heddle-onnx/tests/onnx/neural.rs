//! Neural-net operators against what their definitions say, computed here element by element,
//! with static shapes and with shapes that only the run knows.

use crate::common::*;
use heddle_ir::{Datum, Tensor};
use heddle_onnx::proto::tensor_shape_proto::{Dimension, dimension};
use heddle_onnx::proto::*;

/// A list attribute.
fn list(node: NodeProto, name: &str, values: &[i64]) -> NodeProto {
    node.attr(AttributeProto {
        name: Some(name.into()),
        ints: values.to_vec(),
        ..Default::default()
    })
}

fn text(node: NodeProto, name: &str, value: &str) -> NodeProto {
    node.attr(AttributeProto {
        name: Some(name.into()),
        s: Some(value.as_bytes().to_vec()),
        ..Default::default()
    })
}

/// Runs one node on float inputs named `a`, `b`, …; once with static shapes and once without.
fn run_node(node: NodeProto, opset: i64, inputs: &[Tensor]) -> Vec<Tensor> {
    let of = |dynamic: bool| {
        let infos = inputs.iter().enumerate().map(|(i, t)| {
            let mut info = info(&node.input[i], FLOAT, &[]);
            let dims = t.shape().iter().enumerate().map(|(k, &d)| Dimension {
                value: Some(match dynamic {
                    true => dimension::Value::DimParam(format!("{}{k}", node.input[i])),
                    false => dimension::Value::DimValue(d as i64),
                }),
                ..Default::default()
            });
            let dims = dims.collect();
            if let Some(type_proto::Value::TensorType(t)) =
                info.r#type.as_mut().and_then(|t| t.value.as_mut())
            {
                t.shape = Some(TensorShapeProto { dim: dims });
            }
            info
        });
        let outputs: Vec<&str> = node.output.iter().map(String::as_str).collect();
        let g = graph("main", infos.collect(), names(&outputs), vec![node.clone()]);
        let mut m = model(g, vec![]);
        m.opset_import[0].version = Some(opset);
        run(&m, inputs)
    };
    let (fixed, dynamic) = (of(false), of(true));
    assert_eq!(fixed, dynamic, "{node:?}");
    let tensor = |d: Datum| match d {
        Datum::Tensor(t) => t,
        other => panic!("{other:?}"),
    };
    fixed.into_iter().map(tensor).collect()
}

/// Numbers that look random.
fn noise(shape: &[usize], seed: u32) -> Tensor {
    let mut state = seed.wrapping_mul(747796405).wrapping_add(2891336453);
    let count = shape.iter().product();
    let next = |_| {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 16) as f32 / 32768.0 - 1.0
    };
    Tensor::from_slice(shape.to_vec(), &(0..count).map(next).collect::<Vec<_>>())
}

fn values(t: &Tensor) -> Vec<f32> {
    t.to_vec().expect("f32")
}

fn assert_close(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= 1e-5, "{what}: element {i} is {a}, not {b}");
    }
}

/// One window of pooling: what is in the input, and how many elements padding adds.
struct Row {
    places: Vec<Vec<usize>>,
    padding: Vec<usize>,
}

/// Windows along one axis, as ONNX's formula counts them.
fn windows(size: i64, kernel: i64, stride: i64, dilation: i64, pads: [i64; 2], ceil: bool) -> Row {
    let room = size + pads[0] + pads[1] - dilation * (kernel - 1) - 1;
    let mut count = room.div_euclid(stride) + 1;
    if ceil && room.rem_euclid(stride) != 0 && count * stride < size + pads[0] {
        count += 1;
    }
    let mut row = Row {
        places: vec![],
        padding: vec![],
    };
    for w in 0..count.max(0) {
        let all: Vec<i64> = (0..kernel)
            .map(|e| w * stride - pads[0] + e * dilation)
            .collect();
        let inside = all.iter().filter(|p| (0..size).contains(p));
        row.places.push(inside.map(|&p| p as usize).collect());
        let padded = all
            .iter()
            .filter(|p| (-pads[0]..size + pads[1]).contains(p));
        row.padding.push(padded.count());
    }
    row
}

#[test]
fn pooling() {
    for case in 0..120i64 {
        let pick = |n: i64, k: i64| (case * 7919 + k * 104729 + case * k) % n;
        let size = [4 + pick(4, 1), 3 + pick(5, 2)];
        let kernel = [1 + pick(3, 3), 1 + pick(3, 4)];
        let strides = [1 + pick(3, 5), 1 + pick(3, 6)];
        let dilations = [1 + pick(2, 7), 1];
        let pad = |i: usize, k: i64| pick(kernel[i], k);
        let pads = [pad(0, 8), pad(1, 9), pad(0, 10), pad(1, 11)];
        let (ceil, include) = (case % 2 == 1, case % 3 == 1);
        let axis = |i: usize| {
            let p = [pads[i], pads[2 + i]];
            windows(size[i], kernel[i], strides[i], dilations[i], p, ceil)
        };
        let (rows, columns) = (axis(0), axis(1));
        let shape = [2, 2, size[0] as usize, size[1] as usize];
        let x = noise(&shape, case as u32);
        let data = values(&x);
        let (mut max, mut mean, mut index) = (vec![], vec![], vec![]);
        for image in 0..4 {
            for (r, r_padded) in rows.places.iter().zip(&rows.padding) {
                for (c, c_padded) in columns.places.iter().zip(&columns.padding) {
                    let places: Vec<usize> = r
                        .iter()
                        .flat_map(|i| c.iter().map(move |j| (image * shape[2] + i) * shape[3] + j))
                        .collect();
                    let best = places
                        .iter()
                        .copied()
                        .reduce(|a, b| if data[b] > data[a] { b } else { a });
                    max.push(best.map_or(f32::NEG_INFINITY, |b| data[b]));
                    index.push(best);
                    let count = if include {
                        r_padded * c_padded
                    } else {
                        places.len()
                    };
                    let sum: f32 = places.iter().map(|&p| data[p]).sum();
                    mean.push(sum / count as f32);
                }
            }
        }
        let what = format!("case {case}: {size:?} {kernel:?} {strides:?} {dilations:?} {pads:?}");
        let pool = |op: &str, outputs: &[&str]| {
            let n = list(node(op, &["a"], outputs), "kernel_shape", &kernel);
            let n = list(list(n, "strides", &strides), "dilations", &dilations);
            list(n, "pads", &pads).int("ceil_mode", ceil as i64)
        };
        let found = run_node(pool("MaxPool", &["y", "i"]), 22, std::slice::from_ref(&x));
        let out = [2, 2, rows.places.len(), columns.places.len()];
        assert_eq!(found[0].shape(), out, "{what}");
        assert_close(&values(&found[0]), &max, &what);
        let places = found[1].to_i64s().expect("integers");
        for (place, best) in places.iter().zip(&index) {
            // A window that has nothing but padding has no place.
            assert!(best.is_none_or(|b| b as i64 == *place), "{what}");
        }
        let n = pool("AveragePool", &["y"]).int("count_include_pad", include as i64);
        let found = run_node(n, 22, &[x]);
        let defined = |v: &[f32]| {
            v.iter()
                .map(|v| if v.is_nan() { 0.0 } else { *v })
                .collect()
        };
        let (found, mean): (Vec<f32>, Vec<f32>) = (defined(&values(&found[0])), defined(&mean));
        assert_close(&found, &mean, &what);
    }
}

#[test]
fn column_major_indices() {
    let x = Tensor::from_slice(vec![1, 1, 2, 3], &[0f32, 1.0, 5.0, 4.0, 3.0, 2.0]);
    let n = list(
        node("MaxPool", &["a"], &["y", "i"]),
        "kernel_shape",
        &[2, 2],
    );
    let found = run_node(n.clone(), 12, std::slice::from_ref(&x));
    assert_eq!(found[1].to_i64s(), Some(vec![3, 2]));
    let found = run_node(n.int("storage_order", 1), 12, &[x]);
    assert_eq!(found[1].to_i64s(), Some(vec![1, 4]));
}

#[test]
fn same_padding() {
    for (size, kernel, stride, dilation) in [(5, 2, 1, 1), (7, 3, 2, 1), (4, 3, 3, 2), (6, 1, 4, 1)]
    {
        for upper in [true, false] {
            let x = noise(&[1, 1, size], size as u32);
            let data = values(&x);
            let count = size.div_ceil(stride);
            let span = (kernel - 1) * dilation + 1;
            let total = ((count - 1) * stride + span).saturating_sub(size);
            let begin = if upper { total / 2 } else { total.div_ceil(2) };
            let at = |p: usize| p.checked_sub(begin).and_then(|p| data.get(p)).copied();
            let expected: Vec<f32> = (0..count)
                .map(|w| {
                    (0..kernel)
                        .filter_map(|e| at(w * stride + e * dilation))
                        .sum()
                })
                .collect();
            let w = Tensor::from_slice(vec![1, 1, kernel], &vec![1f32; kernel]);
            let n = list(
                node("Conv", &["a", "b"], &["y"]),
                "strides",
                &[stride as i64],
            );
            let n = list(n, "dilations", &[dilation as i64]);
            let n = text(
                n,
                "auto_pad",
                if upper { "SAME_UPPER" } else { "SAME_LOWER" },
            );
            let found = run_node(n, 11, &[x, w]);
            assert_close(&values(&found[0]), &expected, "convolution");
        }
    }
}

/// Every element of the input adds its multiple of the weight to the output.
#[test]
fn transposed_convolution() {
    for case in 0..40i64 {
        let pick = |n: i64, k: i64| (case * 7919 + k * 104729 + case * k) % n;
        let groups = 1 + pick(2, 1) as usize;
        let (inputs, outputs) = (2, 1 + pick(2, 2) as usize);
        let (size, kernel) = (2 + pick(4, 3), 1 + pick(3, 4));
        let (stride, dilation) = (1 + pick(3, 5), 1 + pick(2, 6));
        let extra = pick(stride, 7);
        let full = stride * (size - 1) + extra + (kernel - 1) * dilation + 1;
        let x = noise(&[2, inputs, size as usize], case as u32);
        let w = noise(&[inputs, outputs, kernel as usize], 99 + case as u32);
        let n = list(
            node("ConvTranspose", &["a", "b"], &["y"]),
            "strides",
            &[stride],
        );
        let n = list(n, "dilations", &[dilation]).int("group", groups as i64);
        let n = list(n, "output_padding", &[extra]);
        // By pads, by a size, by a size that asks for more than the input reaches.
        let (n, begin, length) = match case % 3 {
            0 => {
                let pads = [pick(2, 8).min(full - 1), 0];
                (list(n, "pads", &pads), pads[0], full - pads[0])
            }
            1 => {
                let length = (full - pick(3, 9)).max(1);
                let total = full - length;
                let begin = if case % 2 == 0 {
                    total - total / 2
                } else {
                    total / 2
                };
                let mode = if case % 2 == 0 {
                    "NOTSET"
                } else {
                    "SAME_UPPER"
                };
                (
                    text(list(n, "output_shape", &[length]), "auto_pad", mode),
                    begin,
                    length,
                )
            }
            _ => (list(n, "output_shape", &[full + 1]), 0, full + 1),
        };
        let (xs, ws) = (values(&x), values(&w));
        let mut expected = vec![0f32; 2 * outputs * groups * length as usize];
        for image in 0..2 {
            for i in 0..inputs {
                let group = i / (inputs / groups);
                for o in 0..outputs {
                    for s in 0..size {
                        for k in 0..kernel {
                            let place = s * stride + k * dilation - begin;
                            if (0..length).contains(&place) {
                                let row = (image * outputs * groups + group * outputs + o) as i64;
                                let x = xs[(image * inputs + i) * size as usize + s as usize];
                                let w = ws[(i * outputs + o) * kernel as usize + k as usize];
                                expected[(row * length + place) as usize] += x * w;
                            }
                        }
                    }
                }
            }
        }
        let found = run_node(n, 11, &[x, w]);
        assert_eq!(
            found[0].shape(),
            [2, outputs * groups, length as usize],
            "case {case}"
        );
        assert_close(&values(&found[0]), &expected, &format!("case {case}"));
    }
}

#[test]
fn resizing_before_opset_11() {
    let x = Tensor::from_slice(vec![1, 1, 1, 4], &[1f32, 2.0, 3.0, 4.0]);
    let scales = AttributeProto {
        name: Some("scales".into()),
        floats: vec![1.0, 1.0, 1.0, 1.5],
        ..Default::default()
    };
    let n = node("Upsample", &["a"], &["y"]).attr(scales);
    let found = run_node(n.clone(), 7, std::slice::from_ref(&x));
    assert_eq!(values(&found[0]), [1.0, 1.0, 2.0, 3.0, 3.0, 4.0]);
    let found = run_node(text(n, "mode", "linear"), 8, std::slice::from_ref(&x));
    let expected = [
        1.0,
        1.0 + 2.0 / 3.0,
        2.0 + 1.0 / 3.0,
        3.0,
        3.0 + 2.0 / 3.0,
        4.0,
    ];
    assert_close(&values(&found[0]), &expected, "linear");
    // A nearest element is rounded up where the result is smaller.
    let half = Tensor::from_slice(vec![4], &[1f32, 1.0, 1.0, 0.6]);
    let found = run_node(node("Resize", &["a", "b"], &["y"]), 10, &[x, half]);
    assert_eq!(values(&found[0]), [1.0, 3.0]);
}

#[test]
fn batch_normalization_in_training() {
    let x = Tensor::from_slice(vec![2, 1, 2], &[1f32, 3.0, 5.0, 7.0]);
    let one = |v: f32| Tensor::vector(&[v]);
    let inputs = [x, one(2.0), one(1.0), one(10.0), one(20.0)];
    let names = ["a", "b", "c", "d", "e"];
    let deviation = (5f32 + 1e-5).sqrt();
    let expected: Vec<f32> = [-3.0, -1.0, 1.0, 3.0]
        .map(|v| v / deviation * 2.0 + 1.0)
        .to_vec();
    let new = node("BatchNormalization", &names, &["y", "m", "v"]).int("training_mode", 1);
    let old = node("BatchNormalization", &names, &["y", "m", "v", "sm", "sv"]);
    for (n, opset) in [(new, 15), (old, 9)] {
        let found = run_node(n, opset, &inputs);
        assert_close(&values(&found[0]), &expected, "y");
        assert_close(&values(&found[1]), &[9.4], "running mean");
        assert_close(&values(&found[2]), &[18.5], "running variance");
        for (found, expected) in found[3..].iter().zip([4.0, 5.0]) {
            assert_close(&values(found), &[expected], "saved");
        }
    }
}

#[test]
fn attributes_out_of_range_are_errors() {
    let broken = [
        list(node("MaxPool", &["a"], &["y"]), "kernel_shape", &[i64::MAX]),
        list(node("MaxPool", &["a"], &["y"]), "kernel_shape", &[0]),
        node("AveragePool", &["a"], &["y"]),
        list(node("Conv", &["a", "a"], &["y"]), "strides", &[1, 1]),
        node("Conv", &["a", "a"], &["y"]).int("group", -1),
        text(node("Conv", &["a", "a"], &["y"]), "auto_pad", "SOME"),
        node("LayerNormalization", &["a", "a"], &["y"]).int("axis", 9),
        node("LayerNormalization", &["a", "a"], &["y"]).int("stash_type", 99),
        node("LRN", &["a"], &["y"]).int("size", 0),
        node("GroupNormalization", &["a", "a", "a"], &["y"]).int("num_groups", 0),
        node("DFT", &["a"], &["y"]).int("axis", 2),
    ];
    for n in broken {
        let inputs = vec![info("a", FLOAT, &[1, 2, 3])];
        let g = graph("main", inputs, names(&["y"]), vec![n.clone()]);
        assert!(import(&model(g, vec![])).is_err(), "{n:?}");
    }
}
