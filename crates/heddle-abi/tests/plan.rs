//! Memory plans are evaluated with checks, and only when a size changed.

use heddle_abi::plan::{
    Array, Comparison, Domain, Expr, FloatKind, FloatOp, Function, IntKind, IntOp, Value,
};
use heddle_abi::{Launch, Plan, PlanFault};

/// `n` rows of `m` floats twice: one in scratch memory, one an output.
fn rows() -> Plan {
    let mut plan = Plan::new(2);
    let (n, m) = (plan.size(0), plan.size(1));
    let count = plan.add(Expr::Product(n, m));
    let bytes = plan.bytes(count, 4, "Add node `rows`");
    plan.outputs = vec![Array {
        name: "rows".into(),
        bytes,
        grows: None,
        shape: vec![Some(n), None],
    }];
    let first = plan.reserve_scratch(bytes, "Add node `rows`");
    let second = plan.reserve_scratch(bytes, "Mul node `twice`");
    plan.word(first);
    plan.word(second);
    plan
}

/// The value of an expression over the sizes.
fn value(sizes: &[i64], build: impl Fn(&mut Plan) -> Value) -> i64 {
    let mut plan = Plan::new(sizes.len());
    let value = build(&mut plan);
    plan.word(value);
    let mut launch = Launch::new(&plan);
    launch.evaluate(&plan, sizes, [1, 1]).unwrap();
    launch.table()[0]
}

#[test]
fn offsets_follow_the_sizes() {
    let plan = rows();
    let mut launch = Launch::new(&plan);
    assert!(launch.evaluate(&plan, &[3, 7], [2, 100]).unwrap());
    assert_eq!(launch.table(), [0, 128]);
    assert_eq!(
        (launch.scratch(), launch.bytes(&plan.outputs[0])),
        (256, 84)
    );
    let shape: Vec<_> = launch.shape(&plan.outputs[0]).collect();
    assert_eq!(shape, [Some(3), None]);
    assert!(!launch.evaluate(&plan, &[3, 7], [2, 100]).unwrap());
    assert!(launch.evaluate(&plan, &[3, 7], [3, 100]).unwrap());
    assert_eq!(launch.sizes(), [3, 7, 3, 100]);
}

#[test]
fn sizes_that_are_too_large_name_the_node() {
    let plan = rows();
    let mut launch = Launch::new(&plan);
    for (sizes, fault) in [
        ([1 << 40, 1 << 40], PlanFault::Overflow),
        ([1 << 31, 1 << 30], PlanFault::Overflow),
        ([i64::MAX / 4, 1], PlanFault::Overflow),
        ([-3, 2], PlanFault::Negative(-3)),
        ([-3, -2], PlanFault::Negative(-3)),
    ] {
        let error = launch.evaluate(&plan, &sizes, [1, 1]).unwrap_err();
        assert_eq!(
            (error.fault, error.node.as_str()),
            (fault, "Add node `rows`")
        );
        assert!(error.to_string().contains(&sizes[0].to_string()), "{error}");
        // The sizes of a launch that failed are evaluated again.
        assert!(launch.evaluate(&plan, &sizes, [1, 1]).is_err());
    }
    // An empty array has any other sizes.
    launch.evaluate(&plan, &[0, i64::MAX], [1, 1]).unwrap();
    launch.evaluate(&plan, &[-3, 0], [1, 1]).unwrap();
    assert_eq!(launch.scratch(), 0);
}

#[test]
fn a_value_that_wrapped_is_no_amount_of_memory() {
    let mut plan = Plan::new(1);
    let (n, most) = (plan.size(0), plan.int(i64::MAX));
    let wrapped = plan.integer(IntOp::Add, n, most);
    let (zero, four) = (plan.int(0), plan.int(4));
    let is_negative = Domain::Integers(IntKind::I64);
    let is_negative = plan.add(Expr::Compare(Comparison::Lt, is_negative, n, zero));
    let chosen = plan.add(Expr::Select(is_negative, wrapped, four));
    plan.bytes(chosen, 1, "chosen");
    let rest = plan.integer(IntOp::Mod, wrapped, four);
    plan.word(rest);
    let mut launch = Launch::new(&plan);
    // Only the arm that is chosen counts, and the model's own arithmetic may wrap.
    launch.evaluate(&plan, &[5], [1, 1]).unwrap();
    assert_eq!(launch.table(), [i64::MAX.wrapping_add(5).rem_euclid(4)]);
    launch.evaluate(&plan, &[-5], [1, 1]).unwrap();
    plan.bytes(rest, 1, "rest");
    let mut launch = Launch::new(&plan);
    let error = launch.evaluate(&plan, &[5], [1, 1]).unwrap_err();
    assert_eq!(
        (error.fault, error.node.as_str()),
        (PlanFault::Overflow, "rest")
    );
}

