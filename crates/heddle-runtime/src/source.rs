//! An emitted program: its text, constants and memory plan.

use std::sync::Arc;

use bytes::Bytes;
use heddle_abi::Plan;

use crate::buffer::{ALIGNMENT, Buffer};
use crate::error::MemoryError;

/// An emitted program. `include/heddle.h` states what the text defines.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The name in messages.
    pub name: String,
    /// The C text. The header is included before its first line.
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
    holder: Holder,
    /// The alignment that the program relies on.
    alignment: usize,
}

#[derive(Clone, Debug)]
enum Holder {
    Shared(Bytes),
    Own(Arc<Buffer>),
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
            holder: Holder::Shared(bytes),
            alignment: 1,
        }
    }

    /// The constant's bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.holder {
            Holder::Shared(bytes) => bytes,
            Holder::Own(buffer) => buffer,
        }
    }

    /// The constant at an address that the program can read: itself, or a copy.
    pub(crate) fn aligned(self) -> Result<Constant, MemoryError> {
        if (self.bytes().as_ptr() as usize).is_multiple_of(self.alignment) {
            return Ok(self);
        }
        Ok(Arc::new(Buffer::copy_of(self.bytes())?).into())
    }
}

/// Aligned already: never copied.
impl From<Arc<Buffer>> for Constant {
    fn from(buffer: Arc<Buffer>) -> Constant {
        Constant {
            holder: Holder::Own(buffer),
            alignment: ALIGNMENT,
        }
    }
}

/// Copied when a program is loaded, unless aligned by chance.
impl From<Bytes> for Constant {
    fn from(bytes: Bytes) -> Constant {
        Constant {
            holder: Holder::Shared(bytes),
            alignment: ALIGNMENT,
        }
    }
}

impl From<Vec<u8>> for Constant {
    fn from(bytes: Vec<u8>) -> Constant {
        Bytes::from(bytes).into()
    }
}
