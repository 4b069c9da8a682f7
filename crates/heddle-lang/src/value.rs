//! Values while a program becomes IR, and their types.

use std::collections::BTreeMap;

use heddle_ir::{DType, Dim, TensorType, Type, Value};

use crate::ast::Lambda;

/// A column of a data type's tables: the tags of a type, or a field of one of its cases.
pub type Key = (usize, Option<(usize, usize)>);

/// A value: structure that only the front end knows, around values of the graph IR.
#[derive(Clone, Debug)]
pub enum Val<'a> {
    /// An array, or another value of the graph IR.
    Ir(Value),
    /// Numbers that have no element type yet.
    Literal(Literal<'a>),
    /// A tuple.
    Tuple(Vec<Val<'a>>),
    /// A list.
    List(List<'a>),
    /// A place in the tables of a data type.
    Data {
        /// The type.
        ty: usize,
        /// The input whose tables these are.
        store: usize,
        /// The row.
        index: Value,
    },
    /// A value of a data type that the program made, in tables of its own; as the column of a list, its
    /// elements in tables that they share.
    Built {
        /// The type.
        ty: usize,
        /// The columns of its table and of those of the types that it holds.
        columns: BTreeMap<Key, Val<'a>>,
        /// The row, if it is not the last one; those of a list's elements.
        index: Option<Value>,
    },
    /// Lists behind each other: a column whose elements are lists.
    Nested {
        /// The columns of all elements.
        data: Box<Val<'a>>,
        /// `i64[lists + 1]`: the begin of each list, and the end.
        offsets: Value,
    },
    /// The edges of a graph: children of all vertices, and where those of each begin.
    Graph {
        /// `i64[edges]`.
        children: Value,
        /// `i64[vertices + 1]`.
        offsets: Value,
    },
    /// A function.
    Func(Func<'a>),
}

/// Numbers as they are written.
#[derive(Clone, Debug)]
pub struct Literal<'a> {
    /// The sizes of the axes.
    pub shape: Vec<usize>,
    /// The elements in row-major order.
    pub items: Vec<&'a str>,
}

impl Literal<'_> {
    /// The element type that the numbers look like.
    pub fn dtype(&self) -> DType {
        match self.items.iter().any(|t| t.contains(['.', 'e', 'E'])) {
            true => DType::F32,
            false => DType::I64,
        }
    }
}

/// A list: elements of one type, stored along a leading axis of each array that they consist of.
#[derive(Clone, Debug)]
pub struct List<'a> {
    /// The elements; `None` for an empty list whose element type is open.
    pub columns: Option<Box<Val<'a>>>,
    /// The first element, if it is not the first of the columns.
    pub start: Option<Value>,
}

/// A function as a value.
#[derive(Clone, Debug)]
pub enum Func<'a> {
    /// A function of the program.
    Named(usize),
    /// A vertex function.
    Vertex(usize),
    /// A case of a data type, by their numbers.
    Case(usize, usize),
    /// An operation, by its name.
    Op(&'static str),
    /// A function without a name, and the values of its free names.
    Lambda(&'a Lambda, Vec<(&'a str, Val<'a>)>),
}

/// The type of a [`Val`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ty {
    /// A value of the graph IR.
    Ir(Type),
    /// Numbers without an element type: their shape, and the type that they look like.
    Literal(Vec<usize>, DType),
    /// A tuple.
    Tuple(Vec<Ty>),
    /// A list: the types of its columns, and whether it begins behind their first rows.
    List(Option<Box<Ty>>, bool),
    /// A data type, its store, and the type of the place in it.
    Data(usize, usize, TensorType),
    /// A data type that the program made: the types of its columns, and of the place in them if it has
    /// one of its own.
    Built(usize, Vec<Ty>, Option<Type>),
    /// Lists behind each other: the types of all elements' columns, and of the offsets.
    Nested(Box<Ty>, Type),
    /// A graph: the types of children and offsets.
    Graph(Type, Type),
    /// A function; a lambda is known by its address and its captured values.
    Func(FuncTy),
}

