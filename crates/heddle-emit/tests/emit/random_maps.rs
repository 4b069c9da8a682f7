//! Random programs of convolutions give what the interpreter gives, with their maps as they are given, with channels innermost wherever
//! that is possible, with convolutions transformed in tiles of either size wherever that is possible, and as the price decides.
//!
//! `HEDDLE_MAPS` says how many; `HEDDLE_SEED` runs one alone.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::{Case, drawn, random};
use heddle_runtime::BuildOptions;
use heddle_runtime::cache::CacheChoice;
use heddle_schedule::{Layouts, Transforms};

#[test]
fn every_choice() {
    let counts = [(); 4].map(|()| AtomicUsize::new(0));
    let seeds = random::seeds("HEDDLE_MAPS", 14);
    let some = seeds.end - seeds.start > 1;
    let make = |seed| {
        let text = heddle_gen::maps(seed);
        let name = format!("maps {seed}");
        let case = |choice| {
            let (mut module, inputs) = drawn(&name, &text, 1 + (seed % 3) as i64, seed);
            // Transposed convolutions as they are, or by phases.
            if seed % 2 == 1 {
                heddle_opt::split_transposed(&mut module);
                heddle_opt::optimize(&mut module);
            }
            Case::laid_out(&name, module, &inputs, choice)
        };
        let [given, last, priced, two, four] = [
            (Layouts::Given, Transforms::Never),
            (Layouts::ChannelsLast, Transforms::Never),
            (Layouts::ByPrice, Transforms::ByPrice),
            (Layouts::Given, Transforms::Always(2)),
            (Layouts::ChannelsLast, Transforms::Always(4)),
        ]
        .map(case);
        Ok([given?, last?, priced?, two?, four?])
    };
    random::check_all(seeds, make, |seed, cases: [Case; 5]| {
        let text = |k: usize| cases[k].own_text();
        let found = [
            text(0) != text(1),
            text(1).contains("heddle_block_of_windows"),
            text(0) != text(3),
            text(1) != text(4),
        ];
        for (count, found) in counts.iter().zip(found) {
            count.fetch_add(found.into(), Ordering::Relaxed);
        }
        for case in cases {
            let options = BuildOptions {
                cache: CacheChoice::Off,
                optimize: Some((seed % 2) as u8),
                ..Default::default()
            };
            case.check(&format!("maps {seed}"), &options, &[1, 2]);
        }
    });
    let counts = counts.map(AtomicUsize::into_inner);
    assert!(
        !some || counts.iter().all(|count| *count > 0),
        "programs that differ by layout, read windows in place, have tiles of 2 and of 4: {counts:?}"
    );
}
