//! Operators that give views or change their first argument in place.

use heddle_ir::DType;

use super::schema::{self, Argument, NamedArgument, TensorMeta};
use super::translate::Walk;
use crate::error::{OpError, Result};
use crate::ops::promote;

/// Effect of an operator on the memory of its first argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aliasing {
    /// Its results are memory of their own.
    None,
    /// Its results lie in it.
    View,
    /// Likewise, if its elements lie in row-major order. Else PyTorch may copy it.
    IfDense,
    /// Likewise, if the type stays.
    IfSameType,
    /// Likewise, if the type stays and its elements lie in an order that the file does not tell.
    IfInOrder,
    /// It is changed to the result of this operator.
    Writes(String),
}

/// Operators whose result lies in their first argument.
const VIEWS: &[&str] = &[
    "_reshape_alias.default",
    "alias.default",
    "as_strided.default",
    "broadcast_to.default",
    "chunk.default",
    "detach.default",
    "detach_.default",
    "diagonal.default",
    "expand.default",
    "expand_as.default",
    "lift_fresh.default",
    "movedim.int",
    "movedim.intlist",
    "narrow.default",
    "numpy_T.default",
    "permute.default",
    "positive.default",
    "resolve_conj.default",
    "resolve_neg.default",
    "select.int",
    "slice.Tensor",
    "split.Tensor",
    "split_with_sizes.default",
    "squeeze.default",
    "squeeze.dim",
    "squeeze.dims",
    "t.default",
    "transpose.int",
    "unbind.int",
    "unflatten.int",
    "unfold.default",
    "unsqueeze.default",
    "view.default",
    "view.dtype",
    "view_as.default",
];

/// Operators whose results are truth values.
const PREDICATES: &[&str] = &[
    "eq",
    "ge",
    "gt",
    "le",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lt",
    "ne",
];

/// Operators whose result has the type that all of their arrays have together.
const ARITHMETIC: &[&str] = &[
    "add",
    "addcdiv",
    "addcmul",
    "atan2",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "div",
    "floor_divide",
    "fmod",
    "hypot",
    "lerp",
    "mul",
    "pow",
    "remainder",
    "sub",
    "true_divide",
    "xlogy",
];

/// Operators in place that change sizes or memory, and not elements.
const RESHAPING: &[&str] = &[
    "as_strided_",
    "resize_",
    "resize_as_",
    "set_",
    "squeeze_",
    "swapaxes_",
    "swapdims_",
    "t_",
    "transpose_",
    "unsqueeze_",
];

impl Aliasing {
    pub fn of(target: &str, inputs: &[NamedArgument]) -> Self {
        let Some(name) = target.strip_prefix("aten.") else {
            return Aliasing::None;
        };
        let flag = |name: &str, of: bool| {
            let stated = inputs.iter().find(|i| i.name == name).map(|i| &i.arg);
            matches!(stated, Some(Argument::AsBool(x)) if *x == of)
        };
        // Channels last, of images or volumes.
        let is_reordered = inputs
            .iter()
            .any(|i| i.name == "memory_format" && matches!(i.arg, Argument::AsMemoryFormat(2 | 3)));
        match name {
            _ if VIEWS.contains(&name) => Aliasing::View,
            "contiguous.default" if is_reordered => Aliasing::IfInOrder,
            "dropout.default" if flag("train", false) => Aliasing::View,
            "reshape.default" | "flatten.using_ints" | "contiguous.default" => Aliasing::IfDense,
            "to.dtype" | "to.device" | "to.dtype_layout" | "to.other" | "type_as.default"
                if !flag("copy", true) =>
            {
                match is_reordered {
                    true => Aliasing::IfInOrder,
                    false => Aliasing::IfSameType,
                }
            }
            _ => match name.split_once('.') {
                Some((op, overload)) if op.ends_with('_') && !op.ends_with("__") => {
                    Aliasing::Writes(functional(op, overload).unwrap_or_else(|| target.to_owned()))
                }
                _ => Aliasing::None,
            },
        }
    }
}

/// The operator whose result an operator in place writes.
fn functional(op: &str, overload: &str) -> Option<String> {
    if RESHAPING.contains(&op) {
        return None;
    }
    let target = match op {
        "zero_" => "aten.zeros_like.default".to_owned(),
        _ => format!("aten.{}.{overload}", op.trim_end_matches('_')),
    };
    crate::ops::is_target(&target).then_some(target)
}

impl Walk<'_> {
    /// The element type of the result of an operator, of which an operator in place writes the result into an array of the first
    /// argument's type.
    pub fn result_type(&self, node: &schema::Node, form: &str, own: &TensorMeta) -> Result<String> {
        let name = |meta: &TensorMeta| {
            let name = schema::dtype(meta.dtype);
            name.map_err(|name| OpError::Unsupported(format!("arrays of {name}")))
        };
        let op = form.strip_prefix("aten.").and_then(|f| f.split('.').next());
        if op.is_some_and(|op| PREDICATES.contains(&op)) {
            return Ok("bool".to_owned());
        }
        let mut of = [None; 3];
        for input in &node.inputs {
            let Argument::AsTensor(tensor) = &input.arg else {
                continue;
            };
            let meta = self.meta(&tensor.name)?;
            let dtype: Option<DType> = name(meta)?.parse().ok();
            let category = &mut of[usize::from(meta.sizes.is_empty())];
            *category = match (*category, dtype) {
                (Some(a), Some(b)) => Some(promote::join(a, b)),
                (a, b) => a.or(b),
            };
        }
        match promote::of_categories(of) {
            Some(dtype) if op.is_some_and(|op| ARITHMETIC.contains(&op)) => {
                Ok(dtype.name().to_owned())
            }
            _ => Ok(name(own)?.to_owned()),
        }
    }
}
