//! Drops unused operators.

use heddle_ir::{Arena, Entity};

use crate::program::{Operator, OperatorId, Stmt, UProgram};

impl UProgram {
    /// Drops the operators that no statement runs and renumbers the others in their order. Unused
    /// buffers stay, since constants are numbered by their buffers.
    pub fn drop_idle_operators(&mut self) {
        let running = self.running();
        if running.len() == self.operators.len() {
            return;
        }
        let mut kept: Arena<OperatorId, Operator> = Arena::new();
        let mut numbers = vec![OperatorId::new(0); self.operators.len()];
        for &id in &running {
            numbers[id.index()] = kept.push(self.operators[id].clone());
        }
        self.operators = kept;
        self.for_each_stmt_mut(&mut |stmt| {
            if let Stmt::Run(id) = stmt {
                *id = numbers[id.index()];
            }
        });
        let candidates = std::mem::take(&mut self.candidates).into_iter();
        let candidates = candidates.filter(|(id, _)| running.contains(id));
        self.candidates = candidates.map(|(id, c)| (numbers[id.index()], c)).collect();
    }
}
