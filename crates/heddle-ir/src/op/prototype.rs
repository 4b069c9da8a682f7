//! One example of each op: what the text form starts from when it reads a name, and what tests go through.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::{
    BinaryOp, CompareOp, Extreme, Op, PadMode, ReduceOp, ScaleRounding, ScatterReduce, StrOp,
    UnaryOp,
};
use crate::{DType, Type};

impl Op {
    /// An op of every name that the text form writes as a function of operands, with arbitrary attributes. Constants and
    /// control flow are not among them.
    pub fn prototypes() -> &'static [Op] {
        &PROTOTYPES.ops
    }

    /// The prototype of this name.
    pub fn prototype(name: &str) -> Option<&'static Op> {
        PROTOTYPES.by_name.get(name).map(|&i| &PROTOTYPES.ops[i])
    }
}

struct Prototypes {
    ops: Vec<Op>,
    by_name: HashMap<&'static str, usize>,
}

static PROTOTYPES: LazyLock<Prototypes> = LazyLock::new(|| {
    let ops = all();
    let by_name = ops.iter().enumerate().map(|(i, op)| (op.name(), i));
    Prototypes {
        by_name: by_name.collect(),
        ops,
    }
});

fn all() -> Vec<Op> {
    let mut ops: Vec<Op> = UnaryOp::ALL.iter().map(|&kind| Op::Unary(kind)).collect();
    ops.extend(BinaryOp::ALL.iter().map(|&kind| Op::Binary(kind)));
    ops.extend(CompareOp::ALL.iter().map(|&kind| Op::Compare(kind)));
    ops.push(Op::RunKey);
    ops.push(Op::Fail { message: "".into() });
    ops.extend(arrays());
    ops.extend(reductions());
    ops.extend(containers());
    ops.extend(strings());
    ops
}

fn arrays() -> Vec<Op> {
    let (axis, reduce) = (0, ScatterReduce::Set);
    vec![
        Op::Select,
        Op::Cast {
            to: DType::F32,
            saturate: true,
            round: ScaleRounding::Up,
        },
        Op::Bitcast { to: DType::F32 },
        Op::Shape,
        Op::Reshape,
        Op::Transpose { perm: vec![] },
        Op::Unsqueeze { axes: vec![] },
        Op::Squeeze { axes: vec![] },
        Op::Broadcast,
        Op::Slice { axes: vec![] },
        Op::Concat { axis },
        Op::Pad {
            mode: PadMode::Constant,
        },
        Op::Gather { axis },
        Op::GatherElements { axis },
        Op::GatherNd { batch_dims: 0 },
        Op::ScatterElements { axis, reduce },
        Op::ScatterNd { reduce },
        Op::UpdateSlice,
        Op::Range,
        Op::NonZero,
    ]
}

fn reductions() -> Vec<Op> {
    let (kind, axis, keep) = (ReduceOp::Sum, 0, false);
    let ones = Vec::new;
    vec![
        Op::Reduce {
            kind,
            axes: vec![],
            keep,
        },
        Op::ArgReduce {
            kind: Extreme::Max,
            axis,
            keep,
            last: false,
        },
        Op::Cumulative {
            kind,
            axis,
            exclusive: false,
            reverse: false,
        },
        Op::SegmentReduce { kind },
        Op::TopK {
            axis,
            kind: Extreme::Max,
        },
        Op::Unique {
            axis: None,
            sorted: true,
        },
        Op::Dot,
        Op::Conv {
            strides: ones(),
            dilations: ones(),
            input_dilations: ones(),
            groups: 1,
        },
        Op::Window {
            kind,
            window: ones(),
            strides: ones(),
            dilations: ones(),
        },
    ]
}

fn containers() -> Vec<Op> {
    let elem = || Type::scalar(DType::F32);
    let axis = 0;
    vec![
        Op::SeqNew { elem: elem() },
        Op::SeqInsert,
        Op::SeqErase,
        Op::SeqAt,
        Op::SeqLen,
        Op::SeqConcat { axis, stack: false },
        Op::SeqSplit {
            axis,
            squeeze: false,
        },
        Op::OptSome,
        Op::OptNone { elem: elem() },
        Op::OptHas,
        Op::OptGet,
    ]
}

fn strings() -> [Op; 4] {
    let ops = [
        StrOp::Concat,
        StrOp::Split {
            delimiter: None,
            max_splits: None,
        },
        StrOp::FullMatch { pattern: "".into() },
        StrOp::Normalize {
            case: None,
            case_sensitive: true,
            stopwords: Arc::new([]),
        },
    ];
    ops.map(Op::Str)
}
