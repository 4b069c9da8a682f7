//! Stored tensors, inline or in files beside the model.

use std::path::Path;

use bytes::Bytes;
use heddle_ir::tensor::{byte_size, element_count};
use heddle_ir::types::MAX_RANK;
use heddle_ir::{DType, Tensor, Type};

use crate::folder::{DataFolder, slice};
use crate::proto::TensorProto;
use crate::proto::tensor_proto::DataLocation;
use crate::types::dtype;

/// Reads stored tensors. Raw data stays where it is, in the mapped files.
pub struct Store {
    /// The model's folder, beyond which nothing is read; `None` when the model has none.
    folder: Option<DataFolder>,
}

impl Store {
    /// A store for the external data of a model in this folder.
    pub fn new(folder: Option<&Path>) -> Self {
        Self {
            folder: folder.map(DataFolder::new),
        }
    }

    /// The tensor that the message stands for.
    pub fn tensor(&self, proto: &TensorProto) -> Result<Tensor, String> {
        let dtype = dtype(proto.data_type.unwrap_or(0)).map_err(|e| e.to_string())?;
        let shape = dims(&proto.dims)?;
        let count = element_count(&shape);
        if proto.segment.is_some() {
            return Err("tensors stored in segments are not supported".into());
        }
        if proto.data_location == Some(DataLocation::External as i32) {
            let size = count.and_then(|n| byte_size(dtype, n));
            let size = size.ok_or_else(|| format!("dims {shape:?} are too large"))?;
            let data = self.external(proto, dtype, size)?;
            return finish(dtype, shape, data);
        }
        if dtype == DType::Str {
            return strings(proto, shape);
        }
        let data = match &proto.raw_data {
            Some(raw) if !raw.is_empty() || typed_len(proto, dtype) == 0 => raw.clone(),
            _ => {
                let found = typed_len(proto, dtype);
                let expected = count.map(|n| typed_count(dtype, n));
                if expected != Some(found) {
                    let expected = expected.map_or("too many".to_owned(), |n| n.to_string());
                    return Err(format!(
                        "a {dtype} tensor of shape {shape:?} takes {expected} stored numbers, but {found} are given"
                    ));
                }
                typed(proto, dtype)
            }
        };
        finish(dtype, shape, data)
    }

    /// The bytes of a tensor that takes `size` bytes, out of the file that it names.
    fn external(&self, proto: &TensorProto, dtype: DType, size: usize) -> Result<Bytes, String> {
        if dtype == DType::Str {
            return Err("strings cannot be external".into());
        }
        let entry = |key: &str| {
            let found = proto.external_data.iter().find(|e| e.key() == key);
            found.map(|e| e.value())
        };
        let number = |key: &str| match entry(key) {
            None => Ok(None),
            Some(text) => match text.parse::<usize>() {
                Ok(n) => Ok(Some(n)),
                Err(_) => Err(format!("its external {key} `{text}` is not a valid number")),
            },
        };
        let location = entry("location").unwrap_or_default();
        let (offset, length) = (number("offset")?.unwrap_or(0), number("length")?);
        let Some(folder) = &self.folder else {
            return Err("it is external, but the model has no folder".into());
        };
        if location.is_empty() {
            return Err("it is external, but no location is given".into());
        }
        let file = folder.file(location)?;
        if let Some(length) = length.filter(|l| *l != size) {
            return Err(format!(
                "its dims call for {size} bytes, but {length} bytes of `{location}` are given"
            ));
        }
        slice(location, &file, offset, size)
    }
}

/// The tensor; a `bool` that is stored as another byte than 0 or 1 is true.
fn finish(dtype: DType, shape: Vec<usize>, mut data: Bytes) -> Result<Tensor, String> {
    if dtype == DType::Bool && data.iter().any(|&b| b > 1) {
        data = data.iter().map(|&b| (b != 0) as u8).collect();
    }
    Tensor::new(dtype, shape, data).map_err(|e| e.to_string())
}

/// A stored tensor's type; its data is not looked at.
pub fn tensor_type(proto: &TensorProto) -> Result<Type, String> {
    let dtype = dtype(proto.data_type()).map_err(|f| f.to_string())?;
    Ok(Type::fixed(dtype, &dims(&proto.dims)?))
}

fn dims(dims: &[i64]) -> Result<Vec<usize>, String> {
    if dims.len() > MAX_RANK {
        return Err(format!("it has {} axes, more than {MAX_RANK}", dims.len()));
    }
    let size = |&d: &i64| usize::try_from(d).map_err(|_| format!("its dims {dims:?} are negative"));
    dims.iter().map(size).collect()
}

/// The length of the typed field for `count` elements.
fn typed_count(dtype: DType, count: usize) -> usize {
    match dtype {
        d if d.is_complex() => count.saturating_mul(2),
        d if d.bits() < 8 => count.div_ceil(8 / d.bits()),
        _ => count,
    }
}

