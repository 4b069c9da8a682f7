//! Random programs on arrays that differ in size by instance.

use std::collections::{BTreeMap, HashMap, HashSet};

use heddle_gen::{Config, generate};
use heddle_ir::{DType, Dim, Type};
use heddle_opt::{inline_calls, optimize};

use super::Form::{self, Flat, Ragged, Shared, Stacked};
use super::{Datum, compare, tensor};
use crate::common::{Random, draw_tensor, variable};

/// The name of the first size, if it is one.
fn first_name(ty: &Type) -> Option<String> {
    let first = ty.as_tensor()?.shape.as_ref()?.first()?;
    Some(first.as_expr()?.as_sym()?.to_string())
}

/// Do sizes behind the first mention the name?
fn mentions(ty: &Type, name: &str) -> bool {
    let shape = ty.as_tensor().and_then(|t| t.shape.as_ref());
    let mut rest = shape.into_iter().flatten().enumerate();
    rest.any(|(k, dim)| {
        let is_it = k == 0 && dim.as_expr().is_some_and(|e| e.as_sym().is_some());
        let mut found = false;
        if let Some(expr) = dim.as_expr() {
            expr.for_each_sym(&mut |sym| found |= **sym == *name);
        }
        found && !is_it
    })
}

fn is_plain(ty: &Type) -> bool {
    ty.as_tensor().is_some_and(|t| {
        let shape = t.shape.as_deref();
        let rest = shape.and_then(|s| s.get(1..)).unwrap_or(&[]);
        t.dtype != DType::Str
            && shape.is_some()
            && rest.iter().all(|d| !matches!(d, Dim::Unknown(_)))
    })
}

#[test]
fn random_programs_on_ranges() {
    let first = variable("HEDDLE_SEED", 0);
    let count = variable("HEDDLE_PROGRAMS", 500);
    let (mut done, mut alone) = (0, BTreeMap::<String, u32>::new());
    for seed in first..first + count {
        let config = Config {
            functions: 1,
            steps: 1 + (seed % 8) as usize,
            depth: 2,
            ..Config::default()
        };
        let (mut module, inputs) = generate(seed, &config);
        inline_calls(&mut module);
        if seed % 4 < 2 {
            optimize(&mut module);
        }
        let sig = &module.entry().sig;
        let types: Vec<&Type> = sig.params.iter().map(|(_, ty)| ty).collect();
        let are_plain = types.iter().all(|ty| is_plain(ty));
        if !are_plain || !sig.results.iter().all(|(_, ty)| is_plain(ty)) {
            continue;
        }
        // Sizes that are those of first axes only may differ.
        let names: Vec<String> = types.iter().filter_map(|ty| first_name(ty)).collect();
        let results = sig.results.iter().map(|(_, ty)| ty);
        let all: Vec<&Type> = results.chain(types.iter().copied()).collect();
        let free = |name: &String| !all.iter().any(|ty| mentions(ty, name));
        let names: Vec<String> = names.into_iter().filter(free).collect();
        let is_ragged = |ty: &Type| first_name(ty).is_some_and(|name| names.contains(&name));
        if names.is_empty() {
            continue;
        }
        let mut random = Random(seed);
        let form = |ty: &&Type| match is_ragged(ty) {
            true => Ragged,
            false if random.below(2) == 0 => Stacked,
            false => Shared,
        };
        let forms: Vec<Form> = types.iter().map(form).collect();
        let number = 1 + random.below(7);
        let instances: Vec<Vec<Datum>> = (0..number)
            .map(|k| {
                let mut sizes = HashMap::new();
                let own = inputs.iter().zip(&forms).zip(&types);
                own.map(|((input, form), ty)| match (k, form) {
                    (0, _) | (_, Shared) => input.clone(),
                    _ => {
                        let t = tensor(input);
                        let mut shape = t.shape().to_vec();
                        if let (Ragged, Some(name)) = (form, first_name(ty)) {
                            let least = sig.bounds.get(name.as_str()).map_or(0, |b| b.min);
                            let size = sizes.entry(name);
                            shape[0] =
                                *size.or_insert_with(|| least as usize + random.below(5) as usize);
                        }
                        Datum::Tensor(draw_tensor(t.dtype(), shape, &mut random))
                    }
                })
                .collect()
            })
            .collect();
        if let Some(batch) = compare(&module, &forms, &instances) {
            done += 1;
            for left in batch.one_by_one {
                let name = format!("{}: {}", left.op, left.refusal);
                *alone.entry(name).or_default() += 1;
            }
        }
    }
    println!("{done} programs; one by one: {alone:#?}");
    assert!(
        done * 20 > count,
        "too few were compared: {done} of {count}"
    );
}

