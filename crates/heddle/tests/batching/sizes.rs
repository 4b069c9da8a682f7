//! Sizes that follow from others: each instance has those that the model states.

use super::*;

/// Checks the inputs of a batch of two: `x` of these numbers, and one more array.
fn checked(program: &str, forms: &[(&str, Form)], inputs: &[(&str, Tensor)]) -> Result<(), String> {
    let model = Model::parse("sizes", program).expect("parses");
    let forms: Forms = forms.iter().map(|(n, f)| (n.to_string(), *f)).collect();
    let batch = model.batched(&forms).expect("batches");
    let inputs = inputs
        .iter()
        .map(|(n, t)| (n.to_string(), t.clone().into()));
    let inputs: Inputs = inputs.collect();
    batch.check(&inputs).map_err(|e| e.to_string())?;
    let program = compile(&batch.model, &CompileOptions::default()).expect("compiles");
    let run = program.run(inputs, &RunOptions::default()).expect("runs");
    assert!(run.outputs.contains_key("y"));
    Ok(())
}

#[test]
fn of_one_array() {
    let program = "
fn @main(%x: f32[n,2*n]) -> (%y: f32[2*n,n]) {
  return transpose(%x, perm=[1, 0])
}";
    let with = |shapes: &[i64]| {
        let lens = shapes.chunks(2).map(|s| s[0] * s[1]);
        let mut ends = vec![0];
        lens.for_each(|len| ends.push(ends[ends.len() - 1] + len));
        let data = vec![0.5f32; *ends.last().expect("an end") as usize];
        [
            ("x", Tensor::vector(&data)),
            ("x.offsets", Tensor::vector(&ends)),
            (
                "x.shapes",
                Tensor::from_slice(vec![shapes.len() / 2, 2], shapes),
            ),
        ]
    };
    let flat = [("x", Form::Flat)];
    checked(program, &flat, &with(&[1, 2, 3, 6, 0, 0])).expect("fits");
    let error = checked(program, &flat, &with(&[1, 2, 3, 4])).expect_err("does not fit");
    let wanted = "`x` has the size 4 in instance 1, where the model has 2*n, which is 6 there";
    assert!(error.contains(wanted), "{error}");
}

#[test]
fn of_several_arrays() {
    let program = "
fn @main(%k: f32[n], %x: f32[2*n], %z: f32[2*n]) -> (%y: f32[2*n]) {
  return add(%x, %z)
}";
    let ragged = ["k", "x", "z"].map(|name| (name, Form::Ragged));
    let with = |k: &[i64], z: &[i64]| {
        [
            ("k", Tensor::vector(&vec![1.0f32; k[2] as usize])),
            ("k.offsets", Tensor::vector(k)),
            ("x", Tensor::vector(&[0.5f32; 6])),
            ("x.offsets", Tensor::vector(&[0i64, 2, 6])),
            ("z", Tensor::vector(&[0.25f32; 6])),
            ("z.offsets", Tensor::vector(z)),
        ]
    };
    checked(program, &ragged, &with(&[0, 1, 3], &[0, 2, 6])).expect("fits");
    let checked = |k: &[i64], z: &[i64]| checked(program, &ragged, &with(k, z));
    let error = checked(&[0, 1, 3], &[0, 4, 6]).expect_err("does not fit");
    let wanted = "instance 0 has the size 4 in `z`, but 2 in `x`";
    assert!(error.contains(wanted), "{error}");
    let error = checked(&[0, 1, 2], &[0, 2, 6]).expect_err("does not fit");
    let wanted = "`x` has the size 4 in instance 1, where the model has 2*n, which is 2 there";
    assert!(error.contains(wanted), "{error}");
}

/// A size of an input that all instances share.
#[test]
fn of_shared_arrays() {
    let program = "
fn @main(%x: f32[n+1], %w: f32[n]) -> (%y: f32[n]) {
  return add(slice(%x, [1], [9223372036854775807], [1], axes=[0]), %w)
}";
    let with = |offsets: &[i64]| {
        [
            ("x", Tensor::vector(&[0.5f32; 6])),
            ("x.offsets", Tensor::vector(offsets)),
            ("w", Tensor::vector(&[1.0f32, 2.0])),
        ]
    };
    let ragged = [("x", Form::Ragged)];
    checked(program, &ragged, &with(&[0, 3, 6])).expect("fits");
    let error = checked(program, &ragged, &with(&[0, 2, 6])).expect_err("does not fit");
    assert!(error.contains("has the size 2 in instance 0"), "{error}");
}
