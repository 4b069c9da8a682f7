//! Transposed convolutions by phases give what convolutions of maps with zeros between their elements give.

use crate::common::{Random, costs, draw_sized, same_but_for_sums};
use heddle_ir::{Module, Op, text, verify::verify};
use heddle_opt::{Edit, Transformation, optimize};

/// A convolution, its figures by axis.
#[derive(Clone, Debug)]
struct Form {
    sizes: Vec<i64>,
    taps: Vec<i64>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    phases: Vec<i64>,
    pads: Vec<i64>,
    groups: i64,
    /// Channels of a group, and its output channels.
    channels: [i64; 2],
    dtype: &'static str,
}

impl Form {
    /// A transposed convolution as importers write it.
    fn transposed([size, taps, phases, dilation, pad, extra]: [i64; 6], rank: usize) -> Self {
        let reach = (taps - 1) * dilation;
        let pads = [vec![reach - pad; rank], vec![reach - pad + extra; rank]].concat();
        Self {
            sizes: vec![size; rank],
            taps: vec![taps; rank],
            strides: vec![1; rank],
            dilations: vec![dilation; rank],
            phases: vec![phases; rank],
            pads,
            groups: 1,
            channels: [2, 3],
            dtype: "f32",
        }
    }

    /// Does the result have places?
    fn has_places(&self) -> bool {
        let rank = self.sizes.len();
        (0..rank).all(|k| {
            let spread = (self.sizes[k] - 1) * self.phases[k] + 1;
            let padded = spread + self.pads[k] + self.pads[rank + k];
            padded > (self.taps[k] - 1) * self.dilations[k]
        })
    }

    fn program(&self, after: &str) -> String {
        let join = |list: &[i64]| {
            let all: Vec<_> = list.iter().map(i64::to_string).collect();
            all.join(",")
        };
        let [own, outputs] = self.channels;
        let dtype = self.dtype;
        let shape = [&[outputs * self.groups, own], &self.taps[..]].concat();
        let mut random = Random(7);
        let is_float = dtype.starts_with('f');
        let weights = (0..shape.iter().product()).map(|_| {
            let least = if dtype.starts_with('u') { 0 } else { -4 };
            let number = random.below(9) as i64 + least;
            match is_float {
                true => format!("{:?}", number as f64 / 4.0),
                false => number.to_string(),
            }
        });
        let weights: Vec<_> = weights.collect();
        let result = vec!["?"; self.sizes.len()].join(",");
        format!(
            "fn @main(%x: {dtype}[n,{},{}]) -> (%y: {dtype}[n,{},{result}]) {{
  %w = const [{}]: {dtype}[{}]
  %c = conv(%x, %w, [{}], strides=[{}], dilations=[{}], input_dilations=[{}], groups={})
{after}  return %y
}}",
            own * self.groups,
            join(&self.sizes),
            outputs * self.groups,
            weights.join(", "),
            join(&shape),
            join(&self.pads),
            join(&self.strides),
            join(&self.dilations),
            join(&self.phases),
            self.groups,
        )
    }
}

const NOTHING: &str = "  %y = add(%c, 0)\n";

/// The program after the pass, which keeps results, and the number of convolutions taken apart.
fn split(program: &str) -> (Module, usize) {
    let before = text::parse(program).unwrap_or_else(|e| panic!("{e}\n{program}"));
    let mut after = before.clone();
    let pass = Transformation::named("split_transposed").expect("a pass");
    let stats = pass.run(&mut after, &costs());
    let check = |after: &Module| {
        let show = || format!("{program}\n{}", text::print(after));
        verify(after).unwrap_or_else(|e| panic!("{}\n{}", e[0], show()));
        for batch in [0, 1, 2] {
            let inputs = draw_sized(&before, batch, 3);
            let same = same_but_for_sums(&before, after, &inputs);
            same.unwrap_or_else(|e| panic!("{e}\n{}", show()));
        }
    };
    check(&after);
    optimize(&mut after);
    check(&after);
    (after, stats.count(Edit::ConvolutionSplit))
}

