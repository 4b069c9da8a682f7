//! Convolutions of every attribute give what the interpreter gives.

use crate::harness::{Case, drawn_with};
use heddle_ir::DType;
use heddle_runtime::BuildOptions;
use heddle_uprogram::contract::NARROW;

/// A convolution: the shapes of its map, behind the batch, and of its weights, and its attributes.
struct Conv {
    map: &'static [usize],
    weights: &'static [usize],
    pads: &'static [usize],
    strides: &'static [usize],
    dilations: &'static [usize],
    groups: usize,
}

const CONVS: [Conv; 24] = [
    // Maps of size 1, primes, taps that never meet the map.
    conv(&[16, 7, 7], &[32, 16, 3, 3], &[1, 1, 1, 1], 1),
    conv(&[5, 13, 11], &[17, 5, 3, 3], &[1, 1, 1, 1], 1),
    conv(&[3, 1, 1], &[4, 3, 3, 3], &[1, 1, 1, 1], 1),
    conv(&[4, 2, 3], &[5, 4, 5, 7], &[4, 6, 4, 6], 1),
    conv(&[1, 19, 23], &[37, 1, 5, 5], &[2, 2, 2, 2], 1),
    conv(&[3, 29, 31], &[16, 3, 7, 7], &[3, 3, 3, 3], 1),
    conv(&[3, 1, 17], &[8, 3, 1, 3], &[0, 1, 0, 1], 1),
    // One by one, with and without padding.
    conv(&[67, 5, 9], &[131, 67, 1, 1], &[0, 0, 0, 0], 1),
    conv(&[7, 4, 4], &[33, 7, 1, 1], &[1, 0, 0, 2], 1),
    // Padding on one side, or on all by different sizes.
    conv(&[6, 9, 8], &[64, 6, 2, 4], &[0, 3, 1, 0], 1),
    conv(&[6, 9, 8], &[6, 6, 3, 3], &[2, 0, 1, 3], 1),
    // Groups, with channels that fill no vector.
    conv(&[12, 6, 10], &[24, 4, 3, 3], &[1, 1, 1, 1], 3),
    conv(&[10, 7, 5], &[70, 5, 3, 2], &[1, 0, 1, 1], 2),
    conv(&[64, 5, 5], &[64, 4, 3, 3], &[1, 1, 1, 1], 16),
    // Groups of four channels by long lines, which are plain sums, and by shorter ones.
    conv(&[12, 4, 19], &[12, 4, 3, 3], &[1, 1, 1, 1], 3),
    conv(&[12, 4, 11], &[12, 4, 3, 3], &[1, 1, 1, 1], 3),
    // One and three axes.
    conv(&[4, 37], &[8, 4, 3], &[1, 1], 1),
    conv(&[3, 5], &[21, 3, 9], &[4, 4], 1),
    conv(&[8, 4, 5, 6], &[18, 4, 3, 2, 3], &[1, 0, 1, 1, 1, 1], 2),
    conv(&[3, 1, 7, 3], &[7, 3, 1, 3, 3], &[0, 2, 1, 0, 0, 1], 1),
    // Strides and dilation.
    strided(
        &[3, 23, 20],
        &[16, 3, 7, 7],
        &[3, 3, 3, 3],
        &[2, 2],
        &[1, 1],
        1,
    ),
    strided(
        &[9, 14, 15],
        &[18, 9, 3, 3],
        &[2, 2, 2, 2],
        &[1, 1],
        &[2, 2],
        1,
    ),
    strided(
        &[9, 14, 15],
        &[18, 9, 3, 3],
        &[1, 0, 3, 5],
        &[3, 2],
        &[1, 3],
        1,
    ),
    strided(
        &[8, 11, 17],
        &[24, 4, 3, 3],
        &[1, 1, 1, 1],
        &[2, 3],
        &[2, 1],
        2,
    ),
];

const fn conv(
    map: &'static [usize],
    weights: &'static [usize],
    pads: &'static [usize],
    groups: usize,
) -> Conv {
    strided(map, weights, pads, &[], &[], groups)
}

const fn strided(
    map: &'static [usize],
    weights: &'static [usize],
    pads: &'static [usize],
    strides: &'static [usize],
    dilations: &'static [usize],
    groups: usize,
) -> Conv {
    Conv {
        map,
        weights,
        pads,
        strides,
        dilations,
        groups,
    }
}

