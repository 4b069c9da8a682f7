//! Processors: the one that this process runs on, and a fixed one for tests.

mod system;

use std::sync::OnceLock;

use crate::kernel::vector_kernels;
use crate::{
    Arithmetic, Cost, Host, Level, Limits, Machine, Memory, Pieces, Scalar, SharedBy, Streams,
    Syncs,
};

use system::System;

/// A processor, as far as its figures differ from those of others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Processor {
    /// Bytes of a vector register.
    pub vector_bytes: usize,
    /// Bytes that its arithmetic units take at once: Zen 3 and 4 execute vectors of 64 bytes as two halves.
    pub datapath_bytes: usize,
    /// Whether a multiplication and an addition are one instruction.
    pub has_fma: bool,
    /// Bytes of a core's first cache.
    pub l1_bytes: usize,
    /// Bytes of a core's second cache, its share of one that cores share.
    pub l2_bytes: usize,
    /// Bytes of the last cache; `None` if there are only two levels.
    pub l3_bytes: Option<usize>,
    /// Cores that share the last cache.
    pub l3_cores: usize,
    /// True if the last cache is in slices on a mesh of all cores of a socket, which are far from most of them.
    pub has_mesh: bool,
    /// Cores of a socket, which share its memory channels.
    pub socket_cores: usize,
    /// True if some cores are faster than others.
    pub is_uneven: bool,
}

/// The processor of the tests: a Zen 3 server, eight cores to a CCX. Measured on two cores of one (docs/scheduler.md,
/// docs/kernels.md).
const REFERENCE: Processor = Processor {
    vector_bytes: 32,
    datapath_bytes: 32,
    has_fma: true,
    l1_bytes: 32 << 10,
    l2_bytes: 512 << 10,
    l3_bytes: Some(32 << 20),
    l3_cores: 8,
    has_mesh: false,
    socket_cores: 96,
    is_uneven: false,
};

impl Machine {
    /// This computer with so many worker threads, at least one; more threads than it has cores describe a larger computer
    /// of the same cores. Cache sizes and vector width come from the system, with those of [`Machine::reference_host`] where it
    /// does not say; rates are typical of the vector width and not measured.
    pub fn host(threads: usize) -> Self {
        static THIS: OnceLock<Processor> = OnceLock::new();
        let processor = THIS.get_or_init(|| System::read().processor(&REFERENCE));
        processor.machine(format!("host:{}", threads.max(1)), threads.max(1))
    }

    /// A fixed processor with so many worker threads, at least one: the same schedules on every computer.
    pub fn reference_host(threads: usize) -> Self {
        REFERENCE.machine(format!("reference:{}", threads.max(1)), threads.max(1))
    }
}

/// All-core clock of servers from 2019 to 2024 with vectors of at most 32 bytes: 2.6 to 3.7 GHz.
const CLOCK_GHZ: f64 = 3.125;

/// The same with vectors of 64 bytes at full width, for which processors lower it.
const WIDE_CLOCK_GHZ: f64 = 2.6;

/// Bytes per nanosecond of one socket's memory: 8 channels of DDR5-4800 give 307, 12 give 461.
const SOCKET_RATE: f64 = 400.0;

impl Processor {
    fn machine(&self, name: String, threads: usize) -> Machine {
        let group = self.l3_cores.clamp(1, threads.max(1));
        let mut levels = vec![Level::lanes("vector lane", self.vector_bytes / 4)];
        if group < threads {
            levels.push(Level::group("L3 group", group));
        }
        levels.push(Level::all("process", threads));
        Machine {
            name,
            levels,
            memories: self.memories(threads, group),
            arithmetic: self.arithmetic(),
            // Processors fetch ahead within a page. Measured on Zen 3 with runs of 256 to 2048 bytes; rows that are a cache
            // line longer, so that runs meet all sets of a cache, take as long.
            cores: vec![],
            warpgroups: vec![],
            streams: Streams {
                run_bytes: 4096.0,
                short_run: 0.6,
            },
            remote_read_rate: REMOTE_READ_RATE,
            cluster_rate: f64::INFINITY,
            syncs: SYNCS,
            exchange: None,
            pieces: Some(self.pieces()),
            start_ns: 5.0,
            kernels: vector_kernels(self.vector_bytes),
            cluster: None,
            limits: Limits {
                registers: if self.vector_bytes == 32 { 16 } else { 32 },
                on_chip_bytes: self.l2_bytes,
                resident_units: threads,
                lanes: self.vector_bytes / 4,
            },
            host: HOST,
        }
    }

