//! Lists of equal elements as arrays.

use std::borrow::Cow;

use heddle_ir::{Module, Type};

use crate::infer_contents;
use crate::transform::{SequenceForm, SequenceLayout, flatten_ports, flatten_sequences};

/// The module with an array for each list, also where lists enter or leave it, if elements of all
/// lists that do have one shape.
pub(super) fn as_arrays(module: &Module) -> Cow<'_, Module> {
    let is_list = |ty: &Type| matches!(ty, Type::Seq(_));
    let mut functions = module.functions.iter();
    if !functions.any(|(_, f)| f.values.iter().any(|(_, value)| is_list(&value.ty))) {
        return Cow::Borrowed(module);
    }
    let mut flat = module.clone();
    infer_contents(&mut flat);
    let is_array = |form: &Option<SequenceForm>| match form {
        Some(form) => form.layout == SequenceLayout::Rows,
        None => true,
    };
    match flatten_ports(&mut flat) {
        Some(ports) if !ports.params.iter().chain(&ports.results).all(is_array) => {
            return Cow::Borrowed(module);
        }
        Some(_) => {}
        None => {
            flatten_sequences(&mut flat);
        }
    }
    Cow::Owned(flat)
}
