//! Values: arrays, lists for sequences, `None` for empty optionals.

use heddle::{Type, Value};
use numpy::PyUntypedArray;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyTuple, PyType};

use crate::arrays::{array, numpy_name, tensor};

/// A Python object as an input of this type. What is no array of NumPy goes through `heddle._values.as_array`: arrays of
/// other libraries by DLPack, numbers and lists if they are exact in the type.
pub fn value(name: &str, ty: &Type, object: &Bound<'_, PyAny>) -> PyResult<Value> {
    match ty {
        Type::Opt(_) if object.is_none() => Ok(Value::Opt(None)),
        Type::Opt(inner) => Ok(Value::Opt(Some(Box::new(value(name, inner, object)?)))),
        Type::Seq(inner)
            if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() =>
        {
            let items = object.try_iter()?;
            let items = items
                .enumerate()
                .map(|(k, item)| value(&format!("{name}[{k}]"), inner, &item?));
            Ok(Value::Seq(items.collect::<PyResult<_>>()?))
        }
        Type::Seq(_) => as_tensor(name, "object", object),
        Type::Tensor { dtype, .. } => as_tensor(name, numpy_name(*dtype), object),
    }
}

fn as_tensor(name: &str, dtype: &str, object: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(array) = object.cast::<PyUntypedArray>() {
        return Ok(tensor(name, array)?.into());
    }
    let py = object.py();
    // A tensor of PyTorch that is an array of NumPy as it is; `as_array` says what is wrong with others.
    if is_torch_tensor(object)?
        && let Ok(made) = object.call_method0(intern!(py, "numpy"))
        && let Ok(array) = made.cast::<PyUntypedArray>()
    {
        return Ok(tensor(name, array)?.into());
    }
    static CONVERT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let convert = CONVERT.get_or_try_init(py, || {
        let module = py.import("heddle._values")?;
        Ok::<_, PyErr>(module.getattr("as_array")?.unbind())
    })?;
    let made = convert.bind(py).call1((name, dtype, object))?;
    Ok(tensor(name, made.cast::<PyUntypedArray>()?)?.into())
}

/// Is it a tensor of PyTorch, and of no class of its own?
fn is_torch_tensor(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let (py, class) = (object.py(), object.get_type());
    if let Some(known) = CLASS.get(py) {
        return Ok(class.is(known));
    }
    let is_tensor = class.name()? == "Tensor" && class.module()? == "torch";
    if is_tensor {
        CLASS.get_or_init(py, || class.unbind());
    }
    Ok(is_tensor)
}

/// A result as a Python object. `is_own`: nothing else reads the memory of its arrays.
pub fn object(py: Python<'_>, value: Value, is_own: bool) -> PyResult<Bound<'_, PyAny>> {
    match value {
        Value::Tensor(tensor) => array(py, tensor, is_own),
        Value::Seq(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(object(py, item, is_own)?)?;
            }
            Ok(list.into_any())
        }
        Value::Opt(Some(item)) => object(py, *item, is_own),
        Value::Opt(None) => Ok(py.None().into_bound(py)),
    }
}
