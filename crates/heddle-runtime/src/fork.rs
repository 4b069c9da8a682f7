//! Processes that fork. A child has the memory of its parent and none of its threads but the one that forked, so whatever has threads is
//! made anew there, when it is used next.

use std::ffi::c_int;
use std::fmt;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Number of forks between the first process and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

type Handler = Option<unsafe extern "C" fn()>;

unsafe extern "C" {
    fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
}

unsafe extern "C" fn count() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// The generation of this process. It costs no system call.
pub fn generation() -> u32 {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the handler does what a child may do: it adds to an atomic. A system without memory for it counts no forks.
        let _ = unsafe { pthread_atfork(None, None, Some(count)) };
    });
    GENERATION.load(Ordering::Relaxed)
}

/// A value of this process alone. What the parent made is left as it is, and never dropped: its threads can't be waited for, and its
/// locks may be held by them.
pub struct PerProcess<T>(AtomicPtr<Made<T>>);

struct Made<T> {
    generation: u32,
    value: T,
}

impl<T> PerProcess<T> {
    /// No value yet.
    pub const fn none() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// A value of this process.
    pub fn of(value: T) -> Self {
        Self(AtomicPtr::new(Self::boxed(value)))
    }

    /// The value, which is made if this process has none.
    pub fn get_or_try<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        let found = self.0.load(Ordering::Acquire);
        // SAFETY: nothing frees what the pointer is to before `self` is dropped.
        if let Some(made) = unsafe { found.as_ref() }
            && made.generation == generation()
        {
            return Ok(&made.value);
        }
        let new = Self::boxed(make()?);
        let order = Ordering::AcqRel;
        let current = match self
            .0
            .compare_exchange(found, new, order, Ordering::Acquire)
        {
            Ok(_) => new,
            Err(other) => {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
                other
            }
        };
        // SAFETY: as above; another thread of this process made it.
        Ok(unsafe { &(*current).value })
    }

    fn boxed(value: T) -> *mut Made<T> {
        let generation = generation();
        Box::into_raw(Box::new(Made { generation, value }))
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let made = *self.0.get_mut();
        // SAFETY: it was boxed here, and `self` is its only owner.
        unsafe {
            if !made.is_null() && (*made).generation == generation() {
                drop(Box::from_raw(made));
            }
        }
    }
}

// SAFETY: it hands out references and drops what it owns, as a box would.
unsafe impl<T: Send + Sync> Sync for PerProcess<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Send for PerProcess<T> {}

impl<T> fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PerProcess")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_value_is_made_once_and_dropped_once() {
        let seen = Arc::new(());
        let value = PerProcess::none();
        assert_eq!(value.get_or_try(|| Err::<Arc<()>, _>("no")), Err("no"));
        for _ in 0..3 {
            value.get_or_try(|| Ok::<_, ()>(seen.clone())).unwrap();
            assert_eq!(Arc::strong_count(&seen), 2);
        }
        drop(value);
        assert_eq!(Arc::strong_count(&seen), 1);
    }

    #[test]
    fn what_another_process_made_is_left() {
        let seen = Arc::new(());
        let mut value = PerProcess::of(seen.clone());
        // As after a fork.
        let made = *value.0.get_mut();
        unsafe { (*made).generation = generation().wrapping_sub(1) };
        value.get_or_try(|| Ok::<_, ()>(seen.clone())).unwrap();
        assert_eq!(Arc::strong_count(&seen), 3);
        drop(value);
        assert_eq!(Arc::strong_count(&seen), 2);
    }
}
