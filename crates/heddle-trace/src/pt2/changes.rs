//! Operators in place: what they write goes back through the views that it lies in.

use std::collections::BTreeMap;

use super::memory::Step;
use super::schema::{self, Argument};
use super::translate::{Bound, Walk};
use crate::error::{Result, invalid, refuse};
use crate::graph::{Arg, Size};

/// Operators whose views have all elements of what they view, in its shape.
const UNCHANGED: &[&str] = &[
    "alias.default",
    "contiguous.default",
    "detach.default",
    "detach_.default",
    "dropout.default",
    "lift_fresh.default",
    "positive.default",
    "resolve_conj.default",
    "resolve_neg.default",
    "to.device",
    "to.dtype",
    "to.dtype_layout",
    "to.other",
    "type_as.default",
];

impl<'s> Walk<'s> {
    /// The array that is a node's first argument by position.
    pub(super) fn written(&self, node: &schema::Node) -> Result<usize> {
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
    pub(super) fn write(&mut self, view: usize, made: Arg, target: &str) -> Result<()> {
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
        if UNCHANGED.contains(&name) {
            return Ok(made);
        }
        let Some((target, args)) = self.put_back(name, step, index, parent, made)? else {
            return refuse(format!(
                "a change in place (`{target}`) of what `{}` gives: write `x = x + y` for `x += y`",
                step.target
            ));
        };
        let result = self.array(self.memory.views[step.parent].name, meta)?;
        let value = Arg::Value(result.id);
        self.emit_again(target, args, BTreeMap::new(), vec![result])?;
        Ok(value)
    }

    /// The operator, with its arguments, that gives the parent of a view, the `index`th result of `step`, once the view is `made`. `None` if
    /// there is none.
    fn put_back(
        &self,
        name: &str,
        step: &Step<'s>,
        index: usize,
        parent: Arg,
        made: Arg,
    ) -> Result<Option<(String, Vec<Arg>)>> {
        let meta = self.memory.views[step.parent].meta;
        let with = |target: &str, args: Vec<Arg>| Ok(Some((format!("aten.{target}"), args)));
        let rest = |mut args: Vec<Arg>| {
            args.extend(step.args.iter().cloned());
            args
        };
        match name {
            "select.int" | "slice.Tensor" | "diagonal.default" if step.kwargs.is_empty() => {
                let (op, _) = name.split_once('.').unwrap_or_default();
                with(&format!("{op}_scatter.default"), rest(vec![parent, made]))
            }
            "narrow.default" => {
                let (dim, start, length) = (step.args.first(), step.args.get(1), step.args.get(2));
                let (Some(dim), Some(Arg::Int(start)), Some(Arg::Int(length))) =
                    (dim, start, length)
                else {
                    return Ok(None);
                };
                let Some(end) = start.checked_add(*length).filter(|_| *start >= 0) else {
                    return Ok(None);
                };
                let args = vec![parent, made, dim.clone(), Arg::Int(*start), Arg::Int(end)];
                with("slice_scatter.default", args)
            }
            "split.Tensor" | "split_with_sizes.default" | "chunk.default" => {
                let Some(dim) = step.int(1, "dim", 0) else {
                    return Ok(None);
                };
                let (start, end) = self.extent(step, index, dim)?;
                let args = vec![parent, made, Arg::Int(dim), start, end];
                with("slice_scatter.default", args)
            }
            "unbind.int" => match step.int(0, "dim", 0) {
                Some(dim) => {
                    let args = vec![parent, made, Arg::Int(dim), Arg::Int(index as i64)];
                    with("select_scatter.default", args)
                }
                None => Ok(None),
            },
            // PyTorch refuses a change of an element that is several ones of the view.
            "expand.default" | "expand_as.default" | "broadcast_to.default"
                if !self.is_same_size(step, index)? =>
            {
                Ok(None)
            }
            "view.default"
            | "reshape.default"
            | "flatten.using_ints"
            | "unflatten.int"
            | "unsqueeze.default"
            | "squeeze.default"
            | "squeeze.dim"
            | "squeeze.dims"
            | "view_as.default"
            | "expand.default"
            | "expand_as.default"
            | "broadcast_to.default" => {
                let sizes = meta.sizes.iter().map(|size| self.size(size));
                let sizes: Vec<Size> = sizes.collect::<Result<_>>()?;
                let sizes = sizes.into_iter().map(sized).collect();
                with("view.default", vec![made, Arg::List(sizes)])
            }
            "t.default" | "numpy_T.default" => with(name, vec![made]),
            "transpose.int" => with(name, rest(vec![made])),
            "movedim.int" | "movedim.intlist" => {
                let (Some(from), Some(to)) = (step.arg(0, "source"), step.arg(1, "destination"))
                else {
                    return Ok(None);
                };
                with(name, vec![made, to.clone(), from.clone()])
            }
            "permute.default" => match inverse(step.arg(0, "dims"), meta.sizes.len()) {
                Some(order) => with(name, vec![made, order]),
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// The bounds of the `index`th part of an axis that is split: the parts before it have the sizes that the file states.
    fn extent(&self, step: &Step<'s>, index: usize, dim: i64) -> Result<(Arg, Arg)> {
        let (mut known, mut open) = (0i64, String::new());
        let mut start = Size::Int(0);
        let mut end = Size::Int(0);
        for name in step.results.iter().take(index + 1) {
            let sizes = &self.meta(name)?.sizes;
            let axis = if dim < 0 {
                dim + sizes.len() as i64
            } else {
                dim
            };
            let size = usize::try_from(axis).ok().and_then(|axis| sizes.get(axis));
            let Some(size) = size else {
                return invalid(format!("`{name}` has no axis {dim}"));
            };
            match self.size(size)? {
                Size::Int(n) => known = known.saturating_add(n),
                Size::Expr(text) => open = format!("{open} + ({text})"),
            }
            start = end;
            end = match open.is_empty() {
                true => Size::Int(known),
                false => Size::Expr(format!("{known}{open}")),
            };
        }
        Ok((sized(start), sized(end)))
    }

    /// Has a view the axes of its parent, with others of size 1 in front at most?
    fn is_same_size(&self, step: &Step<'s>, index: usize) -> Result<bool> {
        let Some(name) = step.results.get(index) else {
            return Ok(false);
        };
        let (view, parent) = (&self.meta(name)?.sizes, self.memory.views[step.parent].meta);
        let Some(more) = view.len().checked_sub(parent.sizes.len()) else {
            return Ok(false);
        };
        for (axis, size) in view.iter().enumerate() {
            let of = match axis.checked_sub(more) {
                Some(axis) => self.size(&parent.sizes[axis])?,
                None => Size::Int(1),
            };
            if self.size(size)? != of {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A size as an argument.
fn sized(size: Size) -> Arg {
    match size {
        Size::Int(n) => Arg::Int(n),
        size => Arg::Size(size),
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