impl Conv {
    /// The convolution of `%x` by constants, with an element type and a batch of this size.
    fn text(&self, ty: &str, batch: &str, end: &str) -> String {
        self.text_with(ty, batch, end, &|n| format!("{}", (n * 7 % 11) as i64 - 5))
    }

    /// The same with weights of these values.
    fn text_with(
        &self,
        ty: &str,
        batch: &str,
        end: &str,
        weight: &dyn Fn(usize) -> String,
    ) -> String {
        let list = |values: &[usize]| {
            let values: Vec<String> = values.iter().map(usize::to_string).collect();
            values.join(",")
        };
        let ones = vec![1; self.map.len() - 1];
        let or_ones = |values: &'static [usize]| match values {
            [] => list(&ones),
            _ => list(values),
        };
        let mut next = 0;
        let weights = nested(self.weights, &mut next, weight);
        let (map, shape, pads) = (list(self.map), list(self.weights), list(self.pads));
        let (strides, dilations, ones) =
            (or_ones(self.strides), or_ones(self.dilations), list(&ones));
        let (name, end) = match end {
            "" => ("%y", String::new()),
            end => ("%c", format!("%y = {end}")),
        };
        let result = self.result();
        let result = format!("{ty}[{batch},{}]", list(&result));
        format!(
            "fn @main(%x: {ty}[{batch},{map}], %r: {result}) -> (%y: {result}) {{
               %w = const {weights}: {ty}[{shape}]
               {name} = conv(%x, %w, [{pads}], strides=[{strides}], dilations=[{dilations}], input_dilations=[{ones}], groups={})
               {end}
               return %y
             }}",
            self.groups
        )
    }

    /// Channels and places of the result.
    fn result(&self) -> Vec<usize> {
        let axes = self.map.len() - 1;
        let one = |of: &[usize], i: usize| of.get(i).copied().unwrap_or(1);
        let place = |i: usize| {
            let reach = (self.weights[2 + i] - 1) * one(self.dilations, i);
            let all = self.map[1 + i] + self.pads[i] + self.pads[axes + i];
            (all - 1 - reach) / one(self.strides, i) + 1
        };
        let places = (0..axes).map(place);
        [self.weights[0]].into_iter().chain(places).collect()
    }
}

/// Weights by their number.
fn nested(shape: &[usize], next: &mut usize, weight: &dyn Fn(usize) -> String) -> String {
    let Some((&size, rest)) = shape.split_first() else {
        *next += 1;
        return weight(*next);
    };
    let parts: Vec<String> = (0..size).map(|_| nested(rest, next, weight)).collect();
    format!("[{}]", parts.join(", "))
}

fn check(name: &str, text: &str, batch: i64, workers: &[usize]) -> Case {
    check_with(&BuildOptions::default(), name, text, batch, workers)
}

fn check_with(
    options: &BuildOptions,
    name: &str,
    text: &str,
    batch: i64,
    workers: &[usize],
) -> Case {
    let (module, inputs) = drawn_with(name, text, &|_| batch, 1);
    let case = Case::new(name, module, &inputs).unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
    case.check(name, options, workers);
    case
}

const RELU: &str = "max(add(%c, %r), 0)";

/// True if each of a program's convolutions reads its windows where they lie.
fn reads_in_place(case: &Case) -> bool {
    let text = &case.source.text;
    text.contains("heddle_block_of_windows_") && !text.contains("heddle_block(depth)")
}

/// Checks each convolution, with this after it.
fn every_attribute(batch: i64, end: &str) {
    for (i, conv) in CONVS.iter().enumerate() {
        let name = format!("convolution {i}, batch {batch}");
        let text = conv.text("f32", &batch.to_string(), end);
        let case = check(&name, &text, batch, &[1, 2, 5]);
        // Runs of one or two elements are not worth it, one tap is a plain product, and one place a plain sum.
        let by_tap = conv.dilations.last().is_some_and(|&d| d > 1) || conv.groups > 1;
        let last = conv.weights[conv.weights.len() - 1];
        let taps = match by_tap || conv.map.len() == 2 {
            true => 1,
            false => last,
        };
        let single = conv.result()[1..].iter().all(|&places| places == 1);
        let one_tap = conv.weights[2..].iter().all(|&taps| taps == 1);
        let per_group = conv.weights[0] / conv.groups;
        let by_lines = conv.groups > 1 && per_group <= 8 && conv.result().last() >= Some(&12);
        let worth = conv.weights[1] * taps >= 3 && !single && !one_tap && !by_lines;
        assert_eq!(reads_in_place(&case), worth, "{name}");
    }
}

