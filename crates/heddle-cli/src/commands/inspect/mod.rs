//! `heddle inspect`.

mod describe;
mod graph;
mod outline;
mod program;
mod render;

use heddle::onnx::{ImportError, UnsupportedOp};
use heddle::{Error, Format, LoadOptions, Model, on_large_stack};

use self::outline::Outline;
use crate::args::InspectArgs;
use crate::fail::Failure;
use crate::out;

/// Shows what is in a model. One that Heddle does not support is shown as the file has it.
pub fn inspect(args: InspectArgs) -> Result<(), Failure> {
    let outline = on_large_stack(|| outline(&args))?;
    if args.json {
        return out::print_json(&outline.document());
    }
    out::print(&render::text(&outline))
}

fn outline(args: &InspectArgs) -> Result<Outline, Failure> {
    match Model::load(&args.model, &LoadOptions::default()) {
        Ok(model) => {
            let mut outline = program::outline(model.module());
            if model.format() == Format::Onnx {
                let proto = heddle::onnx::read_proto(&args.model).map_err(Error::from)?;
                graph::add_facts(&mut outline, &proto);
            }
            Ok(outline)
        }
        Err(Error::Import(ImportError::Unsupported(list))) => {
            let proto = heddle::onnx::read_proto(&args.model).map_err(Error::from)?;
            Ok(with_unsupported(graph::outline(&proto), list))
        }
        Err(other) => Err(other.into()),
    }
}

fn with_unsupported(mut outline: Outline, list: Vec<UnsupportedOp>) -> Outline {
    outline.unsupported = list;
    outline
}
