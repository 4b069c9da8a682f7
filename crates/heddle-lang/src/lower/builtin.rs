//! Operations of the language that are none of the graph IR.

use heddle_ir::op::{BinaryOp, ReduceOp, UnaryOp};
use heddle_ir::{Op, Value};

use super::list::whole;
use super::list_data::has_data;
use super::nested::has_lists;
use super::{Lower, Result};
use crate::lexer::Span;
use crate::value::{List, Literal, Val};

impl<'a> Lower<'a> {
    /// An operation of the language; `None` if the name is none of one with so many operands.
    pub(super) fn builtin(
        &mut self,
        name: &str,
        args: &[Val<'a>],
        span: Span,
    ) -> Result<Option<Val<'a>>> {
        let args = args.to_vec();
        let count = args.len();
        let mut args = args.into_iter();
        let mut next = || args.next().expect("as many as were counted");
        Ok(Some(match (name, count) {
            ("map", 2) => {
                let (f, list) = (next(), next());
                self.map(&f, list, span)?
            }
            ("fold", 3) => {
                let (f, init, list) = (next(), next(), next());
                self.fold(&f, init, list, span)?
            }
            ("zip", 2..) => {
                let lists: Result<_> = args.map(|v| self.as_list(v, span)).collect();
                self.zip(lists?, span)?
            }
            ("reverse", 1) => {
                let list = self.as_list(next(), span)?;
                self.reverse(list, span)?
            }
            ("len", 1) => Val::Ir(match next() {
                Val::List(list) => self.length(&list, span)?,
                val => {
                    let val = self.concrete(val, span)?;
                    self.rows_of(&val, span)?
                }
            }),
            ("rows", 1) => {
                let rows = self.plain_array(next(), span)?;
                self.rows_of(&Val::Ir(rows), span)?;
                whole(Val::Ir(rows))
            }
            ("stack", 1) => {
                let list = self.as_list(next(), span)?;
                self.stack(list, span)?
            }
            ("append", 2) => {
                let (list, x) = (next(), next());
                self.extended(list, x, false, span)?
            }
            ("Cons", 2) => {
                let (x, list) = (next(), next());
                self.extended(list, x, true, span)?
            }
            ("relu" | "nn.relu", 1) => {
                let zero = Val::Literal(Literal {
                    shape: vec![],
                    items: vec!["0"],
                });
                self.op("max", vec![next(), zero], vec![], span)?
            }
            ("softmax", 1) => {
                let x = self.plain_array(next(), span)?;
                Val::Ir(self.softmax(x, span)?)
            }
            ("nn.dense", 2) => {
                let (x, w) = (next(), self.plain_array(next(), span)?);
                let perm = vec![1, 0];
                let turned = self.frame.b.op1(Op::Transpose { perm }, &[w]);
                let turned = turned.map_err(self.misfit(span))?;
                self.product(x, Val::Ir(turned), span)?
            }
            ("pull", 2..) => {
                let (cell, graph) = (next(), next());
                self.pull(&cell, graph, args.collect(), span)?
            }
            ("gather", 0 | 1) => {
                let child = args.next();
                self.message(child, span)?
            }
            _ => return Ok(None),
        }))
    }

    /// The array of a list's elements.
    fn stack(&mut self, list: List<'a>, span: Span) -> Result<Val<'a>> {
        let columns = self.settled(list, span)?;
        match has_lists(&columns) || has_data(&columns) {
            true if !has_lists(&columns) => {
                let message = "data that the program makes are no array";
                Err(self.error_with(span, message, "map the list to arrays before"))
            }
            true => {
                let message = "lists of lists are no array";
                Err(self.error_with(span, message, "stack each: map(stack, xs)"))
            }
            false => Ok(columns),
        }
    }

    /// Softmax over the last axis.
    fn softmax(&mut self, x: Value, span: Span) -> Result<Value> {
        let misfit = self.misfit(span);
        let b = &mut self.frame.b;
        let last = b.rank(x).and_then(|r| r.checked_sub(1)).unwrap_or(0);
        let over = |b: &mut heddle_ir::FuncBuilder, kind, x| {
            let (axes, keep) = (vec![last], true);
            b.op1(Op::Reduce { kind, axes, keep }, &[x])
                .map_err(&misfit)
        };
        let max = over(b, ReduceOp::Max, x)?;
        let less = b.binary(BinaryOp::Sub, x, max).map_err(&misfit)?;
        let exp = b.op1(Op::Unary(UnaryOp::Exp), &[less]).map_err(&misfit)?;
        let sum = over(b, ReduceOp::Sum, exp)?;
        b.binary(BinaryOp::Div, exp, sum).map_err(misfit)
    }

    /// A list with one element more, in front or at the end.
    pub(super) fn extended(
        &mut self,
        list: Val<'a>,
        x: Val<'a>,
        in_front: bool,
        span: Span,
    ) -> Result<Val<'a>> {
        let list = self.as_list(list, span)?;
        if let List { columns: None, .. } = list {
            return self.list_of(vec![x], span);
        }
        let columns = self.settled(list, span)?;
        let element = self.ty(&columns).element();
        let found = self.ty(&x);
        let Some(joined) = element.join(&found) else {
            let (a, b) = (self.show(&element), self.show(&found));
            let message = format!("a list of {a} cannot hold {b}");
            return Err(self.unlike(&element, &found, message, span));
        };
        let x = self.convert(x, &joined, span)?;
        let row = self.row(&x, span)?;
        // Data of inputs become the program's own beside others.
        let columns = match self.ty(&columns).join(&self.ty(&row)) {
            Some(all) => self.convert(columns, &all, span)?,
            None => columns,
        };
        let all = match in_front {
            true => [row, columns],
            false => [columns, row],
        };
        self.join_columns(&all, span).map(whole)
    }
}
