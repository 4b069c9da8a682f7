//! Convolutions with fewer multiplications: results at odd sizes, rounding errors, and where they are chosen.

use crate::harness::{Case, drawn_with};
use heddle_ir::Datum;
use heddle_machine::Machine;
use heddle_runtime::BuildOptions;
use heddle_runtime::cache::CacheChoice;
use heddle_schedule::{Layouts, Transforms};

/// A 3x3 convolution: channels, height and width of the map, output channels, pads (before, then after), groups.
struct Conv([usize; 3], usize, [usize; 4], usize);

impl Conv {
    fn text(&self, end: &str, weight: impl Fn(usize) -> f64) -> String {
        let Conv([channels, high, wide], to, pads, groups) = *self;
        let per_group = channels / groups;
        let mut numbers = (0..).map(weight);
        let mut list = |count| {
            let numbers: Vec<_> = numbers.by_ref().take(count).collect();
            format!("{numbers:?}")
        };
        let filters = (0..to * per_group).map(|_| {
            let rows: Vec<_> = (0..3).map(|_| list(3)).collect();
            format!("[{}]", rows.join(","))
        });
        let filters: Vec<_> = filters.collect();
        let weights: Vec<_> = filters
            .chunks(per_group)
            .map(|f| format!("[{}]", f.join(",")))
            .collect();
        let [high_out, wide_out] = self.result();
        format!(
            "fn @main(%x: f32[n,{channels},{high},{wide}], %r: f32[n,{to},{high_out},{wide_out}], %b: f32[{to},1,1])
               -> (%y: f32[n,{to},{high_out},{wide_out}]) {{
               %w = const [{}]: f32[{to},{per_group},3,3]
               %c = conv(%x, %w, {pads:?}, strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups={groups})
               %y = {end}
               return %y
             }}",
            weights.join(",")
        )
    }

    fn result(&self) -> [usize; 2] {
        let Conv([_, high, wide], _, pads, _) = *self;
        [high + pads[0] + pads[2] - 2, wide + pads[1] + pads[3] - 2]
    }
}

/// Odd sizes, maps smaller than a tile, as large as one, pads of all kinds, groups, more channels than a panel has columns.
const CONVS: &[Conv] = &[
    Conv([4, 1, 2], 4, [1, 1, 1, 1], 1),
    Conv([3, 3, 5], 5, [0, 0, 0, 0], 1),
    Conv([4, 4, 4], 8, [1, 1, 1, 1], 1),
    Conv([5, 7, 11], 17, [1, 1, 1, 1], 1),
    Conv([8, 13, 6], 4, [0, 2, 1, 0], 1),
    Conv([4, 5, 8], 6, [3, 0, 4, 5], 1),
    Conv([16, 9, 10], 32, [1, 1, 1, 1], 2),
    Conv([12, 8, 8], 12, [1, 0, 1, 0], 3),
];

/// A bias for each channel, which ends before the result is laid out; a residual sum, which ends with it.
const ENDS: [&str; 2] = ["max(add(%c, %b), 0)", "tanh(add(add(%c, %b), %r))"];

fn small(k: usize) -> f64 {
    ((k * 7 % 11) as f64 - 5.0) / 16.0
}

fn transformed(name: &str, text: &str, batch: i64, m: usize) -> Case {
    let (module, inputs) = drawn_with(name, text, &|_| batch, 1);
    let choice = (Layouts::ByPrice, Transforms::Always(m));
    let case = Case::laid_out(name, module, &inputs, choice);
    case.unwrap_or_else(|e| panic!("{name}: {e}\n{text}"))
}

fn is_transformed(case: &Case) -> bool {
    let mut buffers = case.program.buffers.iter();
    buffers.any(|(_, buffer)| buffer.name == "coefficients")
}

#[test]
fn odd_sizes() {
    for (k, conv) in CONVS.iter().enumerate() {
        for (m, end) in [(2, ENDS[k % 2]), (4, ENDS[(k + 1) % 2])] {
            let batch = [0, 1, 3][k % 3];
            let name = format!("conv {k} in tiles of {m}, batch {batch}, {end}");
            let case = transformed(&name, &conv.text(end, small), batch, m);
            assert!(is_transformed(&case), "{name}");
            case.check(&name, &options(), &[1, 2]);
        }
    }
}

