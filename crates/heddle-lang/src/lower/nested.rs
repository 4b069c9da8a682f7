//! Lists of lists: the elements of all lists behind each other, and the begin of each list.

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{Op, Value};

use super::list::whole;
use super::{Lower, Result};
use crate::lexer::Span;
use crate::value::{List, Ty, Val};

/// Limit of the levels of lists of lists that a program makes.
const MAX_DEPTH: usize = 16;

impl<'a> Lower<'a> {
    /// A list as a column of one row.
    pub(super) fn one_list(&mut self, list: List<'a>, span: Span) -> Result<Val<'a>> {
        let data = self.settled(list, span)?;
        if depth(&data) >= MAX_DEPTH {
            let message = format!("lists nest deeper than {MAX_DEPTH} levels");
            return Err(self.error(span, message));
        }
        let size = self.rows_of(&data, span)?;
        let misfit = self.misfit(span);
        let b = &mut self.frame.b;
        let (begin, end) = (b.i64s(&[0]), b.vector_of(size).map_err(&misfit)?);
        let offsets = b.join(&[begin, end]).map_err(misfit)?;
        Ok(Val::Nested {
            data: Box::new(data),
            offsets,
        })
    }

    /// Columns of lists one behind the other.
    pub(super) fn join_nested(&mut self, all: &[Val<'a>], span: Span) -> Result<Val<'a>> {
        let (mut parts, mut ends) = (vec![], vec![]);
        let mut base: Option<Value> = None;
        for one in all {
            let Val::Nested { data, offsets } = one else {
                return Err(self.error(span, "lists of lists and of others"));
            };
            let size = self.rows_of(data, span)?;
            let misfit = self.misfit(span);
            let b = &mut self.frame.b;
            ends.push(match base {
                None => *offsets,
                Some(base) => {
                    let own = behind_first(b, *offsets).map_err(&misfit)?;
                    b.binary(BinaryOp::Add, own, base).map_err(&misfit)?
                }
            });
            base = Some(match base {
                None => size,
                Some(base) => b.binary(BinaryOp::Add, base, size).map_err(&misfit)?,
            });
            parts.push((**data).clone());
        }
        let data = Box::new(self.join_columns(&parts, span)?);
        let offsets = self.frame.b.join(&ends).map_err(self.misfit(span))?;
        Ok(Val::Nested { data, offsets })
    }

    /// The list in a row.
    pub(super) fn list_at(
        &mut self,
        data: &Val<'a>,
        offsets: Value,
        at: Value,
        span: Span,
    ) -> Result<Val<'a>> {
        let misfit = self.misfit(span);
        let b = &mut self.frame.b;
        let (zero, last, step) = (b.i64s(&[0]), b.i64s(&[-1]), b.i64s(&[1]));
        let op = Op::Slice { axes: vec![0] };
        let begins = b.op1(op, &[offsets, zero, last, step]).map_err(&misfit)?;
        let ends = behind_first(b, offsets).map_err(&misfit)?;
        let from = b.gather(begins, at).map_err(&misfit)?;
        let to = b.gather(ends, at).map_err(misfit)?;
        self.cut(data, from, to, span).map(whole)
    }

    /// The lists in some rows.
    pub(super) fn cut_nested(
        &mut self,
        data: &Val<'a>,
        offsets: Value,
        (from, to): (Value, Value),
        span: Span,
    ) -> Result<Val<'a>> {
        let misfit = self.misfit(span);
        let b = &mut self.frame.b;
        let (one, step) = (b.i64(1), b.i64s(&[1]));
        let size = b.size(offsets, 0).map_err(&misfit)?;
        let count = b.binary(BinaryOp::Sub, size, one).map_err(&misfit)?;
        let from = clamped(b, from, count).map_err(&misfit)?;
        let to = clamped(b, to, count).map_err(&misfit)?;
        let to = b.binary(BinaryOp::Max, from, to).map_err(&misfit)?;
        let begin = b.gather(offsets, from).map_err(&misfit)?;
        let end = b.gather(offsets, to).map_err(&misfit)?;
        let behind = b.binary(BinaryOp::Add, to, one).map_err(&misfit)?;
        let (from, behind) = (
            b.vector_of(from).map_err(&misfit)?,
            b.vector_of(behind).map_err(&misfit)?,
        );
        let op = Op::Slice { axes: vec![0] };
        let own = b.op1(op, &[offsets, from, behind, step]);
        let own = own.map_err(&misfit)?;
        let offsets = b.binary(BinaryOp::Sub, own, begin).map_err(misfit)?;
        let data = Box::new(self.cut(data, begin, end, span)?);
        Ok(Val::Nested { data, offsets })
    }

    /// A list whose elements have lists, back to front.
    pub(super) fn reverse_each(&mut self, columns: Val<'a>, span: Span) -> Result<Val<'a>> {
        let count = self.rows_of(&columns, span)?;
        let nothing = Val::Tuple(vec![]);
        let (_, turned) = self.counted(count, nothing, span, &mut |s, i, nothing| {
            let misfit = s.misfit(span);
            let b = &mut s.frame.b;
            let one = b.i64(1);
            let last = b.binary(BinaryOp::Sub, count, one).map_err(&misfit)?;
            let at = b.binary(BinaryOp::Sub, last, i).map_err(misfit)?;
            Ok((nothing, Some(s.row_at(&columns, at, span)?)))
        })?;
        turned.ok_or_else(|| self.error(span, "a loop that stacks nothing"))
    }
}

/// The levels of lists in elements of these columns.
fn depth(columns: &Val) -> usize {
    match columns {
        Val::Tuple(all) => all.iter().map(depth).max().unwrap_or(0),
        Val::Nested { data, .. } => depth(data) + 1,
        _ => 0,
    }
}

/// Have elements of these columns lists?
pub fn has_lists(columns: &Val) -> bool {
    match columns {
        Val::Tuple(all) => all.iter().any(has_lists),
        Val::Nested { .. } => true,
        _ => false,
    }
}

/// Have values of this type lists, or data with tables of their own, which differ in size?
pub fn holds_lists(ty: &Ty) -> bool {
    match ty {
        Ty::Tuple(all) => all.iter().any(holds_lists),
        Ty::List(..) | Ty::Built(..) => true,
        _ => false,
    }
}

type Typed = std::result::Result<Value, heddle_ir::TypeError>;

/// All elements but the first.
fn behind_first(b: &mut heddle_ir::FuncBuilder, x: Value) -> Typed {
    let (from, to, step) = (b.i64s(&[1]), b.i64s(&[i64::MAX]), b.i64s(&[1]));
    b.op1(Op::Slice { axes: vec![0] }, &[x, from, to, step])
}

/// A bound of a slice of `count` elements: one below 0 counts from the end.
fn clamped(b: &mut heddle_ir::FuncBuilder, bound: Value, count: Value) -> Typed {
    let zero = b.i64(0);
    let negative = b.compare(CompareOp::Lt, bound, zero)?;
    let from_end = b.binary(BinaryOp::Add, bound, count)?;
    let bound = b.select(negative, from_end, bound)?;
    let bound = b.binary(BinaryOp::Max, bound, zero)?;
    b.binary(BinaryOp::Min, bound, count)
}
