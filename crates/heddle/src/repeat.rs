//! Runs a program again and again on the same inputs, as a measurement does.

use std::time::{Duration, Instant};

use crate::session::Session;
use crate::{Error, Inputs, Outputs, Program, RunOptions, inputs, structures};

/// A program with inputs that were checked and memory that is kept. A run has the cost of every further call:
/// taking the workers and the program itself, up to its results in memory; not their copy for the caller.
#[derive(Debug)]
pub struct Repeat<'a> {
    program: &'a Program,
    session: Session,
}

impl Program {
    /// Prepares runs on these inputs. In double precision the interpreter does them.
    pub fn repeat(&self, inputs: Inputs, options: &RunOptions) -> Result<Repeat<'_>, Error> {
        structures::check(&self.structures, &inputs)?;
        let args = inputs::in_order(self.sig(), inputs)?;
        let mut session = self.session(options);
        session.bind(&args)?;
        Ok(Repeat {
            program: self,
            session,
        })
    }
}

impl Repeat<'_> {
    /// Runs the program and returns the time that it took.
    pub fn run(&mut self) -> Result<Duration, Error> {
        let start = Instant::now();
        self.session.run()?;
        Ok(start.elapsed())
    }

    /// Runs the program once more and copies its outputs.
    pub fn outputs(&mut self) -> Result<Outputs, Error> {
        self.session.run()?;
        Ok(self.program.named_outputs(self.session.outputs()?))
    }
}

#[cfg(test)]
mod tests {
    use crate::{CompileOptions, Device, Inputs, Model, RunOptions, Tensor, compile};

    #[test]
    fn runs_give_the_same_again_and_again() {
        let text = "fn @main(%x: f32[n]) -> (%y: f32[n]) {\n  %y = add(%x, %x)\n  return %y\n}\n";
        let model = Model::parse("m", text).unwrap();
        for &device in Device::EVERYWHERE {
            let options = CompileOptions {
                device,
                threads: Some(2),
                ..Default::default()
            };
            let program = compile(&model, &options).unwrap();
            let x = Tensor::vector(&[1f32, -2.0, 0.5]).into();
            let inputs = Inputs::from_iter([("x".to_string(), x)]);
            let mut repeat = program.repeat(inputs, &RunOptions::default()).unwrap();
            for _ in 0..3 {
                repeat.run().unwrap();
                let want = Tensor::vector(&[2f32, -4.0, 1.0]);
                assert_eq!(repeat.outputs().unwrap()["y"], want.into());
            }
        }
    }
}
