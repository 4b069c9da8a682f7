//! The constants of all programs of this process: one buffer for each content and layout.
//!
//! A constant is known by a key. Programs that ask for the same key share a buffer, which is freed
//! with the last of them. A buffer may lie in the cache on disk: then it is mapped, and processes
//! share its pages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;

use crate::buffer::{ALIGNMENT, Buffer};
use crate::cache::{Cache, Key};
use crate::error::MemoryError;
use crate::slab::Slabs;
use crate::source::{Blob, Constant};

/// A place for a buffer. It is locked while the buffer is written, so that others wait for it.
type Slot = Arc<Mutex<Weak<Blob>>>;

/// The kind of constants in the cache.
const KIND: &str = "weights";

static SLOTS: Mutex<Option<HashMap<Key, Slot>>> = Mutex::new(None);

/// The constants that programs hold now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The number of buffers.
    pub buffers: usize,
    /// Bytes of all buffers.
    pub bytes: usize,
}

/// The constant of this key and size. `write` gets zeroed memory of a slab if no program has it.
pub fn shared(
    key: Key,
    size: usize,
    slabs: &mut Slabs,
    write: impl FnOnce(&mut [u8]),
) -> Result<Constant, MemoryError> {
    known_or(key, || {
        let mut slice = slabs.take(size)?;
        write(&mut slice);
        Ok(slice.into())
    })
}

/// Like [`shared`], with the bytes in the cache: `write` is called only if no process has stored
/// them before. If they cannot be stored they stay in memory.
pub fn shared_in(
    cache: &Cache,
    key: Key,
    size: usize,
    write: impl FnOnce(&mut [u8]),
) -> Result<Constant, MemoryError> {
    let stored = || Some(Constant::from(cache.map(KIND, key, size)?));
    known_or(key, || {
        if let Some(constant) = stored() {
            return Ok(constant);
        }
        let _lock = cache.lock(key);
        if let Some(constant) = stored() {
            return Ok(constant);
        }
        let mut buffer = Buffer::zeroed(size)?;
        write(&mut buffer);
        let put = cache.put(KIND, key, &buffer);
        let constant = put.ok().and_then(|_| stored());
        Ok(constant.unwrap_or_else(|| buffer.into()))
    })
}

/// The constant of this key, which is these bytes if no program has it: themselves, if they are
/// aligned, or a copy.
pub fn shared_as_is(key: Key, bytes: &Bytes, slabs: &mut Slabs) -> Result<Constant, MemoryError> {
    match bytes.as_ptr().addr().is_multiple_of(ALIGNMENT) {
        true => known_or(key, || Ok(bytes.clone().into())),
        false => shared(key, bytes.len(), slabs, |out| out.copy_from_slice(bytes)),
    }
}

fn known_or(
    key: Key,
    make: impl FnOnce() -> Result<Constant, MemoryError>,
) -> Result<Constant, MemoryError> {
    let slot = slot(key);
    let mut weak = lock(&slot);
    if let Some(blob) = weak.upgrade() {
        return Ok(blob.into());
    }
    let constant = make()?;
    *weak = Arc::downgrade(&constant.blob);
    Ok(constant)
}

/// The constants that programs hold now.
pub fn held() -> Held {
    let mut held = Held::default();
    let slots: Vec<Slot> = lock(&SLOTS)
        .iter()
        .flat_map(|s| s.values().cloned())
        .collect();
    for buffer in slots.iter().filter_map(|slot| lock(slot).upgrade()) {
        held.buffers += 1;
        held.bytes += buffer.len();
    }
    held
}

fn slot(key: Key) -> Slot {
    let mut slots = lock(&SLOTS);
    let slots = slots.get_or_insert_default();
    if slots.len() == slots.capacity() {
        let is_used = |slot: &Slot| Arc::strong_count(slot) > 1 || lock(slot).strong_count() > 0;
        slots.retain(|_, slot| is_used(slot));
    }
    slots.entry(key).or_default().clone()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(key: &str, byte: u8) -> Constant {
        let key = Key::new(&[b"test", key.as_bytes()]);
        shared(key, 100, &mut Slabs::default(), |out| out.fill(byte)).unwrap()
    }

    #[test]
    fn a_key_has_one_buffer() {
        let (a, b, c) = (get("1", 1), get("1", 2), get("2", 3));
        assert_eq!(a.bytes().as_ptr(), b.bytes().as_ptr());
        assert_eq!((a.bytes()[99], c.bytes()[0]), (1, 3));
        drop((a, b));
        assert_eq!(get("1", 4).bytes()[50], 4);
    }

    #[test]
    fn threads_wait_for_the_one_that_writes() {
        let writes = Mutex::new(0);
        let one = || {
            let slabs = &mut Slabs::default();
            shared(Key::new(&[b"slow"]), 1 << 21, slabs, |out| {
                *lock(&writes) += 1;
                std::thread::sleep(std::time::Duration::from_millis(50));
                out.fill(1);
            })
        };
        let all = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
            let all = threads.into_iter().map(|t| t.join().unwrap().unwrap());
            all.collect::<Vec<_>>()
        });
        assert!(all.iter().all(|c| c.bytes().iter().all(|&b| b == 1)));
        assert_eq!(*lock(&writes), 1);
        let before = held();
        assert!(before.buffers >= 1 && before.bytes >= 1 << 21);
    }

    #[test]
    fn forgotten_keys_take_no_room() {
        for key in 0..10_000 {
            get(&key.to_string(), 0);
        }
        let slots = lock(&SLOTS).as_ref().map_or(0, HashMap::len);
        assert!(slots < 1000, "{slots}");
    }
}
