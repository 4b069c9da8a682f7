//! Sequences of dynamic length as arrays.

mod layout;
mod list;

use std::collections::HashMap;

use heddle_ir::op::BinaryOp;
use heddle_ir::patch::Stats;
use heddle_ir::{
    FuncBuilder, FuncId, Function, Inst, LoopView, Module, Op, Region, Signature, Type, Value,
};

use super::rebuild::{Rebuild, Result};
use crate::Edit;
use layout::Forms;
pub use layout::{SequenceForm, SequenceLayout};
use list::List;

/// Replaces sequences by arrays that hold their elements behind each other, which grow where
/// elements are appended: sequences of dynamic length, in loops, branches and calls. Devices hold
/// arrays, and an array that a loop carries grows in place.
///
/// It does nothing if a sequence enters or leaves the program, holds text, sequences or tensors of
/// different ranks, or lies in an optional.
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

fn flatten(module: &mut Module, forms: &Forms) -> Stats {
    let mut stats = Stats::default();
    let ids = forms.functions();
    if ids.is_empty() {
        return stats;
    }
    let signatures: HashMap<FuncId, Signature> = module
        .functions
        .iter()
        .map(|(id, func)| (id, signature(forms, id, func)))
        .collect();
    let mut flat = vec![];
    for &id in &ids {
        match Flattener::new(forms, &signatures, id).function(module) {
            Ok(function) => flat.push((id, function)),
            // Functions change together or not at all.
            Err(error) => {
                stats.rejected.push(error.to_string());
                return stats;
            }
        }
    }
    for (id, function) in flat {
        module.functions[id] = function;
        stats.record(Edit::SequencesFlattened);
    }
    stats
}

/// The signature with arrays instead of sequences.
fn signature(forms: &Forms, id: FuncId, func: &Function) -> Signature {
    let body = &func.regions[func.body];
    let flat = |ports: &[(String, Type)], values: &[Value]| {
        let mut all = vec![];
        for ((name, ty), &value) in ports.iter().zip(values) {
            match forms.get(id, value) {
                None => all.push((name.clone(), ty.clone())),
                Some(form) => {
                    let types = form.types().into_iter().enumerate();
                    all.extend(types.map(|(k, ty)| (format!("{name}.{k}"), ty)));
                }
            }
        }
        all
    };
    Signature {
        params: flat(&func.sig.params, &body.params),
        results: flat(&func.sig.results, &body.yields),
        ..(*func.sig).clone()
    }
}

struct Flattener<'a> {
    forms: &'a Forms,
    signatures: &'a HashMap<FuncId, Signature>,
    id: FuncId,
    /// The arrays of each sequence of the source.
    lists: HashMap<Value, List>,
}

impl<'a> Flattener<'a> {
    fn new(forms: &'a Forms, signatures: &'a HashMap<FuncId, Signature>, id: FuncId) -> Self {
        Flattener {
            forms,
            signatures,
            id,
            lists: HashMap::new(),
        }
    }

    fn function(mut self, module: &Module) -> Result<Function> {
        let source = &module.functions[self.id];
        let sig = &self.signatures[&self.id];
        let mut rebuild = Rebuild {
            module,
            source,
            b: FuncBuilder::new(sig.clone()),
            values: HashMap::new(),
        };
        let params = rebuild.b.params().to_vec();
        self.bind(&mut rebuild, &source.regions[source.body].params, &params);
        self.insts(&mut rebuild, source.body)?;
        let yields = self.all(&rebuild, &source.regions[source.body].yields);
        let names = sig.results.iter().map(|r| r.0.clone());
        Ok(rebuild.b.finish(&names.zip(yields).collect::<Vec<_>>()))
    }

    fn insts(&mut self, rebuild: &mut Rebuild, region: Region) -> Result<()> {
        rebuild.insts(region, &mut |rebuild, inst| self.inst(rebuild, inst))
    }

