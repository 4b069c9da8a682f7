//! The sizes that a model states, by instance.

use std::collections::HashSet;

use heddle_ir::{Dim, DimExpr, TensorType, Type};
use indexmap::IndexMap;

use super::check::fault;
use super::{Batch, BatchError, Form};
use crate::{Error, Inputs, Value};

/// The size of an axis in the model.
#[derive(Clone, Debug)]
pub(super) enum Axis {
    Fixed(i64),
    Named(String),
    /// An expression of named sizes.
    Computed(DimExpr),
    Any,
}

impl Axis {
    pub fn of(dim: &Dim) -> Self {
        match (dim.as_const(), dim.as_expr()) {
            (Some(size), _) => Self::Fixed(size),
            (_, Some(expr)) => match expr.as_sym() {
                Some(name) => Self::Named(name.to_string()),
                None => Self::Computed(expr.clone()),
            },
            (None, None) => Self::Any,
        }
    }
}

/// The sizes of an array's axes, if its rank is known.
pub(super) fn dims(ty: &Type) -> &[Dim] {
    match ty {
        Type::Tensor(TensorType {
            shape: Some(shape), ..
        }) => shape,
        _ => &[],
    }
}

/// The sizes by instance of what the model gives a name.
#[derive(Default)]
pub(super) struct Sizes {
    known: IndexMap<String, (String, Vec<i64>)>,
    /// Axes whose size follows from others: the input, and its size by instance.
    computed: Vec<(String, DimExpr, Vec<i64>)>,
}

impl Sizes {
    /// Checks the sizes of an axis of an input.
    pub fn check(&mut self, name: &str, axis: &Axis, found: &[i64]) -> Result<(), Error> {
        match axis {
            Axis::Any => {}
            Axis::Fixed(size) => {
                if let Some(instance) = found.iter().position(|n| n != size) {
                    let text = format!(
                        "has the size {} in instance {instance}, where the model has {size}",
                        found[instance]
                    );
                    return Err(fault(name.into(), text));
                }
            }
            Axis::Named(size) => self.alike(size.clone(), name, found)?,
            Axis::Computed(expr) => {
                self.alike(expr.to_string(), name, found)?;
                let own = (name.to_string(), expr.clone(), found.to_vec());
                self.computed.push(own);
            }
        }
        Ok(())
    }

    /// Checks that axes of one size are alike in each instance.
    fn alike(&mut self, size: String, name: &str, found: &[i64]) -> Result<(), BatchError> {
        let own = || (name.to_string(), found.to_vec());
        let (first, wanted) = self.known.entry(size.clone()).or_insert_with(own);
        for (instance, (&wanted, &found)) in wanted.iter().zip(found).enumerate() {
            if wanted != found {
                return Err(BatchError::Size {
                    instance,
                    name: name.into(),
                    found,
                    first: first.clone(),
                    wanted,
                    size,
                });
            }
        }
        Ok(())
    }

    /// Checks sizes that inputs have in common for all instances, and those that follow from others.
    pub fn finish(mut self, batch: &Batch, inputs: &Inputs, count: usize) -> Result<(), Error> {
        let differing: HashSet<String> = self.known.keys().cloned().collect();
        for (name, ty) in &batch.alone.entry().sig.params {
            let Some(array) = inputs.get(name).and_then(Value::as_tensor) else {
                continue;
            };
            // The axes of the array behind those that differ by instance, and their sizes in the model.
            let (behind, axes) = match batch.inputs.get(name) {
                None => (0, dims(ty)),
                Some(Form::Stacked) => (1, dims(ty)),
                Some(Form::Ragged) => (1, dims(ty).get(1..).unwrap_or_default()),
                Some(Form::Flat) => continue,
            };
            let sizes = array.shape().get(behind..).unwrap_or_default();
            for (dim, &size) in axes.iter().zip(sizes) {
                let Axis::Named(own) = Axis::of(dim) else {
                    continue;
                };
                let found = vec![size as i64; count];
                if differing.contains(&own) {
                    self.alike(own, name, &found)?;
                } else {
                    self.known.entry(own).or_insert((name.clone(), found));
                }
            }
        }
        for (name, expr, found) in &self.computed {
            for (instance, &found) in found.iter().enumerate() {
                let size = |name: &str| self.known.get(name)?.1.get(instance).copied();
                if let Some(wanted) = expr.eval(&size)
                    && wanted != found
                {
                    let text = format!(
                        "has the size {found} in instance {instance}, where the model has {expr}, which is {wanted} there"
                    );
                    return Err(fault(name.clone(), text));
                }
            }
        }
        Ok(())
    }
}
