//! Einstein summation: any number of operands, repeated letters, ellipses.
//!
//! Operands are multiplied from left to right. A letter is summed as soon as neither the result nor
//! a later operand has it, by a matrix product if its sizes are known to agree.

use std::collections::BTreeMap;

use heddle_ir::op::ReduceOp;
use heddle_ir::{Dim, Emit, Op, Value};

use super::cx::{NodeCx, OpError, Result, Table, invalid};

pub(super) const OPS: Table = &[("Einsum", einsum)];

/// An axis's name: a letter, or a place counted from the right in the ellipsis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Broadcast(usize),
    Letter(u8),
}

/// A value with a label for each axis, none twice.
#[derive(Clone)]
struct Term {
    value: Value,
    labels: Vec<Label>,
}

fn einsum(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let equation = cx.str("equation")?;
    let equation = equation.ok_or_else(|| OpError::Invalid("the equation is missing".into()))?;
    let equation: String = equation.chars().filter(|c| *c != ' ').collect();
    let inputs = cx.all_inputs()?;
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation.as_str(), None),
    };
    let subscripts: Vec<&str> = left.split(',').collect();
    if subscripts.len() != inputs.len() || inputs.is_empty() {
        return invalid(format!(
            "`{equation}` has {} terms for {} operands",
            subscripts.len(),
            inputs.len()
        ));
    }
    let mut raw = vec![];
    for (&value, text) in inputs.iter().zip(&subscripts) {
        let labels = parse(text, cx.rank(value)?)?;
        raw.push(Term { value, labels });
    }
    let output = match right {
        Some(text) => output_labels(text, &raw)?,
        None => implicit_output(&raw),
    };
    let mut terms = vec![];
    for term in raw {
        terms.push(diagonal(cx, term)?);
    }
    let mut terms = terms.into_iter();
    let mut product = terms.next().expect("there is an operand");
    while let Some(next) = terms.next() {
        let needed: Vec<Label> = terms
            .as_slice()
            .iter()
            .flat_map(|t| t.labels.clone())
            .chain(output.iter().copied())
            .collect();
        product = multiply(cx, product, next, &needed)?;
    }
    let product = sum_out(cx, product, |l| output.contains(&l))?;
    let place = |label: &Label| {
        let place = product.labels.iter().position(|l| l == label);
        place.ok_or_else(|| {
            OpError::Invalid(format!("`{equation}` has a letter only in the result"))
        })
    };
    let perm = output.iter().map(place).collect::<Result<Vec<_>>>()?;
    Ok(vec![cx.transpose(product.value, &perm)?])
}

/// The labels of an operand of this rank.
fn parse(text: &str, rank: usize) -> Result<Vec<Label>> {
    let letters = |part: &str| {
        let letter = |c: u8| match c.is_ascii_alphabetic() {
            true => Ok(Label::Letter(c)),
            false => invalid(format!("`{text}` is no einsum term")),
        };
        part.bytes().map(letter).collect::<Result<Vec<_>>>()
    };
    let wrong = || OpError::Invalid(format!("term `{text}` does not fit {rank} axes"));
    match text.split_once("...") {
        None => {
            let labels = letters(text)?;
            (labels.len() == rank).then_some(labels).ok_or_else(wrong)
        }
        Some((before, after)) => {
            let (mut labels, after) = (letters(before)?, letters(after)?);
            let named = labels.len() + after.len();
            let free = rank.checked_sub(named).ok_or_else(wrong)?;
            labels.extend((0..free).rev().map(Label::Broadcast));
            labels.extend(after);
            Ok(labels)
        }
    }
}

/// The axes that ellipses stand for, the leftmost first.
fn broadcast_labels(terms: &[Term]) -> impl Iterator<Item = Label> {
    let labels = terms.iter().flat_map(|t| &t.labels);
    let count = labels.filter_map(|l| match l {
        Label::Broadcast(i) => Some(i + 1),
        Label::Letter(_) => None,
    });
    (0..count.max().unwrap_or(0)).rev().map(Label::Broadcast)
}

fn output_labels(text: &str, terms: &[Term]) -> Result<Vec<Label>> {
    let (before, after) = match text.split_once("...") {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    };
    let mut labels = parse(before, before.len())?;
    if let Some(after) = after {
        labels.extend(broadcast_labels(terms));
        labels.extend(parse(after, after.len())?);
    }
    let mut sorted = labels.clone();
    sorted.sort_unstable();
    if sorted.windows(2).any(|w| w[0] == w[1]) {
        return invalid(format!("`{text}` has a letter twice"));
    }
    Ok(labels)
}

/// Ellipses first, then all letters that occur once, in the order of their codes.
fn implicit_output(terms: &[Term]) -> Vec<Label> {
    let mut counts = BTreeMap::new();
    for label in terms.iter().flat_map(|t| &t.labels) {
        if let Label::Letter(_) = label {
            *counts.entry(*label).or_insert(0) += 1;
        }
    }
    let once = counts.into_iter().filter(|(_, n)| *n == 1).map(|(l, _)| l);
    broadcast_labels(terms).chain(once).collect()
}

