//! Branches, loops and calls.

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{DType, Dim, Op, TensorType, Type, Value};
use rand::RngExt;

use crate::body::{Body, MAX_AXES};

/// A loop runs at most this often.
const MAX_TRIPS: i64 = 4;

impl Body<'_> {
    pub(crate) fn control(&mut self) {
        let count = self.helpers.len();
        match self.rng.random_range(0..10) {
            0..3 if count > 0 => {
                let helper = self.helpers[self.rng.random_range(0..count)].clone();
                match self.affords(helper.cost) {
                    true => self.call(&helper, None),
                    false => self.branch(),
                }
            }
            0..6 => self.branch(),
            _ => self.looping(),
        }
    }

    fn branch(&mut self) {
        let cond = self.scalar(DType::Bool);
        let count = self.rng.random_range(0..3);
        let outer = self.pool.len();
        self.depth += 1;
        self.b.begin_region(&[]);
        self.block(3);
        let mut first = vec![];
        for _ in 0..count {
            first.push(self.pool[self.rng.random_range(0..self.pool.len())]);
        }
        self.pool.truncate(outer);
        let then = self.b.end_region(&first);
        self.b.begin_region(&[]);
        self.block(3);
        let second: Vec<_> = first.iter().map(|&v| self.counterpart(v)).collect();
        self.pool.truncate(outer);
        let otherwise = self.b.end_region(&second);
        self.depth -= 1;
        let results = self.b.if_(cond, then, otherwise);
        for v in results.unwrap_or_else(|e| panic!("{e}")) {
            self.keep(v);
        }
    }

    /// A yield of the other branch with the type of `v`, which may not be visible here.
    fn counterpart(&mut self, v: Value) -> Value {
        let ty = self.b.ty(v).clone();
        if let Type::Tensor(t) = &ty {
            let x = self.tensor_of(t.dtype);
            return match (t.rank(), t.static_shape()) {
                (_, Some(shape)) if self.rng.random_bool(0.5) => self.fit_static(x, &shape),
                (Some(rank), _) if self.rng.random_bool(0.8) => self.with_rank(x, rank),
                _ => x,
            };
        }
        let same = self.pick(|t| t.join(&ty).is_some());
        match (same, ty) {
            (Some(v), _) => v,
            (None, Type::Seq(elem)) => self.op(Op::SeqNew { elem: *elem }, &[]),
            (None, Type::Opt(elem)) => self.op(Op::OptNone { elem: *elem }, &[]),
            (None, Type::Tensor(_)) => unreachable!("tensors are dealt with above"),
        }
    }

    fn looping(&mut self) {
        let (trip, cond) = match self.rng.random_range(0..4) {
            0..2 => (true, false),
            2 => (false, true),
            _ => (true, true),
        };
        let count = match (trip, cond) {
            (true, true) if self.rng.random_bool(0.3) => Some(self.b.i64(i64::MAX)),
            (true, _) => Some(match self.rng.random_bool(0.2) {
                true => self.b.i64(-1),
                false => self.below(MAX_TRIPS),
            }),
            _ => None,
        };
        let start = cond.then(|| self.scalar(DType::Bool));
        let mut carried = vec![];
        let mut types = vec![Type::scalar(DType::I64)];
        for _ in 0..self.rng.random_range(0..4) {
            let v = self.pool[self.rng.random_range(0..self.pool.len())];
            let ty = match self.rng.random_bool(0.5) {
                true => self.widened(v),
                false => self.b.ty(v).clone(),
            };
            carried.push(v);
            types.push(ty);
        }
        // Stacked values have one shape in all iterations: it is fixed outside.
        let mut stacked = vec![];
        for _ in 0..self.rng.random_range(0..3) {
            let x = self.tensor();
            let rank = self.rank(x);
            stacked.push(
                self.rng
                    .random_bool(0.5)
                    .then_some(x)
                    .filter(|_| rank < MAX_AXES),
            );
        }
        let outer = self.pool.len();
        let times = self.repeat(MAX_TRIPS as u64 - 1);
        self.depth += 1;
        let (_, params) = self.b.begin_region(&types);
        self.pool.extend(&params);
        self.block(3);
        let mut yields = vec![];
        if cond {
            yields.push(self.goes_on(params[0]));
        }
        for &param in &params[1..] {
            let next = self.next(param);
            yields.push(next);
        }
        for like in stacked {
            let x = self.tensor();
            yields.push(match like {
                Some(like) => self.fit_like(x, like),
                None => {
                    let dtype = self.dtype(x);
                    self.scalar(dtype)
                }
            });
        }
        self.pool.truncate(outer);
        let body = self.b.end_region(&yields);
        self.depth -= 1;
        self.set_times(times);
        let results = self.b.loop_(count, start, &carried, body);
        for v in results.unwrap_or_else(|e| panic!("{e}")) {
            self.keep(v);
        }
    }

    /// The condition of a loop: false at the latest after some iterations.
    fn goes_on(&mut self, iteration: Value) -> Value {
        let last = self.rng.random_range(0..MAX_TRIPS - 1);
        let last = self.b.i64(last);
        let counter = self.op(Op::Compare(CompareOp::Lt), &[iteration, last]);
        match self.rng.random_bool(0.5) {
            true => counter,
            false => {
                let other = self.scalar(DType::Bool);
                self.op(Op::Binary(BinaryOp::And), &[counter, other])
            }
        }
    }

    /// The next value of a carried parameter.
    fn next(&mut self, param: Value) -> Value {
        let ty = self.b.ty(param).clone();
        // Any value that the parameter may be: itself, or another, which may swap the two.
        if let Some(v) = self
            .pick(|t| ty.accepts(t))
            .filter(|_| self.rng.random_bool(0.5))
        {
            return v;
        }
        let made = match &ty {
            Type::Tensor(t) => {
                let x = self.tensor_of(t.dtype);
                match t.rank() {
                    None => x,
                    Some(rank) if is_wide(t) => self.with_rank(x, rank),
                    Some(_) => self.fit_like(x, param),
                }
            }
            Type::Seq(elem) => match elem.as_tensor() {
                Some(t) if t.rank().is_none() || is_wide(t) => {
                    let x = self.tensor_of(t.dtype);
                    let x = t.rank().map_or(x, |r| self.with_rank(x, r));
                    let place = self.b.i64(0);
                    self.op(Op::SeqInsert, &[param, x, place])
                }
                _ => param,
            },
            Type::Opt(_) => param,
        };
        match ty.accepts(self.b.ty(made)) {
            true => made,
            false => param,
        }
    }

    /// The type of a value whose sizes may change.
    pub(crate) fn widened(&mut self, v: Value) -> Type {
        let forget_rank = self.rng.random_bool(0.1);
        match self.b.ty(v) {
            Type::Tensor(t) if forget_rank => Type::unranked(t.dtype),
            ty => ty.map_dims(&mut |_| Dim::UNKNOWN),
        }
    }
}

fn is_wide(t: &TensorType) -> bool {
    t.shape.iter().flatten().all(|d| *d == Dim::UNKNOWN)
}
