//! Weights as numbers of types of fewer bytes.

use heddle_ir::{DType, Module, Tensor};
use heddle_opt::{LeftWeight, round_weights};

const TYPES: [DType; 3] = [DType::Bf16, DType::F16, DType::I8];

fn parsed(text: &str) -> Module {
    heddle_ir::text::parse(text).expect("a program")
}

/// A product by constants of `[3, 8]`, which another operator reads, too.
fn product(rows: &str) -> Module {
    parsed(&format!(
        "fn @main(%x: f32[1,3]) -> (%y: f32[1,8], %z: f32[3,8]) {{
           %w = const {rows}: f32[3,8]
           %y = dot(%x, %w)
           %z = neg(%w)
           return %y, %z
         }}"
    ))
}

/// Eight times the same column.
fn columns(column: [f32; 3]) -> String {
    let row = |v: f32| format!("[{}]", vec![format!("{v:?}"); 8].join(", "));
    format!("[{}]", column.map(row).join(", "))
}

/// The constants that operators of this name read.
fn constants(module: &Module, name: &str) -> Vec<Tensor> {
    let func = module.entry();
    let mut found = vec![];
    func.for_each_inst(&mut |_, data| {
        if data.op.name() == name {
            let constants = data.args.iter().filter_map(|arg| func.constant(*arg));
            found.extend(constants.cloned());
        }
    });
    found
}

/// The first of eight columns of the first of them.
fn first_column(module: &Module, name: &str) -> Vec<f32> {
    let values = constants(module, name)[0].to_vec::<f32>();
    values.expect("floats").into_iter().step_by(8).collect()
}

#[test]
fn numbers_are_rounded_to_the_nearest() {
    for (to, column, rounded) in [
        (
            DType::Bf16,
            [1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, -0.3],
            [1.0, 1.0 + 4.0 / 256.0, -77.0 / 256.0],
        ),
        (
            DType::F16,
            [1.0 + 1.0 / 2048.0, 2049.0, -3e-8],
            [1.0, 2048.0, -1.0 / (1 << 24) as f32],
        ),
        (DType::I8, [127.0, 0.6, -2.5], [127.0, 1.0, -2.0]),
        (DType::I8, [0.0; 3], [0.0; 3]),
    ] {
        let mut module = product(&columns(column));
        let report = round_weights(&mut module, to);
        assert_eq!((report.rounded, report.elements), (1, 24));
        assert_eq!(first_column(&module, "dot"), rounded, "{to}");
        // The other reader keeps the constant.
        assert_eq!(first_column(&module, "neg"), column, "{to}");
    }
}

#[test]
fn rounding_again_changes_nothing() {
    for to in TYPES {
        let mut module = product(&columns([0.7123, -0.3301, 0.0017]));
        round_weights(&mut module, to);
        let once = constants(&module, "dot");
        round_weights(&mut module, to);
        let again = constants(&module, "dot");
        assert_eq!(once[0].bytes(), again[0].bytes(), "{to}");
    }
}

#[test]
fn numbers_that_a_type_does_not_hold_stay() {
    for (value, to) in [
        (1e6, DType::F16),
        (f32::MAX, DType::Bf16),
        (1e-40, DType::I8),
    ] {
        let column = [value, 0.0, 0.0];
        let mut module = product(&columns(column));
        let report = round_weights(&mut module, to);
        assert_eq!(report.rounded, 0);
        let causes: Vec<_> = report.left.iter().map(|(_, cause)| *cause).collect();
        assert_eq!(causes, [LeftWeight::NotHeld], "{value} {to}");
        assert_eq!(first_column(&module, "dot"), column);
    }
}

/// Products with few columns, convolutions of one tap, and depthwise ones.
#[test]
fn weights_that_are_not_packed_stay() {
    let attributes = "strides=[1,1], dilations=[1,1], input_dilations=[1,1]";
    let mut module = parsed(&format!(
        "fn @main(%x: f32[m,3], %p: f32[1,4,5,5]) -> (%y: f32[m,2], %z: f32[1,4,5,5], %u: f32[1,4,5,5]) {{
           %w = const splat 0.3: f32[3,2]
           %one = const splat 0.3: f32[4,4,1,1]
           %deep = const splat 0.3: f32[4,1,3,3]
           %y = dot(%x, %w)
           %z = conv(%p, %one, [0, 0, 0, 0], {attributes}, groups=1)
           %u = conv(%p, %deep, [1, 1, 1, 1], {attributes}, groups=4)
           return %y, %z, %u
         }}"
    ));
    for to in TYPES {
        let report = round_weights(&mut module, to);
        assert_eq!(report.rounded, 0);
        let causes: Vec<_> = report.left.iter().map(|(_, cause)| *cause).collect();
        assert_eq!(causes, [LeftWeight::NotPacked; 3], "{to}");
    }
}
