//! Checks of the inputs of many instances that are tables of data types and graphs.

use heddle_lang::Structure;

use super::{Form, Forms, offsets_name};
use crate::inputs::{InputError, Inputs};
use crate::structures::array;

/// Checks the inputs of many instances, which have these forms.
pub(super) fn check(
    structures: &[Structure],
    inputs: &Inputs,
    forms: &Forms,
    instances: usize,
) -> Result<(), InputError> {
    for structure in structures {
        let names = structure.inputs().into_iter();
        let columns: Vec<Column> = names
            .filter_map(|name| Column::of(name, inputs, forms))
            .collect();
        for instance in 0..instances {
            let read = |name: &str| {
                let column = columns.iter().find(|c| c.name == name)?;
                column.part(instance)
            };
            structure
                .check(&read)
                .map_err(|fault| InputError::Structure {
                    instance: Some(instance),
                    fault: fault.to_string(),
                })?;
        }
    }
    Ok(())
}

/// The integers of an input.
struct Column<'a> {
    name: &'a str,
    data: Vec<i64>,
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
            Some(Form::Ragged) => Parts::Ragged(array(inputs, &offsets_name(name))?.to_i64s()?),
        };
        Some(Self {
            name,
            data: tensor.to_i64s()?,
            parts,
        })
    }

    fn part(&self, instance: usize) -> Option<Vec<i64>> {
        let range = match &self.parts {
            Parts::Shared => 0..self.data.len(),
            Parts::Rows(n) => instance * n..(instance + 1) * n,
            Parts::Ragged(offsets) => {
                let at = |k: usize| offsets.get(k).and_then(|&n| usize::try_from(n).ok());
                at(instance)?..at(instance + 1)?
            }
        };
        self.data.get(range).map(<[i64]>::to_vec)
    }
}