    /// Replaces an instruction on sequences.
    fn inst(&mut self, rebuild: &mut Rebuild, inst: Inst) -> Result<bool> {
        let func = rebuild.source;
        let data = &func.insts[inst];
        let touched = |v: &Value| self.forms.get(self.id, *v).is_some();
        match &data.op {
            Op::If if data.results.iter().any(touched) => self.branch(rebuild, inst)?,
            Op::Loop { .. } if data.results.iter().any(touched) => self.repeat(rebuild, inst)?,
            Op::Call(callee) if data.args.iter().chain(&data.results).any(touched) => {
                let args = self.all(rebuild, &data.args);
                let results = rebuild.b.call(*callee, &self.signatures[callee], &args)?;
                self.bind(rebuild, &data.results, &results);
            }
            Op::SeqNew { .. } | Op::SeqInsert | Op::SeqErase | Op::SeqSplit { .. } => {
                let list = self.built(rebuild, inst)?;
                self.lists.insert(data.results[0], list);
            }
            Op::SeqAt | Op::SeqLen | Op::SeqConcat { .. } => {
                let list = &self.lists[&data.args[0]];
                let b = &mut rebuild.b;
                let value = match data.op {
                    Op::SeqAt => list.at(b, rebuild.values[&data.args[1]])?,
                    Op::SeqConcat { axis, stack } => list.concat(b, axis, stack)?,
                    _ => list.length(b)?,
                };
                rebuild.stands_for(data.results[0], value);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The sequence that an instruction builds.
    fn built(&self, rebuild: &mut Rebuild, inst: Inst) -> Result<List> {
        let data = &rebuild.source.insts[inst];
        let value = |i: usize| rebuild.values[&data.args[i]];
        match data.op {
            Op::SeqInsert => {
                let list = &self.lists[&data.args[0]];
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
                self.lists[&data.args[0]].erase(&mut rebuild.b, position)
            }
            Op::SeqSplit { axis, squeeze } => {
                let form = self.form(data.results[0]);
                let operands = (value(0), value(1));
                List::split(&mut rebuild.b, form, operands, axis, squeeze)
            }
            _ => {
                let elements = rebuild.all(&data.args);
                List::new(&mut rebuild.b, self.form(data.results[0]), &elements)
            }
        }
    }

    fn branch(&mut self, rebuild: &mut Rebuild, inst: Inst) -> Result<()> {
        let func = rebuild.source;
        let data = &func.insts[inst];
        let mut arms = vec![];
        for &arm in &data.regions {
            rebuild.b.begin_region(&[]);
            self.insts(rebuild, arm)?;
            let yields = self.all(rebuild, &func.regions[arm].yields);
            arms.push(rebuild.b.end_region(&yields));
        }
        rebuild.b.set_loc(data.loc.clone());
        let cond = rebuild.values[&data.args[0]];
        let results = rebuild.b.if_(cond, arms[0], arms[1])?;
        self.bind(rebuild, &data.results, &results);
        Ok(())
    }

    fn repeat(&mut self, rebuild: &mut Rebuild, inst: Inst) -> Result<()> {
        let func = rebuild.source;
        let data = &func.insts[inst];
        let Some(l) = LoopView::of(func, inst) else {
            return Ok(());
        };
        let mut types = vec![func.ty(l.iteration).clone()];
        for param in &l.params {
            match self.forms.get(self.id, *param) {
                Some(form) => types.extend(form.types()),
                None => types.push(func.ty(*param).clone()),
            }
        }
        let (_, params) = rebuild.b.begin_region(&types);
        self.bind(rebuild, &l.body_params(), &params);
        self.insts(rebuild, l.body)?;
        let yields = self.all(rebuild, &l.yields());
        let body = rebuild.b.end_region(&yields);
        rebuild.b.set_loc(data.loc.clone());
        let [trip, cond] = [l.trip, l.cond].map(|v| v.map(|v| rebuild.values[&v]));
        let inits = self.all(rebuild, &l.inits);
        let results = rebuild.b.loop_(trip, cond, &inits, body)?;
        let scans = results.len() - l.scans.len();
        for (&old, &new) in l.scans.iter().zip(&results[scans..]) {
            // Without iterations, the stated type of a scan output gives it its shape.
            if rebuild.b.ty(new).compatible(func.ty(old)) {
                rebuild.b.refine_type(new, func.ty(old).clone())?;
            }
        }
        self.bind(rebuild, &data.results, &results);
        Ok(())
    }

    /// Maps values of the source to those of the copy, several for a sequence.
    fn bind(&mut self, rebuild: &mut Rebuild, old: &[Value], new: &[Value]) {
        let mut new = new.iter().copied();
        for &old in old {
            match self.forms.get(self.id, old) {
                Some(form) => {
                    let list = List {
                        arrays: new.by_ref().take(form.types().len()).collect(),
                        form: form.clone(),
                    };
                    self.lists.insert(old, list);
                }
                None => {
                    let value = new.next().expect("a value for each of the source");
                    rebuild.stands_for(old, value);
                }
            }
        }
    }

    /// The counterparts of values of the source, several for a sequence.
    fn all(&self, rebuild: &Rebuild, values: &[Value]) -> Vec<Value> {
        let mut all = vec![];
        for value in values {
            match self.lists.get(value) {
                Some(list) => all.extend(&list.arrays),
                None => all.push(rebuild.values[value]),
            }
        }
        all
    }

    fn form(&self, sequence: Value) -> &SequenceForm {
        self.forms
            .get(self.id, sequence)
            .expect("all sequences have a form")
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
