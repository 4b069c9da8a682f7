//! Ops and their attributes: from an op to `name(…, key=value)` and back.
//!
//! [`fields`] names each op's attributes once; reading and writing are two visitors of it. Attributes that have their
//! default value are neither written nor needed.

mod fields;
mod value;

use self::fields::{Field, Visitor, visit};
use self::value::AttrValue;
use crate::{Op, Type};

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attr {
    /// A number as it is written.
    Number(String),
    /// `true`, `false`, the name of a variant or of an element type.
    Word(String),
    /// A text.
    Str(String),
    /// Sizes or axes.
    Ints(Vec<u64>),
    /// Texts.
    Strs(Vec<String>),
    /// A type.
    Type(Type),
}

/// Attributes as they are read, taken out one by one.
#[derive(Default)]
pub(super) struct Attrs {
    pub(super) given: Vec<(String, Attr)>,
    /// Those that the op asked for.
    pub(super) known: Vec<&'static str>,
}

/// The op of this name, with its attributes taken from `attrs`; `first` is the type of the first operand. `None` when
/// there is no such op. The error is a message.
pub(super) fn op(
    name: &str,
    attrs: &mut Attrs,
    first: Option<&Type>,
) -> Option<Result<Op, String>> {
    let mut op = Op::prototype(name)?.clone();
    let read = visit(&mut op, &mut Reader { attrs, first });
    Some(read.map(|()| op))
}

/// An op by its name and attributes, for other languages whose operations are named so. An attribute that the op does not have is an error.
pub fn named_op(
    name: &str,
    given: Vec<(String, Attr)>,
    first: Option<&Type>,
) -> Option<Result<Op, String>> {
    let mut attrs = Attrs {
        given,
        known: vec![],
    };
    let op = op(name, &mut attrs, first)?;
    Some(op.and_then(|op| match attrs.given.first() {
        Some((key, _)) => Err(format!("has no attribute `{key}`")),
        None => Ok(op),
    }))
}

/// The names of all ops that are followed by operands in parentheses.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    Op::prototypes().iter().map(Op::name)
}

/// The attributes of an op that is neither a constant nor control flow, in the order in which they are written.
pub(super) fn attributes(op: &Op) -> Vec<(&'static str, Attr)> {
    let mut writer = Writer(vec![]);
    let written = visit(&mut op.clone(), &mut writer);
    debug_assert_eq!(written, Ok(()));
    writer.0
}

struct Reader<'a> {
    attrs: &'a mut Attrs,
    first: Option<&'a Type>,
}

impl Visitor for Reader<'_> {
    fn field<T: AttrValue>(
        &mut self,
        key: &'static str,
        value: &mut T,
        field: Field<T>,
    ) -> Result<(), String> {
        self.attrs.known.push(key);
        let mut given = self.attrs.given.iter();
        let attr = given.position(|(k, _)| k == key);
        let attr = attr.map(|at| self.attrs.given.remove(at).1);
        *value = match (attr, field) {
            (Some(attr), _) => T::read(attr, key)?,
            (None, Field::Default(default) | Field::Stated(default)) => default,
            (None, Field::FirstOperand) => {
                T::of_operand(self.first).ok_or_else(|| format!("needs the attribute `{key}`"))?
            }
            (None, Field::Needed) => return Err(format!("needs the attribute `{key}`")),
        };
        Ok(())
    }
}

struct Writer(Vec<(&'static str, Attr)>);

impl Visitor for Writer {
    fn field<T: AttrValue>(
        &mut self,
        key: &'static str,
        value: &mut T,
        field: Field<T>,
    ) -> Result<(), String> {
        if !matches!(field, Field::Default(default) if default == *value) {
            self.0.extend(value.write().map(|attr| (key, attr)));
        }
        Ok(())
    }
}