    /// Rates are of reads by one core, measured on Zen 3 and 4: L2 100 to 117, L3 99, memory 27 to 30 GB/s; on an Emerald
    /// Rapids, whose L3 is a mesh: L2 117 to 134, L3 27 to 30, memory 14 to 16. Cores get the rates of private caches and of
    /// the L3 side by side; those of a socket share its memory channels.
    fn memories(&self, threads: usize, group: usize) -> Vec<Memory> {
        let cache = |name, bytes: usize, sharers: usize, unit_rate: f64| Memory {
            name,
            bytes: bytes as f64,
            shared_by: match sharers {
                1 => SharedBy::Unit,
                _ if sharers < threads => SharedBy::Group,
                _ => SharedBy::All,
            },
            unit_rate,
            rate: unit_rate * sharers as f64,
            latency_ns: 0.0,
            keeps: true,
        };
        let mut memories = vec![
            Memory {
                latency_ns: 1.3,
                keeps: false,
                ..cache("L1", self.l1_bytes, 1, 200.0)
            },
            Memory {
                latency_ns: 4.0,
                ..cache("L2", self.l2_bytes, 1, 100.0)
            },
        ];
        memories.extend(self.l3_bytes.map(|bytes| Memory {
            latency_ns: if self.has_mesh { 25.0 } else { 15.0 },
            ..cache("L3", bytes, group, if self.has_mesh { 28.0 } else { 100.0 })
        }));
        let unit_rate = if self.has_mesh { 15.0 } else { 30.0 };
        let sockets = threads.div_ceil(self.socket_cores.max(1));
        memories.push(Memory {
            name: "DRAM",
            bytes: f64::INFINITY,
            shared_by: SharedBy::All,
            unit_rate,
            rate: (unit_rate * threads as f64).min(SOCKET_RATE * sockets as f64),
            latency_ns: 90.0,
            keeps: true,
        });
        memories
    }

    /// A unit that another thread holds up for a time slice of some milliseconds delays the others
    /// by what is left of its share. Taking a piece costs less than a microsecond. Among uneven
    /// cores the slow ones are late each time.
    fn pieces(&self) -> Pieces {
        let piece_ns = 50_000.0;
        Pieces {
            share_ns: if self.is_uneven { 2.0 } else { 4.0 } * piece_ns,
            piece_ns,
            most: 16,
        }
    }

    /// Kernels of contractions keep two FMA units busy. Elementwise code is bound by its loads, stores and address
    /// arithmetic, and does not gain by wider vectors.
    fn arithmetic(&self) -> Vec<(Scalar, Arithmetic)> {
        let clock = match self.datapath_bytes {
            64.. => WIDE_CLOCK_GHZ,
            _ => CLOCK_GHZ,
        };
        let fmas = 2.0 * (self.datapath_bytes / 4) as f64 * clock;
        let fma_ns = if self.has_fma { 1.0 / fmas } else { 2.0 / fmas };
        let transcendental_ns = 0.5 * 32.0 / self.datapath_bytes as f64;
        let words = Arithmetic {
            elementwise_ns: 0.1,
            transcendental_ns,
            fma_ns,
        };
        let doubles = Arithmetic {
            transcendental_ns: 2.0 * transcendental_ns,
            fma_ns: 2.0 * fma_ns,
            ..words
        };
        vec![
            // 16-bit floats are converted when they are loaded and stored.
            (Scalar::float(32), words),
            (Scalar::float(64), doubles),
            (Scalar::int(32), words),
            (Scalar::int(64), doubles),
        ]
    }
}

/// 64 KiB handed to and fro between two threads are read at 7 to 18 on a Xeon, at 59 on a Zen 4 in one sequential run. In
/// programs, whose operators read runs of some hundred bytes and write them again, a Zen 4 comes to 1 to 10.
const REMOTE_READ_RATE: f64 = 10.0;

/// Of two threads, a barrier takes 30 ns when both come at the same moment and 200 ns in programs, where they do not; a wait
/// for one counter half of that. Beyond two threads the figures are estimates: arrivals at one counter follow each other at
/// 20 ns, the time that a cache line takes from core to core of a CCX, and readers of one line at half of that; a line takes
/// about 100 ns to come from another CCX.
const SYNCS: Syncs = Syncs {
    warp_ns: None,
    lanes_ns: None,
    barrier: Cost {
        base_ns: 160.0,
        unit_ns: 20.0,
        group_ns: 100.0,
    },
    one_to_all: Cost {
        base_ns: 80.0,
        unit_ns: 10.0,
        group_ns: 20.0,
    },
    all_to_one: Cost {
        base_ns: 80.0,
        unit_ns: 10.0,
        group_ns: 50.0,
    },
    one_to_one_ns: 100.0,
    cluster_ns: None,
    gather_ns: None,
    resize_ns: Some(10.0),
};

/// Measured on Zen 3: the interpreter on small programs, and parts of programs that the interpreter calls.
pub(crate) const HOST: Host = Host {
    launch_ns: 6_000.0,
    transfer_byte_ns: 0.5,
    wake_ns: 20_000.0,
    instruction_ns: 200.0,
    element_ns: 3.0,
    product_ns: 1.0,
};
