//! The attributes of each op, with their keys and defaults, in the order in which they are written.

use std::sync::Arc;

use super::value::AttrValue;
use crate::Op;
use crate::op::{Extreme, PadMode, ScaleRounding, ScatterReduce, StrOp};

/// Rules for an attribute that is not given.
pub(super) enum Field<T> {
    /// It must be given.
    Needed,
    /// It has this value, and is not written when it has.
    Default(T),
    /// It has this value, but is always written.
    Stated(T),
    /// It is the first operand's type; always written.
    FirstOperand,
}

/// Reads or writes attributes one by one.
pub(super) trait Visitor {
    fn field<T: AttrValue>(
        &mut self,
        key: &'static str,
        value: &mut T,
        field: Field<T>,
    ) -> Result<(), String>;
}

/// Visits all attributes of an op.
pub(super) fn visit(op: &mut Op, v: &mut impl Visitor) -> Result<(), String> {
    use Field::{Default, FirstOperand, Needed};
    match op {
        Op::Cast {
            to,
            saturate,
            round,
        } => {
            v.field("to", to, Needed)?;
            v.field("saturate", saturate, Default(true))?;
            v.field("round", round, Default(ScaleRounding::Up))
        }
        Op::Fail { message } => v.field("message", message, Needed),
        Op::Bitcast { to } => v.field("to", to, Needed),
        Op::Transpose { perm } => v.field("perm", perm, Needed),
        Op::Unsqueeze { axes } | Op::Squeeze { axes } | Op::Slice { axes } => {
            v.field("axes", axes, Needed)
        }
        Op::Concat { axis } | Op::Gather { axis } | Op::GatherElements { axis } => {
            v.field("axis", axis, Needed)
        }
        Op::Pad { mode } => v.field("mode", mode, Default(PadMode::Constant)),
        Op::GatherNd { batch_dims } => v.field("batch_dims", batch_dims, Default(0)),
        Op::ScatterElements { axis, reduce } => {
            v.field("axis", axis, Needed)?;
            v.field("reduce", reduce, Default(ScatterReduce::Set))
        }
        Op::ScatterNd { reduce } => v.field("reduce", reduce, Default(ScatterReduce::Set)),
        Op::SeqNew { elem } => v.field("elem", elem, FirstOperand),
        Op::OptNone { elem } => v.field("elem", elem, Needed),
        Op::SeqConcat { axis, stack } => {
            v.field("axis", axis, Needed)?;
            v.field("stack", stack, Default(false))
        }
        Op::SeqSplit { axis, squeeze } => {
            v.field("axis", axis, Needed)?;
            v.field("squeeze", squeeze, Default(false))
        }
        Op::Str(kind) => text(kind, v),
        op => reduction(op, v),
    }
}

/// Reductions, order and windows; all other ops have no attributes.
fn reduction(op: &mut Op, v: &mut impl Visitor) -> Result<(), String> {
    use Field::{Default, Needed, Stated};
    match op {
        Op::Reduce { kind, axes, keep } => {
            v.field("kind", kind, Needed)?;
            v.field("axes", axes, Needed)?;
            v.field("keep", keep, Default(false))
        }
        Op::ArgReduce {
            kind,
            axis,
            keep,
            last,
        } => {
            v.field("kind", kind, Needed)?;
            v.field("axis", axis, Needed)?;
            v.field("keep", keep, Default(false))?;
            v.field("last", last, Default(false))
        }
        Op::Cumulative {
            kind,
            axis,
            exclusive,
            reverse,
        } => {
            v.field("kind", kind, Needed)?;
            v.field("axis", axis, Needed)?;
            v.field("exclusive", exclusive, Default(false))?;
            v.field("reverse", reverse, Default(false))
        }
        Op::SegmentReduce { kind } => v.field("kind", kind, Needed),
        Op::TopK { axis, kind } => {
            v.field("kind", kind, Stated(Extreme::Max))?;
            v.field("axis", axis, Needed)
        }
        Op::Unique { axis, sorted } => {
            v.field("axis", axis, Default(None))?;
            v.field("sorted", sorted, Default(true))
        }
        Op::Conv {
            strides,
            dilations,
            input_dilations,
            groups,
        } => {
            v.field("strides", strides, Needed)?;
            let ones = vec![1; strides.len()];
            v.field("dilations", dilations, Default(ones.clone()))?;
            v.field("input_dilations", input_dilations, Default(ones))?;
            v.field("groups", groups, Default(1))
        }
        Op::Window {
            kind,
            window,
            strides,
            dilations,
        } => {
            v.field("kind", kind, Needed)?;
            v.field("window", window, Needed)?;
            let ones = vec![1; window.len()];
            v.field("strides", strides, Default(ones.clone()))?;
            v.field("dilations", dilations, Default(ones))
        }
        _ => Ok(()),
    }
}

fn text(kind: &mut StrOp, v: &mut impl Visitor) -> Result<(), String> {
    use Field::{Default, Needed};
    match kind {
        StrOp::Concat => Ok(()),
        StrOp::Split {
            delimiter,
            max_splits,
        } => {
            v.field("delimiter", delimiter, Default(None))?;
            v.field("max_splits", max_splits, Default(None))
        }
        StrOp::FullMatch { pattern } => v.field("pattern", pattern, Needed),
        StrOp::Normalize {
            case,
            case_sensitive,
            stopwords,
        } => {
            v.field("case", case, Default(None))?;
            v.field("case_sensitive", case_sensitive, Default(true))?;
            v.field("stopwords", stopwords, Default(Arc::new([])))
        }
    }
}
