//! Tests in one pass over the nodes, without the walk, for a small tree, which is left to
//! individual calls.

use heddle_ir::op::{BinaryOp, CompareOp, UnaryOp};
use heddle_ir::{FuncBuilder, Op, Value};

use super::analyze::Recursion;
use super::walk;
use crate::batch::Result;
use crate::transform::index_precompute::no;

/// Maximum number of nodes: such a tree is at most half as deep as calls may nest by default.
const MAX_NODES: i64 = 512;

/// `bool[]`: no node has two callers, so there are no more calls than nodes; and there are few
/// enough nodes that no call is too deep. Endless calls still end with an error. False for more
/// nodes.
pub fn is_small_tree(b: &mut FuncBuilder, recursion: &Recursion, extent: Value) -> Result<Value> {
    let members = b.i64(recursion.members.len() as i64);
    let (count, most) = (b.binary(BinaryOp::Mul, extent, members)?, b.i64(MAX_NODES));
    let few = b.compare(CompareOp::Le, count, most)?;
    // In a region of its own, so that the walk reuses none of it: it fuses into a few operators of
    // one unit.
    b.begin_region(&[]);
    let params = b.params().to_vec();
    let states = walk::states(b, recursion, extent, &params)?;
    let one = b.i64(1);
    let all = b.binary(BinaryOp::Add, states.count, one)?;
    let all = b.vector_of(all)?;
    let each = b.op1(Op::Broadcast, &[one, all])?;
    let shared = walk::is_shared(b, &states, each)?;
    let tree = b.op1(Op::Unary(UnaryOp::Not), &[shared])?;
    let then = b.end_region(&[tree]);
    b.begin_region(&[]);
    let no = b.constant(no());
    let otherwise = b.end_region(&[no]);
    Ok(b.if_(few, then, otherwise)?[0])
}