/// The type of a [`Func`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FuncTy {
    /// A function of the program.
    Named(usize),
    /// A vertex function.
    Vertex(usize),
    /// A case of a data type.
    Case(usize, usize),
    /// An operation.
    Op(&'static str),
    /// The number of a lambda, and its captured values.
    Lambda(usize, Vec<Ty>),
}

impl Ty {
    /// The type of arrays' own values that take the place of literals.
    pub fn concrete(&self) -> Ty {
        match self {
            Ty::Literal(shape, dtype) => Ty::Ir(Type::fixed(*dtype, shape)),
            Ty::Tuple(all) => Ty::Tuple(all.iter().map(Ty::concrete).collect()),
            Ty::List(Some(columns), offset) => {
                Ty::List(Some(Box::new(columns.concrete())), *offset)
            }
            other => other.clone(),
        }
    }

    /// The least type that both may become. `None` if there is none.
    pub fn join(&self, other: &Ty) -> Option<Ty> {
        Some(match (self, other) {
            (Ty::Ir(a), Ty::Ir(b)) => {
                if rank(a) != rank(b) {
                    return None;
                }
                Ty::Ir(a.join(b)?)
            }
            (Ty::Literal(a, x), Ty::Literal(b, y)) if a == b => {
                let float = [x, y].into_iter().find(|d| d.is_float());
                Ty::Literal(a.clone(), *float.unwrap_or(x))
            }
            (Ty::Literal(shape, looks), Ty::Ir(Type::Tensor(t)))
            | (Ty::Ir(Type::Tensor(t)), Ty::Literal(shape, looks)) => {
                let fits = shape.is_empty() || t.static_shape().as_ref() == Some(shape);
                let holds = t.dtype.is_float() || t.dtype.is_int() && !looks.is_float();
                if !fits || !holds {
                    return None;
                }
                Ty::Ir(t.clone().into())
            }
            (Ty::Tuple(a), Ty::Tuple(b)) if a.len() == b.len() => {
                let all: Option<_> = a.iter().zip(b).map(|(a, b)| a.join(b)).collect();
                Ty::Tuple(all?)
            }
            (Ty::List(a, x), Ty::List(b, y)) => {
                let columns = match (a, b) {
                    (Some(a), Some(b)) => Some(Box::new(a.join(b)?)),
                    // The list may be empty.
                    (Some(one), None) | (None, Some(one)) => Some(Box::new(one.shrinks())),
                    (None, None) => None,
                };
                Ty::List(columns, *x || *y)
            }
            (Ty::Data(a, s, x), Ty::Data(b, t, y)) if (a, s) == (b, t) => {
                match Type::from(x.clone()).join(&y.clone().into())? {
                    Type::Tensor(index) => Ty::Data(*a, *s, index),
                    _ => return None,
                }
            }
            // The value becomes one in tables of its own.
            (Ty::Data(a, ..), Ty::Built(b, ..)) if a == b => other.shrinks(),
            (Ty::Built(a, ..), Ty::Data(b, ..)) if a == b => self.shrinks(),
            (Ty::Built(a, x, own), Ty::Built(b, y, own2)) if a == b && x.len() == y.len() => {
                let all: Option<_> = x.iter().zip(y).map(|(a, b)| a.join(b)).collect();
                let own = match (own, own2) {
                    (Some(x), Some(y)) if rank(x) != rank(y) => return None,
                    (Some(x), Some(y)) => Some(x.join(y)?),
                    (one, other) => one.clone().or(other.clone()),
                };
                Ty::Built(*a, all?, own)
            }
            (Ty::Nested(a, x), Ty::Nested(b, y)) => Ty::Nested(Box::new(a.join(b)?), x.join(y)?),
            (Ty::Graph(a, b), Ty::Graph(c, d)) => Ty::Graph(a.join(c)?, b.join(d)?),
            (Ty::Func(FuncTy::Lambda(a, x)), Ty::Func(FuncTy::Lambda(b, y))) if a == b => {
                let all: Option<_> = x.iter().zip(y).map(|(a, b)| a.join(b)).collect();
                Ty::Func(FuncTy::Lambda(*a, all?))
            }
            (a, b) if a == b => a.clone(),
            _ => return None,
        })
    }