#[test]
fn every_attribute_of_an_image() {
    every_attribute(1, "");
}

#[test]
fn every_attribute_of_a_batch_with_an_epilogue() {
    every_attribute(3, RELU);
}

/// Vectors of 64 bytes, each of which is a panel's row, whatever this processor has.
#[test]
fn long_vectors() {
    let options = BuildOptions {
        extra_flags: vec!["-DHEDDLE_LONG_VECTORS".into(), "-Wno-psabi".into()],
        ..Default::default()
    };
    for (i, conv) in CONVS.iter().enumerate() {
        let text = conv.text("f32", "2", RELU);
        let name = format!("convolution {i} by long vectors");
        check_with(&options, &name, &text, 2, &[1, 2]);
    }
}

/// Convolutions that are built with weights in fewer bytes: runs that begin and end within rows of the panels, a single channel,
/// groups, columns that fill no panel, one and three axes, strides and dilation.
const NARROWED: [usize; 12] = [0, 3, 12, 4, 1, 13, 9, 17, 19, 21, 22, 23];

/// Weights in fewer bytes: each convolution in one type, and those that are built by vectors of this processor or of 64 bytes, in
/// turn.
#[test]
fn weights_in_fewer_bytes() {
    let weight = |n: usize| format!("{:?}", (n * 7919 % 1009) as f32 / 517.0 - 0.9);
    let narrowed = |i: usize, stored: DType| {
        let conv = &CONVS[i];
        let name = format!("convolution {i} in {stored}");
        let text = conv.text_with("f32", "2", RELU, &weight);
        let (module, inputs) = drawn_with(&name, &text, &|_| 2, 1);
        let case = Case::narrowed(&name, module, &inputs, stored);
        let case = case.unwrap_or_else(|e| panic!("{name}: {e}"));
        let kernel = format!("heddle_block_of_windows_f32_{stored}(tiles");
        let fires = case.source.text.contains(&kernel);
        let channels = conv.weights[0] / conv.groups;
        assert_eq!(fires, reads_in_place(&case) && channels >= 4, "{name}");
        (name, fires, case)
    };
    let long = BuildOptions {
        extra_flags: vec!["-DHEDDLE_LONG_VECTORS".into(), "-Wno-psabi".into()],
        ..Default::default()
    };
    for (turn, i) in NARROWED.into_iter().enumerate() {
        let (name, fires, case) = narrowed(i, NARROW[turn % 3]);
        assert!(fires, "{name} has wide weights");
        match turn % 2 {
            0 => case.check(&name, &BuildOptions::default(), &[1, 2]),
            _ => case.check(&format!("{name} by long vectors"), &long, &[1, 2]),
        }
    }
    for i in (0..CONVS.len()).filter(|i| !NARROWED.contains(i)) {
        narrowed(i, NARROW[i % 3]);
    }
}

/// A map of as many images as data says, of which a product keeps the layout, and one that a loop lets grow.
#[test]
fn images_that_the_run_counts() {
    let attributes =
        "[1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1";
    let counted = format!(
        "fn @main(%x: f32[6,4,5,5], %m: bool[6]) -> (%y: f32[?,8,5,5], %z: f32[?,3]) {{
           %w = const splat 0.125: f32[8,4,3,3]
           %k = const splat 0.25: f32[100,3]
           %places = reshape(nonzero(%m), [-1])
           %g = tanh(gather(%x, %places, axis=0))
           %y = conv(%g, %w, {attributes})
           %z = dot(reshape(%g, [-1, 100]), %k)
           return %y, %z
         }}"
    );
    check("counted images", &counted, 1, &[1, 2, 5]);
    let grown = format!(
        "fn @main(%x: f32[1,4,5,5]) -> (%y: f32[?,4,5,5], %n: f32[]) {{
           %w = const splat 0.125: f32[4,4,3,3]
           %one = const 1.0: f32[]
           %y, %n = loop %i while const true carry (%a: f32[?,4,5,5] = %x, %c: f32[] = 0.0) {{
             %b = conv(%a, %w, {attributes})
             continue while lt(%c, 3.0) carry concat(%b, %x, axis=0), add(%c, %one)
           }}
           return %y, %n
         }}"
    );
    check("images that grow", &grown, 1, &[1, 2]);
}

