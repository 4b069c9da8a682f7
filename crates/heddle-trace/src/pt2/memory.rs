//! Changes in place as values.
//!
//! A *storage* is memory of a root array, with a version; a *view* is an array in it, by the operators that lead to it from the root. A
//! change of a view is written back through these operators to the root, and makes a new version; a view of an older version is read by its
//! operators anew. So a program that changes arrays in place becomes one on values, as PyTorch's own functionalisation makes it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

use heddle_ir::Dim;

use super::aliasing::Aliasing;
use super::expr;
use super::schema::{self, Argument, TensorMeta};
use super::translate::{Bound, Walk};
use crate::error::{OpError, Result, invalid, refuse};
use crate::graph::{Arg, Size, Value};
use crate::size::Expr;

/// Memory of a graph.
#[derive(Default)]
pub struct Memory<'s> {
    storages: Vec<Storage>,
    views: Vec<View<'s>>,
}

struct Storage {
    /// The value of the root.
    root: Arg,
    version: u32,
    /// The operator or array because of which other memory may be this, so that a change of it would have to be one of both.
    may_alias_with: Option<String>,
}

struct View<'s> {
    storage: usize,
    name: &'s str,
    meta: &'s TensorMeta,
    /// The operator, and which of its results this is; `None` for the root.
    step: Option<(Rc<Step<'s>>, usize)>,
    /// Its value in a version of the storage.
    value: Arg,
    version: u32,
}

/// The operator that gives views.
struct Step<'s> {
    parent: usize,
    target: String,
    /// Arguments behind the first one.
    args: Vec<Arg>,
    kwargs: BTreeMap<String, Arg>,
    results: Vec<&'s str>,
}

impl Step<'_> {
    fn arg(&self, i: usize, name: &str) -> Option<&Arg> {
        self.args.get(i).or_else(|| self.kwargs.get(name))
    }

    fn int(&self, i: usize, name: &str, default: i64) -> Option<i64> {
        match self.arg(i, name) {
            None | Some(Arg::None(_)) => Some(default),
            Some(Arg::Int(n)) => Some(*n),
            Some(_) => None,
        }
    }
}

