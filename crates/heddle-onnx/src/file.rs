//! Files: mapped, looked over, decoded.

use std::path::Path;

use bytes::Bytes;
use prost::Message;

use crate::ImportError;
use crate::mapped::map_file;
use crate::proto::ModelProto;
use crate::scan::{self, Kind};

/// Stack for decoding and importing: both recurse over nested graphs, to a bounded depth.
const STACK: usize = 256 << 20;

/// Part of the stack that a caller with such a stack may have used already.
const USED: usize = 1 << 20;

/// Runs `work` on a stack large enough for the deepest accepted model: the present one, if it is.
pub fn with_stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK - USED, STACK, work)
}

/// Maps a file.
pub fn open(path: &Path) -> Result<Bytes, ImportError> {
    map_file(path).map_err(|source| ImportError::Io {
        path: path.to_owned(),
        source,
    })
}

/// Reads a file's messages without importing them, for tools that describe models. Nested graphs
/// make the messages deep: walk over them and drop them on a large stack.
pub fn read_proto(path: &Path) -> Result<ModelProto, ImportError> {
    with_stack(|| decode(path, open(path)?, Kind::Model))
}

/// [`read_proto`] of bytes; `name` stands for the file in errors.
pub fn decode_proto(name: &Path, bytes: Bytes) -> Result<ModelProto, ImportError> {
    with_stack(|| decode(name, bytes, Kind::Model))
}

/// Decodes a message of this kind. Bytes in it are views of `bytes`.
pub fn decode<M: Message + Default>(
    path: &Path,
    bytes: Bytes,
    kind: Kind,
) -> Result<M, ImportError> {
    let malformed = |message: String| ImportError::Malformed {
        path: path.to_owned(),
        message,
    };
    scan::check(&bytes, kind).map_err(malformed)?;
    M::decode(bytes).map_err(|e| malformed(e.to_string()))
}
