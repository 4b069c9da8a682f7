//! Static lengths of sequences.

use std::collections::HashMap;

use heddle_ir::{Function, LoopView, Op, Type, Value};

/// Lengths that are assumed of parameters.
type Assumed = HashMap<Value, usize>;

/// For each value that a loop carries, the length if it is a sequence that has the same one in all
/// iterations.
pub fn constant_lengths(func: &Function, l: &LoopView) -> Vec<Option<usize>> {
    carried(func, l, &Assumed::new())
}

fn carried(func: &Function, l: &LoopView, assumed: &Assumed) -> Vec<Option<usize>> {
    let inits = l.inits.iter().map(|&init| length(func, init, assumed));
    let mut lengths: Vec<Option<usize>> = inits.collect();
    // Carried sequences that keep their lengths in an iteration, if all that are still listed do.
    loop {
        let mut inside = assumed.clone();
        for (&param, length) in l.params.iter().zip(&lengths) {
            inside.extend(length.map(|n| (param, n)));
        }
        let mut done = true;
        for (known, &next) in lengths.iter_mut().zip(&l.next) {
            if known.is_some() && *known != length(func, next, &inside) {
                (*known, done) = (None, false);
            }
        }
        if done {
            return lengths;
        }
    }
}

/// The length of a sequence; `None` if it is dynamic.
fn length(func: &Function, sequence: Value, assumed: &Assumed) -> Option<usize> {
    if let Some(&length) = assumed.get(&sequence) {
        return Some(length);
    }
    if !matches!(func.ty(sequence), Type::Seq(_)) {
        return None;
    }
    let inst = func.def_inst(sequence)?;
    let data = &func.insts[inst];
    let place = data.results.iter().position(|&r| r == sequence)?;
    let of = |value: Value| length(func, value, assumed);
    match &data.op {
        Op::SeqNew { .. } => Some(data.args.len()),
        Op::SeqInsert => Some(of(data.args[0])? + 1),
        Op::SeqErase => of(data.args[0])?.checked_sub(1),
        Op::If => {
            let [a, b] = [0, 1].map(|i| of(func.regions[data.regions[i]].yields[place]));
            a.filter(|_| a == b)
        }
        Op::Loop { .. } => {
            let l = LoopView::of(func, inst)?;
            *carried(func, &l, assumed).get(place)?
        }
        _ => None,
    }
}
