//! Ops and their attributes: from an op to `name(…, key=value)` and back.
//!
//! Attributes that have their default value are neither written nor needed.

mod read;
mod write;

use crate::Type;

pub(super) use read::{Attrs, names, op};
pub(super) use write::attributes;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Attr {
    /// A number as it is written.
    Number(String),
    /// `true`, `false`, the name of a variant or of an element type.
    Word(String),
    Str(String),
    Ints(Vec<u64>),
    Strs(Vec<String>),
    Type(Type),
}
