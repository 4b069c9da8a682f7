//! Calls of functions that are evaluated elsewhere.

use std::collections::HashMap;
use std::time::Duration;

use heddle_ir::{Datum, FuncId};

use crate::context::Context;
use crate::error::Fault;
use crate::marshal;
use crate::value::{Array, Val};

/// Functions of a module that are evaluated elsewhere: those of its parts that are compiled.
pub trait Natives {
    /// Whether calls of a function may be evaluated here.
    fn takes(&self, callee: FuncId) -> bool;

    /// Evaluates a call within what is left. `None` leaves it to the interpreter.
    ///
    /// # Errors
    ///
    /// What went wrong, for people: [`Fault::Native`](crate::Fault::Native).
    fn call(
        &self,
        callee: FuncId,
        args: &[Datum],
        left: &Left,
    ) -> Option<Result<Vec<Datum>, String>>;
}

/// What a run may still use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Time, if it is limited.
    pub time: Option<Duration>,
    /// Bytes.
    pub memory: u64,
    /// Levels that calls may nest.
    pub depth: usize,
}

/// Arguments of smaller arrays are made anew for each call.
const LARGE: usize = 16 << 10;

/// Arguments of the calls before: what stays the same around a loop, such as weights, is not copied in each iteration.
#[derive(Default)]
pub struct Arguments {
    last: HashMap<(FuncId, usize), Last>,
}

/// An argument of the call before.
struct Last {
    address: usize,
    /// The array, which keeps its address from being another one's, and the argument: from the second call on.
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
