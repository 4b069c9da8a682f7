//! Specialisations of functions: of recursive ones one for each combination of attributes and element
//! types, of others one for each combination of attributes and types.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use heddle_ir::{DType, Dim, FuncId, Signature, Tensor, Type};

use super::scope::{Attr, Body, Env, Opsets};
use super::signature::Params;
use crate::proto::{FunctionProto, TypeProto};
use crate::types::{DimNames, convert};

/// The target of a call.
#[derive(Clone)]
pub enum Callee<'m> {
    Function {
        proto: &'m FunctionProto,
        attrs: HashMap<&'m str, Attr<'m>>,
        opsets: Opsets<'m>,
    },
    Body(Rc<Body<'m>>),
}

/// A callee for certain element types.
pub struct Spec<'m> {
    pub callee: Callee<'m>,
    /// Kinds and element types of the arguments.
    pub skeleton: String,
    pub id: FuncId,
    pub name: String,
    /// The name of the first specialisation of this callee.
    pub identity: String,
    pub params: Params,
    /// Types of the results, where they are known yet.
    pub results: Vec<Option<Type>>,
    /// The epoch in which it was built.
    pub built: Option<u64>,
    pub status: Status,
}

/// Limit on specialisations of one function, whose element types or sizes may change in each call.
pub const MAX_SPECS: usize = 64;

/// The specialisations of functions that do not recurse.
#[derive(Default)]
pub struct SharedSpecs<'m> {
    pub of: HashMap<*const FunctionProto, Vec<SharedSpec<'m>>>,
    /// Functions that do not [ignore contents](Shared::ignores_contents).
    pub reading: HashSet<FuncId>,
}

/// A callee for calls with equal types.
pub struct SharedSpec<'m> {
    pub callee: Callee<'m>,
    /// Types of the arguments, with names of sizes that do not depend on the caller.
    pub types: Params,
    /// The function; `None` if the callee is imported in place for these types.
    pub made: Option<Shared>,
}

/// A function that several calls share.
#[derive(Clone, Copy)]
pub struct Shared {
    pub id: FuncId,
    /// Number of nodes in it, those of its callees included.
    pub nodes: usize,
    /// Nothing can be derived from the contents of its arguments: they determine no size and no
    /// integers that it returns.
    pub ignores_contents: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Its types may still change.
    Open,
    /// It is final.
    Done,
    /// It turned out not to be needed.
    Dropped,
}

/// The specialisations of all recursive functions.
#[derive(Default)]
pub struct Specs<'m> {
    pub list: Vec<Spec<'m>>,
    /// Specialisations under construction, outermost first.
    pub building: Vec<usize>,
    /// Number of changes to the known types of parameters and results.
    pub epoch: u64,
    names: HashSet<String>,
}

impl<'m> Callee<'m> {
    /// Tells callees apart but for their attributes and constants.
    pub fn address(&self) -> usize {
        match self {
            Callee::Function { proto, .. } => *proto as *const _ as usize,
            Callee::Body(body) => body.graph as *const _ as usize,
        }
    }

    /// Equality of both, attributes and constants included.
    pub fn is(&self, other: &Callee) -> bool {
        match (self, other) {
            (Callee::Function { attrs: a, .. }, Callee::Function { attrs: b, .. }) => {
                same_attrs(a, b)
            }
            (Callee::Body(a), Callee::Body(b)) => {
                let same = |(x, y): (&(&str, Tensor), &(&str, Tensor))| {
                    x.0 == y.0 && same_tensor(&x.1, &y.1)
                };
                a.captured == b.captured
                    && a.constants.len() == b.constants.len()
                    && a.constants.iter().zip(&b.constants).all(same)
                    && same_attrs(&a.env.attrs, &b.env.attrs)
            }
            _ => false,
        }
    }

