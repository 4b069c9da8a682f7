//! `heddle opt`.

use std::io::Read;
use std::path::Path;

use heddle::{Fold, LoadOptions, Machine, Model, Step};

use super::compile::{write_ir, write_text};
use crate::args::{OptArgs, OptFrom};
use crate::fail::{Exit, Failure};
use crate::{out, show};

/// Applies passes to a program in text form, and writes the result in text form.
pub fn opt(args: OptArgs) -> Result<(), Failure> {
    let passes: Vec<Step> = match args.from {
        OptFrom::Ir => heddle::graph_passes().collect(),
        OptFrom::Uprogram => heddle::uprogram_passes().collect(),
    };
    if args.list {
        let row = |p: &Step| vec![p.name.to_string(), p.about.to_string()];
        return out::print(&show::table(&passes.iter().map(row).collect::<Vec<_>>()));
    }
    let named = |name: &String| passes.iter().any(|pass| pass.name == name);
    if let Some(name) = args.passes.iter().find(|name| !named(name)) {
        let names: Vec<_> = passes.iter().map(|pass| pass.name).collect();
        let text = format!("there is no pass `{name}`");
        let hint = format!("the passes are {}", names.join(", "));
        return Err(Failure::new(Exit::Usage, text).hint(hint));
    }
    let machine = match args.threads {
        Some(threads) => Machine::host(threads.get()),
        None => args.machine,
    };
    let path = args.file.unwrap_or_else(|| "-".into());
    let output = args.output.as_deref();
    match args.from {
        OptFrom::Ir => {
            let model = read(&path)?.transformed(&args.passes, &machine)?;
            write_ir(&model.into_graph(), output)
        }
        OptFrom::Uprogram => {
            let text = read_text(&path)?;
            let text = heddle::transform_uprogram(&path, &text, &args.passes, &machine)?;
            write_text(&text, output)
        }
    }
}

/// Text from a file or, for `-`, from standard input.
fn read_text(path: &Path) -> Result<String, Failure> {
    if path == Path::new("-") {
        return standard_input();
    }
    std::fs::read_to_string(path)
        .map_err(|e| Failure::new(Exit::Io, format!("cannot read {}: {e}", path.display())))
}

fn standard_input() -> Result<String, Failure> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|e| Failure::new(Exit::Io, format!("cannot read standard input: {e}")))?;
    Ok(text)
}

/// Reads a program; `-` is standard input, in text form and without files beside it.
fn read(path: &Path) -> Result<Model, Failure> {
    if path == Path::new("-") {
        return Ok(Model::parse("standard input", &standard_input()?)?);
    }
    let options = LoadOptions {
        fold: Fold::Nothing,
        ..Default::default()
    };
    Ok(Model::load(path, &options)?)
}