    /// Columns of another length.
    pub fn shrinks(&self) -> Ty {
        self.map_arrays(&mut |t| {
            let mut t = t.clone();
            if let Some(first) = t.shape.as_mut().and_then(|s| s.first_mut()) {
                *first = Dim::UNKNOWN;
            }
            t
        })
    }

    /// The type of an element of columns.
    pub fn element(&self) -> Ty {
        let first = |t: &TensorType| {
            let mut t = t.clone();
            if let Some(shape) = t.shape.as_mut().filter(|s| !s.is_empty()) {
                shape.remove(0);
            }
            t
        };
        match self {
            Ty::Nested(data, _) => Ty::List(Some(Box::new(data.shrinks())), false),
            Ty::Tuple(all) => Ty::Tuple(all.iter().map(Ty::element).collect()),
            Ty::Built(ty, tables, _) => {
                Ty::Built(*ty, tables.clone(), Some(Type::scalar(DType::I64)))
            }
            other => other.map_arrays(&mut { first }),
        }
    }

    /// The types of columns of such elements.
    pub fn columns(&self, length: &Dim) -> Ty {
        let more = |t: &TensorType| {
            let mut t = t.clone();
            if let Some(shape) = t.shape.as_mut() {
                shape.insert(0, length.clone());
            }
            t
        };
        match self {
            Ty::List(Some(columns), _) => {
                let offsets = Type::tensor(DType::I64, [Dim::UNKNOWN]);
                Ty::Nested(Box::new(columns.concrete().shrinks()), offsets)
            }
            Ty::Tuple(all) => Ty::Tuple(all.iter().map(|t| t.columns(length)).collect()),
            Ty::Built(ty, tables, _) => {
                let tables = tables.iter().map(Ty::shrinks).collect();
                Ty::Built(
                    *ty,
                    tables,
                    Some(Type::tensor(DType::I64, [length.clone()])),
                )
            }
            other => other.concrete().map_arrays(&mut { more }),
        }
    }

    /// The type with each array's type replaced.
    pub fn map_arrays(&self, f: &mut dyn FnMut(&TensorType) -> TensorType) -> Ty {
        match self {
            Ty::Ir(Type::Tensor(t)) => Ty::Ir(f(t).into()),
            Ty::Data(ty, store, index) => Ty::Data(*ty, *store, f(index)),
            Ty::Tuple(all) => Ty::Tuple(all.iter().map(|t| t.map_arrays(f)).collect()),
            Ty::List(Some(columns), offset) => {
                Ty::List(Some(Box::new(columns.map_arrays(f))), *offset)
            }
            Ty::Built(ty, all, own) => {
                let all = all.iter().map(|t| t.map_arrays(f)).collect();
                let own = own.as_ref().map(|own| match own {
                    Type::Tensor(t) => f(t).into(),
                    other => other.clone(),
                });
                Ty::Built(*ty, all, own)
            }
            Ty::Nested(data, offsets) => {
                let offsets = match offsets {
                    Type::Tensor(t) => f(t).into(),
                    other => other.clone(),
                };
                Ty::Nested(Box::new(data.map_arrays(f)), offsets)
            }
            other => other.clone(),
        }
    }

