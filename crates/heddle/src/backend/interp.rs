//! The reference interpreter.

use std::sync::Arc;
use std::time::{Duration, Instant};

use heddle_emit::Emitted;
use heddle_interp::Natives;
use heddle_ir::{Datum, Module, Signature};
use heddle_runtime::CancelToken;
use heddle_uprogram::UProgram;

use super::interface::{
    ArrayView, Artifact, Backend, Layout, Machine, Required, Scheduled, Session,
};
use crate::options::interpreter_options;
use crate::stack::on_large_stack;
use crate::{Device, Error, Interpreted, RunOptions};

/// Runs the graph as it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interpreter;

impl Backend for Interpreter {
    fn device(&self) -> Device {
        Device::Interp
    }

    fn machine(&self) -> Machine {
        Machine::host(1)
    }

    fn lowers(&self) -> bool {
        false
    }

    fn emit(&self, _: &UProgram, _: &Layout) -> Result<Emitted, Error> {
        let why = "the device is the interpreter";
        Err(Error::NotCompiled(Interpreted::whole(None, why.into())))
    }

    fn build(&self, program: Scheduled) -> Result<Arc<dyn Artifact>, Error> {
        Ok(interpreted(program.module))
    }
}

/// A graph that is interpreted.
#[derive(Debug)]
struct Graph(Arc<Module>);

impl Artifact for Graph {
    fn device(&self) -> Device {
        Device::Interp
    }

    fn graph(&self) -> Option<&Module> {
        Some(&self.0)
    }

    fn session(self: Arc<Self>, options: &RunOptions) -> Box<dyn Session> {
        let options = options.clone();
        let sig = self.0.entry().sig.clone();
        let run = move |args: &[Datum]| {
            let start = Instant::now();
            let results = interpret(&self.0, args, &options, None)?;
            Ok((results, start.elapsed()))
        };
        Box::new(Evaluation::new(&sig, Box::new(run)))
    }
}

/// A graph that is interpreted.
pub(crate) fn interpreted(module: Arc<Module>) -> Arc<dyn Artifact> {
    Arc::new(Graph(module))
}

/// Interprets a program on a large stack, with what is compiled of it.
pub(crate) fn interpret(
    module: &Module,
    args: &[Datum],
    options: &RunOptions,
    natives: Option<&(dyn Natives + Sync)>,
) -> Result<Vec<Datum>, Error> {
    // The interpreter looks at the token now and then: a short run would end before.
    if options
        .cancel
        .as_ref()
        .is_some_and(CancelToken::is_cancelled)
    {
        return Err(Error::Compiled {
            site: None,
            place: None,
            failure: None,
            error: Box::new(heddle_runtime::RunError::Cancelled),
        });
    }
    let options = interpreter_options(options);
    let results = on_large_stack(|| match natives {
        Some(natives) => heddle_interp::run_with(module, args, &options, natives),
        None => heddle_interp::run(module, args, &options),
    })?;
    Ok(results?)
}

/// Gives results, and the time that the interpreter took.
type Evaluate = Box<dyn Fn(&[Datum]) -> Result<(Vec<Datum>, Duration), Error> + Send>;

/// A session of programs that take and give values, rather than memory.
pub(super) struct Evaluation {
    sig: Arc<Signature>,
    evaluate: Evaluate,
    args: Vec<Datum>,
    results: Vec<Datum>,
    /// The interpreter's time in the last run.
    interpreted: Duration,
    /// The dims of results in the caller's memory.
    dims: Vec<Vec<i64>>,
}

impl Evaluation {
    /// Runs by calling `evaluate`.
    pub(super) fn new(sig: &Arc<Signature>, evaluate: Evaluate) -> Self {
        Self {
            sig: sig.clone(),
            evaluate,
            args: vec![],
            results: vec![],
            interpreted: Duration::ZERO,
            dims: vec![],
        }
    }
}

impl std::fmt::Debug for Evaluation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Evaluation of {}", self.sig.name)
    }
}

impl Session for Evaluation {
    fn bind(&mut self, args: &[Datum]) -> Result<(), Error> {
        self.args = args.to_vec();
        Ok(())
    }

    fn run(&mut self) -> Result<(), Error> {
        (self.results, self.interpreted) = (self.evaluate)(&self.args)?;
        Ok(())
    }

    fn outputs(&mut self) -> Result<Vec<Datum>, Error> {
        Ok(self.results.clone())
    }

    fn run_into(
        &mut self,
        inputs: &[ArrayView<'_>],
        outputs: &mut [&mut [u8]],
    ) -> Result<(), Error> {
        let args = inputs
            .iter()
            .map(|input| input.to_tensor().map(Datum::from));
        let args: Vec<Datum> = args.collect::<Result<_, _>>()?;
        let (results, interpreted) = (self.evaluate)(&args)?;
        self.interpreted = interpreted;
        if results.len() != outputs.len() {
            let (takes, given) = (results.len(), outputs.len());
            let text = format!("the program has {takes} outputs, memory is given for {given}");
            return Err(Error::Memory(text));
        }
        self.dims.clear();
        let names = self.sig.results.iter();
        for ((result, memory), (name, _)) in results.iter().zip(outputs).zip(names) {
            let Datum::Tensor(tensor) = result else {
                let text = format!("output `{name}` is no array: its memory can't be given");
                return Err(Error::Memory(text));
            };
            let (bytes, given) = (tensor.bytes(), memory.len());
            let Some(place) = memory.get_mut(..bytes.len()) else {
                let needed = bytes.len();
                let text = format!("output `{name}` takes {needed} bytes, {given} are given");
                return Err(Error::Memory(text));
            };
            place.copy_from_slice(bytes);
            let dims = tensor.shape().iter().map(|&d| d as i64);
            self.dims.push(dims.collect());
        }
        Ok(())
    }

    fn required(&mut self, _: &[ArrayView<'_>]) -> Result<Option<Vec<Required>>, Error> {
        Ok(None)
    }

    fn dims(&self, output: usize) -> &[i64] {
        &self.dims[output]
    }

    fn interpreted(&self) -> Option<Duration> {
        Some(self.interpreted)
    }
}
