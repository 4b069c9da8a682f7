//! Prints the program of a seed: `cargo run -p heddle-gen --example program SEED`.

use heddle_gen::{Config, generate};

fn main() {
    let seed = std::env::args().nth(1).and_then(|s| s.parse().ok());
    let (module, inputs) = generate(seed.unwrap_or(0), &Config::default());
    print!("{}", heddle_ir::text::print(&module));
    println!("// inputs: {inputs:?}");
}
