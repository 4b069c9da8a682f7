//! Lists of equal elements as arrays.

use std::borrow::Cow;

use heddle_ir::{Module, Type};

use crate::infer_contents;
use crate::transform::flatten_equal;

/// The module with an array for each list, also where lists enter or leave it, if the elements of
/// each have one shape.
pub(super) fn as_arrays(module: &Module) -> Cow<'_, Module> {
    let is_list = |ty: &Type| matches!(ty, Type::Seq(_));
    let mut functions = module.functions.iter();
    if !functions.any(|(_, f)| f.values.iter().any(|(_, value)| is_list(&value.ty))) {
        return Cow::Borrowed(module);
    }
    let mut flat = module.clone();
    infer_contents(&mut flat);
    match flatten_equal(&mut flat) {
        true => Cow::Owned(flat),
        false => Cow::Borrowed(module),
    }
}
