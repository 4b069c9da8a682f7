//! `heddle opt`.

use std::io::Read;
use std::path::Path;

use heddle::ir::{Module, verify};
use heddle::opt::{CostModel, PASSES, Pass, TRANSFORMATIONS, Transformation};
use heddle::opt::{find_pass, find_transformation};
use heddle::{Error, Fold, LoadOptions, Model, on_large_stack};

use super::compile::{write_ir, write_text};
use crate::args::{OptArgs, OptFrom};
use crate::fail::{Exit, Failure};
use crate::{out, show};

/// Applies passes to a program in text form, and writes what comes out in text form.
pub fn opt(args: OptArgs) -> Result<(), Failure> {
    if args.from == OptFrom::Uprogram {
        return uprogram(args);
    }
    if args.list {
        let row = |(name, about): (&str, &str)| vec![name.to_string(), about.to_string()];
        return out::print(&show::table(&named().map(row).collect::<Vec<_>>()));
    }
    let find = |name: &String| {
        let pass = find_pass(name).map(Step::Pass);
        pass.or_else(|| find_transformation(name).map(Step::Transformation))
            .ok_or_else(|| unknown(name))
    };
    let passes = args
        .passes
        .iter()
        .map(find)
        .collect::<Result<Vec<_>, _>>()?;
    let path = args.file.unwrap_or_else(|| "-".into());
    let mut module = read(&path)?;
    let costs = CostModel::of(&args.machine);
    on_large_stack(|| match passes.is_empty() {
        true => {
            heddle::opt::optimize(&mut module);
            verified("the pipeline", &module)
        }
        // After every pass, so that the one at fault is named.
        false => passes.iter().try_for_each(|pass| {
            let name = match pass {
                Step::Pass(pass) => {
                    (pass.run)(&mut module);
                    pass.name
                }
                Step::Transformation(pass) => {
                    (pass.run)(&mut module, &costs);
                    pass.name
                }
            };
            verified(name, &module)
        }),
    })??;
    write_ir(&module, args.output.as_deref())
}

/// The same for a uProgram.
fn uprogram(args: OptArgs) -> Result<(), Failure> {
    if args.list {
        let row = |p: heddle::Step| vec![p.name.to_string(), p.about.to_string()];
        let rows = heddle::uprogram_passes().map(row).collect::<Vec<_>>();
        return out::print(&show::table(&rows));
    }
    let path = args.file.unwrap_or_else(|| "-".into());
    let text = match path == Path::new("-") {
        true => standard_input()?,
        false => std::fs::read_to_string(&path)
            .map_err(|e| Failure::new(Exit::Io, format!("cannot read {}: {e}", path.display())))?,
    };
    let machine = match args.threads {
        Some(threads) => heddle::Machine::host(threads.get()),
        None => args.machine,
    };
    match heddle::transform_uprogram(&path, &text, &args.passes, &machine) {
        Err(Error::UnknownPass(name)) => {
            let names: Vec<_> = heddle::uprogram_passes().map(|p| p.name).collect();
            Err(
                Failure::new(Exit::Usage, format!("there is no pass `{name}`"))
                    .hint(format!("the passes are {}", names.join(", "))),
            )
        }
        text => write_text(&text?, args.output.as_deref()),
    }
}

fn standard_input() -> Result<String, Failure> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|e| Failure::new(Exit::Io, format!("cannot read standard input: {e}")))?;
    Ok(text)
}

/// Reads a program; `-` is standard input, in text form and without files beside it.
fn read(path: &Path) -> Result<Module, Failure> {
    if path != Path::new("-") {
        let model = Model::load(
            path,
            &LoadOptions {
                fold: Fold::Nothing,
                ..Default::default()
            },
        )?;
        return Ok(model.into_module());
    }
    let model = Model::parse("standard input", &standard_input()?)?;
    Ok(model.into_module())
}

fn verified(stage: &str, module: &Module) -> Result<(), Error> {
    verify(module).map_err(|errors| {
        let list: String = errors.iter().map(|e| format!("\n  {e}")).collect();
        Error::Internal(format!("{stage} left the program invalid:{list}"))
    })
}

/// A step that the command knows by name.
#[derive(Clone, Copy)]
enum Step {
    Pass(&'static Pass),
    Transformation(&'static Transformation),
}

/// Names of all steps, and a line about each.
fn named() -> impl Iterator<Item = (&'static str, &'static str)> {
    let passes = PASSES.iter().map(|p| (p.name, p.about));
    passes.chain(TRANSFORMATIONS.iter().map(|t| (t.name, t.about)))
}

fn unknown(name: &str) -> Failure {
    let names: Vec<_> = named().map(|(name, _)| name).collect();
    Failure::new(Exit::Usage, format!("there is no pass `{name}`"))
        .hint(format!("the passes are {}", names.join(", ")))
}
