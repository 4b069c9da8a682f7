//! Cache sizes and vector width of this computer, as the system states them.

use std::fs;
use std::path::Path;

use super::Processor;

/// Facts about this computer; what the system does not say is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct System {
    caches: Vec<Cache>,
    /// Logical processors of a core.
    threads_per_core: Option<usize>,
    /// Logical processors of a socket.
    socket_cpus: Option<usize>,
    /// Logical processors of the computer.
    cpus: Option<usize>,
    /// The lowest speed of a core, and the highest, in some unit.
    speeds: Option<(u64, u64)>,
    vectors: Vectors,
    is_intel: bool,
}

/// A cache for data of the first core.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cache {
    level: usize,
    bytes: usize,
    /// Logical processors that share it.
    shared_by: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Vectors {
    bytes: usize,
    datapath_bytes: usize,
    has_fma: bool,
}

/// A virtual machine states the last cache of a whole socket, most of which others use: no core counts on more than this.
const MOST_L3_PER_CORE: usize = 16 << 20;

/// Cores of an L3 group where a virtual machine shows only its own.
const TYPICAL_GROUP: usize = 8;

/// Intel's servers have a mesh since Skylake, which came with second caches of 1 MiB or more and vectors of 64 bytes. Its cores for other
/// computers have a ring, and no such vectors since their second caches grew.
const MESH_L2: usize = 1 << 20;

/// Cores of one kind may differ by this factor in their highest clocks.
const EVEN: f64 = 0.9;

impl System {
    /// Asks the system.
    pub fn read() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            vectors: vectors(&cpuinfo),
            is_intel: field(&cpuinfo, "vendor_id") == Some("GenuineIntel"),
            ..Self::under(Path::new("/sys/devices/system/cpu"))
        }
    }

    /// Reads Linux's folder of processors.
    fn under(cpus: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(cpus.join(path)).ok();
        let count = |path: &str| read(path).as_deref().and_then(count_cpus);
        let cache = |index: usize| {
            let read = |file: &str| read(&format!("cpu0/cache/index{index}/{file}"));
            let is_data = read("type")?.trim() != "Instruction";
            let cache = Cache {
                level: read("level")?.trim().parse().ok()?,
                bytes: parse_size(&read("size")?)?,
                shared_by: count_cpus(&read("shared_cpu_list")?)?,
            };
            is_data.then_some(cache)
        };
        Self {
            caches: (0..8).filter_map(cache).collect(),
            threads_per_core: count("cpu0/topology/thread_siblings_list"),
            socket_cpus: count("cpu0/topology/core_siblings_list"),
            cpus: count("online"),
            speeds: speeds(cpus),
            vectors: Vectors::default(),
            is_intel: false,
        }
    }

    /// The processor; what is not known is as in another one.
    pub fn processor(&self, other: &Processor) -> Processor {
        let per_core = self.threads_per_core.unwrap_or(1);
        let cores = |cpus: usize| (cpus / per_core).max(1);
        let of_core = |level: usize| {
            let cache = self.caches.iter().find(|c| c.level == level)?;
            Some(cache.bytes / cores(cache.shared_by))
        };
        let l3 = self.caches.iter().find(|c| c.level == 3);
        let shows_part = |cpus: usize| Some(cpus) == self.cpus;
        let group = |shared: usize| match shows_part(shared) {
            true => cores(shared).max(TYPICAL_GROUP),
            false => cores(shared),
        };
        let socket = self.socket_cpus.filter(|&cpus| !shows_part(cpus));
        let vectors = match self.vectors.bytes {
            0 => Vectors {
                bytes: other.vector_bytes,
                datapath_bytes: other.datapath_bytes,
                has_fma: other.has_fma,
            },
            _ => self.vectors,
        };
        Processor {
            vector_bytes: vectors.bytes,
            datapath_bytes: vectors.datapath_bytes,
            has_fma: vectors.has_fma,
            l1_bytes: of_core(1).unwrap_or(other.l1_bytes),
            l2_bytes: of_core(2).unwrap_or(other.l2_bytes),
            l3_bytes: match l3 {
                Some(c) => Some(c.bytes.min(MOST_L3_PER_CORE * cores(c.shared_by))),
                None if self.caches.is_empty() => other.l3_bytes,
                None => None,
            },
            l3_cores: l3.map_or(other.l3_cores, |c| group(c.shared_by)),
            has_mesh: self.is_intel && vectors.bytes == 64 && of_core(2) >= Some(MESH_L2),
            socket_cores: socket.map_or(other.socket_cores, cores),
            is_uneven: self.speeds.map_or(other.is_uneven, |(least, most)| {
                (least as f64) < EVEN * most as f64
            }),
        }
    }
}

