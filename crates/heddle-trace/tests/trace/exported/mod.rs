//! `.pt2` files written in a few lines.

use std::io::{Cursor, Write};
use std::path::PathBuf;

use heddle_ir::{Datum, Tensor};
use heddle_trace::pt2::{Pt2, Pt2Options, load};
use serde_json::{Map, Value as Json, json};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// The folder of the files that PyTorch wrote.
pub fn models() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/models/pt2")
}

/// An array as an argument.
pub fn tensor(name: &str) -> Json {
    json!({"as_tensor": {"name": name}})
}

/// An argument by position.
pub fn arg(name: &str, arg: Json) -> Json {
    json!({"name": name, "arg": arg, "kind": 1})
}

/// An argument by name.
pub fn key(name: &str, arg: Json) -> Json {
    json!({"name": name, "arg": arg, "kind": 2})
}

/// A node, whose results are arrays.
pub fn node(target: &str, inputs: &[Json], outputs: &[&str]) -> Json {
    let outputs: Vec<Json> = outputs.iter().map(|name| tensor(name)).collect();
    json!({"target": format!("torch.ops.{target}"), "inputs": inputs, "outputs": outputs, "metadata": {}})
}

/// The type of an array that lies densely; 7 is `f32`.
fn meta(shape: &[i64], dtype: i64, offset: i64) -> Json {
    let mut strides = vec![];
    let mut stride = 1;
    for size in shape.iter().rev() {
        strides.insert(0, json!({"as_int": stride}));
        stride *= size;
    }
    let sizes: Vec<Json> = shape.iter().map(|n| json!({"as_int": n})).collect();
    json!({"dtype": dtype, "sizes": sizes, "strides": strides, "storage_offset": {"as_int": offset}, "layout": 7})
}

/// A graph.
pub struct Graph {
    inputs: Vec<Json>,
    nodes: Vec<Json>,
    outputs: Vec<Json>,
    types: Map<String, Json>,
}

impl Graph {
    pub fn new(inputs: &[&str], nodes: Vec<Json>, outputs: &[&str]) -> Self {
        Self {
            inputs: inputs.iter().map(|name| tensor(name)).collect(),
            nodes,
            outputs: outputs.iter().map(|name| tensor(name)).collect(),
            types: Map::new(),
        }
    }

    /// States that an array is `f32` of this shape.
    pub fn with(mut self, name: &str, shape: &[i64]) -> Self {
        self.types.insert(name.to_owned(), meta(shape, 7, 0));
        self
    }

    pub fn json(&self) -> Json {
        json!({"inputs": self.inputs, "nodes": self.nodes, "outputs": self.outputs, "tensor_values": self.types})
    }
}

/// A program and its weights.
pub struct Program {
    graph: Graph,
    specs: Vec<Json>,
    weights: Map<String, Json>,
    entries: Vec<(String, Vec<u8>)>,
}

impl Program {
    pub fn new(inputs: &[&str], nodes: Vec<Json>, outputs: &[&str]) -> Self {
        let spec = |name: &&str| json!({"user_input": {"arg": tensor(name)}});
        Self {
            graph: Graph::new(inputs, nodes, outputs),
            specs: inputs.iter().map(spec).collect(),
            weights: Map::new(),
            entries: vec![],
        }
    }

    /// States that an array is `f32` of this shape.
    pub fn with(mut self, name: &str, shape: &[i64]) -> Self {
        self.graph = self.graph.with(name, shape);
        self
    }

    /// States that an array is of this type.
    pub fn with_type(mut self, name: &str, shape: &[i64], dtype: i64) -> Self {
        let types = &mut self.graph.types;
        types.insert(name.to_owned(), meta(shape, dtype, 0));
        self
    }

