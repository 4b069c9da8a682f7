//! Gradient slots of ops tell the truth: linear ops are linear, multilinear ops are linear in each operand, and ops without
//! a gradient do not change with their float operands.

use heddle_interp::fold;
use heddle_ir::op::*;
use heddle_ir::{DType, Op, Tensor};

/// Float operands, which are varied, and the others, each with its place.
struct Case {
    op: Op,
    operands: Vec<Tensor>,
}

fn case(op: Op, operands: &[Tensor]) -> Case {
    let operands = operands.to_vec();
    Case { op, operands }
}

fn floats(shape: &[usize], seed: usize) -> Tensor {
    let n: usize = shape.iter().product();
    let value = |i: usize| 0.31 + 0.47 * ((i * 7 + seed * 3) % 11) as f64 - 0.013 * i as f64;
    let values: Vec<f64> = (0..n).map(value).collect();
    Tensor::from_slice(shape.to_vec(), &values)
}

fn ints(values: &[i64]) -> Tensor {
    Tensor::vector(values)
}

fn cases() -> Vec<Case> {
    let (x, y) = (floats(&[2, 3], 1), floats(&[2, 3], 2));
    let scalar = |seed| floats(&[], seed);
    let index = Tensor::from_slice(vec![2, 3], &[1i64, 0, 1, 0, 1, 0]);
    let mut all = vec![];
    all.extend(
        UnaryOp::ALL
            .iter()
            .map(|&k| case(Op::Unary(k), std::slice::from_ref(&x))),
    );
    all.extend(
        BinaryOp::ALL
            .iter()
            .map(|&k| case(Op::Binary(k), &[x.clone(), y.clone()])),
    );
    all.extend(
        CompareOp::ALL
            .iter()
            .map(|&k| case(Op::Compare(k), &[x.clone(), y.clone()])),
    );
    let cond = Tensor::splat(DType::Bool, vec![3], 1.0);
    let one = |op: Op| case(op, std::slice::from_ref(&x));
    all.push(case(Op::Select, &[cond, x.clone(), y.clone()]));
    all.extend([one(Op::cast(DType::F64)), one(Op::Shape), one(Op::NonZero)]);
    all.push(case(Op::Reshape, &[x.clone(), ints(&[3, 2])]));
    all.push(one(Op::Transpose { perm: vec![1, 0] }));
    all.push(one(Op::Unsqueeze { axes: vec![1] }));
    all.push(case(Op::Squeeze { axes: vec![0] }, &[floats(&[1, 3], 4)]));
    all.push(case(Op::Broadcast, &[x.clone(), ints(&[4, 2, 3])]));
    let part = [x.clone(), ints(&[0]), ints(&[2]), ints(&[1])];
    all.push(case(Op::Slice { axes: vec![1] }, &part));
    all.push(case(Op::Concat { axis: 0 }, &[x.clone(), y.clone()]));
    for &mode in PadMode::ALL {
        all.push(case(
            Op::Pad { mode },
            &[x.clone(), ints(&[1, 1, 0, 1]), scalar(3)],
        ));
    }
    all.push(case(Op::Gather { axis: 0 }, &[x.clone(), ints(&[1, 0, 1])]));
    all.push(case(
        Op::GatherElements { axis: 0 },
        &[x.clone(), index.clone()],
    ));
    let tuples = Tensor::from_slice(vec![2, 1], &[1i64, 0]);
    all.push(case(
        Op::GatherNd { batch_dims: 0 },
        &[x.clone(), tuples.clone()],
    ));
    for &reduce in ScatterReduce::ALL {
        let op = Op::ScatterElements { axis: 0, reduce };
        all.push(case(op, &[x.clone(), index.clone(), y.clone()]));
        all.push(case(
            Op::ScatterNd { reduce },
            &[x.clone(), tuples.clone(), y.clone()],
        ));
    }
    all.push(case(
        Op::UpdateSlice,
        &[x.clone(), floats(&[1, 2], 5), ints(&[1, 0])],
    ));
    for &kind in ReduceOp::ALL {
        let (axes, keep) = (vec![1], false);
        all.push(one(Op::Reduce { kind, axes, keep }));
        let (axis, exclusive, reverse) = (1, false, true);
        all.push(one(Op::Cumulative {
            kind,
            axis,
            exclusive,
            reverse,
        }));
        let offsets = ints(&[0, 2]);
        all.push(case(Op::SegmentReduce { kind }, &[x.clone(), offsets]));
        let (strides, dilations) = (vec![1], vec![1]);
        let window = Op::Window {
            kind,
            window: vec![2],
            strides,
            dilations,
        };
        all.push(case(window, &[x.clone(), ints(&[0, 0])]));
    }
    let (kind, axis) = (Extreme::Max, 1);
    all.push(one(Op::ArgReduce {
        kind,
        axis,
        keep: false,
        last: false,
    }));
    all.push(case(
        Op::TopK { axis, kind },
        &[x.clone(), Tensor::scalar(2i64)],
    ));
    all.push(case(Op::Dot, &[x.clone(), floats(&[3, 2], 6)]));
    let conv = Op::Conv {
        strides: vec![1],
        dilations: vec![1],
        input_dilations: vec![1],
        groups: 1,
    };
    let operands = [floats(&[1, 2, 5], 7), floats(&[3, 2, 2], 8), ints(&[1, 0])];
    all.push(case(conv, &operands));
    all
}

