//! The constants of a program.

use bytes::Bytes;
use heddle_uprogram::UProgram;
use heddle_uprogram::program::BufferKind;

/// The contents of `env->constants`. They share the model's memory until they are packed; no
/// scheduling pass changes them, so another thread can pack them meanwhile.
#[derive(Clone, Debug)]
pub struct Constants(Vec<BufferKind>);

impl Constants {
    /// The constants of a program, scheduled or not.
    pub fn of(program: &UProgram) -> Self {
        let kinds = program.buffers.iter().map(|(_, b)| &b.kind);
        Self(kinds.filter(|kind| is_constant(kind)).cloned().collect())
    }

    /// Each in its packed layout, in order. None is empty: a load whose value is not used may still
    /// be executed.
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

/// True if a buffer of this kind is part of `env->constants`.
pub fn is_constant(kind: &BufferKind) -> bool {
    matches!(kind, BufferKind::Constant(_) | BufferKind::Packed(_))
}
