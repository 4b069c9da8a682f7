//! What differs between targets.

use heddle_ir::DType;

/// A target's words.
pub struct Dialect {
    /// Source that goes in front: helpers that emitted code calls.
    pub prelude: &'static str,
    /// The type of an element.
    pub type_name: fn(DType) -> &'static str,
    /// What stands before a function for internal use.
    pub function: &'static str,
    /// Says that a pointer is the only way to what it points to.
    pub restrict: &'static str,
    /// A statement: no unit goes on before all are here.
    pub sync: &'static str,
}

/// C for the CPU: all workers run one function.
pub const C: Dialect = Dialect {
    prelude: concat!(
        include_str!("prelude/c.h"),
        "\n",
        include_str!("prelude/integer.h"),
        "\n",
        include_str!("prelude/math.h")
    ),
    type_name: c_type,
    function: "static void",
    restrict: "restrict",
    sync: "HEDDLE_TRY(heddle_barrier(env, worker, workers));",
};

fn c_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float",
        DType::F64 => "double",
        DType::I8 => "int8_t",
        DType::I16 => "int16_t",
        DType::I32 => "int32_t",
        DType::I64 => "int64_t",
        DType::U8 => "uint8_t",
        DType::U16 => "uint16_t",
        DType::U32 => "uint32_t",
        DType::U64 => "uint64_t",
        // What else is stored is bytes or halves; lowering lets none of it through yet.
        _ => "uint8_t",
    }
}
