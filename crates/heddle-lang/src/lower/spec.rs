//! Recursive functions become functions of the graph IR, one for each combination of argument types.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use heddle_ir::{Dim, FuncBuilder, Signature, Type, Value};

use super::declared::Sizes;
use super::{Frame, Lower, Result, Spec, Stop};
use crate::lexer::Span;
use crate::value::{List, Ty, Val};

/// Limit of combinations of argument types.
const MAX_SPECS: usize = 256;

/// The types of results widen at most so often.
const MAX_PASSES: usize = 16;

impl<'a> Lower<'a> {
    /// A call of a recursive function.
    pub(super) fn call_spec(
        &mut self,
        k: usize,
        args: Vec<Val<'a>>,
        sizes: &Sizes,
        span: Span,
    ) -> Result<Val<'a>> {
        let mut passed = vec![];
        for arg in args {
            let arg = self.concrete(arg, span)?;
            passed.push(match arg {
                Val::List(
                    list @ List {
                        columns: Some(_), ..
                    },
                ) => Val::List(self.with_start(list)),
                arg @ Val::Built { .. } => self.with_row_of(arg, span)?,
                arg => arg,
            });
        }
        for input in &self.facts[k].inputs {
            let val = self.frame.inputs.get(input);
            let val = val.ok_or_else(|| self.error(span, "an input is not known here"))?;
            passed.push(val.clone());
        }
        let types: Vec<Ty> = passed.iter().map(|v| self.ty(v)).collect();
        let mut operands = vec![];
        passed.iter().for_each(|v| self.flatten(v, &mut operands));
        for store in stores(&types) {
            let columns = self.frame.stores[&store].clone();
            columns
                .values()
                .for_each(|v| self.flatten(v, &mut operands));
        }
        let types = types.into_iter().map(of_any_length).collect();
        let types = self.without_lost_sizes(types, &operands);
        let key = (k, types);
        let at = match self.specs.get_index_of(&key) {
            Some(at) => at,
            None => self.new_spec(key, sizes, span)?,
        };
        let (_, spec) = self.specs.get_index(at).expect("it was just found");
        let (id, Some(result)) = (spec.id, spec.result.clone()) else {
            return Err(Stop::Open);
        };
        let mut types = vec![];
        Self::flat_types(&result, &mut types);
        let mut sig = (*self.module.functions[id].sig).clone();
        sig.results = named(types);
        self.locate(span);
        let results = self.frame.b.call(id, &sig, &operands);
        let results = results.map_err(self.misfit(span))?;
        Ok(self.unflatten(&result, &mut results.into_iter()))
    }

    /// Types in which only those sizes have names that the function's arguments give.
    fn without_lost_sizes(&self, types: Vec<Ty>, operands: &[Value]) -> Vec<Ty> {
        let mut given: BTreeSet<Arc<str>> = BTreeSet::new();
        for &v in operands {
            let dims = self.tensor_type(v).and_then(|t| t.shape.as_ref());
            let names = dims
                .into_iter()
                .flatten()
                .filter_map(|d| d.as_expr()?.as_sym());
            given.extend(names.cloned());
        }
        let mut keep = |dim: &Dim| {
            let mut lost = false;
            if let Some(expr) = dim.as_expr() {
                expr.for_each_sym(&mut |name| lost |= !given.contains(name));
            }
            if lost { Dim::UNKNOWN } else { dim.clone() }
        };
        types.iter().map(|t| t.map_dims(&mut keep)).collect()
    }

    /// Declares a function and builds it. The outermost one builds all that it calls until their
    /// types settle.
    fn new_spec(&mut self, key: (usize, Vec<Ty>), sizes: &Sizes, span: Span) -> Result<usize> {
        let f = &self.ast.functions[key.0];
        let name = &f.name.text;
        if self.specs.len() == MAX_SPECS {
            let message = format!("`{name}` is called with ever new types");
            return Err(self.error(span, message));
        }
        let mut params = vec![];
        key.1.iter().for_each(|t| Self::flat_types(t, &mut params));
        for store in stores(&key.1) {
            for column in self.frame.stores[&store].values() {
                Self::flat_types(&self.ty(column), &mut params);
            }
        }
        let earlier = self.specs.keys().filter(|(k, _)| *k == key.0).count();
        let own_name = match earlier {
            0 => name.clone(),
            n => format!("{name}.{}", n + 1),
        };
        let sig = Signature {
            name: own_name,
            params: params
                .into_iter()
                .enumerate()
                .map(|(i, ty)| (format!("a{i}"), ty))
                .collect(),
            origin: (earlier > 0).then(|| name.as_str().into()),
            ..Signature::default()
        };
        let id = self.module.declare(sig);
        let result = f.result.as_ref().and_then(|ty| self.expected(ty, sizes));
        let (at, _) = self.specs.insert_full(key, Spec { id, result });
        self.building += 1;
        self.build(at, span)?;
        if self.building == 1 {
            let mut passes = 0;
            while std::mem::take(&mut self.changed) {
                passes += 1;
                if passes > MAX_PASSES {
                    return Err(self.error(span, format!("the type of `{name}` does not settle")));
                }
                for at in at..self.specs.len() {
                    self.build(at, span)?;
                }
            }
            if self.specs[at].result.is_none() {
                let message = format!("`{name}` calls itself in every case, and never ends");
                return Err(self.error_with(
                    span,
                    message,
                    "one case must give a value without a call",
                ));
            }
        }
        self.building -= 1;
        Ok(at)
    }

    /// Builds the body of a function with what is known of the types of results.
    fn build(&mut self, at: usize, span: Span) -> Result<()> {
        let ((k, types), spec) = self.specs.get_index(at).expect("specs are only added");
        let (k, types, id) = (*k, types.clone(), spec.id);
        let count = self.ast.functions[k].params.len();
        let mut sig = (*self.module.functions[id].sig).clone();
        sig.results = vec![];
        let b = FuncBuilder::new(sig);
        let mut params = b.params().to_vec().into_iter();
        let mut vals: Vec<Val> = types
            .iter()
            .map(|t| self.unflatten(t, &mut params))
            .collect();
        let inputs = self.facts[k]
            .inputs
            .iter()
            .copied()
            .zip(vals.split_off(count))
            .collect();
        let stores = stores(&types).into_iter().map(|store| {
            let columns = self.frame.stores[&store].iter();
            let columns = columns.map(|(key, v)| (*key, self.unflatten(&self.ty(v), &mut params)));
            (store, Rc::new(columns.collect()))
        });
        let frame = Frame {
            stores: stores.collect(),
            b,
            env: vec![],
            inputs,
            nesting: 0,
        };
        let calls = self.calls;
        let vertex = self.vertex.take();
        let outer = std::mem::replace(&mut self.frame, frame);
        let built = self.body(k, vals, at, span);
        let frame = std::mem::replace(&mut self.frame, outer);
        self.vertex = vertex;
        self.calls = calls;
        match built {
            Err(Stop::Open) => Ok(()),
            Err(error) => Err(error),
            Ok(results) => {
                let results = results.into_iter().enumerate();
                let results: Vec<_> = results.map(|(i, v)| (format!("r{i}"), v)).collect();
                self.module.functions[id] = frame.b.finish(&results);
                Ok(())
            }
        }
    }

    /// The results of a function's body, of the types that are known of them, which may widen.
    fn body(&mut self, k: usize, args: Vec<Val<'a>>, at: usize, span: Span) -> Result<Vec<Value>> {
        let f = &self.ast.functions[k];
        let mut val = self.in_place(k, args, span)?;
        if let Some(ty) = &f.result {
            let what = || format!("the result of `{}`", f.name.text);
            val = self.declared(val, ty, &mut Sizes::default(), &what, f.body.span)?;
        }
        let val = self.concrete(val, span)?;
        let val = match val {
            Val::List(list @ List { start: Some(_), .. }) => {
                super::list::whole(self.settled(list, span)?)
            }
            val => val,
        };
        let found = self.ty(&val);
        let known = self.specs[at].result.clone();
        let joined = match &known {
            None => found.clone(),
            Some(known) => known.join(&found).ok_or_else(|| {
                let (a, b) = (self.show(known), self.show(&found));
                self.error(f.body.span, format!("`{}` gives {a} and {b}", f.name.text))
            })?,
        };
        let settled = known.is_some_and(|k| k.alike(&joined) && k.accepts(&joined));
        self.changed |= !settled;
        let val = self.convert(val, &joined, span)?;
        self.specs[at].result = Some(joined);
        let mut results = vec![];
        self.flatten(&val, &mut results);
        Ok(results)
    }
}

/// The stores that values of these types have places in.
fn stores(types: &[Ty]) -> BTreeSet<usize> {
    let mut all = BTreeSet::new();
    for ty in types {
        ty.for_each_store(&mut |store| {
            all.insert(store);
        });
    }
    all
}

/// The type of an argument; tables that the program made grow from call to call.
fn of_any_length(ty: Ty) -> Ty {
    match ty {
        Ty::Built(..) => ty.shrinks(),
        Ty::Tuple(all) => Ty::Tuple(all.into_iter().map(of_any_length).collect()),
        other => other,
    }
}

fn named(types: Vec<Type>) -> Vec<(String, Type)> {
    let types = types.into_iter().enumerate();
    types.map(|(i, ty)| (format!("r{i}"), ty)).collect()
}
