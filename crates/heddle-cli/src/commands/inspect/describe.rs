//! Origins of values, in a few words: `lt(carried i, 10)`.

use heddle::compare::Elements;
use heddle_ir::{Function, Op, Value, ValueDef};

/// Expressions are followed this deep.
const MAX_DEPTH: usize = 3;
/// Further operands are left out.
const MAX_ARGS: usize = 4;

/// Describes a value by the expression that computes it.
pub fn describe(f: &Function, value: Value) -> String {
    at_depth(f, value, 0)
}

fn at_depth(f: &Function, value: Value, depth: usize) -> String {
    let value = origin(f, value, depth);
    let named = || f.values[value].name.as_deref();
    match f.values[value].def {
        ValueDef::Param(region, _) if region == f.body => {
            format!("input {}", named().unwrap_or("without name"))
        }
        ValueDef::Param(_, 0) => "iteration".into(),
        ValueDef::Param(_, i) => match named() {
            Some(name) => format!("carried {name}"),
            None => format!("carried #{}", i - 1),
        },
        ValueDef::Result(inst, index) => {
            let data = &f.insts[inst];
            match &data.op {
                Op::Const(t) if t.len() == 1 => Elements::of(&t.clone().into()).show(0),
                Op::Const(t) => format!("constant {}", t.ty()),
                op if op.region_count() > 0 || matches!(op, Op::Call(_)) => match named() {
                    Some(name) => format!("{name} of a {}", op.name()),
                    None => format!("result {index} of a {}", op.name()),
                },
                op if depth >= MAX_DEPTH => match named() {
                    Some(name) => name.to_string(),
                    None => format!("{}(…)", op.name()),
                },
                op => op_text(f, op.name(), &data.args, depth),
            }
        }
    }
}

/// The value whose elements these are, behind ops that only change the shape.
fn origin(f: &Function, mut value: Value, depth: usize) -> Value {
    while depth < MAX_DEPTH
        && let ValueDef::Result(inst, _) = f.values[value].def
        && let Op::Reshape | Op::Squeeze { .. } | Op::Unsqueeze { .. } | Op::Broadcast =
            f.insts[inst].op
        && let Some(&x) = f.insts[inst].args.first()
    {
        value = x;
    }
    value
}

fn op_text(f: &Function, op: &str, args: &[Value], depth: usize) -> String {
    let shown = args
        .iter()
        .take(MAX_ARGS)
        .map(|&a| at_depth(f, a, depth + 1));
    let mut shown: Vec<_> = shown.collect();
    if args.len() > MAX_ARGS {
        shown.push("…".into());
    }
    format!("{op}({})", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As long as it may be in a program: following it must not take stack.
    #[test]
    fn chains_of_reshapes_are_followed() {
        const LENGTH: usize = 50_000;
        let steps = (0..LENGTH).map(|i| format!("%a{} = reshape(%a{i}, [2])\n", i + 1));
        let steps: String = steps.collect();
        let text =
            format!("fn @main(%a0: f32[2]) -> (%y: f32[2]) {{\n{steps}return %a{LENGTH}\n}}");
        let module = heddle_ir::text::parse(&text).unwrap();
        let f = module.entry();
        let last = f.regions[f.body].yields[0];
        assert_eq!(describe(f, last), "input a0");
    }
}
