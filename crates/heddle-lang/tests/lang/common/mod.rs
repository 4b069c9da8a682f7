//! Programs of the language, run by the interpreter.

use std::path::Path;

use heddle_interp::Options;
use heddle_ir::{Datum, Module, Tensor};

/// The program's graph, which satisfies the verifier.
pub fn compile(text: &str) -> Module {
    let program = heddle_lang::compile(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let printed = heddle_ir::text::print(&program.module);
    if let Err(errors) = heddle_ir::verify(&program.module) {
        panic!("{errors:#?}\n{printed}");
    }
    program.module
}

/// The results for inputs by name.
pub fn run(module: &Module, inputs: &[(&str, Tensor)]) -> Vec<Tensor> {
    let params = &module.entry().sig.params;
    let args = params.iter().map(|(name, ty)| {
        let found = inputs.iter().find(|(n, _)| n == name);
        let (_, tensor) = found.unwrap_or_else(|| panic!("no value for {name}: {ty}"));
        Datum::Tensor(tensor.clone())
    });
    let args: Vec<Datum> = args.collect();
    let results = heddle_interp::run(module, &args, &Options::default());
    let results =
        results.unwrap_or_else(|error| panic!("{error}\n{}", heddle_ir::text::print(module)));
    results
        .into_iter()
        .map(|datum| match datum {
            Datum::Tensor(t) => t,
            other => panic!("{other:?} is no array"),
        })
        .collect()
}

pub fn f32s(values: &[f32]) -> Tensor {
    Tensor::vector(values)
}

pub fn i64s(values: &[i64]) -> Tensor {
    Tensor::vector(values)
}

pub fn i32s(values: &[i32]) -> Tensor {
    Tensor::vector(values)
}

/// The elements of an array as floats.
pub fn floats(tensor: &Tensor) -> Vec<f32> {
    match tensor.to_vec::<f32>() {
        Some(all) => all,
        None => tensor
            .to_vec::<i64>()
            .expect("numbers")
            .iter()
            .map(|x| *x as f32)
            .collect(),
    }
}

/// A program of `tests/models/batching`.
pub fn model(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/models/batching");
    std::fs::read_to_string(folder.join(file)).expect("the file")
}

/// Random numbers (xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }

    /// An array of numbers from -1 to 1, times a factor.
    pub fn array(&mut self, shape: &[usize], factor: f32) -> Tensor {
        let count = shape.iter().product();
        let values: Vec<f32> = (0..count)
            .map(|_| (self.below(2001) as f32 / 1000.0 - 1.0) * factor)
            .collect();
        Tensor::from_slice(shape.to_vec(), &values)
    }
}
