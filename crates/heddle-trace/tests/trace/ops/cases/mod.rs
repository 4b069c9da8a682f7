//! Cases by family, one file each.

pub mod bags;
pub mod complex;
pub mod creation;
pub mod draws;
pub mod elementwise;
pub mod indexing;
pub mod layers;
pub mod products;
pub mod recurrent;
pub mod reductions;
pub mod shapes;
pub mod sizes;
pub mod windows;

use heddle_ir::Tensor;
use serde_json::{Value as Json, json};

use super::Done;
use crate::common::*;

/// `1, 2, …` of a shape.
fn count(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    f32s(shape, &(1..=n).map(|i| i as f32).collect::<Vec<_>>())
}

/// `[[1, 2, 3], [4, 5, 6]]`, and nothing of the same width.
fn x23() -> (&'static str, Tensor) {
    ("f32[n,3]", count(&[2, 3]))
}

fn none3() -> (&'static str, Tensor) {
    ("f32[n,3]", f32s(&[0, 3], &[]))
}

impl Done {
    /// A case on `x23`, and one on no rows, of which only the shape is checked.
    fn rows(
        &mut self,
        target: &str,
        args: Json,
        ty: &str,
        shape: &[usize],
        expected: &[f64],
        empty: &[usize],
    ) {
        self.one(target, args.clone(), &[x23()], ty, shape, expected);
        let found = self.run(target, args, json!({}), &[none3()], &[ty]);
        assert_eq!(found[0].shape(), empty, "{target}");
    }
}
