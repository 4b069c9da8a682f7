//! Arrays of NumPy as tensors, and tensors as arrays.
//!
//! An array whose elements lie densely in C order is read in place: the tensor holds a reference to it. Any other is copied without the
//! interpreter's lock (`strided`). A result's memory goes to the array that is made of it. Elements of under 8 bits are a byte each in
//! Python, and are packed here.

use std::ffi::{c_int, c_void};

use heddle::{DType, Tensor};
use numpy::npyffi::{self, PY_ARRAY_API};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyList;

use crate::dlpack;
use crate::errors::input_error;
use crate::strided;

/// Element types by NumPy's names.
const OF_NUMPY: &[(DType, &str)] = &[
    (DType::F32, "float32"),
    (DType::F64, "float64"),
    (DType::F16, "float16"),
    (DType::I8, "int8"),
    (DType::I16, "int16"),
    (DType::I32, "int32"),
    (DType::I64, "int64"),
    (DType::U8, "uint8"),
    (DType::U16, "uint16"),
    (DType::U32, "uint32"),
    (DType::U64, "uint64"),
    (DType::Bool, "bool"),
    (DType::C64, "complex64"),
    (DType::C128, "complex128"),
];

/// Element types that the package `ml_dtypes` adds to NumPy, by its names.
const OF_ML_DTYPES: &[(DType, &str)] = &[
    (DType::Bf16, "bfloat16"),
    (DType::I4, "int4"),
    (DType::U4, "uint4"),
    (DType::I2, "int2"),
    (DType::U2, "uint2"),
    (DType::F4E2M1, "float4_e2m1fn"),
    (DType::F8E4M3FN, "float8_e4m3fn"),
    (DType::F8E4M3FNUZ, "float8_e4m3fnuz"),
    (DType::F8E5M2, "float8_e5m2"),
    (DType::F8E5M2FNUZ, "float8_e5m2fnuz"),
    (DType::F8E8M0, "float8_e8m0fnu"),
];

/// NumPy's name of an element type; of text, that of Python objects.
pub fn numpy_name(dtype: DType) -> &'static str {
    let found = names().find(|&(known, _)| known == dtype);
    found.map_or("object", |(_, name)| name)
}

fn names() -> impl Iterator<Item = (DType, &'static str)> {
    OF_NUMPY.iter().chain(OF_ML_DTYPES).copied()
}