/// Takes the diagonal of axes with the same letter until all letters differ.
fn diagonal(cx: &mut NodeCx, mut term: Term) -> Result<Term> {
    loop {
        let labels = &term.labels;
        let twice = (0..labels.len())
            .find_map(|i| Some((i, (i + 1..labels.len()).find(|&j| labels[i] == labels[j])?)));
        let Some((i, j)) = twice else {
            return Ok(term);
        };
        let sizes = cx.shape(term.value)?;
        if sizes[i].differs(&sizes[j]) {
            return invalid(format!(
                "a repeated letter stands for sizes {} and {}",
                sizes[i], sizes[j]
            ));
        }
        let rest = (0..labels.len()).filter(|&a| a != i && a != j);
        let perm: Vec<usize> = [i, j].into_iter().chain(rest).collect();
        let value = cx.transpose(term.value, &perm)?;
        let places = cx.positions(value, 0)?;
        let places = cx.unsqueeze(places, &[1])?;
        let places = cx.concat(&[places, places], 1)?;
        let value = cx.op(Op::GatherNd { batch_dims: 0 }, &[value, places])?;
        let labels = perm.iter().filter(|&&a| a != j).map(|&a| term.labels[a]);
        term = Term {
            labels: labels.collect(),
            value,
        };
    }
}

/// Sums the axes whose labels are not kept.
fn sum_out(cx: &mut NodeCx, term: Term, keep: impl Fn(Label) -> bool) -> Result<Term> {
    let gone: Vec<usize> = (0..term.labels.len())
        .filter(|&i| !keep(term.labels[i]))
        .collect();
    if gone.is_empty() {
        return Ok(term);
    }
    let value = cx.reduce(ReduceOp::Sum, term.value, &gone, false)?;
    let labels = term.labels.into_iter().filter(|l| keep(*l)).collect();
    Ok(Term { value, labels })
}

/// The product of two terms; letters that are not needed any more are summed.
fn multiply(cx: &mut NodeCx, a: Term, b: Term, needed: &[Label]) -> Result<Term> {
    let (in_a, in_b) = (a.labels.clone(), b.labels.clone());
    let a = sum_out(cx, a, |l| needed.contains(&l) || in_b.contains(&l))?;
    let b = sum_out(cx, b, |l| needed.contains(&l) || in_a.contains(&l))?;
    let shared = |l: &&Label| b.labels.contains(l);
    let common: Vec<Label> = a.labels.iter().filter(shared).copied().collect();
    let (batch, summed): (Vec<_>, Vec<_>) = common.iter().partition(|l| needed.contains(l));
    let of_a: Vec<Label> = a.labels.iter().filter(|l| !shared(l)).copied().collect();
    let only_b = |l: &&Label| !a.labels.contains(l);
    let of_b: Vec<Label> = b.labels.iter().filter(only_b).copied().collect();
    let mut agree = true;
    for &label in &summed {
        agree &= size(cx, &a, label)?.equals(&size(cx, &b, label)?);
    }
    if summed.is_empty() || !agree {
        // An axis of size 1 may stand against a longer one, which only an elementwise product
        // allows.
        let all: Vec<Label> = [&batch[..], &summed, &of_a, &of_b].concat();
        let (x, y) = (aligned(cx, &a, &all)?, aligned(cx, &b, &all)?);
        let product = Term {
            value: cx.mul(x, y)?,
            labels: all,
        };
        return sum_out(cx, product, |l| needed.contains(&l));
    }
    let x = matrices(cx, &a, &batch, &of_a, &summed)?;
    let y = matrices(cx, &b, &batch, &summed, &of_b)?;
    let product = cx.op(Op::Dot, &[x, y])?;
    let mut sizes = vec![];
    for axis in 0..batch.len() {
        sizes.push(cx.size_of(product, axis)?);
    }
    for (term, labels) in [(&a, &of_a), (&b, &of_b)] {
        for label in labels {
            sizes.push(cx.size_of(term.value, place(term, *label))?);
        }
    }
    let sizes = cx.stack_i64s(&sizes)?;
    Ok(Term {
        value: cx.reshape_to(product, sizes)?,
        labels: [batch, of_a, of_b].concat(),
    })
}

fn place(term: &Term, label: Label) -> usize {
    let place = term.labels.iter().position(|l| *l == label);
    place.expect("the term has the label")
}

fn size(cx: &NodeCx, term: &Term, label: Label) -> Result<Dim> {
    Ok(cx.shape(term.value)?[place(term, label)].clone())
}

/// The term with its axes in the order of `all`, and axes of size 1 for labels it does not have.
fn aligned(cx: &mut NodeCx, term: &Term, all: &[Label]) -> Result<Value> {
    let has = |l: &&Label| term.labels.contains(l);
    let perm: Vec<usize> = all.iter().filter(has).map(|l| place(term, *l)).collect();
    let value = cx.transpose(term.value, &perm)?;
    let missing: Vec<usize> = (0..all.len()).filter(|&i| !has(&&all[i])).collect();
    cx.unsqueeze(value, &missing)
}

/// The term as matrices `[batch.., rows, columns]`, where each of the two groups of labels is one
/// axis.
fn matrices(
    cx: &mut NodeCx,
    term: &Term,
    batch: &[Label],
    rows: &[Label],
    columns: &[Label],
) -> Result<Value> {
    let order = batch.iter().chain(rows).chain(columns);
    let perm: Vec<usize> = order.map(|l| place(term, *l)).collect();
    let value = cx.transpose(term.value, &perm)?;
    let mut sizes = vec![];
    for axis in 0..batch.len() {
        sizes.push(cx.size_of(value, axis)?);
    }
    let middle = batch.len() + rows.len();
    for group in [batch.len()..middle, middle..perm.len()] {
        sizes.push(cx.count(value, &group.collect::<Vec<_>>())?);
    }
    let sizes = cx.stack_i64s(&sizes)?;
    cx.reshape_to(value, sizes)
}
