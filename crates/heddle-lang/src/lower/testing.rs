//! Tests of a value against a pattern.

use heddle_ir::op::{CompareOp, UnaryOp};
use heddle_ir::{DType, Op, Value};

use super::apart::irrefutable;
use super::{Lower, Result};
use crate::ast::{Pattern, PatternKind};
use crate::lexer::{Span, deeper};
use crate::value::{List, Literal, Val};

/// The outcome of a test, where it is known while compiling.
pub(super) enum Test {
    Always,
    Never,
    If(Value),
}

impl<'a> Lower<'a> {
    /// Does a value match?
    pub(super) fn test(&mut self, val: &Val<'a>, pattern: &'a Pattern, span: Span) -> Result<Test> {
        self.locate(span);
        match (val, &pattern.kind) {
            (_, PatternKind::Any | PatternKind::Bind(_)) => Ok(Test::Always),
            (Val::Tuple(all), PatternKind::Tuple(patterns)) => {
                let parts: Vec<_> = all.iter().cloned().zip(patterns).collect();
                self.test_all(Test::Always, &parts, span)
            }
            (Val::List(list), PatternKind::Case(name, parts)) => {
                let first = self.test_list(list, name == "Cons", span)?;
                match &parts[..] {
                    [head, tail] if !irrefutable(head) || !irrefutable(tail) => {
                        let list = list.clone();
                        self.test_parts(first, &[head, tail], span, &mut |s| {
                            s.unrolled(&list, span)
                        })
                    }
                    _ => Ok(first),
                }
            }
            (Val::Data { ty, .. } | Val::Built { ty, .. }, PatternKind::Case(name, parts)) => {
                let case = self.case(*ty, name);
                let first = self.test_tag(val, case, span)?;
                match parts.iter().all(irrefutable) {
                    true => Ok(first),
                    false => {
                        let parts: Vec<_> = parts.iter().collect();
                        let val = val.clone();
                        self.test_parts(first, &parts, span, &mut |s| s.fields(&val, case, span))
                    }
                }
            }
            (Val::Ir(v), PatternKind::Bool(truth)) => Ok(Test::If(match truth {
                true => *v,
                false => {
                    let not = self.frame.b.op1(Op::Unary(UnaryOp::Not), &[*v]);
                    not.map_err(self.misfit(span))?
                }
            })),
            (Val::Ir(v), PatternKind::Number(n)) => {
                let dtype = self.tensor_type(*v).map_or(DType::I64, |t| t.dtype);
                let n = n.to_string();
                let tensor = self.number_of(&n, dtype, span)?;
                let equal = self.frame.b.compare(CompareOp::Eq, *v, tensor);
                equal.map(Test::If).map_err(self.misfit(span))
            }
            _ => Ok(Test::Never),
        }
    }

    fn number_of(&mut self, text: &str, dtype: DType, span: Span) -> Result<Value> {
        let literal = Literal {
            shape: vec![],
            items: vec![text],
        };
        let tensor = self.tensor(&literal, dtype, span)?;
        Ok(self.frame.b.constant(tensor))
    }

    /// Does a list have an element?
    fn test_list(&mut self, list: &List<'a>, wants_one: bool, span: Span) -> Result<Test> {
        let Some(columns) = &list.columns else {
            return Ok(if wants_one { Test::Never } else { Test::Always });
        };
        let end = self.rows_of(columns, span)?;
        let start = list.start.unwrap_or_else(|| self.frame.b.i64(0));
        let op = if wants_one {
            CompareOp::Lt
        } else {
            CompareOp::Ge
        };
        let test = self.frame.b.compare(op, start, end);
        test.map(Test::If).map_err(self.misfit(span))
    }

    /// Is a datum of this case?
    fn test_tag(&mut self, val: &Val<'a>, case: usize, span: Span) -> Result<Test> {
        let Some(ty) = self.data_type(val) else {
            return Ok(Test::Never);
        };
        if self.ast.types[ty].cases.len() == 1 {
            return Ok(Test::Always);
        }
        let Some(Val::Ir(tags)) = self.column_of(val, (ty, None)) else {
            return Ok(Test::Never);
        };
        let row = self.row_of(val, span)?;
        let misfit = self.misfit(span);
        let b = &mut self.frame.b;
        let tag = b.gather(tags, row).map_err(&misfit)?;
        let case = b.scalar(DType::I32, case as f64);
        b.compare(CompareOp::Eq, tag, case)
            .map(Test::If)
            .map_err(misfit)
    }

    /// `first`, and then the tests of parts, which exist only where the first one holds.
    fn test_parts(
        &mut self,
        first: Test,
        patterns: &[&'a Pattern],
        span: Span,
        parts: &mut dyn FnMut(&mut Self) -> Result<Vec<Val<'a>>>,
    ) -> Result<Test> {
        let cond = match first {
            Test::Never => return Ok(Test::Never),
            Test::Always => None,
            Test::If(cond) => Some(cond),
        };
        let mut inner = |s: &mut Self| {
            let parts: Vec<_> = parts(s)?
                .into_iter()
                .zip(patterns.iter().copied())
                .collect();
            s.test_all(Test::Always, &parts, span)
        };
        match cond {
            None => inner(self),
            Some(cond) => self.both(cond, &mut inner, span),
        }
    }

    /// Do parts match, one after the other?
    fn test_all(
        &mut self,
        first: Test,
        parts: &[(Val<'a>, &'a Pattern)],
        span: Span,
    ) -> Result<Test> {
        let Some(((val, pattern), rest)) = parts.split_first() else {
            return Ok(first);
        };
        let test = self.test(val, pattern, span)?;
        match test {
            Test::Never => Ok(Test::Never),
            Test::Always => self.test_all(first, rest, span),
            Test::If(cond) if rest.iter().all(|(_, p)| irrefutable(p)) => Ok(Test::If(cond)),
            Test::If(cond) => self.both(
                cond,
                &mut |s| deeper(|| s.test_all(Test::Always, rest, span)),
                span,
            ),
        }
    }

    /// A condition, and another one that is evaluated only if it holds.
    fn both(
        &mut self,
        cond: Value,
        then: &mut dyn FnMut(&mut Self) -> Result<Test>,
        span: Span,
    ) -> Result<Test> {
        let truth = |s: &mut Self, truth: bool| s.frame.b.scalar(DType::Bool, truth as u8 as f64);
        let both = self.branch(
            cond,
            &mut |s, _| {
                Ok(Val::Ir(match then(s)? {
                    Test::Always => truth(s, true),
                    Test::Never => truth(s, false),
                    Test::If(cond) => cond,
                }))
            },
            &mut |s, _| Ok(Val::Ir(truth(s, false))),
            None,
            span,
        )?;
        self.plain_array(both, span).map(Test::If)
    }
}
