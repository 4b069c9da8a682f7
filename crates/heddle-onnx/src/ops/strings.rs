//! Operators on text.

use std::sync::Arc;

use heddle_ir::op::{Case, StrOp};
use heddle_ir::{Emit, Op, Value};

use super::cx::{NodeCx, OpError, Result, Table};

pub(super) const OPS: Table = &[
    ("StringConcat", concat),
    ("StringSplit", split),
    ("RegexFullMatch", full_match),
    ("StringNormalizer", normalize),
];

fn concat(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (a, b) = (cx.input(0)?, cx.input(1)?);
    Ok(vec![cx.op(Op::Str(StrOp::Concat), &[a, b])?])
}

/// Without a delimiter, or with an empty one, pieces lie between runs of white space.
fn split(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let delimiter = cx.str("delimiter")?.filter(|d| !d.is_empty());
    let max_splits = match cx.int("maxsplit") {
        None => None,
        Some(n) => Some(
            u64::try_from(n)
                .map_err(|_| OpError::Invalid(format!("maxsplit is {n}, which is negative")))?,
        ),
    };
    let op = StrOp::Split {
        delimiter: delimiter.map(Arc::from),
        max_splits,
    };
    Ok(cx.b.op(Op::Str(op), &[x])?)
}

fn full_match(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let pattern = cx.str_or("pattern", "")?.into();
    Ok(vec![cx.op(Op::Str(StrOp::FullMatch { pattern }), &[x])?])
}

/// Case is changed as Unicode does, whatever the locale.
fn normalize(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let case = cx.choice(
        "case_change_action",
        "NONE",
        &[
            ("NONE", None),
            ("LOWER", Some(Case::Lower)),
            ("UPPER", Some(Case::Upper)),
        ],
    )?;
    let stopwords = cx.strs("stopwords")?.unwrap_or_default();
    let op = StrOp::Normalize {
        case,
        case_sensitive: cx.flag("is_case_sensitive", false),
        stopwords: stopwords.into_iter().map(Box::from).collect(),
    };
    Ok(vec![cx.op(Op::Str(op), &[x])?])
}
