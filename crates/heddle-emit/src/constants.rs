//! The constants of a program.

use bytes::Bytes;
use heddle_uprogram::UProgram;
use heddle_uprogram::program::BufferKind;

/// What `env->constants` of a program must point to. It shares the model's memory until it is packed, and no pass of the scheduler
/// changes it, so that it can be packed on another thread meanwhile.
#[derive(Clone, Debug)]
pub struct Constants(Vec<BufferKind>);

impl Constants {
    /// Those of a program, scheduled or not.
    pub fn of(program: &UProgram) -> Self {
        let kinds = program.buffers.iter().map(|(_, b)| &b.kind);
        Self(kinds.filter(|kind| is_constant(kind)).cloned().collect())
    }

    /// Each in the layout that the program reads, in order. None is empty: a load whose value is not used may still be done.
    pub fn packed(&self) -> impl Iterator<Item = Bytes> {
        let nothing = || Bytes::from_static(&[0; 64]);
        self.0.iter().filter_map(move |kind| match kind {
            BufferKind::Constant(tensor) if tensor.is_empty() => Some(nothing()),
            BufferKind::Constant(tensor) => Some(tensor.bytes().clone()),
            BufferKind::Packed(panels) if panels.is_empty() => Some(nothing()),
            BufferKind::Packed(panels) => Some(panels.pack()),
            _ => None,
        })
    }
}

/// Whether a buffer of this kind has a place in `env->constants`.
pub fn is_constant(kind: &BufferKind) -> bool {
    matches!(kind, BufferKind::Constant(_) | BufferKind::Packed(_))
}
