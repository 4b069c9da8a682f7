//! Reads what sanitizers report on programs for a GPU: the fault, and the accesses with their lines of the program's text.

use crate::error::RunError;
use crate::grid::Grid;

/// The name of the text's file.
const FILE: &str = "program.c:";

/// The fault of a report; `None` if it tells of none.
pub(crate) fn found(report: &str, grid: Grid) -> Option<RunError> {
    let mut finding = None;
    let mut accesses: Vec<(String, Vec<usize>)> = vec![];
    // The frames of the last access are still to come.
    let mut is_open = false;
    for line in report.lines() {
        let line = line.trim();
        if let Some(name) = fault(line) {
            finding.get_or_insert_with(|| name.to_owned());
        }
        if let Some(what) = access(line, grid) {
            accesses.push((what, vec![]));
            is_open = true;
        } else if let Some((place, message)) = line.split_once(": runtime error: ") {
            // The sanitizer for undefined behaviour names no thread.
            finding.get_or_insert_with(|| message.to_owned());
            accesses.push(("a thread".into(), number_in(place).into_iter().collect()));
            is_open = false;
        } else if is_open && line.starts_with('#') {
            let (_, lines) = accesses.last_mut()?;
            lines.extend(number_in(line));
        } else {
            is_open = false;
        }
    }
    accesses.retain(|(_, lines)| !lines.is_empty());
    let words = accesses
        .iter()
        .map(|(what, lines)| format!("{what} at line {}", lines[0]));
    let text = words.collect::<Vec<_>>().join("; ");
    Some(RunError::Sanitized {
        finding: finding?,
        lines: accesses.into_iter().map(|(_, lines)| lines).collect(),
        text: if text.is_empty() {
            report.trim().to_owned()
        } else {
            text
        },
    })
}

/// The name of a fault.
fn fault(line: &str) -> Option<&str> {
    let marks = [
        ("WARNING: ThreadSanitizer: ", " (pid="),
        ("ERROR: AddressSanitizer: ", " on "),
    ];
    marks.into_iter().find_map(|(before, after)| {
        let name = line.split_once(before)?.1;
        Some(name.split_once(after).map_or(name, |(name, _)| name))
    })
}

/// A thread's access: who reads or writes how many bytes.
fn access(line: &str, grid: Grid) -> Option<String> {
    let lower = line.to_lowercase();
    let rest = lower.strip_prefix("previous ").unwrap_or(&lower);
    let rest = rest.strip_prefix("atomic ").unwrap_or(rest);
    let (verb, rest) = ["read", "write"].iter().find_map(|verb| {
        let rest = rest.strip_prefix(verb)?.strip_prefix(" of size ")?;
        Some((format!("{verb}s"), rest))
    })?;
    let bytes = rest.split(' ').next()?;
    let who = match rest.split_once("thread t") {
        Some((_, number)) => {
            let digits = number.split(|c: char| !c.is_ascii_digit()).next()?;
            // Threads begin in order, and those of the next launch follow.
            let number: u64 = digits.parse().ok()?;
            let threads = u64::from(grid.threads);
            let number = number.checked_sub(1)? % (u64::from(grid.blocks) * threads);
            format!("lane {} of block {}", number % threads, number / threads)
        }
        None => "the host".to_owned(),
    };
    Some(format!("{who} {verb} {bytes} bytes"))
}

/// The line of the text that a place names.
fn number_in(place: &str) -> Option<usize> {
    let (_, number) = place.split_once(FILE)?;
    let digits = number.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: Grid = Grid {
        blocks: 4,
        threads: 32,
        warp: 32,
        cluster: 1,
        seed: 1,
    };

    fn read(report: &str) -> (String, Vec<Vec<usize>>, String) {
        match found(report, GRID) {
            Some(RunError::Sanitized {
                finding,
                lines,
                text,
            }) => (finding, lines, text),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn races_have_two_accesses() {
        let (finding, lines, text) = read(
            "==================
WARNING: ThreadSanitizer: data race (pid=31931)
  Write of size 8 at 0x7b6000000008 by thread T34:
    #0 op0 /tmp/x/program.c:21 (k+0x184b)
    #1 heddle_unit_main /tmp/x/program.c:1486 (k+0x1c07)
    #2 work threads.cc:77 (k+0x1c07)

  Previous atomic read of size 4 at 0x7b6000000008 by thread T1 (mutexes: write M0):
    #0 heddle_unit_main /tmp/x/program.c:50 (k+0x1872)

  Thread T34 (tid=31934, running) created by main thread at:
    #0 pthread_create ../../tsan_interceptors.cpp:1001 (libtsan.so.2+0x5e686)
    #1 launch program.c:94 (k+0x28ff)
",
        );
        assert_eq!(finding, "data race");
        assert_eq!(lines, [vec![21, 1486], vec![50]]);
        assert_eq!(
            text,
            "lane 1 of block 1 writes 8 bytes at line 21; lane 0 of block 0 reads 4 bytes at line 50"
        );
    }

    #[test]
    fn accesses_out_of_bounds_have_one() {
        let (finding, lines, text) = read(
            "==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x60 at pc 0x55 bp 0x7f sp 0x7f
WRITE of size 4 at 0x602000000018 thread T5
    #0 0x55 in op0 program.c:12
    #1 0x55 in heddle_unit_main program.c:80
    #2 0x55 in work threads.cc:77

0x60 is located 0 bytes after 8-byte region
allocated by thread T0 here:
    #0 0x7f in posix_memalign (libasan.so)
",
        );
        assert_eq!(finding, "heap-buffer-overflow");
        assert_eq!(lines, [vec![12, 80]]);
        assert_eq!(text, "lane 4 of block 0 writes 4 bytes at line 12");
    }

    #[test]
    fn undefined_behaviour_has_a_place() {
        let report = "program.c:12:5: runtime error: index 9 out of bounds for type 'float [8]'";
        let (finding, lines, text) = read(report);
        assert_eq!(finding, "index 9 out of bounds for type 'float [8]'");
        assert_eq!(
            (lines, text),
            (vec![vec![12]], "a thread at line 12".into())
        );
        assert!(found("driver: no thread", GRID).is_none());
    }
}
