//! A loop taken apart.

use heddle_ir::{Function, Inst, Op, Region, Value};

/// The operands and the border of a loop's body.
pub struct Loop {
    pub trip: Option<Value>,
    /// The condition before the first iteration.
    pub cond: Option<Value>,
    /// The condition after an iteration.
    pub next_cond: Option<Value>,
    /// What the carried values start as.
    pub inits: Vec<Value>,
    pub body: Region,
    pub iteration: Value,
    /// The carried values in the body.
    pub params: Vec<Value>,
    /// What the carried values become.
    pub next: Vec<Value>,
    pub stacked: Vec<Value>,
}

impl Loop {
    /// Takes an instruction apart if it is a loop.
    pub fn of(func: &Function, inst: Inst) -> Option<Self> {
        let data = &func.insts[inst];
        let Op::Loop { trip, cond } = data.op else {
            return None;
        };
        let body = data.regions[0];
        let region = &func.regions[body];
        let (control, fixed) = (trip as usize + cond as usize, cond as usize);
        let carried = region.params.len() - 1;
        Some(Self {
            trip: trip.then(|| data.args[0]),
            cond: cond.then(|| data.args[trip as usize]),
            next_cond: cond.then(|| region.yields[0]),
            inits: data.args[control..].to_vec(),
            body,
            iteration: region.params[0],
            params: region.params[1..].to_vec(),
            next: region.yields[fixed..fixed + carried].to_vec(),
            stacked: region.yields[fixed + carried..].to_vec(),
        })
    }
}
