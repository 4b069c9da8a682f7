//! Values while a program runs.
//!
//! Arrays are reference-counted typed vectors: a clone is cheap, and the only owner updates in
//! place. `f16` and `bf16` are kept as `f32`, in double mode all floats as `f64`; elements of under
//! 8 bits and the 8-bit floats are kept as codes, one a byte.

use std::rc::Rc;
use std::sync::Arc;

use heddle_ir::DType;

use crate::context::{Context, Lease, footprint};
use crate::error::Fault;

/// A value.
#[derive(Clone)]
pub enum Val {
    /// An array.
    Tensor(Array),
    /// A list.
    Seq(Rc<Seq>),
    /// A value or none.
    Opt(Option<Rc<Val>>),
}

/// A list's elements.
pub struct Seq {
    /// The elements.
    pub items: Vec<Val>,
    /// The memory of the list itself.
    pub lease: Lease,
}

/// An array in row-major order.
#[derive(Clone)]
pub struct Array {
    /// The stated element type.
    pub dtype: DType,
    /// The size of each axis.
    pub shape: Vec<usize>,
    /// The elements.
    pub data: Buf,
}

/// Elements and the lease of their memory.
pub struct Store<T> {
    /// The elements.
    pub data: Vec<T>,
    /// Their memory.
    pub lease: Lease,
}

/// An element of a type of under 8 bits or an 8-bit float, as its bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Code(pub u8);

/// Element types of working arrays.
pub trait Elem: Clone + Default + 'static {
    /// The untyped form.
    fn wrap(store: Rc<Store<Self>>) -> Buf;
    /// The elements, if they are of this type.
    fn of(buf: &Buf) -> Option<&Rc<Store<Self>>>;
    /// The elements, to change them.
    fn of_mut(buf: &mut Buf) -> Option<&mut Rc<Store<Self>>>;
    /// Bytes that elements own besides themselves.
    fn heap_bytes(_data: &[Self]) -> u64 {
        0
    }
    /// Rounds to the stated type, if elements are kept in a wider one.
    fn round_to(_dtype: DType, _data: &mut [Self]) {}
}

macro_rules! elements {
    ($($variant:ident($ty:ty) $({ $($extra:item)* })?),* $(,)?) => {
        /// The elements of an array.
        #[derive(Clone)]
        #[allow(missing_docs)]
        pub enum Buf { $($variant(Rc<Store<$ty>>)),* }

        impl Buf {
            /// Address of the elements: clones share it.
            pub fn address(&self) -> usize {
                match self { $(Buf::$variant(s) => Rc::as_ptr(s).addr()),* }
            }
        }

        $(impl Elem for $ty {
            fn wrap(store: Rc<Store<Self>>) -> Buf { Buf::$variant(store) }
            fn of(buf: &Buf) -> Option<&Rc<Store<Self>>> {
                match buf { Buf::$variant(s) => Some(s), _ => None }
            }
            fn of_mut(buf: &mut Buf) -> Option<&mut Rc<Store<Self>>> {
                match buf { Buf::$variant(s) => Some(s), _ => None }
            }
            $($($extra)*)?
        })*

        /// Evaluates an expression with the elements as a typed slice.
        macro_rules! with_any {
            ($buf:expr, $data:ident => $e:expr) => {
                match &$buf {
                    $($crate::value::Buf::$variant(s) => {
                        let $data = s.data.as_slice();
                        $e
                    })*
                }
            };
        }
        pub(crate) use with_any;
    };
}

elements! {
    F32(f32) {
        fn round_to(dtype: DType, data: &mut [f32]) {
            match dtype {
                DType::F16 => data.iter_mut().for_each(|v| *v = half::f16::from_f32(*v).to_f32()),
                DType::Bf16 => data.iter_mut().for_each(|v| *v = half::bf16::from_f32(*v).to_f32()),
                _ => {}
            }
        }
    },
    F64(f64), I8(i8), I16(i16), I32(i32), I64(i64), U8(u8), U16(u16), U32(u32), U64(u64),
    Bool(bool), Code(Code),
    C64([f32; 2]), C128([f64; 2]),
    Str(Arc<str>) {
        fn heap_bytes(data: &[Arc<str>]) -> u64 {
            data.iter().map(|s| s.len() as u64 + 16).sum()
        }
    },
}

/// Evaluates an expression with the elements of numbers or bools as a typed slice, else `else`.
macro_rules! with_scalar {
    ($buf:expr, $data:ident => $e:expr, else $otherwise:expr) => {
        $crate::value::with_variants!($buf, $data => $e, else $otherwise;
            Bool F32 F64 I8 I16 I32 I64 U8 U16 U32 U64)
    };
}
pub(crate) use with_scalar;

/// Evaluates an expression with the elements of numbers as a typed slice, else `else`.
macro_rules! with_num {
    ($buf:expr, $data:ident => $e:expr, else $otherwise:expr) => {
        $crate::value::with_variants!($buf, $data => $e, else $otherwise;
            F32 F64 I8 I16 I32 I64 U8 U16 U32 U64)
    };
}
pub(crate) use with_num;

macro_rules! with_variants {
    ($buf:expr, $data:ident => $e:expr, else $otherwise:expr; $($variant:ident)*) => {
        match &$buf {
            $($crate::value::Buf::$variant(s) => {
                let $data = s.data.as_slice();
                $e
            })*
            _ => $otherwise,
        }
    };
}
pub(crate) use with_variants;

