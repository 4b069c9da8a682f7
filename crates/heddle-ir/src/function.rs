//! Modules, functions, regions and instructions.

use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;

use crate::entity::Arena;
use crate::{DimBound, FuncId, Inst, OneLine, Op, Region, Type, Value};

/// Limit of nested regions. Readers enforce it, so that everything else may recurse over regions.
pub const MAX_NESTING: usize = 256;

/// Limit on the instructions of all copies of one function, in place of its calls or as procedures.
/// So a program grows with the number of its functions, also where each calls the next one twice.
pub const MAX_COPIED_INSTS: usize = 1024;

/// A program: functions, some of which are entries.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// All functions. They may call themselves and each other.
    pub functions: Arena<FuncId, Function>,
    /// Functions that a run can begin with, by name; the first is the default. Empty only while the module is being built.
    pub entries: IndexMap<String, FuncId>,
}

/// A name that no entry of the module has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no entry `{name}`; the program's entries are {}", list(.entries))]
pub struct UnknownEntry {
    /// The name asked for.
    pub name: String,
    /// Names of the module's entries, in order.
    pub entries: Vec<String>,
}

/// Names and types of a function's parameters and results.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Signature {
    /// The function's name, unique in its module.
    pub name: String,
    /// Parameters. Every name of a size that the function uses occurs here, alone, as the size of some axis.
    pub params: Vec<(String, Type)>,
    /// Results.
    pub results: Vec<(String, Type)>,
    /// Bounds of named sizes, where there are any.
    pub bounds: IndexMap<Arc<str>, DimBound>,
    /// The function that this one is a specialisation of, if its name differs; see [`Signature::identity`].
    pub origin: Option<Arc<str>>,
}

impl Signature {
    /// The name that all specialisations of one function share. Calls of functions of one identity do the same work: they
    /// may be batched where their types agree.
    ///
    /// Who copies a function, for other types or for some of its calls, keeps the identity ([`Signature::specialised`]); who makes
    /// a function that computes something else gives it none of another.
    pub fn identity(&self) -> &str {
        self.origin.as_deref().unwrap_or(&self.name)
    }

    /// The signature under another name, as a specialisation of the same function.
    pub fn specialised(&self, name: String) -> Signature {
        Signature {
            origin: (name != self.identity()).then(|| self.identity().into()),
            name,
            ..self.clone()
        }
    }
}

/// A function: a signature and a body in SSA form.
#[derive(Clone, Debug)]
pub struct Function {
    /// Names and types of parameters and results.
    pub sig: Arc<Signature>,
    /// The body: its parameters are the function's, it yields the results.
    pub body: Region,
    /// All values.
    pub values: Arena<Value, ValueData>,
    /// All instructions, those too that are in no region any more.
    pub insts: Arena<Inst, InstData>,
    /// All regions.
    pub regions: Arena<Region, RegionData>,
}

/// A value's type, definition and name.
#[derive(Clone, Debug)]
pub struct ValueData {
    /// Its type.
    pub ty: Type,
    /// Its source location.
    pub def: ValueDef,
    /// A name for people; not necessarily unique.
    pub name: Option<Arc<str>>,
}

/// The definition of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueDef {
    /// The result of this instruction with this index.
    Result(Inst, u32),
    /// The parameter of this region with this index.
    Param(Region, u32),
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct InstData {
    /// The op.
    pub op: Op,
    /// Operands: values of the same region before it, or of regions around it.
    pub args: Vec<Value>,
    /// Regions of control flow.
    pub regions: Vec<Region>,
    /// Results.
    pub results: Vec<Value>,
    /// Its source location.
    pub loc: Option<Arc<Loc>>,
}

/// A region: evaluated from its first instruction to its last each time its owner says so.
#[derive(Clone, Debug, Default)]
pub struct RegionData {
    /// Parameters.
    pub params: Vec<Value>,
    /// Instructions in order.
    pub insts: Vec<Inst>,
    /// Yielded values: its own or those of regions around it.
    pub yields: Vec<Value>,
}

/// The source location of an instruction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Loc {
    /// A node of a model file.
    Node {
        /// The operator, as `Conv` or `domain::Op`.
        op: String,
        /// The node's name, or what stands for it.
        name: String,
        /// The line of the user's source that made it, where the model states it.
        place: Option<Place>,
    },
    /// A place in a text file, both counted from 1.
    Text {
        /// The line.
        line: u32,
        /// The column.
        column: u32,
    },
}

/// A line of a source file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The file.
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", OneLine(&self.file), self.line)
    }
}

/// Longest path of calls in a node's name, in bytes; a longer one is cut to its end.
const MAX_CALL_PATH: usize = 120;

impl Loc {
    /// The line of the user's source, if it is known.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Loc::Node { place, .. } => place.as_ref(),
            Loc::Text { .. } => None,
        }
    }

    /// The path of calls that leads to the nodes of a function: `calls`, then the call `name`,
    /// each before a `/`.
    pub fn call_path(calls: &str, name: &str) -> String {
        let from = calls.len().saturating_sub(MAX_CALL_PATH);
        match calls.char_indices().find(|(i, c)| *i >= from && *c == '/') {
            Some((i, _)) if from > 0 => format!("…{}{name}/", &calls[i..]),
            _ => format!("{calls}{name}/"),
        }
    }

    /// The location of an instruction of `function` where a call is replaced by the function's
    /// body: in a node's name the path of the call takes the place of the function. `None` if the
    /// name does not begin with the function.
    pub fn inlined(&self, function: &str, call: &Loc) -> Option<Loc> {
        let Loc::Node { op, name, place } = self else {
            return None;
        };
        let Loc::Node { name: call, .. } = call else {
            return None;
        };
        let inner = name.strip_prefix(function)?.strip_prefix('/')?;
        let (calls, call) = call
            .rsplit_once('/')
            .map_or(("", &**call), |(c, n)| (&call[..c.len() + 1], n));
        Some(Loc::Node {
            op: op.clone(),
            name: Loc::call_path(calls, call) + inner,
            place: place.clone(),
        })
    }
}

