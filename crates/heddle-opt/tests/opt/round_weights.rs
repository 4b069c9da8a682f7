//! Weights as numbers of types of fewer bytes.

use heddle_ir::{DType, Module, Op, Tensor};
use heddle_opt::{LeftWeight, round_weights};

const TYPES: [DType; 3] = [DType::Bf16, DType::F16, DType::I8];

/// A product by constants of `[3, 8]`.
fn product(rows: &str) -> Module {
    let text = format!(
        "fn @main(%x: f32[1,3]) -> (%y: f32[1,8], %z: f32[3,8]) {{
           %w = const {rows}: f32[3,8]
           %y = dot(%x, %w)
           %z = neg(%w)
           return %y, %z
         }}"
    );
    heddle_ir::text::parse(&text).expect("a program")
}

/// Eight times the same column.
fn columns(column: [f32; 3]) -> String {
    let row = |v: f32| format!("[{}]", vec![format!("{v:?}"); 8].join(", "));
    format!("[{}]", column.map(row).join(", "))
}

/// The constants that products read.
fn weights(module: &Module) -> Vec<Tensor> {
    let func = module.entry();
    let mut found = vec![];
    func.for_each_inst(&mut |_, data| {
        if data.op == Op::Dot {
            let constants = data.args.iter().filter_map(|arg| func.constant(*arg));
            found.extend(constants.cloned());
        }
    });
    found
}

fn first_column(module: &Module) -> Vec<f32> {
    let values = weights(module)[0].to_vec::<f32>().expect("floats");
    values.into_iter().step_by(8).collect()
}

#[test]
fn numbers_are_rounded_to_the_nearest() {
    for (to, column, rounded) in [
        (DType::Bf16, [1.00390625, 1.01171875, -0.3], [1.0, 1.015625, -0.30078125]),
        (DType::F16, [1.00048828125, 2049.0, -3e-8], [1.0, 2048.0, -5.9604645e-8]),
        (DType::I8, [127.0, 0.6, -2.5], [127.0, 1.0, -2.0]),
    ] {
        let mut module = product(&columns(column));
        let report = round_weights(&mut module, to);
        assert_eq!((report.rounded, report.elements), (1, 24));
        assert_eq!(first_column(&module), rounded, "{to}");
        // The other reader keeps the constant.
        let kept = module.entry().insts.iter().any(|(_, data)| match &data.op {
            Op::Const(tensor) => tensor.to_vec::<f32>().is_some_and(|v| v[0] == column[0] && v[8] == column[1]),
            _ => false,
        });
        assert!(kept);
    }
}

#[test]
fn rounding_again_changes_nothing() {
    for to in TYPES {
        let mut module = product(&columns([0.7123, -0.3301, 0.0017]));
        round_weights(&mut module, to);
        let once = weights(&module);
        round_weights(&mut module, to);
        assert_eq!(once[0].bytes(), weights(&module)[0].bytes(), "{to}");
    }
}

#[test]
fn numbers_that_a_type_does_not_hold_stay() {
    for (value, to) in [(1e6, DType::F16), (f32::MAX, DType::Bf16), (1e-40, DType::I8)] {
        let column = [value, 0.0, 0.0];
        let mut module = product(&columns(column));
        let report = round_weights(&mut module, to);
        assert_eq!(report.rounded, 0);
        let causes: Vec<_> = report.left.iter().map(|(_, cause)| *cause).collect();
        assert_eq!(causes, [LeftWeight::NotHeld], "{value} {to}");
        assert_eq!(first_column(&module), column);
    }
}
