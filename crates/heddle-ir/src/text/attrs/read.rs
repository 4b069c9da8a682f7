//! From a name and attributes to an op.

use std::sync::Arc;

use super::super::element::{self, Written};
use super::Attr;
use crate::op::{
    BinaryOp, Case, CompareOp, Distribution, Extreme, PadMode, ReduceOp, ScaleRounding,
    ScatterReduce, StrOp, UnaryOp,
};
use crate::{DType, Op, Type};

/// Attributes as they are read, taken out one by one.
#[derive(Default)]
pub(in crate::text) struct Attrs {
    pub(in crate::text) given: Vec<(String, Attr)>,
    /// Those that the op asked for.
    pub(in crate::text) known: Vec<&'static str>,
}

/// The op of this name, with its attributes taken from `attrs`; `elem` is the type of the first
/// operand. `None` when there is no such op. The error is a message.
pub(in crate::text) fn op(
    name: &str,
    a: &mut Attrs,
    elem: Option<&Type>,
) -> Option<Result<Op, String>> {
    if let Some(kind) = UnaryOp::from_name(name) {
        return Some(Ok(Op::Unary(kind)));
    }
    if let Some(kind) = BinaryOp::from_name(name) {
        return Some(Ok(Op::Binary(kind)));
    }
    if let Some(kind) = CompareOp::from_name(name) {
        return Some(Ok(Op::Compare(kind)));
    }
    if !NAMES.contains(&name) {
        return None;
    }
    Some(with_attributes(name, a, elem))
}

/// The names of all ops that are followed by operands in parentheses.
pub(in crate::text) fn names() -> impl Iterator<Item = &'static str> {
    let elementwise = UnaryOp::ALL.iter().map(|o| o.name());
    let elementwise = elementwise.chain(BinaryOp::ALL.iter().map(|o| o.name()));
    let elementwise = elementwise.chain(CompareOp::ALL.iter().map(|o| o.name()));
    elementwise.chain(NAMES)
}

#[rustfmt::skip]
const NAMES: [&str; 46] = [
    "random_uniform", "random_normal", "random_bernoulli", "select", "cast", "bitcast", "shape",
    "reshape", "transpose", "unsqueeze", "squeeze", "broadcast", "slice", "concat", "pad",
    "gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd", "update_slice",
    "range", "nonzero", "reduce", "arg_reduce", "cumulative", "top_k", "unique", "dot", "conv",
    "window", "seq_new", "seq_insert", "seq_erase", "seq_at", "seq_len", "seq_concat", "seq_split",
    "opt_some", "opt_none", "opt_has", "opt_get", "str_concat", "str_split", "str_full_match",
    "str_normalize",
];

