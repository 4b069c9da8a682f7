//! Loops over lists.

use heddle_ir::{DType, Type, Value};

use super::list::whole;
use super::nested::holds_lists;
use super::{Lower, Result, Stop};
use crate::lexer::Span;
use crate::value::{List, Ty, Val};

/// Types of what a loop carries widen at most so often.
const MAX_WIDENINGS: usize = 8;

/// One iteration: from its number and what is carried, to what is carried next and what is stacked.
pub type Body<'s, 'a> =
    &'s mut dyn FnMut(&mut Lower<'a>, Value, Val<'a>) -> Result<(Val<'a>, Option<Val<'a>>)>;

impl<'a> Lower<'a> {
    pub(super) fn map(&mut self, f: &Val<'a>, list: Val<'a>, span: Span) -> Result<Val<'a>> {
        let list = self.as_list(list, span)?;
        if list.columns.is_none() {
            return Ok(Val::List(list));
        }
        let trip = self.length(&list, span)?;
        let (_, stacked) = self.counted(trip, Val::Tuple(vec![]), span, &mut |s, i, nothing| {
            let x = s.element(&list, i, span)?;
            let y = s.apply(f, vec![x], span)?;
            Ok((nothing, Some(y)))
        })?;
        stacked.ok_or_else(|| self.error(span, "a loop that stacks nothing"))
    }

    pub(super) fn fold(
        &mut self,
        f: &Val<'a>,
        init: Val<'a>,
        list: Val<'a>,
        span: Span,
    ) -> Result<Val<'a>> {
        let list = self.as_list(list, span)?;
        if list.columns.is_none() {
            return Ok(init);
        }
        let trip = self.length(&list, span)?;
        let (last, _) = self.counted(trip, init, span, &mut |s, i, state| {
            let x = s.element(&list, i, span)?;
            let next = s.apply(f, vec![state, x], span)?;
            Ok((next, None))
        })?;
        Ok(last)
    }

    /// A loop with a trip count: what it carries at its end, and the list of what it stacks.
    pub(super) fn counted(
        &mut self,
        trip: Value,
        init: Val<'a>,
        span: Span,
        body: Body<'_, 'a>,
    ) -> Result<(Val<'a>, Option<Val<'a>>)> {
        let mark = self.mark();
        let mut init = init;
        let mut state = self.ty(&init).concrete();
        // The list of elements that hold lists, which is carried.
        let mut carries_list = false;
        for _ in 0..MAX_WIDENINGS {
            let mut inits = vec![];
            let first = self.convert(init.clone(), &state, span)?;
            self.flatten(&first, &mut inits);
            let mut types = vec![Type::scalar(DType::I64)];
            Self::flat_types(&state, &mut types);
            let params = self.open(&types, span)?;
            let carried = self.unflatten(&state, &mut params[1..].iter().copied());
            let (next, stacked) = match (carries_list, carried) {
                (true, Val::Tuple(mut both)) => {
                    let list = both.pop().unwrap_or(Val::Tuple(vec![]));
                    let own = both.pop().unwrap_or(Val::Tuple(vec![]));
                    let (next, element) = body(self, params[0], own)?;
                    let list = match element {
                        Some(element) => self.extended(list, element, false, span)?,
                        None => list,
                    };
                    (Val::Tuple(vec![next, list]), None)
                }
                (_, carried) => body(self, params[0], carried)?,
            };
            if let Some(element) = &stacked
                && holds_lists(&self.ty(element))
            {
                let element = self.ty(element).columns(&heddle_ir::Dim::UNKNOWN);
                self.rollback(&mark);
                let list = Ty::List(Some(Box::new(element)), false);
                let (columns, start) = (None, None);
                init = Val::Tuple(vec![init, Val::List(List { columns, start })]);
                state = Ty::Tuple(vec![state, list]);
                carries_list = true;
                continue;
            }
            let Some(joined) = self.widened(&state, &next, span)? else {
                let next = self.convert(next, &state, span)?;
                let mut yields = vec![];
                self.flatten(&next, &mut yields);
                let stacked = self.stacked(stacked, &mut yields, span)?;
                self.frame.env.truncate(mark.env);
                let region = self.close(&yields);
                self.locate(span);
                let results = self.frame.b.loop_(Some(trip), None, &inits, region);
                let mut results = results.map_err(self.misfit(span))?.into_iter();
                let last = self.unflatten(&state, &mut results);
                if let (true, Val::Tuple(both)) = (carries_list, &last) {
                    return Ok((both[0].clone(), Some(both[1].clone())));
                }
                let list = stacked.map(|ty| whole(self.unflatten(&ty, &mut results)));
                return Ok((last, list));
            };
            self.rollback(&mark);
            state = joined;
        }
        Err(self.unsettled(span))
    }

    /// The columns of the elements that an iteration stacks, whose IR values are added to its yields.
    pub(super) fn stacked(
        &mut self,
        element: Option<Val<'a>>,
        yields: &mut Vec<Value>,
        span: Span,
    ) -> Result<Option<Ty>> {
        let Some(element) = element else {
            return Ok(None);
        };
        let element = self.concrete(element, span)?;
        self.check_element(&element, span)?;
        self.flatten(&element, yields);
        let ty = self.ty(&element).columns(&heddle_ir::Dim::UNKNOWN);
        Ok(Some(ty))
    }

    /// The type that holds what is carried next, too; `None` if this one does.
    pub(super) fn widened(&mut self, state: &Ty, next: &Val<'a>, span: Span) -> Result<Option<Ty>> {
        let found = self.ty(next);
        let Some(joined) = state.join(&found) else {
            let (a, b) = (self.show(state), self.show(&found));
            return Err(self.error(span, format!("a loop begins with {a} and goes on with {b}")));
        };
        let joined = joined.concrete();
        let holds = state.alike(&joined) && state.accepts(&joined);
        Ok((!holds).then_some(joined))
    }

    pub(super) fn unsettled(&self, span: Span) -> Stop {
        self.error(span, "the types of what this loop carries do not settle")
    }

    /// The elements of a list that is passed on in a loop: its columns and its first place.
    pub(super) fn with_start(&mut self, list: List<'a>) -> List<'a> {
        let start = list.start.unwrap_or_else(|| self.frame.b.i64(0));
        List {
            columns: list.columns,
            start: Some(start),
        }
    }
}
