//! Constants in memory, in the layouts that programs read. A constant in a layout is there once in
//! a process, whatever programs, parts and models use it.

use std::cmp::Reverse;

use heddle_emit::Constants;
use heddle_onnx::Mapped;
use heddle_runtime::cache::{Cache, Key};
use heddle_runtime::{BuildError, Constant, MemoryError, Slabs, weights};

use crate::{CompileOptions, Error, Packed, options};

/// Version of the layouts. Another one means that equal numbers of [`heddle_emit::Constant::layout`] stand for other bytes.
const FORMAT: &[u8] = concat!("1 ", env!("CARGO_PKG_VERSION")).as_bytes();

/// Smaller constants are not worth a file.
const SMALLEST_CACHED: usize = 64 << 10;

/// The constants of a program, in order. Tables that lie in a mapped file stay there. Of the
/// others, no page of a file stays in memory behind its copy.
pub(crate) fn constants(
    constants: &Constants,
    options: &CompileOptions,
) -> Result<Vec<Constant>, Error> {
    // Passes read constants that they replaced.
    Mapped::release_all();
    let cache = match options.packed {
        Packed::Cache => cache(constants, options),
        Packed::Memory => None,
    };
    let mut all: Vec<_> = constants.iter().enumerate().collect();
    // The large ones first: a source and its copy exist together while the copy is made.
    all.sort_by_key(|(_, constant)| Reverse(constant.size()));
    let mut slabs = Slabs::of(all.iter().map(|(_, constant)| constant.size()));
    let made = all.into_iter().map(|(k, constant)| {
        let made = made(&constant, cache.as_ref(), &mut slabs)?;
        slabs.pass(constant.size());
        Ok((k, made))
    });
    let mut made: Vec<_> = made
        .collect::<Result<_, MemoryError>>()
        .map_err(BuildError::from)?;
    made.sort_by_key(|(k, _)| *k);
    Ok(made.into_iter().map(|(_, constant)| constant).collect())
}

/// The cache, if it has room for these constants besides others.
fn cache(constants: &Constants, options: &CompileOptions) -> Option<Cache> {
    let cache = options::cache(&options.build());
    let size: usize = constants.iter().map(|c| c.size()).sum();
    (size as u64 <= cache.limit() / 2).then_some(cache)
}

fn made(
    constant: &heddle_emit::Constant,
    cache: Option<&Cache>,
    slabs: &mut Slabs,
) -> Result<Constant, MemoryError> {
    if constant.size() == 0 {
        return Ok(Constant::empty());
    }
    let source = constant.source().bytes();
    let mapped = Mapped::of(source);
    if let Some(mapped) = mapped.as_ref().filter(|_| constant.is_table()) {
        mapped.scattered();
        return Ok(Constant::in_place(source.clone()));
    }
    let content = match &mapped {
        Some(mapped) => mapped.identity(),
        None => Key::new(&[source]).to_string().into_bytes(),
    };
    let layout = constant.layout();
    let numbers: Vec<u8> = layout.iter().flat_map(|n| n.to_le_bytes()).collect();
    let key = Key::new(&[FORMAT, &content, &numbers]);
    if layout.is_empty() && mapped.is_none() {
        return weights::shared_as_is(key, source, slabs);
    }
    let is_cached = constant.size() >= SMALLEST_CACHED
        && mapped.as_ref().is_none_or(|mapped| mapped.is_settled());
    let write = |out: &mut [u8]| {
        constant.write(out, &mut |read| {
            if let Some(mapped) = &mapped {
                mapped.release(read);
            }
        });
    };
    match cache.filter(|_| is_cached) {
        Some(cache) => weights::shared_in(cache, key, constant.size(), write),
        None => weights::shared(key, constant.size(), slabs, write),
    }
}
