//! Ten thousand programs: the verifier accepts each, and the text form keeps it.

use heddle_gen::{Config, generate};
use heddle_ir::text::{parse, print};
use heddle_ir::verify;

#[test]
fn text_keeps_programs() {
    let mut insts = 0;
    for seed in 0..10_000 {
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
        insts += module
            .functions
            .iter()
            .map(|(_, f)| f.insts.len())
            .sum::<usize>();
    }
    println!("{} instructions per program", insts / 10_000);
}
