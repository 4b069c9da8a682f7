//! A machine of tiles with memory of their own, in bulk-synchronous steps.

use crate::host::HOST;
use crate::kernel::loops;
use crate::{Arithmetic, Cost, Level, Limits, Machine, Memory, Scalar, SharedBy, Streams, Syncs};

impl Machine {
    /// A bulk-synchronous machine like Graphcore's second IPU: 1,472 tiles of six threads with 624 KiB each, no memory that
    /// tiles share but what streams in from outside. Figures from Graphcore's "Mk2 GC200" product brief (62.5 TFLOP/s of `f32`,
    /// 47.5 TB/s of tile memory, 8 TB/s of exchange, 1.33 GHz) and, for synchronisation (about 150 cycles), Jia et al. 2019,
    /// "Dissecting the Graphcore IPU Architecture via Microbenchmarking". What a tile reads of other tiles comes by the exchange.
    pub fn bsp_tiles() -> Self {
        let words = Arithmetic {
            elementwise_ns: 0.19,
            transcendental_ns: 1.5,
            fma_ns: 0.047,
        };
        let halves = Arithmetic {
            elementwise_ns: 0.095,
            fma_ns: 0.012,
            ..words
        };
        // Doubles are computed in software.
        let doubles = Arithmetic {
            elementwise_ns: 10.0,
            transcendental_ns: 100.0,
            fma_ns: 20.0,
        };
        Machine {
            name: "bsp-tiles".into(),
            levels: vec![Level::lanes("thread", 6), Level::all("processor", 1472)],
            memories: vec![
                Memory {
                    name: "tile",
                    bytes: 624.0 * 1024.0,
                    shared_by: SharedBy::Unit,
                    unit_rate: 32.0,
                    rate: 32.0,
                    latency_ns: 4.5,
                    keeps: true,
                },
                Memory {
                    name: "exchange",
                    bytes: 1472.0 * 624.0 * 1024.0,
                    shared_by: SharedBy::All,
                    unit_rate: 5.4,
                    rate: 8000.0,
                    latency_ns: 100.0,
                    keeps: true,
                },
                Memory {
                    name: "streaming",
                    bytes: f64::INFINITY,
                    shared_by: SharedBy::All,
                    unit_rate: 5.0,
                    rate: 20.0,
                    latency_ns: 1000.0,
                    keeps: true,
                },
            ],
            arithmetic: vec![
                (Scalar::float(16), halves),
                (Scalar::float(32), words),
                (Scalar::float(64), doubles),
                (Scalar::int(32), words),
                (Scalar::int(64), doubles),
            ],
            // A tile reads any word of its memory as fast.
            cores: vec![],
            warpgroups: vec![],
            streams: Streams {
                run_bytes: 8.0,
                short_run: 0.0,
            },
            remote_read_rate: f64::INFINITY,
            cluster_rate: f64::INFINITY,
            syncs: Syncs {
                warp_ns: None,
                lanes_ns: Some(10.0),
                // The hardware knows one barrier, of all tiles.
                barrier: Cost::fixed(115.0),
                one_to_all: Cost::fixed(115.0),
                all_to_one: Cost::fixed(115.0),
                one_to_one_ns: 115.0,
                cluster_ns: None,
                gather_ns: None,
                resize_ns: None,
            },
            exchange: None,
            pieces: None,
            start_ns: 20.0,
            kernels: vec![loops()],
            cluster: None,
            limits: Limits {
                registers: 16,
                on_chip_bytes: 624 << 10,
                resident_units: 1472,
                lanes: 6,
            },
            host: HOST,
        }
    }
}
