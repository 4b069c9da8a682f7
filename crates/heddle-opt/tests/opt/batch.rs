//! Batched functions give for each row what the function gives for it.
//!
//! `HEDDLE_SEED` and `HEDDLE_PROGRAMS` choose which random programs and how many.

use crate::common::{Random, draw_tensor, same};
use heddle_gen::{Config, generate};
use heddle_interp::{Options, run};
use heddle_ir::{Datum, Module, Tensor, text, verify::verify};
use heddle_opt::{batch_function, inline_calls, optimize};

const ROWS: usize = 3;

fn variable(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|t| t.parse().ok()).unwrap_or(default)
}

/// The module with its entry batched; what cannot be batched gives the reason.
fn batched(module: &Module, by_row: &[bool]) -> Result<Module, String> {
    let f = batch_function(module.entry(), by_row, "rows").map_err(|r| r.to_string())?;
    let mut result = module.clone();
    let entry = result.entry_id().expect("has an entry");
    result.functions[entry] = f;
    verify(&result)
        .map_err(|e| {
            panic!(
                "{}\n{}\n{}",
                e[0],
                text::print(module),
                text::print(&result)
            )
        })
        .map(|()| result)
}

/// Runs the program on each row and batched on all; whether there was something to compare.
fn compare(module: &Module, by_row: &[bool], rows: &[Vec<Datum>]) -> Result<bool, String> {
    let options = Options {
        max_iterations: 10_000,
        max_depth: 200,
        check_types: true,
        ..Options::default()
    };
    let batch = batched(module, by_row)?;
    let mut expected = vec![];
    for row in rows {
        match run(module, row, &options) {
            Ok(outputs) => expected.push(outputs),
            Err(_) => return Ok(false),
        }
    }
    let inputs = by_row.iter().enumerate().map(|(i, by_row)| match by_row {
        true => stack(rows.iter().map(|r| &r[i])),
        false => rows[0][i].clone(),
    });
    let inputs: Vec<_> = inputs.collect();
    let show = || {
        format!(
            "{by_row:?}\n{}\n{}",
            text::print(module),
            text::print(&batch)
        )
    };
    let found = run(&batch, &inputs, &options).unwrap_or_else(|e| panic!("{e}\n{}", show()));
    for (i, output) in found.iter().enumerate() {
        let all = stack(expected.iter().map(|e| &e[i]));
        assert!(
            same(&all, output),
            "result {i} differs: {all:?} {output:?}\n{}",
            show()
        );
    }
    Ok(true)
}

fn stack<'a>(rows: impl Iterator<Item = &'a Datum>) -> Datum {
    let rows: Vec<&Tensor> = rows
        .map(|d| match d {
            Datum::Tensor(t) => t,
            other => panic!("{other:?} does not stack"),
        })
        .collect();
    let shape = [&[rows.len()], rows[0].shape()].concat();
    let bytes: Vec<u8> = rows.iter().flat_map(|t| t.bytes().to_vec()).collect();
    Datum::Tensor(Tensor::new(rows[0].dtype(), shape, bytes.into()).expect("rows of one shape"))
}

fn tensors(datums: &[Datum]) -> bool {
    let plain = |d: &Datum| matches!(d, Datum::Tensor(t) if t.dtype() != heddle_ir::DType::Str);
    datums.iter().all(plain)
}

#[test]
fn random_programs() {
    let first = variable("HEDDLE_SEED", 0);
    let count = variable("HEDDLE_PROGRAMS", 3000);
    let (mut done, mut refused) = (0, std::collections::BTreeMap::<String, u32>::new());
    for seed in first..first + count {
        let config = Config {
            functions: 1,
            steps: 1 + (seed % 8) as usize,
            depth: 2,
            ..Config::default()
        };
        let (mut module, inputs) = generate(seed, &config);
        inline_calls(&mut module);
        if seed % 2 == 0 {
            optimize(&mut module);
        }
        let mut random = Random(seed);
        if !tensors(&inputs) || inputs.is_empty() {
            continue;
        }
        let mut by_row: Vec<bool> = inputs.iter().map(|_| random.below(2) == 0).collect();
        by_row[random.below(inputs.len() as u64) as usize] = true;
        let rows: Vec<Vec<Datum>> = (0..ROWS)
            .map(|k| {
                inputs
                    .iter()
                    .zip(&by_row)
                    .map(|(d, by_row)| match d {
                        Datum::Tensor(t) if k > 0 && *by_row => {
                            Datum::Tensor(draw_tensor(t.dtype(), t.shape().to_vec(), &mut random))
                        }
                        d => d.clone(),
                    })
                    .collect()
            })
            .collect();
        match compare(&module, &by_row, &rows) {
            Ok(compared) => done += compared as u32,
            Err(reason) => *refused.entry(reason).or_default() += 1,
        }
    }
    eprintln!("{done} compared; refused: {refused:#?}");
    assert!(
        u64::from(done) >= count / 8,
        "only {done} programs were batched: {refused:#?}"
    );
}
