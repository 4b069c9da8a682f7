//! What the figures must fulfil, whichever machine they are of.

use super::*;

/// Machines that have a name.
fn named() -> Vec<Machine> {
    let processors = [1, 2, 7, 16, 64, 192].map(Machine::reference_host);
    let hosts = [1, 2, 64].map(Machine::host);
    let tables = [
        Machine::h100(),
        Machine::h200(),
        Machine::mi300x(),
        Machine::bsp_tiles(),
    ];
    processors.into_iter().chain(hosts).chain(tables).collect()
}

/// These, and parts of a GPU that launches occupy.
fn all() -> Vec<Machine> {
    let grids = [(1, 1), (4, 64), (1024, 1024)].map(|(u, l)| Machine::h100().with_grid(u, l));
    named().into_iter().chain(grids).collect()
}

#[test]
fn figures_are_sound() {
    for m in all() {
        let name = &m.name;
        assert!(m.units() >= 1 && m.lanes() >= 1, "{name}");
        assert!(m.levels.is_sorted_by_key(|l| l.kind), "{name}");
        assert!(m.limits.resident_units >= m.units() && m.limits.lanes >= m.lanes());
        assert!(
            m.kernels.iter().any(|k| k.family == Family::Loops),
            "{name}"
        );
        assert!(
            m.memories.is_sorted_by(|a, b| a.unit_rate >= b.unit_rate),
            "{name}"
        );
        assert!(
            m.memories.is_sorted_by(|a, b| a.latency_ns < b.latency_ns),
            "{name}"
        );
        assert!(
            m.farthest().keeps && m.farthest().shared_by == SharedBy::All,
            "{name}"
        );
        for memory in &m.memories {
            assert!(
                memory.bytes > 0.0 && memory.rate >= memory.unit_rate,
                "{name}"
            );
        }
        for (_, a) in &m.arithmetic {
            assert!(
                a.fma_ns > 0.0 && a.transcendental_ns > a.elementwise_ns,
                "{name}"
            );
        }
        for units in 2..=m.units() {
            assert!(m.barrier_ns(units) >= m.barrier_ns(units - 1), "{name}");
            assert!(m.barrier_ns(units) >= m.one_to_all_ns(units), "{name}");
            assert!(m.barrier_ns(units) >= m.all_to_one_ns(units), "{name}");
        }
    }
}

#[test]
fn every_machine_is_found_by_its_name() {
    for m in named() {
        assert_eq!(Machine::named(&m.name).as_ref(), Ok(&m));
    }
    assert!(Machine::named("host").is_ok());
    for name in ["", "h101", "host2", "h100:2", ":2"] {
        let error = Machine::named(name).expect_err("no machine");
        assert_eq!(error, NameError::Unknown { name: name.into() });
        assert!(
            error
                .to_string()
                .contains("h200, mi300x, bsp-tiles, host:N"),
            "{error}"
        );
    }
    for count in ["", "0", "two", "4097", "99999999999999999999"] {
        let error = Machine::named(&format!("host:{count}")).expect_err("no number");
        assert!(matches!(error, NameError::Threads { .. }), "{error}");
    }
}

#[test]
fn barriers_grow_with_units_and_memory_is_divided() {
    let ns = |threads| Machine::reference_host(threads).barrier_ns(threads);
    assert_eq!(
        [1, 2, 16, 64, 192].map(ns),
        [200.0, 200.0, 580.0, 2140.0, 6300.0]
    );
    let rate = |threads| {
        let m = Machine::reference_host(threads);
        m.unit_rate(m.farthest(), threads)
    };
    assert_eq!([1, 2, 16, 64].map(rate), [30.0, 30.0, 25.0, 6.25]);
    // Two sockets have twice the memory channels.
    assert_eq!(rate(192), 2.0 * rate(96) / 2.0);
}

#[test]
fn a_working_set_comes_from_where_it_fits() {
    let m = Machine::reference_host(16);
    let name = |own: f64, units| m.memory(own, own * units as f64, units).name;
    let (kib, mib) = (1024.0, 1024.0 * 1024.0);
    // Nothing is expected in the L1 between operators.
    assert_eq!(name(kib, 1), "L2");
    assert_eq!(name(512.0 * kib, 16), "L2");
    assert_eq!(name(4.0 * mib, 16), "L3");
    assert_eq!(name(5.0 * mib, 16), "DRAM");
    assert_eq!(name(30.0 * mib, 1), "L3");
    assert_eq!(name(33.0 * mib, 1), "DRAM");
    // Units that all read the same data need one copy of it in an L3 that they share.
    assert_eq!(m.memory(20.0 * mib, 20.0 * mib, 16).name, "L3");
    assert_eq!(Machine::bsp_tiles().memory(kib, mib, 1024).name, "tile");
    assert_eq!(Machine::h100().memory(kib, mib, 132).name, "L2");
}

