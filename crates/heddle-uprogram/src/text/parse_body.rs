//! The parser: axes, shares and bodies of operators.

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, Extreme, ReduceOp};

use super::cursor::Result;
use super::parse::Parser;
use crate::expr::{Expr, ExprId};
use crate::program::{
    Body, Candidate, Chain, ChainStep, Grid, Local, Routine, Share, Split, Store,
};

/// Axes with their sizes.
type Axes = Vec<(Local, ExprId)>;

impl Parser<'_, '_> {
    pub(super) fn axes(&mut self) -> Result<Axes> {
        self.c.expect("[")?;
        let mut axes = vec![];
        while !self.c.is("]") {
            let local = self.local()?;
            self.c.expect("<")?;
            axes.push((local, self.expr()?));
            if !self.c.eat(",")? {
                break;
            }
        }
        self.c.expect("]")?;
        Ok(axes)
    }

    fn over(&mut self) -> Result<Axes> {
        self.c.expect_word("over")?;
        self.axes()
    }

    /// The axis of a reduction with exactly one.
    fn over_one(&mut self) -> Result<(Local, ExprId)> {
        match self.over()?[..] {
            [axis] => Ok(axis),
            _ => Err(self.c.misplaced("expected one axis")),
        }
    }

    pub(super) fn share(&mut self, axes: &Axes) -> Result<Share> {
        if self.c.eat_word("unit")? {
            return Ok(Share::One(self.c.number()?));
        }
        if self.c.eat_word("every")? {
            return Ok(Share::Every);
        }
        self.c.expect_word("split")?;
        let first = self.split(axes)?;
        let mut share = match self.c.eat_word("x")? {
            false => Share::Split(first),
            true => {
                let splits = [first, self.split(axes)?];
                self.c.expect_word("across")?;
                let across = self.c.number()?;
                Share::Grid(Grid { splits, across })
            }
        };
        if self.c.eat_word("from")? {
            share = share.from_unit(self.c.number()?);
        }
        Ok(share)
    }

    /// After `candidate`.
    pub(super) fn candidate(&mut self, axes: &Axes) -> Result<Candidate> {
        let (share, parts) = match self.c.eat_word("parts")? {
            false => (self.share(axes)?, 1),
            true => {
                let parts = self.c.int()?;
                let size = self.add(Expr::Num(DType::I64, parts as u64))?;
                (Share::Split(Split::whole(0, size)), parts)
            }
        };
        self.c.expect_word("tasks")?;
        let tasks = self.c.number()?;
        self.c.expect_word("time")?;
        let time = self.c.float()?;
        Ok(Candidate {
            share,
            parts,
            tasks,
            time,
        })
    }

    fn split(&mut self, axes: &Axes) -> Result<Split> {
        let local = self.local()?;
        let Some(axis) = axes.iter().position(|a| a.0 == local) else {
            return Err(self.c.misplaced("this is none of the operator's axes"));
        };
        let mut split = Split::whole(axis, axes[axis].1);
        if self.c.eat_word("block")? {
            split.period = self.expr()?;
        }
        if self.c.eat_word("grain")? {
            split.grain = self.c.int()?;
        }
        if self.c.eat_word("pieces")? {
            split.piece = Some(self.c.int()?);
        }
        Ok(split)
    }

    /// An expression after a word.
    pub(super) fn after(&mut self, word: &str) -> Result<ExprId> {
        self.c.expect_word(word)?;
        self.expr()
    }

    pub(super) fn body(&mut self) -> Result<Body> {
        self.c.enter()?;
        let body = match self.c.eat_word("chain")? {
            true => self.chain()?,
            false => {
                let store = Store {
                    buffer: self.buffer_name()?,
                    offset: {
                        self.c.expect("[")?;
                        let offset = self.expr()?;
                        self.c.expect("]")?;
                        offset
                    },
                };
                self.c.expect("=")?;
                self.stored(store)?
            }
        };
        self.c.leave();
        Ok(body)
    }

    fn chain(&mut self) -> Result<Body> {
        let axes = self.over()?;
        self.c.expect("{")?;
        let mut steps = vec![];
        while !self.c.eat("}")? {
            self.c.expect_word("step")?;
            let name = self.c.string()?;
            let axes = self.over()?;
            self.c.expect("{")?;
            let body = self.body()?;
            self.c.expect("}")?;
            steps.push(ChainStep { axes, body, name });
        }
        match steps.is_empty() {
            true => Err(self.c.misplaced("a chain has at least one step")),
            false => Ok(Body::Chain(Chain { steps, axes })),
        }
    }

    /// The body after its destination.
    fn stored(&mut self, store: Store) -> Result<Body> {
        Ok(if self.c.eat_word("fold")? {
            Body::Fold {
                kind: self.named("a reduction", ReduceOp::from_name)?,
                dtype: self.c.dtype()?,
                axes: self.over()?,
                columns: self.c.eat_word("columns")?,
                value: self.after("of")?,
                store,
            }
        } else if self.c.eat_word("argfold")? {
            Body::ArgFold {
                kind: self.named("`max` or `min`", Extreme::from_name)?,
                dtype: self.c.dtype()?,
                axis: self.over_one()?,
                last: self.c.eat_word("last")?,
                value: self.after("of")?,
                store,
            }
        } else if self.c.eat_word("update")? {
            Body::Update {
                combine: match self.c.eat_word("set")? {
                    true => None,
                    false => Some(self.named("`set` or a binary op", BinaryOp::from_name)?),
                },
                dtype: self.c.dtype()?,
                axes: self.over()?,
                value: self.after("of")?,
                store,
            }
        } else if self.c.eat_word("scan")? {
            Body::Scan {
                kind: self.named("a reduction", ReduceOp::from_name)?,
                dtype: self.c.dtype()?,
                axis: self.over_one()?,
                exclusive: self.c.eat_word("exclusive")?,
                value: self.after("of")?,
                store,
            }
        } else if self.c.eat_word("routine")? {
            let routines = [
                Routine::TopK(Extreme::Max),
                Routine::TopK(Extreme::Min),
                Routine::NonZero,
                Routine::Unique,
            ];
            let find = |name: &str| routines.into_iter().find(|r| r.name() == name);
            let routine = self.named("a routine", find)?;
            let dtype = self.c.dtype()?;
            let args = self.args()?;
            let Some((&source, args)) = args.split_first() else {
                return Err(self.c.misplaced("a routine has a source"));
            };
            Body::Call {
                routine,
                dtype,
                source,
                args: args.to_vec(),
                store,
            }
        } else if self.c.eat_word("contract")? {
            Body::Contract(self.contract(store)?)
        } else {
            let value = self.expr()?;
            Body::Map { store, value }
        })
    }

    /// An item of a named set.
    fn named<T>(&mut self, what: &str, find: impl Fn(&str) -> Option<T>) -> Result<T> {
        let word = self.c.word(what)?;
        find(word).ok_or_else(|| self.c.misplaced(&format!("expected {what}")))
    }
}
