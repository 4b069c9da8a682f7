//! Results that are written to the caller's arrays.

use heddle::{
    ArrayView, Error, ErrorKind, Limit, Program, RunOptions, Signature, Tensor, Type, Value,
};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::arrays::{Target, dtype_of, is_writable};
use crate::errors::input_error;

/// Arrays for results, by the outputs' names. They are writable, and of the outputs' types.
pub fn given<'py>(
    signature: &Signature,
    out: &Bound<'py, PyDict>,
) -> PyResult<Vec<(String, Bound<'py, PyUntypedArray>)>> {
    let py = out.py();
    let refuse = |text: String, hint| Err(input_error(py, format!("out: {text}"), hint));
    let mut given = vec![];
    for (key, array) in out {
        let name = key.cast_into::<PyString>()?.to_str()?.to_owned();
        let Some(port) = signature.outputs.iter().find(|port| port.name == name) else {
            let names: Vec<&str> = signature.outputs.iter().map(|port| &*port.name).collect();
            let hint = format!("the outputs are {}", names.join(", "));
            return refuse(format!("there is no output `{name}`"), Some(hint));
        };
        let Type::Tensor { dtype, .. } = &port.ty else {
            return refuse(format!("output `{name}` is {}, no array", port.ty), None);
        };
        let array = array.cast_into::<PyUntypedArray>()?;
        if dtype_of(&array)? != Some(*dtype) {
            let text = format!(
                "`{name}` has elements of type {dtype}, the array {}",
                array.dtype()
            );
            return refuse(text, None);
        }
        if !is_writable(&array) {
            return refuse(format!("the array for `{name}` is read-only"), None);
        }
        given.push((name, array));
    }
    Ok(given)
}

/// Copies a result to the caller's array.
pub fn copy(
    name: &str,
    result: &Bound<'_, PyAny>,
    array: &Bound<'_, PyUntypedArray>,
) -> PyResult<()> {
    let py = array.py();
    let result = result.cast::<PyUntypedArray>()?;
    if result.shape() != array.shape() {
        let (found, wanted) = (array.shape(), result.shape());
        let text = format!("out: `{name}` has shape {wanted:?}, the array {found:?}");
        return Err(input_error(py, text, None));
    }
    // It releases the interpreter's lock.
    py.import("numpy")?
        .call_method1("copyto", (array, result))?;
    Ok(())
}

/// A run whose results all lie in the caller's arrays.
pub struct Direct {
    inputs: Vec<(Tensor, Vec<i64>)>,
    /// By output.
    targets: Vec<(Target, Vec<i64>)>,
}

/// The run on these inputs, if each output has an array to which a program may write while it reads the inputs.
pub fn direct(
    signature: &Signature,
    given: &[(String, Bound<'_, PyUntypedArray>)],
    values: &[(String, Value)],
) -> PyResult<Option<Direct>> {
    let mut inputs = vec![];
    for port in &signature.inputs {
        let value = values.iter().find(|(name, _)| *name == port.name);
        let Some((_, Value::Tensor(tensor))) = value else {
            return Ok(None);
        };
        let dims = tensor.shape().iter().map(|&size| size as i64).collect();
        inputs.push((tensor.clone(), dims));
    }
    let mut targets: Vec<(Target, Vec<i64>)> = vec![];
    for port in &signature.outputs {
        let Some((_, array)) = given.iter().find(|(name, _)| *name == port.name) else {
            return Ok(None);
        };
        let Type::Tensor { dtype, .. } = port.ty else {
            return Ok(None);
        };
        let Some(target) = Target::of(array, dtype)? else {
            return Ok(None);
        };
        let reads = |(input, _): &(Tensor, _)| {
            let bytes = input.bytes();
            target.overlaps(bytes.as_ptr(), bytes.len())
        };
        let is_shared = targets
            .iter()
            .any(|(other, _)| target.overlaps_target(other));
        if is_shared || inputs.iter().any(reads) {
            return Ok(None);
        }
        let dims = array.shape().iter().map(|&size| size as i64).collect();
        targets.push((target, dims));
    }
    Ok(Some(Direct { inputs, targets }))
}

impl Direct {
    /// Runs the program, if it says in advance that results have the shapes of the arrays. On `false` it did not run to its end, and is to
    /// be run without these arrays, which says what is wrong if anything is.
    ///
    /// # Errors
    ///
    /// The run was cancelled, or its time is over.
    pub fn run(&mut self, program: &Program, options: &RunOptions) -> Result<bool, Error> {
        let inputs: Vec<ArrayView<'_>> = self.inputs.iter().map(view).collect();
        let mut session = program.session(options);
        let Ok(Some(required)) = session.required(&inputs) else {
            return Ok(false);
        };
        let mut memory = Vec::with_capacity(self.targets.len());
        for (needed, (target, dims)) in required.iter().zip(&mut self.targets) {
            let mut sizes = needed.dims.iter().zip(&*dims);
            let is_same =
                needed.dims.len() == dims.len() && sizes.all(|(needed, dim)| *needed == Some(*dim));
            // SAFETY: the arrays share no bytes with each other or with the inputs, and that no other thread uses them meanwhile is the
            // caller's part, as for any library that computes without the interpreter's lock.
            let bytes = unsafe { target.bytes() };
            if !is_same || needed.bytes != bytes.len() as u64 {
                return Ok(false);
            }
            memory.push(bytes);
        }
        match session.run_into(&inputs, &mut memory) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Cancelled => Err(error),
            Err(error) if error.limit() == Some(Limit::Timeout) => Err(error),
            Err(_) => Ok(false),
        }
    }
}

fn view((tensor, dims): &(Tensor, Vec<i64>)) -> ArrayView<'_> {
    ArrayView {
        dtype: tensor.dtype(),
        dims,
        data: tensor.bytes(),
    }
}