#[test]
fn integers_behave_like_their_types() {
    for (op, [bits, signed], a, b, expected) in [
        (IntOp::Add, [8, 0], 200, 100, 44),
        (IntOp::Add, [8, 1], 100, 100, -56),
        (IntOp::Div, [64, 1], -7, 2, -3),
        (IntOp::Div, [64, 1], 7, 0, 0),
        (IntOp::Div, [64, 0], -1, 2, i64::MAX),
        (IntOp::Mod, [64, 1], -7, 3, 2),
        (IntOp::Mod, [64, 1], 7, -3, -2),
        (IntOp::Rem, [64, 1], -7, 3, -1),
        (IntOp::Rem, [64, 1], i64::MIN, -1, 0),
        (IntOp::Pow, [64, 1], 3, 5, 243),
        (IntOp::Pow, [64, 1], -1, -3, -1),
        (IntOp::Pow, [8, 0], 2, 9, 0),
        (IntOp::Max, [64, 0], -1, 5, -1),
        (IntOp::Min, [64, 1], -1, 5, -1),
        (IntOp::Xor, [1, 0], 1, 1, 0),
        (IntOp::Shl, [8, 1], 1, 7, -128),
        (IntOp::Shl, [64, 1], 1, 64, 0),
        (IntOp::Shr, [8, 1], -1, 4, 15),
        (IntOp::Shr, [64, 1], 16, -1, 0),
    ] {
        let kind = IntKind {
            bits,
            signed: signed == 1,
        };
        let found = value(&[a, b], |plan| {
            let (a, b) = (plan.size(0), plan.size(1));
            plan.add(Expr::Integer(op, kind, a, b))
        });
        assert_eq!(found, expected, "{op:?} {kind:?} {a} {b}");
    }
}

#[test]
fn floats_become_sizes() {
    // The size that a resize by a factor gives: floor(n * 1.5).
    let scaled = |factor: f32| {
        value(&[7, i64::from(factor.to_bits())], |plan| {
            let (n, factor) = (plan.size(0), plan.size(1));
            let n = plan.add(Expr::ToFloat(IntKind::I64, FloatKind::F32, n));
            let factor = plan.add(Expr::FromBits(FloatKind::F32, factor));
            let scaled = plan.add(Expr::Float(FloatOp::Mul, n, factor));
            let scaled = plan.add(Expr::Round(FloatKind::F32, scaled));
            let whole = plan.add(Expr::Function(Function::Floor, scaled));
            plan.add(Expr::ToInteger(IntKind::I64, whole))
        })
    };
    assert_eq!([1.5, 0.1, -1.0, f32::NAN].map(scaled), [10, 0, -7, 0]);
    assert_eq!(scaled(f32::INFINITY), i64::MAX);
    let kept = [
        FloatKind::F16,
        FloatKind::Bf16,
        FloatKind::F32,
        FloatKind::F64,
    ];
    for kind in kept {
        let bits = kind.bits(-1.5);
        let again = value(&[bits], |plan| {
            let bits = plan.size(0);
            let float = plan.add(Expr::FromBits(kind, bits));
            plan.add(Expr::ToBits(kind, float))
        });
        assert_eq!((kind.from_bits(bits), again), (-1.5, bits));
    }
}

#[test]
fn indices_are_checked() {
    let mut plan = Plan::new(2);
    let (i, n) = (plan.size(0), plan.size(1));
    let at = plan.add(Expr::Index(i, n));
    plan.word(at);
    let mut launch = Launch::new(&plan);
    for (i, place) in [(2, 2), (-1, 3), (-4, 0)] {
        launch.evaluate(&plan, &[i, 4], [1, 1]).unwrap();
        assert_eq!(launch.table(), [place]);
    }
    for index in [4, -5, i64::MIN] {
        let error = launch.evaluate(&plan, &[index, 4], [1, 1]).unwrap_err();
        assert_eq!(error.fault, PlanFault::Index { index, size: 4 });
    }
}
