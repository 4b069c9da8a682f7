//! Properties of all ops.

use std::collections::HashSet;

use heddle_ir::op::{Cost, Effect, Failure, Gradient, OperandType};
use heddle_ir::{DType, Entity, FuncId, Op, Tensor};

/// Prototypes, constants and control flow: every op.
fn all() -> Vec<Op> {
    let mut ops = Op::prototypes().to_vec();
    ops.push(Op::Const(Tensor::scalar(1i64)));
    ops.push(Op::If);
    for (trip, cond) in [(false, false), (false, true), (true, false), (true, true)] {
        ops.push(Op::Loop { trip, cond });
    }
    ops.push(Op::Call(FuncId::new(0)));
    ops
}

#[test]
fn names_find_prototypes() {
    let mut names = HashSet::new();
    for op in Op::prototypes() {
        assert!(names.insert(op.name()), "{} twice", op.name());
        assert_eq!(Op::prototype(op.name()), Some(op));
    }
    assert_eq!(Op::prototype("loop"), None);
}

#[test]
fn properties_agree_with_each_other() {
    for op in all() {
        let (name, props) = (op.name(), op.props());
        let nested = matches!(props.effect, Effect::Regions | Effect::Callee);
        assert_eq!(nested, props.failure == Failure::Nested, "{name}");
        assert_eq!(nested, props.cost == Cost::Control, "{name}");
        assert_eq!(nested, props.gradient == Gradient::Nested, "{name}");
        assert_eq!(props.effect == Effect::Regions, props.regions > 0, "{name}");
        // A move of elements is linear, an op without operands has nothing to differentiate by.
        assert!(!props.moves || props.gradient == Gradient::Linear, "{name}");
        let none = props.operands.fixed.is_empty() && props.operands.rest.is_none();
        assert!(!none || props.gradient == Gradient::Zero, "{name}");
        let contracts = props.cost == Cost::Contraction;
        assert!(
            !contracts || props.gradient == Gradient::Multilinear,
            "{name}"
        );
        // Sizes are given by integers, or by the operands of a range.
        for i in props.operands.sizes() {
            let ty = props.operands.get(i).map(|o| o.ty);
            let integer = ty == Some(OperandType::Is(DType::I64));
            assert!(integer || op == Op::Range, "{name}");
        }
        assert_eq!(
            props.failure == Failure::Broadcast,
            op.is_elementwise() && two(&op),
            "{name}"
        );
    }
}

fn two(op: &Op) -> bool {
    op.props().operands.fixed.len() > 1
}

#[test]
fn ops_without_floats_have_no_gradient() {
    for op in all() {
        let takes_floats = (0..4).any(|i| {
            let operand = op.props().operands.get(i);
            operand.is_some_and(|o| matches!(o.ty, OperandType::Any | OperandType::Shared))
        });
        let slot = op.props().gradient;
        let nothing = matches!(slot, Gradient::Zero | Gradient::Nested);
        assert!(takes_floats || nothing, "{}: {slot:?}", op.name());
    }
}
