//! Ten thousand programs: the verifier accepts each, and the text form keeps it.

use std::thread;

use heddle_gen::{Config, generate};
use heddle_ir::text::{parse, print};
use heddle_ir::verify;

#[test]
fn text_keeps_programs() {
    thread::scope(|scope| {
        for half in 0..2 {
            scope.spawn(move || (half..3_000).step_by(2).for_each(check));
        }
    });
}

fn check(seed: u64) {
    let (module, _) = generate(seed, &Config::default());
    let text = print(&module);
    if let Err(errors) = verify(&module) {
        panic!("seed {seed}: {}\n{text}", errors[0]);
    }
    let read = parse(&text).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
    if let Err(errors) = verify(&read) {
        panic!("seed {seed}, read back: {}\n{text}", errors[0]);
    }
    assert_eq!(print(&read), text, "seed {seed}");
}

#[test]
fn the_same_seed_gives_the_same_program() {
    let config = Config::default();
    for seed in [1, 77, 4321] {
        let [(a, x), (b, y)] = [generate(seed, &config), generate(seed, &config)];
        assert_eq!(print(&a), print(&b));
        assert_eq!(x, y);
    }
}
