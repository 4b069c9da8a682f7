//! Tensors of PyTorch by DLPack's table of C functions, in both directions and without a copy.
//!
//! The structures are those of DLPack 1.3 (`dlpack.h`). A class of tensors has the table as `__dlpack_c_exchange_api__`; PyTorch has it
//! from 2.10 on. Without it tensors go through NumPy.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use heddle::{DType, Tensor};
use pyo3::exceptions::PyAttributeError;
use pyo3::ffi::{self, PyObject};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// The major version whose structures these are.
const MAJOR: u32 = 1;

/// The processor's memory.
const CPU: i32 = 1;

/// Element types by DLPack's code and bits.
const TYPES: &[(DType, u8, u8)] = &[
    (DType::F32, 2, 32),
    (DType::I64, 0, 64),
    (DType::F64, 2, 64),
    (DType::F16, 2, 16),
    (DType::Bf16, 4, 16),
    (DType::I8, 0, 8),
    (DType::I16, 0, 16),
    (DType::I32, 0, 32),
    (DType::U8, 1, 8),
    (DType::U16, 1, 16),
    (DType::U32, 1, 32),
    (DType::U64, 1, 64),
    (DType::Bool, 6, 8),
];

#[repr(C)]
#[derive(Clone, Copy)]
struct Version {
    major: u32,
    minor: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct ElementType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    dtype: ElementType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
    flags: u64,
    tensor: DlTensor,
}

/// The table of functions. Those that are not called here are addresses.
#[repr(C)]
struct Table {
    version: Version,
    previous: *const Table,
    allocate: *const c_void,
    managed_of: *const c_void,
    object_of: Option<unsafe extern "C" fn(*mut Managed, *mut *mut c_void) -> c_int>,
    borrow: Option<unsafe extern "C" fn(*mut c_void, *mut DlTensor) -> c_int>,
    stream: *const c_void,
}

/// PyTorch's tensors.
pub struct Torch {
    class: Py<PyType>,
    table: &'static Table,
}

// SAFETY: the table is constant, and lives as long as the process.
unsafe impl Send for Torch {}
// SAFETY: as above.
unsafe impl Sync for Torch {}

/// Elements of a tensor, dense in the processor's memory.
pub struct Elements {
    pub dtype: DType,
    pub data: *const u8,
    pub bytes: usize,
}

