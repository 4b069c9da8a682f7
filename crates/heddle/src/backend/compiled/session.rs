//! Runs of a compiled program: inputs are checked, sizes read off them, and the memory kept.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use heddle_ir::tensor::element_count;
use heddle_ir::{Datum, Tensor};
use heddle_runtime::{CancelToken, Input, Lent, Outputs, OwnedOutput};
use heddle_uprogram::program::Size;

use super::{Compiled, Dims, marshal};
use crate::backend::interface::{ArrayView, Required, Session};
use crate::{Error, RunOptions};

/// The memory of one run at a time.
#[derive(Debug)]
pub(super) struct CompiledSession {
    compiled: Arc<Compiled>,
    session: Lent,
    limits: heddle_runtime::RunOptions<'static>,
    cancel: Option<CancelToken>,
    /// The run's key.
    seed: u64,
    /// Bound inputs with their dims.
    bound: Vec<(Tensor, Vec<i64>)>,
    /// A run has had the bound inputs: a device keeps them.
    has_bound: bool,
    /// Dims of the caller's arrays that were checked, by this session or another of the program.
    checked: Option<Vec<Vec<i64>>>,
    /// The launch's sizes, for the inputs bound or checked.
    sizes: Vec<i64>,
    /// Outputs of the last run under a sanitizer.
    sanitized: Vec<OwnedOutput>,
    /// Copies of the caller's arrays whose elements have under 8 bits, by input.
    unpacked: Vec<Option<Tensor>>,
}

impl CompiledSession {
    pub(super) fn new(compiled: Arc<Compiled>, options: &RunOptions) -> Self {
        let defaults = heddle_runtime::RunOptions::default();
        let most = |n: u64| n.min(i64::MAX as u64) as i64;
        let limits = heddle_runtime::RunOptions {
            timeout: options.timeout,
            watchdog: options.watchdog.unwrap_or(defaults.watchdog),
            max_depth: i64::try_from(options.depth_limit()).unwrap_or(i64::MAX),
            max_iterations: options.max_iterations.map_or(defaults.max_iterations, most),
            ..defaults
        };
        let mut session = compiled.executable.lend();
        let default = heddle_interp::Options::default().max_memory;
        session.limit_memory(options.max_memory.unwrap_or(default));
        let known = compiled.checked.take();
        let (checked, sizes) = known.map(|known| (known.arrays, known.sizes)).unzip();
        Self {
            session,
            limits,
            cancel: options.cancel.clone(),
            seed: options.seed,
            bound: vec![],
            has_bound: false,
            checked,
            sizes: sizes.unwrap_or_default(),
            sanitized: vec![],
            unpacked: vec![],
            compiled,
        }
    }

