//! `match`: which arm a value takes, and the names that a pattern binds.

use heddle_ir::op::{BinaryOp, CompareOp, UnaryOp};
use heddle_ir::{DType, Op, Type, Value};

use super::tail::{Again, irrefutable};
use super::{Lower, Result};
use crate::ast::{Arm, Pattern, PatternKind, TypeKind};
use crate::exhaust::{Shape, check};
use crate::lexer::{Span, deeper};
use crate::value::{List, Literal, Ty, Val};

/// The outcome of a test, where it is known while compiling.
enum Test {
    Always,
    Never,
    If(Value),
}

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

    /// Does a value match?
    fn test(&mut self, val: &Val<'a>, pattern: &'a Pattern, span: Span) -> Result<Test> {
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
            (Val::Data { ty, .. }, PatternKind::Case(name, parts)) => {
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
        let Val::Data { ty, store, index } = val else {
            return Ok(Test::Never);
        };
        if self.ast.types[*ty].cases.len() == 1 {
            return Ok(Test::Always);
        }
        let tags = self.frame.stores[store][&(*ty, None)];
        let misfit = self.misfit(span);
        let b = &mut self.frame.b;
        let tag = b.gather(tags, *index).map_err(&misfit)?;
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
                    Val::Data { ty, .. } => {
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
    fn unrolled(&mut self, list: &List<'a>, span: Span) -> Result<Vec<Val<'a>>> {
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
    fn fields(&mut self, val: &Val<'a>, case: usize, span: Span) -> Result<Vec<Val<'a>>> {
        let Val::Data { ty, store, index } = *val else {
            return Ok(vec![]);
        };
        let fields = &self.ast.types[ty].cases[case].fields;
        let columns = self.frame.stores[&store].clone();
        let mut all = vec![];
        for (i, field) in fields.iter().enumerate() {
            let column = columns[&(ty, Some((case, i)))];
            let value = self.frame.b.gather(column, index);
            let value = value.map_err(self.misfit(span))?;
            all.push(match &field.kind {
                TypeKind::Data(name, _) => Val::Data {
                    ty: self.type_named(name).unwrap_or(ty),
                    store,
                    index: value,
                },
                _ => Val::Ir(value),
            });
        }
        Ok(all)
    }

    pub(super) fn type_named(&self, name: &str) -> Option<usize> {
        self.ast.types.iter().position(|t| t.name.text == name)
    }

    fn case(&self, ty: usize, name: &str) -> usize {
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
            Ty::Data(k, ..) => Shape::Data(*k),
            Ty::Ir(Type::Tensor(t)) if t.rank() == Some(0) => match t.dtype {
                DType::Bool => Shape::Bool,
                d if d.is_int() => Shape::Number,
                _ => Shape::Other(t.to_string()),
            },
            other => Shape::Other(self.show(other)),
        }
    }
}