fn with_attributes(name: &str, a: &mut Attrs, elem: Option<&Type>) -> Result<Op, String> {
    let random = |a: &mut Attrs, dist| {
        Ok(Op::Random {
            dist,
            dtype: a.dtype("dtype")?,
            seed: a.take("seed").map(|v| to_u64(v, "seed")).transpose()?,
        })
    };
    Ok(match name {
        "random_uniform" => {
            let (low, high) = (a.float("low", 0.0)?, a.float("high", 1.0)?);
            return random(a, Distribution::Uniform { low, high });
        }
        "random_normal" => {
            let (mean, scale) = (a.float("mean", 0.0)?, a.float("scale", 1.0)?);
            return random(a, Distribution::Normal { mean, scale });
        }
        "random_bernoulli" => return random(a, Distribution::Bernoulli),
        "select" => Op::Select,
        "cast" => Op::Cast {
            to: a.dtype("to")?,
            saturate: a.flag("saturate", true)?,
            round: a.variant("round", ScaleRounding::from_name, Some(ScaleRounding::Up))?,
        },
        "bitcast" => Op::Bitcast { to: a.dtype("to")? },
        "shape" => Op::Shape,
        "reshape" => Op::Reshape,
        "transpose" => Op::Transpose {
            perm: a.sizes("perm", None)?,
        },
        "unsqueeze" => Op::Unsqueeze {
            axes: a.sizes("axes", None)?,
        },
        "squeeze" => Op::Squeeze {
            axes: a.sizes("axes", None)?,
        },
        "broadcast" => Op::Broadcast,
        "slice" => Op::Slice {
            axes: a.sizes("axes", None)?,
        },
        "concat" => Op::Concat {
            axis: a.size("axis", None)?,
        },
        "pad" => Op::Pad {
            mode: a.variant("mode", PadMode::from_name, Some(PadMode::Constant))?,
        },
        "gather" => Op::Gather {
            axis: a.size("axis", None)?,
        },
        "gather_elements" => Op::GatherElements {
            axis: a.size("axis", None)?,
        },
        "gather_nd" => Op::GatherNd {
            batch_dims: a.size("batch_dims", Some(0))?,
        },
        "scatter_elements" => Op::ScatterElements {
            axis: a.size("axis", None)?,
            reduce: a.variant("reduce", ScatterReduce::from_name, Some(ScatterReduce::Set))?,
        },
        "scatter_nd" => Op::ScatterNd {
            reduce: a.variant("reduce", ScatterReduce::from_name, Some(ScatterReduce::Set))?,
        },
        "update_slice" => Op::UpdateSlice,
        "range" => Op::Range,
        "nonzero" => Op::NonZero,
        "reduce" => Op::Reduce {
            kind: a.variant("kind", ReduceOp::from_name, None)?,
            axes: a.sizes("axes", None)?,
            keep: a.flag("keep", false)?,
        },
        "arg_reduce" => Op::ArgReduce {
            kind: a.variant("kind", Extreme::from_name, None)?,
            axis: a.size("axis", None)?,
            keep: a.flag("keep", false)?,
            last: a.flag("last", false)?,
        },
        "cumulative" => Op::Cumulative {
            kind: a.variant("kind", ReduceOp::from_name, None)?,
            axis: a.size("axis", None)?,
            exclusive: a.flag("exclusive", false)?,
            reverse: a.flag("reverse", false)?,
        },
        "top_k" => Op::TopK {
            kind: a.variant("kind", Extreme::from_name, Some(Extreme::Max))?,
            axis: a.size("axis", None)?,
        },
        "unique" => Op::Unique {
            axis: a.take("axis").map(|v| to_size(v, "axis")).transpose()?,
            sorted: a.flag("sorted", true)?,
        },
        "dot" => Op::Dot,
        "conv" => {
            let strides = a.sizes("strides", None)?;
            let ones = || Some(vec![1; strides.len()]);
            Op::Conv {
                dilations: a.sizes("dilations", ones())?,
                input_dilations: a.sizes("input_dilations", ones())?,
                groups: a.size("groups", Some(1))?,
                strides,
            }
        }
        "window" => {
            let window = a.sizes("window", None)?;
            let ones = || Some(vec![1; window.len()]);
            Op::Window {
                kind: a.variant("kind", ReduceOp::from_name, None)?,
                strides: a.sizes("strides", ones())?,
                dilations: a.sizes("dilations", ones())?,
                window,
            }
        }
        "seq_new" => Op::SeqNew {
            elem: a.elem(elem)?,
        },
        "seq_insert" => Op::SeqInsert,
        "seq_erase" => Op::SeqErase,
        "seq_at" => Op::SeqAt,
        "seq_len" => Op::SeqLen,
        "seq_concat" => Op::SeqConcat {
            axis: a.size("axis", None)?,
            stack: a.flag("stack", false)?,
        },
        "seq_split" => Op::SeqSplit {
            axis: a.size("axis", None)?,
            squeeze: a.flag("squeeze", false)?,
        },
        "opt_some" => Op::OptSome,
        "opt_none" => Op::OptNone {
            elem: a.elem(None)?,
        },
        "opt_has" => Op::OptHas,
        "opt_get" => Op::OptGet,
        "str_concat" => Op::Str(StrOp::Concat),
        "str_split" => Op::Str(StrOp::Split {
            delimiter: a.string("delimiter")?,
            max_splits: a
                .take("max_splits")
                .map(|v| to_u64(v, "max_splits"))
                .transpose()?,
        }),
        "str_full_match" => Op::Str(StrOp::FullMatch {
            pattern: a
                .string("pattern")?
                .ok_or("needs the attribute `pattern`")?,
        }),
        _ => Op::Str(StrOp::Normalize {
            case: match a.take("case") {
                Some(v) => Some(to_variant(v, "case", Case::from_name)?),
                None => None,
            },
            case_sensitive: a.flag("case_sensitive", true)?,
            stopwords: match a.take("stopwords") {
                None => Arc::new([]),
                Some(Attr::Strs(words)) => words.into_iter().map(String::into_boxed_str).collect(),
                Some(Attr::Ints(none)) if none.is_empty() => Arc::new([]),
                Some(_) => return Err("`stopwords` must be a list of strings".into()),
            },
        }),
    })
}

