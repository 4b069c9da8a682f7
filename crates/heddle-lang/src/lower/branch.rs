//! `if`, and what both arms of one give.

use heddle_ir::Value;

use super::tail::Again;
use super::{Lower, Result, Stop};
use crate::ast::Expr;
use crate::lexer::Span;
use crate::value::{Ty, Val};

/// Evaluates an arm, whose value should be of a type if one is given.
pub type Arm<'s, 'a> = &'s mut dyn FnMut(&mut Lower<'a>, Option<&Ty>) -> Result<Val<'a>>;

impl<'a> Lower<'a> {
    pub(super) fn if_else(
        &mut self,
        (cond, then, otherwise): (&'a Expr, &'a Expr, &'a Expr),
        expect: Option<&Ty>,
        again: Option<&Again<'a>>,
    ) -> Result<Val<'a>> {
        let test = self.truth(cond)?;
        self.branch(
            test,
            &mut |s, expect| s.eval_in(then, expect, again),
            &mut |s, expect| s.eval_in(otherwise, expect, again),
            expect,
            cond.span,
        )
    }

    /// A value that is `bool[]`.
    pub(super) fn truth(&mut self, cond: &'a Expr) -> Result<Value> {
        let val = self.eval(cond, None)?;
        let ty = self.ty(&val);
        match val {
            Val::Ir(v) if ty == Ty::Ir(heddle_ir::Type::scalar(heddle_ir::DType::Bool)) => Ok(v),
            _ => {
                let message = format!("a condition is bool[], not {}", self.show(&ty));
                Err(self.error_with(cond.span, message, "compare numbers: x > 0"))
            }
        }
    }

    /// An `if` whose arms have these values. An arm whose type is open leaves the type to the other.
    pub(super) fn branch(
        &mut self,
        cond: Value,
        then: Arm<'_, 'a>,
        otherwise: Arm<'_, 'a>,
        expect: Option<&Ty>,
        span: Span,
    ) -> Result<Val<'a>> {
        let mark = self.mark();
        let mut wanted = expect.map(Ty::concrete);
        // Once to find the types, and once more if the first arm has to give another.
        for _ in 0..3 {
            self.open(&[], span)?;
            let first = match self.arm(then, wanted.as_ref(), span) {
                Err(Stop::Open) => {
                    self.rollback(&mark);
                    return otherwise(self, expect);
                }
                arm => arm?,
            };
            let first_ty = self.ty(&first);
            let mut yields = vec![];
            self.flatten(&first, &mut yields);
            self.frame.env.truncate(mark.env);
            let regions = [self.close(&yields)];
            self.open(&[], span)?;
            let second = match self.arm(otherwise, wanted.as_ref().or(Some(&first_ty)), span) {
                Err(Stop::Open) => {
                    self.rollback(&mark);
                    return then(self, expect);
                }
                arm => arm?,
            };
            let second_ty = self.ty(&second);
            let joined = first_ty.join(&second_ty).ok_or_else(|| {
                let (a, b) = (self.show(&first_ty), self.show(&second_ty));
                self.error(span, format!("one case is {a}, another {b}"))
            })?;
            if !joined.alike(&first_ty) {
                self.rollback(&mark);
                wanted = Some(joined);
                continue;
            }
            let second = self.convert(second, &joined, span)?;
            let mut yields = vec![];
            self.flatten(&second, &mut yields);
            self.frame.env.truncate(mark.env);
            let other = self.close(&yields);
            self.locate(span);
            let results = self.frame.b.if_(cond, regions[0], other);
            let results = results.map_err(self.misfit(span))?;
            return Ok(self.unflatten(&joined, &mut results.into_iter()));
        }
        Err(self.error(span, "the types of the cases do not settle"))
    }

    /// The value of an arm without literals, of the wanted type if it may be.
    fn arm(&mut self, arm: Arm<'_, 'a>, wanted: Option<&Ty>, span: Span) -> Result<Val<'a>> {
        let val = arm(self, wanted)?;
        match wanted.and_then(|w| self.ty(&val).join(w)) {
            Some(joined) => self.convert(val, &joined.concrete(), span),
            None => self.concrete(val, span),
        }
    }
}
