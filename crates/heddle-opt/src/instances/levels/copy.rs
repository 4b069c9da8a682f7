//! Copies of instructions, with operands put in place of those of the source.

use std::collections::HashMap;

use heddle_ir::{DType, Dim, FuncBuilder, Function, Inst, LoopForm, Module, Op, Region, Tensor};
use heddle_ir::{Type, Value};

use crate::batch::{Refusal, Result};

/// A function in the making, with the values that stand for those of a source.
pub(super) struct Copy<'a> {
    pub module: &'a Module,
    pub source: &'a Function,
    pub b: FuncBuilder,
    pub values: HashMap<Value, Value>,
}

impl Copy<'_> {
    pub fn value(&self, value: Value) -> Result<Value> {
        self.values
            .get(&value)
            .copied()
            .ok_or(Refusal::NotEvaluated)
    }

    pub fn all(&self, values: &[Value]) -> Result<Vec<Value>> {
        values.iter().map(|&v| self.value(v)).collect()
    }

    /// Copies an instruction and its regions.
    pub fn inst(&mut self, inst: Inst) -> Result<()> {
        let data = &self.source.insts[inst];
        let args = self.all(&data.args)?;
        let mut regions = vec![];
        for &region in &data.regions {
            regions.push(self.region(region)?);
        }
        self.b.set_loc(data.loc.clone());
        let results = match &data.op {
            Op::Call(id) => self.b.call(*id, &self.module.functions[*id].sig, &args)?,
            Op::If => self.b.if_(args[0], regions[0], regions[1])?,
            op => match LoopForm::of(op) {
                Some(form) => {
                    let parts = form.operands(&args);
                    let (trip, cond) = (parts.trip.copied(), parts.cond.copied());
                    self.b.loop_(trip, cond, parts.inits, regions[0])?
                }
                None => self.b.op(op.clone(), &args)?,
            },
        };
        self.stand_for(&data.results, &results);
        Ok(())
    }

    fn region(&mut self, region: Region) -> Result<Region> {
        let data = &self.source.regions[region];
        let types = data.params.iter().map(|&v| self.source.ty(v).clone());
        let (_, params) = self.b.begin_region(&types.collect::<Vec<_>>());
        self.stand_for(&data.params, &params);
        for &inst in &data.insts {
            self.inst(inst)?;
        }
        let yields = self.all(&data.yields)?;
        Ok(self.b.end_region(&yields))
    }

    /// Notes that values stand for those of the source, and have their types.
    pub fn stand_for(&mut self, old: &[Value], new: &[Value]) {
        for (&old, &new) in old.iter().zip(new) {
            if let Some(met) = self.b.ty(new).meet(self.source.ty(old)) {
                self.b.refine_type(new, met).expect("both are true of it");
            }
            if let Some(name) = &self.source.values[old].name {
                self.b.set_name(new, name);
            }
            self.values.insert(old, new);
        }
    }
}

/// Zeros of a type; nothing along a first axis of unknown size.
pub(super) fn zeros(b: &mut FuncBuilder, ty: &Type) -> Result<Value> {
    let tensor = ty.as_tensor().ok_or(Refusal::NoTensor)?;
    let shape = tensor.shape.as_ref().ok_or(Refusal::UnknownRank)?;
    if !tensor.dtype.is_arith() && tensor.dtype != DType::Bool {
        return Err(Refusal::NoTensor);
    }
    let zero = b.constant(Tensor::splat(tensor.dtype, vec![], 0.0));
    let mut sizes = vec![];
    for (axis, dim) in shape.iter().enumerate() {
        let size = match dim {
            Dim::Unknown(_) if axis == 0 => b.i64(0),
            dim => b.size_of(dim)?.ok_or(Refusal::UnknownSize)?,
        };
        sizes.push(b.vector_of(size)?);
    }
    match sizes[..] {
        [] => Ok(zero),
        _ => {
            let sizes = b.join(&sizes)?;
            Ok(b.op1(Op::Broadcast, &[zero, sizes])?)
        }
    }
}

/// The type with another axis of unknown size in front.
pub(in crate::instances) fn with_rows(ty: &Type) -> Type {
    let mut ty = ty.clone();
    if let Type::Tensor(t) = &mut ty
        && let Some(shape) = &mut t.shape
    {
        shape.insert(0, Dim::UNKNOWN);
    }
    ty
}