/// The names of sizes in a type.
fn names_in(ty: &Type) -> HashSet<String> {
    let mut names = HashSet::new();
    let shape = ty.as_tensor().and_then(|t| t.shape.as_ref());
    for dim in shape.into_iter().flatten().filter_map(Dim::as_expr) {
        dim.for_each_sym(&mut |sym| {
            names.insert(sym.to_string());
        });
    }
    names
}

/// The shape of an input with these sizes; that of the input that is given where a size is not
/// stated.
fn shape_with(ty: &Type, like: &[usize], sizes: &HashMap<String, usize>) -> Option<Vec<usize>> {
    let dims = ty.as_tensor()?.shape.as_ref()?;
    let own = dims.iter().zip(like).map(|(dim, &like)| {
        let size = |name: &str| Some(Dim::constant(*sizes.get(name)? as i64));
        match dim {
            Dim::Unknown(_) => Some(like),
            dim => usize::try_from(dim.substitute(&size).as_const()?).ok(),
        }
    });
    own.collect()
}

/// Sizes of any axes differ; inputs and results are elements with shapes.
#[test]
fn random_programs_on_arrays_with_shapes() {
    let first = variable("HEDDLE_SEED", 0);
    let count = variable("HEDDLE_PROGRAMS", 300);
    let (mut done, mut alone) = (0, BTreeMap::<String, u32>::new());
    for seed in first..first + count {
        let config = Config {
            functions: 1,
            steps: 1 + (seed % 6) as usize,
            depth: 1,
            ..Config::default()
        };
        let (mut module, inputs) = generate(seed, &config);
        inline_calls(&mut module);
        let sig = &module.entry().sig;
        let is_array = |ty: &&Type| {
            ty.as_tensor()
                .is_some_and(|t| t.dtype != DType::Str && t.shape.is_some())
        };
        let types: Vec<&Type> = sig.params.iter().map(|(_, ty)| ty).collect();
        let results: Vec<&Type> = sig.results.iter().map(|(_, ty)| ty).collect();
        if !types.iter().chain(&results).all(is_array) {
            continue;
        }
        let mut random = Random(seed);
        let all: HashSet<String> = types.iter().flat_map(|ty| names_in(ty)).collect();
        let mut differing: Vec<String> = all.into_iter().collect();
        differing.sort();
        differing.retain(|_| random.below(3) > 0);
        let mut form = |ty: &&Type| {
            let own = names_in(ty);
            match own.iter().any(|name| differing.contains(name)) {
                false if random.below(2) == 0 => Stacked,
                false => Shared,
                true => Flat,
            }
        };
        let forms: Vec<Form> = types.iter().map(&mut form).collect();
        if !forms.contains(&Flat) {
            continue;
        }
        let mut known = HashMap::new();
        for (input, ty) in inputs.iter().zip(&types) {
            let dims = ty.as_tensor().and_then(|t| t.shape.clone());
            for (dim, &size) in dims.iter().flatten().zip(tensor(input).shape()) {
                if let Some(name) = dim.as_expr().and_then(|e| e.as_sym()) {
                    known.insert(name.to_string(), size);
                }
            }
        }
        let number = 1 + random.below(5);
        let mut instances: Vec<Vec<Datum>> = vec![];
        for k in 0..number {
            let mut sizes = known.clone();
            for name in &differing {
                let least = sig.bounds.get(name.as_str()).map_or(0, |b| b.min);
                sizes.insert(name.clone(), least as usize + random.below(5) as usize);
            }
            let own = inputs.iter().zip(&forms).zip(&types);
            let own = own.map(|((input, form), ty)| {
                if k == 0 || *form == Shared {
                    return Some(input.clone());
                }
                let like = tensor(input);
                let shape = shape_with(ty, like.shape(), &sizes)?;
                Some(Datum::Tensor(draw_tensor(like.dtype(), shape, &mut random)))
            });
            instances.extend(own.collect::<Option<Vec<Datum>>>());
        }
        if let Some(batch) = compare(&module, &forms, &instances) {
            done += 1;
            for left in batch.one_by_one {
                let name = format!("{}: {}", left.op, left.refusal);
                *alone.entry(name).or_default() += 1;
            }
        }
    }
    println!("{done} programs; one by one: {alone:#?}");
    assert!(
        done * 50 > count,
        "too few were compared: {done} of {count}"
    );
}
