//! Many instances at once: a model that is written for one instance runs for many, each with control
//! flow of its own.
//!
//! ```
//! use heddle::batch::Form;
//! use heddle::{CompileOptions, Inputs, Model, RunOptions, Tensor};
//!
//! let model = Model::parse(
//!     "halved",
//!     "fn @main(%x: f32[]) -> (%y: f32[], %steps: i64[]) {
//!        %y, %steps = loop %i while lt(1.0, %x) carry (%h: f32[] = %x, %n: i64[] = 0) {
//!          %half = mul(%h, 0.5)
//!          continue while lt(1.0, %half) carry %half, add(%n, 1)
//!        }
//!        return %y, %steps
//!      }",
//! )?;
//! let batch = model.batched(&[("x".to_string(), Form::Stacked)].into())?;
//! let program = heddle::compile(&batch.model, &CompileOptions::default())?;
//! let x = Tensor::vector(&[0.5f32, 40.0, 3.0]).into();
//! let run = program.run(Inputs::from_iter([("x".to_string(), x)]), &RunOptions::default())?;
//! let steps = run.outputs["steps"].as_tensor().expect("an array");
//! assert_eq!(steps.to_vec::<i64>(), Some(vec![0, 6, 2]));
//! # Ok::<(), heddle::Error>(())
//! ```

use std::fmt;

use heddle_lang::Structure;
use heddle_opt::{batch_instances, inline_calls, remove_dead};
use indexmap::IndexMap;

use crate::{Dim, Error, Inputs, Model, Port, Tensor, Type, Value, structures};

pub use heddle_opt::offsets_name;

/// The form in which an input or output of many instances is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// With another axis in front, which has a row for each instance.
    Stacked,
    /// Instances behind each other along the first axis, with an array `NAME.offsets`,
    /// `i64[instances + 1]`, of the first element of each and the end.
    Ragged,
}

/// The inputs that differ by instance, with their forms. All others are shared.
pub type Forms = IndexMap<String, Form>;

/// A model for many instances.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The model. It has the instances' inputs and outputs, in their forms.
    pub model: Model,
    /// The outputs' forms.
    pub outputs: Forms,
    /// Nodes that are evaluated for one instance after the other, with reasons.
    pub one_by_one: Vec<OneByOne>,
    inputs: Forms,
    /// The names of ragged inputs' first sizes.
    sizes: IndexMap<String, String>,
    /// Inputs that are tables and graphs.
    structures: Vec<Structure>,
}

/// A node that is evaluated for one instance after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneByOne {
    /// The node, or the op where the model gives no name.
    pub node: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for OneByOne {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.node, self.reason)
    }
}

/// A fault of inputs for many instances, or of a model that cannot take any.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// No input has this name.
    #[error("the model has no input named `{0}`")]
    Unknown(String),
    /// Nothing differs by instance.
    #[error("no input differs by instance")]
    NoInstances,
    /// The model's inputs or outputs have no form for many instances.
    #[error("the model cannot run for many instances: {0}")]
    Refused(String),
    /// Inputs of different numbers of instances.
    #[error("input `{name}` has {found} instances, but `{first}` has {wanted}")]
    Count {
        /// The input.
        name: String,
        /// Its number of instances.
        found: usize,
        /// Another input.
        first: String,
        /// That one's number of instances.
        wanted: usize,
    },
    /// Offsets that do not part their array.
    #[error("`{offsets}` {fault}")]
    Offsets {
        /// The array.
        offsets: String,
        /// The fault.
        fault: String,
    },
    /// Arrays that the model gives one size differ in an instance.
    #[error(
        "instance {instance} has {found} elements of `{name}`, but {wanted} of `{first}`: the model gives both the size `{size}`"
    )]
    Size {
        /// The instance.
        instance: usize,
        /// The input.
        name: String,
        /// Its size.
        found: i64,
        /// Another input.
        first: String,
        /// That one's size.
        wanted: i64,
        /// The name of the size.
        size: String,
    },
}

