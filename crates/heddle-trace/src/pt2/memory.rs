//! Changes in place as values.
//!
//! A *storage* is memory of a root array, with a version; a *view* is an array in it, by the operators that lead to it from the root. A
//! change of a view is written back through these operators to the root, and makes a new version; a view of an older version is read by its
//! operators anew. So a program that changes arrays in place becomes one on values, as PyTorch's own functionalisation makes it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use heddle_ir::Dim;

use super::aliasing::Aliasing;
use super::expr;
use super::schema::{self, TensorMeta};
use super::translate::{Bound, Walk};
use crate::error::{OpError, Result};
use crate::graph::{Arg, Size, Value};
use crate::size::Expr;

/// Memory of a graph.
#[derive(Default)]
pub struct Memory<'s> {
    pub(super) storages: Vec<Storage>,
    pub(super) views: Vec<View<'s>>,
}

pub(super) struct Storage {
    /// The value of the root.
    pub root: Arg,
    pub version: u32,
    /// The operator or array because of which other memory may be this, so that a change of it would have to be one of both.
    pub may_alias_with: Option<String>,
}

pub(super) struct View<'s> {
    pub storage: usize,
    pub name: &'s str,
    pub meta: &'s TensorMeta,
    /// The operator, and which of its results this is; `None` for the root.
    pub step: Option<(Rc<Step<'s>>, usize)>,
    /// Its value in a version of the storage.
    pub value: Arg,
    pub version: u32,
}

/// The operator that gives views.
pub(super) struct Step<'s> {
    pub parent: usize,
    pub target: String,
    /// Arguments behind the first one.
    pub args: Vec<Arg>,
    pub kwargs: BTreeMap<String, Arg>,
    pub results: Vec<&'s str>,
}

impl Step<'_> {
    /// The argument at a place behind the first one, or of a name.
    pub fn arg(&self, i: usize, name: &str) -> Option<&Arg> {
        self.args.get(i).or_else(|| self.kwargs.get(name))
    }

    /// Likewise as a number; `None` if it is something else.
    pub fn int(&self, i: usize, name: &str, default: i64) -> Option<i64> {
        match self.arg(i, name) {
            None | Some(Arg::None(_)) => Some(default),
            Some(Arg::Int(n)) => Some(*n),
            Some(_) => None,
        }
    }
}

impl<'s> Memory<'s> {
    /// An array of its own memory.
    pub fn fresh(&mut self, name: &'s str, meta: &'s TensorMeta, value: Arg) -> usize {
        self.storages.push(Storage {
            root: value.clone(),
            version: 0,
            may_alias_with: None,
        });
        self.views.push(View {
            storage: self.storages.len() - 1,
            name,
            meta,
            step: None,
            value,
            version: 0,
        });
        self.views.len() - 1
    }

    /// Notes that storages may be one, because of an operator or array.
    pub(super) fn note_alias(&mut self, storages: &[usize], by: &str) {
        for &storage in storages {
            self.storages[storage].may_alias_with = Some(by.to_owned());
        }
    }

    /// Notes that an array of the file may overlap with another one.
    pub fn note_overlap(&mut self, view: usize, other: &str) {
        self.note_alias(&[self.views[view].storage], other);
    }

    /// The number of arrays.
    pub fn len(&self) -> usize {
        self.views.len()
    }

    /// The name of the first of these arrays whose memory was changed.
    pub fn changed(&self, views: Range<usize>) -> Option<&'s str> {
        let mut views = self.views[views].iter();
        let changed = views.find(|v| self.storages[v.storage].version > 0);
        changed.map(|v| v.name)
    }
}

