//! One function's body: the values that may be used, and steps that add to them.

use std::collections::HashMap;
use std::sync::Arc;

use heddle_ir::{
    DType, Dim, Entity, FuncBuilder, Function, Loc, Op, Place, Signature, Tensor, Type, Value,
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::program::{FUEL, Helper};
use crate::{Config, data};

/// No axis that a program computes is longer.
pub(crate) const MAX_SIZE: usize = 5;
/// No value that is used again has more axes.
pub(crate) const MAX_AXES: usize = 3;

pub(crate) struct Body<'a> {
    pub(crate) rng: &'a mut ChaCha8Rng,
    pub(crate) config: &'a Config,
    pub(crate) b: FuncBuilder,
    sig: Signature,
    pub(crate) helpers: &'a [Helper],
    /// Values that may be used here, of at most [`MAX_AXES`] axes of at most [`MAX_SIZE`].
    pub(crate) pool: Vec<Value>,
    /// Depth of nesting.
    pub(crate) depth: usize,
    /// Upper bound on evaluations of the code at this place.
    times: u64,
    cost: u64,
    limit: u64,
    /// Instructions whose cost is counted.
    counted: usize,
}

impl<'a> Body<'a> {
    pub(crate) fn new(
        rng: &'a mut ChaCha8Rng,
        config: &'a Config,
        sig: Signature,
        helpers: &'a [Helper],
        limit: u64,
    ) -> Self {
        let b = FuncBuilder::new(sig.clone());
        Self {
            pool: b.params().to_vec(),
            rng,
            config,
            b,
            sig,
            helpers,
            depth: 0,
            times: 1,
            cost: 0,
            limit,
            counted: 0,
        }
    }

    /// The entry: its results are any values of its body.
    pub(crate) fn main(&mut self) -> Vec<(String, Value)> {
        self.block(self.config.steps);
        let count = self.rng.random_range(1..5);
        let pick = |i| {
            let name = if i == 0 {
                "out put".to_string()
            } else {
                format!("y{i}")
            };
            // Late values depend on more.
            let from = self.pool.len() / 2;
            (
                name,
                self.pool[self.rng.random_range(from..self.pool.len())],
            )
        };
        (0..count).map(pick).collect()
    }

    /// A function with the signature's results; `peers` may be called while there is fuel.
    pub(crate) fn helper(&mut self, helper: &Helper, peers: &[Helper]) -> Vec<(String, Value)> {
        self.block(self.config.steps / 3);
        let names: Vec<_> = helper.sig.results.iter().map(|r| r.0.clone()).collect();
        if peers.is_empty() {
            let values = self.declared_results();
            return names.into_iter().zip(values).collect();
        }
        let fuel = self.b.params()[0];
        let zero = self.b.i64(0);
        let mut more = self.op(Op::Compare(heddle_ir::op::CompareOp::Gt), &[fuel, zero]);
        if self.rng.random_bool(0.3) {
            let other = self.scalar(DType::Bool);
            more = self.op(Op::Binary(heddle_ir::op::BinaryOp::And), &[more, other]);
        }
        let outer = self.pool.len();
        self.b.begin_region(&[]);
        let one = self.b.i64(1);
        let less = self.op(Op::Binary(heddle_ir::op::BinaryOp::Sub), &[fuel, one]);
        for _ in 0..self.rng.random_range(1..3) {
            let peer = peers[self.rng.random_range(0..peers.len())].clone();
            self.call(&peer, Some(less));
        }
        self.block(2);
        let yields = self.declared_results();
        self.pool.truncate(outer);
        let then = self.b.end_region(&yields);
        self.b.begin_region(&[]);
        self.block(2);
        let yields = self.declared_results();
        self.pool.truncate(outer);
        let otherwise = self.b.end_region(&yields);
        let values = self.b.if_(more, then, otherwise);
        let values = values.unwrap_or_else(|e| panic!("{e}"));
        names.into_iter().zip(values).collect()
    }

    /// Values of the types that the signature declares for the results.
    fn declared_results(&mut self) -> Vec<Value> {
        let sig = self.sig.clone();
        let mut sizes: HashMap<String, Value> = HashMap::new();
        for (i, (_, ty)) in sig.params.iter().enumerate() {
            for (axis, dim) in dims(ty).iter().enumerate() {
                if let Some(name) = dim.as_expr().and_then(|e| e.as_sym()) {
                    let param = self.b.params()[i];
                    let size = self.size(param, axis);
                    sizes.insert(name.to_string(), size);
                }
            }
        }
        let types: Vec<_> = sig.results.into_iter().map(|r| r.1).collect();
        types.iter().map(|ty| self.of_type(ty, &sizes)).collect()
    }

