//! Models.

use std::collections::HashMap;
use std::path::PathBuf;

use heddle::{DType, Format, LoadOptions, Model, Port, Type, Value};
use numpy::PyUntypedArray;
use pyo3::Borrowed;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrays::tensor;
use crate::errors::{detached, input_error};
use crate::options::item;
use crate::values::value;

/// A model as it was read: `heddle.Model`.
#[pyclass(frozen, name = "Model", module = "heddle")]
pub struct PyModel(pub Model);

#[pymethods]
impl PyModel {
    /// The inputs, as pairs of a name and a type such as `f32[n,3]`.
    #[getter]
    fn inputs(&self) -> Vec<(String, String)> {
        ports(&self.0.signature().inputs)
    }

    /// The outputs, likewise.
    #[getter]
    fn outputs(&self) -> Vec<(String, String)> {
        ports(&self.0.signature().outputs)
    }

    /// Inputs with a default value, likewise.
    #[getter]
    fn optional_inputs(&self) -> Vec<(String, String)> {
        ports(self.0.optional_inputs())
    }

    /// Names of the functions that a run can begin with.
    #[getter]
    fn entries(&self) -> Vec<String> {
        self.0.entries().map(str::to_owned).collect()
    }

    /// Sentences about outputs that are not what the file declares.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.0.notes().to_vec()
    }

    /// The graph IR as text, with large constants left out.
    fn ir(&self, py: Python<'_>) -> PyResult<String> {
        detached(py, || Ok(self.0.clone().into_graph().outline()))
    }

    /// The name of the function that is compiled and run.
    #[getter]
    fn entry(&self) -> &str {
        self.0.entry()
    }

    /// The model with another one of its entries; both share their weights.
    fn with_entry(&self, py: Python<'_>, name: &str) -> PyResult<PyModel> {
        detached(py, || self.0.clone().with_entry(name)).map(PyModel)
    }

    /// Inputs, outputs, operators and the tree of control flow, as a dictionary: what `heddle inspect --json` prints.
    fn outline<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let outline = detached(py, || heddle_cli::model_outline(&self.0))?;
        py.import("json")?
            .call_method1("loads", (outline.to_string(),))
    }

    /// For notebooks: `heddle/_html.py`.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let html = slf.py().import("heddle._html")?;
        html.call_method1("of_model", (slf,))
    }

    /// The model as bytes: its graph, with all entries and constants.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = detached(py, || self.0.to_bytes())?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Pickled by its graph.
    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let unpickle = py.import("heddle")?.getattr("_model_of_bytes")?;
        Ok((unpickle, (self.to_bytes(py)?,)))
    }

    fn __repr__(&self) -> String {
        let list = |ports: &[Port]| {
            let list: Vec<String> = ports.iter().map(Port::to_string).collect();
            list.join(", ")
        };
        let signature = self.0.signature();
        let (inputs, outputs) = (list(&signature.inputs), list(&signature.outputs));
        format!("<heddle.Model ({inputs}) -> ({outputs})>")
    }
}

/// Names and types of ports.
pub fn ports(ports: &[Port]) -> Vec<(String, String)> {
    let pairs = ports
        .iter()
        .map(|port| (port.name.clone(), port.ty.to_string()));
    pairs.collect()
}

/// Options of reading, as `heddle.load` takes them.
pub struct Reading {
    format: String,
    /// The folder of weights beside the bytes.
    folder: Option<PathBuf>,
    ranks: HashMap<String, usize>,
    overrides: Vec<String>,
    entry: Option<String>,
    /// Arrays by the names of initializers.
    constants: HashMap<String, Py<PyAny>>,
}

impl<'py> FromPyObject<'_, 'py> for Reading {
    type Error = PyErr;

    fn extract(options: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self {
            format: item(&options, "format", "a text")?,
            folder: item(&options, "folder", "a folder")?,
            ranks: item(&options, "ranks", "whole numbers by the names of inputs")?,
            overrides: item(&options, "overrides", "a list of names")?,
            entry: item(&options, "entry", "a name")?,
            constants: item(&options, "constants", "arrays by their names")?,
        })
    }
}

/// The type of a replaced constant that is no array.
const NUMBERS: Type = Type::Tensor {
    dtype: DType::F32,
    dims: None,
};

/// Reads a model: a file, or the bytes of one. The dictionary holds all of the options.
#[pyfunction]
pub fn load(
    py: Python<'_>,
    path: PathBuf,
    bytes: Option<Vec<u8>>,
    reading: Reading,
) -> PyResult<PyModel> {
    let mut constants = HashMap::new();
    for (name, object) in reading.constants {
        if let Value::Tensor(tensor) = value(&name, &NUMBERS, object.bind(py))? {
            constants.insert(name, tensor);
        }
    }
    let options = LoadOptions {
        constants,
        overrides: reading.overrides.into_iter().collect(),
        ranks: reading.ranks,
        entry: reading.entry,
        ..Default::default()
    };
    let format = match &*reading.format {
        "onnx" => Format::Onnx,
        "heddle" => Format::Text,
        "hl" => Format::Language,
        "pt2" => Format::Exported,
        other => {
            let text =
                format!("format={other:?} is none of \"onnx\", \"pt2\", \"heddle\" and \"hl\"");
            return Err(input_error(py, text, None));
        }
    };
    detached(py, || match bytes {
        None => Model::load(&path, &options),
        Some(bytes) => {
            let name = path.to_string_lossy();
            Model::from_bytes(&name, bytes, format, reading.folder.as_deref(), &options)
        }
    })
    .map(PyModel)
}

/// Reads a model of what `to_bytes` gave.
#[pyfunction]
pub fn model_of_bytes(py: Python<'_>, bytes: Vec<u8>) -> PyResult<PyModel> {
    detached(py, || Model::from_saved("model", bytes)).map(PyModel)
}

/// Reads a traced graph, JSON as `docs/trace.md` describes it. Constants are read in place where their memory is dense.
#[pyfunction]
pub fn load_trace(
    py: Python<'_>,
    json: &str,
    constants: HashMap<String, Bound<'_, PyUntypedArray>>,
) -> PyResult<PyModel> {
    let mut tensors = Vec::with_capacity(constants.len());
    for (name, array) in &constants {
        tensors.push((name.clone(), tensor(name, array)?));
    }
    detached(py, || Model::from_trace(json, tensors)).map(PyModel)
}

/// Targets of nodes that [`load_trace`] reads.
#[pyfunction]
pub fn trace_targets() -> Vec<String> {
    heddle::trace_targets()
}