/// Outputs of a nested graph, by what their memory is. Those that are no arrays have memory of their own.
pub struct Ports {
    /// It may be that of an input.
    in_inputs: Vec<bool>,
    /// It may be that of another output.
    in_outputs: Vec<bool>,
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
    fn note_alias(&mut self, storages: &[usize], by: &str) {
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

    /// The memory of this graph's outputs.
    pub fn ports(&self) -> Ports {
        let inputs: HashSet<usize> = self
            .source
            .inputs
            .iter()
            .flat_map(|i| self.storages(i))
            .collect();
        let mut ports = Ports {
            in_inputs: vec![],
            in_outputs: vec![],
        };
        let outputs: Vec<Option<usize>> = self
            .source
            .outputs
            .iter()
            .map(|o| self.storages(o).pop())
            .collect();
        let mut count = HashMap::new();
        for storage in outputs.iter().flatten() {
            *count.entry(*storage).or_insert(0) += 1;
        }
        for output in outputs {
            let storage = |is: &dyn Fn(usize) -> bool| output.is_some_and(is);
            let is_unclear = storage(&|s| self.memory.storages[s].may_alias_with.is_some());
            ports
                .in_inputs
                .push(is_unclear || storage(&|s| inputs.contains(&s)));
            ports
                .in_outputs
                .push(is_unclear || storage(&|s| count[&s] > 1));
        }
        ports
    }

    /// The storages of an argument's arrays.
    fn storages(&self, arg: &Argument) -> Vec<usize> {
        let named: &[schema::Named] = match arg {
            Argument::AsTensor(tensor) => std::slice::from_ref(tensor),
            Argument::AsTensors(all) => all,
            _ => &[],
        };
        let names = named.iter().filter_map(|t| self.names.get(t.name.as_str()));
        names
            .filter_map(|bound| match bound {
                Bound::Array(view) => Some(self.memory.views[*view].storage),
                Bound::Arg(_) => None,
            })
            .collect()
    }

    /// Notes that results of an operator with graphs may lie in its operands, or in each other, as they do in one of its graphs.
    pub fn note_aliases(&mut self, node: &schema::Node, within: &[Ports]) {
        let results: Vec<Option<usize>> = match &node.outputs[..] {
            [all @ Argument::AsTensors(_)] => self.storages(all).into_iter().map(Some).collect(),
            outputs => outputs.iter().map(|o| self.storages(o).pop()).collect(),
        };
        let inputs = node.inputs.iter().map(|i| &i.arg);
        let operands: Vec<usize> = inputs.flat_map(|arg| self.storages(arg)).collect();
        for ports in within {
            let both = ports.in_inputs.iter().zip(&ports.in_outputs);
            let shared: Vec<bool> = both.map(|(a, b)| *a || *b).collect();
            let is_shared = |i: usize| match shared.len() == results.len() {
                true => shared[i],
                // Its outputs are not the results, as for the condition of a loop.
                false => shared.contains(&true),
            };
            let shared = results.iter().enumerate().filter(|(i, _)| is_shared(*i));
            let mut storages: Vec<usize> = shared.filter_map(|(_, storage)| *storage).collect();
            if ports.in_inputs.contains(&true) {
                storages.extend(&operands);
            }
            self.memory.note_alias(&storages, &node.target);
        }
    }

    /// The array that is a node's first argument by position.
    fn written(&self, node: &schema::Node) -> Result<usize> {
        let first = node.inputs.first();
        let Some(Argument::AsTensor(tensor)) = first.map(|input| &input.arg) else {
            return invalid("its first argument is no array");
        };
        if first.and_then(|input| input.kind) != Some(schema::POSITIONAL) {
            return refuse("its first argument is not given by position");
        }
        match self.names.get(tensor.name.as_str()) {
            Some(Bound::Array(view)) => Ok(*view),
            _ => invalid(format!("`{}` is no array", tensor.name)),
        }
    }

    /// A node that changes its first argument to the result of the operator `form`.
    pub fn write_in_place(
        &mut self,
        node: &'s schema::Node,
        target: &str,
        form: &str,
    ) -> Result<()> {
        let view = self.written(node)?;
        let (args, kwargs) = self.arguments(node)?;
        let (name, meta) = (self.memory.views[view].name, self.memory.views[view].meta);
        let mut result = self.array(name, meta)?;
        let mut made = Arg::Value(result.id);
        let ty = self.result_type(node, form, meta)?;
        let stated = std::mem::replace(&mut result.ty, ty);
        let is_other = result.ty != stated;
        self.emit(form.to_owned(), args, kwargs, vec![result])?;
        if is_other {
            let kwargs = BTreeMap::from([("dtype".to_owned(), Arg::DType(stated))]);
            let result = self.array(name, meta)?;
            let wide = std::mem::replace(&mut made, Arg::Value(result.id));
            self.emit(
                "aten._to_copy.default".to_owned(),
                vec![wide],
                kwargs,
                vec![result],
            )?;
        }
        self.write(view, made, target)?;
        match &node.outputs[..] {
            [Argument::AsTensor(output)] => self.define(&output.name, Bound::Array(view)),
            _ => invalid("an operator in place has one result"),
        }
    }

    /// Makes a value that of an array, and writes it back to its storage.
    fn write(&mut self, view: usize, made: Arg, target: &str) -> Result<()> {
        let storage = self.memory.views[view].storage;
        if let Some(by) = &self.memory.storages[storage].may_alias_with {
            return refuse(format!(
                "a change in place of memory that `{by}` may share: write `x = x + y` for `x += y`"
            ));
        }
        let mut updates = vec![(view, made.clone())];
        let (mut at, mut value) = (view, made);
        while let Some((step, index)) = self.memory.views[at].step.clone() {
            let parent = self.read(step.parent)?;
            value = self.put(&step, index, parent, value, target)?;
            at = step.parent;
            updates.push((at, value.clone()));
        }
        let version = self.memory.storages[storage].version + 1;
        self.memory.storages[storage].version = version;
        self.memory.storages[storage].root = value;
        for (view, value) in updates {
            let view = &mut self.memory.views[view];
            (view.value, view.version) = (value, version);
        }
        Ok(())
    }

    /// The value of a view's parent once the view is `made`.
    fn put(
        &mut self,
        step: &Step<'s>,
        index: usize,
        parent: Arg,
        made: Arg,
        target: &str,
    ) -> Result<Arg> {
        let meta = self.memory.views[step.parent].meta;
        let name = step.target.strip_prefix("aten.").unwrap_or(&step.target);
        let refused = || {
            refuse(format!(
                "a change in place (`{target}`) of what `{}` gives: write `x = x + y` for `x += y`",
                step.target
            ))
        };
        let mut args = vec![];
        let target = match name {
            "alias.default"
            | "detach.default"
            | "detach_.default"
            | "lift_fresh.default"
            | "positive.default"
            | "resolve_conj.default"
            | "resolve_neg.default"
            | "dropout.default"
            | "contiguous.default"
            | "to.dtype"
            | "to.device"
            | "to.dtype_layout"
            | "to.other"
            | "type_as.default" => return Ok(made),
            "select.int" | "slice.Tensor" => {
                args.extend([parent, made]);
                args.extend(step.args.iter().cloned());
                if !step.kwargs.is_empty() {
                    return refused();
                }
                match name {
                    "select.int" => "aten.select_scatter.default",
                    _ => "aten.slice_scatter.default",
                }
            }
            "narrow.default" => {
                let (dim, start, length) = (step.args.first(), step.args.get(1), step.args.get(2));
                let (Some(dim), Some(Arg::Int(start)), Some(Arg::Int(length))) =
                    (dim, start, length)
                else {
                    return refused();
                };
                let Some(end) = start.checked_add(*length).filter(|_| *start >= 0) else {
                    return refused();
                };
                args.extend([parent, made, dim.clone(), Arg::Int(*start), Arg::Int(end)]);
                "aten.slice_scatter.default"
            }
            "unbind.int" => {
                let Some(dim) = step.int(0, "dim", 0) else {
                    return refused();
                };
                args.extend([parent, made, Arg::Int(dim), Arg::Int(index as i64)]);
                "aten.select_scatter.default"
            }
            "view.default" | "reshape.default" | "flatten.using_ints" | "unflatten.int"
            | "unsqueeze.default" | "squeeze.default" | "squeeze.dim" | "squeeze.dims"
            | "view_as.default" => {
                let sizes = meta.sizes.iter().map(|s| expr::size(s, self.renamed));
                let sizes: std::result::Result<Vec<Size>, String> = sizes.collect();
                let sizes = sizes.map_err(OpError::Unsupported)?;
                let sizes = sizes.into_iter().map(|size| match size {
                    Size::Int(n) => Arg::Int(n),
                    size => Arg::Size(size),
                });
                args.extend([made, Arg::List(sizes.collect())]);
                "aten.view.default"
            }
            "t.default" | "numpy_T.default" => {
                args.push(made);
                step.target.as_str()
            }
            "transpose.int" => {
                args.push(made);
                args.extend(step.args.iter().cloned());
                "aten.transpose.int"
            }
            "permute.default" => {
                let Some(order) = inverse(step.arg(0, "dims"), meta.sizes.len()) else {
                    return refused();
                };
                args.extend([made, order]);
                "aten.permute.default"
            }
            _ => return refused(),
        };
        let result = self.array(self.memory.views[step.parent].name, meta)?;
        let value = Arg::Value(result.id);
        self.emit_again(target.to_owned(), args, BTreeMap::new(), vec![result])?;
        Ok(value)
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

    /// Is a node a batch normalisation that updates its running statistics?
    pub fn is_training_norm(&self, node: &schema::Node, target: &str) -> Result<bool> {
        let is_norm = matches!(
            target,
            "aten.batch_norm.default"
                | "aten.native_batch_norm.default"
                | "aten._native_batch_norm_legit.default"
        );
        let given = |name: &str| node.inputs.iter().find(|i| i.name == name).map(|i| &i.arg);
        let updates = is_norm
            && matches!(given("training"), Some(Argument::AsBool(true)))
            && matches!(given("running_mean"), Some(Argument::AsTensor(_)));
        match updates && target != "aten.batch_norm.default" {
            true => refuse("running statistics that it changes"),
            false => Ok(updates),
        }
    }

    /// `batch_norm` with its next running statistics.
    pub fn training_norm(&mut self, node: &'s schema::Node) -> Result<()> {
        let (mut args, kwargs) = self.arguments(node)?;
        if !kwargs.is_empty() {
            return refuse("arguments that are not given by position");
        }
        args.truncate(8);
        let stats = [3, 4].map(|i: usize| match node.inputs.get(i).map(|i| &i.arg) {
            Some(Argument::AsTensor(t)) => self.names.get(t.name.as_str()).cloned(),
            _ => None,
        });
        let [Some(Bound::Array(mean)), Some(Bound::Array(variance))] = stats else {
            return invalid("its running statistics are no arrays");
        };
        let mut results = self.results(node)?;
        let [(Some(name), y)] = &results[..] else {
            return invalid("it has one result");
        };
        let (name, y) = (*name, Arg::Value(y.id));
        let mut next = vec![];
        for view in [mean, variance, mean, variance] {
            let (name, meta) = (self.memory.views[view].name, self.memory.views[view].meta);
            let value = self.array(name, meta)?;
            next.push(Arg::Value(value.id));
            results.push((None, value));
        }
        let target = "aten._native_batch_norm_legit_functional.default";
        let values = results.into_iter().map(|(_, value)| value).collect();
        self.emit(target.to_owned(), args, BTreeMap::new(), values)?;
        self.write(mean, next[2].clone(), target)?;
        self.write(variance, next[3].clone(), target)?;
        let meta = self.meta(name)?;
        let y = self.memory.fresh(name, meta, y);
        self.define(name, Bound::Array(y))
    }
}

/// The order that undoes a permutation.
fn inverse(order: Option<&Arg>, rank: usize) -> Option<Arg> {
    let Some(Arg::List(order)) = order else {
        return None;
    };
    let mut back = vec![None; rank];
    for (to, from) in order.iter().enumerate() {
        let Arg::Int(from) = from else {
            return None;
        };
        let rank = i64::try_from(rank).ok()?;
        let from = if *from < 0 { from + rank } else { *from };
        *back.get_mut(usize::try_from(from).ok()?)? = Some(Arg::Int(to as i64));
    }
    Some(Arg::List(back.into_iter().collect::<Option<_>>()?))
}
