//! Checks of the inputs of many instances that are tables of data types and graphs.

use std::collections::BTreeMap;
use std::ops::Range;

use heddle_lang::Structure;

use super::{Form, Forms, offsets_name};
use crate::inputs::{InputError, Inputs};
use crate::structures::array;

/// The instances whose inputs, which have these forms, are unsound, each with its first fault.
pub(super) fn unsound(
    structures: &[Structure],
    inputs: &Inputs,
    forms: &Forms,
    instances: usize,
) -> BTreeMap<usize, InputError> {
    let mut faults = BTreeMap::new();
    for structure in structures {
        let names = structure.inputs().into_iter();
        let columns: Vec<Column> = names
            .filter_map(|name| Column::of(name, inputs, forms))
            .collect();
        let column = |name: &str| columns.iter().find(|c| c.name == name);
        for instance in 0..instances {
            let read = |name: &str| column(name)?.part(instance);
            let rows = |name: &str| Some(column(name)?.range(instance)?.len());
            if let Err(fault) = structure.check(&read, &rows) {
                let error = InputError::Structure {
                    instance: Some(instance),
                    fault: fault.to_string(),
                };
                faults.entry(instance).or_insert(error);
            }
        }
    }
    faults
}

/// An input, with its elements if they are integers.
struct Column<'a> {
    name: &'a str,
    data: Option<Vec<i64>>,
    /// The size of the first axis.
    size: usize,
    parts: Parts,
}

/// The part of an input that is an instance's.
enum Parts {
    /// All of it.
    Shared,
    /// As many elements as each other instance has.
    Rows(usize),
    /// The elements from one offset to the next.
    Ragged(Vec<i64>),
}

impl<'a> Column<'a> {
    fn of(name: &'a str, inputs: &Inputs, forms: &Forms) -> Option<Self> {
        let tensor = array(inputs, name)?;
        let parts = match forms.get(name) {
            None => Parts::Shared,
            Some(Form::Stacked) => Parts::Rows(tensor.shape().get(1).copied().unwrap_or(1)),
            Some(Form::Ragged | Form::Flat) => {
                Parts::Ragged(array(inputs, &offsets_name(name))?.to_i64s()?)
            }
        };
        Some(Self {
            name,
            data: tensor.to_i64s(),
            size: tensor.shape().first().copied().unwrap_or(1),
            parts,
        })
    }

    fn part(&self, instance: usize) -> Option<Vec<i64>> {
        let range = self.range(instance)?;
        self.data.as_ref()?.get(range).map(<[i64]>::to_vec)
    }

    /// The elements of an instance.
    fn range(&self, instance: usize) -> Option<Range<usize>> {
        Some(match &self.parts {
            Parts::Shared => 0..self.size,
            Parts::Rows(n) => instance * n..(instance + 1) * n,
            Parts::Ragged(offsets) => {
                let at = |k: usize| offsets.get(k).and_then(|&n| usize::try_from(n).ok());
                at(instance)?..at(instance + 1)?
            }
        })
    }
}
