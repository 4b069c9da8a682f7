//! Sequences of dynamic length as arrays.

mod layout;
mod list;

use heddle_ir::op::BinaryOp;
use heddle_ir::patch::Stats;
use heddle_ir::{FuncId, Function, Inst, Module, Op, TensorType, Type, Value};

use super::expand::{Expander, Expansion, expand};
use super::rebuild::{Rebuild, Result};
use crate::Edit;
use layout::Forms;
pub use layout::{SequenceForm, SequenceLayout};
use list::List;

/// Replaces sequences by arrays that hold their elements behind each other, which grow where
/// elements are appended: sequences of dynamic length, in loops, branches and calls. Devices hold
/// arrays, and an array that a loop carries grows in place.
///
/// It does nothing if a sequence enters or leaves the program, holds text or sequences, or lies in
/// an optional.
pub fn flatten_sequences(module: &mut Module) -> Stats {
    match Forms::of(module, false) {
        Some(forms) => flatten(module, &forms),
        None => Stats::default(),
    }
}

/// The arrays that stand for ports of the entry function that are sequences; `None` for other ports.
#[derive(Clone, Debug)]
pub struct FlatPorts {
    /// For each parameter.
    pub params: Vec<Option<SequenceForm>>,
    /// For each result.
    pub results: Vec<Option<SequenceForm>>,
}

/// As `flatten_sequences`, also where sequences enter or leave the program: arrays do in their
/// place, of the types that [`SequenceForm::types`] lists. `None` if nothing changed.
pub fn flatten_ports(module: &mut Module) -> Option<FlatPorts> {
    let (id, func) = (module.entry_id()?, module.entry());
    if !layout::has_ports(func) {
        return None;
    }
    let forms = Forms::of(module, true)?;
    let body = &func.regions[func.body];
    let port = |v: &Value| forms.get(id, *v).cloned();
    let ports = FlatPorts {
        params: body.params.iter().map(port).collect(),
        results: body.yields.iter().map(port).collect(),
    };
    (flatten(module, &forms).total() > 0).then_some(ports)
}

/// As `flatten_ports`, if all elements of each sequence have one shape: one array stands for each.
/// False if nothing changed.
pub(crate) fn flatten_equal(module: &mut Module) -> bool {
    let forms = Forms::of(module, true).filter(Forms::are_rows);
    forms.is_some_and(|forms| flatten(module, &forms).total() > 0)
}

fn flatten(module: &mut Module, forms: &Forms) -> Stats {
    expand(module, &forms.functions(), forms, Edit::SequencesFlattened)
}

impl Expansion for Forms {
    fn types(&self, id: FuncId, value: Value) -> Option<Vec<Type>> {
        self.get(id, value).map(SequenceForm::types)
    }

    fn inst(&self, expander: &mut Expander, rebuild: &mut Rebuild, inst: Inst) -> Result<bool> {
        let func = rebuild.source;
        let data = &func.insts[inst];
        match &data.op {
            Op::SeqNew { .. } | Op::SeqInsert | Op::SeqErase | Op::SeqSplit { .. } => {
                let list = self.built(expander, rebuild, inst)?;
                expander.parts.insert(data.results[0], list.arrays);
            }
            Op::SeqAt | Op::SeqLen | Op::SeqConcat { .. } => {
                let list = self.list(expander, data.args[0]);
                let b = &mut rebuild.b;
                let value = match data.op {
                    Op::SeqAt => {
                        let rank = func
                            .ty(data.results[0])
                            .as_tensor()
                            .and_then(TensorType::rank);
                        list.at(b, rebuild.values[&data.args[1]], rank)?
                    }
                    Op::SeqConcat { axis, stack } => list.concat(b, axis, stack)?,
                    _ => list.length(b)?,
                };
                rebuild.stands_for(data.results[0], value);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Forms {
    /// The sequence that an instruction builds.
    fn built(&self, expander: &Expander, rebuild: &mut Rebuild, inst: Inst) -> Result<List> {
        let data = &rebuild.source.insts[inst];
        let value = |i: usize| rebuild.values[&data.args[i]];
        let form = || {
            self.get(expander.id, data.results[0])
                .expect("a form for each sequence")
        };
        match data.op {
            Op::SeqInsert => {
                let list = self.list(expander, data.args[0]);
                let x = value(1);
                match is_length(rebuild.source, data.args[2], data.args[0]) {
                    true => list.append(&mut rebuild.b, x),
                    false => {
                        let position = value(2);
                        list.insert(&mut rebuild.b, x, position)
                    }
                }
            }
            Op::SeqErase => {
                let position = value(1);
                let list = self.list(expander, data.args[0]);
                list.erase(&mut rebuild.b, position)
            }
            Op::SeqSplit { axis, squeeze } => {
                let operands = (value(0), value(1));
                List::split(&mut rebuild.b, form(), operands, axis, squeeze)
            }
            _ => {
                let elements = rebuild.all(&data.args);
                List::new(&mut rebuild.b, form(), &elements)
            }
        }
    }

    fn list(&self, expander: &Expander, sequence: Value) -> List {
        let form = self.get(expander.id, sequence);
        List {
            form: form.expect("a form for each sequence").clone(),
            arrays: expander.parts[&sequence].clone(),
        }
    }
}

/// Is a value the length of a sequence, as written for an insertion at its end?
fn is_length(func: &Function, value: Value, sequence: Value) -> bool {
    let Some(data) = func.def_inst(value).map(|inst| &func.insts[inst]) else {
        return false;
    };
    let longer = func.def_inst(sequence).map(|inst| &func.insts[inst]);
    match (&data.op, longer) {
        (Op::SeqLen, _) if data.args[0] == sequence => true,
        (Op::Binary(BinaryOp::Add), Some(longer)) if longer.op == Op::SeqInsert => {
            let is_one = func.constant(data.args[1]).and_then(|t| t.to_i64s()) == Some(vec![1]);
            is_one && is_length(func, data.args[0], longer.args[0])
        }
        _ => false,
    }
}
