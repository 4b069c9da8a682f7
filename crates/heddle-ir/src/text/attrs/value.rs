//! Attribute values in the text form.

use std::sync::Arc;

use super::Attr;
use crate::op::{Case, Extreme, PadMode, ReduceOp, ScaleRounding, ScatterReduce};
use crate::{DType, Type};

/// A value of an attribute.
pub(super) trait AttrValue: PartialEq + Sized {
    /// The value that is written so. The error is a message.
    fn read(attr: Attr, key: &str) -> Result<Self, String>;
    /// The text form; `None` where an option is empty.
    fn write(&self) -> Option<Attr>;
    /// The value that the first operand's type implies.
    fn of_operand(_: Option<&Type>) -> Option<Self> {
        None
    }
}

impl<T: AttrValue> AttrValue for Option<T> {
    fn read(attr: Attr, key: &str) -> Result<Self, String> {
        T::read(attr, key).map(Some)
    }

    fn write(&self) -> Option<Attr> {
        self.as_ref()?.write()
    }
}

impl AttrValue for u64 {
    fn read(attr: Attr, key: &str) -> Result<Self, String> {
        let value = match &attr {
            Attr::Number(text) => text.parse().ok(),
            _ => None,
        };
        value.ok_or_else(|| format!("`{key}` must be an integer that is not negative"))
    }

    fn write(&self) -> Option<Attr> {
        Some(Attr::Number(self.to_string()))
    }
}

impl AttrValue for usize {
    fn read(attr: Attr, key: &str) -> Result<Self, String> {
        let value = u64::read(attr, key)?;
        usize::try_from(value).map_err(|_| format!("`{key}` is too large"))
    }

    fn write(&self) -> Option<Attr> {
        (*self as u64).write()
    }
}

impl AttrValue for Vec<usize> {
    fn read(attr: Attr, key: &str) -> Result<Self, String> {
        let error = || format!("`{key}` must be a list of sizes or axes, such as [0, 1]");
        let Attr::Ints(v) = attr else {
            return Err(error());
        };
        let sizes = v.into_iter().map(usize::try_from);
        sizes.collect::<Result<_, _>>().map_err(|_| error())
    }

    fn write(&self) -> Option<Attr> {
        Some(Attr::Ints(self.iter().map(|&n| n as u64).collect()))
    }
}

impl AttrValue for bool {
    fn read(attr: Attr, key: &str) -> Result<Self, String> {
        match attr {
            Attr::Word(w) if w == "true" => Ok(true),
            Attr::Word(w) if w == "false" => Ok(false),
            _ => Err(format!("`{key}` must be true or false")),
        }
    }

    fn write(&self) -> Option<Attr> {
        Some(word(if *self { "true" } else { "false" }))
    }
}

impl AttrValue for Arc<str> {
    fn read(attr: Attr, key: &str) -> Result<Self, String> {
        match attr {
            Attr::Str(s) => Ok(s.into()),
            _ => Err(format!("`{key}` must be a string")),
        }
    }

    fn write(&self) -> Option<Attr> {
        Some(Attr::Str(self.to_string()))
    }
}

impl AttrValue for Arc<[Box<str>]> {
    fn read(attr: Attr, key: &str) -> Result<Self, String> {
        match attr {
            Attr::Strs(words) => Ok(words.into_iter().map(String::into_boxed_str).collect()),
            Attr::Ints(none) if none.is_empty() => Ok(Arc::new([])),
            _ => Err(format!("`{key}` must be a list of strings")),
        }
    }

    fn write(&self) -> Option<Attr> {
        Some(Attr::Strs(self.iter().map(|s| s.to_string()).collect()))
    }
}

impl AttrValue for Type {
    fn read(attr: Attr, key: &str) -> Result<Self, String> {
        match attr {
            Attr::Type(t) => Ok(t),
            _ => Err(format!("`{key}` must be a type, such as f32[n]")),
        }
    }

    fn write(&self) -> Option<Attr> {
        Some(Attr::Type(self.clone()))
    }

    fn of_operand(operand: Option<&Type>) -> Option<Self> {
        operand.cloned()
    }
}

/// Values that are written as one word.
macro_rules! words {
    ($($ty:ident: $from:expr,)*) => { $(
        impl AttrValue for $ty {
            fn read(attr: Attr, key: &str) -> Result<Self, String> {
                let Attr::Word(w) = attr else {
                    return Err(format!("`{key}` must be a word"));
                };
                $from(&w).ok_or_else(|| format!("`{w}` is no value of `{key}`"))
            }

            fn write(&self) -> Option<Attr> {
                Some(word(self.name()))
            }
        }
    )* };
}

words! {
    DType: |w: &str| w.parse().ok(),
    Case: Case::from_name,
    Extreme: Extreme::from_name,
    PadMode: PadMode::from_name,
    ReduceOp: ReduceOp::from_name,
    ScaleRounding: ScaleRounding::from_name,
    ScatterReduce: ScatterReduce::from_name,
}

fn word(w: &str) -> Attr {
    Attr::Word(w.into())
}
