//! `match`: which arm a value takes, and the names that a pattern binds.

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Type};

use super::tail::Again;
use super::testing::Test;
use super::{Lower, Result};
use crate::ast::{Arm, Pattern, PatternKind};
use crate::exhaust::{Shape, check};
use crate::lexer::{Span, deeper};
use crate::value::{List, Ty, Val};

impl<'a> Lower<'a> {
    pub(super) fn eval_match(
        &mut self,
        of: &'a crate::ast::Expr,
        arms: &'a [Arm],
        expect: Option<&Ty>,
        again: Option<&Again<'a>>,
        span: Span,
    ) -> Result<Val<'a>> {
        let val = self.eval(of, None)?;
        let val = self.concrete(val, of.span)?;
        let shape = self.shape(&self.ty(&val));
        check(self.ast, self.text, &shape, arms, span)?;
        self.arms(&val, arms, expect, again, span)
    }

    /// The value of the first arm that fits; one of them does.
    fn arms(
        &mut self,
        val: &Val<'a>,
        arms: &'a [Arm],
        expect: Option<&Ty>,
        again: Option<&Again<'a>>,
        span: Span,
    ) -> Result<Val<'a>> {
        let Some((arm, rest)) = arms.split_first() else {
            return Err(self.error(span, "this match has no arms"));
        };
        let take = |s: &mut Self, expect: Option<&Ty>| {
            let mark = s.frame.env.len();
            s.bind_all(&arm.pattern, val.clone())?;
            let value = s.eval_in(&arm.value, expect, again);
            s.frame.env.truncate(mark);
            value
        };
        let test = match rest.is_empty() {
            true => Test::Always,
            false => self.test(val, &arm.pattern, arm.pattern.span)?,
        };
        match test {
            Test::Always => take(self, expect),
            Test::Never => self.arms(val, rest, expect, again, span),
            Test::If(cond) => self.branch(
                cond,
                &mut { take },
                &mut |s, expect| deeper(|| s.arms(val, rest, expect, again, span)),
                expect,
                span,
            ),
        }
    }

    /// Binds the names of a pattern that the value matches.
    pub(super) fn bind_all(&mut self, pattern: &'a Pattern, val: Val<'a>) -> Result<()> {
        let span = pattern.span;
        match &pattern.kind {
            PatternKind::Any | PatternKind::Number(_) | PatternKind::Bool(_) => {}
            PatternKind::Bind(name) => {
                if let Val::Ir(v) = &val {
                    self.frame.b.set_name(*v, name);
                }
                self.frame.env.push((name, val));
            }
            PatternKind::Tuple(patterns) => {
                let ty = self.ty(&val);
                let Val::Tuple(all) = val else {
                    return Err(self.error(span, format!("{} is no tuple", self.show(&ty))));
                };
                if all.len() != patterns.len() {
                    let (n, m) = (all.len(), patterns.len());
                    return Err(self.error(span, format!("a tuple of {n} elements, not {m}")));
                }
                for (val, pattern) in all.into_iter().zip(patterns) {
                    self.bind_all(pattern, val)?;
                }
            }
            PatternKind::Case(name, patterns) => {
                self.locate(span);
                let parts = match &val {
                    Val::List(_) if patterns.is_empty() => vec![],
                    Val::List(list) => self.unrolled(list, span)?,
                    Val::Data { ty, .. } | Val::Built { ty, .. } => {
                        let case = self.case(*ty, name);
                        self.fields(&val, case, span)?
                    }
                    _ => return Err(self.error(span, format!("`{name}` is no case of this value"))),
                };
                for (val, pattern) in parts.into_iter().zip(patterns) {
                    self.bind_all(pattern, val)?;
                }
            }
        }
        Ok(())
    }

    /// The first element and the rest of a list.
    pub(super) fn unrolled(&mut self, list: &List<'a>, span: Span) -> Result<Vec<Val<'a>>> {
        let zero = self.frame.b.i64(0);
        let head = self.element(list, zero, span)?;
        let one = self.frame.b.i64(1);
        let start = match list.start {
            None => one,
            Some(start) => {
                let next = self.frame.b.binary(BinaryOp::Add, start, one);
                next.map_err(self.misfit(span))?
            }
        };
        let tail = List {
            columns: list.columns.clone(),
            start: Some(start),
        };
        Ok(vec![head, Val::List(tail)])
    }

    /// The fields of a datum of this case.
    pub(super) fn fields(
        &mut self,
        val: &Val<'a>,
        case: usize,
        span: Span,
    ) -> Result<Vec<Val<'a>>> {
        let Some(ty) = self.data_type(val) else {
            return Ok(vec![]);
        };
        let fields = &self.ast.types[ty].cases[case].fields;
        let row = self.row_of(val, span)?;
        let mut all = vec![];
        for i in 0..fields.len() {
            let key = (ty, Some((case, i)));
            let Some(column) = self.column_of(val, key) else {
                return Err(self.error(span, "a field that no table has"));
            };
            let value = self.row_at(&column, row, span)?;
            all.push(match (&value, self.field_type(key)) {
                (Val::Ir(row), Some(inner)) => self.held_at(val, inner, *row),
                _ => value,
            });
        }
        Ok(all)
    }

    pub(super) fn type_named(&self, name: &str) -> Option<usize> {
        self.ast.types.iter().position(|t| t.name.text == name)
    }

    pub(super) fn case(&self, ty: usize, name: &str) -> usize {
        let mut cases = self.ast.types[ty].cases.iter();
        cases.position(|c| c.name.text == name).unwrap_or(0)
    }

    /// The shape of a type's values, as patterns see it.
    fn shape(&self, ty: &Ty) -> Shape {
        match ty {
            Ty::Tuple(all) => Shape::Tuple(all.iter().map(|t| self.shape(t)).collect()),
            Ty::List(columns, _) => {
                let element = columns.as_ref().map(|c| self.shape(&c.element()));
                Shape::List(Box::new(element.unwrap_or(Shape::Other("a value".into()))))
            }
            Ty::Data(k, ..) | Ty::Built(k, ..) => Shape::Data(*k),
            Ty::Ir(Type::Tensor(t)) if t.rank() == Some(0) => match t.dtype {
                DType::Bool => Shape::Bool,
                d if d.is_int() => Shape::Number,
                _ => Shape::Other(t.to_string()),
            },
            other => Shape::Other(self.show(other)),
        }
    }
}