    /// A value of a tensor type whose named sizes are these.
    pub(crate) fn of_type(&mut self, ty: &Type, sizes: &HashMap<String, Value>) -> Value {
        let t = ty.as_tensor().expect("helpers take and give tensors");
        let x = self.tensor_of(t.dtype);
        let mut parts = vec![];
        for dim in dims(ty) {
            parts.push(match dim.as_expr().and_then(|e| e.as_sym()) {
                Some(name) => self.op(Op::Unsqueeze { axes: vec![0] }, &[sizes[name.as_ref()]]),
                None => self.b.i64s(&[dim.as_const().unwrap_or(0)]),
            });
        }
        let shape = match parts.is_empty() {
            true => self.b.i64s(&[]),
            false => self.op(Op::Concat { axis: 0 }, &parts),
        };
        self.fit(x, shape)
    }

    /// Calls a helper with arguments that fit, and keeps the results.
    pub(crate) fn call(&mut self, helper: &Helper, fuel: Option<Value>) {
        let mut sizes = HashMap::new();
        for (_, ty) in &helper.sig.params {
            for dim in dims(ty) {
                if let Some(name) = dim.as_expr().and_then(|e| e.as_sym()) {
                    let size = self.some_size();
                    sizes.insert(name.to_string(), size);
                }
            }
        }
        let mut args = vec![];
        for (i, (_, ty)) in helper.sig.params.iter().enumerate() {
            args.push(match i == 0 && helper.has_fuel {
                true => fuel.unwrap_or_else(|| self.below(FUEL + 1)),
                false => self.of_type(ty, &sizes),
            });
        }
        let results = self.b.call(helper.id, &helper.sig, &args);
        for v in results.unwrap_or_else(|e| panic!("{e}")) {
            self.keep(v);
        }
        // Calls of a peer are counted where the recursion is.
        self.cost += helper.cost * self.times;
    }

    pub(crate) fn finish(self, results: Vec<(String, Value)>) -> Function {
        self.b.finish(&results)
    }

    // ---- cost

    /// Estimated number of instructions that a run of the body evaluates.
    pub(crate) fn cost(&mut self) -> u64 {
        let count = self.b.func().insts.len();
        self.cost += (count - self.counted) as u64 * self.times;
        self.counted = count;
        self.cost
    }

    /// Does the budget allow another construct of this cost here?
    pub(crate) fn affords(&mut self, cost: u64) -> bool {
        self.cost() + cost * self.times <= self.limit
    }

    /// Code generated from here on is evaluated `factor` times as often; gives the old count, to
    /// restore.
    pub(crate) fn repeat(&mut self, factor: u64) -> u64 {
        self.cost();
        let times = self.times;
        self.times *= factor;
        times
    }

    pub(crate) fn set_times(&mut self, times: u64) {
        self.cost();
        self.times = times;
    }

    // ---- values

    /// Appends an op that fits by construction.
    pub(crate) fn op(&mut self, op: Op, args: &[Value]) -> Value {
        self.ops(op, args)[0]
    }

    pub(crate) fn ops(&mut self, op: Op, args: &[Value]) -> Vec<Value> {
        let types: Vec<_> = args.iter().map(|v| self.b.ty(*v).to_string()).collect();
        let results = self.b.op(op, args);
        results.unwrap_or_else(|e| panic!("{e} ({})", types.join(", ")))
    }

    pub(crate) fn constant(&mut self, dtype: DType, shape: Vec<usize>) -> Value {
        let t = data::tensor(self.rng, dtype, shape);
        self.b.constant(t)
    }

    pub(crate) fn rank(&self, v: Value) -> usize {
        dims(self.b.ty(v)).len()
    }

    pub(crate) fn dtype(&self, v: Value) -> DType {
        self.b.ty(v).as_tensor().expect("a tensor").dtype
    }

    /// A value from the pool, if one satisfies the condition.
    pub(crate) fn pick(&mut self, mut ok: impl FnMut(&Type) -> bool) -> Option<Value> {
        let all: Vec<_> = self
            .pool
            .iter()
            .copied()
            .filter(|v| ok(self.b.ty(*v)))
            .collect();
        (!all.is_empty()).then(|| all[self.rng.random_range(0..all.len())])
    }

    /// Some tensor of known rank.
    pub(crate) fn tensor(&mut self) -> Value {
        let picked = match self.rng.random_range(0..12) {
            0 => None,
            _ => self.pick(|t| t.as_tensor().is_some_and(|t| t.dtype != DType::Str)),
        };
        let Some(v) = picked else {
            let dtype = data::dtype(self.rng);
            let shape = self.static_shape();
            return self.constant(dtype, shape);
        };
        match self.b.ty(v).as_tensor().and_then(|t| t.rank()) {
            Some(_) => v,
            None => self.flat(v),
        }
    }