/// The lowest and the highest speed of all cores: their capacities where the system states those,
/// else their highest clocks.
fn speeds(cpus: &Path) -> Option<(u64, u64)> {
    let of_all = |file: &str| {
        let entries = fs::read_dir(cpus).ok()?.flatten();
        let speeds = entries.filter_map(|cpu| {
            let name = cpu.file_name();
            let number = name.to_str()?.strip_prefix("cpu")?;
            number.parse::<usize>().ok()?;
            let text = fs::read_to_string(cpu.path().join(file)).ok()?;
            text.trim().parse::<u64>().ok()
        });
        let range = |all: Option<(u64, u64)>, speed| {
            let (least, most) = all.unwrap_or((speed, speed));
            Some((least.min(speed), most.max(speed)))
        };
        speeds.fold(None, range)
    };
    of_all("cpu_capacity").or_else(|| of_all("cpufreq/cpuinfo_max_freq"))
}

/// `48K`, `2M` or a number of bytes.
fn parse_size(text: &str) -> Option<usize> {
    let text = text.trim();
    let (digits, unit) = match text.strip_suffix('K') {
        Some(digits) => (digits, 1 << 10),
        None => match text.strip_suffix('M') {
            Some(digits) => (digits, 1 << 20),
            None => (text, 1),
        },
    };
    let count: usize = digits.parse().ok()?;
    count.checked_mul(unit).filter(|&bytes| bytes > 0)
}

