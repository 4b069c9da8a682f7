//! Programs of tests.

use heddle::{CompileOptions, Device, Model, Program, compile};

/// A program in text form on two threads; all of it has a compiled form.
pub fn compiled(text: &str, device: Device) -> Program {
    let model = Model::parse("m", text).expect("parses");
    let options = CompileOptions {
        device,
        threads: Some(2),
        ..Default::default()
    };
    let program = compile(&model, &options).expect("compiles");
    assert_eq!(program.report().interpreted, None);
    program
}
