//! Panics as errors. Heddle has none by intent; one that happens is a bug, and is reported as such,
//! without ending other work.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;

/// The message of the last panic, and where it was. Panics pass from the thread they happen on to
/// the one that joins it, which then knows the message but not the place.
static LAST: Mutex<Option<(String, String)>> = Mutex::new(None);

/// Keeps panics from printing by themselves.
pub fn install() {
    panic::set_hook(Box::new(|info| {
        let place = info
            .location()
            .map(|l| format!("{}:{}", l.file(), l.line()));
        if let Ok(mut last) = LAST.lock() {
            *last = Some((message(info.payload()), place.unwrap_or_default()));
        }
    }));
}

/// Runs `work`; a panic in it becomes an error with the message and, as a rule, the place.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        let text = message(&*payload);
        match LAST.lock().ok().and_then(|mut last| last.take()) {
            Some((said, place)) if said == text => format!("{text} ({place})"),
            _ => text,
        }
    })
}

fn message(payload: &(dyn Any + Send)) -> String {
    let fixed = payload.downcast_ref::<&str>().map(|s| s.to_string());
    let made = || payload.downcast_ref::<String>().cloned();
    fixed.or_else(made).unwrap_or_else(|| "panic".into())
}
