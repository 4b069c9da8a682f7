//! Sums over windows in tiles of lines and vectors give what the interpreter gives, for all sizes that leave a part of a tile.

use crate::harness::{Case, drawn_with};
use heddle_runtime::BuildOptions;

/// A map's channels, height and width, groups, output channels, and windows: taps, padding before and behind, strides and dilations by
/// axis.
type Windows = ([usize; 3], usize, usize, [[usize; 2]; 5]);

const WINDOWS: [Windows; 14] = [
    // Lines and columns that are whole tiles, and those that leave some over.
    ([4, 38, 38], 4, 4, [[7, 7], [0, 0], [0, 0], [2, 2], [1, 1]]),
    ([3, 9, 33], 3, 3, [[3, 3], [1, 1], [1, 1], [1, 1], [1, 1]]),
    ([3, 31, 13], 3, 6, [[5, 5], [2, 2], [2, 2], [1, 1], [1, 1]]),
    ([5, 17, 7], 5, 5, [[3, 3], [1, 1], [1, 1], [1, 1], [1, 1]]),
    ([2, 2, 4], 2, 2, [[3, 3], [1, 1], [1, 1], [1, 1], [1, 1]]),
    // Strides, dilations and both; lines whose windows share no element.
    ([3, 23, 29], 3, 3, [[3, 5], [1, 2], [1, 2], [2, 3], [1, 1]]),
    ([2, 19, 21], 2, 2, [[3, 3], [2, 2], [2, 2], [1, 1], [2, 2]]),
    ([2, 25, 27], 2, 2, [[4, 3], [3, 2], [3, 2], [2, 2], [3, 2]]),
    ([2, 25, 27], 2, 2, [[3, 3], [4, 2], [4, 2], [1, 2], [4, 1]]),
    ([2, 21, 22], 2, 2, [[2, 2], [0, 0], [0, 0], [3, 3], [1, 1]]),
    // Padding on one side, a window larger than the map, a tall one.
    ([3, 11, 10], 3, 3, [[3, 4], [2, 0], [0, 3], [1, 1], [1, 1]]),
    ([3, 5, 6], 3, 3, [[9, 7], [4, 3], [4, 3], [1, 1], [1, 1]]),
    (
        [2, 40, 9],
        2,
        2,
        [[21, 3], [10, 1], [10, 1], [1, 1], [1, 1]],
    ),
    // Groups of several channels.
    ([8, 15, 15], 4, 8, [[3, 3], [1, 1], [1, 1], [2, 2], [1, 1]]),
];

/// Windows without tiles: one line, columns that fill no vector.
const WITHOUT: [Windows; 2] = [
    ([3, 1, 33], 3, 3, [[1, 3], [0, 1], [0, 1], [1, 1], [1, 1]]),
    ([3, 33, 3], 3, 3, [[3, 3], [1, 1], [1, 1], [1, 1], [1, 1]]),
];

fn list(values: &[usize]) -> String {
    let values: Vec<String> = values.iter().map(usize::to_string).collect();
    values.join(",")
}

/// A convolution with a bias, or a sum of windows.
fn text(windows: &Windows, dtype: &str, is_conv: bool) -> String {
    let (map, groups, outputs, [taps, before, behind, strides, dilations]) = windows;
    let size = |i: usize| {
        let all = map[1 + i] + before[i] + behind[i];
        (all - (taps[i] - 1) * dilations[i] - 1) / strides[i] + 1
    };
    let sizes = list(&[size(0), size(1)]);
    let pads = list(&[before.as_slice(), behind.as_slice()].concat());
    let attributes = format!("strides={strides:?}, dilations={dilations:?}");
    let (map, channels, taps) = (list(map), map[0], list(taps));
    match is_conv {
        true => format!(
            "fn @main(%x: {dtype}[2,{map}], %w: {dtype}[{outputs},{},{taps}], %b: {dtype}[{outputs},1,1]) -> (%y: {dtype}[2,{outputs},{sizes}]) {{
               %y = add(conv(%x, %w, [{pads}], {attributes}, input_dilations=[1,1], groups={groups}), %b)
               return %y
             }}",
            channels / groups,
        ),
        false => format!(
            "fn @main(%x: {dtype}[2,{map}]) -> (%y: {dtype}[2,{channels},{sizes}]) {{
               %y = window(%x, [{pads}], kind=sum, window=[{taps}], {attributes})
               return %y
             }}"
        ),
    }
}

/// Checks a program, with vectors as this processor has them and with long ones; true if it has tiles.
fn check(name: &str, text: &str, size: i64) -> bool {
    let (module, inputs) = drawn_with(name, text, &|_| size, 1);
    let case = Case::new(name, module, &inputs).unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
    let long = BuildOptions {
        extra_flags: vec!["-DHEDDLE_LONG_VECTORS".into(), "-Wno-psabi".into()],
        ..BuildOptions::default()
    };
    case.check(name, &BuildOptions::default(), &[1, 2, 5]);
    case.check(name, &long, &[2]);
    case.own_text().contains("sum0 +=")
}

#[test]
fn windows_of_any_size() {
    for (i, windows) in WINDOWS.iter().enumerate() {
        for (k, is_conv) in [true, false].into_iter().enumerate() {
            let dtype = ["f32", "f64"][usize::from((i + k) % 4 == 0)];
            let name = format!("windows {i}, {dtype}, convolution: {is_conv}");
            let text = text(windows, dtype, is_conv);
            assert!(check(&name, &text, 1), "{name} has no tiles:\n{text}");
        }
    }
}

#[test]
fn what_has_no_tiles() {
    for windows in &WITHOUT {
        let text = text(windows, "f32", true);
        assert!(!check("without tiles", &text, 1), "has tiles:\n{text}");
    }
    let largest = text(&WINDOWS[1], "f32", false).replace("kind=sum", "kind=max");
    assert!(!check("the largest", &largest, 1), "has tiles:\n{largest}");
}

/// Tiles where the run finds enough lines and columns, else none.
#[test]
fn sizes_of_the_run() {
    let text = "fn @main(%x: f32[2,3,n,n], %w: f32[3,1,3,3], %v: f32[3,1,2,5], %b: f32[3,1,1]) -> (%y: f32[2,3,n,n], %z: f32[2,3,?,?]) {
      %y = add(conv(%x, %w, [1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=3), %b)
      %z = tanh(conv(%x, %v, [1, 2, 1, 2], strides=[2,2], dilations=[1,1], input_dilations=[1,1], groups=3))
      return %y, %z
    }";
    for size in [1, 2, 3, 4, 5, 13, 16, 17, 40] {
        assert!(check("sizes of the run", text, size), "has no tiles");
    }
}
