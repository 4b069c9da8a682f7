//! Operations on text.

use heddle_ir::op::StrOp;

use crate::context::Context;
use crate::error::Fault;
use crate::value::Val;

/// Evaluates an op on text.
pub fn eval(_cx: &Context, _op: &StrOp, _args: &[Val]) -> Result<Vec<Val>, Fault> {
    Err(Fault::Unsupported("operations on text".into()))
}
