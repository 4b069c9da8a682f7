//! Transposed convolutions by phases, compiled, against the interpreter's convolution of a map with zeros between its elements.

use crate::harness::{Case, drawn};
use crate::opt_common::{machine, same_but_for_sums};
use heddle_opt::{Edit, TransformOptions, optimize, transform};
use heddle_runtime::BuildOptions;
use heddle_schedule::{Layouts, Transforms};

/// Sizes of the map, its channels and output channels of a group, groups, taps, phases, dilation of the window, padding and output padding.
type Form = (&'static [i64], [i64; 3], [i64; 5]);

const FORMS: [Form; 16] = [
    // Equal windows in all phases; windows that begin one element later in some; one and two taps.
    (&[7, 5], [16, 32, 1], [2, 2, 1, 0, 0]),
    (&[5, 9], [16, 17, 1], [4, 2, 1, 1, 0]),
    (&[6, 13], [17, 16, 1], [3, 2, 1, 1, 1]),
    (&[13], [16, 32, 1], [16, 8, 1, 4, 0]),
    // Few channels, of which the first place is cut off; more than four phases of them.
    (&[9, 8], [16, 3, 1], [4, 2, 1, 1, 0]),
    (&[31], [8, 2, 1], [10, 5, 1, 3, 0]),
    // Results whose size is no multiple of the stride.
    (&[5, 7], [8, 16, 1], [3, 2, 1, 0, 0]),
    (&[3, 5], [4, 16, 1], [5, 3, 1, 1, 1]),
    // Phases without taps; one place; groups, also one for each channel.
    (&[4, 6], [8, 16, 1], [1, 2, 1, 0, 1]),
    (&[3, 2], [3, 5, 1], [2, 4, 1, 0, 2]),
    (&[1, 1], [16, 16, 1], [4, 2, 1, 1, 0]),
    (&[5, 5], [8, 16, 2], [4, 2, 1, 1, 0]),
    (&[7, 14], [1, 1, 16], [2, 2, 1, 0, 0]),
    // Dilations; three axes.
    (&[5, 7], [8, 16, 1], [3, 2, 3, 1, 0]),
    (&[6, 5], [8, 16, 1], [2, 2, 2, 0, 0]),
    (&[3, 2, 5], [4, 16, 1], [2, 2, 1, 0, 0]),
];

/// Different small numbers, whose sums are exact.
fn numbers(shape: &[i64]) -> String {
    let numbers = (1..=shape.iter().product()).map(|k: i64| (k * 7 % 31 - 15) as f64 / 16.0);
    let numbers: Vec<_> = numbers.map(|n| format!("{n:?}")).collect();
    format!("const [{}]: f32[{}]", numbers.join(", "), join(shape))
}

fn join(list: &[i64]) -> String {
    let all: Vec<_> = list.iter().map(i64::to_string).collect();
    all.join(",")
}

/// The convolution with bias and activation, or with those and a convolution of its result.
fn text((sizes, channels, figures): Form, is_read: bool) -> String {
    let rank = sizes.len();
    let [own, outputs, groups] = channels;
    let [taps, phases, dilation, pad, extra] = figures;
    let reach = (taps - 1) * dilation;
    let all = |n: i64| join(&vec![n; rank]);
    let outputs = outputs * groups;
    let (weight, bias) = (vec![taps; rank], vec![1; rank]);
    let (weight, bias) = (
        numbers(&[&[outputs, own], &weight[..]].concat()),
        numbers(&[&[outputs], &bias[..]].concat()),
    );
    let ones = all(1);
    let last = match is_read {
        true => format!(
            "  %v = {}
  %y = conv(%r, %v, [{}], strides=[{ones}], dilations=[{ones}], input_dilations=[{ones}], groups=1)\n",
            numbers(&[&[16, outputs], &vec![3; rank][..]].concat()),
            join(&vec![1; 2 * rank]),
        ),
        false => "  %y = mul(%r, 2.0)\n".into(),
    };
    let of_result = if is_read { 16 } else { outputs };
    let unknown = vec!["?"; rank].join(",");
    format!(
        "fn @main(%x: f32[n,{},{}]) -> (%y: f32[n,{of_result},{unknown}]) {{
  %w = {weight}
  %b = {bias}
  %c = conv(%x, %w, [{},{}], strides=[{ones}], dilations=[{}], input_dilations=[{}], groups={groups})
  %r = max(add(%c, %b), 0.0)
{last}  return %y
}}",
        own * groups,
        join(sizes),
        all(reach - pad),
        all(reach - pad + extra),
        all(dilation),
        all(phases),
    )
}

#[test]
fn every_form() {
    for (k, form) in FORMS.into_iter().enumerate() {
        let is_read = k % 3 == 1;
        let (name, text) = (format!("{form:?}"), text(form, is_read));
        let (mut module, inputs) = drawn(&name, &text, 1 + (k % 2) as i64, k as u64);
        let before = module.clone();
        optimize(&mut module);
        let report = transform(&mut module, &TransformOptions::default(), &machine());
        assert_eq!(report.total().count(Edit::ConvolutionSplit), 1, "{text}");
        same_but_for_sums(&before, &module, &inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
        for layouts in [Layouts::ByPrice, Layouts::ChannelsLast] {
            let choice = (layouts, Transforms::Never);
            let case = Case::laid_out(&name, module.clone(), &inputs, choice);
            let case = case.unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
            case.check(&name, &BuildOptions::default(), &[1, 2]);
        }
    }
}

/// Phases take turns in loops that neither divide nor choose.
#[test]
fn turns_take_no_divisions() {
    for form in [FORMS[0], FORMS[1], FORMS[2], FORMS[3]] {
        let text = text(form, false).replace("f32[n,", "f32[1,");
        let (mut module, inputs) = drawn("turns", &text, 1, 1);
        optimize(&mut module);
        transform(&mut module, &TransformOptions::default(), &machine());
        let case = Case::new("turns", module, &inputs).expect("compiles");
        let own = case.own_text();
        let (_, last) = own
            .rsplit_once("HEDDLE_OUTLINE void op")
            .expect("operators");
        let lines = last.lines().map(str::trim_start);
        let is_index = |line: &&str| line.contains(" = ") && !line.starts_with("for (");
        let turns = lines.take_while(|line| !line.starts_with("HEDDLE_MAIN"));
        let turns: Vec<_> = turns.filter(is_index).collect();
        assert!(!turns.is_empty(), "{own}");
        for line in turns {
            let divides = ["heddle_div", "heddle_mod", " / ", " % ", " ? "];
            let divides = divides.iter().any(|sign| line.contains(sign));
            assert!(!divides, "{line}\n{own}");
        }
    }
}