    /// Runs the program on the bound inputs.
    pub(super) fn launch(&mut self) -> Result<Outputs<'_>, Error> {
        self.run_bound(false)
    }

    /// The same; `outputs_stay`: on a device that has a memory of its own, until they are asked for.
    fn run_bound(&mut self, outputs_stay: bool) -> Result<Outputs<'_>, Error> {
        let inputs = self.bound.iter().map(|(tensor, dims)| Input {
            data: tensor.bytes(),
            dims,
        });
        let limits = heddle_runtime::RunOptions {
            same_inputs: std::mem::take(&mut self.has_bound),
            outputs_stay,
            ..limits(&self.limits, &self.cancel)
        };
        self.compiled.spares.supply(&mut self.session);
        let none = std::iter::empty();
        let outputs = self
            .session
            .run_into(inputs.clone(), none, &self.sizes, &limits);
        let outputs = outputs.map_err(|e| self.compiled.failed(e, inputs, &self.sizes, &limits))?;
        self.has_bound = true;
        Ok(outputs)
    }

    /// Checks arrays unless their dims are those of the run before, and reads sizes off them.
    fn check(&mut self, inputs: &[ArrayView<'_>]) -> Result<(), Error> {
        let compiled = &*self.compiled;
        let params = &compiled.sig.params;
        let is_known = |(array, dims): (&ArrayView<'_>, &Vec<i64>)| array.dims == *dims;
        let known = self
            .checked
            .as_ref()
            .filter(|all| all.len() == inputs.len() && inputs.iter().zip(all.iter()).all(is_known));
        let fits = |(array, (_, ty)): (&ArrayView<'_>, &(String, heddle_ir::Type))| {
            let dtype = ty.as_tensor().map(|t| t.dtype);
            dtype == Some(array.dtype) && array.has_its_bytes()
        };
        if known.is_none() || !inputs.iter().zip(params).all(fits) {
            self.checked = None;
            self.sizes = with_tensors(inputs, |args| {
                let names = check(compiled, args)?;
                Ok(sizes(compiled, &names, args, self.seed))
            })?;
            self.checked = Some(inputs.iter().map(|array| array.dims.to_vec()).collect());
        }
        // Elements and the key are given anew in each run.
        for (size, value) in compiled.sizes.iter().zip(&mut self.sizes) {
            match size {
                Size::Element { input, place } => {
                    let array = &inputs[*input];
                    *value = marshal::element(array.dtype, array.data, *place);
                }
                Size::RunKey => *value = self.seed as i64,
                Size::Named(_) | Size::Axis { .. } => {}
            }
        }
        self.unpacked.clear();
        if inputs.iter().any(|array| is_packed(array.dtype.bits())) {
            for array in inputs {
                let packed = is_packed(array.dtype.bits()).then(|| array.to_tensor());
                let tensor = packed.transpose()?.as_ref().map(marshal::unpacked);
                self.unpacked.push(tensor);
            }
        }
        Ok(())
    }

    /// That all outputs may lie in the caller's memory.
    fn check_outputs(&self) -> Result<(), Error> {
        let refuse = |text: String| Err(Error::Memory(text));
        if !self.compiled.ports.results_are_arrays() {
            return refuse(
                "an output is a sequence, an optional or text: its memory can't be given".into(),
            );
        }
        for port in &self.compiled.program.outputs {
            let dtype = self.compiled.program.buffers[port.buffer].dtype;
            if is_packed(dtype.bits()) {
                let (name, dtype) = (&port.name, dtype.name());
                return refuse(format!(
                    "output `{name}` has elements of type {dtype}, which are copied: its memory can't be given"
                ));
            }
        }
        Ok(())
    }
}

/// Limits of a run that a token may cancel.
fn limits<'a>(
    limits: &heddle_runtime::RunOptions<'static>,
    cancel: &'a Option<CancelToken>,
) -> heddle_runtime::RunOptions<'a> {
    heddle_runtime::RunOptions {
        cancel: cancel.as_ref(),
        ..*limits
    }
}

fn is_packed(bits: usize) -> bool {
    (1..8).contains(&bits)
}

impl Session for CompiledSession {
    fn bind(&mut self, args: &[Datum]) -> Result<(), Error> {
        self.checked = None;
        self.has_bound = false;
        let names = check(&self.compiled, args)?;
        let ports = &self.compiled.ports;
        let params = &self.compiled.sig.params;
        let args = &*ports.arguments(args, &names).map_err(|place| {
            let name = &params[place].0;
            Error::Memory(format!(
                "input `{name}` does not fit the arrays that stand for it"
            ))
        })?;
        self.sizes = sizes(&self.compiled, &names, args, self.seed);
        let tensors = args.iter().filter_map(as_tensor).map(|t| {
            let dims = t.shape().iter().map(|&d| d as i64).collect();
            (marshal::unpacked(t), dims)
        });
        self.bound = tensors.collect();
        Ok(())
    }

    fn run(&mut self) -> Result<(), Error> {
        let Some(sanitized) = &self.compiled.sanitized else {
            return self.run_bound(true).map(drop);
        };
        let inputs = self.bound.iter().map(|(tensor, dims)| Input {
            data: tensor.bytes(),
            dims,
        });
        let limits = limits(&self.limits, &self.cancel);
        let run = self
            .compiled
            .watched(sanitized, inputs, &self.sizes, &limits);
        self.sanitized = run?;
        Ok(())
    }

