//! GPUs as tables.

use crate::host::HOST;
use crate::kernel::loops;
use crate::{
    Arithmetic, Cores, Cost, Exchange, Level, Limits, Machine, Memory, Scalar, SharedBy, Streams,
    Syncs,
};

impl Machine {
    /// NVIDIA H100 SXM5: 132 multiprocessors with one resident block of 256 threads each. Peak figures are from the "NVIDIA
    /// H100 Tensor Core GPU Architecture" white paper: 67 TFLOP/s of `f32`, 3.35 TB/s, 50 MB of L2, 228 KiB of shared memory;
    /// the L2's rate is a public microbenchmark's. Elementwise rates are half of peak, as address arithmetic takes issue
    /// slots.
    pub fn h100() -> Self {
        hopper("h100", 80e9, 3300.0)
    }

    /// NVIDIA H200: an H100 with 141 GB at 4.8 TB/s (NVIDIA H200 data sheet). `h200.json` of this crate has each figure with its
    /// source, under the names that `scripts/gpu_kit` gives to what it measures on a card.
    pub fn h200() -> Self {
        hopper("h200", 141e9, 4800.0)
    }

    /// AMD Instinct MI300X: 304 compute units in 8 XCDs with one resident workgroup of 256 lanes each. Peak figures are from
    /// AMD's data sheet and the CDNA 3 white paper: 163 TFLOP/s of `f32` with dual issue (half of it here), 5.3 TB/s, 192 GB, 4 MB of
    /// L2 for each XCD, 256 MB of Infinity Cache at 17.2 TB/s, 64 KiB of LDS. Barrier costs are estimates: a grid
    /// barrier crosses XCDs by the Infinity Fabric.
    pub fn mi300x() -> Self {
        Machine {
            name: "mi300x".into(),
            levels: vec![
                Level::lanes("work item", 256),
                Level::group("XCD", 38),
                Level::all("grid", 304),
            ],
            memories: vec![
                memory("LDS", 64.0 * KIB, SharedBy::Unit, 270.0, 270.0, 60.0, false),
                memory("L2", 4.0 * MIB, SharedBy::Group, 110.0, 4300.0, 120.0, true),
                memory(
                    "Infinity Cache",
                    256.0 * MIB,
                    SharedBy::All,
                    57.0,
                    17_200.0,
                    220.0,
                    true,
                ),
                memory("HBM", 192e9, SharedBy::All, 45.0, 5300.0, 350.0, true),
            ],
            arithmetic: vec![
                (Scalar::float(16), rates(0.0075, 0.03, 0.0037)),
                (Scalar::float(32), rates(0.0075, 0.03, 0.0037)),
                (Scalar::float(64), rates(0.0075, 0.06, 0.0037)),
                (Scalar::int(32), rates(0.0075, 0.03, 0.0075)),
                (Scalar::int(64), rates(0.0075, 0.06, 0.03)),
            ],
            cores: vec![],
            warpgroups: vec![],
            streams: COALESCED,
            remote_read_rate: f64::INFINITY,
            cluster_rate: f64::INFINITY,
            syncs: Syncs {
                // A wavefront is in lockstep.
                warp_ns: Some(0.0),
                lanes_ns: Some(20.0),
                barrier: Cost {
                    base_ns: 900.0,
                    unit_ns: 4.0,
                    group_ns: 100.0,
                },
                one_to_all: Cost {
                    base_ns: 700.0,
                    unit_ns: 1.0,
                    group_ns: 50.0,
                },
                all_to_one: Cost {
                    base_ns: 600.0,
                    unit_ns: 3.0,
                    group_ns: 50.0,
                },
                one_to_one_ns: 800.0,
                cluster_ns: None,
                // Below a microsecond by public reports, a barrier of ours 2.9.
                gather_ns: Some(900.0),
                resize_ns: None,
            },
            exchange: Some(Exchange {
                warp: 64,
                ..SHUFFLES
            }),
            pieces: None,
            start_ns: 20.0,
            kernels: vec![loops()],
            cluster: None,
            limits: Limits {
                registers: 512,
                on_chip_bytes: 64 << 10,
                resident_units: 304,
                lanes: 1024,
            },
            host: HOST,
        }
    }
}

/// Lanes that read less than a cache line of 128 bytes next to each other share it with nobody.
const COALESCED: Streams = Streams {
    run_bytes: 128.0,
    short_run: 1.0,
};

