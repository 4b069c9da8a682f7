//! Operations on text.

use std::sync::Arc;

use heddle_ir::DType;
use heddle_ir::op::{Case, StrOp};
use regex::Regex;

use super::movement::broadcast_to;
use super::walk::broadcast_shape;
use crate::context::{Context, count};
use crate::error::Fault;
use crate::value::{Array, Val};

/// Evaluates an op on text.
pub fn eval(cx: &Context, op: &StrOp, args: &[Val]) -> Result<Vec<Val>, Fault> {
    let x = args[0].tensor()?;
    match op {
        StrOp::Concat => Ok(vec![concat(cx, x, args[1].tensor()?)?.into()]),
        StrOp::Split {
            delimiter,
            max_splits,
        } => {
            let delimiter = delimiter.as_deref().filter(|d| !d.is_empty());
            let [pieces, counts] = split(cx, x, delimiter, *max_splits)?;
            Ok(vec![pieces.into(), counts.into()])
        }
        StrOp::FullMatch { pattern } => Ok(vec![full_match(cx, x, pattern)?.into()]),
        StrOp::Normalize {
            case,
            case_sensitive,
            stopwords,
        } => Ok(vec![
            normalize(cx, x, *case, *case_sensitive, stopwords)?.into(),
        ]),
    }
}

fn concat(cx: &Context, a: &Array, b: &Array) -> Result<Array, Fault> {
    let shape = broadcast_shape(&[&a.shape, &b.shape])?;
    let [x, y] = [broadcast_to(cx, a, &shape)?, broadcast_to(cx, b, &shape)?];
    let mut out: Vec<Arc<str>> = cx.vec(count(&shape)?)?;
    // Text counts as it is joined, so that no single join is too large.
    let mut lease = cx.claim(0)?;
    for (x, y) in x.data::<Arc<str>>()?.iter().zip(y.data::<Arc<str>>()?) {
        let len = x.len() + y.len();
        cx.tick(1 + len / 16)?;
        cx.extend(&mut lease, 2 * len as u64)?;
        out.push([&**x, &**y].concat().into());
    }
    drop(lease);
    cx.array(DType::Str, shape, out)
}

fn split(
    cx: &Context,
    x: &Array,
    delimiter: Option<&str>,
    max_splits: Option<u64>,
) -> Result<[Array; 2], Fault> {
    let strings = x.data::<Arc<str>>()?;
    let max = max_splits.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let mut lists: Vec<Vec<&str>> = cx.vec(strings.len())?;
    let mut lease = cx.claim(0)?;
    for s in strings {
        cx.tick(s.len())?;
        let pieces: Vec<&str> = match delimiter {
            Some(d) => s.splitn(max.saturating_add(1), d).collect(),
            None => words(s, max),
        };
        cx.extend(&mut lease, (pieces.capacity() * size_of::<&str>()) as u64)?;
        lists.push(pieces);
    }
    let width = lists.iter().map(Vec::len).max().unwrap_or(0);
    let counts: Vec<i64> = lists.iter().map(|l| l.len() as i64).collect();
    let shape = [&x.shape[..], &[width]].concat();
    let mut out: Vec<Arc<str>> = cx.vec(count(&shape)?)?;
    let none: Arc<str> = "".into();
    for list in lists {
        let missing = width - list.len();
        out.extend(list.into_iter().map(Arc::from));
        out.extend(std::iter::repeat_n(none.clone(), missing));
    }
    Ok([
        cx.array(DType::Str, shape, out)?,
        cx.array(DType::I64, x.shape.clone(), counts)?,
    ])
}

/// Python's `split` at white space: after `max` cuts, the last piece keeps its trailing white
/// space.
fn words(s: &str, max: usize) -> Vec<&str> {
    let (mut pieces, mut rest) = (vec![], s.trim_start());
    while !rest.is_empty() {
        match rest.find(char::is_whitespace) {
            Some(end) if pieces.len() < max => {
                pieces.push(&rest[..end]);
                rest = rest[end..].trim_start();
            }
            _ => {
                pieces.push(rest);
                rest = "";
            }
        }
    }
    pieces
}

fn full_match(cx: &Context, x: &Array, pattern: &str) -> Result<Array, Fault> {
    let fault =
        |e: regex::Error| Fault::Value(format!("the pattern `{pattern}` is not valid: {e}"));
    let translated = from_re2(pattern);
    // The pattern must be valid on its own.
    Regex::new(&translated).map_err(fault)?;
    let regex = Regex::new(&format!(r"\A(?:{translated})\z")).map_err(fault)?;
    let strings = x.data::<Arc<str>>()?;
    let mut out = cx.vec(strings.len())?;
    for s in strings {
        cx.tick(16 * s.len())?;
        out.push(regex.is_match(s));
    }
    cx.array(DType::Bool, x.shape.clone(), out)
}

