//! Random programs of convolutions give what the interpreter gives, with their maps as they are given, with channels innermost wherever
//! that is possible, and as the price decides.
//!
//! `HEDDLE_MAPS` says how many; `HEDDLE_SEED` runs one alone.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::{Case, drawn, random};
use heddle_runtime::BuildOptions;
use heddle_runtime::cache::CacheChoice;
use heddle_schedule::Layouts;

#[test]
fn both_layouts() {
    let (differ, in_place) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let seeds = random::seeds("HEDDLE_MAPS", 24);
    let some = seeds.end - seeds.start > 1;
    let make = |seed| {
        let text = heddle_gen::maps(seed);
        let name = format!("maps {seed}");
        let case = |layouts| {
            let (module, inputs) = drawn(&name, &text, 1 + (seed % 3) as i64, seed);
            Case::laid_out(&name, module, &inputs, layouts)
        };
        let [given, last, priced] =
            [Layouts::Given, Layouts::ChannelsLast, Layouts::ByPrice].map(case);
        Ok([given?, last?, priced?])
    };
    random::check_all(seeds, make, |seed, cases: [Case; 3]| {
        let texts = [0, 1].map(|k| cases[k].own_text().to_string());
        differ.fetch_add((texts[0] != texts[1]).into(), Ordering::Relaxed);
        let is_in_place = texts[1].contains("heddle_block_of_windows");
        in_place.fetch_add(is_in_place.into(), Ordering::Relaxed);
        for case in cases {
            let options = BuildOptions {
                cache: CacheChoice::Off,
                optimize: Some((seed % 2) as u8),
                ..Default::default()
            };
            case.check(&format!("maps {seed}"), &options, &[1, 2]);
        }
    });
    let [differ, in_place] = [differ, in_place].map(AtomicUsize::into_inner);
    assert!(
        !some || differ > 0 && in_place > 0,
        "{differ} programs differ by layout, {in_place} read windows in place"
    );
}