fn options() -> BuildOptions {
    BuildOptions {
        cache: CacheChoice::Off,
        optimize: Some(1),
        ..Default::default()
    }
}

/// The largest error of a transformed convolution is at most four times that of plain sums in `f32`.
#[test]
fn errors() {
    let conv = Conv([64, 12, 17], 16, [1, 1, 1, 1], 1);
    let weight = |k: usize| f64::from(((k * 2654435761) % 1000) as f32 / 1000.0 - 0.5);
    let text = conv.text("add(%c, %b)", weight);
    let (module, inputs) = drawn_with("errors", &text, &|_| 2, 5);
    let exact = exact(&conv, &inputs, weight);
    let largest = |transforms| {
        let choice = (Layouts::ByPrice, transforms);
        let case = Case::laid_out("errors", module.clone(), &inputs, choice).expect("a program");
        let results = case.results("errors", &options());
        let results = results[0].as_chunks::<4>().0.iter();
        let errors = results.map(|v| f64::from(f32::from_le_bytes(*v)));
        let errors = errors.zip(&exact).map(|(v, exact)| (v - exact).abs());
        errors.fold(0.0, f64::max)
    };
    let plain = largest(Transforms::Never);
    let tiles = [2, 4].map(|m| largest(Transforms::Always(m)));
    assert!(plain > 0.0, "the sums are rounded");
    assert!(
        tiles.iter().all(|error| *error <= 4.0 * plain),
        "{tiles:?}, and {plain} of plain sums"
    );
}

/// The convolution with a sum for each channel, in `f64`.
fn exact(conv: &Conv, inputs: &[Datum], weight: impl Fn(usize) -> f64) -> Vec<f64> {
    let Conv([channels, high, wide], to, pads, _) = *conv;
    let numbers = |k: usize| match &inputs[k] {
        Datum::Tensor(tensor) => {
            let numbers = tensor.bytes().as_chunks::<4>().0.iter();
            numbers.map(|v| f64::from(f32::from_le_bytes(*v))).collect()
        }
        other => panic!("a tensor, not {other:?}"),
    };
    let [map, bias]: [Vec<f64>; 2] = [0, 2].map(numbers);
    let [high_out, wide_out] = conv.result();
    let mut sums = vec![];
    for (image, o) in
        (0..map.len() / (channels * high * wide)).flat_map(|n| (0..to).map(move |o| (n, o)))
    {
        for (y, x) in (0..high_out).flat_map(|y| (0..wide_out).map(move |x| (y, x))) {
            let mut sum = bias[o];
            for (c, tap) in (0..channels).flat_map(|c| (0..9).map(move |tap| (c, tap))) {
                let (row, column) = (
                    (y + tap / 3).wrapping_sub(pads[0]),
                    (x + tap % 3).wrapping_sub(pads[1]),
                );
                if row < high && column < wide {
                    let w = f64::from(weight((o * channels + c) * 9 + tap) as f32);
                    sum += w * map[((image * channels + c) * high + row) * wide + column];
                }
            }
            sums.push(sum);
        }
    }
    sums
}

/// Convolutions of many channels are transformed, in tiles of four results along an axis; those of few channels are not.
#[test]
fn by_price() {
    let case = |channels| {
        let conv = Conv([channels, 28, 28], channels, [1, 1, 1, 1], 1);
        let (module, inputs) = drawn_with("by price", &conv.text(ENDS[0], small), &|_| 1, 1);
        let machine = Machine::reference_host(2);
        Case::scheduled("by price", module, &inputs, &machine).expect("a program")
    };
    let transformed = [3, 8, 64, 128].map(|channels| is_transformed(&case(channels)));
    assert_eq!(transformed, [false, false, true, true]);
}

/// Between two convolutions the map stays as it is: each is five operators, one lays the input out and one the result.
#[test]
fn no_copies_between_convolutions() {
    let text = "fn @main(%x: f32[1,8,8,8]) -> (%y: f32[1,8,8,8]) {
      %w = const splat 0.125: f32[8,8,3,3]
      %a = conv(%x, %w, [1,1,1,1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1)
      %b = tanh(%a)
      %c = conv(%b, %w, [1,1,1,1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1)
      %y = tanh(%c)
      return %y
    }";
    let case = transformed("a chain", text, 1, 4);
    assert_eq!(case.program.running().len(), 12);
    case.check("a chain", &options(), &[1, 2]);
}