/// Translates a pattern from RE2's syntax to that of the regex crate. In RE2, `\d`, `\s`, `\w` and
/// `\b` are ASCII, and character classes do not nest and have no operators.
fn from_re2(pattern: &str) -> String {
    let mut out = String::new();
    let mut rest = pattern;
    let mut class = false;
    while let Some(c) = rest.chars().next() {
        let len = match c {
            '\\' => {
                let escaped = rest[1..].chars().next();
                match escaped {
                    Some('d') => out.push_str("[0-9]"),
                    Some('D') => out.push_str("[^0-9]"),
                    Some('s') => out.push_str(r"[\t\n\f\r ]"),
                    Some('S') => out.push_str(r"[^\t\n\f\r ]"),
                    Some('w') => out.push_str("[0-9A-Za-z_]"),
                    Some('W') => out.push_str("[^0-9A-Za-z_]"),
                    Some('b') => out.push_str(r"(?-u:\b)"),
                    _ => out.push_str(&rest[..1 + escaped.map_or(0, char::len_utf8)]),
                }
                1 + escaped.map_or(0, char::len_utf8)
            }
            '[' if class && rest.starts_with("[:") && rest.contains(":]") => {
                let end = rest.find(":]").map_or(rest.len(), |i| i + 2);
                out.push_str(&rest[..end]);
                end
            }
            '[' if !class => {
                class = true;
                // A bracket that comes first belongs to the class.
                let negated = rest.starts_with("[^");
                let head = 1 + negated as usize;
                out.push_str(&rest[..head]);
                if rest[head..].starts_with(']') {
                    out.push_str(r"\]");
                    head + 1
                } else {
                    head
                }
            }
            ']' if class => {
                class = false;
                out.push(c);
                1
            }
            '[' | '&' | '~' if class => {
                out.push('\\');
                out.push(c);
                1
            }
            _ => {
                out.push(c);
                c.len_utf8()
            }
        };
        rest = &rest[len..];
    }
    out
}

fn normalize(
    cx: &Context,
    x: &Array,
    case: Option<Case>,
    case_sensitive: bool,
    stopwords: &[Box<str>],
) -> Result<Array, Fault> {
    if !(x.shape.len() == 1 || x.shape.len() == 2 && x.shape[0] == 1) {
        return Err(Fault::Shape(format!(
            "takes a shape [c] or [1, c], not {:?}",
            x.shape
        )));
    }
    let plain = |s: &str| match case_sensitive {
        true => s.to_string(),
        false => s.to_lowercase(),
    };
    let stop: std::collections::HashSet<String> = stopwords.iter().map(|s| plain(s)).collect();
    let strings = x.data::<Arc<str>>()?;
    let mut out: Vec<Arc<str>> = cx.vec(strings.len().max(1))?;
    for s in strings {
        cx.tick(4 * s.len())?;
        if stop.contains(&plain(s)) {
            continue;
        }
        out.push(match case {
            Some(Case::Lower) => s.to_lowercase().into(),
            Some(Case::Upper) => s.to_uppercase().into(),
            None => s.clone(),
        });
    }
    if out.is_empty() {
        out.push("".into());
    }
    let mut shape = x.shape.clone();
    *shape.last_mut().expect("one or two axes") = out.len();
    cx.array(DType::Str, shape, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_as_python_splits_them() {
        assert_eq!(words("  a  b c ", 9), ["a", "b", "c"]);
        assert_eq!(words(" a  b c ", 1), ["a", "b c "]);
        assert_eq!(words(" ab", 0), ["ab"]);
        assert!(words("  ", 9).is_empty());
    }

    #[test]
    fn re2_syntax() {
        let matches = |p: &str, s: &str| {
            let p = from_re2(p);
            Regex::new(&format!(r"\A(?:{p})\z")).unwrap().is_match(s)
        };
        assert!(matches(r"\d+", "123") && !matches(r"\d+", "\u{0663}"));
        assert!(matches(r"[[a]+", "[a[") && matches(r"[&&]+", "&") && matches(r"[]a]", "]"));
        assert!(matches(r"[[:alpha:]\d]+", "a1") && matches(r"[^\w]", "-"));
        assert!(matches("a|bc", "bc") && !matches("a|bc", "ac"));
    }
}