    fn outputs(&mut self) -> Result<Vec<Datum>, Error> {
        let (compiled, session) = (&*self.compiled, &mut *self.session);
        let sanitized = &self.sanitized;
        let ports = compiled.program.outputs.iter().enumerate();
        let arrays = ports.map(|(i, port)| {
            let sanitized = sanitized.get(i);
            let dims = sanitized.map_or_else(|| session.dims(i), |output| &output.dims);
            let dims: Vec<_> = dims.iter().map(|&d| d as usize).collect();
            let dtype = compiled.program.buffers[port.buffer].dtype;
            let wrong = || Error::Internal(format!("output `{}` came out wrong", port.name));
            // An empty array may have any other sizes.
            let count = element_count(&dims).ok_or_else(wrong)?;
            let bytes = count * dtype.bits().div_ceil(8);
            if let Some(output) = sanitized {
                let data = output.data.get(..bytes).ok_or_else(wrong)?;
                let data = match is_packed(dtype.bits()) {
                    true => marshal::packed(dtype, data).into(),
                    false => Bytes::copy_from_slice(data),
                };
                return Tensor::new(dtype, dims, data).map_err(|_| wrong());
            }
            let fetched = session.fetch(i, bytes);
            fetched.map_err(|e| compiled.stopped(e))?;
            let data = session.last();
            let data = data.data(i).get(..bytes).ok_or_else(wrong)?;
            let data = match is_packed(dtype.bits()) {
                true => marshal::packed(dtype, data).into(),
                false => compiled.spares.hand_over(session, i, bytes),
            };
            Tensor::new(dtype, dims, data).map_err(|_| wrong())
        });
        let arrays: Result<Vec<Tensor>, Error> = arrays.collect();
        let wrong = || Error::Internal("the arrays of an output contradict each other".into());
        compiled.ports.group(arrays?).ok_or_else(wrong)
    }

    fn run_on(&mut self, inputs: &[ArrayView<'_>]) -> Result<Vec<Datum>, Error> {
        self.check(inputs)?;
        let inputs = as_inputs(inputs, &self.unpacked);
        if let Some(sanitized) = &self.compiled.sanitized {
            let limits = limits(&self.limits, &self.cancel);
            let run = self
                .compiled
                .watched(sanitized, inputs, &self.sizes, &limits);
            self.sanitized = run?;
            return self.outputs();
        }
        let limits = heddle_runtime::RunOptions {
            outputs_stay: true,
            ..limits(&self.limits, &self.cancel)
        };
        self.has_bound = false;
        self.compiled.spares.supply(&mut self.session);
        let (sizes, none) = (&self.sizes, std::iter::empty());
        let run = self.session.run_into(inputs.clone(), none, sizes, &limits);
        run.map(drop)
            .map_err(|e| self.compiled.failed(e, inputs, sizes, &limits))?;
        self.outputs()
    }

    fn run_into(
        &mut self,
        inputs: &[ArrayView<'_>],
        outputs: &mut [&mut [u8]],
    ) -> Result<(), Error> {
        self.check(inputs)?;
        self.check_outputs()?;
        let inputs = as_inputs(inputs, &self.unpacked);
        if let Some(sanitized) = &self.compiled.sanitized {
            let limits = limits(&self.limits, &self.cancel);
            let found = self
                .compiled
                .watched(sanitized, inputs, &self.sizes, &limits)?;
            for (to, from) in outputs.iter_mut().zip(&found) {
                let bytes = to.len().min(from.data.len());
                to[..bytes].copy_from_slice(&from.data[..bytes]);
            }
            return Ok(());
        }
        let outputs = outputs.iter_mut().map(|memory| &mut **memory);
        self.has_bound = false;
        let limits = limits(&self.limits, &self.cancel);
        let sizes = &self.sizes;
        let run = self
            .session
            .run_into(inputs.clone(), outputs, sizes, &limits);
        run.map(drop)
            .map_err(|e| self.compiled.failed(e, inputs, sizes, &limits))
    }

    fn required(&mut self, inputs: &[ArrayView<'_>]) -> Result<Option<Vec<Required>>, Error> {
        self.check(inputs)?;
        self.check_outputs()?;
        let planned = self.session.planned(&self.sizes, &self.limits);
        let (plan, launch) = planned.map_err(|e| self.compiled.stopped(e))?;
        if plan.outputs.iter().any(|array| array.grows.is_some()) {
            return Ok(None);
        }
        let arrays = plan.outputs.iter().map(|array| Required {
            bytes: launch.bytes(array),
            dims: launch.shape(array).collect(),
        });
        Ok(Some(arrays.collect()))
    }

    fn dims(&self, output: usize) -> &[i64] {
        self.session.dims(output)
    }
}

/// Sizes that were checked are good for the next session, too.
impl Drop for CompiledSession {
    fn drop(&mut self) {
        if let Some(arrays) = self.checked.take() {
            let sizes = std::mem::take(&mut self.sizes);
            self.compiled.checked.keep(Dims { arrays, sizes });
        }
    }
}

/// The caller's arrays as a launch takes them.
fn as_inputs<'a>(
    arrays: &'a [ArrayView<'a>],
    unpacked: &'a [Option<Tensor>],
) -> impl ExactSizeIterator<Item = Input<'a>> + Clone {
    arrays.iter().enumerate().map(|(i, array)| Input {
        data: match unpacked.get(i) {
            Some(Some(tensor)) => tensor.bytes(),
            _ => array.data,
        },
        dims: array.dims,
    })
}