/// Evaluates an expression with the type that keeps numbers or bools of a `DType`, else `else`.
macro_rules! with_scalar_type {
    ($dtype:expr, $double:expr, $t:ident => $e:expr, else $otherwise:expr) => {
        $crate::value::with_scalar_type!(@ $dtype, $t => $e, else $otherwise;
            f64 if $double => F32 | F16 | Bf16;
            f64 if true => F64; f32 if true => F32 | F16 | Bf16; bool if true => Bool;
            i8 if true => I8; i16 if true => I16; i32 if true => I32; i64 if true => I64;
            u8 if true => U8; u16 if true => U16; u32 if true => U32; u64 if true => U64;)
    };
    (@ $dtype:expr, $t:ident => $e:expr, else $otherwise:expr;
     $($kept:ident if $if:expr => $($stated:ident)|+;)*) => {
        match $dtype {
            $($(heddle_ir::DType::$stated)|+ if $if => {
                type $t = $kept;
                $e
            })*
            _ => $otherwise,
        }
    };
}
pub(crate) use with_scalar_type;

impl Array {
    /// The number of elements.
    pub fn len(&self) -> usize {
        with_any!(self.data, data => data.len())
    }

    /// The elements as this type; an error if they are of another one.
    pub fn data<T: Elem>(&self) -> Result<&[T], Fault> {
        T::of(&self.data)
            .map(|s| s.data.as_slice())
            .ok_or_else(|| Fault::Unsupported(format!("this op on {}", self.dtype)))
    }

    /// The same elements under a shape of as many.
    pub fn reshaped(&self, shape: Vec<usize>) -> Array {
        Array {
            shape,
            ..self.clone()
        }
    }

    /// The elements to change in place: copied first if they have another owner.
    pub fn data_mut<T: Elem>(&mut self, cx: &Context) -> Result<&mut Vec<T>, Fault> {
        let dtype = self.dtype;
        let fault = || Fault::Unsupported(format!("this op on {dtype}"));
        let store = T::of_mut(&mut self.data).ok_or_else(fault)?;
        if Rc::get_mut(store).is_none() {
            let mut data = cx.vec(store.data.len())?;
            data.extend_from_slice(&store.data);
            let lease = cx.claim(footprint(&data))?;
            *store = Rc::new(Store { data, lease });
        }
        Ok(&mut Rc::get_mut(store).expect("just made the only owner").data)
    }

    /// Appends the elements of another array of the same type; the caller updates the shape.
    pub fn append(&mut self, other: &Array, cx: &Context) -> Result<(), Fault> {
        with_any!(other.data, more => append(self, more, cx))
    }

    /// The elements of an index or size operand (`i32` or `i64`).
    pub fn ints(&self) -> Result<Vec<i64>, Fault> {
        match &self.data {
            Buf::I64(s) => Ok(s.data.clone()),
            Buf::I32(s) => Ok(s.data.iter().map(|&v| v.into()).collect()),
            _ => Err(Fault::Unsupported(format!("indices of {}", self.dtype))),
        }
    }

    /// The only element, of an `i64[]` operand.
    pub fn int(&self) -> Result<i64, Fault> {
        match self.data::<i64>()? {
            [v] => Ok(*v),
            other => Err(Fault::Shape(format!(
                "a single number is needed, not {}",
                other.len()
            ))),
        }
    }
}

fn append<T: Elem>(to: &mut Array, more: &[T], cx: &Context) -> Result<(), Fault> {
    to.data_mut::<T>(cx)?;
    let store = T::of_mut(&mut to.data).and_then(Rc::get_mut);
    let Store { data, lease } = store.expect("data_mut made it the only owner");
    let room = data.capacity() - data.len();
    if room < more.len() {
        let extra = data.capacity().max(more.len());
        cx.extend(lease, (extra * size_of::<T>()) as u64)?;
        let needed = (extra * size_of::<T>()) as u64;
        let extra = extra + room;
        data.try_reserve_exact(extra)
            .map_err(|_| Fault::OutOfMemory { needed })?;
    }
    cx.extend(lease, T::heap_bytes(more))?;
    data.extend_from_slice(more);
    Ok(())
}

impl Val {
    /// The array, if it is one.
    pub fn tensor(&self) -> Result<&Array, Fault> {
        match self {
            Val::Tensor(a) => Ok(a),
            _ => Err(Fault::Unsupported("a sequence or optional here".into())),
        }
    }

    /// Description for messages.
    pub fn describe(&self) -> String {
        match self {
            Val::Tensor(a) => {
                let dims: Vec<_> = a.shape.iter().map(usize::to_string).collect();
                format!("{}[{}]", a.dtype, dims.join(","))
            }
            Val::Seq(s) => match s.items.first() {
                Some(first) => format!("a seq of {} like {}", s.items.len(), first.describe()),
                None => "an empty seq".into(),
            },
            Val::Opt(Some(v)) => format!("an opt with {}", v.describe()),
            Val::Opt(None) => "an empty opt".into(),
        }
    }
}

impl From<Array> for Val {
    fn from(array: Array) -> Self {
        Val::Tensor(array)
    }
}
