//! An emitted program: its text, constants and memory plan.

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
pub struct Constant(Holder);

#[derive(Clone, Debug)]
enum Holder {
    Shared(Bytes),
    Own(std::sync::Arc<Buffer>),
}

impl Constant {
    /// The constant's bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Holder::Shared(bytes) => bytes,
            Holder::Own(buffer) => buffer,
        }
    }

    /// The constant at an aligned address: itself, or a copy. Done when a program is loaded.
    pub fn aligned(self) -> Result<Constant, MemoryError> {
        if (self.bytes().as_ptr() as usize).is_multiple_of(ALIGNMENT) {
            return Ok(self);
        }
        Ok(Buffer::copy_of(self.bytes())?.into())
    }
}

/// Aligned already: never copied.
impl From<Buffer> for Constant {
    fn from(buffer: Buffer) -> Constant {
        Constant(Holder::Own(buffer.into()))
    }
}

/// Copied when a program is loaded, unless aligned by chance.
impl From<Bytes> for Constant {
    fn from(bytes: Bytes) -> Constant {
        Constant(Holder::Shared(bytes))
    }
}

impl From<Vec<u8>> for Constant {
    fn from(bytes: Vec<u8>) -> Constant {
        Bytes::from(bytes).into()
    }
}