    /// Adds a buffer of `f32` that lies in a storage, an input in front.
    pub fn with_buffer(
        mut self,
        name: &str,
        buffer: &str,
        shape: &[i64],
        offset: i64,
        storage: &str,
    ) -> Self {
        self = self.with(name, shape);
        self.graph.inputs.insert(0, tensor(name));
        let spec =
            json!({"buffer": {"arg": {"name": name}, "buffer_name": buffer, "persistent": true}});
        self.specs.insert(0, spec);
        let stated = json!({"path_name": storage, "is_param": false, "use_pickle": false, "tensor_meta": meta(shape, 7, offset)});
        self.weights.insert(buffer.to_owned(), stated);
        self
    }

    /// Adds another name of a buffer.
    pub fn with_name_of(mut self, buffer: &str, name: &str) -> Self {
        let stated = self.weights[buffer].clone();
        self.weights.insert(name.to_owned(), stated);
        self
    }

    /// Adds a storage of this many zeros.
    pub fn with_storage(mut self, name: &str, count: usize) -> Self {
        let entry = format!("data/weights/{name}");
        self.entries.push((entry, vec![0; 4 * count]));
        self
    }

    /// The file.
    pub fn file(&self) -> Vec<u8> {
        archive(&[("model", self)])
    }

    /// The entries of this model in an archive.
    fn entries(&self, name: &str) -> Vec<(String, Vec<u8>)> {
        let graph = self.graph.json();
        let out = |output: &Json| json!({"user_output": {"arg": output}});
        let outputs: Vec<Json> = self.graph.outputs.iter().map(out).collect();
        let model = json!({
            "schema_version": {"major": 8, "minor": 14},
            "graph_module": {"graph": graph, "signature": {"input_specs": self.specs, "output_specs": outputs}},
        });
        let weights = json!({"config": self.weights});
        let mut entries = vec![
            (format!("models/{name}.json"), model.to_string().into()),
            (
                format!("data/weights/{name}_weights_config.json"),
                weights.to_string().into(),
            ),
        ];
        entries.extend(self.entries.clone());
        entries
    }

    /// The error of reading it.
    #[track_caller]
    pub fn error(&self) -> String {
        match read(self.file()) {
            Ok(_) => panic!("the program is wrong"),
            Err(error) => error,
        }
    }

    /// Its results.
    pub fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
        run_file(self.file(), inputs)
    }
}

/// An archive of several models. Their storages have different names.
pub fn archive(models: &[(&str, &Program)]) -> Vec<u8> {
    let mut entries = vec![("archive_format".to_owned(), b"pt2".to_vec())];
    for (name, program) in models {
        entries.extend(program.entries(name));
    }
    let mut zip = ZipWriter::new(Cursor::new(vec![]));
    for (name, bytes) in entries {
        let options = SimpleFileOptions::default();
        zip.start_file(format!("m/{name}"), options).unwrap();
        zip.write_all(&bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Reads and verifies a file.
pub fn read(file: Vec<u8>) -> Result<Pt2, String> {
    read_with(file, &Pt2Options::default())
}

pub fn read_with(file: Vec<u8>, options: &Pt2Options) -> Result<Pt2, String> {
    let options = Pt2Options {
        folder: Some(heddle_interp::fold),
        overrides: options.overrides.clone(),
        constants: options.constants.clone(),
        entry: options.entry.clone(),
    };
    let found = load(file.into(), &options).map_err(|e| e.to_string())?;
    heddle_ir::verify(&found.module).unwrap_or_else(|e| panic!("{e:?}"));
    Ok(found)
}

/// The results of a file on the interpreter.
pub fn run_file(file: Vec<u8>, inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
    run_with(file, &Pt2Options::default(), inputs)
}

/// The results of a file that is read with options.
pub fn run_with(
    file: Vec<u8>,
    options: &Pt2Options,
    inputs: &[Tensor],
) -> Result<Vec<Tensor>, String> {
    let module = read_with(file, options)?.module;
    let inputs: Vec<Datum> = inputs.iter().cloned().map(Datum::from).collect();
    let found = heddle_interp::run(&module, &inputs, &Default::default());
    let tensor = |datum: Datum| match datum {
        Datum::Tensor(tensor) => tensor,
        other => panic!("{other:?} is no array"),
    };
    Ok(found
        .map_err(|e| e.to_string())?
        .into_iter()
        .map(tensor)
        .collect())
}
