//! Named arrays in NumPy's archive format (`.npz`): reading inputs and writing outputs.
//!
//! An array is stored under the value's name. A sequence `s` is stored as `s.len` (a scalar `i64`)
//! and its elements `s.0`, `s.1`, …. An optional is stored as its value; an empty one is left
//! out.
//!
//! The archive is read by `zip` itself: npyz's reader of archives needs a version of `zip` from years ago with codecs in C, and
//! hands out arrays by Rust type, without sequences, checks of names or errors that name the file and the array.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use heddle::{DType, Inputs, Outputs, Port, Tensor, Type, Value};
use zip::ZipArchive;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;

use crate::npy::{self, Header, NpyError};

/// Failure to read or write an archive.
#[derive(Debug, thiserror::Error)]
pub enum NpzError {
    /// The archive cannot be opened.
    #[error("cannot read {}: {source}", .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is no archive, or a broken one.
    #[error("{} is not an .npz archive: {reason}", .path.display())]
    Archive {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// One of its arrays cannot be used.
    #[error("array `{name}` in {}: {source}", .path.display())]
    Array {
        /// The file.
        path: PathBuf,
        /// The array.
        name: String,
        /// The fault.
        source: NpyError,
    },
    /// Arrays that the model has no use for.
    #[error("{} has arrays that the model does not: {}", .path.display(), list(.names))]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Their names.
        names: Vec<String>,
        /// The names that the model has.
        known: Vec<String>,
    },
    /// The archive cannot be written.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl NpzError {
    /// The remedy.
    pub fn hint(&self) -> Option<String> {
        match self {
            NpzError::Array { source, .. } => match source {
                NpyError::Type {
                    found,
                    wanted: DType::Str,
                } if found.contains("pickled") => {
                    Some("store strings with `array.astype(str)`".into())
                }
                NpyError::Type { wanted, .. } => {
                    let numpy = numpy_name(*wanted)?;
                    Some(format!("convert it with `array.astype({numpy})`"))
                }
                _ => None,
            },
            NpzError::Archive { .. } => {
                Some("write it with `numpy.savez(path, name=array)`".into())
            }
            NpzError::Unknown { known, .. } => Some(match known.len() {
                0 => "the model has none".into(),
                _ => format!("it has {}", list(known)),
            }),
            NpzError::Open { .. } | NpzError::Write { .. } => None,
        }
    }

    /// Did the system fail, rather than the data?
    pub fn is_io(&self) -> bool {
        matches!(self, NpzError::Open { .. } | NpzError::Write { .. })
    }
}

/// Float types that a file may have in place of those that are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Floats {
    /// They must be the same.
    Same,
    /// `f64` may stand for any float type.
    OrF64,
    /// Any float type may stand for any other.
    Any,
}

/// The names of an archive's arrays, with the number of their axes where the header can be read.
pub fn ranks(path: &Path) -> Result<HashMap<String, Option<usize>>, NpzError> {
    let mut archive = Archive::open(path, Floats::Same)?;
    let zip = &mut archive.zip;
    let mut rank = |name: &str| {
        let mut entry = zip.by_name(&format!("{name}.npy")).ok()?;
        let header = Header::read(&mut entry).ok()?;
        Some(header.shape.len())
    };
    let names = archive.names.iter();
    Ok(names.map(|name| (name.clone(), rank(name))).collect())
}

/// Reads values for names of these types, out of an archive that may have others. Values that are
/// not there are left out of the result.
pub fn read_some(path: &Path, wanted: &[Port], floats: Floats) -> Result<Inputs, NpzError> {
    Archive::open(path, floats)?.values(wanted)
}

/// Reads values for names of these types. Values that are not there are left out of the result.
pub fn read(path: &Path, wanted: &[Port], floats: Floats) -> Result<Inputs, NpzError> {
    let mut archive = Archive::open(path, floats)?;
    let values = archive.values(wanted)?;
    let names: Vec<_> = archive.names.difference(&archive.used).cloned().collect();
    if !names.is_empty() {
        return Err(NpzError::Unknown {
            path: path.into(),
            names,
            known: wanted.iter().map(|port| port.name.clone()).collect(),
        });
    }
    Ok(values)
}

/// Writes values under their names. The file appears once it is complete.
pub fn write(path: &Path, values: &Outputs) -> Result<(), NpzError> {
    crate::files::replace(path, |file| {
        let mut zip = zip::ZipWriter::new(BufWriter::new(file));
        let mut written = values
            .iter()
            .try_for_each(|(name, value)| write_value(&mut zip, name, value));
        written = written.and_then(|()| zip.flush());
        if let Err(error) = written {
            // To drop the writer would try once more, and say on standard error that this failed.
            std::mem::forget(zip);
            return Err(error);
        }
        zip.finish()
            .map_err(io::Error::from)?
            .into_inner()
            .map_err(|e| e.into_error())?;
        Ok(())
    })
    .map_err(|source| NpzError::Write {
        path: path.into(),
        source,
    })
}

struct Archive<'a> {
    path: &'a Path,
    zip: ZipArchive<BufReader<File>>,
    floats: Floats,
    names: BTreeSet<String>,
    used: BTreeSet<String>,
}

impl<'a> Archive<'a> {
    fn open(path: &'a Path, floats: Floats) -> Result<Self, NpzError> {
        let open = |source| NpzError::Open {
            path: path.into(),
            source,
        };
        let file = heddle_onnx::open_file(path).map_err(open)?;
        let zip = ZipArchive::new(BufReader::new(file)).map_err(|e| match e {
            ZipError::Io(source) => open(source),
            other => NpzError::Archive {
                path: path.into(),
                reason: other.to_string(),
            },
        })?;
        let arrays = zip
            .file_names()
            .filter_map(|n| n.ok()?.strip_suffix(".npy").map(str::to_string));
        let names = arrays.collect();
        Ok(Self {
            path,
            zip,
            floats,
            names,
            used: BTreeSet::new(),
        })
    }

