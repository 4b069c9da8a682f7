//! Arrays of text as bytes, offsets and numbers.

mod bytes;
mod pieces;

use std::collections::HashMap;

use heddle_ir::op::{CompareOp, ScatterReduce, StrOp};
use heddle_ir::patch::Stats;
use heddle_ir::{
    DType, Dim, FuncId, Function, Inst, LoopView, Module, Op, TensorType, Type, Value,
};

use super::expand::{Expander, Expansion, expand};
use super::rebuild::{Rebuild, Result};
use crate::Edit;
use crate::contents::innermost;
use bytes::Text;

/// Replaces arrays of text by three arrays, since devices hold numbers: the bytes of a list of
/// strings behind each other, the offset at which each string begins and the last one ends, and in
/// place of each element the number of its string. Ops that move elements move numbers; strings
/// are compared, joined and split for all elements at once.
///
/// It does nothing if text enters or leaves the program, has no known rank, lies in a sequence or
/// an optional, is a scan output, or meets an op without a form on bytes: casts, regular
/// expressions, changes of case, order.
pub fn flatten_text(module: &mut Module) -> Stats {
    match Texts::of(module, false) {
        Some(texts) => texts.flatten(module),
        None => Stats::default(),
    }
}

/// The ports of the entry function that were text.
#[derive(Clone, Debug)]
pub struct TextPorts {
    /// For each parameter.
    pub params: Vec<bool>,
    /// For each result.
    pub results: Vec<bool>,
}

/// As `flatten_text`, also where text enters or leaves the program: the three arrays do in its
/// place. `None` if nothing changed.
pub fn flatten_text_ports(module: &mut Module) -> Option<TextPorts> {
    let sig = module.entry().sig.clone();
    let ports = |ports: &[(String, Type)]| ports.iter().map(|(_, ty)| is_text(ty)).collect();
    let ports = TextPorts {
        params: ports(&sig.params),
        results: ports(&sig.results),
    };
    let has_any = has_ports(module.entry());
    let texts = has_any.then(|| Texts::of(module, true)).flatten()?;
    (texts.flatten(module).total() > 0).then_some(ports)
}

/// The arrays of text of a module, with the types of their numbers.
struct Texts {
    types: HashMap<(FuncId, Value), Type>,
}

impl Texts {
    /// `None` if a text or what is done with it has no form on bytes, or, unless `ports`, if text
    /// enters or leaves the program.
    fn of(module: &Module, ports: bool) -> Option<Texts> {
        let mut texts = Texts {
            types: HashMap::new(),
        };
        for (id, func) in module.functions.iter() {
            if !ports && module.is_entry(id) && has_ports(func) {
                return None;
            }
            texts.add(id, func)?;
        }
        (!texts.types.is_empty()).then_some(texts)
    }

    /// Adds the texts of a function; `None` if one has no form on bytes.
    fn add(&mut self, id: FuncId, func: &Function) -> Option<()> {
        let mut is_supported = true;
        let mut note = |value: Value| match func.ty(value) {
            Type::Tensor(tensor) if tensor.dtype == DType::Str => {
                is_supported &= tensor.shape.is_some();
                let shape = tensor.shape.clone();
                let dtype = DType::I64;
                let numbers = TensorType { dtype, shape };
                self.types.insert((id, value), numbers.into());
            }
            ty => is_supported &= innermost(ty).dtype != DType::Str,
        };
        let params = &func.regions[func.body].params;
        params.iter().copied().for_each(&mut note);
        func.for_each_inst(&mut |_, data| {
            let params = data.regions.iter().flat_map(|r| &func.regions[*r].params);
            params.chain(&data.results).copied().for_each(&mut note);
        });
        func.for_each_inst(&mut |inst, _| is_supported &= supports(func, inst));
        is_supported.then_some(())
    }

    fn flatten(&self, module: &mut Module) -> Stats {
        let mut ids: Vec<FuncId> = self.types.keys().map(|key| key.0).collect();
        ids.sort();
        ids.dedup();
        expand(module, &ids, self, Edit::TextFlattened)
    }
}

