//! Optionals as a flag and a value.

use std::collections::HashMap;

use heddle_ir::patch::Stats;
use heddle_ir::{DType, Dim, FuncId, Function, Inst, Module, Op, Tensor, Type, Value};

use super::expand::{Expander, Expansion, expand};
use super::rebuild::{Rebuild, Result};
use crate::Edit;
use crate::callgraph::is_called;
use crate::contents::{Contents, innermost};

/// Replaces optionals by a flag and a value, which is zeros or an empty sequence where there is
/// none. Devices hold arrays; branches and loops give both.
///
/// It does nothing if an optional enters or leaves the program, goes into a sequence, another
/// optional or a call, or holds text.
pub fn open_optionals(module: &mut Module) -> Stats {
    match Optionals::of(module, false) {
        Some(optionals) => optionals.open(module),
        None => Stats::default(),
    }
}

/// The ports of the entry function that were optionals.
#[derive(Clone, Debug)]
pub struct OptionalPorts {
    /// For each parameter.
    pub params: Vec<bool>,
    /// For each result.
    pub results: Vec<bool>,
}

/// As `open_optionals`, also where optionals enter or leave the program: a flag and a value do in
/// their place. `None` if nothing changed.
pub fn open_optional_ports(module: &mut Module) -> Option<OptionalPorts> {
    let is_optional = |port: &(String, Type)| matches!(port.1, Type::Opt(_));
    let sig = module.entry().sig.clone();
    let ports = OptionalPorts {
        params: sig.params.iter().map(is_optional).collect(),
        results: sig.results.iter().map(is_optional).collect(),
    };
    let optionals = Optionals::of(module, true)?;
    (has_ports(module.entry()) && optionals.open(module).total() > 0).then_some(ports)
}

/// The optionals of a module, with the types of their values.
struct Optionals {
    types: HashMap<(FuncId, Value), Type>,
}

impl Optionals {
    fn of(module: &Module, ports: bool) -> Option<Optionals> {
        let mut types = HashMap::new();
        for (id, func) in module.functions.iter() {
            if has_ports(func) && !(ports && module.is_entry(id) && !is_called(module, id)) {
                return None;
            }
        }
        for (id, value, _) in Contents::of(module).members() {
            let func = &module.functions[id];
            match func.ty(value) {
                Type::Opt(inner) if is_plain(inner) => {
                    let is_param = func.regions[func.body].params.contains(&value);
                    let inner = match is_param {
                        true => (**inner).clone(),
                        false => inner.map_dims(&mut |dim| sized(func, dim)),
                    };
                    types.insert((id, value), inner);
                }
                ty if is_plain(ty) => {}
                _ => return None,
            }
        }
        Some(Optionals { types })
    }

    fn open(&self, module: &mut Module) -> Stats {
        let mut ids: Vec<FuncId> = self.types.keys().map(|key| key.0).collect();
        ids.sort();
        ids.dedup();
        expand(module, &ids, self, Edit::OptionalsOpened)
    }
}

impl Expansion for Optionals {
    fn types(&self, id: FuncId, value: Value) -> Option<Vec<Type>> {
        let inner = self.types.get(&(id, value))?;
        Some(vec![Type::scalar(DType::Bool), inner.clone()])
    }

    fn inst(&self, expander: &mut Expander, rebuild: &mut Rebuild, inst: Inst) -> Result<bool> {
        let data = &rebuild.source.insts[inst];
        match &data.op {
            Op::OptSome => {
                let flag = rebuild.b.scalar(DType::Bool, 1.0);
                let value = rebuild.values[&data.args[0]];
                expander.parts.insert(data.results[0], vec![flag, value]);
            }
            Op::OptNone { .. } => {
                let flag = rebuild.b.scalar(DType::Bool, 0.0);
                let value = nothing(rebuild, &self.types[&(expander.id, data.results[0])])?;
                expander.parts.insert(data.results[0], vec![flag, value]);
            }
            Op::OptHas => {
                let flag = expander.parts[&data.args[0]][0];
                rebuild.stands_for(data.results[0], flag);
            }
            Op::OptGet => {
                let parts = &expander.parts[&data.args[0]];
                let (flag, value) = (parts[0], parts[1]);
                let ty = rebuild.b.ty(value).clone();
                rebuild.b.begin_region(&[]);
                let present = rebuild.b.end_region(&[value]);
                rebuild.b.begin_region(&[]);
                let error = rebuild.b.failure("the optional is empty", &ty)?;
                let absent = rebuild.b.end_region(&[error]);
                let value = rebuild.b.if_(flag, present, absent)?[0];
                rebuild.stands_for(data.results[0], value);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Zeros, as small as the type allows, or an empty sequence.
fn nothing(rebuild: &mut Rebuild, ty: &Type) -> Result<Value> {
    let tensor = match ty {
        Type::Tensor(tensor) => tensor,
        Type::Seq(elem) | Type::Opt(elem) => {
            let elem = (**elem).clone();
            return rebuild.b.op1(Op::SeqNew { elem }, &[]);
        }
    };
    let mut sizes = vec![rebuild.b.i64s(&[])];
    for dim in tensor.shape.iter().flatten() {
        let size = match rebuild.b.size_of(dim)? {
            Some(size) => size,
            None => rebuild.b.i64(0),
        };
        sizes.push(rebuild.b.vector_of(size)?);
    }
    let shape = rebuild.b.join(&sizes)?;
    let zero = rebuild.b.constant(Tensor::splat(tensor.dtype, vec![], 0.0));
    rebuild.b.op1(Op::Broadcast, &[zero, shape])
}

/// Arrays, or sequences of arrays, whose zeros are known.
fn is_plain(ty: &Type) -> bool {
    let array = |ty: &Type| matches!(ty, Type::Tensor(_));
    let shape = array(ty) || matches!(ty, Type::Seq(elem) if array(elem));
    shape && innermost(ty).dtype != DType::Str
}

/// A dim of a value that may be absent: zeros have a size that is constant or that of a parameter's
/// axis.
fn sized(func: &Function, dim: &Dim) -> Dim {
    let mut params = func.sig.params.iter().filter_map(|(_, ty)| match ty {
        Type::Tensor(tensor) => tensor.shape.as_ref(),
        Type::Opt(inner) => inner.as_tensor()?.shape.as_ref(),
        Type::Seq(_) => None,
    });
    match dim.as_const().is_some() || params.any(|shape| shape.iter().any(|d| d.equals(dim))) {
        true => dim.clone(),
        false => Dim::UNKNOWN,
    }
}

fn has_ports(func: &Function) -> bool {
    let mut ports = func.sig.params.iter().chain(&func.sig.results);
    ports.any(|(_, ty)| matches!(ty, Type::Opt(_)))
}
