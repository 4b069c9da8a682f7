//! Expressions.

use heddle_ir::{Op, Type, Value};

use super::apart::irrefutable;
use super::tail::Again;
use super::{Lower, Result};
use crate::ast::{Expr, ExprKind, Infix, Lambda, Let};
use crate::lexer::{Span, deeper};
use crate::names::{BUILTINS, find, free_in_lambda};
use crate::value::{Func, List, Literal, Ty, Val};

impl<'a> Lower<'a> {
    /// The value of an expression. A literal takes the expected type if it may; nothing else has to be of it.
    pub(super) fn eval(&mut self, expr: &'a Expr, expect: Option<&Ty>) -> Result<Val<'a>> {
        self.eval_in(expr, expect, None)
    }

    /// [`eval`](Self::eval), or the next iteration if the expression is the last step of a function
    /// that becomes a loop.
    pub(super) fn eval_in(
        &mut self,
        expr: &'a Expr,
        expect: Option<&Ty>,
        again: Option<&Again<'a>>,
    ) -> Result<Val<'a>> {
        deeper(|| {
            self.step(expr.span)?;
            self.locate(expr.span);
            match &expr.kind {
                ExprKind::If(c, a, b) => self.if_else((c, a, b), expect, again),
                ExprKind::Match(of, arms) => self.eval_match(of, arms, expect, again, expr.span),
                ExprKind::Block(lets, value) => {
                    let mark = self.frame.env.len();
                    self.bindings(lets)?;
                    let value = self.eval_in(value, expect, again);
                    self.frame.env.truncate(mark);
                    value
                }
                _ => match again {
                    Some(again) => self.last_step(expr, again),
                    None => self.plain(expr, expect),
                },
            }
        })
    }

    /// Defines names.
    pub(super) fn bindings(&mut self, lets: &'a [Let]) -> Result<()> {
        for binding in lets {
            let mut val = self.eval(&binding.value, None)?;
            if let Some(ty) = &binding.ty {
                let what = || "the value".to_string();
                val = self.declared(val, ty, &mut Default::default(), &what, binding.value.span)?;
            }
            if !irrefutable(&binding.pattern) {
                let message = "a value might not match this pattern";
                return Err(self.error_with(binding.pattern.span, message, "use `match`"));
            }
            self.bind_all(&binding.pattern, val)?;
        }
        Ok(())
    }

    /// An expression that is no control flow.
    fn plain(&mut self, expr: &'a Expr, expect: Option<&Ty>) -> Result<Val<'a>> {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Name(name) => self.lookup(name, span),
            ExprKind::Number(text) => Ok(Val::Literal(Literal {
                shape: vec![],
                items: vec![text],
            })),
            ExprKind::Bool(truth) => {
                let value = self
                    .frame
                    .b
                    .scalar(heddle_ir::DType::Bool, *truth as u8 as f64);
                Ok(Val::Ir(value))
            }
            ExprKind::Array(items) => self.array(items, span),
            ExprKind::Tuple(items) => {
                let types = match expect {
                    Some(Ty::Tuple(types)) if types.len() == items.len() => Some(types),
                    _ => None,
                };
                let items = items.iter().enumerate();
                let all: Result<_> = items
                    .map(|(i, e)| self.eval(e, types.map(|t| &t[i])))
                    .collect();
                self.bounded(Val::Tuple(all?), span)
            }
            ExprKind::Field(of, index) => {
                let val = self.eval(of, None)?;
                let ty = self.ty(&val);
                match val {
                    Val::Tuple(mut all) if *index < all.len() => Ok(all.swap_remove(*index)),
                    _ => {
                        let message = format!("{} has no element {index}", self.show(&ty));
                        Err(self.error(span, message))
                    }
                }
            }
            ExprKind::Index(of, at) => {
                let (val, at) = (self.eval(of, None)?, self.eval(at, None)?);
                self.locate(span);
                self.indexed(val, at, span)
            }
            ExprKind::Slice(of, from, to) => {
                self.slice_expr(of, from.as_deref(), to.as_deref(), span)
            }
            ExprKind::Unary(name, x) => {
                let x = self.eval(x, expect)?;
                self.locate(span);
                self.op(name, vec![x], vec![], span)
            }
            ExprKind::Binary(infix, a, b) => self.infix(*infix, a, b, span),
            ExprKind::Call(f, args, attrs) => self.call_expr(f, args, attrs, expect, span),
            ExprKind::Lambda(lambda) => {
                let lambda = self.lambda(lambda);
                self.bounded(lambda, span)
            }
            ExprKind::If(..) | ExprKind::Match(..) | ExprKind::Block(..) => self.eval(expr, expect),
        }
    }