fn as_tensor(value: &Datum) -> Option<&Tensor> {
    match value {
        Datum::Tensor(tensor) => Some(tensor),
        _ => None,
    }
}

/// Checks inputs, which are in order, and reads named sizes off them. A size that only optionals without a value have is as
/// small as it may be.
fn check(compiled: &Compiled, args: &[Datum]) -> Result<HashMap<Arc<str>, i64>, Error> {
    let mut names = heddle_interp::check_inputs(&compiled.sig, args, false)
        .map_err(|e| Error::Run(heddle_interp::RunError::Input(e)))?;
    for (name, bound) in &compiled.sig.bounds {
        let least = i64::try_from(bound.min).unwrap_or(i64::MAX);
        names.entry(name.clone()).or_insert(least);
    }
    Ok(names)
}

/// The launch's sizes. The run's key is one of these.
fn sizes(
    compiled: &Compiled,
    names: &HashMap<Arc<str>, i64>,
    args: &[Datum],
    seed: u64,
) -> Vec<i64> {
    let tensors: Vec<&Tensor> = args.iter().filter_map(as_tensor).collect();
    let size = |size: &Size| match size {
        Size::Named(name) => names.get(name.as_str()).copied().unwrap_or(0),
        Size::Axis { input, axis } => tensors[*input].shape()[*axis] as i64,
        Size::Element { input, place } => {
            let tensor = tensors[*input];
            marshal::element(tensor.dtype(), tensor.bytes(), *place)
        }
        Size::RunKey => seed as i64,
    };
    compiled.sizes.iter().map(size).collect()
}

/// Shows arrays as values, without a copy.
fn with_tensors(
    arrays: &[ArrayView<'_>],
    look: impl FnOnce(&[Datum]) -> Result<Vec<i64>, Error>,
) -> Result<Vec<i64>, Error> {
    let tensors = arrays.iter().map(|array| {
        // SAFETY: the tensors are dropped before this returns, and what `look` makes of them is integers.
        let data = unsafe { std::mem::transmute::<&[u8], &'static [u8]>(array.data) };
        array.tensor_of(Bytes::from_static(data)).map(Datum::from)
    });
    let tensors: Vec<Datum> = tensors.collect::<Result<_, _>>()?;
    look(&tensors)
}
