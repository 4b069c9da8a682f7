//! Result types and what is known of small integer arrays, through the builder.

use heddle_ir::infer::shape::{slice_count, slice_most};
use heddle_ir::op::{BinaryOp, PadMode, ReduceOp};
use heddle_ir::{DType, Dim, FuncBuilder, Op, Signature, Tensor, Type, TypeError, Value};

fn builder(params: &[&[Dim]]) -> (FuncBuilder, Vec<Value>) {
    let params = params
        .iter()
        .enumerate()
        .map(|(i, shape)| (format!("p{i}"), Type::tensor(DType::F32, shape.to_vec())));
    let sig = Signature {
        name: "main".into(),
        params: params.collect(),
        ..Default::default()
    };
    let b = FuncBuilder::new(sig);
    let values = b.params().to_vec();
    (b, values)
}

fn n() -> Dim {
    Dim::sym("n")
}

fn text(b: &FuncBuilder, v: Value) -> String {
    b.ty(v).to_string()
}

fn slice(b: &mut FuncBuilder, x: Value, bounds: [i64; 3]) -> Result<Value, TypeError> {
    let [s, e, t] = bounds.map(|v| b.i64s(&[v]));
    b.op1(Op::Slice { axes: vec![0] }, &[x, s, e, t])
}

#[test]
fn broadcasting_states_only_what_always_holds() {
    let (mut b, v) = builder(&[
        &[n(), Dim::from(1)],
        &[Dim::from(3)],
        &[Dim::sym("m"), Dim::from(3)],
        &[n()],
    ]);
    let add = Op::Binary(BinaryOp::Add);
    let a = b.op1(add.clone(), &[v[0], v[1]]).unwrap();
    assert_eq!(text(&b, a), "f32[n,3]");
    // Either of n and m may be 1, so neither is the result's size.
    let c = b.op1(add.clone(), &[a, v[2]]).unwrap();
    assert_eq!(text(&b, c), "f32[?,3]");
    // n must be 1 or 3, and in both cases the result has 3.
    let d = b.op1(add.clone(), &[v[3], v[1]]).unwrap();
    assert_eq!(text(&b, d), "f32[3]");
    let two = b.constant(Tensor::vector(&[0f32, 1.0]));
    assert!(b.op1(add, &[v[1], two]).is_err());
}

#[test]
fn shapes_are_followed_through_arithmetic() {
    let (mut b, v) = builder(&[&[n(), Dim::from(6)]]);
    let shape = b.op1(Op::Shape, &[v[0]]).unwrap();
    let zero = b.i64s(&[0]);
    let rows = b.op1(Op::Gather { axis: 0 }, &[shape, zero]).unwrap();
    let two = b.i64s(&[2]);
    let twice = b.op1(Op::Binary(BinaryOp::Mul), &[rows, two]).unwrap();
    let rest = b.i64s(&[-1]);
    let target = b.op1(Op::Concat { axis: 0 }, &[twice, rest]).unwrap();
    let y = b.op1(Op::Reshape, &[v[0], target]).unwrap();
    assert_eq!(text(&b, y), "f32[2*n,3]");
}

#[test]
fn slices_of_symbolic_axes() {
    let (mut b, v) = builder(&[&[n()]]);
    let cases = [
        ([0, i64::MAX, 1], "f32[n]"),
        ([-1, i64::MIN, -1], "f32[n]"),
        ([1, i64::MAX, 1], "f32[max(0, n-1)]"),
        ([0, 4, 1], "f32[min(4, n)]"),
        ([0, -1, 1], "f32[max(0, n-1)]"),
        ([0, i64::MAX, 2], "f32[floordiv(n+1, 2)]"),
        ([-3, i64::MAX, 1], "f32[n-max(0, n-3)]"),
        ([-1, i64::MIN, -2], "f32[floordiv(n+1, 2)]"),
        (
            [1, 7, 3],
            "f32[floordiv(max(0, -min(1, n)+min(7, n))+2, 3)]",
        ),
    ];
    for (bounds, expected) in cases {
        let y = slice(&mut b, v[0], bounds).unwrap();
        assert_eq!(text(&b, y), expected, "{bounds:?}");
    }
}