impl Torch {
    /// PyTorch's, if this is one of its plain tensors and it has the functions.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<&'static Self>> {
        static KNOWN: PyOnceLock<Option<Torch>> = PyOnceLock::new();
        let (py, class) = (object.py(), object.get_type());
        if let Some(known) = KNOWN.get(py) {
            return Ok(known.as_ref().filter(|torch| class.is(&torch.class)));
        }
        if class.name()? != "Tensor" || class.module()? != "torch" {
            return Ok(None);
        }
        let known = KNOWN.get_or_try_init(py, || Self::new(&class))?;
        Ok(known.as_ref())
    }

    fn new(class: &Bound<'_, PyType>) -> PyResult<Option<Self>> {
        let py = class.py();
        let capsule = match class.getattr(intern!(py, "__dlpack_c_exchange_api__")) {
            Ok(capsule) => capsule,
            Err(error) if error.is_instance_of::<PyAttributeError>(py) => return Ok(None),
            Err(error) => return Err(error),
        };
        // SAFETY: a live object; what is no capsule of this name is an error.
        let found =
            unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), c"dlpack_exchange_api".as_ptr()) };
        if found.is_null() {
            return Err(PyErr::fetch(py));
        }
        // SAFETY: DLPack states that the table is of this form at this major version, and lives as long as the process.
        let table = unsafe { &*found.cast::<Table>() };
        let is_whole = table.borrow.is_some() && table.object_of.is_some();
        Ok((table.version.major == MAJOR && is_whole).then(|| Self {
            class: class.clone().unbind(),
            table,
        }))
    }

    /// The elements of a tensor, whose sizes are added to `dims`; `None` where they are not read as they lie there.
    pub fn elements(
        &self,
        object: &Bound<'_, PyAny>,
        dims: &mut Vec<i64>,
    ) -> PyResult<Option<Elements>> {
        let py = object.py();
        let mut tensor = DlTensor::EMPTY;
        let Some(borrow) = self.table.borrow else {
            return Ok(None);
        };
        // SAFETY: an object of the class that the table belongs to; the function fills in the structure or fails with an exception.
        if unsafe { borrow(object.as_ptr().cast(), &mut tensor) } != 0 {
            // It has no elements, as one of another device, or none of this form. The caller finds words for that.
            drop(PyErr::take(py));
            return Ok(None);
        }
        let kind = tensor.dtype;
        let dtype = TYPES
            .iter()
            .find(|&&(_, code, bits)| code == kind.code && bits == kind.bits);
        let (Some(&(dtype, ..)), CPU, 1) = (dtype, tensor.device_type, kind.lanes) else {
            return Ok(None);
        };
        // A view that negates its elements has those of the tensor behind it.
        if dtype.is_float() && object.call_method0(intern!(py, "is_neg"))?.is_truthy()? {
            return Ok(None);
        }
        // SAFETY: the structure has `ndim` sizes, and as many strides or none, which live as long as the tensor.
        let (shape, strides) = unsafe {
            let all = |first: *const i64| slice(first, tensor.ndim);
            (all(tensor.shape), all(tensor.strides))
        };
        let mut count = 1i64;
        for (axis, &size) in shape.iter().enumerate().rev() {
            if size != 1 && strides.get(axis).is_some_and(|&stride| stride != count) {
                // Where there is no element, strides mean nothing.
                if !shape.contains(&0) {
                    return Ok(None);
                }
            }
            count = count.saturating_mul(size);
        }
        dims.extend(shape);
        Ok(Some(Elements {
            dtype,
            data: tensor
                .data
                .cast::<u8>()
                .wrapping_add(tensor.byte_offset as usize),
            bytes: count as usize * (dtype.bits() / 8),
        }))
    }

    /// A tensor of PyTorch that takes over a result's memory, which is nobody else's; the result where DLPack has no such element type.
    pub fn object<'py>(
        &self,
        py: Python<'py>,
        result: Tensor,
    ) -> PyResult<Result<Bound<'py, PyAny>, Tensor>> {
        let dtype = result.dtype();
        let known = TYPES.iter().find(|(known, ..)| *known == dtype);
        let (Some(&(_, code, bits)), Some(object_of)) = (known, self.table.object_of) else {
            return Ok(Err(result));
        };
        let managed = Box::into_raw(Lent::new(
            result,
            ElementType {
                code,
                bits,
                lanes: 1,
            },
        ));
        let mut made = null_mut();
        // SAFETY: the structure is whole; the function takes it, also when it fails, or the deleter is called once later.
        let status = unsafe { object_of(managed.cast(), &mut made) };
        if status != 0 || made.is_null() {
            return Err(PyErr::fetch(py));
        }
        // SAFETY: a new reference to an object.
        Ok(Ok(unsafe {
            Bound::from_owned_ptr(py, made.cast::<PyObject>())
        }))
    }
}

impl DlTensor {
    const EMPTY: Self = Self {
        data: null_mut(),
        device_type: 0,
        device_id: 0,
        ndim: 0,
        dtype: ElementType {
            code: 0,
            bits: 0,
            lanes: 0,
        },
        shape: null_mut(),
        strides: null_mut(),
        byte_offset: 0,
    };
}

/// A result that another library reads.
#[repr(C)]
struct Lent {
    /// At the place where the library expects it.
    managed: Managed,
    _result: Tensor,
    sizes: Vec<i64>,
}

impl Lent {
    fn new(result: Tensor, dtype: ElementType) -> Box<Self> {
        // Sizes, and behind them strides.
        let mut sizes: Vec<i64> = result.shape().iter().map(|&size| size as i64).collect();
        let rank = sizes.len();
        sizes.resize(2 * rank, 1);
        for axis in (1..rank).rev() {
            sizes[rank + axis - 1] = sizes[rank + axis].saturating_mul(sizes[axis].max(1));
        }
        let data = result.bytes().as_ptr().cast_mut();
        let tensor = DlTensor {
            data: data.cast(),
            device_type: CPU,
            ndim: rank as i32,
            dtype,
            ..DlTensor::EMPTY
        };
        let mut lent = Box::new(Self {
            managed: Managed {
                version: Version {
                    major: MAJOR,
                    minor: 0,
                },
                context: null_mut(),
                deleter: Some(delete),
                flags: 0,
                tensor,
            },
            _result: result,
            sizes,
        });
        let sizes = lent.sizes.as_mut_ptr();
        lent.managed.tensor.shape = sizes;
        lent.managed.tensor.strides = sizes.wrapping_add(rank);
        lent
    }
}

/// # Safety
/// The first part of a [`Lent`], which nobody uses any more.
unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: the caller's promise; it was made by `Box::into_raw`.
    drop(unsafe { Box::from_raw(managed.cast::<Lent>()) });
}

/// # Safety
/// So many numbers are at `first`, or it is null.
unsafe fn slice<'a>(first: *const i64, count: i32) -> &'a [i64] {
    match first.is_null() || count <= 0 {
        true => &[],
        // SAFETY: the caller's promise.
        false => unsafe { std::slice::from_raw_parts(first, count as usize) },
    }
}
