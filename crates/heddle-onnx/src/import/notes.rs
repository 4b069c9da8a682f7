//! Notes on outputs that are not what the file declares.

use super::messages::short_name;
use crate::proto::{AttributeProto, GraphProto, NodeProto};

/// The most labels that a note lists.
const MAX_LABELS: usize = 16;

/// A note for each ZipMap of the main graph: the IR has no maps, so that its output is the array of the
/// values of all keys.
pub fn of_maps(graph: &GraphProto) -> Vec<String> {
    let is_map = |n: &&NodeProto| n.domain() == "ai.onnx.ml" && n.op_type() == "ZipMap";
    let note = |node: &NodeProto| {
        let output = node.output.first().map_or(short_name(node), |o| o);
        let labels = labels(node);
        let mut listed = labels.iter().take(MAX_LABELS).cloned().collect::<Vec<_>>();
        if labels.len() > MAX_LABELS {
            listed.push(format!("… ({} in all)", labels.len()));
        }
        let listed = listed.join(", ");
        format!("`{output}` is an array in place of maps, with a column for each label: {listed}")
    };
    graph.node.iter().filter(is_map).map(note).collect()
}

fn labels(node: &NodeProto) -> Vec<String> {
    let list = |a: &AttributeProto| match a.name() {
        "classlabels_int64s" => a.ints.iter().map(i64::to_string).collect(),
        "classlabels_strings" => {
            let texts = a.strings.iter();
            texts
                .map(|s| format!("{:?}", String::from_utf8_lossy(s)))
                .collect()
        }
        _ => vec![],
    };
    node.attribute.iter().flat_map(list).collect()
}