    /// Some tensor of known rank and this element type.
    pub(crate) fn tensor_of(&mut self, dtype: DType) -> Value {
        let same = self.pick(|t| {
            t.as_tensor()
                .is_some_and(|t| t.dtype == dtype && t.rank().is_some())
        });
        match (same, self.rng.random_range(0..8)) {
            (_, 0) => {
                let shape = self.static_shape();
                self.constant(dtype, shape)
            }
            (Some(v), 1..7) => v,
            _ => {
                let x = self.tensor();
                self.cast(x, dtype)
            }
        }
    }

    pub(crate) fn cast(&mut self, x: Value, dtype: DType) -> Value {
        match self.dtype(x) == dtype {
            true => x,
            false => self.op(Op::cast(dtype), &[x]),
        }
    }

    /// Some scalar of this element type.
    pub(crate) fn scalar(&mut self, dtype: DType) -> Value {
        let x = self.tensor_of(dtype);
        if self.rank(x) == 0 {
            return x;
        }
        let kind = match dtype {
            DType::Bool => heddle_ir::op::ReduceOp::Max,
            _ => heddle_ir::op::ReduceOp::Sum,
        };
        let axes = (0..self.rank(x)).collect();
        self.op(
            Op::Reduce {
                kind,
                axes,
                keep: false,
            },
            &[x],
        )
    }

    /// Some `i64[]` from 0 to below `limit`.
    pub(crate) fn below(&mut self, limit: i64) -> Value {
        if self.rng.random_bool(0.5) {
            let value = self.rng.random_range(0..limit);
            return self.b.i64(value);
        }
        let (x, limit) = (self.scalar(DType::I64), self.b.i64(limit));
        self.op(Op::Binary(heddle_ir::op::BinaryOp::Mod), &[x, limit])
    }

    pub(crate) fn static_shape(&mut self) -> Vec<usize> {
        let rank = self.rng.random_range(0..MAX_AXES);
        (0..rank).map(|_| self.rng.random_range(0..4)).collect()
    }

    /// Adds a tensor to the pool, flattened and cut where it is larger than values may be; anything
    /// else as it is.
    pub(crate) fn keep(&mut self, v: Value) {
        let v = match self.b.ty(v) {
            Type::Tensor(t) => match t.rank() {
                Some(rank) if rank <= MAX_AXES => self.cut(v),
                Some(_) => self.flat(v),
                None => v,
            },
            _ => v,
        };
        self.decorate(v);
        self.pool.push(v);
    }

    /// Names and places that the text form has to keep.
    fn decorate(&mut self, v: Value) {
        if self.rng.random_bool(0.2) {
            let names = [
                "x",
                "x.1",
                "odd name/0",
                "if",
                "5",
                "a\"b\\",
                "é\n",
                "",
                "fn@%",
            ];
            let name = names[self.rng.random_range(0..names.len())];
            self.b.set_name(v, name);
        }
        if self.rng.random_bool(0.1) {
            let loc = self.rng.random_bool(0.7).then(|| Loc::Node {
                op: ["Conv", "my.domain::Op"][self.rng.random_range(0..2)].into(),
                name: ["node", "a \"node\""][self.rng.random_range(0..2)].into(),
                // Without a draw: programs of a seed stay what they are.
                place: v.index().is_multiple_of(3).then(|| Place {
                    file: ["model.py", "a \"file\"\n"][v.index() % 2].into(),
                    line: v.index() as u32,
                }),
            });
            self.b.set_loc(loc.map(Arc::new));
        }
    }

    /// Adds up to `count` steps.
    pub(crate) fn block(&mut self, count: usize) {
        let count = count.max(1);
        for _ in 0..self.rng.random_range(count.div_ceil(3)..=count) {
            if !self.affords(12) {
                return;
            }
            self.step();
        }
    }

    fn step(&mut self) {
        match self.rng.random_range(0..100) {
            0..20 if self.depth < self.config.depth => self.control(),
            0..40 => self.elementwise(),
            40..56 => self.view(),
            56..70 => self.indexing(),
            70..84 => self.order(),
            84..92 => self.window(),
            _ => self.sequence(),
        }
    }
}

/// The dims of a tensor type of known rank; none of others.
pub(crate) fn dims(ty: &Type) -> &[Dim] {
    let shape = ty.as_tensor().and_then(|t| t.shape.as_deref());
    shape.unwrap_or(&[])
}

/// A constant of strings.
pub(crate) fn strings(words: &[&str]) -> Tensor {
    let words: Vec<Box<str>> = words.iter().map(|w| (*w).into()).collect();
    Tensor::strings(vec![words.len()], words).expect("as many as the shape says")
}
