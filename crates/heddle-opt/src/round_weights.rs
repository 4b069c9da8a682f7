//! Rounds the weights of products to types of fewer bytes.

use std::collections::HashMap;
use std::fmt;

use half::{bf16, f16};
use heddle_ir::patch::Patch;
use heddle_ir::{DType, FuncId, Function, Inst, Module, Op, Tensor, Value};

/// Columns from which on kernels read weights in panels; a second operand with fewer becomes the first.
const LEAST_COLUMNS: i64 = 8;

/// Output channels of a group from which on kernels compute a convolution.
const LEAST_CHANNELS: usize = 4;

/// The largest number of a signed byte that stands for a weight.
const MOST: f32 = 127.0;

/// Weights of products, and what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundedWeights {
    /// Constants that are numbers of the type now.
    pub rounded: usize,
    /// Elements of these.
    pub elements: usize,
    /// Products whose weights stay as they are, by cause.
    pub left: Vec<(String, LeftWeight)>,
}

/// Why the weights of a product stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftWeight {
    /// A number becomes infinite in the type, or is no finite number.
    NotHeld,
    /// Kernels read weights of such a product in panels seldom or never.
    NotPacked,
}

impl fmt::Display for LeftWeight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LeftWeight::NotHeld => "they have numbers that the type does not hold",
            LeftWeight::NotPacked => "kernels of such products seldom or never pack them",
        })
    }
}

/// Rounds constants of `f32` that are weights of products and convolutions to numbers of another type, to nearest, ties to even; they
/// stay constants of `f32`. With [`DType::I8`] they become whole multiples, up to 127, of a scale for each output column (output
/// channel of a convolution) of each matrix: the least with 17 significant bits that holds the column's largest number, so that
/// multiples are exact, and rounding again changes nothing.
///
/// Each product gets constants of its own, so other readers of a constant keep it, and products that read it with other columns have
/// other scales.
///
/// It does *not* change weights that kernels read in panels seldom or never: those of products with few columns, of depthwise
/// convolutions, and of convolutions with one tap or dynamic maps. Others it rounds before kernels are selected: a product whose
/// kernel packs none after all, a convolution with short runs for one, has rounded weights that take as many bytes as before.
pub fn round_weights(module: &mut Module, to: DType) -> RoundedWeights {
    let mut report = RoundedWeights::default();
    for id in module.functions.keys().collect::<Vec<FuncId>>() {
        let func = &mut module.functions[id];
        let mut found = vec![];
        func.for_each_inst(&mut |inst, data| {
            if matches!(data.op, Op::Dot | Op::Conv { .. }) {
                found.push(inst);
            }
        });
        let mut rounding = Rounding {
            to,
            patch: Patch::new(func),
            made: HashMap::new(),
        };
        for inst in found {
            rounding.product(inst, &mut report);
        }
        rounding.patch.apply();
    }
    report
}

struct Rounding<'f> {
    to: DType,
    patch: Patch<'f>,
    /// Constants that were rounded, by the axes that scales are shared along.
    made: HashMap<(Value, Axes), Value>,
}

/// The axes that a scale is shared along: one, or all behind the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Axes {
    One(usize),
    BehindFirst,
}

impl Rounding<'_> {
    fn product(&mut self, inst: Inst, report: &mut RoundedWeights) {
        let data = self.patch.func().insts[inst].clone();
        let mut args = data.args.clone();
        let node = || match &data.loc {
            Some(loc) => loc.to_string(),
            None => "a product".into(),
        };
        for at in 0..args.len().min(2) {
            let value = args[at];
            let Some(tensor) = constant(self.patch.func(), value) else {
                continue;
            };
            if tensor.dtype() != DType::F32 || tensor.is_empty() {
                continue;
            }
            let Some(axes) = packed_axes(self.patch.func(), inst, at, &tensor) else {
                report.left.push((node(), LeftWeight::NotPacked));
                continue;
            };
            if let Some(&made) = self.made.get(&(value, axes)) {
                args[at] = made;
                continue;
            }
            let Some(rounded) = rounded(&tensor, axes, self.to) else {
                report.left.push((node(), LeftWeight::NotHeld));
                continue;
            };
            report.rounded += 1;
            report.elements += rounded.len();
            let (anchor, ty) = (self.root(value).unwrap_or(inst), rounded.ty());
            let made = self
                .patch
                .insert(anchor, Op::Const(rounded), &[], vec![], vec![ty])[0];
            self.made.insert((value, axes), made);
            args[at] = made;
        }
        if args != data.args {
            self.patch.change(inst, data.op, args, data.results);
            self.patch.because("weights rounded");
        }
    }

    /// The constant that a value is, or is a view of.
    fn root(&self, value: Value) -> Option<Inst> {
        let func = self.patch.func();
        let mut inst = func.def_inst(value)?;
        while !matches!(func.insts[inst].op, Op::Const(_)) {
            inst = func.def_inst(*func.insts[inst].args.first()?)?;
        }
        Some(inst)
    }
}