impl Model {
    /// The model for many instances, whose inputs have these forms.
    ///
    /// # Errors
    ///
    /// [`Error::Batch`] if a name is no input's, if there is none, or if an input or output has no
    /// form for many instances: sequences, arrays of unknown rank, those that differ in another axis
    /// than the first.
    pub fn batched(mut self, forms: &Forms) -> Result<Batch, Error> {
        let signature = self.signature();
        let known = |name: &&String| signature.inputs.iter().all(|port| port.name != **name);
        if let Some(name) = forms.keys().find(known) {
            return Err(BatchError::Unknown(name.clone()).into());
        }
        if forms.is_empty() {
            return Err(BatchError::NoInstances.into());
        }
        let (mut outputs, mut one_by_one) = (Forms::new(), vec![]);
        let structures = std::mem::take(&mut self.structures);
        let model = self.edited(|module| {
            inline_calls(module);
            remove_dead(module);
            let params = module.entry().sig.params.iter();
            let form = |(name, _): &(String, _)| match forms.get(name) {
                None => heddle_opt::Form::Shared,
                Some(Form::Stacked) => heddle_opt::Form::Stacked,
                Some(Form::Ragged) => heddle_opt::Form::Ragged,
            };
            let of_params: Vec<_> = params.map(form).collect();
            let batch = batch_instances(module, &of_params)
                .map_err(|refusal| BatchError::Refused(refusal.to_string()))?;
            let names = module.entry().sig.results.iter().map(|(name, _)| name);
            outputs.extend(
                names
                    .cloned()
                    .zip(batch.results.iter().map(|form| match form {
                        heddle_opt::Form::Ragged => Form::Ragged,
                        _ => Form::Stacked,
                    })),
            );
            one_by_one = batch.one_by_one.iter().map(described).collect();
            *module = batch.module;
            Ok(())
        })?;
        let first = |port: &Port| match (&port.ty, forms.get(&port.name)) {
            (Type::Tensor { dims, .. }, Some(Form::Ragged)) => match dims.as_ref()?.first()? {
                Dim::Named(size) => Some((port.name.clone(), size.clone())),
                _ => None,
            },
            _ => None,
        };
        Ok(Batch {
            model,
            outputs,
            one_by_one,
            inputs: forms.clone(),
            sizes: signature.inputs.iter().filter_map(first).collect(),
            structures,
        })
    }
}

fn described(left: &heddle_opt::OneByOne) -> OneByOne {
    let node = match &left.loc {
        Some(loc) => loc.to_string(),
        None => format!("`{}`", left.op),
    };
    OneByOne {
        node,
        reason: left.refusal.to_string(),
    }
}

impl Batch {
    /// Checks that inputs are of one number of instances, that offsets part their arrays, and that
    /// tables and graphs of a program of the language are sound.
    ///
    /// # Errors
    ///
    /// [`Error::Batch`] names the input and the instance.
    pub fn check(&self, inputs: &Inputs) -> Result<(), Error> {
        let mut first: Option<(&String, usize)> = None;
        let mut parts: IndexMap<&String, (&String, Vec<i64>)> = IndexMap::new();
        for (name, form) in &self.inputs {
            let Some(array) = inputs.get(name).and_then(Value::as_tensor) else {
                continue;
            };
            let found = match form {
                Form::Stacked => array.shape().first().copied().unwrap_or(0),
                Form::Ragged => {
                    let offsets = inputs.get(&offsets_name(name));
                    let Some(offsets) = offsets.and_then(Value::as_tensor) else {
                        continue;
                    };
                    let offsets = offsets.to_vec::<i64>().unwrap_or_default();
                    parted(name, array, &offsets)?;
                    let count = offsets.len() - 1;
                    if let Some(size) = self.sizes.get(name) {
                        match parts.get(size) {
                            Some((first, wanted)) => {
                                alike(size, (first.as_str(), wanted), (name, &offsets))?
                            }
                            None => {
                                parts.insert(size, (name, offsets));
                            }
                        }
                    }
                    count
                }
            };
            match first {
                Some((first, wanted)) if wanted != found => {
                    return Err(BatchError::Count {
                        name: name.clone(),
                        found,
                        first: first.clone(),
                        wanted,
                    }
                    .into());
                }
                Some(_) => {}
                None => first = Some((name, found)),
            }
        }
        let count = first.map_or(0, |(_, count)| count);
        structures::check_instances(&self.structures, inputs, &self.inputs, count)?;
        Ok(())
    }
}

/// Checks the offsets of an array.
fn parted(name: &str, array: &Tensor, offsets: &[i64]) -> Result<(), BatchError> {
    let fault = |fault: String| BatchError::Offsets {
        offsets: offsets_name(name),
        fault,
    };
    let Some(&begin) = offsets.first() else {
        let text = "has no elements; it needs one more than there are instances";
        return Err(fault(text.into()));
    };
    if begin != 0 {
        return Err(fault(format!("begins with {begin}, not with 0")));
    }
    for (instance, pair) in offsets.windows(2).enumerate() {
        if let &[at, next] = pair
            && next < at
        {
            let text = format!("falls from {at} to {next} behind instance {instance}");
            return Err(fault(text));
        }
    }
    let total = array.shape().first().copied().unwrap_or(0);
    match offsets.last() {
        Some(&end) if usize::try_from(end) != Ok(total) => Err(fault(format!(
            "ends with {end}, but the array has {total} elements"
        ))),
        _ => Ok(()),
    }
}

/// Checks that arrays whose first axis has one name have as many elements in each instance.
fn alike(
    size: &str,
    (first, wanted): (&str, &[i64]),
    (name, found): (&str, &[i64]),
) -> Result<(), BatchError> {
    let lens = |offsets: &[i64]| -> Vec<i64> {
        offsets.windows(2).map(|pair| pair[1] - pair[0]).collect()
    };
    for (instance, (wanted, found)) in lens(wanted).into_iter().zip(lens(found)).enumerate() {
        if wanted != found {
            return Err(BatchError::Size {
                instance,
                name: name.into(),
                found,
                first: first.into(),
                wanted,
                size: size.into(),
            });
        }
    }
    Ok(())
}