impl<'s> Walk<'s> {
    /// The value of an array at this point.
    pub fn read(&mut self, view: usize) -> Result<Arg> {
        let storage = &self.memory.storages[self.memory.views[view].storage];
        let (version, root) = (storage.version, storage.root.clone());
        // Views that are out of date, from this one towards the root.
        let mut stale = vec![];
        let mut at = view;
        while self.memory.views[at].version != version {
            stale.push(at);
            match &self.memory.views[at].step {
                Some((step, _)) => at = step.parent,
                None => break,
            }
        }
        for view in stale.into_iter().rev() {
            let value = match self.memory.views[view].step.clone() {
                None => root.clone(),
                Some((step, index)) => {
                    let parent = self.memory.views[step.parent].value.clone();
                    self.replay(&step, index, parent)?
                }
            };
            let view = &mut self.memory.views[view];
            (view.value, view.version) = (value, version);
        }
        Ok(self.memory.views[view].value.clone())
    }

    /// Appends the operator of a view.
    fn replay(&mut self, step: &Step<'s>, index: usize, parent: Arg) -> Result<Arg> {
        let mut args = vec![parent];
        args.extend(step.args.iter().cloned());
        let mut results = vec![];
        for name in &step.results {
            let meta = self.meta(name)?;
            results.push(self.array(name, meta)?);
        }
        let id = results.get(index).map(|r| r.id);
        let id = id.ok_or_else(|| OpError::Invalid("it has no results".into()))?;
        self.emit_again(step.target.clone(), args, step.kwargs.clone(), results)?;
        Ok(Arg::Value(id))
    }

    /// A node whose results may lie in its first argument.
    pub fn view(
        &mut self,
        node: &'s schema::Node,
        target: &str,
        args: Vec<Arg>,
        kwargs: BTreeMap<String, Arg>,
        aliasing: Aliasing,
    ) -> Result<()> {
        let parent = self.written(node)?;
        let results = self.results(node)?;
        let names: Vec<&str> = results.iter().filter_map(|(name, _)| *name).collect();
        let values: Vec<Value> = results.into_iter().map(|(_, value)| value).collect();
        let ids: Vec<i64> = values.iter().map(|v| v.id).collect();
        self.emit(target.to_owned(), args.clone(), kwargs.clone(), values)?;
        let step = Rc::new(Step {
            parent,
            target: target.to_owned(),
            args: args.into_iter().skip(1).collect(),
            kwargs,
            results: names.clone(),
        });
        for (index, (name, id)) in names.iter().zip(ids).enumerate() {
            let meta = self.meta(name)?;
            let value = Arg::Value(id);
            let source = &self.memory.views[parent];
            let is_same_type = source.meta.dtype == meta.dtype;
            let shares = match aliasing {
                Aliasing::IfSameType => is_same_type,
                Aliasing::IfDense => self.is_dense(source.meta),
                Aliasing::IfInOrder => false,
                _ => true,
            };
            let view = if shares {
                let storage = source.storage;
                let version = self.memory.storages[storage].version;
                self.memory.views.push(View {
                    storage,
                    name,
                    meta,
                    step: Some((step.clone(), index)),
                    value,
                    version,
                });
                self.memory.views.len() - 1
            } else {
                let storage = source.storage;
                let copy = self.memory.fresh(name, meta, value);
                let may_share = match aliasing {
                    Aliasing::IfDense => target != "aten.contiguous.default",
                    Aliasing::IfInOrder => is_same_type,
                    _ => false,
                };
                if may_share {
                    let copied = self.memory.views[copy].storage;
                    self.memory.note_alias(&[storage, copied], target);
                }
                copy
            };
            self.define(name, Bound::Array(view))?;
        }
        Ok(())
    }

    /// Do an array's elements lie in row-major order?
    fn is_dense(&self, meta: &TensorMeta) -> bool {
        let dim = |size: &schema::SymInt| match expr::size(size, self.renamed).ok()? {
            Size::Int(n) => Some(Dim::constant(n)),
            Size::Expr(text) => Some(Expr::parse(&text).ok()?.dim(&|name| Dim::sym(name))),
        };
        let mut want = Dim::constant(1);
        for (size, stride) in meta.sizes.iter().zip(&meta.strides).rev() {
            let (Some(size), Some(stride)) = (dim(size), dim(stride)) else {
                return false;
            };
            if size.as_const() != Some(1) && stride != want {
                return false;
            }
            want = want.mul(&size);
        }
        true
    }
}
