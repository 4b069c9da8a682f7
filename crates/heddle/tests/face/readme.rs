//! The README's example is the one in the library's documentation, which runs as a test.

const README: &str = include_str!("../../../../README.md");
const LIBRARY: &str = include_str!("../../src/lib.rs");

#[test]
fn the_readme_shows_the_example_that_is_tested() {
    let (_, after) = README.split_once("```rust\n").expect("an example");
    let (example, _) = after.split_once("```").expect("its end");
    let documented: Vec<_> = example.lines().map(|line| format!("//! {line}")).collect();
    assert!(LIBRARY.contains(&documented.join("\n")), "{example}");
}
