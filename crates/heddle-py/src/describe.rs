//! The description that an ONNX file gives of itself, as a dictionary.

use std::path::PathBuf;

use heddle::{Declaration, Description, Dim};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::detached;
use crate::model::PyModel;

/// Reads it of a file, or of the bytes of one; a model that was read of it tells more about the outputs. `heddle/_programs.py` says what
/// the dictionary holds.
#[pyfunction]
pub fn describe<'py>(
    py: Python<'py>,
    path: PathBuf,
    bytes: Option<Vec<u8>>,
    model: Option<&Bound<'py, PyModel>>,
) -> PyResult<Bound<'py, PyDict>> {
    let mut said = detached(py, || match bytes {
        None => Description::of_file(&path),
        Some(bytes) => Description::of_bytes(&path.to_string_lossy(), bytes),
    })?;
    if let Some(model) = model {
        said.complete(&model.get().0.signature());
    }
    let metadata = PyDict::new(py);
    metadata.set_item("producer_name", &said.producer)?;
    metadata.set_item("graph_name", &said.graph)?;
    metadata.set_item("domain", &said.domain)?;
    metadata.set_item("description", &said.doc)?;
    metadata.set_item("graph_description", &said.graph_doc)?;
    metadata.set_item("version", said.version)?;
    let pairs = PyDict::new(py);
    for (key, value) in &said.metadata {
        pairs.set_item(key, value)?;
    }
    metadata.set_item("custom_metadata_map", pairs)?;
    let all = PyDict::new(py);
    all.set_item("metadata", metadata)?;
    all.set_item("inputs", declared(py, &said.inputs)?)?;
    all.set_item("optional", declared(py, &said.optional)?)?;
    all.set_item("outputs", declared(py, &said.outputs)?)?;
    Ok(all)
}

fn declared<'py>(py: Python<'py>, ports: &[Declaration]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for port in ports {
        let dims = port.dims.as_ref().map(|dims| sizes(py, dims)).transpose()?;
        list.append((&port.name, &port.notation, dims))?;
    }
    Ok(list)
}

/// Dims as numbers, names and `None`.
fn sizes<'py>(py: Python<'py>, dims: &[Dim]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for dim in dims {
        match dim {
            Dim::Fixed(size) => list.append(size)?,
            Dim::Named(name) => list.append(name)?,
            _ => list.append(py.None())?,
        }
    }
    Ok(list)
}
