//! Inputs that a program reads where they are, and results for them: the short way for calls on plain arrays of NumPy and tensors of
//! PyTorch. All else goes through `values`.

use std::ops::Range;

use heddle::{ArrayView, DType, Signature, Type, Value};
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::arrays::{array, plain};
use crate::dlpack::{Elements, Torch};
use crate::values::object;

/// The inputs of a call, in the order of the signature. They live as long as the call's arguments.
pub struct Views {
    arrays: Vec<(Elements, Range<usize>)>,
    /// The sizes of all of them.
    dims: Vec<i64>,
    /// PyTorch, if one of them is its tensor: results are tensors, too.
    torch: Option<&'static Torch>,
}

// SAFETY: the memory belongs to the arguments of the call that made it; that nobody writes to it meanwhile is the caller's part, as for any
// library that computes without the interpreter's lock.
unsafe impl Sync for Views {}

impl Views {
    /// The views of arguments, if there is one for each input and all lie densely in memory.
    pub fn of(
        signature: &Signature,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Option<Self>> {
        let ports = &signature.inputs;
        let given = args.len() + kwargs.map_or(0, |kwargs| kwargs.len());
        let is_array = |ty: &Type| matches!(ty, Type::Tensor { dtype, .. } if !is_packed(*dtype));
        if given != ports.len() || !ports.iter().all(|port| is_array(&port.ty)) {
            return Ok(None);
        }
        let mut views = Self {
            arrays: Vec::with_capacity(given),
            dims: Vec::with_capacity(4 * given),
            torch: None,
        };
        for object in args {
            if !views.add(&object)? {
                return Ok(None);
            }
        }
        for port in &ports[args.len()..] {
            let object = kwargs
                .map(|kwargs| kwargs.get_item(&*port.name))
                .transpose()?;
            let Some(object) = object.flatten() else {
                return Ok(None);
            };
            if !views.add(&object)? {
                return Ok(None);
            }
        }
        Ok(Some(views))
    }

    /// Adds an input, unless it has to go the other way.
    fn add(&mut self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        let first = self.dims.len();
        let elements = match object.cast::<PyUntypedArray>() {
            Ok(array) => plain(array, &mut self.dims)?,
            Err(_) => match Torch::of(object)? {
                None => None,
                Some(torch) => {
                    self.torch = Some(torch);
                    torch.elements(object, &mut self.dims)?
                }
            },
        };
        let Some(elements) = elements else {
            return Ok(false);
        };
        self.arrays.push((elements, first..self.dims.len()));
        Ok(true)
    }

    /// The inputs for a run.
    pub fn arrays(&self) -> Vec<ArrayView<'_>> {
        let view = |(elements, dims): &(Elements, Range<usize>)| ArrayView {
            dtype: elements.dtype,
            dims: &self.dims[dims.clone()],
            data: match elements.bytes {
                0 => &[],
                // SAFETY: dense elements of this many bytes, as long as the arguments live.
                bytes => unsafe { std::slice::from_raw_parts(elements.data, bytes) },
            },
        };
        self.arrays.iter().map(view).collect()
    }

    /// Results, whose memory is their own: the result, or a tuple of several.
    pub fn results<'py>(
        &self,
        py: Python<'py>,
        mut values: Vec<Value>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if values.len() == 1
            && let Some(value) = values.pop()
        {
            return self.result(py, value);
        }
        let objects = values.into_iter().map(|value| self.result(py, value));
        Ok(PyTuple::new(py, objects.collect::<PyResult<Vec<_>>>()?)?.into_any())
    }

    fn result<'py>(&self, py: Python<'py>, value: Value) -> PyResult<Bound<'py, PyAny>> {
        let Some(torch) = self.torch else {
            return object(py, value, true);
        };
        let value = match value {
            Value::Tensor(tensor) => match torch.object(py, tensor)? {
                Ok(made) => return Ok(made),
                Err(tensor) => array(py, tensor, true)?,
            },
            other => object(py, other, true)?,
        };
        py.import("heddle._values")?
            .call_method1("to_library", ("torch", value))
    }
}

/// Has it elements of under 8 bits, or of no fixed size? These are copied.
fn is_packed(dtype: DType) -> bool {
    dtype == DType::Str || (dtype != DType::Bool && (1..8).contains(&dtype.bits()))
}
