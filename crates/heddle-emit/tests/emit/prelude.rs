//! Programs begin with those routines of the prelude that they name.

use std::fmt::Write as _;

use heddle_emit::{C, CUDA, Dialect};
use heddle_ir::DType;

/// Routines of every family: by hand, an instance of a macro, of a macro in a macro, and those that take others' names.
pub const ROUTINES: &[(&str, &[&str])] = &[
    ("heddle_share", &[]),
    ("heddle_takes_part", &["heddle_part"]),
    ("heddle_mod_i8", &["HEDDLE_INTEGERS(int8_t, i8)"]),
    ("heddle_to_u16", &["HEDDLE_TO_INTEGER(uint16_t, u16"]),
    ("heddle_rem_f64", &["HEDDLE_FLOATS(double, f64, )"]),
    ("heddle_erf_f32", &["heddle_erf_f32"]),
    ("heddle_tanh_f32", &["heddle_half_expm1", "HEDDLE_ROUND"]),
    (
        "heddle_normal_u64",
        &["heddle_random_bits", "heddle_random", "heddle_sin_over"],
    ),
    (
        "heddle_round_bf16",
        &["heddle_store_bf16", "heddle_load_bf16"],
    ),
    ("heddle_clamp_i4", &["HEDDLE_SMALL_INTEGER(i4, 4, 1)"]),
    (
        "heddle_narrow_f8e5m2",
        &["heddle_small_code", "heddle_bits_f64"],
    ),
    (
        "heddle_largest_i64",
        &["HEDDLE_SINK", "HEDDLE_TOP_K", "HEDDLE_LESS"],
    ),
    ("heddle_sink_up_f32_all", &["HEDDLE_LEXICAL"]),
    ("heddle_unique_u8", &["HEDDLE_UNIQUE", "HEDDLE_SINK"]),
];

/// Without comments.
fn code(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |code, part| {
        code + part.split_once("*/").expect("comments end").1
    })
}

fn lines(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .collect()
}

#[test]
fn what_is_named_comes_with_what_it_names() {
    for dialect in [C, CUDA] {
        for (name, also) in ROUTINES {
            let text = dialect.prelude_of(&format!("x = {name}(y);"));
            for name in *also {
                assert!(text.contains(name), "{}: {name} in\n{text}", dialect.name);
            }
        }
    }
}

/// Templates, which the target for GPUs has.
#[test]
fn templates_come_with_what_they_name() {
    let text = CUDA.prelude_of("heddle_over_unit<8>(sum, turn, join)");
    for part in [
        "template <int points, ",
        "union heddle_word {",
        "&heddle_partial(",
        "#define HEDDLE_PARTIAL ",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(!text.contains("heddle_row_word"), "{text}");
}

#[test]
fn all_names_ask_for_the_whole_prelude() {
    let mut names = String::new();
    for dtype in DType::ALL {
        for family in ["max", "to", "up", "value"] {
            write!(names, "heddle_{family}_{} ", dtype.name()).unwrap();
        }
    }
    for float in ["float", "double"] {
        for bytes in [16, 32, 64] {
            write!(names, "heddle_{float}_{bytes} ").unwrap();
        }
    }
    for dialect in [C, CUDA] {
        let all = dialect.prelude_of(&format!("{}{names}", dialect.routines));
        let whole = dialect.prelude();
        assert_eq!(lines(&code(&all)), lines(&code(&whole)), "{}", dialect.name);
    }
}

#[test]
fn what_is_not_named_is_left_out() {
    let routines = |dialect: &Dialect, program: &str| {
        let prelude = dialect.prelude_of(program);
        prelude
            .strip_prefix(dialect.words)
            .expect("the words come first")
            .trim()
            .to_owned()
    };
    for dialect in [C, CUDA] {
        assert_eq!(routines(&dialect, "heddle_shared heddle_max_ x i8"), "");
        let one = routines(&dialect, "heddle_max_i8(a, b)");
        assert!(one.contains("HEDDLE_INTEGERS(int8_t, i8)"), "{one}");
        assert!(
            !one.contains("int16_t") && !one.contains("HEDDLE_FLOATS"),
            "{one}"
        );
        // The comment of a definition comes with it, a file's own does not.
        assert!(one.starts_with("/* By zero: 0."), "{one}");
    }
}
