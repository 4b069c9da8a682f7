//! From an op to its attributes.

use super::super::element;
use super::Attr;
use crate::op::{Distribution, PadMode, ScaleRounding, ScatterReduce, StrOp};
use crate::{DType, Op};

/// The attributes of an op that is neither a constant nor control flow, in the order in which they
/// are written.
pub(in crate::text) fn attributes(op: &Op) -> Vec<(&'static str, Attr)> {
    let mut out = Vec::new();
    let mut put = |key, attr: Option<Attr>| out.extend(attr.map(|a| (key, a)));
    match op {
        Op::Random { dist, dtype, seed } => {
            match dist {
                Distribution::Uniform { low, high } => {
                    put("low", Some(float(*low)));
                    put("high", Some(float(*high)));
                }
                Distribution::Normal { mean, scale } => {
                    put("mean", Some(float(*mean)));
                    put("scale", Some(float(*scale)));
                }
                Distribution::Bernoulli => {}
            }
            put("dtype", Some(word(dtype.name())));
            put("seed", seed.map(number));
        }
        Op::Cast {
            to,
            saturate,
            round,
        } => {
            put("to", Some(word(to.name())));
            put("saturate", (!saturate).then(|| word("false")));
            put(
                "round",
                unless(*round, ScaleRounding::Up).map(|r| word(r.name())),
            );
        }
        Op::Bitcast { to } => put("to", Some(word(to.name()))),
        Op::Transpose { perm } => put("perm", Some(ints(perm))),
        Op::Unsqueeze { axes } | Op::Squeeze { axes } | Op::Slice { axes } => {
            put("axes", Some(ints(axes)));
        }
        Op::Concat { axis } | Op::Gather { axis } | Op::GatherElements { axis } => {
            put("axis", Some(number(*axis as u64)));
        }
        Op::Pad { mode } => put(
            "mode",
            unless(*mode, PadMode::Constant).map(|m| word(m.name())),
        ),
        Op::GatherNd { batch_dims } => {
            put(
                "batch_dims",
                unless(*batch_dims, 0).map(|n| number(n as u64)),
            );
        }
        Op::ScatterElements { axis, reduce } => {
            put("axis", Some(number(*axis as u64)));
            put(
                "reduce",
                unless(*reduce, ScatterReduce::Set).map(|r| word(r.name())),
            );
        }
        Op::ScatterNd { reduce } => {
            put(
                "reduce",
                unless(*reduce, ScatterReduce::Set).map(|r| word(r.name())),
            );
        }
        Op::Reduce { kind, axes, keep } => {
            put("kind", Some(word(kind.name())));
            put("axes", Some(ints(axes)));
            put("keep", flag(*keep));
        }
        Op::ArgReduce {
            kind,
            axis,
            keep,
            last,
        } => {
            put("kind", Some(word(kind.name())));
            put("axis", Some(number(*axis as u64)));
            put("keep", flag(*keep));
            put("last", flag(*last));
        }
        Op::Cumulative {
            kind,
            axis,
            exclusive,
            reverse,
        } => {
            put("kind", Some(word(kind.name())));
            put("axis", Some(number(*axis as u64)));
            put("exclusive", flag(*exclusive));
            put("reverse", flag(*reverse));
        }
        Op::TopK { axis, kind } => {
            put("kind", Some(word(kind.name())));
            put("axis", Some(number(*axis as u64)));
        }
        Op::Unique { axis, sorted } => {
            put("axis", axis.map(|a| number(a as u64)));
            put("sorted", (!sorted).then(|| word("false")));
        }
        Op::Conv {
            strides,
            dilations,
            input_dilations,
            groups,
        } => {
            put("strides", Some(ints(strides)));
            put("dilations", unless_ones(dilations, strides.len()));
            put(
                "input_dilations",
                unless_ones(input_dilations, strides.len()),
            );
            put("groups", unless(*groups, 1).map(|g| number(g as u64)));
        }
        Op::Window {
            kind,
            window,
            strides,
            dilations,
        } => {
            put("kind", Some(word(kind.name())));
            put("window", Some(ints(window)));
            put("strides", unless_ones(strides, window.len()));
            put("dilations", unless_ones(dilations, window.len()));
        }
        Op::SeqNew { elem } | Op::OptNone { elem } => put("elem", Some(Attr::Type(elem.clone()))),
        Op::SeqConcat { axis, stack } => {
            put("axis", Some(number(*axis as u64)));
            put("stack", flag(*stack));
        }
        Op::SeqSplit { axis, squeeze } => {
            put("axis", Some(number(*axis as u64)));
            put("squeeze", flag(*squeeze));
        }
        Op::Str(StrOp::Split {
            delimiter,
            max_splits,
        }) => {
            put(
                "delimiter",
                delimiter.as_ref().map(|d| Attr::Str(d.to_string())),
            );
            put("max_splits", max_splits.map(number));
        }
        Op::Str(StrOp::FullMatch { pattern }) => {
            put("pattern", Some(Attr::Str(pattern.to_string())))
        }
        Op::Str(StrOp::Normalize {
            case,
            case_sensitive,
            stopwords,
        }) => {
            put("case", case.map(|c| word(c.name())));
            put("case_sensitive", (!case_sensitive).then(|| word("false")));
            let words = stopwords.iter().map(|s| s.to_string()).collect();
            put(
                "stopwords",
                (!stopwords.is_empty()).then_some(Attr::Strs(words)),
            );
        }
        Op::Const(_) | Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select => {}
        Op::Shape | Op::Reshape | Op::Broadcast | Op::UpdateSlice | Op::Range | Op::NonZero => {}
        Op::Dot | Op::SeqInsert | Op::SeqErase | Op::SeqAt | Op::SeqLen => {}
        Op::OptSome | Op::OptHas | Op::OptGet | Op::Str(StrOp::Concat) => {}
        Op::If | Op::Loop { .. } | Op::Call(_) => {}
    }
    out
}

fn number(v: u64) -> Attr {
    Attr::Number(v.to_string())
}

fn float(v: f64) -> Attr {
    let mut text = String::new();
    element::write(&mut text, DType::F64, v.to_bits().into());
    Attr::Number(text)
}

fn word(w: &str) -> Attr {
    Attr::Word(w.into())
}

fn flag(v: bool) -> Option<Attr> {
    v.then(|| word("true"))
}

fn ints(v: &[usize]) -> Attr {
    Attr::Ints(v.iter().map(|&n| n as u64).collect())
}

fn unless<T: PartialEq>(v: T, default: T) -> Option<T> {
    (v != default).then_some(v)
}

/// The list, unless it is as many ones as the default has.
fn unless_ones(v: &[usize], len: usize) -> Option<Attr> {
    (v.len() != len || v.iter().any(|&n| n != 1)).then(|| ints(v))
}
