//! `heddle check`.

use heddle::{Closeness, Mismatch, Tolerance, Type, Value, compare};
use serde_json::{Value as Json, json};

use crate::args::CheckArgs;
use crate::commands;
use crate::fail::{Exit, Failure};
use crate::npz::{self, Floats};
use crate::out::{self, GREEN, RED, styled};
use crate::show;

/// Runs a model and compares its outputs with expected ones; fails unless all agree.
pub fn check(args: CheckArgs) -> Result<(), Failure> {
    let prepared = commands::prepare_run(&args.program, &args.exec, &args.source, false)?;
    let results = prepared.program.signature().outputs;
    let expected = npz::read(&args.expect, &results, Floats::Any)?;
    let missing: Vec<_> = results
        .iter()
        .filter(|port| !expected.contains_key(&port.name) && !matches!(port.ty, Type::Opt(_)))
        .map(|port| format!("`{}`", port.name))
        .collect();
    if !missing.is_empty() {
        let list = missing.join(", ");
        let text = format!("{} lacks the outputs {list}", args.expect.display());
        return Err(Failure::new(Exit::Invalid, text));
    }
    let (_, run) = prepared.run()?;
    let tolerance = Tolerance {
        rtol: args.rtol,
        atol: args.atol,
        exact_integers: true,
        any_float: true,
    };
    let absent = Value::Opt(None);
    let verdicts: Vec<_> = run
        .outputs
        .iter()
        .map(|(name, got)| {
            let want = expected.get(name).unwrap_or(&absent);
            (name.as_str(), compare(got, want, &tolerance))
        })
        .collect();
    let agree = verdicts.iter().all(|(_, v)| v.is_ok());
    if args.json {
        let outputs: Vec<_> = verdicts.iter().map(|(n, v)| document(n, v)).collect();
        out::print_json(&json!({"agree": agree, "outputs": outputs}))?;
    } else {
        out::print(&text(&verdicts))?;
    }
    if agree {
        Ok(())
    } else {
        Err(Failure::silent(Exit::Mismatch))
    }
}

type Verdict<'a> = (&'a str, Result<Closeness, Mismatch>);

fn text(verdicts: &[Verdict]) -> String {
    let width = verdicts
        .iter()
        .map(|(n, _)| n.chars().count())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for (name, verdict) in verdicts {
        let name = out::printable(name);
        text += &match verdict {
            Ok(c) => format!(
                "{name:<width$}  {}  {} elements, largest difference {:.1e}, relative {:.1e}\n",
                styled(GREEN, "agrees"),
                show::count(c.elements as u64),
                c.max_abs,
                c.max_rel,
            ),
            Err(m) => format!("{name:<width$}  {}  {m}\n", styled(RED, "DIFFERS")),
        };
    }
    text
}

fn document(name: &str, verdict: &Result<Closeness, Mismatch>) -> Json {
    match verdict {
        Ok(c) => json!({
            "name": name,
            "agree": true,
            "elements": c.elements,
            "max_abs": show::number(c.max_abs),
            "max_rel": show::number(c.max_rel),
        }),
        Err(Mismatch::Values {
            count,
            total,
            index,
            got,
            want,
            place,
        }) => json!({
            "name": name,
            "agree": false,
            "place": place,
            "elements": total,
            "differing": count,
            "index": index,
            "got": got,
            "want": want,
        }),
        Err(Mismatch::Kind { got, want, place }) => json!({
            "name": name,
            "agree": false,
            "place": place,
            "got": got,
            "want": want,
        }),
    }
}
