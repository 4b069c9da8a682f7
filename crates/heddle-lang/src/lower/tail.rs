//! Functions that call themselves as their last step only: loops. One that takes a list apart runs
//! once for each element, others until a value comes in place of a call.

use heddle_ir::Value;

use super::apart::Apart;
use super::{Lower, Result, Stop};
use crate::ast::Expr;
use crate::lexer::Span;
use crate::names::free_names;
use crate::recursion::{Leaf, leaf};
use crate::value::{List, Ty, Val};

/// The loop whose iteration is evaluated.
pub struct Again<'a> {
    /// The function.
    k: usize,
    kind: Kind<'a>,
}

enum Kind<'a> {
    /// Finds the type of the result.
    Probe,
    /// Until a value comes: what is carried, and the result so far.
    Until { args: Vec<Val<'a>>, result: Val<'a> },
    /// Over a list, the parameter with this number.
    List(usize),
}

impl<'a> Lower<'a> {
    /// The value of such a function; its parameters are the variables.
    pub(super) fn tail_loop(&mut self, k: usize, span: Span) -> Result<Val<'a>> {
        let args: Vec<Val> = self.frame.env.iter().map(|(_, v)| v.clone()).collect();
        if let Some(apart) = self.apart(k) {
            return match args[apart.list].clone() {
                Val::List(list) => self.over_list(k, &apart, args, list, span),
                other => {
                    let ty = self.show(&self.ty(&other));
                    Err(self.error(span, format!("a list is needed, not {ty}")))
                }
            };
        }
        self.until(k, args, span)
    }

    /// One iteration for each element.
    fn over_list(
        &mut self,
        k: usize,
        apart: &Apart<'a>,
        args: Vec<Val<'a>>,
        list: List<'a>,
        span: Span,
    ) -> Result<Val<'a>> {
        let f = &self.ast.functions[k];
        let carried: Vec<usize> = self.varying(k).filter(|i| *i != apart.list).collect();
        let init = Val::Tuple(carried.iter().map(|&i| args[i].clone()).collect());
        let again = Again {
            k,
            kind: Kind::List(apart.list),
        };
        let (last, stacked) = match list.columns.is_none() {
            true => (init, None),
            false => {
                let trip = self.length(&list, span)?;
                self.counted(trip, init, span, &mut |s, i, state| {
                    s.frame.env.truncate(f.params.len());
                    s.assign(&carried, state);
                    let head = s.element(&list, i, span)?;
                    s.bind_all(apart.head, head)?;
                    let step = s.eval_in(apart.each, None, Some(&again));
                    s.frame.env.truncate(f.params.len());
                    match step? {
                        Val::Tuple(mut all) if apart.emits => {
                            let element = all.pop();
                            Ok((Val::Tuple(all), element))
                        }
                        next => Ok((next, None)),
                    }
                })?
            }
        };
        self.assign(&carried, last);
        let name = self.frame.env[apart.list].0;
        let mut used = false;
        free_names(apart.last, &mut |n, _| used |= n == name);
        if let (true, Val::List(list)) = (used, &args[apart.list]) {
            let columns = list.columns.clone();
            let start = columns
                .as_ref()
                .map(|c| self.rows_of(c, span))
                .transpose()?;
            self.frame.env[apart.list].1 = Val::List(List { columns, start });
        }
        let rest = self.eval(apart.last, None)?;
        self.locate(span);
        match (stacked, rest) {
            (None, rest) => Ok(rest),
            (Some(list), rest) => self.behind(list, rest, span),
        }
    }

    /// The parameters that differ from one call to the next.
    fn varying(&self, k: usize) -> impl Iterator<Item = usize> + use<> {
        let invariant = self.facts[k].invariant.clone();
        (0..invariant.len()).filter(move |&i| !invariant[i])
    }

    /// Gives parameters other values.
    fn assign(&mut self, params: &[usize], values: Val<'a>) {
        if let Val::Tuple(values) = values {
            for (&i, value) in params.iter().zip(values) {
                self.frame.env[i].1 = value;
            }
        }
    }

    /// Iterations until a value comes in place of a call.
    fn until(&mut self, k: usize, args: Vec<Val<'a>>, span: Span) -> Result<Val<'a>> {
        let f = &self.ast.functions[k];
        let carried: Vec<usize> = self.varying(k).collect();
        let mark = self.mark();
        let probe = Again {
            k,
            kind: Kind::Probe,
        };
        let probed = match self.eval_in(&f.body, None, Some(&probe)) {
            Err(Stop::Open) => return Err(Stop::Open),
            probed => self.ty(&probed?).concrete(),
        };
        // Elements are put behind those so far.
        let probed = match probed {
            Ty::List(Some(columns), _) => Ty::List(Some(Box::new(columns.shrinks())), false),
            other => other,
        };
        self.rollback(&mark);
        let init = Val::Tuple(carried.iter().map(|&i| args[i].clone()).collect());
        let mut state = Ty::Tuple(vec![self.ty(&init).concrete(), probed]);
        for _ in 0..8 {
            let Ty::Tuple(types) = &state else { break };
            let result = self.placeholder(&types[1], span)?;
            let first = Val::Tuple(vec![init.clone(), result]);
            let first = self.convert(first, &state, span)?;
            let go = self.frame.b.scalar(heddle_ir::DType::Bool, 1.0);
            let mut inits = vec![];
            self.flatten(&first, &mut inits);
            let mut params = vec![heddle_ir::Type::scalar(heddle_ir::DType::I64)];
            Self::flat_types(&state, &mut params);
            let params = self.open(&params, span)?;
            let now = self.unflatten(&state, &mut params[1..].iter().copied());
            let (go_on, next) = self.iteration(k, &carried, now, span)?;
            self.frame.env.truncate(mark.env);
            for (slot, arg) in self.frame.env.iter_mut().zip(&args) {
                slot.1 = arg.clone();
            }
            if let Some(joined) = self.widened(&state, &next, span)? {
                self.rollback(&mark);
                state = joined;
                continue;
            }
            let next = self.convert(next, &state, span)?;
            let mut yields = vec![go_on];
            self.flatten(&next, &mut yields);
            let region = self.close(&yields);
            self.locate(span);
            let results = self.frame.b.loop_(None, Some(go), &inits, region);
            let results = results.map_err(self.misfit(span))?;
            return match self.unflatten(&state, &mut results.into_iter()) {
                Val::Tuple(mut all) => Ok(all.swap_remove(1)),
                other => Ok(other),
            };
        }
        Err(self.unsettled(span))
    }

    /// Does another iteration follow, and with what.
    fn iteration(
        &mut self,
        k: usize,
        carried: &[usize],
        now: Val<'a>,
        span: Span,
    ) -> Result<(Value, Val<'a>)> {
        let f = &self.ast.functions[k];
        let Val::Tuple(now) = now else {
            return Err(self.unsettled(span));
        };
        self.assign(carried, now[0].clone());
        let Val::Tuple(args) = now[0].clone() else {
            return Err(self.unsettled(span));
        };
        let again = Again {
            k,
            kind: Kind::Until {
                args,
                result: now[1].clone(),
            },
        };
        match self.eval_in(&f.body, None, Some(&again))? {
            Val::Tuple(all) => match <[Val; 3]>::try_from(all) {
                Ok([Val::Ir(go), args, result]) => Ok((go, Val::Tuple(vec![args, result]))),
                _ => Err(self.unsettled(span)),
            },
            _ => Err(self.unsettled(span)),
        }
    }

    /// The last step of a function that becomes a loop.
    pub(super) fn last_step(&mut self, expr: &'a Expr, again: &Again<'a>) -> Result<Val<'a>> {
        let f = &self.ast.functions[again.k];
        let step = leaf(&f.name.text, expr);
        if let (Leaf::Value, Kind::Probe) = (&step, &again.kind) {
            let val = self.eval(expr, None)?;
            return self.stated_result(again.k, val, expr.span);
        }
        let (emitted, calls) = match &step {
            Leaf::Value => (None, None),
            Leaf::Again(args) => (None, Some(*args)),
            Leaf::Emit(head, args) => (Some(*head), Some(*args)),
        };
        let mut next = None;
        if let Some(args) = calls {
            if args.len() != f.params.len() {
                let (n, m) = (f.params.len(), args.len());
                let message = format!("`{}` takes {n} operands, but {m} are given", f.name.text);
                return Err(self.error(expr.span, message));
            }
            let list = match again.kind {
                Kind::List(i) => Some(i),
                _ => None,
            };
            let mut all = vec![];
            for i in self.varying(again.k).filter(|i| Some(*i) != list) {
                let mut val = self.eval(&args[i], None)?;
                if let Some(ty) = &f.params[i].ty {
                    let what = || format!("`{}` of `{}`", f.params[i].name.text, f.name.text);
                    val = self.declared(val, ty, &mut Default::default(), &what, args[i].span)?;
                }
                all.push(val);
            }
            next = Some(all);
        }
        let element = emitted.map(|head| self.eval(head, None)).transpose()?;
        match (&again.kind, next) {
            (Kind::Probe, _) => match element {
                // The list that follows is of such elements.
                Some(element) => self.list_of(vec![element], expr.span),
                None => Err(Stop::Open),
            },
            (Kind::List(_), next) => {
                let mut all = next.unwrap_or_default();
                all.extend(element);
                Ok(Val::Tuple(all))
            }
            (Kind::Until { result, .. }, Some(next)) => {
                let go = self.frame.b.scalar(heddle_ir::DType::Bool, 1.0);
                let result = match element {
                    Some(element) => self.extended(result.clone(), element, false, expr.span)?,
                    None => result.clone(),
                };
                Ok(Val::Tuple(vec![Val::Ir(go), Val::Tuple(next), result]))
            }
            (Kind::Until { args, result }, None) => {
                let go = self.frame.b.scalar(heddle_ir::DType::Bool, 0.0);
                let val = self.eval(expr, None)?;
                let mut val = self.stated_result(again.k, val, expr.span)?;
                if self.facts[again.k].emits {
                    val = self.behind(result.clone(), val, expr.span)?;
                }
                Ok(Val::Tuple(vec![Val::Ir(go), Val::Tuple(args.clone()), val]))
            }
        }
    }

    /// A result as its function states it.
    fn stated_result(&mut self, k: usize, val: Val<'a>, span: Span) -> Result<Val<'a>> {
        let f = &self.ast.functions[k];
        match &f.result {
            Some(ty) => {
                let what = || format!("the result of `{}`", f.name.text);
                self.declared(val, ty, &mut Default::default(), &what, span)
            }
            None => Ok(val),
        }
    }

    /// One list behind another.
    fn behind(&mut self, list: Val<'a>, rest: Val<'a>, span: Span) -> Result<Val<'a>> {
        let (a, b) = (self.as_list(list, span)?, self.as_list(rest, span)?);
        if b.columns.is_none() {
            return Ok(Val::List(a));
        }
        let (a, b) = (self.settled(a, span)?, self.settled(b, span)?);
        let (ty, other) = (self.ty(&a), self.ty(&b));
        let Some(joined) = ty.join(&other) else {
            let (a, b) = (self.show(&ty.element()), self.show(&other.element()));
            return Err(self.error(span, format!("a list of {a} cannot go on with {b}")));
        };
        let both = [
            self.convert(a, &joined, span)?,
            self.convert(b, &joined, span)?,
        ];
        self.join_columns(&both, span).map(super::list::whole)
    }
}
