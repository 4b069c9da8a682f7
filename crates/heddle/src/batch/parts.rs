//! Some of the instances: their part of the inputs, and the outputs of parts put together.

use std::ops::Range;

use super::{Batch, BatchError, Form, Forms, SEEDS, offsets_name, shapes_name};
use crate::{DType, Error, Inputs, Outputs, RunOptions, Tensor, Value};

impl Batch {
    /// The number of instances of inputs that passed [`Batch::check`].
    pub(super) fn count(&self, inputs: &Inputs) -> Option<usize> {
        let (name, form) = self.inputs.first()?;
        match form {
            Form::Stacked => tensor(inputs, name)?.shape().first().copied(),
            Form::Ragged | Form::Flat => tensor(inputs, &offsets_name(name))?.len().checked_sub(1),
        }
    }

    /// The inputs of each instance alone, as the model for one takes them, and the options of its run: these with the
    /// instance's seed, if the batch has [seeds](super::SEEDS).
    ///
    /// # Errors
    ///
    /// Those of [`Batch::check`], and [`BatchError::Refused`] if elements of an array share bytes.
    pub fn instances(
        &self,
        inputs: &Inputs,
        options: &RunOptions,
    ) -> Result<Vec<(Inputs, RunOptions)>, Error> {
        self.check(inputs)?;
        let count = self.count(inputs).unwrap_or(0);
        let alone = (0..count).map(|instance| {
            let mut own = self.alone(inputs, instance)?;
            let mut options = options.clone();
            if self.seeds_runs {
                let seed = own.swap_remove(SEEDS)?;
                options.seed = *seed.as_tensor()?.to_vec::<i64>()?.first()? as u64;
            }
            Some((own, options))
        });
        let alone = alone.collect::<Option<_>>();
        alone.ok_or_else(|| BatchError::Refused("elements of an input share bytes".into()).into())
    }

    /// The inputs of some of the instances; `None` if elements of an array share bytes.
    pub(super) fn part(&self, inputs: &Inputs, range: Range<usize>) -> Option<Inputs> {
        let mut own = inputs.clone();
        for (name, form) in &self.inputs {
            let array = tensor(inputs, name)?;
            let part = match form {
                Form::Stacked => rows(array, range.clone())?,
                Form::Ragged | Form::Flat => {
                    let offsets = offsets_name(name);
                    if *form == Form::Flat {
                        let name = shapes_name(name);
                        let shapes = rows(tensor(inputs, &name)?, range.clone())?;
                        own.insert(name, shapes.into());
                    }
                    let ends = tensor(inputs, &offsets)?.to_i64s()?;
                    let ends = ends.get(range.start..=range.end)?;
                    let (first, last) = (*ends.first()?, *ends.last()?);
                    let part = rows(array, first as usize..last as usize)?;
                    let ends: Vec<i64> = ends.iter().map(|end| end - first).collect();
                    own.insert(offsets, Tensor::vector(&ends).into());
                    part
                }
            };
            own.insert(name.clone(), part.into());
        }
        Some(own)
    }

    /// The inputs of one instance, as the program for one takes them.
    pub(super) fn alone(&self, inputs: &Inputs, instance: usize) -> Option<Inputs> {
        let mut own = self.part(inputs, instance..instance + 1)?;
        for (name, form) in &self.inputs {
            match form {
                Form::Stacked => {
                    let array = tensor(&own, name)?;
                    let one = array.reshaped(array.shape().get(1..)?.to_vec())?;
                    own.insert(name.clone(), one.into());
                }
                Form::Ragged => {
                    own.swap_remove(&offsets_name(name));
                }
                Form::Flat => {
                    own.swap_remove(&offsets_name(name));
                    let Some(Value::Tensor(shape)) = own.swap_remove(&shapes_name(name)) else {
                        return None;
                    };
                    let sizes = shape.to_i64s()?.into_iter().map(usize::try_from);
                    let shape = sizes.collect::<Result<Vec<usize>, _>>().ok()?;
                    let one = tensor(&own, name)?.reshaped(shape)?;
                    own.insert(name.clone(), one.into());
                }
            }
        }
        Some(own)
    }
}

/// The outputs of parts, behind each other.
pub(super) fn joined(forms: &Forms, parts: &[Outputs]) -> Result<Outputs, Error> {
    let mut outputs = Outputs::new();
    for (name, form) in forms {
        let arrays = parts.iter().filter_map(|part| tensor(part, name));
        let data = concatenated(&arrays.collect::<Vec<_>>());
        let data = data.ok_or_else(|| unfit(name))?;
        outputs.insert(name.clone(), data.into());
        if *form == Form::Flat {
            let name = shapes_name(name);
            let shapes: Vec<_> = parts
                .iter()
                .filter_map(|part| tensor(part, &name))
                .collect();
            let shapes = concatenated(&shapes).ok_or_else(|| unfit(&name))?;
            outputs.insert(name, shapes.into());
        }
        if matches!(form, Form::Ragged | Form::Flat) {
            let name = offsets_name(name);
            let mut all = vec![0i64];
            for ends in parts.iter().filter_map(|part| tensor(part, &name)) {
                let first = all.last().copied().unwrap_or(0);
                let ends = ends.to_i64s().unwrap_or_default();
                all.extend(ends.iter().skip(1).map(|end| first + end));
            }
            outputs.insert(name, Tensor::vector(&all).into());
        }
    }
    Ok(outputs)
}

fn unfit(name: &str) -> Error {
    Error::Internal(format!(
        "parts of the output `{name}` do not fit each other"
    ))
}

fn tensor<'a>(values: &'a Inputs, name: &str) -> Option<&'a Tensor> {
    values.get(name).and_then(Value::as_tensor)
}

/// A range of an array along its first axis.
fn rows(array: &Tensor, range: Range<usize>) -> Option<Tensor> {
    let (&count, rest) = array.shape().split_first()?;
    let shape = [&[range.len()], rest].concat();
    let elements: usize = rest.iter().product();
    if array.dtype() == DType::Str {
        let part = array
            .strs()
            .get(range.start * elements..range.end * elements)?;
        return Tensor::strings(shape, part.to_vec()).ok();
    }
    let bytes = match count {
        0 => 0,
        _ if !array.bytes().len().is_multiple_of(count) => return None,
        _ => array.bytes().len() / count,
    };
    if bytes * 8 != elements * array.dtype().bits() && count > 0 {
        return None;
    }
    let part = array.bytes().get(range.start * bytes..range.end * bytes)?;
    Tensor::new(array.dtype(), shape, part.to_vec()).ok()
}

/// Arrays behind each other along their first axis. Those without elements do not tell the other sizes.
fn concatenated(arrays: &[&Tensor]) -> Option<Tensor> {
    let first = arrays.iter().find(|a| a.shape().first() != Some(&0));
    let first = first.or(arrays.first())?;
    let some = || arrays.iter().filter(|a| a.shape().first() != Some(&0));
    let rest = first.shape().get(1..)?;
    if some().any(|a| a.shape().get(1..) != Some(rest)) {
        return None;
    }
    let count = some().map(|a| a.shape()[0]).sum();
    let shape = [&[count], rest].concat();
    if first.dtype() == DType::Str {
        let all = some().flat_map(|a| a.strs().to_vec()).collect();
        return Tensor::strings(shape, all).ok();
    }
    let bytes: Vec<u8> = some().flat_map(|a| a.bytes().to_vec()).collect();
    Tensor::new(first.dtype(), shape, bytes).ok()
}
