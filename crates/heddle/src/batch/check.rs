//! Checks of inputs for many instances.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use super::{Batch, BatchError, Form, offsets_name, structures};
use crate::{Error, InputError, Inputs, Tensor, Value};

impl Batch {
    /// Checks that inputs are of one number of instances, that offsets part their arrays, and that
    /// tables and graphs of a program of the language are sound.
    ///
    /// # Errors
    ///
    /// [`Error::Batch`] names the input and the instance.
    pub fn check(&self, inputs: &Inputs) -> Result<(), Error> {
        let count = self.check_parts(inputs)?;
        match self.unsound(inputs, count).pop_first() {
            Some((_, error)) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// The instances whose tables and graphs are unsound, each with its first fault.
    pub(super) fn unsound(&self, inputs: &Inputs, count: usize) -> BTreeMap<usize, InputError> {
        structures::unsound(&self.structures, inputs, &self.inputs, count)
    }

    /// [`Batch::check`] without tables and graphs, whose faults are those of single instances: [`Batch::run_finishing`] leaves
    /// these out. Gives the number of instances.
    ///
    /// # Errors
    ///
    /// [`Error::Batch`] names the input and the instance.
    pub fn check_parts(&self, inputs: &Inputs) -> Result<usize, Error> {
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
                    let whole = offsets.to_vec::<i64>();
                    let whole = whole.filter(|_| offsets.shape().len() == 1);
                    let offsets = whole.ok_or_else(|| BatchError::Offsets {
                        offsets: offsets_name(name),
                        fault: format!("is {}, not i64[instances + 1]", offsets.ty()),
                    })?;
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
        Ok(first.map_or(0, |(_, count)| count))
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
