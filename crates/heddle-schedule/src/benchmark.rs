//! Measuring programs: each run repeats one operator under one share.

use heddle_ir::op::CompareOp;
use heddle_ir::{Arena, DType};

use crate::Choice;
use heddle_uprogram::program::{
    BufferKind, Local, LocalData, LocalKind, Size, Stmt, Sync, UProgram,
};

/// A program that repeats one of the choices or, after the last of them, a barrier. A launch passes
/// the sizes of the measured program, then the index of the choice, then the number of repetitions.
/// Memory is not initialised.
pub fn benchmark(program: &UProgram, choices: &[Choice]) -> UProgram {
    let mut bench = UProgram {
        pool: program.pool.clone(),
        buffers: program.buffers.clone(),
        locals: program.locals.clone(),
        sizes: program.sizes.clone(),
        derived: program.derived.clone(),
        ..UProgram::default()
    };
    let used = |b| {
        choices.iter().any(|choice| {
            let body = &program.operators[choice.op].body;
            let loads = program
                .pool
                .loads(body.exprs())
                .into_iter()
                .any(|l| l.0 == b);
            loads || body.store().buffer == b
        })
    };
    let nothing = bench.pool.int(0);
    for id in program.buffers.keys() {
        let data = &mut bench.buffers[id];
        data.procedure = None;
        if !matches!(data.kind, BufferKind::Own) && !data.kind.is_row() {
            data.kind = BufferKind::Scratch;
            data.len = if used(id) { data.len } else { nothing };
        }
    }
    let [which, times] = ["which", "times"].map(|name| size(&mut bench, name));
    let variable = LocalData {
        dtype: DType::I64,
        kind: LocalKind::Variable,
        name: "again".into(),
    };
    let iteration = bench.locals.push(variable);
    bench.operators = Arena::default();
    let repeated = |bench: &mut UProgram, k: usize, what: Stmt| {
        let (own, k) = (bench.pool.local(which), bench.pool.int(k as i64));
        let trip = bench.pool.local(times);
        let cond = bench.pool.compare(CompareOp::Eq, DType::I64, own, k);
        bench.body.push(Stmt::If {
            cond,
            then: vec![Stmt::Loop {
                iteration,
                trip: Some(trip),
                cond: None,
                body: vec![what],
                name: "measured".into(),
            }],
            otherwise: vec![],
        });
    };
    for (k, choice) in choices.iter().enumerate() {
        let mut op = program.operators[choice.op].clone();
        op.share = choice.share;
        op.resident = None;
        let id = bench.operators.push(op);
        repeated(&mut bench, k, Stmt::Run(id));
    }
    repeated(&mut bench, choices.len(), Stmt::Sync(Sync::ALL));
    bench
}

fn size(program: &mut UProgram, name: &str) -> Local {
    let local = program.locals.push(LocalData {
        dtype: DType::I64,
        kind: LocalKind::Size,
        name: name.into(),
    });
    program.sizes.push((Size::Named(name.into()), local));
    local
}
