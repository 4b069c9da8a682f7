//! `--batch` and `--weights`.

use std::path::Path;

use heddle::Model;
use heddle::batch::{Batch, Form, Forms};

use crate::args::Source;
use crate::commands::Given;
use crate::fail::{Exit, Failure};
use crate::npz;
use crate::out::printable;

/// The inputs that the files give, with their ranks in one instance.
pub fn given(source: &Source) -> Result<Given, Failure> {
    let mut given = Given::new();
    for path in [&source.input, &source.weights].into_iter().flatten() {
        given.extend(npz::ranks(path)?);
    }
    if let Some(path) = &source.batch {
        let batch = npz::ranks(path)?;
        let own = |(name, rank): (&String, &Option<usize>)| {
            let is_ragged = batch.contains_key(&heddle::batch::offsets_name(name));
            let axes = rank.and_then(|rank| rank.checked_sub(!is_ragged as usize));
            (name.clone(), axes)
        };
        given.extend(batch.iter().map(own));
    }
    Ok(given)
}

/// The model for the instances that the command line gives, if it gives any.
pub fn prepare(model: Model, source: &Source) -> Result<(Model, Option<Batch>), Failure> {
    let Some(forms) = forms(&model, source)? else {
        return Ok((model, None));
    };
    let batch = model.batched(&forms)?;
    note(&batch);
    Ok((batch.model.clone(), Some(batch)))
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
    let form = |name: &String| match batch.contains_key(&heddle::batch::offsets_name(name)) {
        true => Form::Ragged,
        false => Form::Stacked,
    };
    let names = inputs.into_iter().map(|port| port.name);
    let differ = names.filter(|name| batch.contains_key(name));
    let differ = differ.map(|name| {
        let form = form(&name);
        (name, form)
    });
    Ok(Some(differ.collect()))
}

/// Says what is not evaluated for all instances at once.
fn note(batch: &Batch) {
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
