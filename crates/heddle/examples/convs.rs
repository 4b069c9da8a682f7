//! Rates of convolutions, against a peak measured in turns on the same cores:
//! `cargo run --release -p heddle --example convs`, all of them, or with words behind `--` those
//! whose names have one of these.
//!
//! Each convolution is a program of its own that computes it in a loop, so that starting a run, and a
//! conversion of its map, do not count. Taps outside of the map are not counted as work.

#[path = "../benches/turns/mod.rs"]
mod turns;

use std::time::Instant;

use heddle::{ArrayView, CompileOptions, DType, Model};
use heddle_runtime::Pool;

use turns::{Error, MULTIPLY_ADDS, Subject, in_turns, multiply_adds};

fn main() -> Result<(), Error> {
    let most = std::thread::available_parallelism()?.get().min(2);
    let words: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |case: &Case| {
        let name = case.name();
        words.is_empty() || words.iter().any(|word| name.contains(word))
    };
    for threads in 1..=most {
        let pool = Pool::shared(threads)?;
        println!("\n{threads} threads");
        println!(
            "{:44} {:>10} {:>9} {:>14}",
            "f32 convolution", "ms", "GFLOP/s", "of peak"
        );
        let mut peak = Subject::new(&pool, &multiply_adds(), &[])?;
        for case in cases().into_iter().filter(wanted) {
            let (time, least) = in_turns(&mut case.subject(threads)?, &mut peak)?;
            let rate = case.flops() / time / 1e9;
            let flops = MULTIPLY_ADDS * threads as f64 / least / 1e9;
            println!(
                "{:44} {:>10.3} {rate:>9.1} {:>6.0}% of {flops:.0}",
                case.name(),
                time * 1e3,
                100.0 * rate / flops
            );
        }
    }
    Ok(())
}

/// A convolution of two spatial axes.
#[derive(Clone, Copy)]
struct Case {
    batch: usize,
    channels: [usize; 2],
    map: [usize; 2],
    kernel: [usize; 2],
    stride: usize,
    pad: [usize; 2],
    groups: usize,
}

/// The shapes of the models that convolutions take most time of.
fn cases() -> Vec<Case> {
    let case = |kernel: usize, channels, map| Case {
        batch: 1,
        channels,
        map: [map, map],
        kernel: [kernel, kernel],
        stride: 1,
        pad: [kernel / 2, kernel / 2],
        groups: 1,
    };
    let strided = |stride, case| Case { stride, ..case };
    let grouped = |groups, case| Case { groups, ..case };
    let speech = |channels, map, stride| Case {
        channels,
        map,
        kernel: [if channels[0] == 1 { 41 } else { 21 }, 11],
        pad: [if channels[0] == 1 { 20 } else { 10 }, 5],
        ..strided(stride, case(1, channels, 1))
    };
    vec![
        case(3, [64, 64], 56),
        case(3, [128, 128], 28),
        case(3, [256, 256], 14),
        case(3, [512, 512], 7),
        case(3, [320, 320], 32),
        Case {
            batch: 64,
            ..case(3, [16, 16], 32)
        },
        grouped(16, case(3, [1024, 1024], 32)),
        grouped(16, case(3, [4096, 4096], 8)),
        grouped(32, case(3, [128, 128], 56)),
        strided(2, case(7, [3, 64], 224)),
        Case {
            pad: [2, 2],
            ..strided(4, case(11, [3, 64], 224))
        },
        speech([1, 32], [161, 100], 2),
        speech([32, 32], [81, 50], 1),
        case(1, [1024, 256], 32),
        case(1, [4096, 1024], 8),
        grouped(32, case(5, [32, 32], 32)),
        strided(2, grouped(64, case(7, [64, 64], 32))),
    ]
}

impl Case {
    fn name(&self) -> String {
        let Case {
            batch,
            channels: [from, to],
            map: [h, w],
            kernel: [kh, kw],
            stride,
            groups,
            ..
        } = self;
        let mut name = format!("{kh}×{kw} {from}→{to}, {h}×{w}");
        let mut add = |what: &str, n: usize| {
            if n > 1 {
                name += &format!(", {what} {n}");
            }
        };
        add("stride", *stride);
        add("groups", *groups);
        add("batch", *batch);
        name
    }

    /// Sizes of the result.
    fn places(&self) -> [usize; 2] {
        [0, 1].map(|i| (self.map[i] + 2 * self.pad[i] - self.kernel[i]) / self.stride + 1)
    }

    /// Operations of the taps that meet the map.
    fn flops(&self) -> f64 {
        let met = [0, 1].map(|i| {
            let taps = (0..self.places()[i]).flat_map(|p| {
                let first = (p * self.stride) as i64 - self.pad[i] as i64;
                (0..self.kernel[i] as i64).map(move |t| first + t)
            });
            taps.filter(|at| (0..self.map[i] as i64).contains(at))
                .count()
        });
        let [from, to] = self.channels;
        2.0 * (self.batch * met[0] * met[1] * from / self.groups * to) as f64
    }

    /// The program: the convolution, as often as an input says.
    fn text(&self) -> String {
        let Case {
            batch,
            channels: [from, to],
            map: [h, w],
            kernel: [kh, kw],
            stride,
            pad: [ph, pw],
            groups,
        } = self;
        // The loop's result is not read, so that it goes to the same place each time.
        format!(
            "fn @main(%times: i64[], %x: f32[{batch},{from},{h},{w}]) -> (%y: f32[]) {{
               %w = const splat 0.5: f32[{to},{},{kh},{kw}]
               %zero = const 0.0: f32[]
               %y = loop trip %times carry (%same: f32[] = %zero) {{
                 %c = conv(%x, %w, [{ph}, {pw}, {ph}, {pw}], strides=[{stride},{stride}], dilations=[1,1], input_dilations=[1,1], groups={groups})
                 continue carry %same
               }}
               return %y
             }}",
            from / groups
        )
    }

    /// The program, ready to run.
    fn subject<'a>(&self, threads: usize) -> Result<Subject<'a>, Error> {
        let model = Model::parse("convolution", &self.text())?;
        let options = CompileOptions {
            // Graph passes would drop the convolution, since nothing reads it.
            optimize: false,
            threads: Some(threads),
            ..Default::default()
        };
        let program = heddle::compile(&model, &options)?;
        let mut session = program.session(&heddle::RunOptions::default());
        let dims = [self.batch, self.channels[0], self.map[0], self.map[1]];
        let data = 0.5f32.to_le_bytes().repeat(dims.iter().product());
        let dims = dims.map(|d| d as i64);
        let mut result = vec![0; 4];
        Subject::of(move |times| {
            let times = times.to_le_bytes();
            let view = |dtype, dims, data| ArrayView { dtype, dims, data };
            let inputs = [
                view(DType::I64, &[], &times),
                view(DType::F32, &dims, &data),
            ];
            let start = Instant::now();
            session.run_into(&inputs, &mut [&mut result])?;
            Ok(start.elapsed())
        })
    }
}