impl Expansion for Texts {
    fn types(&self, id: FuncId, value: Value) -> Option<Vec<Type>> {
        let numbers = self.types.get(&(id, value))?;
        let open = |dtype| Type::tensor(dtype, vec![Dim::UNKNOWN]);
        Some(vec![open(DType::U8), open(DType::I64), numbers.clone()])
    }

    fn inst(&self, expander: &mut Expander, rebuild: &mut Rebuild, inst: Inst) -> Result<bool> {
        let data = &rebuild.source.insts[inst];
        let id = expander.id;
        let is_text = |v: &Value| self.types.contains_key(&(id, *v));
        if !data.args.iter().chain(&data.results).any(is_text) {
            return Ok(false);
        }
        let texts = data.args.iter().filter(|v| is_text(v));
        let texts: Vec<Text> = texts.map(|v| Text::of(&expander.parts[v])).collect();
        let b = &mut rebuild.b;
        let made = match &data.op {
            Op::Const(tensor) => Text::constant(b, tensor),
            Op::Shape => {
                let sizes = b.op1(Op::Shape, &[texts[0].numbers])?;
                rebuild.stands_for(data.results[0], sizes);
                return Ok(true);
            }
            Op::Compare(op) => {
                let is_negated = *op == CompareOp::Ne;
                let equal = texts[0].equals(b, texts[1], is_negated)?;
                rebuild.stands_for(data.results[0], equal);
                return Ok(true);
            }
            Op::Str(StrOp::Concat) => texts[0].followed_by(b, texts[1])?,
            Op::Str(StrOp::Split {
                delimiter,
                max_splits,
            }) => {
                let delimiter = delimiter.as_deref().filter(|d| !d.is_empty());
                let (made, counts) = texts[0].split(b, delimiter, *max_splits)?;
                rebuild.stands_for(data.results[1], counts);
                made
            }
            op => {
                let (list, numbers) = Text::listed(b, &texts)?;
                let mut numbers = numbers.into_iter();
                let args = data.args.iter().map(|v| match is_text(v) {
                    true => numbers.next().expect("numbers of each text"),
                    false => rebuild.values[v],
                });
                let numbers = b.op1(op.clone(), &args.collect::<Vec<_>>())?;
                Text { numbers, ..list }
            }
        };
        rebuild.state(made.numbers, &self.types[&(id, data.results[0])]);
        expander.parts.insert(data.results[0], made.parts());
        Ok(true)
    }
}

/// True if an instruction has a form on the arrays that stand for text.
fn supports(func: &Function, inst: Inst) -> bool {
    let data = &func.insts[inst];
    let is_text = |v: &Value| is_text(func.ty(*v));
    if !data.args.iter().chain(&data.results).any(is_text) {
        return true;
    }
    match &data.op {
        Op::Const(_) | Op::Shape | Op::Select | Op::Pad { .. } | Op::UpdateSlice => true,
        Op::If | Op::Call(_) => true,
        Op::Compare(op) => matches!(op, CompareOp::Eq | CompareOp::Ne),
        Op::Str(op) => matches!(op, StrOp::Concat | StrOp::Split { .. }),
        Op::Loop { .. } => LoopView::of(func, inst).is_some_and(|l| !l.scans.iter().any(is_text)),
        Op::ScatterElements { reduce, .. } | Op::ScatterNd { reduce } => {
            matches!(reduce, ScatterReduce::Set | ScatterReduce::Once)
        }
        op => op.only_moves(),
    }
}

fn has_ports(func: &Function) -> bool {
    let mut ports = func.sig.params.iter().chain(&func.sig.results);
    ports.any(|(_, ty)| is_text(ty))
}

fn is_text(ty: &Type) -> bool {
    matches!(ty, Type::Tensor(tensor) if tensor.dtype == DType::Str)
}