/// An element of a map says which one of it is read: the map keeps its layout.
#[test]
fn indices_from_the_map_itself() {
    let attributes =
        "[1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1";
    let text = format!(
        "fn @main(%x: i64[1,4,5,5]) -> (%y: i64[1,4,5,5]) {{
           %w = const splat 1: i64[4,4,3,3]
           %m = mod(conv(%x, %w, {attributes}), 5)
           %i = reshape(slice(%m, [0, 1, 2, 0], [1, 2, 3, 5], [1, 1, 1, 1], axes=[0, 1, 2, 3]), [5])
           %y = add(gather(%m, %i, axis=3), conv(%m, %w, {attributes}))
           return %y
         }}"
    );
    check("indices from the map", &text, 1, &[1, 2, 5]);
}

/// A network: a residual block, pooling with padding, groups, and a product of what is left, whose
/// maps lie between convolutions and elsewhere.
const NETWORK: &str = "fn @main(%x: f32[n,3,13,11], %b: f32[8,1,1]) -> (%y: f32[n,5], %last: f32[n,8,7,6]) {
  %w = const splat 0.25: f32[8,3,3,3]
  %v = const splat 0.125: f32[8,8,3,3]
  %g = const splat 0.5: f32[8,4,1,1]
  %m = const splat 0.0625: f32[336,5]
  %a = max(add(conv(%x, %w, [1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1), %b), 0)
  %c = conv(%a, %v, [1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1)
  %d = max(add(%c, %a), 0)
  %p = window(%d, [1, 1, 1, 1], kind=max, window=[3,3], strides=[2,2], dilations=[1,1])
  %e = conv(%p, %g, [0, 0, 0, 0], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=2)
  %last = sub(conv(tanh(%e), %v, [1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1), %p)
  %y = dot(reshape(%last, [-1, 336]), %m)
  return %y, %last
}";

#[test]
fn networks() {
    for batch in [0, 1, 2, 5] {
        check("a network", NETWORK, batch, &[1, 2, 5]);
        let text = NETWORK.replace("[n,", &format!("[{batch},"));
        check("a network", &text, batch, &[1, 2, 5]);
    }
}

/// Convolutions of one place around one of nine: products of the places of a map with its channels innermost. 512 channels lie in
/// places with a line more. What a block adds is read as it lies, too.
const BOTTLENECK: &str = "fn @main(%x: f32[n,3,9,7]) -> (%y: f32[n,512,9,7], %z: f32[n,48,5,4], %s: f32[n,512]) {
  %w0 = const splat 0.25: f32[16,3,3,3]
  %w1 = const splat 0.125: f32[512,16,1,1]
  %w2 = const splat 0.0625: f32[512,16,3,3]
  %w3 = const splat 0.03125: f32[16,512,1,1]
  %w4 = const splat 0.5: f32[48,16,1,1]
  %a = max(conv(%x, %w0, [1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1), 0)
  %b = max(conv(%a, %w1, [0, 0, 0, 0], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1), -1)
  %c = max(conv(%b, %w2, [1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=32), 0)
  %d = max(add(conv(%c, %w3, [0, 0, 0, 0], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1), %a), 0)
  %z = conv(%d, %w4, [0, 0, 0, 0], strides=[2,2], dilations=[1,1], input_dilations=[1,1], groups=1)
  %y = conv(%d, %w1, [0, 0, 0, 0], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1)
  %s = reduce(sub(%y, %b), kind=sum, axes=[2,3], keep=false)
  return %y, %z, %s
}";

#[test]
fn places_of_laid_out_maps() {
    for batch in [0, 1, 3] {
        check("a bottleneck", BOTTLENECK, batch, &[1, 2, 5]);
        let text = BOTTLENECK.replace("[n,", &format!("[{batch},"));
        let case = check("a bottleneck", &text, batch, &[1, 2, 5]);
        if batch > 0 {
            // No kernel packs a map.
            let text = case.own_text();
            assert!(!text.contains("heddle_pack_"), "{text}");
        }
    }
}

/// A map that a loop carries and changes in an arm: its copies are made anew.
const LOOP: &str = "fn @main(%x: f32[1,4,5,5], %t: i64[]) -> (%y: f32[1,4,5,5]) {
  %w = const splat 0.125: f32[4,4,3,3]
  %k = conv(%x, %w, [1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1)
  %y = loop %i trip 3 carry (%a: f32[1,4,5,5] = %k) {
    %c = conv(%a, %w, [1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1)
    %f = conv(%x, %w, [1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1)
    %d = if eq(%i, 1) {
      yield tanh(conv(add(%c, %a), %w, [1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1))
    } else {
      yield add(%c, %f)
    }
    continue carry %d
  }
  return %y
}";

#[test]
fn loops_and_arms() {
    check("a loop", LOOP, 1, &[1, 2, 5]);
}

#[test]
fn any_batch() {
    for conv in [&CONVS[0], &CONVS[11], &CONVS[22]] {
        for batch in [0, 1, 3] {
            check("any batch", &conv.text("f32", "n", RELU), batch, &[1, 2, 5]);
        }
    }
}

#[test]
fn every_type() {
    for ty in ["f64", "i32", "i64", "u32"] {
        for conv in [&CONVS[1], &CONVS[12], &CONVS[18]] {
            let text = conv.text(ty, "2", "");
            let signed = !ty.starts_with('u');
            let text = match signed {
                true => text,
                false => text.replace(", -", ", ").replace("[-", "["),
            };
            check(ty, &text, 2, &[2]);
        }
    }
}

/// A part of a map, and maps side by side, are copied so that windows are read in place.
#[test]
fn parts_and_wholes_of_maps() {
    let conv = "conv(%m, %w, [1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1)";
    for map in [
        "slice(%x, [3], [11], [1], axes=[1])",
        "slice(%x, [0, 1], [8, 8], [1, 1], axes=[1, 3])",
        "concat(slice(%x, [0], [3], [1], axes=[1]), slice(%x, [7], [12], [1], axes=[1]), axis=1)",
    ] {
        let columns = if map.contains("axes=[1, 3]") { 7 } else { 9 };
        let text = format!(
            "fn @main(%x: f32[2,12,9,9]) -> (%y: f32[2,16,9,{columns}]) {{
               %w = const splat 0.125: f32[16,8,3,3]
               %m = {map}
               %y = {conv}
               return %y
             }}"
        );
        let case = check(map, &text, 2, &[1, 2]);
        assert!(reads_in_place(&case), "{map}");
    }
}

/// A map that is made larger is computed once for each of its elements, not for those of the larger one.
#[test]
fn maps_that_are_made_larger() {
    let text = "fn @main(%x: f32[1,4,6,7]) -> (%y: f32[1,4,12,14]) {
      %rows = const [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]: i64[12]
      %columns = const [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]: i64[14]
      %t = tanh(%x)
      %d = gather(%t, %rows, axis=2)
      %y = gather(%d, %columns, axis=3)
      return %y
    }";
    let case = check("larger", text, 1, &[1, 2, 5]);
    let text = case.own_text();
    let at = text.find("heddle_tanh_f32(").expect("a tanh");
    let end = at + text[at..].find("\n}\n").expect("its operator's end");
    assert!(!text[..end].contains("heddle_at("), "{text}");
}

/// A map whose indices are checked is put into memory, so that windows are read in place.
#[test]
fn windows_of_maps_that_are_made_larger() {
    let text = "fn @main(%x: f32[n,5,6,7], %rows: i64[12], %columns: i64[14]) -> (%y: f32[n,17,12,14]) {
      %w = const splat 0.125: f32[17,5,3,3]
      %i = min(max(%rows, 0), 5)
      %j = min(max(%columns, 0), 6)
      %d = gather(gather(%x, %i, axis=2), %j, axis=3)
      %y = conv(%d, %w, [1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1)
      return %y
    }";
    for batch in [0, 1, 3] {
        let case = check("windows of a larger map", text, batch, &[1, 2, 5]);
        assert!(reads_in_place(&case), "{}", case.source.text);
    }
}
