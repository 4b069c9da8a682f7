//! Identity of the processor, for keys of built programs and measurements.

use std::sync::OnceLock;

/// Model and features of this processor, equal on equal processors.
pub fn identity() -> &'static str {
    static IDENTITY: OnceLock<String> = OnceLock::new();
    IDENTITY.get_or_init(|| {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let first = info.split("\n\n").next().unwrap_or("");
        let mut text = format!("{}\n", std::env::consts::ARCH);
        for line in first.lines().filter(|l| is_identity(l)) {
            text.push_str(line);
            text.push('\n');
        }
        text
    })
}

/// True for a line of `/proc/cpuinfo` that identifies the processor, false for its current state.
fn is_identity(line: &str) -> bool {
    const KEYS: &[&str] = &[
        "vendor_id",
        "cpu family",
        "model",
        "model name",
        "stepping",
        "flags",
        "Features",
        "CPU implementer",
        "CPU architecture",
        "CPU variant",
        "CPU part",
        "isa",
    ];
    line.split(':')
        .next()
        .is_some_and(|key| KEYS.contains(&key.trim()))
}
