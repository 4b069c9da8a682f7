//! The CUDA prelude holds the launch interface as the schema says it. `HEDDLE_BLESS=1` rewrites it.

use std::path::Path;

#[test]
fn the_cuda_prelude_has_the_schema() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/prelude/cuda.h");
    let text = std::fs::read_to_string(&path).unwrap();
    let expected = heddle_abi::schema::with_declarations(&text).expect("a place for it");
    if std::env::var_os("HEDDLE_BLESS").is_some() {
        std::fs::write(&path, &expected).unwrap();
        return;
    }
    assert_eq!(text, expected, "HEDDLE_BLESS=1 rewrites it");
}
