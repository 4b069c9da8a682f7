//! Memory that arrays of programs lie in.

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;

use heddle_runtime::Buffer;

use crate::Error;

/// A space of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Space {
    /// The memory of this process.
    Host,
    /// The memory of a device, by its number, which this process can't address.
    Device(u32),
}

/// Allocates memory in one space, and copies to and from it.
pub trait Memory: fmt::Debug + Send + Sync {
    /// The space.
    fn space(&self) -> Space;

    /// Zeroed memory, aligned for any program.
    fn alloc(&self, bytes: usize) -> Result<Block, Error>;

    /// Copies bytes to the beginning of a block of this memory.
    ///
    /// # Errors
    /// [`Error::Memory`] if the block is shorter or lies in another space.
    fn copy_in(&self, to: &mut Block, from: &[u8]) -> Result<(), Error>;

    /// Copies bytes from the beginning of a block of this memory.
    ///
    /// # Errors
    /// As for [`Memory::copy_in`].
    fn copy_out(&self, from: &Block, to: &mut [u8]) -> Result<(), Error>;
}

/// Bytes in some space. Given back on drop.
pub struct Block {
    space: Space,
    address: NonNull<u8>,
    bytes: usize,
    /// Returns the memory to its owner when dropped.
    _owner: Box<dyn Any + Send + Sync>,
}

// SAFETY: a block owns its bytes and hands them out under the usual borrowing rules.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// The space that it lies in.
    pub fn space(&self) -> Space {
        self.space
    }

    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The bytes, if this process can address them.
    pub fn host(&self) -> Option<&[u8]> {
        // SAFETY: host memory of this size, which the owner keeps.
        let bytes = || unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.bytes) };
        (self.space == Space::Host).then(bytes)
    }

    /// The bytes, if this process can address them.
    pub fn host_mut(&mut self) -> Option<&mut [u8]> {
        // SAFETY: host memory of this size, which the owner keeps and nobody else borrows.
        let bytes = || unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr(), self.bytes) };
        (self.space == Space::Host).then(bytes)
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({} bytes in {:?})", self.bytes, self.space)
    }
}

/// The memory of this process.
#[derive(Clone, Copy, Debug)]
pub struct HostMemory;

impl Memory for HostMemory {
    fn space(&self) -> Space {
        Space::Host
    }

    fn alloc(&self, bytes: usize) -> Result<Block, Error> {
        let mut buffer = Buffer::zeroed(bytes).map_err(|e| Error::Compiled {
            site: None,
            place: None,
            failure: None,
            error: Box::new(e.into()),
        })?;
        Ok(Block {
            space: Space::Host,
            // The buffer's bytes don't move with it.
            address: NonNull::from(&mut buffer[..]).cast(),
            bytes,
            _owner: Box::new(buffer),
        })
    }

    fn copy_in(&self, to: &mut Block, from: &[u8]) -> Result<(), Error> {
        let have = to.bytes;
        let to = to.host_mut().and_then(|to| to.get_mut(..from.len()));
        to.ok_or_else(|| unfit(have, from.len()))?
            .copy_from_slice(from);
        Ok(())
    }

    fn copy_out(&self, from: &Block, to: &mut [u8]) -> Result<(), Error> {
        let bytes = from.host().and_then(|from| from.get(..to.len()));
        to.copy_from_slice(bytes.ok_or_else(|| unfit(from.bytes, to.len()))?);
        Ok(())
    }
}

fn unfit(have: usize, bytes: usize) -> Error {
    Error::Memory(format!(
        "{bytes} bytes can't be copied to or from a block of {have} in this process"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_copied_and_bounded() {
        let mut block = HostMemory.alloc(100).unwrap();
        assert_eq!((block.bytes(), block.space()), (100, Space::Host));
        assert!(block.host().unwrap().iter().all(|b| *b == 0));
        HostMemory.copy_in(&mut block, &[1, 2, 3]).unwrap();
        block.host_mut().unwrap()[1] = 7;
        let mut out = [0; 4];
        HostMemory.copy_out(&block, &mut out).unwrap();
        assert_eq!(out, [1, 7, 3, 0]);
        assert!(HostMemory.copy_in(&mut block, &[0; 101]).is_err());
        assert!(HostMemory.copy_out(&block, &mut [0; 101]).is_err());
        assert!(HostMemory.alloc(usize::MAX / 2).is_err());
    }
}