    /// The type with each size replaced.
    pub fn map_dims(&self, f: &mut dyn FnMut(&Dim) -> Dim) -> Ty {
        match self {
            Ty::Ir(ty) => Ty::Ir(ty.map_dims(f)),
            Ty::Graph(a, b) => Ty::Graph(a.map_dims(f), b.map_dims(f)),
            Ty::Nested(data, offsets) => {
                Ty::Nested(Box::new(data.map_dims(f)), offsets.map_dims(f))
            }
            Ty::Built(ty, all, own) => {
                let all = all.iter().map(|t| t.map_dims(f)).collect();
                Ty::Built(*ty, all, own.as_ref().map(|own| own.map_dims(f)))
            }
            Ty::Tuple(all) => Ty::Tuple(all.iter().map(|t| t.map_dims(f)).collect()),
            Ty::List(Some(columns), offset) => {
                Ty::List(Some(Box::new(columns.map_dims(f))), *offset)
            }
            Ty::Data(ty, store, index) => match Type::from(index.clone()).map_dims(f) {
                Type::Tensor(index) => Ty::Data(*ty, *store, index),
                _ => self.clone(),
            },
            Ty::Func(FuncTy::Lambda(k, all)) => Ty::Func(FuncTy::Lambda(
                *k,
                all.iter().map(|t| t.map_dims(f)).collect(),
            )),
            other => other.clone(),
        }
    }

    /// Calls `visit` with each store that values of the type have places in.
    pub fn for_each_store(&self, visit: &mut dyn FnMut(usize)) {
        match self {
            Ty::Data(_, store, _) => visit(*store),
            Ty::Tuple(all) | Ty::Func(FuncTy::Lambda(_, all)) => {
                all.iter().for_each(|t| t.for_each_store(visit));
            }
            Ty::List(Some(columns), _) => columns.for_each_store(visit),
            _ => {}
        }
    }

    /// Have values of both types the same parts?
    pub fn alike(&self, other: &Ty) -> bool {
        match (self, other) {
            (Ty::Ir(_), Ty::Ir(_)) | (Ty::Graph(..), Ty::Graph(..)) => true,
            (Ty::Tuple(a), Ty::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.alike(b))
            }
            (Ty::List(Some(a), x), Ty::List(Some(b), y)) => x == y && a.alike(b),
            (Ty::Func(FuncTy::Lambda(a, x)), Ty::Func(FuncTy::Lambda(b, y))) => {
                a == b && x.iter().zip(y).all(|(a, b)| a.alike(b))
            }
            (Ty::Data(a, s, _), Ty::Data(b, t, _)) => (a, s) == (b, t),
            (Ty::Built(a, x, own), Ty::Built(b, y, own2)) => {
                let ranks = [own, own2].map(|own| own.as_ref().map(rank));
                a == b && ranks[0] == ranks[1] && x.iter().zip(y).all(|(a, b)| a.alike(b))
            }
            (Ty::Nested(a, _), Ty::Nested(b, _)) => a.alike(b),
            (Ty::Literal(..), Ty::Literal(..)) => false,
            (a, b) => a == b,
        }
    }

    /// May all values of the other type be used in place of this one's?
    pub fn accepts(&self, other: &Ty) -> bool {
        match (self, other) {
            (Ty::Ir(a), Ty::Ir(b)) => a.accepts(b),
            (Ty::Tuple(a), Ty::Tuple(b)) => a.iter().zip(b).all(|(a, b)| a.accepts(b)),
            (Ty::List(Some(a), _), Ty::List(Some(b), _)) => a.accepts(b),
            (Ty::Data(a, s, x), Ty::Data(b, t, y)) => {
                (a, s) == (b, t) && Type::from(x.clone()).accepts(&y.clone().into())
            }
            (Ty::Built(a, x, own), Ty::Built(b, y, own2)) => {
                let places = match (own, own2) {
                    (Some(own), Some(other)) => own.accepts(other),
                    _ => true,
                };
                a == b && places && x.iter().zip(y).all(|(a, b)| a.accepts(b))
            }
            (Ty::Nested(a, x), Ty::Nested(b, y)) => a.accepts(b) && x.accepts(y),
            (Ty::Graph(a, b), Ty::Graph(c, d)) => a.accepts(c) && b.accepts(d),
            (Ty::Func(FuncTy::Lambda(_, x)), Ty::Func(FuncTy::Lambda(_, y))) => {
                x.iter().zip(y).all(|(a, b)| a.accepts(b))
            }
            (a, b) => a == b,
        }
    }
}

/// The number of axes of an array.
fn rank(ty: &Type) -> Option<usize> {
    ty.as_tensor().and_then(TensorType::rank)
}
