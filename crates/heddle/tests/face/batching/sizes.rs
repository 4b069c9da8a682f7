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

/// Arrays of other proportions run one after the other: all together would take 160 GB.
#[test]
fn arrays_of_other_proportions() {
    let program = "
fn @main(%x: f32[n,m], %k: f32[]) -> (%y: f32[m,n], %s: f32[n], %t: f32[]) {
  %y = transpose(mul(%x, %k), perm=[1, 0])
  %s = reduce(%x, kind=sum, axes=[1], keep=false)
  return %y, %s, reduce(%s, kind=sum, axes=[0], keep=false)
}";
    let model = Model::parse("shapes", program).expect("parses");
    let forms: Forms = [("x", Form::Flat), ("k", Form::Stacked)]
        .map(|(name, form)| (name.to_string(), form))
        .into();
    let batch = model.clone().batched(&forms).expect("batches");
    let sizes = [
        [1, 100_000],
        [2, 3],
        [100_000, 1],
        [0, 7],
        [100_000, 0],
        [5, 1],
    ];
    let instances = sizes.iter().enumerate().map(|(i, &[n, m])| {
        let x: Vec<f32> = (0..n * m).map(|k| (k % 7) as f32 - i as f32).collect();
        let x = Tensor::from_slice(vec![n, m], &x).into();
        let k = Tensor::from_slice(vec![], &[i as f32 + 0.5]).into();
        Inputs::from_iter([("x".to_string(), x), ("k".to_string(), k)])
    });
    let instances: Vec<Inputs> = instances.collect();
    let options = RunOptions::default();
    let alone = compile(&model, &CompileOptions::default()).expect("compiles");
    let expected: Vec<Inputs> = instances
        .iter()
        .map(|own| alone.run(own.clone(), &options).expect("runs").outputs)
        .collect();
    let program = compile(&batch.model, &CompileOptions::default()).expect("compiles");
    let inputs = joined(&forms, &instances);
    let run = batch.run(&program, inputs.clone(), &options).expect("runs");
    let expected = joined(&batch.outputs, &expected);
    assert_eq!(run.outputs.len(), expected.len());
    for (name, value) in &expected {
        assert_eq!(run.outputs[name].as_tensor(), value.as_tensor(), "{name}");
    }
    let finished = batch
        .run_finishing(&program, inputs, &options)
        .expect("runs");
    assert!(finished.failed.is_empty());
}
