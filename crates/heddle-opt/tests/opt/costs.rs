//! The figures of machines by which transformations decide.

use heddle_machine::Machine;
use heddle_opt::CostModel;

/// The figures of the tests' machine, measured on two cores of a server.
#[test]
fn figures_follow_from_the_machine() {
    let expected = CostModel {
        flops: 200.0,
        weights: 60.0,
        arrays: 80.0,
        step: 100.0,
        chunk: (4 << 20) as f64,
        unknown: 32.0,
        units: 1,
        teams: false,
        streamed: 1,
        tile: 16.0,
        near: (256 << 10) as f64,
        near_all: (1 << 20) as f64,
        near_rate: 180.0,
        frames: None,
        call: 450.0,
        level: 1200.0,
    };
    assert_eq!(CostModel::of(&Machine::reference_host(2)), expected);
    // A larger L2 does not make larger layers worth pipelining.
    let mut large = Machine::reference_host(2);
    large.memories[1].bytes *= 4.0;
    assert_eq!(CostModel::of(&large).near, expected.near);
    let many = CostModel::of(&Machine::reference_host(64));
    assert_eq!(
        (many.flops, many.near),
        (32.0 * expected.flops, expected.near)
    );
    assert_eq!((many.streamed, many.tile), (64, expected.tile));
    assert!(many.weights < 8.0 * expected.weights && many.level > 10.0 * expected.level);
}

#[test]
fn teams_share_the_memory_of_weights() {
    let of = |name| CostModel::of(&Machine::named(name).expect("a machine"));
    assert!(of("h100").teams && of("h100").near > 1e7);
    for name in ["host:3", "reference:64", "mi300x", "bsp-tiles"] {
        assert!(!of(name).teams, "{name}");
    }
}

#[test]
fn figures_of_every_machine_are_finite() {
    for name in ["h100", "h200", "mi300x", "bsp-tiles", "host:3"] {
        let c = CostModel::of(&Machine::named(name).expect("a machine"));
        let figures = [
            c.flops, c.weights, c.arrays, c.step, c.chunk, c.near, c.level,
        ];
        assert!(
            figures.iter().all(|f| f.is_finite() && *f > 0.0),
            "{name}: {c:?}"
        );
    }
}
