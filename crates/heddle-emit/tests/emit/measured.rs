//! Programs that measure operators can be built and run.

use std::sync::Arc;

use crate::harness::PROGRAMS;
use heddle_machine::Machine;
use heddle_runtime::{BuildOptions, Pool, Program, RunOptions, Session, SessionOptions, Source};
use heddle_schedule::{benchmark, choices};

#[test]
fn every_choice_runs() {
    const MEASURED: [&str; 5] = ["rows", "matrices", "kernels", "convolutions", "recursion"];
    for (name, text) in PROGRAMS.iter().filter(|p| MEASURED.contains(&p.0)) {
        let module = heddle_ir::text::parse(text).expect("a program");
        let mut program = heddle_lower::lower(&module).expect("it has a compiled form");
        heddle_schedule::fuse(&mut program);
        heddle_schedule::select_kernels(&mut program, &Machine::reference_host(2));
        let choices = choices(&mut program, &Machine::reference_host(2)).list;
        assert!(choices.len() > 2, "{name}");
        let bench = benchmark(&program, &choices);
        let layout = heddle_uprogram::layout(&bench).expect("a plan");
        let source = Source {
            name: name.to_string(),
            text: heddle_emit::write(&bench, &layout, &heddle_emit::C).source,
            constants: vec![],
            plan: layout.plan,
        };
        let built = Program::build(&source, &BuildOptions::default());
        let built = Arc::new(built.unwrap_or_else(|e| panic!("{name}: {e}")));
        let pool = Pool::shared(2).expect("threads");
        let mut session = Session::new(built, pool, SessionOptions::default());
        let mut sizes = vec![3; bench.sizes.len()];
        for which in 0..=choices.len() {
            let last = sizes.len() - 2;
            sizes[last..].copy_from_slice(&[which as i64, 2]);
            let run = session.run(&[], &sizes, &RunOptions::default());
            assert!(run.is_ok(), "{name}: {which}");
        }
    }
}
