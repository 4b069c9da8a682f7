//! Sequences, optionals and text that enter or leave a program: a compiled program takes and gives arrays in their place.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use heddle_ir::tensor::element_count;
use heddle_ir::{DType, Datum, Module, Op, Tensor, Type, Value};
use heddle_opt::{
    SequenceForm, Transformation, flatten_ports, flatten_text_ports, open_optional_ports,
};

use crate::Step;
use crate::sequence::{bytes_as_text, flattened, gathered, text_as_bytes};

/// The arrays that stand for a parameter or a result of a model.
#[derive(Clone, Debug)]
enum Port {
    /// The array itself.
    Array,
    /// The elements of a sequence of so many.
    Elements(usize),
    /// Arrays that hold a sequence.
    Sequence(SequenceForm),
    /// Bytes, offsets and numbers of text.
    Text,
    /// A flag and what stands for the value of an optional, which is of this type.
    Optional(Box<Port>, Type),
}

impl Port {
    fn of(form: Option<SequenceForm>) -> Port {
        form.map_or(Port::Array, Port::Sequence)
    }

    fn is_array(&self) -> bool {
        matches!(self, Port::Array)
    }

    /// Appends the program's arguments for one of the model; `None` if it does not fit.
    fn expand(&self, arg: &Datum, sizes: &Sizes, all: &mut Vec<Datum>) -> Option<()> {
        match (self, arg) {
            (Port::Sequence(form), Datum::Seq(items)) => {
                all.extend(flattened(form, items)?.into_iter().map(Datum::from));
            }
            (Port::Text, Datum::Tensor(text)) => {
                all.extend(text_as_bytes(text).map(Datum::from));
            }
            (Port::Optional(port, ty), Datum::Opt(value)) => {
                let flag = Tensor::splat(DType::Bool, vec![], f64::from(value.is_some()));
                all.push(flag.into());
                match value {
                    Some(value) => port.expand(value, sizes, all)?,
                    None => port.expand(&nothing(ty, sizes)?, sizes, all)?,
                }
            }
            _ => all.push(arg.clone()),
        }
        Some(())
    }

    /// The model's result for the arrays that come next; `None` if they contradict each other.
    fn gather(&self, arrays: &mut dyn Iterator<Item = Tensor>) -> Option<Datum> {
        match self {
            Port::Array => arrays.next().map(Datum::from),
            Port::Elements(count) => {
                let items = arrays.take(*count).map(Datum::from);
                Some(Datum::Seq(items.collect()))
            }
            Port::Sequence(form) => {
                let parts: Vec<_> = arrays.take(form.types().len()).collect();
                gathered(form, &parts)
            }
            Port::Text => {
                let parts: Vec<_> = arrays.take(3).collect();
                bytes_as_text(&parts).map(Datum::from)
            }
            Port::Optional(port, _) => {
                let flag = arrays.next()?;
                let value = port.gather(arrays)?;
                let present = flag.bytes().first() == Some(&1);
                Some(Datum::Opt(present.then(|| Box::new(value))))
            }
        }
    }
}

/// Values of named sizes.
type Sizes = HashMap<Arc<str>, i64>;

/// No array of more zeros is made in place of a value that is not there.
const MAX_ZEROS: usize = 1 << 28;

/// Zeros, or an empty sequence, in place of a value that an optional lacks. Sizes that are not known are zero.
fn nothing(ty: &Type, sizes: &Sizes) -> Option<Datum> {
    let Type::Tensor(tensor) = ty else {
        return Some(Datum::Seq(vec![]));
    };
    let size = |name: &str| Some(sizes.get(name).copied().unwrap_or(0));
    let dims = tensor.shape.iter().flatten();
    let dims = dims.map(|dim| match dim.as_expr() {
        Some(e) => usize::try_from(e.eval(&size)?).ok(),
        None => Some(0),
    });
    let dims = dims.collect::<Option<Vec<usize>>>()?;
    element_count(&dims).filter(|count| *count <= MAX_ZEROS)?;
    Some(Tensor::splat(tensor.dtype, dims, 0.0).into())
}

/// Mapping between a compiled program's arrays and the model's parameters and results.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    params: Vec<Port>,
    results: Vec<Port>,
}

