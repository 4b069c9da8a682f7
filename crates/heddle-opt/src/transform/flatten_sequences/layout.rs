//! Arrays that hold the elements of sequences.
//!
//! Sequences that become one another (carried, yielded, passed) have one layout, which follows from
//! the type that all their elements have.

use std::collections::HashMap;

use heddle_ir::{DType, Dim, FuncId, Function, Module, Type, Value};

use crate::contents::Contents;

/// The arrangement of a sequence's elements in the array `data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceLayout {
    /// All have one shape: rows of `data[length, shape…]`.
    Rows,
    /// They differ in this axis only, which comes first: behind each other in
    /// `data[total, other axes…]`.
    Pieces(usize),
    /// They differ in several axes: behind each other in `data[total]`, shapes in
    /// `dims[length, rank]`.
    Flat,
    /// They differ in rank: behind each other in `data[total]`, their shapes in `dims[ranks]`.
    Ragged,
}

/// The arrays that stand for a sequence.
#[derive(Clone, Debug)]
pub struct SequenceForm {
    /// The arrangement of elements.
    pub layout: SequenceLayout,
    /// The elements' element type.
    pub dtype: DType,
    /// The elements' axes; unknown where they differ. None if their ranks differ.
    pub dims: Vec<Dim>,
}

impl SequenceForm {
    fn of(elem: &Type, is_known: impl Fn(&Dim) -> bool) -> Option<SequenceForm> {
        let elem = elem.as_tensor().filter(|t| t.dtype.bits() >= 8)?;
        let Some(dims) = elem.shape.clone() else {
            return Some(SequenceForm {
                layout: SequenceLayout::Ragged,
                dtype: elem.dtype,
                dims: vec![],
            });
        };
        let mut open = (0..dims.len()).filter(|&axis| !is_known(&dims[axis]));
        let layout = match (open.next(), open.next()) {
            (None, _) => SequenceLayout::Rows,
            (Some(axis), None) => SequenceLayout::Pieces(axis),
            _ => SequenceLayout::Flat,
        };
        Some(SequenceForm {
            layout,
            dtype: elem.dtype,
            dims,
        })
    }

    /// Types of the arrays that hold a sequence: `data`, and for all but rows the offset in `data`
    /// at which each element begins and the last one ends, `dims` where they differ, and where ranks
    /// do the offsets in `dims`.
    pub fn types(&self) -> Vec<Type> {
        let open = Dim::UNKNOWN;
        let data = |dims: Vec<Dim>| Type::tensor(self.dtype, [vec![open.clone()], dims].concat());
        let offsets = Type::tensor(DType::I64, vec![open.clone()]);
        match self.layout {
            SequenceLayout::Rows => vec![data(self.dims.clone())],
            SequenceLayout::Pieces(axis) => {
                let mut others = self.dims.clone();
                others.remove(axis);
                vec![data(others), offsets]
            }
            SequenceLayout::Flat => {
                let dims = Type::tensor(DType::I64, vec![open.clone(), self.dims.len().into()]);
                vec![data(vec![]), offsets, dims]
            }
            SequenceLayout::Ragged => {
                vec![data(vec![]), offsets.clone(), offsets.clone(), offsets]
            }
        }
    }
}

/// The forms of all sequences of a module.
#[derive(Default)]
pub struct Forms {
    forms: HashMap<(FuncId, Value), SequenceForm>,
}

impl Forms {
    /// `None` if a sequence holds something other than tensors of whole bytes, is in an optional, or,
    /// unless `ports`, enters or leaves the program.
    pub fn of(module: &Module, ports: bool) -> Option<Forms> {
        for (id, func) in module.functions.iter() {
            if !ports && module.is_entry(id) && has_ports(func) {
                return None;
            }
        }
        let contents = Contents::of(module);
        let mut elems: HashMap<usize, Type> = HashMap::new();
        for (id, value, class) in contents.members() {
            let Type::Seq(elem) = module.functions[id].ty(value) else {
                return None;
            };
            let met = contents
                .tensor(class)
                .and_then(|t| elem.meet(&Type::Tensor(t)));
            let elem = met.as_ref().unwrap_or(elem);
            let joined = match elems.get(&class) {
                Some(before) => before.join(elem)?,
                None => elem.clone(),
            };
            elems.insert(class, joined);
        }
        let mut forms = Forms::default();
        for (id, value, class) in contents.members() {
            let local = contents.is_local(class);
            let is_known = |dim: &Dim| {
                let is_name = dim.as_expr().is_some_and(|e| e.as_sym().is_some());
                dim.as_const().is_some() || local && is_name
            };
            let form = SequenceForm::of(&elems[&class], is_known)?;
            forms.forms.insert((id, value), form);
        }
        Some(forms)
    }

    /// The form of a sequence; `None` for other values.
    pub fn get(&self, id: FuncId, value: Value) -> Option<&SequenceForm> {
        self.forms.get(&(id, value))
    }

    /// Has each sequence elements of one shape?
    pub fn are_rows(&self) -> bool {
        let mut forms = self.forms.values();
        forms.all(|form| form.layout == SequenceLayout::Rows)
    }

    /// Functions in which there are sequences.
    pub fn functions(&self) -> Vec<FuncId> {
        let mut all: Vec<_> = self.forms.keys().map(|key| key.0).collect();
        all.sort();
        all.dedup();
        all
    }
}

/// Are there parameters or results that are no arrays?
pub fn has_ports(func: &Function) -> bool {
    let ports = func.sig.params.iter().chain(&func.sig.results);
    ports.into_iter().any(|(_, ty)| ty.as_tensor().is_none())
}
