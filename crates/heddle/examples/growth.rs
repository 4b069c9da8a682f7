//! Times of loops whose arrays grow, against the same loops with a stated bound, for which memory is
//! planned: `cargo run --release -p heddle --example growth [THREADS]`. The two run in turns.

use std::time::{Duration, Instant};

use heddle::{ArrayView, CompileOptions, DType, Model, RunOptions, Session};

type Error = Box<dyn std::error::Error>;

/// Time for each case.
const SPAN: Duration = Duration::from_secs(3);

/// Loops that data ends after so many iterations, half of the stated bound.
const STEPS: f32 = 1000.0;

/// Name and loop; `LIMIT` stands for the bound.
const CASES: [(&str, &str); 5] = [
    (
        "rows of 4 KiB",
        "%rows, %count = loop %i LIMIT const true carry (%a: f32[?,1024] = %x, %c: f32[] = 0.0) {
           continue while lt(%c, %k) carry concat(%a, exp(%x), axis=0), add(%c, %one)
         }
         %y = slice(%rows, [-1], [9223372036854775807], [1], axes=[0])",
    ),
    (
        "stacked results of 4 KiB",
        "%last, %count, %rows = loop %i LIMIT const true carry (
             %v: f32[1,1024] = %x, %c: f32[] = 0.0) {
           %next = tanh(%v)
           continue while lt(%c, %k) carry %next, add(%c, %one) stack reshape(%next, [1024])
         }
         %y = slice(%rows, [-1], [9223372036854775807], [1], axes=[0])",
    ),
    (
        "caches of 8 heads",
        "%head = reshape(%x, [1,8,1,128])
         %none = slice(%head, [0], [0], [1], axes=[2])
         %last, %keys, %values, %count = loop %i LIMIT const true carry (
             %q: f32[1,8,1,128] = %head, %ks: f32[1,8,?,128] = %none,
             %vs: f32[1,8,?,128] = %none, %c: f32[] = 0.0) {
           %ks2 = concat(%ks, tanh(%q), axis=2)
           %vs2 = concat(%vs, mul(%q, 0.5), axis=2)
           %scores = dot(%q, transpose(%ks2, perm=[0,1,3,2]))
           %e = exp(sub(%scores, reduce(%scores, kind=max, axes=[3], keep=true)))
           %p = div(%e, reduce(%e, kind=sum, axes=[3], keep=true))
           continue while lt(%c, %k) carry add(dot(%p, %vs2), %head), %ks2, %vs2, add(%c, %one)
         }
         %y = reshape(%last, [1,1024])",
    ),
    (
        "rows taken back",
        "%rows, %count = loop %i LIMIT const true carry (%a: f32[?,1024] = %x, %c: f32[] = 0.0) {
           %more = concat(%a, exp(%x), tanh(%x), axis=0)
           %kept = add(%i, cast(lt(%c, %k), to=i64))
           %first = slice(%more, [0], reshape(%kept, [1]), [1], axes=[0])
           continue while lt(%c, %k) carry concat(%first, %x, axis=0), add(%c, %one)
         }
         %y = slice(%rows, [-1], [9223372036854775807], [1], axes=[0])",
    ),
    (
        "a square",
        "%cell = slice(%x, [0], [1], [1], axes=[1])
         %all, %count = loop %i LIMIT const true carry (%a: f32[?,?] = %cell, %c: f32[] = 0.0) {
           %wide = concat(%a, slice(%a, [0], [1], [1], axes=[1]), axis=1)
           %row = tanh(slice(%wide, [0], [1], [1], axes=[0]))
           continue while lt(%c, %k) carry concat(%wide, %row, axis=0), add(%c, %one)
         }
         %y = slice(%all, [-1], [9223372036854775807], [1], axes=[0])",
    ),
];

fn main() -> Result<(), Error> {
    let threads = std::env::args().nth(1).map(|n| n.parse()).transpose()?;
    println!(
        "{:28} {:>12} {:>12} {:>7}",
        "median of", "stated bound", "growing", "ratio"
    );
    for (name, body) in CASES {
        let mut stated = session(body, "trip 2000 while", threads)?;
        let mut growing = session(body, "while", threads)?;
        let (start, mut times) = (Instant::now(), [vec![], vec![]]);
        // The first runs find no memory yet.
        run(&mut stated)?;
        run(&mut growing)?;
        while start.elapsed() < SPAN {
            times[0].push(run(&mut stated)?);
            times[1].push(run(&mut growing)?);
        }
        let [stated, growing] = times.map(|mut times| {
            times.sort();
            times[times.len() / 2].as_secs_f64() * 1e3
        });
        let ratio = growing / stated;
        println!("{name:28} {stated:>9.3} ms {growing:>9.3} ms {ratio:>7.3}");
    }
    Ok(())
}

/// The program with this bound.
fn session(body: &str, limit: &str, threads: Option<usize>) -> Result<Session, Error> {
    let text = format!(
        "fn @main(%x: f32[1,1024], %k: f32[]) -> (%y: f32[1,?]) {{
           %one = exp(mul(reduce(%x, kind=max, axes=[0,1], keep=false), 0.0))
           {}
           return %y
         }}",
        body.replace("LIMIT", limit)
    );
    let model = Model::parse("growth", &text)?;
    let options = CompileOptions {
        threads,
        ..Default::default()
    };
    let program = heddle::compile(&model, &options)?;
    match &program.report().interpreted {
        None => Ok(program.session(&RunOptions::default())),
        Some(rest) => Err(format!("it is not compiled whole: {rest:?}").into()),
    }
}

/// The time of a run.
fn run(session: &mut Session) -> Result<Duration, Error> {
    let (x, k) = (0.5f32.to_le_bytes().repeat(1024), STEPS.to_le_bytes());
    let view = |dims, data| ArrayView {
        dtype: DType::F32,
        dims,
        data,
    };
    let mut last = vec![0; 64 << 10];
    let start = Instant::now();
    session.run_into(&[view(&[1, 1024], &x), view(&[], &k)], &mut [&mut last])?;
    Ok(start.elapsed())
}
