//! Whole programs: signatures, then bodies, helpers before those who call them.

use std::collections::HashMap;

use heddle_ir::{DType, Datum, Dim, DimBound, FuncId, Module, Signature, Type};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::body::Body;
use crate::{Config, data};

/// A function that bodies may call.
#[derive(Clone)]
pub(crate) struct Helper {
    pub(crate) id: FuncId,
    pub(crate) sig: Signature,
    /// The first parameter counts down the calls that may still follow.
    pub(crate) has_fuel: bool,
    /// Estimated number of instructions that a call evaluates.
    pub(crate) cost: u64,
}

/// The most fuel that a call from outside starts with.
pub(crate) const FUEL: i64 = 3;

pub(crate) fn generate(seed: u64, config: &Config) -> (Module, Vec<Datum>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut module = Module::default();
    let mut ready: Vec<Helper> = vec![];
    let count = rng.random_range(0..=config.functions);
    while ready.len() < count {
        // Two functions that call each other, one that calls itself, or one that does neither.
        let size = if count - ready.len() > 1 && rng.random_bool(0.3) {
            2
        } else {
            1
        };
        let has_fuel = size == 2 || rng.random_bool(0.5);
        let mut group = vec![];
        for _ in 0..size {
            let sig = signature(&mut rng, ready.len() + group.len(), has_fuel);
            group.push(Helper {
                id: module.declare(sig.clone()),
                sig,
                has_fuel,
                cost: 0,
            });
        }
        let mut cost = 0;
        for helper in &group {
            let peers: &[Helper] = if has_fuel { &group } else { &[] };
            let limit = if has_fuel {
                config.cost / 40
            } else {
                config.cost / 4
            };
            let mut body = Body::new(&mut rng, config, helper.sig.clone(), &ready, limit);
            let results = body.helper(helper, peers);
            cost += body.cost();
            let f = body.finish(results);
            assert_eq!(*f.sig, helper.sig, "seed {seed}: results are as declared");
            module.functions[helper.id] = f;
        }
        // At most two calls from each body.
        let calls = if has_fuel { (1 << (FUEL + 1)) - 1 } else { 1 };
        group.iter_mut().for_each(|h| h.cost = cost * calls + 1);
        ready.extend(group);
    }
    let (sig, inputs) = main_signature(&mut rng);
    let id = module.declare(sig.clone());
    let mut body = Body::new(&mut rng, config, sig, &ready, config.cost);
    let results = body.main();
    module.functions[id] = body.finish(results);
    module.set_entry(id);
    // By the seed and not by a draw, so that entries change no program.
    if seed % 8 == 7
        && let Some(helper) = ready.last()
    {
        module.entries.insert("another entry".into(), helper.id);
    }
    (module, inputs)
}

fn signature(rng: &mut ChaCha8Rng, index: usize, has_fuel: bool) -> Signature {
    let mut sig = Signature {
        name: match rng.random_range(0..4) {
            0 => format!("odd name/{index}"),
            _ => format!("f{index}"),
        },
        ..Signature::default()
    };
    if has_fuel {
        sig.params.push(("fuel".into(), Type::scalar(DType::I64)));
    }
    for i in 0..rng.random_range(1..4) {
        sig.params.push((format!("p{i}"), ty(rng, &["n", "m"])));
    }
    // Results may have sizes that a parameter has.
    let mut named = vec![];
    for (_, ty) in &sig.params {
        for dim in ty
            .as_tensor()
            .and_then(|t| t.shape.as_ref())
            .into_iter()
            .flatten()
        {
            named.extend(
                dim.as_expr()
                    .and_then(|e| e.as_sym())
                    .map(|s| s.to_string()),
            );
        }
    }
    let named: Vec<_> = named.iter().map(String::as_str).collect();
    for i in 0..rng.random_range(1..3) {
        sig.results.push((format!("r{i}"), ty(rng, &named)));
    }
    sig
}

/// A tensor type of up to 2 axes, of constant or named sizes.
fn ty(rng: &mut ChaCha8Rng, sizes: &[&str]) -> Type {
    let dtype = data::dtype(rng);
    let dims: Vec<_> = (0..rng.random_range(0..3))
        .map(|_| match sizes.is_empty() || rng.random_bool(0.5) {
            true => Dim::from(rng.random_range(0..4usize)),
            false => Dim::sym(sizes[rng.random_range(0..sizes.len())]),
        })
        .collect();
    Type::tensor(dtype, dims)
}

fn main_signature(rng: &mut ChaCha8Rng) -> (Signature, Vec<Datum>) {
    let mut sig = Signature {
        name: ["main", "main", "start here"][rng.random_range(0..3)].into(),
        ..Signature::default()
    };
    let names = ["n", "m", "batch size"];
    let sizes: HashMap<_, _> = names.map(|n| (n, rng.random_range(0..5usize))).into();
    let mut inputs = vec![];
    for i in 0..rng.random_range(1..5) {
        let name = match rng.random_range(0..5) {
            0 => format!("in put/{i}"),
            1 => format!("{i}"),
            _ => format!("x{i}"),
        };
        let ty = ty(rng, &names);
        let shape = concrete(&ty, &sizes);
        let dtype = ty.as_tensor().expect("a tensor type").dtype;
        let tensor = |rng: &mut ChaCha8Rng| Datum::Tensor(data::tensor(rng, dtype, shape.clone()));
        let (ty, datum) = match rng.random_range(0..12) {
            // Names that only the elements of a sequence have would be bound by nothing when it is
            // empty.
            0 if shape.is_empty() => {
                let items = (0..rng.random_range(0..4)).map(|_| tensor(rng)).collect();
                (Type::Seq(Box::new(ty)), Datum::Seq(items))
            }
            1 if shape.is_empty() => {
                let item = rng.random_bool(0.5).then(|| Box::new(tensor(rng)));
                (Type::Opt(Box::new(ty)), Datum::Opt(item))
            }
            _ => (ty, tensor(rng)),
        };
        sig.params.push((name, ty));
        inputs.push(datum);
    }
    for name in names {
        if rng.random_bool(0.3) {
            let max = rng.random_bool(0.7).then(|| rng.random_range(4..10));
            sig.bounds.insert(name.into(), DimBound { min: 0, max });
        }
    }
    (sig, inputs)
}

fn concrete(ty: &Type, sizes: &HashMap<&str, usize>) -> Vec<usize> {
    let dims = ty.as_tensor().and_then(|t| t.shape.as_ref());
    let size = |d: &Dim| match d.as_expr().and_then(|e| e.as_sym()) {
        Some(name) => sizes[name.as_ref()],
        None => d.as_const().unwrap_or(0) as usize,
    };
    dims.into_iter().flatten().map(size).collect()
}