    pub fn name(&self) -> &'m str {
        match self {
            Callee::Function { proto, .. } => proto.name(),
            Callee::Body(body) => body.graph.name(),
        }
    }

    pub fn outputs(&self) -> usize {
        match self {
            Callee::Function { proto, .. } => proto.output.len(),
            Callee::Body(body) => body.graph.output.len(),
        }
    }

    pub fn input_name(&self, i: usize) -> String {
        let name = match self {
            Callee::Function { proto, .. } => proto.input.get(i).cloned(),
            Callee::Body(body) => {
                let own = body.graph.input.get(i).map(|p| p.name().to_owned());
                let captured = || body.captured.get(i - body.graph.input.len());
                own.or_else(|| captured().map(|n| n.to_string()))
            }
        };
        name.unwrap_or_else(|| format!("captured_{i}"))
    }

    pub fn output_name(&self, i: usize) -> String {
        match self {
            Callee::Function { proto, .. } => proto.output[i].clone(),
            Callee::Body(body) => body.graph.output[i].name().to_owned(),
        }
    }

    /// The type that the model declares for a result.
    pub fn declared(&self, i: usize) -> Option<Type> {
        let name = self.output_name(i);
        let proto: Option<&TypeProto> = match self {
            Callee::Function { proto, .. } => proto
                .value_info
                .iter()
                .find(|v| v.name() == name)
                .and_then(|v| v.r#type.as_ref()),
            Callee::Body(body) => body.graph.output[i].r#type.as_ref(),
        };
        let ty = convert(proto?, &mut DimNames::default()).ok()?;
        Some(ty.map_dims(&mut |_| Dim::UNKNOWN))
    }

    /// The environment of a function's body.
    pub fn env(&self, name: &str) -> Env<'m> {
        match self {
            Callee::Function { attrs, opsets, .. } => Env {
                opsets: opsets.clone(),
                attrs: attrs
                    .iter()
                    .map(|(n, a)| (*n, Attr { home: None, ..*a }))
                    .collect(),
                calls: format!("{name}/"),
                ..Default::default()
            },
            Callee::Body(body) => body.env.clone(),
        }
    }
}

impl Spec<'_> {
    /// The signature as far as it is known.
    pub fn signature(&self) -> Signature {
        let params = self.params.iter().enumerate();
        let params = params.filter_map(|(i, t)| Some((self.callee.input_name(i), t.clone()?)));
        let unknown = Type::unranked(DType::F32);
        let results = self.results.iter().enumerate();
        let results = results.map(|(i, t)| {
            (
                self.callee.output_name(i),
                t.clone().unwrap_or_else(|| unknown.clone()),
            )
        });
        Signature {
            name: self.name.clone(),
            params: params.collect(),
            results: results.collect(),
            bounds: Default::default(),
            origin: (self.identity != self.name).then(|| self.identity.as_str().into()),
        }
    }
}

impl Specs<'_> {
    /// Assumes types for results that no base case determines: such a function never returns, so
    /// any type is right. Returns `true` if there were any.
    pub fn assume_results(&mut self) -> bool {
        let mut assumed = false;
        for spec in self.list.iter_mut().filter(|s| s.status == Status::Open) {
            let first = spec.params.iter().flatten().find_map(|t| t.as_tensor());
            let guess = Type::unranked(first.map_or(DType::F32, |t| t.dtype));
            for (i, result) in spec.results.iter_mut().enumerate() {
                if result.is_none() {
                    *result = spec.callee.declared(i).or_else(|| Some(guess.clone()));
                    assumed = true;
                }
            }
        }
        self.epoch += assumed as u64;
        assumed
    }

    /// A name for a function: an identifier that is not taken.
    pub fn unique_name(&mut self, name: &str) -> String {
        let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let mut base: String = name.chars().take(64).map(word).collect();
        if !base.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            base.insert(0, '_');
        }
        self.names.insert("main".into());
        let mut unique = base.clone();
        let mut count = 1;
        while !self.names.insert(unique.clone()) {
            count += 1;
            unique = format!("{base}_{count}");
        }
        unique
    }
}

/// Equality of attributes; graphs, which use names around them, are compared by place.
fn same_attrs(a: &HashMap<&str, Attr>, b: &HashMap<&str, Attr>) -> bool {
    let same =
        |x: &Attr, y: &Attr| std::ptr::eq(x.proto, y.proto) || !x.has_graph() && x.proto == y.proto;
    let pair = |(name, x): (&&str, &Attr)| b.get(name).is_some_and(|y| same(x, y));
    a.len() == b.len() && a.iter().all(pair)
}

/// Equality of two constants, without reading large ones: those are views of one file.
fn same_tensor(a: &Tensor, b: &Tensor) -> bool {
    let (x, y) = (a.bytes(), b.bytes());
    let one_place = x.as_ptr() == y.as_ptr() && x.len() == y.len();
    a.dtype() == b.dtype()
        && a.shape() == b.shape()
        && (one_place || x.len() <= 1 << 16 && x == y)
        && a.strs() == b.strs()
}