/// NumPy's own type of an element type, made once. An error if it needs a package that is not
/// installed.
pub fn descr(py: Python<'_>, dtype: DType) -> PyResult<Bound<'_, PyArrayDescr>> {
    const COUNT: usize = OF_NUMPY.len() + OF_ML_DTYPES.len();
    static MADE: [PyOnceLock<Py<PyArrayDescr>>; COUNT] = [const { PyOnceLock::new() }; COUNT];
    let Some(k) = names().position(|(known, _)| known == dtype) else {
        return PyArrayDescr::new(py, "object");
    };
    let made = MADE[k].get_or_try_init(py, || {
        let Some(&(_, name)) = k.checked_sub(OF_NUMPY.len()).map(|k| &OF_ML_DTYPES[k]) else {
            return PyArrayDescr::new(py, OF_NUMPY[k].1).map(Bound::unbind);
        };
        let values = py.import("heddle._values")?;
        let package = values.call_method1("ml_dtypes_for", (name,))?;
        PyArrayDescr::new(py, package.getattr(name)?).map(Bound::unbind)
    })?;
    Ok(made.bind(py).clone())
}

/// The element type of an array.
pub fn dtype_of(array: &Bound<'_, PyUntypedArray>) -> PyResult<Option<DType>> {
    let py = array.py();
    let given = array.dtype();
    // These are single objects of NumPy, unless an array brings a copy.
    for dtype in [DType::F32, DType::I64] {
        if given.is(&descr(py, dtype)?) {
            return Ok(Some(dtype));
        }
    }
    let name: String = given.getattr("name")?.extract()?;
    let found = names().find(|&(_, known)| known == name);
    Ok(match found {
        Some((dtype, _)) => Some(dtype),
        None if matches!(given.kind(), b'U' | b'O' | b'S' | b'T') => Some(DType::Str),
        None => None,
    })
}

/// The memory of a dense array that a result may be written to: as long as the array lives, nobody else reads or writes it.
pub struct Target {
    data: *mut u8,
    bytes: usize,
}

// SAFETY: as for `Elements`.
unsafe impl Send for Target {}

impl Target {
    /// That of an array of this element type, if it is dense, aligned for programs, and writable.
    pub fn of(array: &Bound<'_, PyUntypedArray>, dtype: DType) -> PyResult<Option<Self>> {
        let is_plain =
            array.is_c_contiguous() && array.dtype().is_native_byteorder() != Some(false);
        let is_packed = (1..8).contains(&dtype.bits()) && dtype != DType::Bool;
        if !is_plain || is_packed || dtype == DType::Str || !is_writable(array) {
            return Ok(None);
        }
        let elements = Elements::of(array.clone());
        let data = elements.data.cast_mut();
        let bytes = elements.bytes;
        Ok((data as usize)
            .is_multiple_of(8)
            .then_some(Self { data, bytes }))
    }

    /// The bytes.
    ///
    /// # Safety
    /// Nobody else reads or writes them while this borrow lives.
    pub unsafe fn bytes(&mut self) -> &mut [u8] {
        match self.bytes {
            0 => &mut [],
            // SAFETY: a dense array of this many bytes, and the caller's promise.
            bytes => unsafe { std::slice::from_raw_parts_mut(self.data, bytes) },
        }
    }

    /// Does it share bytes with these?
    pub fn overlaps(&self, start: *const u8, bytes: usize) -> bool {
        let (own, other) = (self.data as usize, start as usize);
        own < other + bytes && other < own + self.bytes
    }

    /// Does it share bytes with another one?
    pub fn overlaps_target(&self, other: &Target) -> bool {
        self.overlaps(other.data, other.bytes)
    }
}

/// May elements of an array be written?
pub fn is_writable(array: &Bound<'_, PyUntypedArray>) -> bool {
    // SAFETY: the structure of an array that is alive.
    let flags = unsafe { (*array.as_array_ptr()).fields.flags };
    flags & npyffi::NPY_ARRAY_WRITEABLE != 0
}

/// The elements of an array that lie densely and as programs have them, whose sizes are added to `dims`. `None` for all other arrays.
pub fn plain(
    array: &Bound<'_, PyUntypedArray>,
    dims: &mut Vec<i64>,
) -> PyResult<Option<dlpack::Elements>> {
    let is_plain = array.is_c_contiguous() && array.dtype().is_native_byteorder() != Some(false);
    let Some(dtype) = dtype_of(array)?.filter(|_| is_plain) else {
        return Ok(None);
    };
    if dtype == DType::Str || (dtype != DType::Bool && (1..8).contains(&dtype.bits())) {
        return Ok(None);
    }
    dims.extend(array.shape().iter().map(|&size| size as i64));
    // SAFETY: the structure of an array that is alive.
    let data = unsafe { (*array.as_array_ptr()).fields.data };
    Ok(Some(dlpack::Elements {
        dtype,
        data: data.cast_const().cast(),
        bytes: array.len() * (dtype.bits() / 8),
    }))
}

/// An array as a tensor. `name` stands for it in errors.
pub fn tensor(name: &str, array: &Bound<'_, PyUntypedArray>) -> PyResult<Tensor> {
    let py = array.py();
    let dtype = dtype_of(array)?.ok_or_else(|| {
        let text = format!("{name}: arrays of type {} can't be given", array.dtype());
        input_error(py, text, None)
    })?;
    if dtype == DType::Str {
        return strings(name, array);
    }
    let shape = array.shape().to_vec();
    let is_native = array.dtype().is_native_byteorder() != Some(false);
    let is_packed = (1..8).contains(&dtype.bits()) && dtype != DType::Bool;
    let elements = match array.is_c_contiguous() && is_native {
        true => Content::Array(Elements::of(array.clone())),
        false => {
            let swapped = match (is_native, dtype) {
                (true, _) => None,
                // Both parts are swapped by themselves.
                (false, DType::C64 | DType::C128) => Some(dtype.bits() / 16),
                (false, _) => Some(dtype.bits() / 8),
            };
            let dense = strided::dense(array, swapped);
            let dense = dense.map_err(|text| input_error(py, format!("{name}: {text}"), None))?;
            Content::Copy(dense)
        }
    };
    let made = match is_packed {
        true => Tensor::new(dtype, shape, packed(dtype.bits(), elements.as_ref())),
        false => Tensor::borrowed(dtype, shape, elements),
    };
    made.map_err(|error| input_error(py, format!("{name}: {error}"), None))
}

/// An array's elements, dense.
enum Content {
    Array(Elements),
    Copy(Vec<u8>),
}

impl AsRef<[u8]> for Content {
    fn as_ref(&self) -> &[u8] {
        match self {
            Content::Array(elements) => elements.as_ref(),
            Content::Copy(bytes) => bytes,
        }
    }
}

/// The elements of an array, which lie densely.
struct Elements {
    data: *const u8,
    bytes: usize,
    _array: Py<PyUntypedArray>,
}

// SAFETY: the memory belongs to the array, which lives as long as this. Python does not say who writes to it meanwhile: as for any
// library that computes without the interpreter's lock, that nobody does is the caller's part.
unsafe impl Send for Elements {}

impl Elements {
    fn of(array: Bound<'_, PyUntypedArray>) -> Self {
        let bytes = array.len() * array.dtype().itemsize();
        // SAFETY: the structure of an array that is alive.
        let data = unsafe { (*array.as_array_ptr()).fields.data };
        Self {
            data: data.cast(),
            bytes,
            _array: array.unbind(),
        }
    }
}

impl AsRef<[u8]> for Elements {
    fn as_ref(&self) -> &[u8] {
        match self.bytes {
            0 => &[],
            // SAFETY: a dense array of this many bytes.
            bytes => unsafe { std::slice::from_raw_parts(self.data, bytes) },
        }
    }
}

/// Elements that take a byte each as those of a tensor, the first in the low bits.
fn packed(bits: usize, bytes: &[u8]) -> Vec<u8> {
    let mask = (1u8 << bits) - 1;
    let pack = |some: &[u8]| {
        let codes = some.iter().rev();
        codes.fold(0u8, |byte, code| byte << bits | (code & mask))
    };
    bytes.chunks(8 / bits).map(pack).collect()
}

/// Elements of a tensor that take a byte each. Integers keep their sign.
fn unpacked(dtype: DType, bytes: &[u8], count: usize) -> Vec<u8> {
    let bits = dtype.bits();
    let (per, mask) = (8 / bits, (1u8 << bits) - 1);
    let is_signed = matches!(dtype, DType::I4 | DType::I2);
    let code = |k: usize| {
        let code = bytes[k / per] >> (k % per * bits) & mask;
        match is_signed {
            true => ((code << (8 - bits)) as i8 >> (8 - bits)) as u8,
            false => code,
        }
    };
    (0..count).map(code).collect()
}

/// An array of text, or of Python objects that are text.
fn strings(name: &str, array: &Bound<'_, PyUntypedArray>) -> PyResult<Tensor> {
    let py = array.py();
    let flat = array.call_method0("ravel")?.call_method0("tolist")?;
    let texts: Vec<Box<str>> = flat
        .cast_into::<PyList>()?
        .iter()
        .map(|item| match item.extract::<String>() {
            Ok(text) => Ok(text.into()),
            Err(_) => {
                let text = format!("{name}: an element is no text, but {}", item.get_type());
                Err(input_error(py, text, None))
            }
        })
        .collect::<PyResult<_>>()?;
    Tensor::strings(array.shape().to_vec(), texts)
        .map_err(|error| input_error(py, format!("{name}: {error}"), None))
}

/// Keeps a tensor's memory for the array that reads it.
#[pyclass(frozen, module = "heddle")]
struct Memory(#[allow(dead_code)] Tensor);

/// A tensor as an array, which takes over its memory unless others may read it, too: `is_own` says that none does.
pub fn array(py: Python<'_>, tensor: Tensor, is_own: bool) -> PyResult<Bound<'_, PyAny>> {
    let dtype = tensor.dtype();
    let shape = tensor.shape().to_vec();
    if dtype == DType::Str {
        let texts: Vec<&str> = tensor.strs().iter().map(|s| &**s).collect();
        let numpy = py.import("numpy")?;
        let flat = numpy.call_method1("array", (texts, "object"))?;
        return flat.call_method1("reshape", (shape,));
    }
    let tensor = match dtype.bits() {
        1..8 if dtype != DType::Bool => {
            let bytes = unpacked(dtype, tensor.bytes(), tensor.len());
            // As bytes: the array's own type gives them their meaning.
            Tensor::new(DType::U8, shape.clone(), bytes)
                .map_err(|e| pyo3::exceptions::PySystemError::new_err(e.to_string()))?
        }
        _ => tensor,
    };
    let is_own = is_own || tensor.is_unique();
    let data = tensor.bytes().as_ptr().cast_mut().cast::<c_void>();
    let mut dims: Vec<npyffi::npy_intp> = shape.iter().map(|&d| d as npyffi::npy_intp).collect();
    let descr = descr(py, dtype)?;
    let memory = Py::new(py, Memory(tensor))?;
    // SAFETY: dims and data are those of a dense array, whose memory the base object keeps.
    let array = unsafe {
        let class = npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type);
        let object = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            class,
            descr.into_dtype_ptr(),
            dims.len() as c_int,
            dims.as_mut_ptr(),
            std::ptr::null_mut(),
            data,
            npyffi::NPY_ARRAY_WRITEABLE,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, object)?;
        PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), memory.into_ptr());
        array
    };
    match is_own {
        true => Ok(array),
        // An input that is a result, or a constant: the caller may write to its result.
        false => array.call_method0("copy"),
    }
}
