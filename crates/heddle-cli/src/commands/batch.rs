//! `--batch`, `--weights` and `--batch-of`.

use std::path::Path;
use std::time::Duration;

use heddle::batch::{Batch, BlockRuns, Form, Forms, offsets_name, shapes_name};
use heddle::{Inputs, Model, RunOptions};

use crate::args::{Exec, Source};
use crate::commands::Given;
use crate::fail::{Exit, Failure};
use crate::npz::{self, Floats};
use crate::out::printable;
use crate::show;

/// The inputs that the files give, with their ranks in one instance.
pub fn given(source: &Source) -> Result<Given, Failure> {
    let mut given = Given::new();
    for path in [&source.input, &source.weights].into_iter().flatten() {
        given.extend(npz::ranks(path)?);
    }
    if let Some(path) = &source.batch {
        let batch = npz::ranks(path)?;
        let own = |(name, rank): (&String, &Option<usize>)| {
            let axes = match form(&batch, name) {
                Form::Stacked => rank.and_then(|rank| rank.checked_sub(1)),
                Form::Ragged => *rank,
                Form::Flat => None,
            };
            (name.clone(), axes)
        };
        given.extend(batch.iter().map(own));
    }
    Ok(given)
}

/// The model for the instances that the command line gives, if it gives any.
pub fn prepare(
    model: Model,
    source: &Source,
    exec: &Exec,
) -> Result<(Model, Option<Batch>), Failure> {
    let Some(forms) = forms(&model, source)? else {
        return Ok((model, None));
    };
    let batch = model.batched_within(&forms, exec.max_frames)?;
    Ok((batch.model.clone(), Some(batch)))
}

/// The model for many instances that differ in these inputs, each with its form behind a colon or by its type.
pub fn of(model: Model, names: &[String]) -> Result<Model, Failure> {
    if names.is_empty() {
        return Ok(model);
    }
    let parts = |text: &String| {
        let stated = [
            (":ragged", Form::Ragged),
            (":stacked", Form::Stacked),
            (":flat", Form::Flat),
        ];
        let mut stated = stated.into_iter();
        let stated = stated.find_map(|(end, form)| Some((text.strip_suffix(end)?, form)));
        match stated {
            Some((name, form)) => (name.to_string(), Some(form)),
            None => (text.clone(), None),
        }
    };
    let (names, stated): (Vec<_>, Vec<_>) = names.iter().map(parts).unzip();
    let mut forms = model.batch_forms(&names)?;
    for (name, form) in names.into_iter().zip(stated) {
        if let Some(form) = form {
            forms.insert(name, form);
        }
    }
    let batch = model.batched(&forms)?;
    note(&batch);
    Ok(batch.model)
}

/// The form of an input, by the names of the arrays in the batch file.
fn form(batch: &Given, name: &str) -> Form {
    match () {
        () if batch.contains_key(&shapes_name(name)) => Form::Flat,
        () if batch.contains_key(&offsets_name(name)) => Form::Ragged,
        () => Form::Stacked,
    }
}

/// The forms of the inputs, by the names of the arrays in the files.
fn forms(model: &Model, source: &Source) -> Result<Option<Forms>, Failure> {
    let Some(path) = &source.batch else {
        return Ok(None);
    };
    let batch = npz::ranks(path)?;
    let shared = source.weights.as_deref().map(npz::ranks).transpose()?;
    let mut shared = shared.iter().flat_map(|arrays| arrays.keys());
    if let Some(twice) = shared.find(|name| batch.contains_key(*name)) {
        return Err(both(path, source.weights.as_deref(), twice));
    }
    let inputs = model.signature().inputs;
    let names = inputs.into_iter().map(|port| port.name);
    let names = names.chain([heddle::batch::SEEDS.to_string()]);
    let differ = names.filter(|name| batch.contains_key(name));
    let differ = differ.map(|name| {
        let form = form(&batch, &name);
        (name, form)
    });
    Ok(Some(differ.collect()))
}

/// The inputs that --profile-blocks gives, with those that all instances share.
pub fn profile(batch: &Batch, source: &Source) -> Result<Option<Inputs>, Failure> {
    let Some(path) = &source.profile_blocks else {
        return Ok(None);
    };
    let wanted = batch.model.signature().inputs;
    let mut inputs = npz::read(path, &wanted, Floats::Same)?;
    if let Some(path) = &source.weights {
        inputs.extend(npz::read_some(path, &wanted, Floats::Same)?);
    }
    batch.check(&inputs)?;
    Ok(Some(inputs))
}

/// Time for the interpreter to count steps in.
const COUNTING: Duration = Duration::from_secs(60);

/// Prints the steps of a run.
pub fn report(batch: &Batch, inputs: &Inputs, options: RunOptions) {
    let options = RunOptions {
        timeout: Some(options.timeout.unwrap_or(COUNTING)),
        ..options
    };
    let shared = batch.shared();
    let shared = match shared.is_empty() {
        true => "none".to_string(),
        false => shared.join(", "),
    };
    let mut text = format!("shared inputs: {shared}\n");
    match batch.activity(inputs, &options) {
        Ok(activity) => {
            let mut rows = vec![
                ["block", "steps", "activations", "mean rows"]
                    .map(str::to_string)
                    .to_vec(),
            ];
            rows.extend(activity.blocks.iter().map(row));
            text += &show::table(&rows);
        }
        Err(error) => text += &format!("the steps are not counted: {error}\n"),
    }
    for left in &batch.one_by_one {
        text += &format!("one instance after the other: {left}\n");
    }
    eprint!("{}", printable(&text));
}

fn row(runs: &BlockRuns) -> Vec<String> {
    let note = match runs.is_one_by_one {
        true => ", one by one",
        false => "",
    };
    let mean = format!("{:.1}", runs.mean_rows());
    let [steps, activations] = [runs.steps, runs.activations].map(show::count);
    vec![format!("{}{note}", runs.block), steps, activations, mean]
}

/// Says what is not evaluated for all instances at once.
pub fn note(batch: &Batch) {
    let mut left = batch.one_by_one.iter();
    if let Some(first) = left.next() {
        let more = match left.len() {
            0 => String::new(),
            n => format!(" (and {n} more)"),
        };
        let first = printable(&first.to_string());
        eprintln!("note: one instance after the other: {first}{more}");
    }
}

fn both(batch: &Path, weights: Option<&Path>, name: &str) -> Failure {
    let weights = weights.unwrap_or(Path::new("")).display();
    let text = format!("array `{name}` is in {} and in {weights}", batch.display());
    Failure::new(Exit::Invalid, text).hint("leave it out of one of them")
}
