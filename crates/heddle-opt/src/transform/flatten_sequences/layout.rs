//! Arrays that hold the elements of sequences.
//!
//! Sequences that become one another (carried, yielded, passed) have one layout, which follows from
//! the type that all their elements have.

use std::collections::HashMap;

use heddle_ir::{DType, Dim, FuncId, Function, Inst, LoopView, Module, Op, Type, Value};

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
}

/// The arrays that stand for a sequence.
#[derive(Clone, Debug)]
pub struct SequenceForm {
    /// The arrangement of elements.
    pub layout: SequenceLayout,
    /// The elements' element type.
    pub dtype: DType,
    /// The elements' axes; unknown where they differ.
    pub dims: Vec<Dim>,
}

impl SequenceForm {
    fn of(elem: &Type, is_known: impl Fn(&Dim) -> bool) -> Option<SequenceForm> {
        let elem = elem.as_tensor().filter(|t| t.dtype.bits() >= 8)?;
        let dims = elem.shape.clone()?;
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
    /// at which each element begins and the last one ends, and `dims` for flat ones.
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
        }
    }
}

/// The forms of all sequences of a module.
#[derive(Default)]
pub struct Forms {
    forms: HashMap<(FuncId, Value), SequenceForm>,
}

impl Forms {
    /// `None` if a sequence holds something other than tensors of one rank and of whole bytes, is in
    /// an optional, or, unless `ports`, enters or leaves the program.
    pub fn of(module: &Module, ports: bool) -> Option<Forms> {
        let mut links = Links::default();
        for (id, func) in module.functions.iter() {
            if !ports && module.is_entry(id) && has_ports(func) {
                return None;
            }
            let mut known = true;
            func.for_each_inst(&mut |inst, _| known &= links.inst(module, id, inst).is_some());
            if !known {
                return None;
            }
        }
        links.forms(module)
    }

    /// The form of a sequence; `None` for other values.
    pub fn get(&self, id: FuncId, value: Value) -> Option<&SequenceForm> {
        self.forms.get(&(id, value))
    }

    /// Functions in which there are sequences.
    pub fn functions(&self) -> Vec<FuncId> {
        let mut all: Vec<_> = self.forms.keys().map(|key| key.0).collect();
        all.sort();
        all.dedup();
        all
    }
}

/// Sequences of which one becomes the other.
#[derive(Default)]
struct Links {
    pairs: Vec<[(FuncId, Value); 2]>,
}

impl Links {
    /// Links operands and results; `None` for what has no flat form.
    fn inst(&mut self, module: &Module, id: FuncId, inst: Inst) -> Option<()> {
        let func = &module.functions[id];
        let data = &func.insts[inst];
        let is_container = |v: &Value| func.ty(*v).as_tensor().is_none();
        let is_used = data.args.iter().chain(&data.results).any(is_container);
        match &data.op {
            Op::SeqNew { .. } | Op::SeqSplit { .. } | Op::SeqAt | Op::SeqLen => {}
            Op::SeqConcat { .. } => {}
            Op::SeqInsert | Op::SeqErase => {
                self.pairs.push([(id, data.args[0]), (id, data.results[0])]);
            }
            Op::If => {
                for arm in &data.regions {
                    self.link(id, &data.results, id, &func.regions[*arm].yields);
                }
            }
            Op::Loop { .. } => {
                let l = LoopView::of(func, inst)?;
                self.link(id, &l.params, id, &l.inits);
                self.link(id, &l.params, id, &l.next);
                self.link(id, &l.params, id, &l.last);
            }
            Op::Call(callee) => {
                let body = &module.functions[*callee];
                let region = &body.regions[body.body];
                self.link(id, &data.args, *callee, &region.params);
                self.link(id, &data.results, *callee, &region.yields);
            }
            _ if is_used => return None,
            _ => {}
        }
        Some(())
    }

    fn link(&mut self, a: FuncId, left: &[Value], b: FuncId, right: &[Value]) {
        let pairs = left.iter().zip(right).map(|(&l, &r)| [(a, l), (b, r)]);
        self.pairs.extend(pairs);
    }

    fn forms(self, module: &Module) -> Option<Forms> {
        let mut classes = Classes::default();
        for (id, func) in module.functions.iter() {
            for value in values(func) {
                match func.ty(value) {
                    Type::Tensor(_) => {}
                    Type::Seq(elem) => classes.add((id, value), elem),
                    Type::Opt(_) => return None,
                }
            }
        }
        for [a, b] in self.pairs {
            classes.join(a, b)?;
        }
        let mut forms = Forms::default();
        for &key in classes.places.keys() {
            let class = classes.root(classes.places[&key]);
            let (elem, local) = (&classes.elems[class], classes.local[class]);
            let is_known = |dim: &Dim| {
                let is_name = dim.as_expr().is_some_and(|e| e.as_sym().is_some());
                dim.as_const().is_some() || local && is_name
            };
            forms.forms.insert(key, SequenceForm::of(elem, is_known)?);
        }
        Some(forms)
    }
}

/// Sets of linked sequences.
#[derive(Default)]
struct Classes {
    places: HashMap<(FuncId, Value), usize>,
    parents: Vec<usize>,
    /// The type of all elements, at a set's root.
    elems: Vec<Type>,
    /// All are in one function.
    local: Vec<bool>,
}

impl Classes {
    fn add(&mut self, key: (FuncId, Value), elem: &Type) {
        self.places.insert(key, self.parents.len());
        self.parents.push(self.parents.len());
        self.elems.push(elem.clone());
        self.local.push(true);
    }

    fn root(&self, mut class: usize) -> usize {
        while self.parents[class] != class {
            class = self.parents[class];
        }
        class
    }

    /// `None` if the elements have no common type. Values that are no sequences have no class.
    fn join(&mut self, a: (FuncId, Value), b: (FuncId, Value)) -> Option<()> {
        let (Some(&left), Some(&right)) = (self.places.get(&a), self.places.get(&b)) else {
            return Some(());
        };
        let (left, right) = (self.root(left), self.root(right));
        if left == right {
            return Some(());
        }
        self.elems[left] = self.elems[left].join(&self.elems[right])?;
        self.local[left] &= self.local[right] && a.0 == b.0;
        self.parents[right] = left;
        Some(())
    }
}

/// Parameters and results in a function.
fn values(func: &Function) -> Vec<Value> {
    let mut all = func.regions[func.body].params.clone();
    func.for_each_inst(&mut |_, data| {
        all.extend(&data.results);
        data.regions
            .iter()
            .for_each(|&r| all.extend(&func.regions[r].params));
    });
    all
}

/// Are there parameters or results that are no arrays?
pub fn has_ports(func: &Function) -> bool {
    let ports = func.sig.params.iter().chain(&func.sig.results);
    ports.into_iter().any(|(_, ty)| ty.as_tensor().is_none())
}