fn is_split(program: &str) {
    let (module, count) = split(program);
    assert_eq!(count, 1, "{program}");
    module.entry().for_each_inst(&mut |_, inst| {
        if let Op::Conv {
            input_dilations, ..
        } = &inst.op
        {
            assert!(input_dilations.iter().all(|&s| s == 1), "{program}");
        }
    });
}

#[test]
fn one_axis() {
    for size in [1, 2, 3, 5, 7] {
        for taps in 1..=5 {
            for phases in 2..=4 {
                for dilation in 1..=3 {
                    for [pad, extra] in [[0, 0], [1, 0], [1, 1], [2, 1], [3, 0]] {
                        let figures = [size, taps, phases, dilation, pad, extra];
                        let form = Form::transposed(figures, 1);
                        if form.has_places() {
                            is_split(&form.program(NOTHING));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn two_and_three_axes() {
    for size in [1, 2, 3, 5] {
        for taps in 1..=4 {
            for [phases, dilation] in [[2, 1], [2, 2], [3, 1], [3, 2]] {
                for [pad, extra] in [[0, 0], [1, 0], [1, 1]] {
                    for groups in [1, 2] {
                        let figures = [size, taps, phases, dilation, pad, extra];
                        let mut form = Form::transposed(figures, 2);
                        form.groups = groups;
                        if form.has_places() {
                            is_split(&form.program(NOTHING));
                        }
                    }
                }
            }
        }
    }
    for taps in [1, 2, 3, 4] {
        let form = Form::transposed([2, taps, 2, 1, 0, 0], 3);
        is_split(&form.program(NOTHING));
    }
}

/// Axes of which some have no zeros between their elements, and these may have strides.
#[test]
fn axes_that_differ() {
    let mut form = Form::transposed([5, 3, 2, 1, 1, 1], 2);
    form.sizes = vec![7, 4];
    form.taps = vec![3, 2];
    for (phases, strides) in [([1, 2], [2, 1]), ([3, 1], [1, 3]), ([2, 3], [1, 1])] {
        (form.phases, form.strides) = (phases.to_vec(), strides.to_vec());
        is_split(&form.program(NOTHING));
    }
    form.strides = vec![2, 1];
    assert_eq!(split(&form.program(NOTHING)).1, 0);
}

#[test]
fn element_types() {
    for taps in [2, 3, 4] {
        for dtype in ["f64", "i32", "i8", "u8", "i64"] {
            let mut form = Form::transposed([3, taps, 2, 1, 0, 0], 2);
            form.dtype = dtype;
            is_split(&form.program(NOTHING));
        }
    }
}

/// Readers of the result read it from the phases.
#[test]
fn biases_and_activations() {
    let after = "  %b = const [1.5, -2.5, 0.25, 3.0, -1.0, 0.5]: f32[6,1,1]
  %s = const [0.5, 2.0, -1.0, 1.0, 4.0, -0.25]: f32[1,6,1,1]
  %d = add(%c, %b)
  %e = mul(%s, %d)
  %f = max(%e, 0.0)
  %g = transpose(%f, perm=[0,1,3,2])
  %h = add(%f, %f)
  %y = select(gt(%h, 1.0), %h, %g)
";
    for taps in [1, 2, 3, 4] {
        let mut form = Form::transposed([3, taps, 2, 1, 0, 0], 2);
        form.groups = 2;
        is_split(&form.program(after));
    }
}

/// An infinite weight makes NaN of the zeros between elements.
#[test]
fn infinite_weights_stay() {
    let form = Form::transposed([3, 2, 2, 1, 0, 0], 1);
    let program = form.program(NOTHING);
    let first = program.find("const [").expect("weights") + "const [".len();
    let end = first + program[first..].find(',').expect("several weights");
    let program = format!("{}inf{}", &program[..first], &program[end..]);
    assert_eq!(split(&program).1, 0);
}
