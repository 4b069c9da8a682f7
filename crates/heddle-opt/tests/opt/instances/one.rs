//! A single instance runs as the program for one does.

use super::{Flat, Ragged, Shared, Stacked};
use super::{Module, RNN, batch_instances, gathered, i64s, options, run, text, weights};
use heddle_ir::Op;
use heddle_opt::inline_calls;

/// The numbers of values that the loops for one and for many carry, once calls are replaced.
fn carried(module: &Module) -> [Vec<usize>; 2] {
    let entry = module.entry();
    let last = entry.regions[entry.body].insts.last().expect("a branch");
    let branch = &entry.insts[*last];
    assert_eq!(branch.op, Op::If);
    [0, 1].map(|arm| {
        let mut found = vec![];
        entry.for_each_inst_in(branch.regions[arm], &mut |_, inst| {
            let is_loop = matches!(inst.op, Op::Loop { .. });
            found.extend(is_loop.then_some(inst.results.len()));
        });
        found
    })
}

#[test]
fn a_single_instance_keeps_no_list_of_instances() {
    let module = text::parse(RNN).expect("parses");
    let forms = [Ragged, Shared, Shared, Shared];
    let batch = batch_instances(&module, &forms).expect("batches");
    let mut both = batch.with_one_alone(&module, &forms).expect("adds it");
    for name in ["main", "main.one", "main.many"] {
        assert!(both.find(name).is_some(), "{name}");
    }
    assert_eq!(both.find("main"), both.entry_id());
    // The blocks' function stays.
    assert_eq!(both.find("main.many"), module.entry_id());
    inline_calls(&mut both);
    let [one, many] = carried(&both);
    // The loop for one carries what the model's does.
    assert_eq!(one, [1]);
    assert!(many.iter().any(|carried| *carried > 1), "{many:?}");
}

#[test]
fn offsets_of_one_instance_are_checked() {
    let module = text::parse(RNN).expect("parses");
    let forms = [Ragged, Shared, Shared, Shared];
    let batch = batch_instances(&module, &forms).expect("batches");
    let both = batch.with_one_alone(&module, &forms).expect("adds it");
    let instance = [vec![i64s(&[0, 2, 1])], weights()].concat();
    let mut inputs = gathered(&forms, std::slice::from_ref(&instance), &instance);
    let right = run(&both, &inputs, &options()).expect("runs");
    assert_eq!(right.len(), 1);
    for wrong in [[0, 2], [1, 3], [0, 4], [-1, 3], [3, 0]] {
        inputs[1] = i64s(&wrong);
        let error = run(&both, &inputs, &options()).expect_err("does not part the words");
        let text = error.to_string();
        assert!(
            text.contains("`words.offsets` does not part `words`"),
            "{text}"
        );
    }
}

/// Sizes that only the run knows, and an entry that calls itself.
#[test]
fn others_stay_as_they_are() {
    let sizes = "fn @main(%x: f32[n,m]) -> (%y: f32[n,m]) { %y = add(%x, 1.0) return %y }";
    let entry = "
fn @main(%x: f32[]) -> (%y: f32[]) {
  %y: f32[] = if lt(%x, 10.0) {
    %more: f32[] = call @main(mul(%x, 2.0))
    yield %more
  } else {
    yield %x
  }
  return %y
}";
    for (program, form) in [(sizes, Flat), (entry, Stacked)] {
        let module = text::parse(program).expect("parses");
        let batch = batch_instances(&module, &[form]).expect("batches");
        let both = batch.with_one_alone(&module, &[form]).expect("stays");
        assert_eq!(text::print(&both), text::print(&batch.module));
    }
}

/// However many arrays offsets part, branches do not nest deeper.
#[test]
fn many_inputs_are_ragged() {
    let names = (0..300).map(|k| format!("%x{k}: f32[n{k}]"));
    let names: Vec<String> = names.collect();
    let program = format!(
        "fn @main({}) -> (%y: f32[n7]) {{ %y = neg(%x7) return %y }}",
        names.join(", ")
    );
    let module = text::parse(&program).expect("parses");
    let forms = [Ragged; 300];
    let batch = batch_instances(&module, &forms).expect("batches");
    let both = batch.with_one_alone(&module, &forms).expect("adds it");
    heddle_ir::verify(&both).unwrap_or_else(|e| panic!("{}", e[0]));
}
