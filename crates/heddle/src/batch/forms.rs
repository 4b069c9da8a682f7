//! The forms that inputs have by their types.

use std::collections::HashSet;

use super::{BatchError, Form, Forms, SEEDS};
use crate::{Dim, Error, Model, Port, Type};

impl Model {
    /// The forms of the inputs that differ by instance, by their types: an array whose first size is dynamic is ragged, unless
    /// an input that all instances share has this size, too. All others are stacked.
    ///
    /// # Errors
    ///
    /// [`BatchError::Unknown`] if a name is no input's.
    pub fn batch_forms(&self, names: &[String]) -> Result<Forms, Error> {
        let inputs = self.signature().inputs;
        let is_shared = |port: &&Port| !names.contains(&port.name);
        let shared = inputs.iter().filter(is_shared);
        let shared: HashSet<&Dim> = shared.flat_map(dims).collect();
        let form = |name: &String| {
            if name == SEEDS && !self.has_input(name) {
                return Ok((name.clone(), Form::Stacked));
            }
            let port = inputs.iter().find(|port| port.name == *name);
            let port = port.ok_or_else(|| BatchError::Unknown(name.clone()))?;
            let form = match dims(port).first() {
                None | Some(Dim::Fixed(_)) => Form::Stacked,
                Some(named @ Dim::Named(_)) if shared.contains(named) => Form::Stacked,
                Some(_) => Form::Ragged,
            };
            Ok((name.clone(), form))
        };
        names.iter().map(form).collect()
    }

    pub(super) fn has_input(&self, name: &str) -> bool {
        let params = &self.module.entry().sig.params;
        params.iter().any(|(param, _)| param == name)
    }
}

fn dims(port: &Port) -> &[Dim] {
    match &port.ty {
        Type::Tensor {
            dims: Some(dims), ..
        } => dims,
        _ => &[],
    }
}