/// Public microbenchmarks of Hopper: a shuffle takes about 25 cycles, an access to shared memory about 30. A kernel has 48 KiB of shared
/// memory without asking for more; the rest of it holds partial results.
const SHUFFLES: Exchange = Exchange {
    warp: 32,
    shuffle_ns: 14.0,
    shared_ns: 17.0,
    shared_bytes: 24 << 10,
    sector_bytes: 32.0,
};

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;

/// Waits for a counter that another block has written take 0.65 to 0.9 µs by public reports, few or many.
const COUNTER: Cost = Cost {
    base_ns: 684.0,
    unit_ns: 0.5,
    group_ns: 0.0,
};

/// 495 and 989 TFLOP/s without sparsity, by the white paper of [`Machine::h100`].
const CORES: [(Cores, f64); 3] = [
    (Cores::Tf32, 0.000_534),
    (Cores::Bf16, 0.000_267),
    (Cores::F16, 0.000_267),
];

/// The part of it that instructions of one warp reach: 62.9 % on average, measured on an H800 ("Benchmarking and Dissecting the Nvidia
/// Hopper GPU Architecture via Microbenchmarking", arXiv 2402.13499).
const OF_WARPS: f64 = 0.629;

/// Bytes that a multiprocessor stores to others of its cluster in a nanosecond: a guess, a tenth of the rate of its own shared memory, until
/// one is measured.
const CLUSTER_RATE: f64 = 20.0;

/// Barriers of the grid take 1.1 to 2.3 µs by public reports, with three fences; ours has one. That of a cluster takes 0.63.
fn hopper(name: &str, bytes: f64, rate: f64) -> Machine {
    Machine {
        name: name.into(),
        levels: vec![
            Level::lanes("thread", 256),
            // Clusters of more blocks are not portable.
            Level::group("cluster", 8),
            Level::all("grid", 132),
        ],
        memories: vec![
            memory(
                "shared",
                227.0 * KIB,
                SharedBy::Unit,
                225.0,
                225.0,
                17.0,
                false,
            ),
            memory("L2", 50.0 * MIB, SharedBy::All, 60.0, 5500.0, 150.0, true),
            memory("HBM", bytes, SharedBy::All, 60.0, rate, 350.0, true),
        ],
        arithmetic: vec![
            (Scalar::float(16), rates(0.008, 0.032, 0.002)),
            (Scalar::float(32), rates(0.008, 0.032, 0.004)),
            (Scalar::float(64), rates(0.008, 0.128, 0.008)),
            (Scalar::int(32), rates(0.008, 0.032, 0.008)),
            (Scalar::int(64), rates(0.008, 0.064, 0.032)),
        ],
        cores: CORES.map(|(to, ns)| (to, ns / OF_WARPS)).to_vec(),
        warpgroups: CORES.to_vec(),
        streams: COALESCED,
        remote_read_rate: f64::INFINITY,
        cluster_rate: CLUSTER_RATE,
        syncs: Syncs {
            warp_ns: Some(5.0),
            lanes_ns: Some(20.0),
            barrier: Cost {
                base_ns: 704.0,
                unit_ns: 3.0,
                group_ns: 0.0,
            },
            one_to_all: COUNTER,
            all_to_one: COUNTER,
            one_to_one_ns: 700.0,
            cluster_ns: Some(630.0),
            // An estimate: a store and a load by way of the L2, half a look, and the vote of a block's lanes.
            gather_ns: Some(500.0),
            resize_ns: None,
        },
        exchange: Some(SHUFFLES),
        pieces: None,
        start_ns: 20.0,
        kernels: vec![loops()],
        cluster: None,
        limits: Limits {
            registers: 255,
            on_chip_bytes: 227 << 10,
            resident_units: 132,
            lanes: 1024,
        },
        host: HOST,
    }
}

fn memory(
    name: &'static str,
    bytes: f64,
    shared_by: SharedBy,
    unit_rate: f64,
    rate: f64,
    latency_ns: f64,
    keeps: bool,
) -> Memory {
    Memory {
        name,
        bytes,
        shared_by,
        unit_rate,
        rate,
        latency_ns,
        keeps,
    }
}

fn rates(elementwise_ns: f64, transcendental_ns: f64, fma_ns: f64) -> Arithmetic {
    Arithmetic {
        elementwise_ns,
        transcendental_ns,
        fma_ns,
    }
}
