//! Transposed convolutions by phases.

mod form;

use heddle_ir::patch::{Patch, Stats};
use heddle_ir::{FuncId, Inst, Module, Op, Tensor, Value};

use crate::Edit;
use form::{Form, Taps};

/// Maximum number of element operations to rearrange a constant weight.
const MAX_WORK: u64 = 1 << 28;

/// Rewrites convolutions of maps with zeros between their elements (`input_dilations`). Results
/// that lie `s` apart, a phase, are an ordinary convolution of the map itself by every `s`-th tap.
///
/// Neighbouring phases whose windows are the same elements of the map are one convolution, with
/// their channels stacked: all of them if the stride divides the window and the padding fits. If a
/// result has few channels, it is computed from an earlier place on for that, and cut.
///
/// It does *not* change convolutions with strides along such an axis, nor those of maps of
/// symbolic size (the number of images may be), nor those by floats that may be infinite.
pub fn split_transposed(module: &mut Module) -> Stats {
    let ids: Vec<FuncId> = module.functions.keys().collect();
    let mut stats = Stats::default();
    for id in ids {
        let func = &mut module.functions[id];
        let mut convs = vec![];
        func.for_each_inst(&mut |inst, data| {
            if matches!(&data.op, Op::Conv { input_dilations, .. } if input_dilations.iter().any(|&s| s > 1))
            {
                convs.push(inst);
            }
        });
        let mut patch = Patch::new(func);
        for inst in convs {
            rewrite(&mut patch, inst);
        }
        stats.merge(patch.apply());
    }
    stats
}

fn rewrite(patch: &mut Patch, inst: Inst) -> Option<()> {
    let form = Form::of(patch, inst)?;
    let mut split = Split {
        patch,
        form,
        anchor: inst,
    };
    let interleaved = split.run()?;
    let result = patch.func().insts[inst].results[0];
    if patch.replace(result, interleaved) {
        patch.remove(inst);
        patch.because(Edit::ConvolutionSplit);
    }
    Some(())
}

/// A convolution that is taken apart.
struct Split<'p, 'f> {
    patch: &'p mut Patch<'f>,
    form: Form,
    /// New instructions go before this one.
    anchor: Inst,
}

impl Split<'_, '_> {
    fn run(&mut self) -> Option<Value> {
        let shift = self.form.shift()?;
        let axes = self.form.axes.iter().zip(&shift);
        let runs: Vec<_> = axes.map(|(axis, &shift)| axis.runs(shift)).collect();
        let places = self.places(&shift);
        let map = self.joined(&runs, &mut vec![], &places)?;
        self.interleaved(map, &places, &shift)
    }

    /// The phases of all runs along the axes that are not `chosen`, `[n, groups, phases…, c, places…]`.
    fn joined(
        &mut self,
        runs: &[Vec<Vec<Taps>>],
        chosen: &mut Vec<Vec<Taps>>,
        places: &[i64],
    ) -> Option<Value> {
        let Some((own, others)) = runs.split_first() else {
            return self.part(chosen, places);
        };
        let axis = 2 + chosen.len();
        let mut parts = vec![];
        for run in own {
            chosen.push(run.clone());
            let part = self.joined(others, chosen, places);
            chosen.pop();
            parts.push(part?);
        }
        match parts[..] {
            [part] => Some(part),
            _ => self.op(Op::Concat { axis }, &parts),
        }
    }

    /// The phases of a run along each axis by one convolution; zeros where they have no taps.
    fn part(&mut self, runs: &[Vec<Taps>], places: &[i64]) -> Option<Value> {
        let int = |n: usize| i64::try_from(n).ok();
        let counts: Option<Vec<i64>> = runs.iter().map(|run| int(run.len())).collect();
        let counts = counts?;
        let count = counts.iter().product();
        let first: Vec<Taps> = runs.iter().map(|run| run[0]).collect();
        let map = match first.iter().all(|taps| taps.count > 0) {
            true => {
                let weight = self.stacked(runs)?;
                self.convolution(weight, &first, places)?
            }
            false => self.zeros(count, places)?,
        };
        let groups = self.form.groups as i64;
        let own = self.form.outputs / groups;
        let batch = self.form.batch.unwrap_or(-1);
        let shape = [&[batch, groups], &counts[..], &[own], places].concat();
        self.reshape(map, &shape)
    }

    /// The weights of the phases of a run along each axis, by group, phase and channel.
    fn stacked(&mut self, runs: &[Vec<Taps>]) -> Option<Value> {
        let mut phases = vec![vec![]];
        for run in runs {
            let longer = phases.iter().flat_map(|before: &Vec<Taps>| {
                run.iter().map(move |taps| [&before[..], &[*taps]].concat())
            });
            phases = longer.collect();
        }
        if let [taps] = &phases[..] {
            return self.weight(taps);
        }
        let groups = self.form.groups as i64;
        let own = self.form.outputs / groups;
        let depth = *self
            .patch
            .ty(self.form.weight)
            .as_tensor()?
            .static_shape()?
            .get(1)?;
        let window = phases[0].iter().map(|taps| taps.count);
        let rest: Vec<i64> = [i64::try_from(depth).ok()?]
            .into_iter()
            .chain(window)
            .collect();
        let mut weights = vec![];
        for taps in &phases {
            let weight = self.weight(taps)?;
            weights.push(self.reshape(weight, &[&[groups, own], &rest[..]].concat())?);
        }
        let weight = self.op(Op::Concat { axis: 1 }, &weights)?;
        let outputs = self.form.outputs * phases.len() as i64;
        self.reshape(weight, &[&[outputs], &rest[..]].concat())
    }