impl Ports {
    /// Makes the elements of sequences that are made of values results of the entry function, in place of the sequences,
    /// and, unless those steps are left out, flags and values ports in place of optionals and arrays ports in place of
    /// text and all other sequences.
    pub(crate) fn open(module: &mut Module, without: &[Step]) -> Self {
        let runs = |pass: Transformation| !without.iter().any(|step| step.name == pass.name());
        let sig = module.entry().sig.clone();
        let opens = runs(Transformation::OpenOptionals);
        let optional = opens.then(|| open_optional_ports(module)).flatten();
        let mut results = elements_out(module);
        let text = runs(Transformation::FlattenText).then(|| text_ports(module, &mut results));
        let text = text.flatten();
        let mut params = vec![Port::Array; module.entry().sig.params.len()];
        let flattens = runs(Transformation::FlattenSequences);
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
        if let Some((of_params, of_results)) = text {
            params = with_text(params, &of_params);
            results = with_text(results, &of_results);
        }
        if let Some(optional) = optional {
            params = with_flags(params, &optional.params, &sig.params);
            results = with_flags(results, &optional.results, &sig.results);
        }
        Self { params, results }
    }

    /// Do other arrays than the model's stand for a port?
    pub(crate) fn are_changed(&self) -> bool {
        let mut ports = self.params.iter().chain(&self.results);
        ports.any(|port| matches!(port, Port::Sequence(_) | Port::Text | Port::Optional(..)))
    }

    /// Is each result one array?
    pub(crate) fn results_are_arrays(&self) -> bool {
        self.results.iter().all(Port::is_array)
    }

    /// The program's arguments for those of the model, which fix these sizes.
    ///
    /// # Errors
    /// The number of an argument that does not fit.
    pub(crate) fn arguments<'a>(
        &self,
        args: &'a [Datum],
        sizes: &Sizes,
    ) -> Result<Cow<'a, [Datum]>, usize> {
        if self.params.iter().all(Port::is_array) {
            return Ok(args.into());
        }
        let mut all = vec![];
        for (place, (port, arg)) in self.params.iter().zip(args).enumerate() {
            port.expand(arg, sizes, &mut all).ok_or(place)?;
        }
        Ok(all.into())
    }

    /// The model's results. `None` if the arrays contradict each other.
    pub(crate) fn group(&self, arrays: Vec<Tensor>) -> Option<Vec<Datum>> {
        let mut arrays = arrays.into_iter();
        let results = self.results.iter().map(|port| port.gather(&mut arrays));
        results.collect()
    }
}

/// Ports where a flag stands before the value of each optional.
fn with_flags(ports: Vec<Port>, optional: &[bool], sig: &[(String, Type)]) -> Vec<Port> {
    let mut ports = ports.into_iter();
    let all = optional
        .iter()
        .zip(sig)
        .filter_map(|(is_optional, (_, ty))| match ty {
            Type::Opt(inner) if *is_optional => {
                let value = ports.by_ref().nth(1)?;
                Some(Port::Optional(Box::new(value), (**inner).clone()))
            }
            _ => ports.next(),
        });
    all.collect()
}

/// Has three arrays stand for each port of text, unless a sequence's elements are text: each such result becomes
/// three. Returns which parameters and results were text, or `None` if nothing changed.
fn text_ports(module: &mut Module, results: &mut Vec<Port>) -> Option<(Vec<bool>, Vec<bool>)> {
    let mut is_text = module.entry().sig.results.iter().map(|(_, ty)| {
        let tensor = ty.as_tensor();
        tensor.is_some_and(|t| t.dtype == DType::Str)
    });
    let mut flags = vec![];
    for port in results.iter() {
        match port {
            Port::Elements(count) if is_text.by_ref().take(*count).any(|text| text) => return None,
            Port::Elements(_) => flags.push(false),
            _ => flags.push(is_text.next()?),
        }
    }
    drop(is_text);
    let text = flatten_text_ports(module)?;
    let expanded = results.drain(..).zip(&flags);
    let expanded = expanded.flat_map(|(port, &text)| vec![port; if text { 3 } else { 1 }]);
    *results = expanded.collect::<Vec<_>>();
    Some((text.params, flags))
}

