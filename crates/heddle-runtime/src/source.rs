//! An emitted program: its text, constants and memory plan.

use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use heddle_abi::Plan;

use crate::buffer::{ALIGNMENT, Buffer};
use crate::error::MemoryError;
use crate::slab::Slice;

/// An emitted program. `include/heddle.h` states what the text defines.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The name in messages.
    pub name: String,
    /// The text. The header of its language is included before its first line.
    pub text: String,
    /// `env->constants`, in this order. Not part of the cache's key.
    pub constants: Vec<Constant>,
    /// The memory plan of a launch. Not part of the cache's key either: the text states which words
    /// of the table it reads.
    pub plan: Plan,
}

/// A constant, in the layout that the program reads.
#[derive(Clone, Debug)]
pub struct Constant {
    pub(crate) blob: Arc<Blob>,
    /// The alignment that the program relies on.
    alignment: usize,
}

/// Memory of a constant.
#[derive(Debug)]
pub(crate) enum Blob {
    Given(Bytes),
    Own(Buffer),
    Shared(Slice),
}

impl Deref for Blob {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Blob::Given(bytes) => bytes,
            Blob::Own(buffer) => buffer,
            Blob::Shared(slice) => slice,
        }
    }
}

#[repr(align(64))]
struct Zeros([u8; ALIGNMENT]);

static ZEROS: Zeros = Zeros([0; ALIGNMENT]);

impl Constant {
    /// A constant without elements. A load whose value is not used may still be executed.
    pub fn empty() -> Constant {
        Bytes::from_static(&ZEROS.0).into()
    }

    /// Bytes that the program reads where they are, at any address.
    pub fn in_place(bytes: Bytes) -> Constant {
        Constant {
            alignment: 1,
            ..bytes.into()
        }
    }

    /// The constant's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.blob
    }

    /// The constant at an address that the program can read, a multiple of `least`: itself, or a copy.
    pub(crate) fn aligned(self, least: usize) -> Result<Constant, MemoryError> {
        let alignment = self.alignment.max(least);
        if self.bytes().as_ptr().addr().is_multiple_of(alignment) {
            return Ok(self);
        }
        Ok(Buffer::copy_of(self.bytes())?.into())
    }
}

impl From<Arc<Blob>> for Constant {
    fn from(blob: Arc<Blob>) -> Constant {
        Constant {
            blob,
            alignment: ALIGNMENT,
        }
    }
}

/// Aligned already: never copied.
impl From<Buffer> for Constant {
    fn from(buffer: Buffer) -> Constant {
        Arc::new(Blob::Own(buffer)).into()
    }
}

/// Aligned as well.
impl From<Slice> for Constant {
    fn from(slice: Slice) -> Constant {
        Arc::new(Blob::Shared(slice)).into()
    }
}

/// Copied when a program is loaded, unless aligned by chance.
impl From<Bytes> for Constant {
    fn from(bytes: Bytes) -> Constant {
        Arc::new(Blob::Given(bytes)).into()
    }
}

impl From<Vec<u8>> for Constant {
    fn from(bytes: Vec<u8>) -> Constant {
        Bytes::from(bytes).into()
    }
}