#[test]
fn slices_that_count_from_one_end_have_a_bound() {
    let places = || (-4..=4).chain([i64::MIN, i64::MAX]);
    let mut bounded = 0;
    for (start, end) in places().flat_map(|s| places().map(move |e| (s, e))) {
        for step in [-3, -2, -1, 1, 2, 3] {
            let Some(most) = slice_most(start, end, step) else {
                continue;
            };
            bounded += 1;
            for size in 0..9 {
                let count = slice_count(size, start, end, step);
                assert!(count <= most, "{size}: {start}..{end} by {step}: {most}");
            }
        }
    }
    assert!(bounded > 150, "{bounded}");
    assert_eq!(slice_most(-1, i64::MAX, 1), Some(1));
    assert_eq!(slice_most(0, -1, 1), None);
}

#[test]
fn slices_of_known_axes_follow_python() {
    // Start, end, step, and the length of `list(range(5))[start:end:step]`.
    let cases = [
        ([0, 5, 1], 5),
        ([1, -1, 1], 3),
        ([-2, 100, 1], 2),
        ([4, 1, 1], 0),
        ([-100, 2, 1], 2),
        ([4, 0, -1], 4),
        ([-1, i64::MIN, -1], 5),
        ([100, -100, -2], 3),
        ([0, 5, 2], 3),
        ([0, 5, i64::MAX], 1),
        ([4, i64::MIN, i64::MIN], 1),
        ([1, 4, -1], 0),
    ];
    for (bounds, expected) in cases {
        let (mut b, v) = builder(&[&[Dim::from(5)]]);
        let y = slice(&mut b, v[0], bounds).unwrap();
        assert_eq!(text(&b, y), format!("f32[{expected}]"), "{bounds:?}");
    }
    let (mut b, v) = builder(&[&[Dim::from(5)]]);
    assert!(slice(&mut b, v[0], [0, 5, 0]).is_err());
}

#[test]
fn windows_and_convolutions() {
    let (mut b, v) = builder(&[
        &[Dim::from(1), Dim::from(3), Dim::from(7), Dim::sym("w")],
        &[Dim::from(8), Dim::from(3), Dim::from(3), Dim::from(3)],
    ]);
    let pads = b.i64s(&[1, 1, 1, 1]);
    let conv = |strides: [usize; 2]| Op::Conv {
        strides: strides.to_vec(),
        dilations: vec![1, 1],
        input_dilations: vec![1, 1],
        groups: 1,
    };
    let y = b.op1(conv([2, 1]), &[v[0], v[1], pads]).unwrap();
    assert_eq!(text(&b, y), "f32[1,8,4,w]");
    let window = Op::Window {
        kind: ReduceOp::Max,
        window: vec![9, 1],
        strides: vec![1, 1],
        dilations: vec![1, 1],
    };
    let none = b.i64s(&[0, 0, 0, 0]);
    let y = b.op1(window, &[v[0], none]).unwrap();
    assert_eq!(text(&b, y), "f32[1,3,0,w]");
    assert!(b.op1(conv([0, 1]), &[v[0], v[1], pads]).is_err());
}

#[test]
fn negative_computed_sizes_are_errors() {
    let (mut b, v) = builder(&[&[n()]]);
    let shape = b.op1(Op::Shape, &[v[0]]).unwrap();
    let five = b.i64s(&[5]);
    let less = b.op1(Op::Binary(BinaryOp::Sub), &[shape, five]).unwrap();
    let zero = b.scalar(DType::F32, 0.0);
    let y = b.op1(Op::Broadcast, &[zero, less]).unwrap();
    assert_eq!(text(&b, y), "f32[max(0, n-5)]");
    let negative = b.i64s(&[-3]);
    assert!(b.op1(Op::Broadcast, &[zero, negative]).is_err());
}

#[test]
fn padding_checks_its_counts() {
    let (mut b, v) = builder(&[&[n(), Dim::from(2)]]);
    let zero = b.scalar(DType::F32, 0.0);
    let mut pad = |pads: &[i64]| {
        let pads = b.i64s(pads);
        let y = b.op1(
            Op::Pad {
                mode: PadMode::Constant,
            },
            &[v[0], pads, zero],
        );
        y.map(|y| b.ty(y).to_string())
    };
    assert_eq!(pad(&[1, 0, 2, -1]).unwrap(), "f32[n+3,1]");
    assert!(pad(&[0, -2, 0, -1]).is_err());
    assert!(pad(&[0, 0]).is_err());
}