/// The first result as floats; `None` if it is no float tensor or the op does not take floats.
fn run(op: &Op, operands: &[Tensor]) -> Option<Vec<f64>> {
    let operands: Vec<&Tensor> = operands.iter().collect();
    let result = fold(op, &operands)?.into_iter().next()?;
    result.dtype().is_float().then(|| result.to_f64s())?
}

fn combine(a: &Tensor, b: &Tensor, f: impl Fn(f64, f64) -> f64) -> Tensor {
    let (x, y) = (a.to_f64s().expect("floats"), b.to_f64s().expect("floats"));
    let values: Vec<f64> = x.iter().zip(&y).map(|(x, y)| f(*x, *y)).collect();
    Tensor::from_slice(a.shape().to_vec(), &values)
}

/// Is the op additive and homogeneous in these operands together?
fn is_linear(op: &Op, operands: &[Tensor], varied: &[usize]) -> bool {
    let mut sum = operands.to_vec();
    let mut other = operands.to_vec();
    for &i in varied {
        other[i] = combine(&operands[i], &operands[i], |a, _| (a * 5.7).sin() * 2.0);
        sum[i] = combine(&operands[i], &other[i], |a, b| 3.0 * a + b);
    }
    let all = [operands, &other, &sum].map(|o| run(op, o).expect("floats"));
    let [a, b, sum] = all;
    let mut triples = a.iter().zip(&b).zip(&sum);
    triples.all(|((a, b), sum)| (3.0 * a + b - sum).abs() < 1e-9)
}

#[test]
fn gradient_slots_are_true() {
    let mut seen = vec![];
    for Case { op, operands } in cases() {
        let floats: Vec<usize> = (0..operands.len())
            .filter(|&i| operands[i].dtype().is_float())
            .collect();
        let Some(before) = run(&op, &operands) else {
            continue;
        };
        let (name, slot) = (op.name(), op.props().gradient);
        seen.push(slot);
        let together = is_linear(&op, &operands, &floats);
        match slot {
            Gradient::Linear => assert!(together, "{name} is not linear"),
            Gradient::Multilinear => {
                assert!(!together, "{name} is linear");
                let each = |&i: &usize| is_linear(&op, &operands, &[i]);
                assert!(floats.iter().all(each), "{name} is not multilinear");
            }
            Gradient::Zero => {
                let near = operands
                    .iter()
                    .enumerate()
                    .map(|(i, t)| match floats.contains(&i) {
                        true => combine(t, t, |a, _| a + 1e-7),
                        false => t.clone(),
                    });
                let near: Vec<Tensor> = near.collect();
                assert_eq!(run(&op, &near), Some(before), "{name} changes");
            }
            Gradient::Selection => {
                let mut given = floats.iter().filter_map(|&i| operands[i].to_f64s());
                let given: Vec<f64> = given.by_ref().flatten().collect();
                assert!(before.iter().all(|v| given.contains(v)), "{name} computes");
            }
            Gradient::Elementwise | Gradient::Product => {
                assert!(!together, "{name} is linear");
            }
            Gradient::Container | Gradient::Nested => unreachable!("{name} takes tensors"),
        }
    }
    for slot in [
        Gradient::Zero,
        Gradient::Linear,
        Gradient::Multilinear,
        Gradient::Elementwise,
        Gradient::Selection,
        Gradient::Product,
    ] {
        assert!(seen.contains(&slot), "no case for {slot:?}");
    }
}
