//! Random programs, with inputs of 1 to 7 instances: calls, recursion on tensors and on index arrays,
//! loops in loops, lists.

use heddle_gen::{Config, generate};
use heddle_ir::{DType, Datum, Module, Type, text};
use heddle_opt::Form::{self, Ragged, Shared, Stacked};
use heddle_opt::{inline_calls, optimize};

use super::many::tensor;
use super::{Random, draw_tensor, loops, recursions};

/// A program for one instance, and its inputs for some.
pub struct Drawn {
    pub kind: &'static str,
    pub module: Module,
    pub forms: Vec<Form>,
    pub instances: Vec<Vec<Datum>>,
}

/// The program of a seed; `None` if it has inputs or outputs without a form for many instances.
pub fn drawn(seed: u64) -> Option<Drawn> {
    let count = 1 + Random(seed).below(7);
    let (kind, text, forms, instances) = match seed % 6 {
        0 => {
            let is_free = seed % 4 == 2;
            let instances = recursions::tensors(seed, count, if is_free { 3 } else { 4 });
            let forms = vec![Stacked, Stacked, Shared];
            let text = recursions::on_tensors(seed, is_free);
            ("recursion on tensors", text, forms, instances)
        }
        1 => {
            let instances = recursions::trees(seed, count);
            let forms = vec![Ragged, Ragged, Ragged, Shared, Shared];
            let text = recursions::on_trees(seed, seed % 4 == 3);
            ("recursion on index data", text, forms, instances)
        }
        2 => {
            let instances = loops::sentences(seed, count);
            let forms = vec![Ragged, Stacked, Shared, Shared];
            ("loops and lists", loops::over_words(seed), forms, instances)
        }
        _ => return general(seed, count),
    };
    let module = text::parse(&text).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
    Some(Drawn {
        kind,
        module,
        forms,
        instances,
    })
}

/// A program of all ops.
fn general(seed: u64, count: u64) -> Option<Drawn> {
    let config = Config {
        functions: 1 + (seed % 2) as usize,
        steps: 1 + (seed % 8) as usize,
        depth: 2,
        ..Config::default()
    };
    let (mut module, inputs) = generate(seed, &config);
    inline_calls(&mut module);
    if seed % 4 < 2 {
        optimize(&mut module);
    }
    let results = &module.entry().sig.results;
    let is_array = |d: &Datum| matches!(d, Datum::Tensor(t) if t.dtype() != DType::Str);
    let arrays = inputs.iter().all(is_array) && results.iter().all(|(_, ty)| has_form(ty));
    if !arrays || inputs.is_empty() {
        return None;
    }
    let mut random = Random(seed);
    let form = |_| match random.below(2) {
        0 => Stacked,
        _ => Shared,
    };
    let mut forms: Vec<Form> = inputs.iter().map(form).collect();
    forms[random.below(inputs.len() as u64) as usize] = Stacked;
    let instances = (0..count).map(|k| {
        let own = inputs.iter().zip(&forms);
        let own = own.map(|(input, form)| match (k, form) {
            (0, _) | (_, Shared) => input.clone(),
            _ => {
                let t = tensor(input);
                let shape = t.shape().to_vec();
                Datum::Tensor(draw_tensor(t.dtype(), shape, &mut random))
            }
        });
        own.collect()
    });
    Some(Drawn {
        kind: "all ops",
        instances: instances.collect(),
        module,
        forms,
    })
}

/// Is it an array of numbers or `bool`, of a known rank?
fn has_form(ty: &Type) -> bool {
    ty.as_tensor()
        .is_some_and(|t| t.dtype != DType::Str && t.shape.is_some())
}