#[test]
fn rates_of_types_that_are_not_listed_are_those_of_wider_ones() {
    let m = Machine::reference_host(2);
    assert_eq!(
        m.arithmetic(Scalar::float(16)),
        m.arithmetic(Scalar::float(32))
    );
    assert_eq!(m.arithmetic(Scalar::int(1)), m.arithmetic(Scalar::int(32)));
    assert_eq!(
        m.arithmetic(Scalar::float(128)),
        m.arithmetic(Scalar::float(64))
    );
    assert_eq!(m.arithmetic(Scalar::float(32)).fma_ns, 0.02);
}

#[test]
fn panels_have_a_cache_line_of_columns() {
    let m = Machine::reference_host(2);
    let tiled = m.kernels.iter().find(|k| k.family == Family::OuterProduct);
    let panels = tiled.expect("one").layouts[0];
    assert_eq!(panels.columns(Scalar::float(32)), 16);
    assert_eq!(panels.columns(Scalar::float(64)), 8);
    assert_eq!(Layout::Strided.columns(Scalar::float(32)), 1);
}

#[test]
fn a_given_barrier_scales_waits() {
    let m = Machine::reference_host(16).with_barrier_ns(290.0);
    assert!((m.barrier_ns(16) - 290.0).abs() < 1e-9);
    assert!((m.one_to_all_ns(16) - 130.0).abs() < 1e-9);
    let free = m.with_barrier_ns(0.0);
    assert_eq!((free.barrier_ns(16), free.one_to_all_ns(2)), (0.0, 0.0));
    assert_eq!(free.with_barrier_ns(7.0).barrier_ns(16), 7.0);
}

/// `h200.json` has the figures of the table with their sources, under the names that measured ones get (scripts/gpu_kit).
#[test]
fn h200_has_the_figures_of_its_file() {
    let file: serde_json::Value = serde_json::from_str(include_str!("../h200.json")).unwrap();
    let machine = Machine::h200();
    let (units, syncs) = (machine.units(), &machine.syncs);
    let memory = |name: &str| machine.memories.iter().find(|m| m.name == name).unwrap();
    let table = [
        ("warp_barrier_ns", syncs.warp_ns.unwrap()),
        ("block_barrier_ns", syncs.lanes_ns.unwrap()),
        ("grid_barrier_ns", machine.barrier_ns(units)),
        ("cluster_barrier_8_ns", syncs.cluster_ns.unwrap()),
        ("grid_barrier_flags_ns", syncs.gather_ns.unwrap()),
        ("wait_one_to_one_ns", syncs.one_to_one_ns),
        ("wait_one_to_all_ns", machine.one_to_all_ns(units)),
        ("wait_all_to_one_ns", machine.all_to_one_ns(units)),
        ("shared_gb_s", units as f64 * memory("shared").rate),
        ("l2_gb_s", memory("L2").rate),
        ("l2_unit_gb_s", memory("L2").unit_rate),
        ("hbm_gb_s", memory("HBM").rate),
        ("hbm_unit_gb_s", memory("HBM").unit_rate),
        ("shared_latency_ns", memory("shared").latency_ns),
        ("l2_latency_ns", memory("L2").latency_ns),
        ("hbm_latency_ns", memory("HBM").latency_ns),
    ];
    for (name, value) in table {
        assert_eq!(
            file["figures"][name]["value"].as_f64(),
            Some(value),
            "{name}"
        );
    }
    assert_eq!(file["about"]["multiprocessors"], units);
    assert_eq!(
        file["about"]["shared_bytes_per_block"],
        machine.limits.on_chip_bytes
    );
    for (name, figure) in file["figures"].as_object().unwrap() {
        assert!(
            figure["source"].is_string(),
            "{name} says not where it comes from"
        );
    }
}

#[test]
fn launches_in_clusters_have_whole_ones() {
    let clustered = Machine::h200().in_clusters(8).unwrap();
    assert_eq!(
        (clustered.units(), clustered.clusters()),
        (128, Some((16, 8)))
    );
    let one = Machine::h200().with_grid(8, 256).in_clusters(8).unwrap();
    assert_eq!(one.clusters(), Some((1, 8)));
    assert_eq!(clustered.with_grid(8, 256).clusters(), None);
    for (machine, units) in [
        (Machine::h200(), 1),
        (Machine::h200().with_grid(4, 64), 8),
        (Machine::mi300x(), 8),
        (Machine::reference_host(16), 8),
    ] {
        assert_eq!(machine.in_clusters(units), None);
    }
}
