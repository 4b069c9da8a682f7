//! Sequences and optionals.

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{DType, Op, Type, Value};
use rand::RngExt;

use crate::body::Body;

impl Body<'_> {
    pub(crate) fn sequence(&mut self) {
        match self.rng.random_range(0..7) {
            0..2 => {
                let s = self.some_sequence();
                self.keep(s);
            }
            2 => {
                let s = self.longer();
                let last = self.at(s);
                self.keep(last);
                self.keep(s);
            }
            3 => {
                let s = self.longer();
                let place = self.position(s);
                let s = self.op(Op::SeqErase, &[s, place]);
                let length = self.op(Op::SeqLen, &[s]);
                self.keep(s);
                self.keep(length);
            }
            4 => self.joined(),
            5 => self.split(),
            _ => self.optional(),
        }
    }

    /// A sequence of tensors of unknown size, from the pool or new.
    fn some_sequence(&mut self) -> Value {
        let found = self.pick(|t| matches!(t, Type::Seq(e) if e.as_tensor().is_some()));
        if let Some(s) = found.filter(|_| self.rng.random_bool(0.7)) {
            return s;
        }
        let x = self.tensor();
        let elem = self.widened(x);
        let mut items = vec![];
        for _ in 0..self.rng.random_range(0..3) {
            items.push(self.element(&elem));
        }
        self.op(Op::SeqNew { elem }, &items)
    }

    /// A value that an element of this type may be.
    fn element(&mut self, elem: &Type) -> Value {
        let t = elem.as_tensor().expect("sequences hold tensors");
        let dtype = t.dtype;
        let x = self.tensor_of(dtype);
        match (t.rank(), t.static_shape()) {
            (_, Some(shape)) => self.fit_static(x, &shape),
            (Some(rank), None) => self.with_rank(x, rank),
            (None, None) => x,
        }
    }

    /// A sequence of one element at least.
    fn longer(&mut self) -> Value {
        let s = self.some_sequence();
        let Type::Seq(elem) = self.b.ty(s).clone() else {
            unreachable!("some_sequence gives sequences")
        };
        let x = self.element(&elem);
        let length = self.op(Op::SeqLen, &[s]);
        let place = match self.rng.random_bool(0.5) {
            true => length,
            false => self.b.i64(0),
        };
        self.op(Op::SeqInsert, &[s, x, place])
    }

    /// A position in a sequence that is not empty.
    fn position(&mut self, s: Value) -> Value {
        let length = self.op(Op::SeqLen, &[s]);
        let any = self.scalar(DType::I64);
        let place = self.op(Op::Binary(BinaryOp::Mod), &[any, length]);
        match self.rng.random_bool(0.3) {
            true => self.op(Op::Binary(BinaryOp::Sub), &[place, length]),
            false => place,
        }
    }

    fn at(&mut self, s: Value) -> Value {
        let place = self.position(s);
        self.op(Op::SeqAt, &[s, place])
    }

    fn joined(&mut self) {
        let x = self.tensor();
        let rank = self.rank(x);
        let elem = self.b.ty(x).clone();
        let dtype = self.dtype(x);
        let mut items = vec![x];
        for _ in 0..self.rng.random_range(0..3) {
            let y = self.tensor_of(dtype);
            let y = self.fit_like(y, x);
            // The same shape, though inference may not see it.
            match self.b.ty(y) == &elem {
                true => items.push(y),
                false => items.push(x),
            }
        }
        let s = self.op(Op::SeqNew { elem }, &items);
        let stack = rank == 0 || self.rng.random_bool(0.5);
        let axis = self.rng.random_range(0..rank + stack as usize);
        let v = self.op(Op::SeqConcat { axis, stack }, &[s]);
        self.keep(v);
    }

    fn split(&mut self) {
        let x = self.tensor();
        let x = match self.rank(x) {
            0 => self.with_rank(x, 1),
            _ => x,
        };
        let axis = self.rng.random_range(0..self.rank(x));
        let size = self.size(x, axis);
        let some = self.below(3);
        let first = self.op(Op::Binary(BinaryOp::Min), &[some, size]);
        let rest = self.op(Op::Binary(BinaryOp::Sub), &[size, first]);
        let axes = vec![0];
        let parts = [first, rest].map(|v| self.op(Op::Unsqueeze { axes: axes.clone() }, &[v]));
        let lengths = self.op(Op::Concat { axis: 0 }, &parts);
        let squeeze = false;
        let s = self.op(Op::SeqSplit { axis, squeeze }, &[x, lengths]);
        let v = self.at(s);
        self.keep(v);
        self.keep(s);
    }

    /// An optional that may be empty, asked before it is read.
    fn optional(&mut self) {
        let x = self.tensor();
        let elem = self.b.ty(x).clone();
        let o = match self.pick(|t| matches!(t, Type::Opt(e) if e.as_tensor().is_some())) {
            Some(o) if self.rng.random_bool(0.5) => o,
            _ => match self.rng.random_bool(0.6) {
                true => self.op(Op::OptSome, &[x]),
                false => self.op(Op::OptNone { elem }, &[]),
            },
        };
        let has = self.op(Op::OptHas, &[o]);
        let dtype = match self.b.ty(o) {
            Type::Opt(e) => e.as_tensor().map(|t| t.dtype),
            _ => None,
        };
        let other = self.tensor_of(dtype.expect("an optional of a tensor"));
        self.b.begin_region(&[]);
        let held = self.op(Op::OptGet, &[o]);
        let then = self.b.end_region(&[held]);
        self.b.begin_region(&[]);
        let otherwise = self.b.end_region(&[other]);
        let results = self.b.if_(has, then, otherwise);
        for v in results.unwrap_or_else(|e| panic!("{e}")) {
            self.keep(v);
        }
        self.keep(o);
        let none = self.op(Op::Compare(CompareOp::Eq), &[has, has]);
        self.keep(none);
    }
}
