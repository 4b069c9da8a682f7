//! Causes for which a node has no compiled form.

use std::fmt;

use heddle_ir::DType;

/// The cause for which a node has no compiled form.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// An operator that has none.
    Op(&'static str),
    /// Elements of this type.
    Elements(DType),
    /// Sliding windows over elements of this type.
    Windows(DType),
    /// A sequence or optional that did not become arrays: the node gives, takes, carries or stacks it.
    Container(&'static str),
    /// An array of unknown rank, which the node gives, takes or carries.
    Rank(&'static str),
    /// Branches that give arrays of different rank.
    Branches,
    /// A size that the run computes.
    Size,
    /// A named size that no input has.
    Unbound(String),
    /// A size that no array in front of the node states.
    Unstated,
    /// A number of sizes, and so a rank, that the run computes.
    SizeCount,
    /// Index tuples of a length that the run computes.
    TupleLength,
    /// Padding whose widths are data.
    Pads,
    /// An array without a bound that is no memory of the program's own.
    Growth,
    /// A carried array that changes in size, where growth does not help.
    Carried,
    /// An array of more elements than any memory holds.
    TooLarge,
    /// A function that calls itself with arrays of other sizes, or so that their sizes may not fit.
    Recursion(&'static str),
    /// An operand or result in a form that the lowering of the node does not take.
    Form(&'static str),
    /// The layout of the program's memory failed.
    Layout(String),
}

impl Cause {
    /// A change of the model that removes the cause, if there is one.
    pub fn change(&self) -> Option<&'static str> {
        Some(match self {
            Cause::Elements(DType::Str) => "map text to numbers outside of the model",
            Cause::Elements(_) | Cause::Windows(_) => "cast to a float type in front of it",
            Cause::Container(_) => {
                "give all elements one type and rank; in the place of an optional, an array and a flag"
            }
            Cause::Rank(_) => {
                "declare the rank (value_info), or export with example inputs of this rank"
            }
            Cause::Branches => "reshape the results of all branches to one rank",
            Cause::Size | Cause::Unstated => {
                "compute the size from shapes, or bound it by a Min with a constant"
            }
            Cause::Unbound(_) => "name the size in the shape of an input",
            Cause::SizeCount => "give the array of sizes a constant length",
            Cause::TupleLength => "declare the last size of the indices",
            Cause::Pads => "compute the widths from shapes",
            Cause::Growth | Cause::Carried => {
                "state a bound: a trip count, or an array of full size that is written in place"
            }
            Cause::Recursion(_) => "pad the arrays that it is called with to one size",
            Cause::TooLarge => "use smaller sizes",
            Cause::Op(_) | Cause::Form(_) | Cause::Layout(_) => return None,
        })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Op(name) => write!(f, "`{name}` is not compiled yet"),
            Cause::Elements(dtype) => write!(f, "{dtype} is not compiled yet"),
            Cause::Windows(dtype) => write!(f, "windows of {dtype}"),
            Cause::Container(verb) => write!(f, "{verb} a sequence or optional"),
            Cause::Rank(verb) => write!(f, "{verb} an array of unknown rank"),
            Cause::Branches => f.write_str("gives arrays of different rank"),
            Cause::Size => f.write_str("a size is known only while it runs"),
            Cause::Unbound(name) => write!(f, "the size {name} is no input's"),
            Cause::Unstated => f.write_str("it has a size that no array states"),
            Cause::SizeCount => f.write_str("sizes whose number is known only while it runs"),
            Cause::TupleLength => f.write_str("index tuples of unknown length"),
            Cause::Pads => f.write_str("pads that are computed from data"),
            Cause::Growth => f.write_str("a size is known only while it runs, and has no bound"),
            Cause::Carried => f.write_str("carries an array whose size changes"),
            Cause::TooLarge => f.write_str("an array of more elements than any memory holds"),
            Cause::Recursion(what) | Cause::Form(what) => f.write_str(what),
            Cause::Layout(what) => f.write_str(what),
        }
    }
}