#[test]
fn loops_count_their_stacks() {
    let (mut b, v) = builder(&[&[n()]]);
    let shape = b.op1(Op::Shape, &[v[0]]).unwrap();
    let zero = b.i64(0);
    let trip = b.op1(Op::Gather { axis: 0 }, &[shape, zero]).unwrap();
    let init = b.scalar(DType::F32, 0.0);
    let (_, params) = b.begin_region(&[Type::scalar(DType::I64), Type::scalar(DType::F32)]);
    let body = b.end_region(&[params[1], params[0]]);
    let results = b.loop_(Some(trip), None, &[init], body).unwrap();
    assert_eq!(text(&b, results[1]), "i64[n]");
    // A body that yields another shape than it takes is refused.
    let (_, params) = b.begin_region(&[Type::scalar(DType::I64), Type::scalar(DType::F32)]);
    let grown = b
        .op1(Op::Unsqueeze { axes: vec![0] }, &[params[1]])
        .unwrap();
    let body = b.end_region(&[grown]);
    assert!(b.loop_(Some(trip), None, &[init], body).is_err());
}

#[test]
fn branches_join() {
    let (mut b, v) = builder(&[&[n(), Dim::from(4)], &[Dim::from(2), Dim::from(4)]]);
    let cond = b.scalar(DType::Bool, 1.0);
    b.begin_region(&[]);
    let then = b.end_region(&[v[0]]);
    b.begin_region(&[]);
    let otherwise = b.end_region(&[v[1]]);
    let y = b.if_(cond, then, otherwise).unwrap();
    assert_eq!(text(&b, y[0]), "f32[?,4]");
}

#[test]
fn calls_bind_named_sizes() {
    let (mut b, v) = builder(&[&[Dim::sym("m"), Dim::from(4)], &[Dim::from(9)]]);
    let shape = |first: Dim| Type::tensor(DType::F32, vec![first, Dim::sym("k")]);
    let sig = Signature {
        name: "f".into(),
        params: vec![("x".into(), shape(n()))],
        results: vec![("y".into(), shape(n().mul(&Dim::from(2))))],
        ..Default::default()
    };
    let mut module = heddle_ir::Module::default();
    let f = module.declare(sig.clone());
    let y = b.call(f, &sig, &[v[0]]).unwrap();
    assert_eq!(text(&b, y[0]), "f32[2*m,4]");
    assert!(b.call(f, &sig, &[v[1]]).is_err());
}

#[test]
fn rollback_restores_the_builder() {
    let sizes = |b: &FuncBuilder| {
        (
            b.func().values.len(),
            b.func().insts.len(),
            b.func().regions.len(),
        )
    };
    let (mut b, v) = builder(&[&[n()]]);
    let before = sizes(&b);
    let point = b.checkpoint();
    b.begin_region(&[Type::scalar(DType::I64)]);
    b.op1(Op::Shape, &[v[0]]).unwrap();
    b.rollback(&point);
    assert_eq!(before, sizes(&b));
    let f = b.finish(&[("y".into(), v[0])]);
    assert!(f.regions[f.body].insts.is_empty());
}

/// Sizes at the ends of what 64 bits hold.
#[test]
fn extreme_sizes_are_followed() {
    let (mut b, v) = builder(&[&[Dim::constant(-5)]]);
    assert!(slice(&mut b, v[0], [0, 3, 1]).is_ok());
    assert!(slice(&mut b, v[0], [-1, i64::MIN, -1]).is_ok());
    let one = Dim::from(1);
    let (mut b, v) = builder(&[
        &[one.clone(), one.clone(), Dim::constant(i64::MAX)],
        &[one.clone(), one, Dim::from(0)],
    ]);
    let conv = Op::Conv {
        strides: vec![1],
        dilations: vec![1],
        input_dilations: vec![1],
        groups: 1,
    };
    let pads = b.i64s(&[0, 0]);
    let y = b.op1(conv, &[v[0], v[1], pads]).unwrap();
    assert_eq!(text(&b, y), "f32[1,1,?]");
}
