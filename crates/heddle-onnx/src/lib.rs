//! ONNX files to graph IR, and ONNX test data.
//!
//! [`load`] maps a file, checks its nesting, decodes it and imports its graphs and functions. Weights
//! are views of the mapped files: nothing is copied, and no weight is touched until the program
//! runs. Whatever the bytes are, the outcome is a module or an [`ImportError`].

mod error;
mod file;
mod folder;
mod import;
mod mapped;
pub mod ops;
pub mod proto;
mod refusal;
mod scan;
mod sparse;
mod tensor;
mod testdata;
mod types;

pub use error::{ImportError, NodeError, OpError, Part, UnsupportedOp};
pub use file::{decode_proto, read_proto};
pub use folder::DataFolder;
pub use import::{ImportOptions, Imported, load, load_bytes};
pub use mapped::{Mapped, map_file, open_file};
pub use refusal::Refusal;
pub use testdata::{read_datum, read_label};
pub use types::TypeFault;
