//! Convolutions of maps with dynamic sizes read their windows where they lie, and give what the interpreter gives for maps of any size.

use crate::harness::{Case, drawn_with};
use heddle_runtime::BuildOptions;
use heddle_schedule::{Layouts, Transforms};

/// Channels, output channels, groups, and windows: taps, padding before and behind, strides and dilations by axis.
type Windows = ([usize; 3], [[usize; 2]; 5]);

const WINDOWS: [Windows; 8] = [
    ([16, 16, 1], [[3, 3], [1, 1], [1, 1], [1, 1], [1, 1]]),
    ([3, 17, 1], [[3, 3], [1, 1], [1, 1], [2, 2], [1, 1]]),
    ([8, 33, 1], [[1, 1], [0, 0], [0, 0], [1, 1], [1, 1]]),
    ([5, 16, 1], [[1, 1], [0, 0], [0, 0], [2, 3], [1, 1]]),
    ([12, 24, 3], [[3, 3], [1, 1], [1, 1], [1, 2], [1, 1]]),
    ([9, 18, 1], [[3, 2], [3, 0], [2, 4], [1, 1], [2, 1]]),
    ([4, 37, 1], [[5, 7], [4, 6], [4, 6], [1, 1], [1, 1]]),
    // Channels whose places lie a line of the cache further apart.
    ([512, 16, 1], [[1, 3], [0, 1], [0, 1], [1, 1], [1, 1]]),
];

/// Height and width of maps: none, one place, one line, primes, whole vectors.
const SIZES: [[i64; 2]; 6] = [[7, 13], [1, 1], [0, 4], [5, 1], [1, 19], [16, 8]];

/// Convolutions in sequence: one of these windows, an activation, one that keeps the sizes, and a sum with what it reads.
fn program(([channels, outputs, groups], windows): Windows) -> String {
    let [taps, before, behind, strides, dilations] = windows;
    let inputs = channels / groups;
    let [[high, wide], [top, left], [bottom, right]] = [taps, before, behind];
    let mut next = 0;
    let weights = nested(&[outputs, inputs, high, wide], &mut next);
    let others = nested(&[outputs, outputs, 3, 3], &mut next);
    let bias = nested(&[outputs, 1, 1], &mut next);
    format!(
        "fn @main(%x: f32[n,{channels},h,w]) -> (%y: f32[n,{outputs},?,?]) {{
           %w = const {weights}: f32[{outputs},{inputs},{high},{wide}]
           %v = const {others}: f32[{outputs},{outputs},3,3]
           %bias = const {bias}: f32[{outputs},1,1]
           %a = conv(%x, %w, [{top}, {left}, {bottom}, {right}], strides={strides:?}, dilations={dilations:?}, input_dilations=[1,1], groups={groups})
           %b = max(add(%a, %bias), 0.0)
           %c = conv(%b, %v, [1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1)
           %y = add(%c, %b)
           return %y
         }}"
    )
}

/// Different small numbers in the order of their places.
fn nested(shape: &[usize], next: &mut usize) -> String {
    let Some((&size, rest)) = shape.split_first() else {
        *next += 1;
        return format!("{:?}", ((*next * 7 % 11) as f64 - 5.0) / 16.0);
    };
    let parts: Vec<String> = (0..size).map(|_| nested(rest, next)).collect();
    format!("[{}]", parts.join(", "))
}

#[test]
fn any_size() {
    let layouts = [Layouts::ByPrice, Layouts::Given, Layouts::ChannelsLast];
    for (k, windows) in WINDOWS.into_iter().enumerate() {
        let text = program(windows);
        for (i, [high, wide]) in SIZES.into_iter().enumerate() {
            let name = format!("dynamic maps {k}, {high} by {wide}");
            // Half of the sizes for each.
            if (i + k) % 2 == 1 {
                continue;
            }
            // Windows that are larger than the map with its padding have no result.
            let [taps, before, behind, _, dilations] = windows.1;
            let reaches = |i: usize, size: i64| {
                size as usize + before[i] + behind[i] > (taps[i] - 1) * dilations[i]
            };
            if !reaches(0, high) || !reaches(1, wide) {
                continue;
            }
            let size = |name: &str| match name {
                "h" => high,
                "w" => wide,
                _ => 1 + (i % 2) as i64,
            };
            let (module, inputs) = drawn_with(&name, &text, &size, i as u64);
            let choice = (layouts[(i + k) % 3], Transforms::ByPrice);
            let case = Case::laid_out(&name, module, &inputs, choice);
            let case = case.unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(
                case.own_text().contains("heddle_block_of_windows"),
                "{name}"
            );
            case.check(&name, &BuildOptions::default(), &[1, 2]);
        }
    }
}
