//! Which processor this is, for keys of what was built or measured for it.

use std::sync::OnceLock;

/// Model and features of this machine's processor, as text that is equal on equal processors.
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

/// Whether a line of `/proc/cpuinfo` says what the processor is, rather than how it feels.
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
