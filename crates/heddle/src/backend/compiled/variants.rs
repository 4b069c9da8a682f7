//! The same operators run another way, for a compiled program to be compared with.

use std::sync::Arc;

use heddle_ir::Datum;
use heddle_uprogram::UProgram;

use super::Compiled;
use super::session::CompiledSession;
use crate::backend::interface::{Layout, Lowered, Session};
use crate::ports::Ports;
use crate::stages::{layout, prove};
use crate::{Error, RunOptions};

type Write = fn(&UProgram, &Layout, &heddle_emit::Dialect) -> heddle_emit::Emitted;

impl Compiled {
    /// A program made of this one, written and built.
    fn variant(&self, program: UProgram, ports: Ports, write: Write) -> Result<Self, Error> {
        let layout = layout(&program)?;
        let lowered = Lowered {
            emitted: write(&program, &layout, self.setup.dialect),
            constants: self.constants.clone(),
            program,
            layout,
            ports,
        };
        Self::build(lowered, self.sig.clone(), &self.setup)
    }

    /// The same operators, with control flow that the calling thread runs: it dispatches one operator after the other to
    /// all workers.
    pub(super) fn on_host(&self) -> Result<Self, Error> {
        if self.setup.verify {
            // A dispatch begins when all units have done the one before.
            let mut dispatched = self.program.clone();
            heddle_schedule::sync_everywhere(&mut dispatched);
            prove(
                "the program that the host runs",
                &dispatched,
                &self.setup.machine,
            )?;
        }
        let (program, ports) = (self.program.clone(), self.ports.clone());
        self.variant(program, ports, heddle_emit::write_hosted)
    }

    /// The same operators without control flow: in the order in which a run on these inputs executes them.
    pub(super) fn traced(&self, args: &[Datum], options: &RunOptions) -> Result<Self, Error> {
        let machine = self.setup.machine.clone();
        let mut recording = self.program.clone();
        let own = recording.outputs.len();
        heddle_schedule::record_decisions(&mut recording);
        heddle_schedule::place_syncs(&mut recording, &machine);
        let check = |what, program: &UProgram| match self.setup.verify {
            true => prove(what, program, &machine),
            false => Ok(()),
        };
        check("the program that records", &recording)?;
        let recording = self.variant(recording, self.ports.clone(), heddle_emit::write)?;
        let mut session = CompiledSession::new(Arc::new(recording), options);
        session.bind(args)?;
        let outputs = session.launch()?;
        let count = outputs.data(own + 1).first_chunk().copied();
        let count = count.map_or(0, i64::from_le_bytes);
        let mut traced = heddle_schedule::replay(&self.program, outputs.data(own), count)?;
        heddle_schedule::place_syncs(&mut traced, &machine);
        check("the traced program", &traced)?;
        self.variant(traced, self.ports.clone(), heddle_emit::write)
    }
}
