//! Interpolation kernels.

use heddle_ir::op::CompareOp;
use heddle_ir::{Emit, Value};

use super::cx::{NodeCx, Result};

/// Keys' kernel with parameter `a` at distances that are not negative.
pub(super) fn cubic_kernel(cx: &mut NodeCx, d: Value, a: f64) -> Result<Value> {
    // (a+2) d^3 - (a+3) d^2 + 1
    let near = polynomial(cx, d, &[a + 2.0, -(a + 3.0), 0.0, 1.0])?;
    // a d^3 - 5a d^2 + 8a d - 4a
    let far = polynomial(cx, d, &[a, -5.0 * a, 8.0 * a, -4.0 * a])?;
    let [zero, one, two] = [0.0, 1.0, 2.0].map(|v| cx.real_like(d, v));
    let (zero, one, two) = (zero?, one?, two?);
    let is_near = cx.compare(CompareOp::Le, d, one)?;
    let is_far = cx.compare(CompareOp::Lt, d, two)?;
    let far = cx.select(is_far, far, zero)?;
    cx.select(is_near, near, far)
}

/// A polynomial by Horner's rule, the highest power first.
fn polynomial(cx: &mut NodeCx, x: Value, coefficients: &[f64]) -> Result<Value> {
    let mut sum = cx.real_like(x, coefficients[0])?;
    for &c in &coefficients[1..] {
        let c = cx.real_like(x, c)?;
        let product = cx.mul(sum, x)?;
        sum = cx.add(product, c)?;
    }
    Ok(sum)
}