fn typed_len(proto: &TensorProto, dtype: DType) -> usize {
    match dtype {
        DType::F32 | DType::C64 => proto.float_data.len(),
        DType::F64 | DType::C128 => proto.double_data.len(),
        DType::I64 => proto.int64_data.len(),
        DType::U32 | DType::U64 => proto.uint64_data.len(),
        DType::Str => proto.string_data.len(),
        _ => proto.int32_data.len(),
    }
}

/// The typed field as packed bytes.
fn typed(proto: &TensorProto, dtype: DType) -> Bytes {
    fn pack<T: Copy, const N: usize>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Bytes {
        values
            .iter()
            .flat_map(|v| bytes(*v))
            .collect::<Vec<u8>>()
            .into()
    }
    match dtype {
        DType::F32 | DType::C64 => pack(&proto.float_data, f32::to_le_bytes),
        DType::F64 | DType::C128 => pack(&proto.double_data, f64::to_le_bytes),
        DType::I64 => pack(&proto.int64_data, i64::to_le_bytes),
        DType::U64 => pack(&proto.uint64_data, u64::to_le_bytes),
        DType::U32 => pack(&proto.uint64_data, |v| (v as u32).to_le_bytes()),
        DType::I32 => pack(&proto.int32_data, i32::to_le_bytes),
        DType::Bool => pack(&proto.int32_data, |v| [(v != 0) as u8]),
        d if d.bits() == 16 => pack(&proto.int32_data, |v| (v as u16).to_le_bytes()),
        _ => pack(&proto.int32_data, |v| [v as u8]),
    }
}

fn strings(proto: &TensorProto, shape: Vec<usize>) -> Result<Tensor, String> {
    let text = |bytes: &Vec<u8>| match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Box::<str>::from(text)),
        Err(_) => Err("a string in it is not UTF-8".to_owned()),
    };
    let data = proto
        .string_data
        .iter()
        .map(text)
        .collect::<Result<Vec<_>, _>>()?;
    Tensor::strings(shape, data).map_err(|_| "its dims do not fit the number of strings".into())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::proto::StringStringEntryProto;
    use crate::proto::tensor_proto::DataType;

    fn proto(data_type: DataType, dims: &[i64]) -> TensorProto {
        TensorProto {
            data_type: Some(data_type as i32),
            dims: dims.to_vec(),
            ..Default::default()
        }
    }

    fn read(p: &TensorProto) -> Result<Tensor, String> {
        Store::new(None).tensor(p)
    }

    #[test]
    fn typed_fields_are_packed() {
        let mut p = proto(DataType::Float16, &[2]);
        p.int32_data = vec![0x3c00, 0xc000];
        assert_eq!(read(&p).unwrap().to_f64s().unwrap(), [1.0, -2.0]);
        let mut p = proto(DataType::Int4, &[3]);
        p.int32_data = vec![0x21, 0x03];
        assert_eq!(&read(&p).unwrap().bytes()[..], [0x21, 0x03]);
        let mut p = proto(DataType::Uint32, &[1]);
        p.uint64_data = vec![7];
        assert_eq!(read(&p).unwrap().to_i64s().unwrap(), [7]);
        let mut p = proto(DataType::String, &[1]);
        p.string_data = vec![b"a".to_vec()];
        assert_eq!(&*read(&p).unwrap().strs()[0], "a");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for dims in [
            &[1 << 62][..],
            &[1 << 32, 1 << 32],
            &[-1],
            &[(1 << 62) + 1, 4],
            &[2],
        ] {
            let mut p = proto(DataType::Float, dims);
            p.raw_data = Some(Bytes::from_static(&[0; 16]));
            assert!(read(&p).is_err(), "{dims:?}");
            p.raw_data = None;
            p.float_data = vec![0.0; 4];
            assert!(read(&p).is_err(), "{dims:?}");
        }
    }

    #[test]
    fn external_data_stays_in_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("model");
        fs::create_dir(&inside).unwrap();
        for path in [inside.join("data"), dir.path().join("secret")] {
            fs::write(path, [1u8; 16]).unwrap();
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink(dir.path().join("secret"), inside.join("link")).unwrap();
        let store = Store::new(Some(&inside));
        let load = |entries: &[(&str, &str)]| {
            let mut p = proto(DataType::Float, &[2]);
            p.data_location = Some(DataLocation::External as i32);
            let entry = |(k, v): &(&str, &str)| StringStringEntryProto {
                key: Some(k.to_string()),
                value: Some(v.to_string()),
            };
            p.external_data = entries.iter().map(entry).collect();
            store.tensor(&p)
        };
        assert!(load(&[("location", "data"), ("offset", "8"), ("length", "8")]).is_ok());
        assert!(load(&[("location", "./data")]).is_ok());
        for location in [
            "../secret",
            "link",
            "/etc/passwd",
            "",
            ".",
            "none",
            "a/../../secret",
        ] {
            assert!(load(&[("location", location)]).is_err(), "{location}");
        }
        for (offset, length) in [
            ("12", "8"),
            ("-1", "8"),
            ("x", "8"),
            ("0", "12"),
            ("18446744073709551615", "8"),
        ] {
            let entries = [("location", "data"), ("offset", offset), ("length", length)];
            assert!(load(&entries).is_err(), "{offset} {length}");
        }
    }
}