/// The elements of a constant, or of a view of one.
fn constant(func: &Function, value: Value) -> Option<Tensor> {
    let data = &func.insts[func.def_inst(value)?];
    match &data.op {
        Op::Const(tensor) => Some(tensor.clone()),
        op if op.only_moves() => {
            let args = data.args.iter().map(|arg| constant(func, *arg));
            let args = args.collect::<Option<Vec<_>>>()?;
            heddle_interp::fold(op, &args.iter().collect::<Vec<_>>())?.pop()
        }
        _ => None,
    }
}

/// The axes that share a scale, of an operand that kernels read in panels.
fn packed_axes(func: &Function, inst: Inst, at: usize, tensor: &Tensor) -> Option<Axes> {
    let data = &func.insts[inst];
    let shape = tensor.shape();
    let rank = shape.len();
    let of = |value: Value| func.ty(value).as_tensor().and_then(|ty| ty.shape.as_ref());
    let size = |value: Value, from_end: usize| {
        let shape = of(value)?;
        shape.get(shape.len().checked_sub(from_end)?)?.as_const()
    };
    match &data.op {
        Op::Dot if at == 1 && rank >= 2 => {
            let columns = shape[rank - 1] as i64;
            // With one row, columns stay columns.
            let rows = of(data.args[0])?.len() == 2 && size(data.args[0], 2) == Some(1);
            let wide = columns >= LEAST_COLUMNS || rows && columns > 1;
            wide.then_some(Axes::One(rank - 2))
        }
        Op::Dot if rank == 2 => {
            let columns = size(data.args[1], 1)?;
            let few = columns < LEAST_COLUMNS && columns < shape[0] as i64;
            few.then_some(Axes::One(1))
        }
        Op::Conv { groups, .. } if at == 1 => {
            let taps: usize = shape[2..].iter().product();
            let is_static = (1..rank - 1).all(|axis| size(data.args[0], axis).is_some());
            let packed = taps > 1 && shape[0] / groups.max(&1) >= LEAST_CHANNELS && is_static;
            packed.then_some(Axes::BehindFirst)
        }
        _ => None,
    }
}

/// The numbers of a type that are nearest, as `f32`; `None` if one is not finite there.
fn rounded(tensor: &Tensor, axes: Axes, to: DType) -> Option<Tensor> {
    let values = tensor.to_vec::<f32>()?;
    let rounded: Vec<f32> = match to {
        DType::Bf16 => values.iter().map(|v| bf16::from_f32(*v).to_f32()).collect(),
        DType::F16 => values.iter().map(|v| f16::from_f32(*v).to_f32()).collect(),
        _ => {
            let groups = Groups::of(tensor.shape(), axes);
            let mut scales = vec![0f32; groups.len()];
            for (i, value) in values.iter().enumerate() {
                let most = &mut scales[groups.of_element(i)];
                *most = most.max(value.abs());
            }
            for most in &mut scales {
                *most = scale(*most)?;
            }
            let multiple = |(i, value): (usize, &f32)| {
                let scale = scales[groups.of_element(i)];
                match scale {
                    0.0 => 0.0,
                    _ => (value / scale).round_ties_even().clamp(-MOST, MOST) * scale,
                }
            };
            values.iter().enumerate().map(multiple).collect()
        }
    };
    // A maximum skips NaNs.
    let finite = values.iter().chain(&rounded).all(|v| v.is_finite());
    finite.then(|| Tensor::from_slice(tensor.shape().to_vec(), &rounded))
}

/// The scale of numbers up to this: 17 significant bits, of which 127 is an exact multiple. `None` if there is none.
fn scale(most: f32) -> Option<f32> {
    const DROPPED: u32 = (1 << 7) - 1;
    // Multiples of smaller ones would not be exact.
    const LEAST: f32 = 1e-30;
    if most == 0.0 {
        return Some(0.0);
    }
    let bits = (most / MOST).to_bits();
    let scale = f32::from_bits((bits + DROPPED) & !DROPPED);
    (scale >= LEAST && (scale * MOST).is_finite()).then_some(scale)
}

/// Elements that share a scale.
struct Groups {
    /// Neighbours of an element with scales of their own.
    inner: usize,
    /// The size of the axis that a scale is shared along.
    shared: usize,
    outer: usize,
}

impl Groups {
    fn of(shape: &[usize], axes: Axes) -> Self {
        let (at, behind) = match axes {
            Axes::One(axis) => (axis, axis + 1),
            Axes::BehindFirst => (1, shape.len()),
        };
        let product = |part: &[usize]| part.iter().product();
        Self {
            outer: product(&shape[..at]),
            shared: product(&shape[at..behind]),
            inner: product(&shape[behind..]),
        }
    }

    fn len(&self) -> usize {
        self.outer * self.inner
    }

    fn of_element(&self, i: usize) -> usize {
        i / (self.shared * self.inner) * self.inner + i % self.inner
    }
}
