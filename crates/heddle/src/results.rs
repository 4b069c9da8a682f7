//! Results that are sequences: a compiled program gives each of their elements, and they are put together here.

use std::sync::Arc;

use heddle_ir::{Datum, Module, Op, Tensor, Type, Value};

/// A result of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    /// One array.
    Array,
    /// A sequence of so many.
    Sequence(usize),
}

/// Mapping from a compiled program's arrays to the model's results.
#[derive(Clone, Debug)]
pub(crate) struct Results(Vec<Group>);

impl Results {
    /// Makes the elements of sequences that are made of values results of the entry function, in place of the sequences.
    pub(crate) fn open(module: &mut Module) -> Self {
        let f = module.entry();
        let yields = &f.regions[f.body].yields;
        let group = |value: &Value| match elements(module, *value) {
            Some(all) => Group::Sequence(all.len()),
            None => Group::Array,
        };
        let groups: Vec<_> = yields.iter().map(group).collect();
        let (Some(entry), false) = (module.entry_id(), groups.iter().all(|g| *g == Group::Array))
        else {
            return Self(groups);
        };
        let (mut values, mut results) = (vec![], vec![]);
        for (&value, (name, ty)) in yields.iter().zip(&f.sig.results) {
            match elements(module, value) {
                Some(all) => {
                    values.extend(all);
                    let parts = all.iter().enumerate();
                    results.extend(parts.map(|(i, v)| (format!("{name}.{i}"), f.ty(*v).clone())));
                }
                None => {
                    values.push(value);
                    results.push((name.clone(), ty.clone()));
                }
            }
        }
        let f = &mut module.functions[entry];
        f.regions[f.body].yields = values;
        Arc::make_mut(&mut f.sig).results = results;
        // The instructions that made the sequences have no compiled form, and no readers any more.
        heddle_opt::remove_dead(module);
        Self(groups)
    }

    /// Is each result one array?
    pub(crate) fn are_arrays(&self) -> bool {
        self.0.iter().all(|group| *group == Group::Array)
    }

    /// The model's results.
    pub(crate) fn group(&self, arrays: Vec<Tensor>) -> Vec<Datum> {
        let mut arrays = arrays.into_iter().map(Datum::from);
        let groups = self.0.iter().filter_map(|group| match group {
            Group::Array => arrays.next(),
            Group::Sequence(len) => Some(Datum::Seq(arrays.by_ref().take(*len).collect())),
        });
        groups.collect()
    }
}

/// The arrays in a sequence that the entry function makes of values, if nobody calls it.
fn elements(module: &Module, sequence: Value) -> Option<&[Value]> {
    let f = module.entry();
    let data = &f.insts[f.def_inst(sequence)?];
    let arrays = data
        .args
        .iter()
        .all(|v| matches!(f.ty(*v), Type::Tensor(_)));
    (matches!(data.op, Op::SeqNew { .. }) && arrays && !is_called(module)).then_some(&data.args[..])
}

/// Is the entry function called from within? Then its results are not only the program's.
fn is_called(module: &Module) -> bool {
    let mut called = false;
    for (_, f) in module.functions.iter() {
        f.for_each_inst(&mut |_, data| {
            called |= matches!(data.op, Op::Call(callee) if module.is_entry(callee));
        });
    }
    called
}

#[cfg(test)]
mod tests {
    use crate::{CompileOptions, Device, Inputs, Model, RunOptions, Tensor, Value, compile};

    /// A sequence between arrays; one of its elements is a result by itself, too, and one an input.
    const TEXT: &str = "\
fn @main(%x: f32[n], %k: i64[]) -> (%a: f32[n], %s: seq<f32[?]>, %none: seq<f32[n]>, %b: i64[]) {
  %a = add(%x, %x)
  %t = concat(%x, %a, axis=0)
  %s = seq_new(%a, %x, %t, elem=f32[?])
  %none = seq_new(elem=f32[n])
  %b = add(%k, 1)
  return %a, %s, %none, %b
}
";

    #[test]
    fn sequences_come_out_whole() {
        let model = Model::parse("m", TEXT).unwrap();
        let inputs = [
            ("x", Tensor::vector(&[1f32, -2.0])),
            ("k", Tensor::scalar(4i64)),
        ];
        let inputs: Inputs = inputs.map(|(name, t)| (name.to_string(), t.into())).into();
        for &device in Device::ALL {
            let options = CompileOptions {
                device,
                threads: Some(2),
                ..Default::default()
            };
            let program = compile(&model, &options).unwrap();
            assert_eq!(program.device(), device);
            let outputs = program
                .run(inputs.clone(), &RunOptions::default())
                .unwrap()
                .outputs;
            let vectors: [&[f32]; 3] = [&[2.0, -4.0], &[1.0, -2.0], &[1.0, -2.0, 2.0, -4.0]];
            let items = vectors.map(|v| Value::from(Tensor::vector(v)));
            assert_eq!(outputs["a"], items[0]);
            assert_eq!(outputs["s"], Value::Seq(items.to_vec()));
            assert_eq!(outputs["none"], Value::Seq(vec![]));
            assert_eq!(outputs["b"], Tensor::scalar(5i64).into());
        }
    }
}
