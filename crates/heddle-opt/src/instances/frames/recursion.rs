//! The functions of a recursion, in the sizes of their caller.

use std::collections::HashMap;

use heddle_ir::{Dim, FuncBuilder, FuncId, Function, Module, Op, Type, Value};

use crate::inline_calls::bind;
use crate::instances::Context;
use crate::instances::calls::type_of_one;
use crate::instances::lane::Lane;

/// Functions that call each other. The first is the one that is called from outside.
pub(super) struct Recursion<'a> {
    pub module: &'a Module,
    pub ids: Vec<FuncId>,
    /// The functions; a size is one of the caller's, or not stated.
    pub functions: Vec<Function>,
    /// For each parameter the first function's parameter that all calls pass on as it is.
    pub kept: Vec<Vec<Option<usize>>>,
}

/// Sizes of the caller by their names in a function.
type Sizes = HashMap<String, Option<Dim>>;

impl<'a> Recursion<'a> {
    pub fn of(context: &Context<'a>, b: &FuncBuilder, callee: FuncId, args: &[Lane]) -> Self {
        let module = context.module;
        let mut ids = context.components().of(callee).to_vec();
        ids.sort_by_key(|id| (*id != callee, *id));
        let types: Vec<Type> = args.iter().map(|&lane| type_of_one(b, lane)).collect();
        let functions = in_sizes_of_caller(module, &ids, &types);
        let mut recursion = Recursion {
            module,
            ids,
            functions,
            kept: vec![],
        };
        recursion.kept = recursion.find_kept();
        recursion
    }

    /// The number of a function among these.
    pub fn place(&self, id: FuncId) -> Option<usize> {
        self.ids.iter().position(|own| *own == id)
    }

    /// The number of the function that an instruction calls, if it is one of these.
    pub fn callee(&self, op: &Op) -> Option<usize> {
        match op {
            Op::Call(id) => self.place(*id),
            _ => None,
        }
    }

    /// The parameters of a function.
    pub fn params(&self, function: usize) -> &[Value] {
        let function = &self.functions[function];
        &function.regions[function.body].params
    }

    fn find_kept(&self) -> Vec<Vec<Option<usize>>> {
        // `None` until a call is seen.
        let mut origins: Vec<Vec<Option<Origin>>> = (0..self.ids.len())
            .map(|k| match k {
                0 => (0..self.params(0).len())
                    .map(|p| Some(Origin::Param(p)))
                    .collect(),
                _ => vec![None; self.params(k).len()],
            })
            .collect();
        loop {
            let before = origins.clone();
            for (k, function) in self.functions.iter().enumerate() {
                function.for_each_inst(&mut |_, data| {
                    let Some(callee) = self.callee(&data.op) else {
                        return;
                    };
                    for (place, arg) in data.args.iter().enumerate() {
                        let own = self.params(k).iter().position(|p| p == arg);
                        let origin = match own {
                            Some(own) => before[k][own],
                            None => Some(Origin::Varies),
                        };
                        let known = &mut origins[callee][place];
                        *known = match (*known, origin) {
                            (None, x) | (x, None) => x,
                            (x, y) if x == y => x,
                            _ => Some(Origin::Varies),
                        };
                    }
                });
            }
            if before == origins {
                break;
            }
        }
        let param = |origin| match origin {
            Some(Origin::Param(p)) => Some(p),
            _ => None,
        };
        let all = origins.into_iter();
        all.map(|of| of.into_iter().map(param).collect()).collect()
    }
}

/// The value of a parameter in all calls.
#[derive(Clone, Copy, PartialEq)]
enum Origin {
    /// That of the first function's parameter.
    Param(usize),
    /// Another one in each.
    Varies,
}

/// The functions with the caller's sizes in place of their own names. A name that is not the same
/// size in all calls is an unknown size.
fn in_sizes_of_caller(module: &Module, ids: &[FuncId], args: &[Type]) -> Vec<Function> {
    let mut sizes: Vec<Sizes> = vec![Sizes::new(); ids.len()];
    for ((_, param), arg) in module.functions[ids[0]].sig.params.iter().zip(args) {
        bind(param, arg, &mut sizes[0]);
    }
    loop {
        let before = sizes.clone();
        for (k, id) in ids.iter().enumerate() {
            let function = &module.functions[*id];
            function.for_each_inst(&mut |_, data| {
                let Op::Call(callee) = data.op else { return };
                let Some(place) = ids.iter().position(|own| *own == callee) else {
                    return;
                };
                let params = &module.functions[callee].sig.params;
                for ((_, param), arg) in params.iter().zip(&data.args) {
                    let arg = renamed(function.ty(*arg), &before[k]);
                    bind(param, &arg, &mut sizes[place]);
                }
            });
        }
        if before == sizes {
            break;
        }
    }
    let own = ids.iter().zip(&sizes).map(|(id, sizes)| {
        let mut function = module.functions[*id].clone();
        for value in function.values.keys().collect::<Vec<_>>() {
            let ty = renamed(&function.values[value].ty, sizes);
            function.values[value].ty = ty;
        }
        function
    });
    own.collect()
}

fn renamed(ty: &Type, sizes: &Sizes) -> Type {
    ty.map_dims(&mut |dim| dim.substitute(&|name| sizes.get(name).cloned().flatten()))
}
