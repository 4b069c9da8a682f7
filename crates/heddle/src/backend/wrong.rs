//! A back end whose emitter is wrong, for tests of what a device makes of it.

use std::sync::Arc;
use std::time::Duration;

use heddle_emit::Emitted;
use heddle_uprogram::UProgram;

use super::interface::{Artifact, Backend, Layout, Machine, Scheduled};
use crate::pipeline::{Origin, compile_for};
use crate::{CompileOptions, Device, Error, ErrorKind, Inputs, Model, Program, Remedy, Tensor};

/// Replaces the last place where its text says something.
#[derive(Debug)]
pub(crate) struct Wrong {
    right: Box<dyn Backend>,
    from: &'static str,
    to: &'static str,
}

/// Both products are calls of one function, with a barrier in between.
const TEXT: &str = "fn @main(%x: f32[256,256]) -> (%z: f32[256,256]) {
  %y = tanh(dot(%x, %x)) at MatMul \"first\"
  %z = tanh(dot(%y, %y)) at MatMul \"second\"
  return %z
}
";

impl Wrong {
    /// Its last barrier of all blocks is another statement.
    pub(crate) fn barrier(right: Box<dyn Backend>, to: &'static str) -> Wrong {
        Wrong {
            right,
            from: "HEDDLE_TRY(heddle_barrier(env, worker, workers));",
            to,
        }
    }

    /// Its last call of an operator is another statement.
    pub(crate) fn call(right: Box<dyn Backend>, to: &'static str) -> Wrong {
        Wrong {
            right,
            from: "HEDDLE_RUN(op0(",
            to,
        }
    }

    /// A program of two products.
    pub(crate) fn compile(&self, options: &CompileOptions) -> Program {
        let module = Model::parse("m", TEXT).unwrap().module;
        compile_for(self, Origin::Read(module), Duration::ZERO, options).unwrap()
    }
}

/// Its inputs.
pub(crate) fn inputs() -> Inputs {
    let x = Tensor::from_slice(vec![256, 256], &vec![0f32; 256 * 256]);
    Inputs::from_iter([("x".to_string(), x.into())])
}

/// An error of the watchdog that begins with the first product: three blocks wait at a line for block 2.
pub(crate) fn assert_stuck(error: &Error, line: &str, limit: &str) {
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Internal, "{text}");
    assert_eq!(error.remedy(), Some(Remedy::Report));
    let node = error.node().expect("a node");
    assert!(node.contains("first") && text.starts_with(&node), "{text}");
    for words in [
        &format!("waited longer than {limit}: blocks 0, 1 and 3 wait at line "),
        "to which block 2 has not come; block 2 has ended",
        &format!("reads `{line}`"),
        "raise the limit",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

impl Backend for Wrong {
    fn device(&self) -> Device {
        self.right.device()
    }

    fn machine(&self) -> Machine {
        self.right.machine()
    }

    fn lowers(&self) -> bool {
        true
    }

    fn emit(&self, program: &UProgram, layout: &Layout) -> Result<Emitted, Error> {
        let mut emitted = self.right.emit(program, layout)?;
        let (before, after) = emitted.source.rsplit_once(self.from).unwrap();
        for (place, _) in &mut emitted.operators {
            if *place > before.len() {
                *place = *place + self.to.len() - self.from.len();
            }
        }
        Ok(Emitted {
            source: format!("{before}{}{after}", self.to),
            ..emitted
        })
    }

    fn build(&self, program: Scheduled) -> Result<Arc<dyn Artifact>, Error> {
        self.right.build(program)
    }
}