/// Ports where three arrays stand for text.
fn with_text(ports: Vec<Port>, text: &[bool]) -> Vec<Port> {
    let mut ports = ports.into_iter();
    let all = text.iter().filter_map(|text| match text {
        true => ports.by_ref().nth(2).map(|_| Port::Text),
        false => ports.next(),
    });
    all.collect()
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
        for &device in Device::EVERYWHERE {
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

    /// Elements of any rank: from outside, of two ranks, and taken with a rank that is stated.
    const RAGGED: &str = "\
fn @main(%s: seq<f32[..]>, %p: seq<i64[?]>, %k: i64[]) -> (%t: seq<f32[..]>, %x: f32[?,?], %m: seq<f32[..]>, %n: i64[]) {
  %x: f32[?,?] = seq_at(%s, %k)
  %y = add(%x, 1.0)
  %t = seq_erase(seq_insert(seq_insert(%s, 7.0, 1), %y, seq_len(%s)), %k)
  %m = loop %i trip seq_len(%p) carry (%l: seq<f32[..]> = seq_new(elem=f32[..])) {
    %piece = cast(seq_at(%p, %i), to=f32)
    continue carry seq_insert(seq_insert(%l, %piece, 0), unsqueeze(%piece, axes=[1]), seq_len(%l))
  }
  %n = seq_len(%m)
  return %t, %x, %m, %n
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
        for (text, s) in [(DYNAMIC, first), (FLAT, flat.clone()), (RAGGED, flat)] {
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

    /// Optionals on both sides, of an array and of a list, and looked into at once.
    const OPTIONAL: &str = "\
fn @main(%o: opt<f32[n]>, %s: opt<seq<f32[?]>>, %k: i64[]) -> (%p: opt<f32[?]>, %t: opt<seq<f32[?]>>, %b: bool[], %l: i64[]) {
  %b = opt_has(%o)
  %p: opt<f32[?]> = if %b {
    %x = opt_get(%o)
    yield opt_some(concat(%x, %x, axis=0))
  } else {
    yield opt_none(elem=f32[?])
  }
  %t = loop %i trip %k carry (%u: opt<seq<f32[?]>> = %s) {
    %v = opt_get(%o)
    %q: seq<f32[?]> = if opt_has(%u) {
      yield opt_get(%u)
    } else {
      yield seq_new(elem=f32[?])
    }
    continue carry opt_some(seq_insert(%q, %v, seq_len(%q)))
  }
  %none: opt<seq<f32[?]>> = if ge(%k, 0) {
    yield %t
  } else {
    yield %s
  }
  %l = seq_len(opt_get(%none))
  return %p, %t, %b, %l
}
";

    #[test]
    fn optionals_enter_and_leave() {
        let some = |value: Value| Value::Opt(Some(Box::new(value)));
        let vectors: [&[f32]; 3] = [&[], &[1.0], &[2.0, -3.0]];
        let vectors = vectors.map(Tensor::vector);
        let mut arrays = vec![Value::Opt(None)];
        arrays.extend(vectors.iter().map(|v| some(v.clone().into())));
        let mut lists = vec![Value::Opt(None)];
        lists.extend([0, 1, 3].map(|len| some(sequence(&vectors[..len]))));
        let mut ran = 0;
        for o in &arrays {
            for s in &lists {
                for k in [0i64, 1, 3] {
                    let inputs: Inputs = [
                        ("o".to_string(), o.clone()),
                        ("s".to_string(), s.clone()),
                        ("k".to_string(), Tensor::scalar(k).into()),
                    ]
                    .into();
                    let [a, b] = [Device::Interp, Device::Cpu]
                        .map(|device| outputs(OPTIONAL, inputs.clone(), device));
                    ran += usize::from(a.is_some());
                    assert_eq!(a, b, "{o:?} {s:?} {k}");
                }
            }
        }
        // Iterations need the array; the length needs a list, which the first iteration makes.
        let (without_array, with_array) = (3, 2 + 3 * 3);
        assert_eq!(ran, without_array + 3 * with_array);
    }

    #[test]
    fn inputs_that_do_not_fit_are_named() {
        let model = Model::parse("m", OPTIONAL).unwrap();
        let program = compile(&model, &CompileOptions::default()).unwrap();
        let rows = Tensor::from_slice(vec![1, 1], &[1f32]);
        let bad = [
            ("o", Value::from(Tensor::scalar(1f32))),
            (
                "o",
                Value::Opt(Some(Box::new(Tensor::vector(&[1i64]).into()))),
            ),
            ("s", Value::Opt(Some(Box::new(sequence(&[rows]))))),
        ];
        for (name, value) in bad {
            let mut inputs: Inputs = [("k".to_string(), Tensor::scalar(0i64).into())].into();
            inputs.insert(name.to_string(), value);
            let error = program.run(inputs, &RunOptions::default()).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Invalid);
            assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
        }
    }
}