impl Attrs {
    fn take(&mut self, key: &'static str) -> Option<Attr> {
        self.known.push(key);
        let at = self.given.iter().position(|(k, _)| k == key)?;
        Some(self.given.remove(at).1)
    }

    fn need(&mut self, key: &'static str) -> Result<Attr, String> {
        self.take(key)
            .ok_or_else(|| format!("needs the attribute `{key}`"))
    }

    fn size(&mut self, key: &'static str, default: Option<usize>) -> Result<usize, String> {
        match default {
            Some(default) => self.take(key).map_or(Ok(default), |v| to_size(v, key)),
            None => to_size(self.need(key)?, key),
        }
    }

    fn sizes(
        &mut self,
        key: &'static str,
        default: Option<Vec<usize>>,
    ) -> Result<Vec<usize>, String> {
        let attr = match default {
            Some(default) => match self.take(key) {
                Some(attr) => attr,
                None => return Ok(default),
            },
            None => self.need(key)?,
        };
        let error = || format!("`{key}` must be a list of sizes or axes, such as [0, 1]");
        match attr {
            Attr::Ints(v) => v
                .into_iter()
                .map(|n| usize::try_from(n).map_err(|_| error()))
                .collect(),
            _ => Err(error()),
        }
    }

    fn flag(&mut self, key: &'static str, default: bool) -> Result<bool, String> {
        match self.take(key) {
            None => Ok(default),
            Some(Attr::Word(w)) if w == "true" => Ok(true),
            Some(Attr::Word(w)) if w == "false" => Ok(false),
            Some(_) => Err(format!("`{key}` must be true or false")),
        }
    }

    fn variant<T: Copy>(
        &mut self,
        key: &'static str,
        from: fn(&str) -> Option<T>,
        default: Option<T>,
    ) -> Result<T, String> {
        match (self.take(key), default) {
            (None, Some(default)) => Ok(default),
            (None, None) => Err(format!("needs the attribute `{key}`")),
            (Some(attr), _) => to_variant(attr, key, from),
        }
    }

    fn dtype(&mut self, key: &'static str) -> Result<DType, String> {
        to_variant(self.need(key)?, key, |s| s.parse().ok())
    }

    fn float(&mut self, key: &'static str, default: f64) -> Result<f64, String> {
        let Some(attr) = self.take(key) else {
            return Ok(default);
        };
        let (Attr::Number(text) | Attr::Word(text)) = attr else {
            return Err(format!("`{key}` must be a number"));
        };
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.as_str()),
        };
        let written = Written { negative, text };
        element::parse(DType::F64, written).map(|bits| f64::from_bits(bits as u64))
    }

    fn string(&mut self, key: &'static str) -> Result<Option<Arc<str>>, String> {
        match self.take(key) {
            None => Ok(None),
            Some(Attr::Str(s)) => Ok(Some(s.into())),
            Some(_) => Err(format!("`{key}` must be a string")),
        }
    }

    fn elem(&mut self, default: Option<&Type>) -> Result<Type, String> {
        match (self.take("elem"), default) {
            (Some(Attr::Type(t)), _) => Ok(t),
            (Some(_), _) => Err("`elem` must be a type, such as f32[n]".into()),
            (None, Some(t)) => Ok(t.clone()),
            (None, None) => Err("needs the attribute `elem`".into()),
        }
    }
}

fn to_u64(attr: Attr, key: &str) -> Result<u64, String> {
    match &attr {
        Attr::Number(text) => text.parse().ok(),
        _ => None,
    }
    .ok_or_else(|| format!("`{key}` must be an integer that is not negative"))
}

fn to_size(attr: Attr, key: &str) -> Result<usize, String> {
    let value = to_u64(attr, key)?;
    usize::try_from(value).map_err(|_| format!("`{key}` is too large"))
}

fn to_variant<T>(attr: Attr, key: &str, from: fn(&str) -> Option<T>) -> Result<T, String> {
    let found = match &attr {
        Attr::Word(w) => from(w),
        _ => None,
    };
    found.ok_or_else(|| match attr {
        Attr::Word(w) => format!("`{w}` is no value of `{key}`"),
        _ => format!("`{key}` must be a word"),
    })
}
