//! `SequenceMap`: a loop that carries the sequences it makes.

use heddle_ir::{DType, Op, Type, Value};

use super::loops::{Iteration, LoopHead};
use super::scope::{Binding, Frame};
use super::state::{At, Fail, Importer, Outputs, enter, invalid};

impl<'m> Importer<'m> {
    /// `SequenceMap`: the body runs on the elements at one place of all input sequences; inputs
    /// that are tensors are the same each time.
    pub(super) fn sequence_map(&mut self, f: &mut Frame<'m>, at: &At<'m>) -> Outputs {
        let (body, home) = at.graph("body")?;
        let inputs = (0..at.inputs.len())
            .map(|i| at.input(i))
            .collect::<Result<Vec<_>, _>>()?;
        if inputs.len() != body.input.len() {
            let (n, m) = (inputs.len(), body.input.len());
            return invalid(format!("it has {n} inputs, but its body takes {m}"));
        }
        if !matches!(inputs.first().map(|v| f.b.ty(*v)), Some(Type::Seq(_))) {
            return invalid("its first input must be a sequence");
        }
        let length = f.b.op1(Op::SeqLen, &inputs[..1])?;
        let each = |this: &mut Self, f: &mut Frame<'m>, i: Value| -> Result<_, Fail> {
            let mut args = vec![];
            for &input in &inputs {
                args.push(Binding::Value(match f.b.ty(input) {
                    Type::Seq(_) => f.b.op1(Op::SeqAt, &[input, i])?,
                    _ => input,
                }));
            }
            Ok(this.graph(f, body, Some(home), args)?)
        };
        // A trial import infers the types of the resulting elements.
        let before = f.b.checkpoint();
        let (_, params) = f.b.begin_region(&[Type::scalar(DType::I64)]);
        enter(f)?;
        let results = each(self, f, params[0])?;
        f.regions -= 1;
        let types: Vec<_> = results.iter().map(|v| v.map(|v| f.ty(v))).collect();
        f.b.rollback(&before);
        f.b.set_loc(Some(at.loc.clone()));
        let mut carried = vec![];
        for ty in types {
            let empty = ty
                .map(|elem| f.b.op1(Op::SeqNew { elem }, &[]))
                .transpose()?;
            carried.push(Binding::from(empty));
        }
        let head = LoopHead {
            trip: Some(length),
            cond: None,
            carried,
        };
        let mut import = |this: &mut Self, f: &mut Frame<'m>, i: Value, carried: &[Binding]| {
            let results = each(this, f, i)?;
            let mut next = vec![];
            for (sequence, result) in carried.iter().zip(results) {
                next.push(match (sequence, result) {
                    (Binding::Value(s), Some(v)) => Some(f.b.op1(Op::SeqInsert, &[*s, v, i])?),
                    _ => None,
                });
            }
            Ok(Iteration {
                cond: None,
                carried: next,
                stacked: vec![],
            })
        };
        self.build_loop(f, at, head, &mut import)
    }
}
