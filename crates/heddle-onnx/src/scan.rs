//! Checks of a protobuf message before it is decoded.
//!
//! The decoder recurses over nested messages and makes a struct of each, so a small hostile file
//! could exhaust the stack or the memory. This scan walks the wire format with a stack of its own
//! and refuses such files. It copies nothing; of tensor data it reads only variable-length numbers.

use heddle_ir::MAX_NESTING;

use crate::proto;

/// Kinds of messages, told apart by the messages nested in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `ModelProto`.
    Model,
    /// `TensorProto`.
    Tensor,
    /// `SequenceProto`.
    Sequence,
    /// `OptionalProto`.
    Optional,
    /// `MapProto`.
    Map,
    Graph,
    Node,
    Attribute,
    Function,
    Training,
    ValueInfo,
    Type,
    TypeTensor,
    TypeSequence,
    TypeMap,
    Shape,
    SparseTensor,
    Annotation,
    Device,
    Sharding,
    ShardedDim,
    /// A message without messages in it.
    Leaf,
}

/// Structs made by decoding may take this many bytes.
const MAX_DECODED: usize = 512 << 20;

/// Checks a message of this kind: well-formed, not too deep, not too many parts.
pub fn check(bytes: &[u8], kind: Kind) -> Result<(), String> {
    let mut reader = Reader { bytes, at: 0 };
    let mut open = vec![(kind, bytes.len())];
    let (mut graphs, mut decoded) = (0usize, 0usize);
    while let Some(&(kind, end)) = open.last() {
        if reader.at == end {
            open.pop();
            graphs -= (kind == Kind::Graph) as usize;
            continue;
        }
        let key = reader.varint(end)?;
        let field = (key >> 3) as u32;
        match key & 7 {
            // A number of a list that is not packed.
            0 => {
                reader.varint(end)?;
                decoded += size_of::<i64>();
            }
            1 => reader.skip(8, end)?,
            5 => reader.skip(4, end)?,
            2 => {
                let length = reader.varint(end)?;
                let from = reader.at;
                reader.skip(length, end)?;
                match kind.child(field) {
                    Some(child) => {
                        decoded += child.size();
                        // A graph takes three levels: the graph, the node, the attribute.
                        graphs += (child == Kind::Graph) as usize;
                        if graphs > MAX_NESTING || open.len() > 4 * MAX_NESTING {
                            return Err(format!("it nests deeper than {MAX_NESTING} levels"));
                        }
                        open.push((child, reader.at));
                        reader.at = from;
                    }
                    None => decoded += kind.growth(field, &bytes[from..reader.at]),
                }
            }
            other => return Err(format!("byte {}: wire type {other}", reader.at)),
        }
        if decoded > MAX_DECODED {
            return Err("it has too many parts".into());
        }
    }
    Ok(())
}

impl Kind {
    /// The kind of the message in this field, if it holds one.
    fn child(self, field: u32) -> Option<Kind> {
        use Kind::*;
        Some(match (self, field) {
            (Model, 7) => Graph,
            (Model, 20) => Training,
            (Model, 25) => Function,
            (Model, 8 | 14 | 26) => Leaf,
            (Graph, 1) | (Function, 7) => Node,
            (Graph, 5) => Tensor,
            (Graph, 11..=13) | (Function, 12) => ValueInfo,
            (Graph, 14) => Annotation,
            (Graph, 15) => SparseTensor,
            (Graph, 16) | (Annotation, 2) => Leaf,
            (Node, 5) | (Function, 11) => Attribute,
            (Node, 9) | (Function, 9 | 14) => Leaf,
            (Node, 10) => Device,
            (Device, 2) => Sharding,
            (Sharding, 3) => Leaf,
            (Sharding, 4) => ShardedDim,
            (ShardedDim, 2) => Leaf,
            (Attribute, 5 | 10) => Tensor,
            (Attribute, 6 | 11) => Graph,
            (Attribute, 22 | 23) => SparseTensor,
            (Attribute, 14 | 15) => Type,
            (Training, 1 | 2) => Graph,
            (Training, 3 | 4) => Leaf,
            (Tensor, 3 | 13 | 16) => Leaf,
            (SparseTensor, 1 | 2) => Tensor,
            (ValueInfo, 2) => Type,
            (ValueInfo, 4) => Leaf,
            (Type, 1 | 8) => TypeTensor,
            (Type, 4 | 9) => TypeSequence,
            (Type, 5) => TypeMap,
            (Type, 7) => Leaf,
            (TypeTensor, 2) => Shape,
            (TypeSequence, 1) | (TypeMap, 2) => Type,
            (Shape, 1) => Leaf,
            (Sequence, 3) | (Optional, 3) => Tensor,
            (Sequence, 4) | (Optional, 4) => SparseTensor,
            (Sequence | Map | Optional, 5) => Sequence,
            (Sequence | Optional, 6) => Map,
            (Sequence | Optional, 7) => Optional,
            _ => return None,
        })
    }

