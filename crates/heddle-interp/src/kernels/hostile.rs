//! Kernels get operands of the right element types, but of any shape and value: the result is a
//! value or an error, never a panic.

use heddle_ir::op::*;
use heddle_ir::{Op, Tensor};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::eval;
use crate::context::Context;
use crate::marshal::from_tensor;
use crate::value::Val;

struct Draw(ChaCha8Rng);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n as u64) as usize
    }

    fn shape(&mut self) -> Vec<usize> {
        (0..self.below(5)).map(|_| self.below(4)).collect()
    }

    fn number(&mut self) -> i64 {
        match self.below(12) {
            0 => i64::MIN,
            1 => i64::MAX,
            2 => 1 << 40,
            3 => -(1 << 62),
            _ => self.below(7) as i64 - 3,
        }
    }

    fn numbers(&mut self, shape: Vec<usize>) -> Tensor {
        let n = shape.iter().product();
        let values: Vec<i64> = (0..n).map(|_| self.number()).collect();
        Tensor::from_slice(shape, &values)
    }

    fn list(&mut self) -> Tensor {
        let n = self.below(9);
        self.numbers(vec![n])
    }

    fn data(&mut self) -> Tensor {
        let shape = self.shape();
        self.numbers(shape)
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    fn lengths(&mut self, n: usize) -> Vec<usize> {
        (0..n).map(|_| 1 + self.below(3)).collect()
    }

    /// An op with operands.
    fn instruction(&mut self) -> (Op, Vec<Tensor>) {
        let axis = self.below(4);
        let axes: Vec<usize> = (0..4).filter(|_| self.flag()).collect();
        let kind = ReduceOp::ALL[self.below(4)];
        let extreme = Extreme::ALL[self.below(2)];
        let reduce = ScatterReduce::ALL[self.below(ScatterReduce::ALL.len())];
        let (keep, flag, n) = (self.flag(), self.flag(), self.below(3));
        let spatial = self.below(3);
        let strides = self.lengths(spatial);
        let (x, y, z) = (self.data(), self.data(), self.data());
        let (p, q, r) = (self.list(), self.list(), self.list());
        let scalars = [(); 3].map(|()| self.numbers(vec![]));
        let [s, t, u] = scalars;
        match self.below(23) {
            0 => (Op::Binary(BinaryOp::ALL[self.below(14)]), vec![x, y]),
            1 => (Op::Compare(CompareOp::Lt), vec![x, y]),
            2 => (Op::Reshape, vec![x, p]),
            3 => (
                Op::Transpose {
                    perm: vec![1, 2, 0],
                },
                vec![x],
            ),
            4 => (Op::Squeeze { axes }, vec![x]),
            5 => (Op::Unsqueeze { axes }, vec![x]),
            6 => (Op::Broadcast, vec![x, p]),
            7 => (Op::Slice { axes }, vec![x, p, q, r]),
            8 => (Op::Concat { axis }, vec![x, y, z]),
            9 => {
                let mode = PadMode::ALL[self.below(4)];
                (Op::Pad { mode }, vec![x, p, s])
            }
            10 => (Op::Gather { axis }, vec![x, y]),
            11 => (Op::GatherElements { axis }, vec![x, y]),
            12 => (Op::GatherNd { batch_dims: n }, vec![x, y]),
            13 => (Op::ScatterElements { axis, reduce }, vec![x, y, z]),
            14 => (Op::ScatterNd { reduce }, vec![x, y, z]),
            15 => (Op::UpdateSlice, vec![x, y, p]),
            16 => (Op::Range, vec![s, t, u]),
            17 => (Op::Reduce { kind, axes, keep }, vec![x]),
            18 => match n {
                0 => (
                    Op::ArgReduce {
                        kind: extreme,
                        axis,
                        keep,
                        last: flag,
                    },
                    vec![x],
                ),
                1 => (
                    Op::TopK {
                        axis,
                        kind: extreme,
                    },
                    vec![x, s],
                ),
                _ => (
                    Op::Unique {
                        axis: flag.then_some(axis),
                        sorted: keep,
                    },
                    vec![x],
                ),
            },
            19 => (Op::Dot, vec![x, y]),
            20 => (
                Op::Conv {
                    dilations: self.lengths(spatial),
                    input_dilations: self.lengths(spatial),
                    strides,
                    groups: 1 + n,
                },
                vec![x, y, p],
            ),
            21 => (Op::SegmentReduce { kind }, vec![x, p]),
            _ => match flag {
                true => (
                    Op::Window {
                        kind,
                        window: self.lengths(spatial),
                        dilations: self.lengths(spatial),
                        strides,
                    },
                    vec![x, p],
                ),
                false => (
                    Op::SeqSplit {
                        axis,
                        squeeze: keep,
                    },
                    vec![x, p],
                ),
            },
        }
    }
}

#[test]
fn anything_is_a_value_or_an_error() {
    let mut draw = Draw(ChaCha8Rng::seed_from_u64(1));
    let (mut values, mut errors) = (0, 0);
    for _ in 0..200_000 {
        let (op, operands) = draw.instruction();
        let cx = Context::new(false, 1 << 24, None, 1 << 24);
        let args: Vec<Val> = operands
            .iter()
            .map(|t| from_tensor(t, &cx).unwrap().into())
            .collect();
        match eval(&cx, &op, args) {
            Ok(_) => values += 1,
            Err(_) => errors += 1,
        }
    }
    assert!(values > 20_000 && errors > 20_000, "{values} {errors}");
}
