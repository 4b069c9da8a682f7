//! The graph IR: types, ops, regions, functions, builder, verifier, text form.
//!
//! A [`Module`] holds [`Function`]s; a function's body is a [`Region`](RegionData): a list of instructions over SSA
//! values. Tensor ops are pure. Control flow is structured: `if` and `loop` own regions, which may use all
//! values defined before their owner in the regions around them; `call` names a function, which may be the
//! caller itself. An instruction is evaluated each time its region is, in order; there are no other effects.
//!
//! The grammar of the text form stands at the top of [`text`], what every program satisfies at the top of
//! [`mod@verify`], and what each op means at [`op::Op`].

mod bounds;
pub mod builder;
mod copy;
pub mod dim;
pub mod dtype;
pub mod entity;
mod failure;
pub mod function;
pub mod infer;
mod loops;
mod one_line;
pub mod op;
pub mod patch;
pub mod tensor;
pub mod text;
pub mod types;
pub mod verify;

pub use bounds::Bounds;
pub use builder::{Draws, Emit, EmitError, Folder, FuncBuilder};
pub use copy::{Copier, CopyTypes};
pub use dim::{Dim, DimBound, DimExpr};
pub use dtype::DType;
pub use entity::{Arena, Entity, FuncId, Inst, Region, Value};
pub use failure::{cannot_fail, region_cannot_fail};
pub use function::{
    Function, InstData, Loc, MAX_COPIED_INSTS, MAX_NESTING, Module, Place, RegionData, Signature,
    UnknownEntry, ValueData, ValueDef,
};
pub use infer::TypeError;
pub use loops::{LoopForm, LoopOperands, LoopView, LoopYields};
pub use one_line::OneLine;
pub use op::Op;
pub use patch::{Patch, PatchError, Stats};
pub use tensor::{Datum, Tensor, TensorError};
pub use types::{TensorType, Type};
pub use verify::{VerifyError, verify};