    /// Bytes that a text, bytes or packed field takes beside its contents.
    fn growth(self, field: u32, contents: &[u8]) -> usize {
        let width = match (self, field) {
            (Kind::Tensor, 4 | 9 | 10) => return 0,
            (Kind::Tensor, 5) => size_of::<i32>(),
            (Kind::Tensor, 1 | 7 | 11) | (Kind::Attribute, 8) => size_of::<i64>(),
            _ => return size_of::<String>(),
        };
        // A packed number ends with its first byte below 128.
        let numbers = contents.iter().filter(|byte| **byte < 0x80).count();
        (numbers * width).saturating_sub(contents.len())
    }

    /// Bytes that the decoded struct takes.
    fn size(self) -> usize {
        match self {
            Kind::Graph => size_of::<proto::GraphProto>(),
            Kind::Node => size_of::<proto::NodeProto>(),
            Kind::Attribute => size_of::<proto::AttributeProto>(),
            Kind::Function => size_of::<proto::FunctionProto>(),
            Kind::Training => size_of::<proto::TrainingInfoProto>(),
            Kind::ValueInfo => size_of::<proto::ValueInfoProto>(),
            Kind::Tensor => size_of::<proto::TensorProto>(),
            Kind::SparseTensor => size_of::<proto::SparseTensorProto>(),
            Kind::Optional => size_of::<proto::OptionalProto>(),
            Kind::Sequence => size_of::<proto::SequenceProto>(),
            _ => 128,
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn varint(&mut self, end: usize) -> Result<u64, String> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let Some(&byte) = self.bytes[..end].get(self.at) else {
                return Err(format!("it is cut short at byte {}", self.at));
            };
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(format!("byte {}: a number is too long", self.at))
    }

    fn skip(&mut self, count: u64, end: usize) -> Result<(), String> {
        match usize::try_from(count).ok().filter(|n| *n <= end - self.at) {
            Some(n) => {
                self.at += n;
                Ok(())
            }
            None => Err(format!(
                "byte {}: a field of {count} bytes goes beyond the end",
                self.at
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message that holds `inner` in this field.
    fn wrap(field: u32, inner: &[u8]) -> Vec<u8> {
        let mut out = vec![(field << 3 | 2) as u8];
        let mut length = inner.len();
        while length > 127 {
            out.push(length as u8 | 128);
            length >>= 7;
        }
        out.push(length as u8);
        out.extend_from_slice(inner);
        out
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = |levels: usize| {
            let mut bytes = vec![];
            for _ in 0..levels {
                bytes = wrap(1, &wrap(5, &wrap(6, &bytes)));
            }
            wrap(7, &bytes)
        };
        assert_eq!(check(&deep(200), Kind::Model), Ok(()));
        assert!(
            check(&deep(300), Kind::Model)
                .unwrap_err()
                .contains("nests")
        );
        let mut types = vec![];
        for _ in 0..10_000 {
            types = wrap(4, &wrap(1, &types));
        }
        let model = wrap(7, &wrap(11, &wrap(2, &types)));
        assert!(check(&model, Kind::Model).is_err());
    }

    #[test]
    fn groups_and_broken_lengths_are_refused() {
        assert!(check(&[0x0b; 1000], Kind::Model).is_err());
        assert!(check(&[0x3a, 0xff, 0xff, 0xff, 0xff, 0x0f, 0], Kind::Model).is_err());
        assert!(check(&[0xff; 64], Kind::Model).is_err());
        assert!(check(&[0x3a], Kind::Model).is_err());
    }

    #[test]
    fn many_empty_parts_are_refused() {
        let nodes: Vec<u8> = [0x0a, 0].repeat(4 << 20);
        assert!(
            check(&wrap(7, &nodes), Kind::Model)
                .unwrap_err()
                .contains("too many")
        );
    }

    #[test]
    fn decoded_leaves_count_too() {
        // A node's inputs without a name, and numbers of one byte each.
        let names: Vec<u8> = [0x0a, 0].repeat(24 << 20);
        let numbers = wrap(7, &vec![0; 80 << 20]);
        let lone: Vec<u8> = [7 << 3, 0].repeat(70 << 20);
        for graph in [wrap(1, &names), wrap(5, &numbers), wrap(5, &lone)] {
            let error = check(&wrap(7, &graph), Kind::Model).unwrap_err();
            assert!(error.contains("too many"), "{error}");
        }
        let numbers = wrap(7, &vec![0; 8 << 20]);
        assert_eq!(check(&wrap(7, &wrap(5, &numbers)), Kind::Model), Ok(()));
    }
}