/// The processors of a list such as `0-3,8-11`.
fn count_cpus(list: &str) -> Option<usize> {
    let ranges = list.trim().split(',');
    let count = |range: &str| -> Option<usize> {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    ranges.map(count).sum()
}

#[cfg(target_arch = "x86_64")]
fn vectors(cpuinfo: &str) -> Vectors {
    let bytes = match () {
        () if std::is_x86_feature_detected!("avx512f") => 64,
        () if std::is_x86_feature_detected!("avx") => 32,
        () => 16,
    };
    Vectors {
        bytes,
        datapath_bytes: if has_halves(cpuinfo) {
            bytes.min(32)
        } else {
            bytes
        },
        has_fma: std::is_x86_feature_detected!("fma"),
    }
}

#[cfg(target_arch = "aarch64")]
fn vectors(_: &str) -> Vectors {
    // Cores with two NEON units are rare among servers: four take as much at once as two of 32 bytes.
    Vectors {
        bytes: 16,
        datapath_bytes: 32,
        has_fma: true,
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn vectors(_: &str) -> Vectors {
    Vectors::default()
}

/// Does the processor execute vectors of 64 bytes as two halves? AMD's did before family 26 (Zen 5).
#[cfg(target_arch = "x86_64")]
fn has_halves(cpuinfo: &str) -> bool {
    let family = field(cpuinfo, "cpu family").and_then(|f| f.parse().ok());
    field(cpuinfo, "vendor_id") == Some("AuthenticAMD") && family.unwrap_or(0) < 26
}

/// Linux's statement about the first core under a name.
fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    let line = cpuinfo.lines().find(|l| l.starts_with(name))?;
    line.split(':').nth(1).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::super::REFERENCE;
    use super::*;

    /// A folder as Linux shows it on one CCX of a Zen 3 with two threads to a core.
    fn zen() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("can be written");
        };
        let caches = [
            (1, "Data", "32K", "0,64"),
            (1, "Instruction", "32K", "0,64"),
            (2, "Unified", "512K", "0,64"),
            (3, "Unified", "32768K", "0-7,64-71"),
        ];
        for (i, (level, kind, size, shared)) in caches.into_iter().enumerate() {
            let file = |name: &str| format!("cpu0/cache/index{i}/{name}");
            write(&file("level"), &format!("{level}\n"));
            write(&file("type"), &format!("{kind}\n"));
            write(&file("size"), &format!("{size}\n"));
            write(&file("shared_cpu_list"), &format!("{shared}\n"));
        }
        write("cpu0/topology/thread_siblings_list", "0,64\n");
        write("cpu0/topology/core_siblings_list", "0-31,64-95\n");
        write("online", "0-127\n");
        folder
    }

    #[test]
    fn caches_are_those_of_the_system() {
        let folder = zen();
        let processor = System::under(folder.path()).processor(&REFERENCE);
        let expected = Processor {
            socket_cores: 32,
            ..REFERENCE
        };
        assert_eq!(processor, expected);
    }

    #[test]
    fn cores_of_different_speeds_are_noticed() {
        let folder = zen();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("can be written");
        };
        let is_uneven = || System::under(folder.path()).processor(&REFERENCE).is_uneven;
        assert!(!is_uneven());
        write("cpu0/cpufreq/cpuinfo_max_freq", "3400000\n");
        write("cpu1/cpufreq/cpuinfo_max_freq", "3500000\n");
        assert!(!is_uneven());
        write("cpu10/cpufreq/cpuinfo_max_freq", "2400000\n");
        assert!(is_uneven());
        write("cpu0/cpu_capacity", "1024\n");
        assert!(!is_uneven());
        write("cpu1/cpu_capacity", "446\n");
        assert!(is_uneven());
    }

    #[test]
    fn what_is_not_stated_is_typical() {
        let empty = tempfile::tempdir().expect("a folder");
        let system = System::under(empty.path());
        assert_eq!(system.processor(&REFERENCE), REFERENCE);
        fs::create_dir_all(empty.path().join("cpu0/cache/index0")).expect("a folder");
        fs::write(empty.path().join("cpu0/cache/index0/level"), "one").expect("can be written");
        assert_eq!(System::under(empty.path()), system);
    }

    #[test]
    fn a_part_of_a_socket_has_a_part_of_its_cache() {
        let cache = |level, bytes, shared_by| Cache {
            level,
            bytes,
            shared_by,
        };
        let system = System {
            caches: vec![cache(2, 2 << 20, 1), cache(3, 480 << 20, 2)],
            cpus: Some(2),
            socket_cpus: Some(2),
            ..System::default()
        };
        let processor = system.processor(&REFERENCE);
        assert_eq!(processor.l2_bytes, 2 << 20);
        assert_eq!(processor.l3_bytes, Some(32 << 20));
        assert_eq!((processor.l3_cores, processor.socket_cores), (8, 96));
    }

    #[test]
    fn a_mesh_is_slower_than_the_cache_of_a_few_cores() {
        let cpuinfo = "processor : 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\n";
        assert_eq!(field(cpuinfo, "vendor_id"), Some("GenuineIntel"));
        assert_eq!(field(cpuinfo, "flags"), None);
        let of = |l2_bytes, bytes| System {
            caches: vec![Cache {
                level: 2,
                bytes: l2_bytes,
                shared_by: 1,
            }],
            vectors: Vectors {
                bytes,
                ..Vectors::default()
            },
            is_intel: true,
            ..System::default()
        };
        let has_mesh = |system: System| system.processor(&REFERENCE).has_mesh;
        assert!(has_mesh(of(2 << 20, 64)));
        assert!(!has_mesh(of(2 << 20, 32)));
        assert!(!has_mesh(of(512 << 10, 64)));
        let amd = System {
            is_intel: false,
            ..of(1 << 20, 64)
        };
        assert!(!has_mesh(amd));
        let rate = |has_mesh| {
            let machine = Processor {
                has_mesh,
                ..REFERENCE
            }
            .machine("two".into(), 2);
            let bytes = (4 << 20) as f64;
            machine.unit_rate(machine.memory(bytes, bytes, 2), 2)
        };
        assert!(rate(true) < 0.5 * rate(false));
    }

    #[test]
    fn sizes_and_lists() {
        assert_eq!(parse_size("48K\n"), Some(48 << 10));
        assert_eq!(parse_size("2M"), Some(2 << 20));
        assert_eq!(parse_size("64"), Some(64));
        assert_eq!(parse_size("K").or(parse_size("0K")), None);
        assert_eq!(count_cpus("0-3,8,10-11\n"), Some(7));
        assert_eq!(count_cpus("3-1").or(count_cpus("")), None);
    }
}
