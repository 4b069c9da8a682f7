//! `heddle test`: cases in ONNX's layout.

mod case;
mod known;
mod pool;
mod tally;

use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use self::case::{Case, Ended, Means, Settings, Verdict};
use self::known::Known;
use self::tally::Tally;
use crate::args::{DeviceArg, TestArgs};
use crate::commands;
use crate::fail::{Exit, Failure};
use crate::out::{self, DIM, GREEN, RED, YELLOW, styled};
use crate::show;

/// Default time limit of a case.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

/// Runs cases and says which passed; fails if one did not that should, or one did that should not.
pub fn test(args: TestArgs) -> Result<(), Failure> {
    commands::check_device(&args.exec)?;
    // Not once for each case.
    heddle::check_device(&commands::device_options(&args.exec))?;
    let known = args.known.as_deref().map(Known::read).transpose()?;
    let cases = case::find(&args.dirs)?;
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let jobs = args.jobs.map_or(cores, |n| n.get());
    let settings = Settings {
        timeout: args.exec.timeout.unwrap_or(DEFAULT_TIMEOUT),
        rtol: args.rtol,
        atol: args.atol,
        check_text: args.check_text,
        exec: args.exec,
    };
    let compiles = settings.exec.device != DeviceArg::Interp || args.min_compiled.is_some();
    // Hidden by itself where standard error is no terminal.
    let bar = ProgressBar::new(if args.json { 0 } else { cases.len() as u64 });
    if args.json {
        bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
    }
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}") {
        bar.set_style(style);
    }
    let mut outcomes = Vec::with_capacity(cases.len());
    let mut printed = Ok(());
    pool::run(cases, jobs, &settings, |outcome| {
        bar.inc(1);
        bar.set_message(outcome.case.name.clone());
        let line = outcome.line(known.as_ref(), args.verbose);
        if let (Some(line), false) = (line, args.json) {
            let result = bar.suspend(|| out::print(&line));
            printed = std::mem::replace(&mut printed, Ok(())).and(result);
        }
        outcomes.push(outcome);
    });
    bar.finish_and_clear();
    printed?;
    let totals = Totals::of(&outcomes, known.as_ref());
    let tally = compiles.then(|| Tally::of(&outcomes));
    if args.json {
        out::print_json(&document(
            &outcomes,
            &totals,
            tally.as_ref(),
            known.as_ref(),
        ))?;
    } else {
        out::print(&tally.as_ref().map_or(String::new(), Tally::text))?;
        if settings.check_text {
            let texts = texts(&outcomes);
            out::print(&format!("{texts} uPrograms read back from their text\n"))?;
        }
        out::print(&totals.text())?;
    }
    let enough = match (&tally, args.min_compiled) {
        (Some(tally), Some(least)) => tally.share() >= least,
        _ => true,
    };
    if totals.failed == 0 && enough {
        Ok(())
    } else {
        Err(Failure::silent(Exit::Mismatch))
    }
}

/// Result of a case.
pub struct Outcome {
    case: Case,
    ended: Ended,
    time: Duration,
}

impl Outcome {
    /// May the run still succeed?
    fn is_good(&self, known: Option<&Known>) -> bool {
        match known {
            None => !matches!(self.ended.verdict, Verdict::Failed(_)),
            Some(known) => known.lists(&self.case.name) != (self.ended.verdict == Verdict::Passed),
        }
    }

    /// Its line of output, if it has one.
    fn line(&self, known: Option<&Known>, verbose: bool) -> Option<String> {
        let good = self.is_good(known);
        let expected = known.is_some_and(|k| k.lists(&self.case.name));
        let (word, reason) = match &self.ended.verdict {
            Verdict::Passed if !good => {
                let reason = "is listed as one that does not; take it off the list";
                (styled(RED, "passed     "), reason.to_string())
            }
            Verdict::Passed if verbose => (styled(GREEN, "passed     "), show::duration(self.time)),
            Verdict::Passed => return None,
            _ if expected && !verbose => return None,
            Verdict::Failed(why) => (styled(RED, "FAILED     "), why.clone()),
            Verdict::Unsupported(why) => (styled(YELLOW, "unsupported"), why.clone()),
        };
        let name = out::printable(&self.case.name);
        Some(format!("{word} {name}: {}\n", one_line(&reason)))
    }
}

/// The run as a whole. With a list of known cases, a failure is whatever contradicts the list, and listed cases that do
/// not pass count as unsupported, so that the counts and the exit status say the same.
struct Totals {
    passed: usize,
    failed: usize,
    unsupported: usize,
    /// Unsupported cases that run and give something else than the case expects.
    differ: usize,
}

impl Totals {
    fn of(outcomes: &[Outcome], known: Option<&Known>) -> Self {
        let count = |f: &dyn Fn(&Outcome) -> bool| outcomes.iter().filter(|o| f(o)).count();
        let good = |o: &Outcome| o.is_good(known);
        let passed = |o: &Outcome| o.ended.verdict == Verdict::Passed;
        Self {
            passed: count(&|o| good(o) && passed(o)),
            failed: count(&|o| !good(o)),
            unsupported: count(&|o| good(o) && !passed(o)),
            differ: count(&|o| good(o) && matches!(o.ended.verdict, Verdict::Failed(_))),
        }
    }

    fn text(&self) -> String {
        let note = match self.differ {
            0 => String::new(),
            n => styled(
                DIM,
                format!("{n} listed cases run and give other results\n"),
            ),
        };
        format!(
            "{note}{} passed, {} failed, {} unsupported\n",
            self.passed, self.failed, self.unsupported
        )
    }
}

fn document(
    outcomes: &[Outcome],
    totals: &Totals,
    tally: Option<&Tally>,
    known: Option<&Known>,
) -> Value {
    let case = |o: &Outcome| {
        let (verdict, reason) = match &o.ended.verdict {
            Verdict::Passed => ("passed", None),
            Verdict::Failed(why) => ("failed", Some(why)),
            Verdict::Unsupported(why) => ("unsupported", Some(why)),
        };
        json!({
            "name": o.case.name,
            "path": o.case.folder,
            "verdict": verdict,
            "reason": reason,
            "known": known.is_some_and(|k| k.lists(&o.case.name)),
            "seconds": o.time.as_secs_f64(),
            "compiled": o.ended.means.as_ref().map(|m| *m == Means::Device),
            "interpreted": match &o.ended.means {
                Some(Means::Interpreter(why)) => Some(why.to_string()),
                _ => None,
            },
        })
    };
    json!({
        "ok": totals.failed == 0,
        "passed": totals.passed,
        "failed": totals.failed,
        "unsupported": totals.unsupported,
        "compiled": tally.map(|t| t.compiled),
        "interpreted": tally.map(Tally::document),
        "texts_checked": texts(outcomes),
        "cases": outcomes.iter().map(case).collect::<Vec<_>>(),
    })
}

/// Number of uPrograms whose text was read back.
fn texts(outcomes: &[Outcome]) -> usize {
    outcomes.iter().map(|o| o.ended.texts).sum()
}

/// A message of several lines on one.
fn one_line(text: &str) -> String {
    const SHOWN: usize = 400;
    let line = text.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Reads a whole text file.
fn read_text(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|e| Failure::new(Exit::Io, format!("cannot read {}: {e}", path.display())))
}
