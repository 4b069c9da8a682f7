//! `heddle opt`.

use std::io::Read;
use std::path::Path;

use heddle::ir::{Module, verify};
use heddle::opt::{PASSES, Pass, TRANSFORMATIONS, find_pass, find_transformation};
use heddle::{Error, Fold, LoadOptions, Model, on_large_stack};

use super::compile::write_ir;
use crate::args::OptArgs;
use crate::fail::{Exit, Failure};
use crate::{out, show};

/// Applies passes to a program in text form, and writes what comes out in text form.
pub fn opt(args: OptArgs) -> Result<(), Failure> {
    if args.list {
        let row = |p: &Pass| vec![p.name.to_string(), p.about.to_string()];
        return out::print(&show::table(
            &PASSES
                .iter()
                .chain(TRANSFORMATIONS)
                .map(row)
                .collect::<Vec<_>>(),
        ));
    }
    let find = |name: &String| {
        find_pass(name)
            .or_else(|| find_transformation(name))
            .ok_or_else(|| unknown(name))
    };
    let passes = args
        .passes
        .iter()
        .map(find)
        .collect::<Result<Vec<_>, _>>()?;
    let path = args.file.unwrap_or_else(|| "-".into());
    let mut module = read(&path)?;
    on_large_stack(|| match passes.is_empty() {
        true => {
            heddle::opt::optimize(&mut module);
            verified("the pipeline", &module)
        }
        // After every pass, so that the one at fault is named.
        false => passes.iter().try_for_each(|pass| {
            (pass.run)(&mut module);
            verified(pass.name, &module)
        }),
    })??;
    write_ir(&module, args.output.as_deref())
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
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|e| Failure::new(Exit::Io, format!("cannot read standard input: {e}")))?;
    let model = Model::parse("standard input", &text)?;
    Ok(model.into_module())
}

fn verified(stage: &str, module: &Module) -> Result<(), Error> {
    verify(module).map_err(|errors| {
        let list: String = errors.iter().map(|e| format!("\n  {e}")).collect();
        Error::Internal(format!("{stage} left the program invalid:{list}"))
    })
}

fn unknown(name: &str) -> Failure {
    let names: Vec<_> = PASSES
        .iter()
        .chain(TRANSFORMATIONS)
        .map(|p| p.name)
        .collect();
    Failure::new(Exit::Usage, format!("there is no pass `{name}`"))
        .hint(format!("the passes are {}", names.join(", ")))
}
