//! Element types.

use std::fmt;
use std::str::FromStr;

/// An element type. The names are those of the text form.
///
/// Arithmetic is defined on `f32`, `f64`, `f16`, `bf16`, the integers from 8 bits up and `bool`.
/// The 2- and 4-bit integers, the 4- and 8-bit floats and the complex types are storage: they can be held, moved
/// and (but for complex) cast. `str` is text, as in ONNX's string tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum DType {
    F32,
    F64,
    F16,
    Bf16,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Bool,
    I4,
    U4,
    I2,
    U2,
    F4E2M1,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0,
    C64,
    C128,
    Str,
}

use DType::*;

impl DType {
    /// All element types.
    pub const ALL: [DType; 26] = [
        F32, F64, F16, Bf16, I8, I16, I32, I64, U8, U16, U32, U64, Bool, I4, U4, I2, U2, F4E2M1,
        F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0, C64, C128, Str,
    ];

    /// The name in the text form.
    pub const fn name(self) -> &'static str {
        match self {
            F32 => "f32",
            F64 => "f64",
            F16 => "f16",
            Bf16 => "bf16",
            I8 => "i8",
            I16 => "i16",
            I32 => "i32",
            I64 => "i64",
            U8 => "u8",
            U16 => "u16",
            U32 => "u32",
            U64 => "u64",
            Bool => "bool",
            I4 => "i4",
            U4 => "u4",
            I2 => "i2",
            U2 => "u2",
            F4E2M1 => "f4e2m1",
            F8E4M3FN => "f8e4m3fn",
            F8E4M3FNUZ => "f8e4m3fnuz",
            F8E5M2 => "f8e5m2",
            F8E5M2FNUZ => "f8e5m2fnuz",
            F8E8M0 => "f8e8m0",
            C64 => "c64",
            C128 => "c128",
            Str => "str",
        }
    }

    /// Bits an element takes in a [`Tensor`](crate::Tensor); 0 for `str`.
    pub const fn bits(self) -> usize {
        match self {
            I2 | U2 => 2,
            I4 | U4 | F4E2M1 => 4,
            I8 | U8 | Bool | F8E4M3FN | F8E4M3FNUZ | F8E5M2 | F8E5M2FNUZ | F8E8M0 => 8,
            F16 | Bf16 | I16 | U16 => 16,
            F32 | I32 | U32 => 32,
            F64 | I64 | U64 | C64 => 64,
            C128 => 128,
            Str => 0,
        }
    }

    /// `f32`, `f64`, `f16`, `bf16`: floats that can be computed with.
    pub const fn is_float(self) -> bool {
        matches!(self, F32 | F64 | F16 | Bf16)
    }

    /// Integers that can be computed with (not `bool`).
    pub const fn is_int(self) -> bool {
        matches!(self, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64)
    }

    /// Signed integers that can be computed with.
    pub const fn is_signed_int(self) -> bool {
        matches!(self, I8 | I16 | I32 | I64)
    }

    /// Floats or integers that can be computed with.
    pub const fn is_arith(self) -> bool {
        self.is_float() || self.is_int()
    }

    /// Floats of 4 or 8 bits, held but not computed with.
    pub const fn is_small_float(self) -> bool {
        matches!(
            self,
            F4E2M1 | F8E4M3FN | F8E4M3FNUZ | F8E5M2 | F8E5M2FNUZ | F8E8M0
        )
    }

    /// Integers of 2 or 4 bits, held but not computed with.
    pub const fn is_small_int(self) -> bool {
        matches!(self, I4 | U4 | I2 | U2)
    }

    /// The complex types.
    pub const fn is_complex(self) -> bool {
        matches!(self, C64 | C128)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DType {
    type Err = ();
    fn from_str(s: &str) -> Result<Self, ()> {
        DType::ALL.into_iter().find(|d| d.name() == s).ok_or(())
    }
}
