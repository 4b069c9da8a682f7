//! Sequences that enter or leave a program: a compiled program takes and gives arrays in their place.

use std::borrow::Cow;
use std::sync::Arc;

use heddle_ir::{Datum, Module, Op, Tensor, Type, Value};
use heddle_opt::{SequenceForm, Transformation, flatten_ports};

use crate::Step;
use crate::sequence::{flattened, gathered};

/// The arrays that stand for a parameter or a result of a model.
#[derive(Clone, Debug)]
enum Port {
    /// The array itself.
    Array,
    /// The elements of a sequence of so many.
    Elements(usize),
    /// Arrays that hold a sequence.
    Sequence(SequenceForm),
}

impl Port {
    fn of(form: Option<SequenceForm>) -> Port {
        form.map_or(Port::Array, Port::Sequence)
    }

    fn is_array(&self) -> bool {
        matches!(self, Port::Array)
    }
}

/// Mapping between a compiled program's arrays and the model's parameters and results.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    params: Vec<Port>,
    results: Vec<Port>,
}

impl Ports {
    /// Makes the elements of sequences that are made of values results of the entry function, in place of the sequences,
    /// and, unless that step is left out, arrays ports in place of all other sequences.
    pub(crate) fn open(module: &mut Module, without: &[Step]) -> Self {
        let mut results = elements_out(module);
        let mut params = vec![Port::Array; module.entry().sig.params.len()];
        let flatten = Transformation::FlattenSequences.name();
        let flattens = !without.iter().any(|step| step.name == flatten);
        if let Some(flat) = flattens.then(|| flatten_ports(module)).flatten() {
            params = flat.params.into_iter().map(Port::of).collect();
            let mut rest = flat.results.into_iter();
            for port in &mut results {
                match port {
                    Port::Elements(count) => rest.by_ref().take(*count).for_each(drop),
                    _ => *port = Port::of(rest.next().flatten()),
                }
            }
        }
        Self { params, results }
    }

    /// Does an array that grows stand for a port?
    pub(crate) fn are_flat(&self) -> bool {
        let mut ports = self.params.iter().chain(&self.results);
        ports.any(|port| matches!(port, Port::Sequence(_)))
    }

    /// Is each result one array?
    pub(crate) fn results_are_arrays(&self) -> bool {
        self.results.iter().all(Port::is_array)
    }

    /// The program's arguments for those of the model. `None` if they do not fit.
    pub(crate) fn arguments<'a>(&self, args: &'a [Datum]) -> Option<Cow<'a, [Datum]>> {
        if self.params.iter().all(Port::is_array) {
            return Some(args.into());
        }
        let mut all = vec![];
        for (port, arg) in self.params.iter().zip(args) {
            match (port, arg) {
                (Port::Sequence(form), Datum::Seq(items)) => {
                    all.extend(flattened(form, items)?.into_iter().map(Datum::from));
                }
                _ => all.push(arg.clone()),
            }
        }
        Some(all.into())
    }

    /// The model's results. `None` if the arrays contradict each other.
    pub(crate) fn group(&self, arrays: Vec<Tensor>) -> Option<Vec<Datum>> {
        let mut arrays = arrays.into_iter();
        let groups = self.results.iter().map(|port| match port {
            Port::Array => arrays.next().map(Datum::from),
            Port::Elements(count) => {
                let items = arrays.by_ref().take(*count).map(Datum::from);
                Some(Datum::Seq(items.collect()))
            }
            Port::Sequence(form) => {
                let parts: Vec<_> = arrays.by_ref().take(form.types().len()).collect();
                gathered(form, &parts)
            }
        });
        groups.collect()
    }
}

/// Makes the elements of sequences that are made of values results, in place of the sequences.
fn elements_out(module: &mut Module) -> Vec<Port> {
    let f = module.entry();
    let yields = &f.regions[f.body].yields;
    let port = |value: &Value| match elements(module, *value) {
        Some(all) => Port::Elements(all.len()),
        None => Port::Array,
    };
    let ports: Vec<_> = yields.iter().map(port).collect();
    let (Some(entry), false) = (module.entry_id(), ports.iter().all(Port::is_array)) else {
        return ports;
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
    ports
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

    /// Sequences of dynamic length on both sides: elements of one shape, and of one open axis.
    const DYNAMIC: &str = "\
fn @main(%s: seq<f32[2]>, %p: seq<i64[?]>, %k: i64[]) -> (%t: seq<f32[2]>, %u: seq<i64[?]>, %n: i64[]) {
  %n = seq_len(%s)
  %x = seq_at(%s, %k)
  %y = add(%x, %x)
  %t = seq_insert(%s, %y, seq_len(%s))
  %u = seq_erase(%p, %k)
  return %t, %u, %n
}
";

    /// Elements of two open axes.
    const FLAT: &str = "\
fn @main(%s: seq<f32[?,?]>, %p: seq<i64[?]>, %k: i64[]) -> (%t: seq<f32[?,?]>, %x: f32[?,?]) {
  %x = transpose(seq_at(%s, %k), perm=[1, 0])
  %t = seq_insert(seq_insert(%s, %x, seq_len(%s)), exp(%x), %k)
  return %t, %x
}
";

    fn sequence(items: &[Tensor]) -> Value {
        Value::Seq(items.iter().cloned().map(Value::from).collect())
    }

    /// Outputs, or no matter which error, on a device, which runs the whole program.
    fn outputs(text: &str, inputs: Inputs, device: Device) -> Option<crate::Outputs> {
        let model = Model::parse("m", text).unwrap();
        let options = CompileOptions {
            device,
            threads: Some(2),
            ..Default::default()
        };
        let program = compile(&model, &options).unwrap();
        assert_eq!(program.report().interpreted, None);
        let done = program.run(inputs, &RunOptions::default());
        done.map(|done| done.outputs).ok()
    }

    #[test]
    fn sequences_of_any_length_enter_and_leave() {
        let rows = [[1f32, 2.0], [3.0, 4.0]].map(|row| Tensor::vector(&row));
        let pieces: [&[i64]; 3] = [&[2, 1, 7], &[5], &[]];
        let pieces = pieces.map(Tensor::vector);
        let wide =
            [[2, 1], [0, 3]].map(|s| Tensor::from_slice(s.to_vec(), &vec![0.5f32; s[0] * s[1]]));
        let first = [&rows[..], &rows[..1], &[]].map(sequence);
        let second = [&pieces[..], &pieces[..2], &[]].map(sequence);
        let flat = [&wide[..], &wide[..1], &[]].map(sequence);
        for (text, s) in [(DYNAMIC, first), (FLAT, flat)] {
            for (s, p) in s.iter().zip(&second) {
                for k in [0i64, 1, -1, 3] {
                    let inputs: Inputs = [
                        ("s".to_string(), s.clone()),
                        ("p".to_string(), p.clone()),
                        ("k".to_string(), Tensor::scalar(k).into()),
                    ]
                    .into();
                    let [a, b] = [Device::Interp, Device::Cpu]
                        .map(|device| outputs(text, inputs.clone(), device));
                    assert_eq!(a, b, "{k}");
                }
            }
        }
    }
}