    fn infix(&mut self, infix: Infix, a: &'a Expr, b: &'a Expr, span: Span) -> Result<Val<'a>> {
        let decided = |truth: bool| {
            move |s: &mut Self, _: Option<&Ty>| {
                let truth = truth as u8 as f64;
                Ok(Val::Ir(s.frame.b.scalar(heddle_ir::DType::Bool, truth)))
            }
        };
        if matches!(infix, Infix::And | Infix::Or) {
            let left = self.truth(a)?;
            let right = &mut |s: &mut Self, _: Option<&Ty>| s.truth(b).map(Val::Ir);
            return match infix {
                Infix::And => self.branch(left, right, &mut decided(false), None, span),
                _ => self.branch(left, &mut decided(true), right, None, span),
            };
        }
        let (a, b) = (self.eval(a, None)?, self.eval(b, None)?);
        self.locate(span);
        match infix {
            Infix::Op(name) => self.op(name, vec![a, b], vec![], span),
            _ => self.product(a, b, span),
        }
    }

    /// The value of a name.
    pub(super) fn lookup(&mut self, name: &'a str, span: Span) -> Result<Val<'a>> {
        if let Some((_, val)) = self.frame.env.iter().rev().find(|(n, _)| *n == name) {
            return Ok(val.clone());
        }
        let ast = self.ast;
        if let Some(k) = ast.params.iter().position(|p| p.name.text == name)
            && let Some(val) = self.frame.inputs.get(&k)
        {
            return Ok(val.clone());
        }
        if let Some((k, _)) = find(ast, name) {
            return Ok(Val::Func(Func::Named(k)));
        }
        if let Some(k) = ast.vertices.iter().position(|v| v.name.text == name) {
            return Ok(Val::Func(Func::Vertex(k)));
        }
        if name == "Nil" {
            let (columns, start) = (None, None);
            return Ok(Val::List(List { columns, start }));
        }
        for (ty, data) in ast.types.iter().enumerate() {
            let case = data.cases.iter().position(|c| c.name.text == name);
            if let Some(case) = case {
                return match data.cases[case].fields.is_empty() {
                    true => self.construct((ty, case), vec![], span),
                    false => Ok(Val::Func(Func::Case(ty, case))),
                };
            }
        }
        if let Some(op) = Op::prototype(name) {
            return Ok(Val::Func(Func::Op(op.name())));
        }
        match BUILTINS.iter().find(|b| **b == name) {
            Some(builtin) => Ok(Val::Func(Func::Op(builtin))),
            None => Err(self.error(span, format!("`{name}` is not defined here"))),
        }
    }

    fn lambda(&mut self, lambda: &'a Lambda) -> Val<'a> {
        let mut names = vec![];
        free_in_lambda(lambda, &mut |name, _| {
            if !names.contains(&name) && self.frame.env.iter().any(|(n, _)| *n == name) {
                names.push(name);
            }
        });
        let captured = names.iter().filter_map(|name| {
            let (_, val) = self.frame.env.iter().rev().find(|(n, _)| n == name)?;
            Some((*name, val.clone()))
        });
        let captured = captured.collect();
        if !self.lambdas.iter().any(|l| std::ptr::eq(l.0, lambda)) {
            self.lambdas.push((lambda, names));
        }
        Val::Func(Func::Lambda(lambda, captured))
    }

    /// Numbers between brackets are a literal, other values a list.
    fn array(&mut self, items: &'a [Expr], span: Span) -> Result<Val<'a>> {
        let mut vals = vec![];
        for item in items {
            vals.push(self.eval(item, None)?);
        }
        let literals: Option<Vec<&Literal>> = vals
            .iter()
            .map(|v| match v {
                Val::Literal(l) => Some(l),
                _ => None,
            })
            .collect();
        match literals {
            Some(all) if all.windows(2).all(|w| w[0].shape == w[1].shape) => {
                let mut shape = all.first().map_or(vec![], |l| l.shape.clone());
                shape.insert(0, all.len());
                let items = all.iter().flat_map(|l| l.items.clone()).collect();
                Ok(Val::Literal(Literal { shape, items }))
            }
            Some(_) => Err(self.error(span, "rows of different sizes")),
            None => self.list_of(vals, span),
        }
    }

    /// An array from a value, of this element type if it is a literal.
    pub(super) fn array_of(
        &mut self,
        val: Val<'a>,
        dtype: heddle_ir::DType,
        span: Span,
    ) -> Result<Value> {
        match val {
            Val::Literal(literal) => self.constant(&literal, dtype, span),
            Val::Ir(value) => Ok(value),
            val => {
                let ty = self.ty(&val);
                Err(self.error(span, format!("an array is needed, not {}", self.show(&ty))))
            }
        }
    }

    /// An index: `i64[]` or any array of integers.
    pub(super) fn index_of(&mut self, val: Val<'a>, span: Span) -> Result<Value> {
        self.array_of(val, heddle_ir::DType::I64, span)
    }

    /// A type as the language writes it.
    pub(super) fn show(&self, ty: &Ty) -> String {
        match ty {
            Ty::Ir(ty) => ty.to_string(),
            Ty::Literal(shape, _) if shape.is_empty() => "a number".into(),
            Ty::Literal(shape, _) => format!("numbers of shape {shape:?}"),
            Ty::Tuple(all) => {
                let all: Vec<_> = all.iter().map(|t| self.show(t)).collect();
                format!("({})", all.join(", "))
            }
            Ty::List(Some(columns), _) => format!("list<{}>", self.show(&columns.element())),
            Ty::List(None, _) => "an empty list".into(),
            Ty::Data(ty, ..) | Ty::Built(ty, ..) => self.ast.types[*ty].name.text.clone(),
            Ty::Nested(data, _) => format!("list<{}>", self.show(&data.element())),
            Ty::Graph(..) => "graph".into(),
            Ty::Func(_) => "a function".into(),
        }
    }

    /// The type of an IR value, if it is an array.
    pub(super) fn tensor_type(&self, v: Value) -> Option<&heddle_ir::TensorType> {
        match self.frame.b.ty(v) {
            Type::Tensor(t) => Some(t),
            _ => None,
        }
    }
}
