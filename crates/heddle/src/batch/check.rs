//! Checks of inputs for many instances.

use std::collections::BTreeMap;

use super::sizes::Sizes;
use super::{Batch, BatchError, Form, offsets_name, shapes_name, structures};
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
        let mut sizes = Sizes::default();
        for (name, form) in &self.inputs {
            let Some(array) = inputs.get(name).and_then(Value::as_tensor) else {
                continue;
            };
            let found = match form {
                Form::Stacked => array.shape().first().copied().unwrap_or(0),
                Form::Ragged => {
                    let Some(offsets) = offsets(inputs, name)? else {
                        continue;
                    };
                    parted(name, array, &offsets)?;
                    let lens = lens(&offsets);
                    if let Some(axis) = self.axes.get(name).and_then(|axes| axes.first()) {
                        sizes.check(name, axis, &lens)?;
                    }
                    lens.len()
                }
                Form::Flat => {
                    let Some(offsets) = offsets(inputs, name)? else {
                        continue;
                    };
                    let axes = self.axes.get(name).map_or(&[][..], Vec::as_slice);
                    let Some(shapes) = shapes(inputs, name, axes.len())? else {
                        continue;
                    };
                    if array.shape().len() != 1 {
                        return Err(fault(
                            name.clone(),
                            format!(
                                "is {}; with `{}` beside it, it has the elements of all instances along one axis",
                                array.ty(),
                                shapes_name(name)
                            ),
                        ));
                    }
                    parted(name, array, &offsets)?;
                    filled(name, &shapes, &lens(&offsets))?;
                    for (axis, column) in axes.iter().zip(0..) {
                        let column: Vec<i64> = shapes.iter().map(|own| own[column]).collect();
                        sizes.check(name, axis, &column)?;
                    }
                    shapes.len()
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
        sizes.finish(self, inputs, count)?;
        Ok(count)
    }
}

pub(super) fn fault(array: String, fault: String) -> Error {
    let offsets = array;
    BatchError::Offsets { offsets, fault }.into()
}

/// The offsets of an input, if they are given.
fn offsets(inputs: &Inputs, name: &str) -> Result<Option<Vec<i64>>, Error> {
    let Some(offsets) = inputs.get(&offsets_name(name)).and_then(Value::as_tensor) else {
        return Ok(None);
    };
    let whole = offsets.to_vec::<i64>();
    match whole.filter(|_| offsets.shape().len() == 1) {
        Some(whole) => Ok(Some(whole)),
        None => Err(fault(
            offsets_name(name),
            format!("is {}, not i64[instances + 1]", offsets.ty()),
        )),
    }
}

/// The shapes of an input of this rank by instance, if they are given.
fn shapes(inputs: &Inputs, name: &str, rank: usize) -> Result<Option<Vec<Vec<i64>>>, Error> {
    let Some(shapes) = inputs.get(&shapes_name(name)).and_then(Value::as_tensor) else {
        return Ok(None);
    };
    let fits = matches!(shapes.shape(), [_, own] if *own == rank);
    match shapes.to_vec::<i64>() {
        Some(all) if fits && rank > 0 => {
            Ok(Some(all.chunks_exact(rank).map(<[i64]>::to_vec).collect()))
        }
        _ => Err(fault(
            shapes_name(name),
            format!("is {}, not i64[instances, {rank}]", shapes.ty()),
        )),
    }
}

/// Checks that shapes have as many elements as the offsets say.
fn filled(name: &str, shapes: &[Vec<i64>], lens: &[i64]) -> Result<(), Error> {
    if shapes.len() != lens.len() {
        let text = format!(
            "has {} rows, but `{}` parts {} instances",
            shapes.len(),
            offsets_name(name),
            lens.len()
        );
        return Err(fault(shapes_name(name), text));
    }
    for (instance, (shape, len)) in shapes.iter().zip(lens).enumerate() {
        if let Some(size) = shape.iter().find(|size| **size < 0) {
            let text = format!("has the size {size} in instance {instance}");
            return Err(fault(shapes_name(name), text));
        }
        let elements = match shape.contains(&0) {
            true => Some(0),
            false => shape
                .iter()
                .try_fold(1i64, |all, size| all.checked_mul(*size)),
        };
        if elements != Some(*len) {
            let text = format!(
                "gives instance {instance} the shape {shape:?}, but `{}` gives it {len} elements",
                offsets_name(name)
            );
            return Err(fault(shapes_name(name), text));
        }
    }
    Ok(())
}

fn lens(offsets: &[i64]) -> Vec<i64> {
    offsets.windows(2).map(|pair| pair[1] - pair[0]).collect()
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
