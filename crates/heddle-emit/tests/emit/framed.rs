//! Windows that are summed or compared channel by channel: depthwise convolutions and pooling of every attribute give what the
//! interpreter gives, and no element of a window is tested for being inside of its map.

use crate::harness::{Case, drawn_with};
use heddle_runtime::BuildOptions;

/// The shape of a map behind the batch, with its windows: sizes, padding, strides and dilations by axis.
struct Windows {
    map: &'static [usize],
    taps: &'static [usize],
    pads: &'static [usize],
    strides: &'static [usize],
    dilations: &'static [usize],
}

const WINDOWS: [Windows; 14] = [
    // As wide as vectors, wider, narrower; one place, one tap, windows that hardly meet the map.
    windows(&[3, 9, 32], &[3, 3], &[1, 1, 1, 1], &[1, 1], &[1, 1]),
    windows(&[2, 5, 131], &[2, 5], &[0, 2, 1, 2], &[1, 1], &[1, 1]),
    windows(&[5, 7, 7], &[3, 3], &[1, 1, 1, 1], &[1, 1], &[1, 1]),
    windows(&[4, 1, 1], &[3, 3], &[1, 1, 1, 1], &[1, 1], &[1, 1]),
    windows(&[4, 6, 9], &[1, 1], &[0, 1, 0, 0], &[1, 1], &[1, 1]),
    windows(&[3, 2, 3], &[5, 7], &[3, 4, 4, 6], &[1, 1], &[1, 1]),
    // Without padding, and with some that no window reaches.
    windows(&[3, 9, 24], &[3, 5], &[0, 0, 0, 0], &[1, 1], &[1, 1]),
    windows(&[3, 8, 24], &[2, 2], &[0, 0, 0, 0], &[2, 2], &[1, 1]),
    windows(&[2, 10, 21], &[2, 3], &[0, 0, 1, 1], &[3, 4], &[1, 1]),
    // Strides and dilations, also larger than the window.
    windows(&[3, 23, 45], &[7, 7], &[3, 3, 3, 3], &[2, 2], &[1, 1]),
    windows(&[2, 14, 35], &[3, 3], &[1, 2, 3, 5], &[3, 2], &[2, 3]),
    windows(&[2, 9, 50], &[3, 1], &[1, 0, 1, 0], &[1, 3], &[1, 1]),
    // One and three axes.
    windows(&[6, 61], &[9], &[4, 4], &[2], &[1]),
    windows(
        &[2, 4, 5, 19],
        &[3, 2, 3],
        &[1, 0, 1, 1, 1, 1],
        &[1, 2, 1],
        &[1, 1, 1],
    ),
];

const fn windows(
    map: &'static [usize],
    taps: &'static [usize],
    pads: &'static [usize],
    strides: &'static [usize],
    dilations: &'static [usize],
) -> Windows {
    Windows {
        map,
        taps,
        pads,
        strides,
        dilations,
    }
}

fn list(values: &[usize]) -> String {
    let values: Vec<String> = values.iter().map(usize::to_string).collect();
    values.join(",")
}

impl Windows {
    fn places(&self) -> Vec<usize> {
        let axes = self.taps.len();
        let place = |i: usize| {
            let all = self.map[1 + i] + self.pads[i] + self.pads[axes + i];
            (all - 1 - (self.taps[i] - 1) * self.dilations[i]) / self.strides[i] + 1
        };
        (0..axes).map(place).collect()
    }

    /// True if some element is in several windows: others are read where they lie, tested or not.
    fn overlap(&self) -> bool {
        let places = self.places();
        let overlaps = |i: usize| places[i] > 1 && self.taps[i] > self.strides[i];
        (0..places.len()).any(overlaps)
    }

    /// The operator on `%x` with a batch of this size.
    fn text(&self, batch: &str, channels: usize, operator: &str) -> String {
        let (map, taps, places) = (list(self.map), list(self.taps), list(&self.places()));
        format!(
            "fn @main(%x: f32[{batch},{map}], %w: f32[{channels},1,{taps}]) -> (%y: f32[{batch},{channels},{places}]) {{
               {operator}
               return %y
             }}"
        )
    }

    /// A convolution with `more` results for each channel.
    fn depthwise(&self, batch: &str, more: usize) -> String {
        let (groups, ones) = (self.map[0], list(&vec![1; self.taps.len()]));
        let operator = format!(
            "%y = conv(%x, %w, [{}], strides=[{}], dilations=[{}], input_dilations=[{ones}], groups={groups})",
            list(self.pads),
            list(self.strides),
            list(self.dilations),
        );
        self.text(batch, groups * more, &operator)
    }

    fn pooling(&self, batch: &str, kind: &str) -> String {
        let operator = format!(
            "%y = window(%x, [{}], kind={kind}, window=[{}], strides=[{}], dilations=[{}])",
            list(self.pads),
            list(self.taps),
            list(self.strides),
            list(self.dilations),
        );
        self.text(batch, self.map[0], &operator)
    }
}

