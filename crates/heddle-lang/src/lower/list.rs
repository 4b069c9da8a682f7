//! Lists: their elements lie along the first axes of arrays.

use heddle_ir::op::BinaryOp;
use heddle_ir::{Op, Value};

use super::nested::has_lists;
use super::{Lower, Result, Stop};
use crate::ast::Expr;
use crate::lexer::Span;
use crate::value::{List, Ty, Val};

impl<'a> Lower<'a> {
    /// The list of these elements, of which there is one at least.
    pub(super) fn list_of(&mut self, elements: Vec<Val<'a>>, span: Span) -> Result<Val<'a>> {
        let mut ty = Ty::Tuple(vec![]);
        for (i, element) in elements.iter().enumerate() {
            let found = self.ty(element).concrete();
            ty = match (i, ty.join(&found)) {
                (0, _) => found,
                (_, Some(joined)) => joined,
                (_, None) => {
                    let (a, b) = (self.show(&ty), self.show(&found));
                    let message = format!("a list holds {a} and {b}");
                    return Err(self.unlike(&ty, &found, message, span));
                }
            };
        }
        let mut rows = vec![];
        for element in elements {
            let element = self.convert(element, &ty, span)?;
            rows.push(self.row(&element, span)?);
        }
        let columns = self.join_columns(&rows, span)?;
        Ok(whole(columns))
    }

    /// The error of elements whose types have no join.
    pub(super) fn unlike(&self, one: &Ty, other: &Ty, message: String, span: Span) -> Stop {
        match are_of_two_inputs(one, other) {
            false => self.error(span, message),
            true => {
                let message = "a list holds data of two inputs";
                let hint = "make those of one anew: `match` takes a value apart, and what the program \
                            makes goes with data of any input";
                self.error_with(span, message, hint)
            }
        }
    }

    /// An element as columns of one row.
    pub(super) fn row(&mut self, element: &Val<'a>, span: Span) -> Result<Val<'a>> {
        self.check_element(element, span)?;
        match element {
            Val::Tuple(all) => {
                let all: Result<_> = all.iter().map(|v| self.row(v, span)).collect();
                Ok(Val::Tuple(all?))
            }
            Val::List(list) => self.one_list(list.clone(), span),
            Val::Built { .. } => self.one_datum(element.clone(), span),
            _ => {
                let axes = vec![0];
                self.each_array(element, span, &mut |b, v| {
                    b.op1(Op::Unsqueeze { axes: axes.clone() }, &[v])
                })
            }
        }
    }

    /// Refuses elements that arrays cannot hold.
    pub(super) fn check_element(&self, element: &Val<'a>, span: Span) -> Result<()> {
        let fits = match element {
            Val::Ir(v) => self.tensor_type(*v).is_some(),
            Val::Tuple(all) => return all.iter().try_for_each(|v| self.check_element(v, span)),
            Val::Data { .. } | Val::Built { .. } => true,
            Val::List(list) => list.columns.is_some(),
            _ => false,
        };
        match fits {
            true => Ok(()),
            false => {
                let ty = self.show(&self.ty(element));
                let message = format!("a list cannot hold {ty}");
                let hint = "elements are arrays, data, lists and tuples of these";
                Err(self.error_with(span, message, hint))
            }
        }
    }

    /// Columns of one type, one behind the other.
    pub(super) fn join_columns(&mut self, all: &[Val<'a>], span: Span) -> Result<Val<'a>> {
        let Some(first) = all.first() else {
            return Err(self.error(span, "the type of this empty list is not known"));
        };
        match first {
            _ if all.len() == 1 => return Ok(first.clone()),
            Val::Tuple(parts) => {
                let is_like = |v: &Val| matches!(v, Val::Tuple(own) if own.len() == parts.len());
                if !all.iter().all(is_like) {
                    return Err(self.error(span, "a list holds tuples of different lengths"));
                }
                let part = |k: usize| {
                    let parts = all.iter().filter_map(|v| match v {
                        Val::Tuple(parts) => parts.get(k).cloned(),
                        _ => None,
                    });
                    parts.collect::<Vec<_>>()
                };
                let joined = (0..parts.len()).map(|k| self.join_columns(&part(k), span));
                return Ok(Val::Tuple(joined.collect::<Result<_>>()?));
            }
            Val::Nested { .. } => return self.join_nested(all, span),
            Val::Built { ty, .. } => return self.join_data(*ty, all, span),
            _ => {}
        }
        let ty = self.ty(first);
        let mut parts: Vec<Vec<Value>> = vec![];
        for one in all {
            let mut values = vec![];
            self.flatten(one, &mut values);
            parts.push(values);
        }
        let count = parts[0].len();
        if parts.iter().any(|values| values.len() != count) {
            return Err(self.error(span, "a list holds values of different parts"));
        }
        let mut joined = vec![];
        for k in 0..count {
            let column: Vec<Value> = parts.iter().map(|p| p[k]).collect();
            let column = self.frame.b.join(&column);
            joined.push(column.map_err(self.misfit(span))?);
        }
        Ok(self.unflatten(&ty, &mut joined.into_iter()))
    }

    /// A list from a value; the rows of a literal are one, too.
    pub(super) fn as_list(&mut self, val: Val<'a>, span: Span) -> Result<List<'a>> {
        match val {
            Val::List(list) => Ok(list),
            Val::Literal(l) if l.shape.first() == Some(&0) => Ok(List {
                columns: None,
                start: None,
            }),
            Val::Literal(l) if !l.shape.is_empty() => {
                let columns = self.constant(&l, l.dtype(), span)?;
                let columns = Some(Box::new(Val::Ir(columns)));
                Ok(List {
                    columns,
                    start: None,
                })
            }
            val => {
                let ty = self.ty(&val);
                let message = format!("a list is needed, not {}", self.show(&ty));
                Err(self.error_with(span, message, "rows(x) is the list of an array's rows"))
            }
        }
    }

    /// The columns of a list that has some, from its first element on.
    pub(super) fn settled(&mut self, list: List<'a>, span: Span) -> Result<Val<'a>> {
        let Some(columns) = list.columns else {
            return Err(self.error(span, "the type of this empty list is not known"));
        };
        match list.start {
            None => Ok(*columns),
            Some(start) => {
                let end = self.frame.b.i64(i64::MAX);
                self.cut(&columns, start, end, span)
            }
        }
    }

    /// Rows of columns.
    pub(super) fn cut(
        &mut self,
        of: &Val<'a>,
        from: Value,
        to: Value,
        span: Span,
    ) -> Result<Val<'a>> {
        match of {
            Val::Tuple(all) => {
                let all = all.iter().map(|v| self.cut(v, from, to, span));
                return Ok(Val::Tuple(all.collect::<Result<_>>()?));
            }
            Val::Nested { data, offsets } => {
                return self.cut_nested(data, *offsets, (from, to), span);
            }
            _ => {}
        }
        let misfit = self.misfit(span);
        let b = &mut self.frame.b;
        let from = b.vector_of(from).map_err(&misfit)?;
        let to = b.vector_of(to).map_err(&misfit)?;
        let step = b.i64s(&[1]);
        self.each_element(of, span, &mut |b, v| {
            b.op1(Op::Slice { axes: vec![0] }, &[v, from, to, step])
        })
    }

    /// The number of elements.
    pub(super) fn length(&mut self, list: &List<'a>, span: Span) -> Result<Value> {
        let Some(columns) = &list.columns else {
            return Ok(self.frame.b.i64(0));
        };
        let rows = self.rows_of(columns, span)?;
        match list.start {
            None => Ok(rows),
            Some(start) => {
                let length = self.frame.b.binary(BinaryOp::Sub, rows, start);
                length.map_err(self.misfit(span))
            }
        }
    }

    /// The element at a place; one below 0 counts from the end.
    pub(super) fn element(&mut self, list: &List<'a>, at: Value, span: Span) -> Result<Val<'a>> {
        let Some(columns) = list.columns.clone() else {
            return Err(self.error(span, "an empty list has no elements"));
        };
        let from_end = self.frame.b.known(at).and_then(|k| k.first()?.as_const());
        let at = match list.start {
            Some(start) if from_end.is_none_or(|n| n >= 0) => {
                let at = self.frame.b.binary(BinaryOp::Add, start, at);
                at.map_err(self.misfit(span))?
            }
            _ => at,
        };
        self.row_at(&columns, at, span)
    }

    /// The element in a row of columns.
    pub(super) fn row_at(&mut self, columns: &Val<'a>, at: Value, span: Span) -> Result<Val<'a>> {
        match columns {
            Val::Tuple(all) => {
                let all = all.iter().map(|v| self.row_at(v, at, span));
                Ok(Val::Tuple(all.collect::<Result<_>>()?))
            }
            Val::Nested { data, offsets } => self.list_at(data, *offsets, at, span),
            _ => self.each_element(columns, span, &mut |b, v| b.gather(v, at)),
        }
    }

    /// `x[i]`.
    pub(super) fn indexed(&mut self, val: Val<'a>, at: Val<'a>, span: Span) -> Result<Val<'a>> {
        let at = self.index_of(at, span)?;
        match val {
            Val::List(list) => {
                if self.tensor_type(at).is_none_or(|t| t.rank() != Some(0)) {
                    return Err(self.error(span, "the index of a list's element is i64[]"));
                }
                self.element(&list, at, span)
            }
            val => {
                let x = self.plain_array(val, span)?;
                let element = self.frame.b.gather(x, at);
                element.map(Val::Ir).map_err(self.misfit(span))
            }
        }
    }

    /// `x[a..b]`.
    pub(super) fn slice_expr(
        &mut self,
        of: &'a Expr,
        from: Option<&'a Expr>,
        to: Option<&'a Expr>,
        span: Span,
    ) -> Result<Val<'a>> {
        let of = self.eval(of, None)?;
        let bound = |s: &mut Self, e: Option<&'a Expr>, open: i64| match e {
            Some(e) => {
                let val = s.eval(e, None)?;
                s.index_of(val, e.span)
            }
            None => Ok(s.frame.b.i64(open)),
        };
        let from = bound(self, from, 0)?;
        let to = bound(self, to, i64::MAX)?;
        self.locate(span);
        match of {
            Val::List(list) => {
                let columns = self.settled(list, span)?;
                self.cut(&columns, from, to, span).map(whole)
            }
            val => {
                let x = self.plain_array(val, span)?;
                self.cut(&Val::Ir(x), from, to, span)
            }
        }
    }

    /// Two lists as one of pairs, as long as the shorter one.
    pub(super) fn zip(&mut self, lists: Vec<List<'a>>, span: Span) -> Result<Val<'a>> {
        let mut all = vec![];
        for list in lists {
            all.push(self.settled(list, span)?);
        }
        let mut sizes = vec![];
        for columns in &all {
            sizes.push(self.rows_of(columns, span)?);
        }
        let known = |s: &Self, v: Value| s.frame.b.known(v).and_then(|k| k.first().cloned());
        let first = known(self, sizes[0]);
        let alike = |s: &Self, v: Value| match (&first, known(s, v)) {
            (Some(a), Some(b)) => a.equals(&b),
            _ => false,
        };
        if !sizes.iter().all(|&size| alike(self, size)) {
            let mut least = sizes[0];
            for &size in &sizes[1..] {
                let min = self.frame.b.binary(BinaryOp::Min, least, size);
                least = min.map_err(self.misfit(span))?;
            }
            let zero = self.frame.b.i64(0);
            for columns in &mut all {
                *columns = self.cut(&columns.clone(), zero, least, span)?;
            }
        }
        self.bounded(whole(Val::Tuple(all)), span)
    }

    /// A list back to front.
    pub(super) fn reverse(&mut self, list: List<'a>, span: Span) -> Result<Val<'a>> {
        if list.columns.is_none() {
            return Ok(Val::List(list));
        }
        let columns = self.settled(list, span)?;
        if has_lists(&columns) {
            return self.reverse_each(columns, span);
        }
        let b = &mut self.frame.b;
        let (from, to, step) = (b.i64s(&[-1]), b.i64s(&[i64::MIN]), b.i64s(&[-1]));
        let turned = self.each_element(&columns, span, &mut |b, v| {
            b.op1(Op::Slice { axes: vec![0] }, &[v, from, to, step])
        })?;
        Ok(whole(turned))
    }
}

/// Do the types differ in the inputs that their data are of?
fn are_of_two_inputs(one: &Ty, other: &Ty) -> bool {
    match (one, other) {
        (Ty::Data(a, s, _), Ty::Data(b, t, _)) => a == b && s != t,
        (Ty::Tuple(a), Ty::Tuple(b)) => a.iter().zip(b).any(|(a, b)| are_of_two_inputs(a, b)),
        (Ty::List(Some(a), _), Ty::List(Some(b), _)) | (Ty::Nested(a, _), Ty::Nested(b, _)) => {
            are_of_two_inputs(a, b)
        }
        _ => false,
    }
}

/// The list of all rows of columns.
pub fn whole<'a>(columns: Val<'a>) -> Val<'a> {
    Val::List(List {
        columns: Some(Box::new(columns)),
        start: None,
    })
}