    fn values(&mut self, wanted: &[Port]) -> Result<Inputs, NpzError> {
        let mut values = Inputs::new();
        for Port { name, ty } in wanted {
            if let Some(value) = self.value(name, ty)? {
                values.insert(name.clone(), value);
            }
        }
        Ok(values)
    }

    /// The value of this name; `None` when the archive has none.
    fn value(&mut self, name: &str, ty: &Type) -> Result<Option<Value>, NpzError> {
        match ty {
            Type::Tensor { dtype, .. } => Ok(self.array(name, *dtype)?.map(Value::Tensor)),
            Type::Opt(t) => {
                let value = self.value(name, t)?;
                Ok(value.map(|v| Value::Opt(Some(Box::new(v)))))
            }
            Type::Seq(t) => {
                let Some(length) = self.array(&format!("{name}.len"), DType::I64)? else {
                    return Ok(None);
                };
                let length = length
                    .to_i64s()
                    .and_then(|v| v.first().copied())
                    .unwrap_or(0);
                let mut items = vec![];
                for i in 0..length {
                    let item = format!("{name}.{i}");
                    match self.value(&item, t)? {
                        Some(value) => items.push(value),
                        None => {
                            let reason =
                                format!("`{name}.len` is {length}, but there is no `{item}`");
                            return Err(self.array_error(name, NpyError::Malformed(reason)));
                        }
                    }
                }
                Ok(Some(Value::Seq(items)))
            }
        }
    }

    fn array(&mut self, name: &str, dtype: DType) -> Result<Option<Tensor>, NpzError> {
        if !self.names.contains(name) {
            return Ok(None);
        }
        self.used.insert(name.to_string());
        let floats = self.floats;
        let read = |source: &mut dyn Read| {
            let mut source = source;
            let header = Header::read(&mut source)?;
            let dtype = match header.plain() {
                Some(found) if found.is_float() && dtype.is_float() => match floats {
                    Floats::Any => found,
                    Floats::OrF64 if found == DType::F64 => found,
                    _ => dtype,
                },
                _ => dtype,
            };
            header.read_elements(&mut source, dtype)
        };
        let result = match self.zip.by_name(&format!("{name}.npy")) {
            Ok(mut entry) => read(&mut entry),
            Err(e) => Err(NpyError::Malformed(e.to_string())),
        };
        result.map(Some).map_err(|e| self.array_error(name, e))
    }

    fn array_error(&self, name: &str, source: NpyError) -> NpzError {
        NpzError::Array {
            path: self.path.into(),
            name: name.into(),
            source,
        }
    }
}

fn write_value<W: Write + io::Seek>(
    zip: &mut zip::ZipWriter<W>,
    name: &str,
    value: &Value,
) -> io::Result<()> {
    match value {
        Value::Tensor(tensor) => {
            // Large arrays need the format's 64-bit extension, which must be announced.
            let options = SimpleFileOptions::default()
                .compression_method(zip::CompressionMethod::Stored)
                .large_file(tensor.bytes().len() > (u32::MAX / 2) as usize);
            zip.start_file(format!("{name}.npy"), options)
                .map_err(io::Error::from)?;
            npy::write(zip, tensor)
        }
        Value::Seq(items) => {
            let length = Value::Tensor(Tensor::scalar(items.len() as i64));
            write_value(zip, &format!("{name}.len"), &length)?;
            items
                .iter()
                .enumerate()
                .try_for_each(|(i, item)| write_value(zip, &format!("{name}.{i}"), item))
        }
        Value::Opt(Some(item)) => write_value(zip, name, item),
        Value::Opt(None) => Ok(()),
    }
}

/// NumPy's name of a type, as source text.
fn numpy_name(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::F32 => "numpy.float32",
        DType::F64 => "numpy.float64",
        DType::F16 => "numpy.float16",
        DType::I8 => "numpy.int8",
        DType::I16 => "numpy.int16",
        DType::I32 => "numpy.int32",
        DType::I64 => "numpy.int64",
        DType::U8 => "numpy.uint8",
        DType::U16 => "numpy.uint16",
        DType::U32 => "numpy.uint32",
        DType::U64 => "numpy.uint64",
        DType::Bool => "bool",
        DType::C64 => "numpy.complex64",
        DType::C128 => "numpy.complex128",
        DType::Str => "str",
        DType::Bf16 => "ml_dtypes.bfloat16",
        DType::I4 => "ml_dtypes.int4",
        DType::U4 => "ml_dtypes.uint4",
        DType::I2 => "ml_dtypes.int2",
        DType::U2 => "ml_dtypes.uint2",
        DType::F4E2M1 => "ml_dtypes.float4_e2m1fn",
        DType::F8E4M3FN => "ml_dtypes.float8_e4m3fn",
        DType::F8E4M3FNUZ => "ml_dtypes.float8_e4m3fnuz",
        DType::F8E5M2 => "ml_dtypes.float8_e5m2",
        DType::F8E5M2FNUZ => "ml_dtypes.float8_e5m2fnuz",
        DType::F8E8M0 => "ml_dtypes.float8_e8m0fnu",
    })
}

fn list(names: &[String]) -> String {
    names
        .iter()
        .map(|n| format!("`{n}`"))
        .collect::<Vec<_>>()
        .join(", ")
}
