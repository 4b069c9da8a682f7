//! The parts of a loop by name, in place of positions among operands, parameters, yields and results.

use crate::{Function, Inst, Op, Region, Value};

/// The two optional parts of a loop, which fix where all others are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopForm {
    /// There is a trip count.
    pub trip: bool,
    /// There is a condition.
    pub cond: bool,
}

/// A loop's operands, or something that stands for each of them.
#[derive(Debug)]
pub struct LoopOperands<'a, T> {
    /// The trip count.
    pub trip: Option<&'a T>,
    /// The condition before the first iteration.
    pub cond: Option<&'a T>,
    /// The carried values before the first iteration.
    pub inits: &'a [T],
}

/// The values that a loop's body yields, or something that stands for each of them.
#[derive(Debug)]
pub struct LoopYields<'a, T> {
    /// The condition after an iteration.
    pub cond: Option<&'a T>,
    /// The carried values after an iteration.
    pub next: &'a [T],
    /// One element of each scan output.
    pub stacked: &'a [T],
}

impl LoopForm {
    /// A loop with these parts.
    pub fn new(trip: bool, cond: bool) -> Self {
        Self { trip, cond }
    }

    /// The form of an op, if it is a loop.
    pub fn of(op: &Op) -> Option<Self> {
        match *op {
            Op::Loop { trip, cond } => Some(Self { trip, cond }),
            _ => None,
        }
    }

    /// The number of operands before the carried values.
    pub fn control(self) -> usize {
        self.trip as usize + self.cond as usize
    }

    /// Splits operands. Panics if there are fewer than the loop takes.
    pub fn operands<T>(self, args: &[T]) -> LoopOperands<'_, T> {
        let (control, inits) = args.split_at(self.control());
        LoopOperands {
            trip: control.first().filter(|_| self.trip),
            cond: control.last().filter(|_| self.cond),
            inits,
        }
    }

    /// Splits what the body of a loop with so many carried values yields; `None` if that is too little.
    pub fn yields<T>(self, yields: &[T], carried: usize) -> Option<LoopYields<'_, T>> {
        let (cond, rest) = yields.split_at_checked(self.cond as usize)?;
        let (next, stacked) = rest.split_at_checked(carried)?;
        Some(LoopYields {
            cond: cond.first(),
            next,
            stacked,
        })
    }
}

/// A loop instruction taken apart, to be read or, with other parts, put together again.
#[derive(Clone, Debug)]
pub struct LoopView {
    /// The trip count.
    pub trip: Option<Value>,
    /// The condition before the first iteration.
    pub cond: Option<Value>,
    /// The carried values before the first iteration.
    pub inits: Vec<Value>,
    /// The body.
    pub body: Region,
    /// The number of the iteration, a parameter of the body.
    pub iteration: Value,
    /// The carried values, parameters of the body.
    pub params: Vec<Value>,
    /// The condition after an iteration, which the body yields.
    pub next_cond: Option<Value>,
    /// The carried values after an iteration, which the body yields.
    pub next: Vec<Value>,
    /// One element of each scan output, which the body yields.
    pub stacked: Vec<Value>,
    /// The carried values after the last iteration, results of the loop.
    pub last: Vec<Value>,
    /// The scan outputs, results of the loop.
    pub scans: Vec<Value>,
}

impl LoopView {
    /// Takes an instruction apart if it is a loop.
    pub fn of(func: &Function, inst: Inst) -> Option<Self> {
        let data = &func.insts[inst];
        let yields = &func.regions[*data.regions.first()?].yields;
        Self::with(func, inst, &data.args, yields)
    }

    /// [`LoopView::of`] an instruction whose operands and whose body's yields are these by now.
    pub fn with(func: &Function, inst: Inst, args: &[Value], yields: &[Value]) -> Option<Self> {
        let data = &func.insts[inst];
        let form = LoopForm::of(&data.op)?;
        let body = data.regions[0];
        let (iteration, params) = func.regions[body].params.split_first()?;
        let operands = form.operands(args);
        let yields = form.yields(yields, params.len())?;
        let (last, scans) = data.results.split_at(params.len());
        Some(Self {
            trip: operands.trip.copied(),
            cond: operands.cond.copied(),
            inits: operands.inits.to_vec(),
            body,
            iteration: *iteration,
            params: params.to_vec(),
            next_cond: yields.cond.copied(),
            next: yields.next.to_vec(),
            stacked: yields.stacked.to_vec(),
            last: last.to_vec(),
            scans: scans.to_vec(),
        })
    }

    /// The op of a loop with these parts.
    pub fn op(&self) -> Op {
        Op::Loop {
            trip: self.trip.is_some(),
            cond: self.cond.is_some(),
        }
    }

    /// The operands in order.
    pub fn args(&self) -> Vec<Value> {
        let control = self.trip.into_iter().chain(self.cond);
        control.chain(self.inits.iter().copied()).collect()
    }

    /// The body's parameters in order.
    pub fn body_params(&self) -> Vec<Value> {
        let carried = self.params.iter().copied();
        std::iter::once(self.iteration).chain(carried).collect()
    }

    /// The body's yields in order.
    pub fn yields(&self) -> Vec<Value> {
        let cond = self.next_cond.into_iter();
        let rest = self.next.iter().chain(&self.stacked).copied();
        cond.chain(rest).collect()
    }

    /// The results in order.
    pub fn results(&self) -> Vec<Value> {
        [self.last.as_slice(), &self.scans].concat()
    }

    /// Removes the condition before and after an iteration.
    pub fn drop_cond(&mut self) {
        (self.cond, self.next_cond) = (None, None);
    }

    /// Keeps only the carried values and scan outputs for which there is `true`.
    pub fn retain(&mut self, carried: &[bool], scans: &[bool]) {
        for values in [
            &mut self.inits,
            &mut self.params,
            &mut self.next,
            &mut self.last,
        ] {
            retain(values, carried);
        }
        for values in [&mut self.stacked, &mut self.scans] {
            retain(values, scans);
        }
    }
}

fn retain(values: &mut Vec<Value>, keep: &[bool]) {
    let mut keep = keep.iter();
    values.retain(|_| keep.next().copied().unwrap_or(true));
}
