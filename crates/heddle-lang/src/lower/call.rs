//! Calls, and functions as values.

use heddle_ir::Op;
use heddle_ir::text::syntax::Attr;

use super::{Lower, MAX_CALLS, Result};
use crate::ast::Expr;
use crate::lexer::Span;
use crate::value::{Func, Ty, Val};

impl<'a> Lower<'a> {
    pub(super) fn call_expr(
        &mut self,
        f: &'a Expr,
        args: &'a [Expr],
        attrs: &[(String, Attr)],
        expect: Option<&Ty>,
        span: Span,
    ) -> Result<Val<'a>> {
        let func = self.eval(f, None)?;
        let Val::Func(func) = func else {
            let ty = self.show(&self.ty(&func));
            return Err(self.error(f.span, format!("{ty} cannot be called")));
        };
        let mut vals = vec![];
        for arg in args {
            vals.push(self.eval(arg, None)?);
        }
        self.locate(span);
        match func {
            Func::Op(name) if !attrs.is_empty() => {
                if Op::prototype(name).is_none() {
                    return Err(self.error(span, format!("`{name}` has no attributes")));
                }
                self.op(name, vals, attrs.to_vec(), span)
            }
            _ if !attrs.is_empty() => Err(self.error(span, "only operations have attributes")),
            Func::Lambda(..) | Func::Named(_) | Func::Vertex(_) | Func::Case(..) | Func::Op(_) => {
                let val = self.apply(&Val::Func(func), vals, span)?;
                match (val, expect) {
                    (val @ Val::Literal(_), Some(ty)) if self.ty(&val).join(ty).is_some() => {
                        self.convert(val, ty, span)
                    }
                    (val, _) => Ok(val),
                }
            }
        }
    }

    /// The value of a function that is a value.
    pub(super) fn apply(
        &mut self,
        func: &Val<'a>,
        args: Vec<Val<'a>>,
        span: Span,
    ) -> Result<Val<'a>> {
        match func {
            Val::Func(Func::Named(k)) => self.call(*k, args, span),
            Val::Func(Func::Op(name)) => match self.builtin(name, &args, span)? {
                Some(val) => Ok(val),
                None if Op::prototype(name).is_some() => self.op(name, args, vec![], span),
                None => {
                    let count = args.len();
                    Err(self.error(span, format!("`{name}` does not take {count} operands")))
                }
            },
            Val::Func(Func::Case(ty, case)) => self.construct((*ty, *case), args, span),
            Val::Func(Func::Vertex(k)) => {
                let name = &self.ast.vertices[*k].name.text;
                let message = format!("`{name}` is evaluated for all vertices of a graph");
                Err(self.error_with(span, message, format!("pull({name}, graph, …)")))
            }
            Val::Func(Func::Lambda(lambda, captured)) => {
                if lambda.params.len() != args.len() {
                    let (n, m) = (lambda.params.len(), args.len());
                    let message = format!("this function takes {n} operands, but {m} are given");
                    return Err(self.error(span, message));
                }
                self.nested(span)?;
                let mut env = captured.clone();
                for (param, arg) in lambda.params.iter().zip(args) {
                    let what = || format!("`{}`", param.name.text);
                    let arg = match &param.ty {
                        Some(ty) => self.declared(arg, ty, &mut Default::default(), &what, span)?,
                        None => arg,
                    };
                    env.push((&param.name.text, arg));
                }
                let outer = std::mem::replace(&mut self.frame.env, env);
                let val = self.eval(&lambda.body, None);
                self.frame.env = outer;
                self.calls -= 1;
                val
            }
            other => {
                let ty = self.show(&self.ty(other));
                Err(self.error(span, format!("a function is needed, not {ty}")))
            }
        }
    }

    /// Counts a call within others.
    fn nested(&mut self, span: Span) -> Result<()> {
        self.calls += 1;
        match self.calls > MAX_CALLS {
            true => Err(self.error(
                span,
                format!("calls are nested deeper than {MAX_CALLS} levels"),
            )),
            false => Ok(()),
        }
    }

    /// The value of a call.
    pub(super) fn call(&mut self, k: usize, args: Vec<Val<'a>>, span: Span) -> Result<Val<'a>> {
        let f = &self.ast.functions[k];
        let name = &f.name.text;
        if name == "main" {
            return Err(self.error(span, "`main` is where a run begins; it cannot be called"));
        }
        if f.params.len() != args.len() {
            let (n, m) = (f.params.len(), args.len());
            let message = format!("`{name}` takes {n} operands, but {m} are given");
            return Err(self.error(span, message));
        }
        self.nested(span)?;
        let mut sizes = Default::default();
        let mut own = vec![];
        for (param, arg) in f.params.iter().zip(args) {
            let what = || format!("`{}` of `{name}`", param.name.text);
            own.push(match &param.ty {
                Some(ty) => self.declared(arg, ty, &mut sizes, &what, span)?,
                None => arg,
            });
        }
        let val = match self.facts[k].recursive {
            true => self.call_spec(k, own, &sizes, span)?,
            false => self.in_place(k, own, span)?,
        };
        self.calls -= 1;
        match &f.result {
            Some(ty) => {
                let what = || format!("the result of `{name}`");
                self.declared(val, ty, &mut sizes, &what, f.body.span)
            }
            None => Ok(val),
        }
    }

    /// The value of a function's body.
    pub(super) fn in_place(&mut self, k: usize, args: Vec<Val<'a>>, span: Span) -> Result<Val<'a>> {
        let f = &self.ast.functions[k];
        let names = f.params.iter().map(|p| p.name.text.as_str());
        let env = names.zip(args).collect();
        let outer = std::mem::replace(&mut self.frame.env, env);
        let val = match self.facts[k].tail {
            true => self.tail_loop(k, span),
            false => self.eval(&f.body, None),
        };
        self.frame.env = outer;
        val
    }
}
