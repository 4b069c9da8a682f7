//! Lets tensor cores round the operands of products.

use heddle_ir::DType;
use heddle_machine::Machine;
use heddle_uprogram::contract::Rounding;
use heddle_uprogram::program::{Body, UProgram};

use crate::cost::cores_ns;

/// Allows operands of contractions of `f32` to be rounded to a type that tensor cores multiply. Sums and all else stay `f32`. Where a
/// schedule multiplies without tensor cores, nothing is rounded. It runs after [`select_kernels`](crate::select_kernels()), and leaves
/// contractions alone whose operands are numbers of a type of tensor cores already.
pub fn round_products(program: &mut UProgram, to: Rounding) {
    for id in program.running() {
        if let Body::Contract(c) = &mut program.operators[id].body
            && c.dtype == DType::F32
            && c.rounding.is_none()
        {
            c.rounding = Some(to);
        }
    }
}

/// Does a machine have tensor cores that multiply this type?
pub fn has_cores(machine: &Machine, to: Rounding) -> bool {
    cores_ns(machine, to).is_some()
}
