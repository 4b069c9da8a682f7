//! Calls of compiled functions.

use std::collections::HashMap;
use std::time::Duration;

use heddle_ir::{Datum, FuncId};

use crate::context::Context;
use crate::error::Fault;
use crate::marshal;
use crate::value::{Array, Val};

/// The compiled functions of a module.
pub trait Natives {
    /// True for a function whose calls may be evaluated here.
    fn takes(&self, callee: FuncId) -> bool;

    /// Evaluates a call within a budget. `None` leaves it to the interpreter.
    ///
    /// # Errors
    ///
    /// A message for people: [`Fault::Native`](crate::Fault::Native).
    fn call(
        &self,
        callee: FuncId,
        args: &[Datum],
        budget: &Budget,
    ) -> Option<Result<Vec<Datum>, String>>;
}

/// Time, memory and depth that a run may still use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Time, if it is limited.
    pub time: Option<Duration>,
    /// Bytes.
    pub memory: u64,
    /// Levels that calls may nest.
    pub depth: usize,
}

/// Number of elements up to which an argument is copied for each call.
const LARGE: usize = 16 << 10;

/// Arguments of earlier calls: a loop copies its invariant ones, such as weights, only once.
#[derive(Default)]
pub struct Arguments {
    last: HashMap<(FuncId, usize), Last>,
}

/// An argument of the previous call.
struct Last {
    address: usize,
    /// The array, which keeps its address in use, and the argument; from the second call on.
    kept: Option<(Array, Datum)>,
}

impl Arguments {
    /// The arguments of a call.
    pub fn of(&mut self, callee: FuncId, args: &[Val], cx: &Context) -> Result<Vec<Datum>, Fault> {
        let args = args.iter().enumerate();
        args.map(|(i, val)| match val {
            Val::Tensor(array) if array.shape.iter().product::<usize>() > LARGE => {
                self.large(callee, i, array, cx)
            }
            val => marshal::to_datum(val, cx),
        })
        .collect()
    }

    fn large(
        &mut self,
        callee: FuncId,
        i: usize,
        array: &Array,
        cx: &Context,
    ) -> Result<Datum, Fault> {
        let address = array.data.address();
        let last = self.last.get(&(callee, i)).filter(|l| l.address == address);
        if let Some((kept, datum)) = last.and_then(|l| l.kept.as_ref())
            && kept.shape == array.shape
        {
            return Ok(datum.clone());
        }
        let again = last.is_some();
        let datum = marshal::to_datum(&Val::Tensor(array.clone()), cx)?;
        let kept = again.then(|| (array.clone(), datum.clone()));
        self.last.insert((callee, i), Last { address, kept });
        Ok(datum)
    }
}