impl fmt::Display for Loc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loc::Node { op, name, place } => {
                write!(f, "{} node `{}`", OneLine(op), OneLine(name))?;
                match place {
                    Some(place) => write!(f, " ({place})"),
                    None => Ok(()),
                }
            }
            Loc::Text { line, column } => write!(f, "line {line}, column {column}"),
        }
    }
}

impl Module {
    /// The default entry function. Panics while the module is being built.
    pub fn entry(&self) -> &Function {
        &self.functions[self.entry_id().expect("a module has an entry")]
    }

    /// The default entry: the first.
    pub fn entry_id(&self) -> Option<FuncId> {
        self.entries.first().map(|(_, &id)| id)
    }

    /// Can a run begin with this function?
    pub fn is_entry(&self, id: FuncId) -> bool {
        self.entries.values().any(|&entry| entry == id)
    }

    /// Makes a function the only entry, under its own name.
    pub fn set_entry(&mut self, id: FuncId) {
        let name = self.functions[id].sig.name.clone();
        self.entries = IndexMap::from([(name, id)]);
    }

    /// The module with this entry alone. All functions stay: the dead-code pass removes those that it does not reach.
    pub fn with_entry(mut self, name: &str) -> Result<Self, UnknownEntry> {
        match self.entries.swap_remove_entry(name) {
            Some((name, id)) => {
                self.entries = IndexMap::from([(name, id)]);
                Ok(self)
            }
            None => Err(UnknownEntry {
                name: name.into(),
                entries: self.entries.into_keys().collect(),
            }),
        }
    }

    /// The function of this name.
    pub fn find(&self, name: &str) -> Option<FuncId> {
        self.functions
            .iter()
            .find(|(_, f)| f.sig.name == name)
            .map(|(id, _)| id)
    }

    /// Adds a function that has a signature and no body yet, so that it can be called.
    pub fn declare(&mut self, sig: Signature) -> FuncId {
        self.functions.push(Function::new(sig))
    }
}

/// Names for people: quoted, with commas.
fn list(names: &[String]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

impl Function {
    /// A function without instructions; its body has the signature's parameters.
    pub fn new(sig: Signature) -> Self {
        let mut regions = Arena::new();
        let body = regions.push(RegionData::default());
        let mut f = Self {
            sig: Arc::new(sig),
            body,
            values: Arena::new(),
            insts: Arena::new(),
            regions,
        };
        for (name, ty) in &f.sig.clone().params {
            f.add_param(body, ty.clone(), Some(name.as_str().into()));
        }
        f
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        &self.values[value].ty
    }

    /// The instruction that a value is a result of.
    pub fn def_inst(&self, value: Value) -> Option<Inst> {
        match self.values[value].def {
            ValueDef::Result(inst, _) => Some(inst),
            ValueDef::Param(..) => None,
        }
    }

    /// The array, if the value is a constant.
    pub fn constant(&self, value: Value) -> Option<&crate::Tensor> {
        match &self.insts[self.def_inst(value)?].op {
            Op::Const(t) => Some(t),
            _ => None,
        }
    }

    /// Appends a parameter to a region.
    pub fn add_param(&mut self, region: Region, ty: Type, name: Option<Arc<str>>) -> Value {
        let index = self.regions[region].params.len() as u32;
        let value = self.values.push(ValueData {
            ty,
            def: ValueDef::Param(region, index),
            name,
        });
        self.regions[region].params.push(value);
        value
    }

    /// Creates an instruction with results of these types; it is in no region yet.
    pub fn add_inst(
        &mut self,
        op: Op,
        args: Vec<Value>,
        regions: Vec<Region>,
        types: Vec<Type>,
        loc: Option<Arc<Loc>>,
    ) -> Inst {
        let inst = self.insts.push(InstData {
            op,
            args,
            regions,
            results: vec![],
            loc,
        });
        let results = types.into_iter().enumerate().map(|(i, ty)| {
            let def = ValueDef::Result(inst, i as u32);
            self.values.push(ValueData {
                ty,
                def,
                name: None,
            })
        });
        self.insts[inst].results = results.collect();
        inst
    }

    /// Calls `visit` with every live instruction, outer ones before those in their regions, in order.
    pub fn for_each_inst(&self, visit: &mut dyn FnMut(Inst, &InstData)) {
        self.for_each_inst_in(self.body, visit);
    }

    /// [`Function::for_each_inst`] below one region.
    pub fn for_each_inst_in(&self, region: Region, visit: &mut dyn FnMut(Inst, &InstData)) {
        // Without recursion: a caller's thread may have a small stack.
        let insts = |region: Region| self.regions[region].insts.iter();
        let mut open = vec![insts(region)];
        while let Some(rest) = open.last_mut() {
            let Some(&inst) = rest.next() else {
                open.pop();
                continue;
            };
            let data = &self.insts[inst];
            visit(inst, data);
            open.extend(data.regions.iter().rev().map(|&inner| insts(inner)));
        }
    }
}