fn check(name: &str, text: &str, batch: i64) -> String {
    let (module, inputs) = drawn_with(name, text, &|_| batch, 1);
    let case = Case::new(name, module, &inputs).unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
    case.check(name, &BuildOptions::default(), &[1, 2, 5]);
    case.source.text
}

/// The text of the operator that sums or compares, behind the one that lays out its map.
fn reduction(text: &str) -> &str {
    let first = text.find("HEDDLE_OUTLINE").expect("operators");
    let at = first + text[first..].find("sum").expect("a reduction");
    let begin = text[..at].rfind("HEDDLE_OUTLINE").expect("an operator");
    let end = text[at..].find("\n}\n").expect("its end");
    &text[begin..at + end]
}

#[test]
fn depthwise_convolutions() {
    for (i, windows) in WINDOWS.iter().enumerate() {
        for (batch, more) in [(1, 1), (3, 2)] {
            let name = format!("depthwise {i}, batch {batch}, {more} by channel");
            let text = check(&name, &windows.depthwise(&batch.to_string(), more), batch);
            let own = reduction(&text);
            // The last tile is moved back.
            let mut lines = own.lines().filter(|line| !line.contains("= next_"));
            assert!(
                !windows.overlap() || !lines.any(|line| line.contains(" ? ")),
                "{name} tests:\n{own}"
            );
            // Along three axes the result's copy to the output is fused place by place.
            if windows.overlap() && windows.taps.len() < 3 {
                // Tiles take shorter lines than the loops of one line do.
                let many = match windows.places()[..] {
                    [lines, columns] if lines > 1 => columns >= 4,
                    [.., columns] => columns >= 8,
                    [] => false,
                };
                // A single tap of windows that lie apart is read where it lies.
                let apart = windows.taps.last() == Some(&1) && windows.strides.last() != Some(&1);
                let wide = many && !apart;
                let is_wide = own.contains("sum[c] = sum[c] +") || own.contains("sum0 +=");
                assert_eq!(is_wide, wide, "{name}:\n{own}");
            }
        }
    }
}

#[test]
fn pooling() {
    for (i, windows) in WINDOWS.iter().enumerate() {
        for kind in ["max", "min", "sum", "prod"] {
            let name = format!("pooling {i}, {kind}");
            let text = check(&name, &windows.pooling("2", kind), 2);
            let own = reduction(&text);
            assert!(
                !windows.overlap() || !own.contains(" >= 0"),
                "{name} tests:\n{own}"
            );
        }
    }
}

/// The copy of a map in phases has loops of its own for each phase, in which no element is tested.
#[test]
fn phases() {
    for windows in [&WINDOWS[8], &WINDOWS[9], &WINDOWS[10]] {
        let text = check("phases", &windows.depthwise("1", 1), 1);
        let at = text.find("HEDDLE_OUTLINE void op0").expect("a copy");
        let copy = &text[at..][..text[at..].find("\n}\n").expect("its end")];
        let mut elements = copy.lines().filter(|line| line.contains("] = "));
        assert!(elements.all(|line| !line.contains(" ? ")), "{copy}");
        assert!(!copy.contains("heddle_div"), "{copy}");
    }
}

#[test]
fn any_batch() {
    for windows in [&WINDOWS[0], &WINDOWS[9], &WINDOWS[13]] {
        for batch in [0, 1, 3] {
            check("depthwise, any batch", &windows.depthwise("n", 1), batch);
            check("pooling, any batch", &windows.pooling("n", "max"), batch);
        }
    }
}

/// Maps of any size, down to none.
#[test]
fn any_size() {
    let text = "fn @main(%x: f32[2,3,h,w]) -> (%y: f32[2,3,h,w], %z: f32[2,3,?,?]) {
      %v = const splat 0.5: f32[3,1,3,5]
      %y = conv(%x, %v, [1, 2, 1, 2], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=3)
      %z = window(%x, [1, 1, 1, 1], kind=max, window=[3,3], strides=[2,2], dilations=[1,1])
      return %y, %z
    }";
    for size in [0, 1, 2, 7, 16, 33] {
        check("any size", text, size);
    }
}

/// Infinities and what is no number beside the padding.
#[test]
fn padding_is_the_neutral_element() {
    let text = "fn @main(%x: f32[1,1,2,9]) -> (%y: f32[1,1,2,9], %z: f32[1,1,2,9], %s: f32[1,1,2,9]) {
      %low = sub(%x, inf)
      %y = window(%low, [1, 1, 1, 1], kind=max, window=[3,3], strides=[1,1], dilations=[1,1])
      %z = window(mul(%low, 0), [1, 1, 1, 1], kind=min, window=[3,3], strides=[1,1], dilations=[1,1])
      %v = const splat inf: f32[1,1,3,3]
      %s = conv(%x, %v, [1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1)
      return %y, %z, %s
    }";
    check("padding", text, 1);
}
