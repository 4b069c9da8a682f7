//! Values that are given in the place of arrays of the file, as inputs and as constants.
//!
//! Tied parameters are names of one array, and a program may read it by another name than the given one: all of them have the given
//! value.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use heddle_ir::Tensor;

use super::weights::Weights;
use super::{Pt2Error, Pt2Options};

/// Given values, by the name that the program reads an array by.
#[derive(Default)]
pub struct Given<'a> {
    /// The input that is the array.
    pub inputs: HashMap<&'a str, &'a str>,
    /// The constant that is the array, with the name that it is given by.
    pub constants: HashMap<&'a str, (&'a str, &'a Tensor)>,
}

impl<'a> Given<'a> {
    /// The given values of the arrays that a program reads, `kept`. Inputs that the file has no array of are not its matter.
    pub fn of(
        kept: &[&'a str],
        weights: &Weights,
        options: &'a Pt2Options,
    ) -> Result<Self, Pt2Error> {
        let kept: BTreeSet<&str> = kept.iter().copied().collect();
        let mut names: BTreeMap<&str, Option<&Tensor>> = BTreeMap::new();
        for name in options.overrides.iter().map(String::as_str) {
            if kept.contains(name) || weights.has(name) {
                names.insert(name, None);
            }
        }
        for (name, tensor) in &options.constants {
            if !kept.contains(name.as_str()) && !weights.has(name) {
                return Err(wrong(name, "the model has no constant of this name"));
            }
            if names.insert(name, Some(tensor)).is_some() {
                return Err(wrong(name, "it is given as an input, too"));
            }
        }
        let places = kept.iter().filter_map(|k| Some((*k, weights.place(k)?)));
        let places: Vec<_> = places.collect();
        let mut given = Self::default();
        for (&name, &tensor) in &names {
            if kept.contains(name) {
                given.note(name, name, tensor)?;
            }
            let Some(place) = weights.place(name) else {
                continue;
            };
            for (other, there) in &places {
                let has_own = names.contains_key(other);
                let is_apart = *other == name || !there.overlaps(&place);
                if is_apart || has_own && kept.contains(name) {
                    continue;
                }
                match *there == place {
                    true if has_own && tensor.is_none() => {}
                    true => given.note(other, name, tensor)?,
                    false if has_own => {}
                    false => {
                        let text = format!(
                            "a part of it is `{other}` in the file: give a value for that, too"
                        );
                        return Err(wrong(name, &text));
                    }
                }
            }
        }
        Ok(given)
    }

    /// Notes the value that is given for `array` by the name `name`.
    fn note(
        &mut self,
        array: &'a str,
        name: &'a str,
        tensor: Option<&'a Tensor>,
    ) -> Result<(), Pt2Error> {
        let before = match tensor {
            None => self.inputs.insert(array, name),
            Some(tensor) => {
                let before = self.constants.insert(array, (name, tensor));
                before.filter(|(_, t)| *t != tensor).map(|(name, _)| name)
            }
        };
        match before {
            None => Ok(()),
            Some(other) => {
                let text =
                    format!("it and `{other}` are one array in the file, and are given two values");
                Err(wrong(name, &text))
            }
        }
    }
}

/// An error about the value of a name.
pub fn wrong(name: &str, message: &str) -> Pt2Error {
    Pt2Error::Replacement {
        name: name.to_owned(),
        message: message.to_owned(),
    }
}