    /// Places of a phase along each axis.
    fn places(&self, shift: &[i64]) -> Vec<i64> {
        let axes = self.form.axes.iter().zip(shift);
        axes.map(|(axis, &shift)| axis.phase_places(shift))
            .collect()
    }

    /// Weights at some taps.
    fn weight(&mut self, taps: &[Taps]) -> Option<Value> {
        let of = |figure: fn(&Taps) -> i64| taps.iter().map(figure).collect::<Vec<i64>>();
        let starts = of(|t| t.first);
        let ends = of(|t| t.first + (t.count - 1) * t.step + 1);
        let steps = of(|t| t.step);
        let axes = (2..taps.len() + 2).collect();
        let [starts, ends, steps] = [starts, ends, steps].map(|list| self.ints(&list));
        let weight = self.form.weight;
        self.op(Op::Slice { axes }, &[weight, starts?, ends?, steps?])
    }

    fn convolution(&mut self, weight: Value, taps: &[Taps], places: &[i64]) -> Option<Value> {
        let axes = self.form.axes.iter().zip(taps.iter().zip(places));
        let pads: Vec<_> = axes.map(|(axis, (taps, &n))| axis.pads(taps, n)).collect();
        let [before, behind] = [0, 1].map(|end| pads.iter().map(move |pads| pads[end]));
        let pads = self.ints(&before.chain(behind).collect::<Vec<_>>())?;
        let usize_of = |n: i64| usize::try_from(n).ok();
        let axes = || self.form.axes.iter();
        let strides: Option<_> = axes().map(|axis| usize_of(axis.stride)).collect();
        let dilations: Option<_> = axes().map(|axis| usize_of(axis.reach())).collect();
        let op = Op::Conv {
            strides: strides?,
            dilations: dilations?,
            input_dilations: vec![1; self.form.axes.len()],
            groups: self.form.groups,
        };
        let x = self.form.x;
        self.op(op, &[x, weight, pads])
    }

    /// So many phases without taps.
    fn zeros(&mut self, count: i64, places: &[i64]) -> Option<Value> {
        let zero = Op::Const(Tensor::splat(self.form.dtype, vec![], 0.0));
        let zero = self.patch.op(self.anchor, zero, &[])?;
        let sizes: Vec<i64> = [&[self.form.outputs * count], places].concat();
        let shape = match self.form.batch {
            Some(batch) => self.ints(&[&[batch], &sizes[..]].concat())?,
            None => {
                let (x, sizes) = (self.form.x, self.ints(&sizes)?);
                let shape = self.op(Op::Shape, &[x])?;
                let [from, to] = [0, 1].map(|k| self.ints(&[k]));
                let (from, to, step) = (from?, to?, self.ints(&[1])?);
                let batch = self.op(Op::Slice { axes: vec![0] }, &[shape, from, to, step])?;
                self.op(Op::Concat { axis: 0 }, &[batch, sizes])?
            }
        };
        self.patch.op(self.anchor, Op::Broadcast, &[zero, shape])
    }

    /// The phases of `[n, groups, phases…, c, places…]` side by side.
    fn interleaved(&mut self, map: Value, places: &[i64], shift: &[i64]) -> Option<Value> {
        let axes = || self.form.axes.iter();
        let rank = places.len();
        let mut perm = vec![0, 1, rank + 2];
        perm.extend((0..rank).flat_map(|k| [rank + 3 + k, 2 + k]));
        let mut joined = vec![self.form.batch.unwrap_or(-1), self.form.outputs];
        joined.extend(axes().zip(places).map(|(axis, n)| n * axis.phases));
        let ends = axes().zip(shift).map(|(axis, shift)| axis.places + shift);
        let ends: Vec<i64> = ends.collect();
        let is_whole = joined[2..] == ends && shift.iter().all(|&s| s == 0);
        let map = self.op(Op::Transpose { perm }, &[map])?;
        let map = self.reshape(map, &joined)?;
        if is_whole {
            return Some(map);
        }
        let (starts, ends) = (self.ints(shift)?, self.ints(&ends)?);
        let steps = self.ints(&vec![1; rank])?;
        let axes = (2..rank + 2).collect();
        self.op(Op::Slice { axes }, &[map, starts, ends, steps])
    }

    fn reshape(&mut self, value: Value, shape: &[i64]) -> Option<Value> {
        let shape = self.ints(shape)?;
        self.op(Op::Reshape, &[value, shape])
    }

    fn ints(&mut self, list: &[i64]) -> Option<Value> {
        let list = Op::Const(Tensor::vector(list));
        self.patch.op(self.anchor, list, &[])
    }

    /// The result of an op, at once if all operands are constants: kernels ask for constant weights.
    fn op(&mut self, op: Op, args: &[Value]) -> Option<Value> {
        let func = self.patch.func();
        let known: Option<Vec<&Tensor>> = args.iter().map(|&arg| func.constant(arg)).collect();
        let known = known.and_then(|known| heddle_interp::evaluate(&op, &known, MAX_WORK));
        let op = match known.and_then(|mut results| results.pop()) {
            Some(result) => return self.patch.op(self.anchor, Op::Const(result), &[]),
            None => op,
        };
        self.patch.op(self.anchor, op, args)
    }
}
