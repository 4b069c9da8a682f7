//! Depthwise convolutions and pooling between convolutions that have channels innermost: they read their maps where they lie, cut off at
//! the border, and give what the interpreter gives.

use crate::harness::{Case, drawn_with};
use heddle_runtime::BuildOptions;
use heddle_schedule::{Layouts, Transforms};

/// Height and width of a map, channels, and windows: taps, padding before and behind, strides and dilations by axis.
type Windows = ([usize; 2], usize, [[usize; 2]; 5]);

const WINDOWS: [Windows; 11] = [
    // Vectors of channels, parts of one, and both; one place, one line.
    ([9, 7], 16, [[3, 3], [1, 1], [1, 1], [1, 1], [1, 1]]),
    ([5, 6], 17, [[5, 5], [2, 2], [2, 2], [1, 1], [1, 1]]),
    ([8, 8], 83, [[3, 5], [1, 2], [1, 2], [1, 1], [1, 1]]),
    ([1, 1], 16, [[3, 3], [1, 1], [1, 1], [1, 1], [1, 1]]),
    ([1, 13], 24, [[3, 3], [1, 1], [1, 1], [1, 1], [1, 1]]),
    // Windows larger than the map; padding on one side.
    ([2, 3], 16, [[5, 7], [3, 4], [4, 6], [1, 1], [1, 1]]),
    ([6, 5], 16, [[3, 2], [2, 0], [0, 1], [1, 1], [1, 1]]),
    // Strides, dilations, both, also larger than the window; windows of padding alone.
    ([11, 10], 16, [[3, 3], [1, 1], [1, 1], [2, 2], [1, 1]]),
    ([12, 9], 20, [[7, 5], [3, 2], [3, 3], [2, 3], [1, 1]]),
    ([9, 11], 16, [[3, 3], [2, 3], [2, 3], [1, 1], [2, 3]]),
    ([7, 14], 33, [[2, 3], [5, 4], [4, 5], [3, 2], [2, 3]]),
];

/// Images, and what is done with windows.
const KINDS: [(i64, &str); 6] = [
    (1, "conv"),
    (1, "sum"),
    (2, "conv"),
    (2, "max"),
    (1, "chain"),
    (1, "min"),
];

/// Different small numbers in the order of their places.
fn weights(shape: &[usize]) -> String {
    fn nested(shape: &[usize], next: &mut usize) -> String {
        let Some((&size, rest)) = shape.split_first() else {
            *next += 1;
            return format!("{:?}", (*next * 7 % 31) as f32 / 32.0 - 0.5);
        };
        let parts: Vec<_> = (0..size).map(|_| nested(rest, next)).collect();
        format!("[{}]", parts.join(", "))
    }
    let ty: Vec<_> = shape.iter().map(usize::to_string).collect();
    format!("const {}: f32[{}]", nested(shape, &mut 0), ty.join(","))
}

/// The windows of `kind` between two convolutions of all channels.
fn text(
    ([h, w], channels, [taps, pads, behind, strides, dilations]): Windows,
    batch: i64,
    kind: &str,
) -> String {
    let size = |i: usize, n: usize| {
        (n + pads[i] + behind[i] - (taps[i] - 1) * dilations[i] - 1) / strides[i] + 1
    };
    let [high, wide] = [size(0, h), size(1, w)];
    let attributes = format!("strides={strides:?}, dilations={dilations:?}");
    let pads = format!("[{}, {}, {}, {}]", pads[0], pads[1], behind[0], behind[1]);
    let (first, middle, last) = (
        weights(&[channels, 5, 1, 1]),
        weights(&[channels, 1, taps[0], taps[1]]),
        weights(&[16, channels, 1, 1]),
    );
    let operator = match kind {
        "conv" => {
            format!("conv(%b, %v, {pads}, {attributes}, input_dilations=[1,1], groups={channels})")
        }
        // A step behind it makes a chain.
        "chain" => format!(
            "tanh(conv(%b, %v, {pads}, {attributes}, input_dilations=[1,1], groups={channels}))"
        ),
        kind => format!("window(%b, {pads}, kind={kind}, window={taps:?}, {attributes})"),
    };
    let plain = "[0, 0, 0, 0], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1";
    format!(
        "fn @main(%x: f32[{batch},5,{h},{w}]) -> (%y: f32[{batch},16,{high},{wide}]) {{
           %w = {first}
           %v = {middle}
           %u = {last}
           %b = max(conv(%x, %w, {plain}), 0.0)
           %c = {operator}
           %y = conv(%c, %u, {plain})
           return %y
         }}"
    )
}

#[test]
fn windows_are_cut_off() {
    for (i, windows) in WINDOWS.into_iter().enumerate() {
        for k in [0, 2, 3] {
            let (batch, kind) = KINDS[(i + k) % KINDS.len()];
            let name = format!("{kind} of windows {i}, batch {batch}");
            let text = text(windows, batch, kind);
            let (module, inputs) = drawn_with(&name, &text, &|_| batch, 1);
            let case = Case::laid_out(
                &name,
                module,
                &inputs,
                (Layouts::ChannelsLast, Transforms::Never),
            );
            let case = case.unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
            case.check(&name, &BuildOptions::default(), &[1, 2, 5]);
            let own = case.own_text();
            // A map of one line has one index for the line and the channel.
            let is_map = windows.0.iter().all(|size| *size > 1);
            assert!(
                !is_map || own.contains("low_v"),
                "{name} is not cut off:\n{own}"
            );
        }
    }
}
