//! Sequences and text as the arrays that stand for them in a compiled program.

use bytes::{Bytes, BytesMut};
use heddle_ir::{Datum, Tensor};
use heddle_opt::{SequenceForm, SequenceLayout as Layout};

/// The arrays that stand for a sequence. `None` if it does not fit the form.
pub(crate) fn flattened(form: &SequenceForm, items: &[Datum]) -> Option<Vec<Tensor>> {
    let items = items.iter().map(|item| match item {
        Datum::Tensor(t) => {
            let fits = form.layout == Layout::Ragged || t.shape().len() == form.dims.len();
            (t.dtype() == form.dtype && fits).then_some(t)
        }
        _ => None,
    });
    let items: Vec<&Tensor> = items.collect::<Option<_>>()?;
    let axis = match form.layout {
        Layout::Pieces(axis) => axis,
        _ => 0,
    };
    let width = form.dtype.bits() / 8;
    let mut data = BytesMut::new();
    for item in &items {
        data.extend(moved(
            item.bytes(),
            item.shape(),
            width,
            axis,
            Direction::First,
        ));
    }
    // An empty sequence does not tell the sizes of its elements: unknown ones become zero.
    let declared = || form.dims.iter().map(|d| d.as_const().unwrap_or(0) as usize);
    let first = items.first().map(|t| t.shape().to_vec());
    let mut shape = first.unwrap_or_else(|| declared().collect());
    let counts: Vec<usize> = match form.layout {
        Layout::Rows => vec![1; items.len()],
        Layout::Pieces(axis) => items.iter().map(|t| t.shape()[axis]).collect(),
        Layout::Flat | Layout::Ragged => items.iter().map(|t| t.len()).collect(),
    };
    match form.layout {
        Layout::Rows if items.iter().any(|t| t.shape() != shape) => return None,
        Layout::Rows => {}
        Layout::Pieces(axis) => drop(shape.remove(axis)),
        Layout::Flat | Layout::Ragged => shape.clear(),
    }
    shape.insert(0, counts.iter().sum());
    let mut arrays = vec![Tensor::new(form.dtype, shape, data.freeze()).ok()?];
    if form.layout != Layout::Rows {
        arrays.push(offsets(counts));
    }
    let dims = items.iter().flat_map(|t| t.shape());
    let dims: Vec<i64> = dims.map(|&d| d as i64).collect();
    match form.layout {
        Layout::Flat => {
            let shape = vec![items.len(), form.dims.len()];
            arrays.push(Tensor::from_slice(shape, &dims));
        }
        Layout::Ragged => {
            arrays.push(Tensor::vector(&dims));
            arrays.push(offsets(items.iter().map(|t| t.shape().len()).collect()));
        }
        Layout::Rows | Layout::Pieces(_) => {}
    }
    Some(arrays)
}

/// Zero, and the sums of these numbers up to each.
fn offsets(counts: Vec<usize>) -> Tensor {
    let mut end = 0;
    let ends = counts.iter().map(|&count| {
        end += count as i64;
        end
    });
    let offsets: Vec<i64> = [0].into_iter().chain(ends).collect();
    Tensor::vector(&offsets)
}

/// Bytes, offsets and numbers for an array of text, as `flatten_text` has them.
pub(crate) fn text_as_bytes(text: &Tensor) -> [Tensor; 3] {
    let strings = text.strs();
    let data: Vec<u8> = strings.iter().flat_map(|s| s.bytes()).collect();
    let numbers: Vec<i64> = (0..strings.len() as i64).collect();
    [
        Tensor::vector(&data),
        offsets(strings.iter().map(|s| s.len()).collect()),
        Tensor::from_slice(text.shape().to_vec(), &numbers),
    ]
}

/// The array of text for which bytes, offsets and numbers stand. `None` if they contradict each other.
pub(crate) fn bytes_as_text(arrays: &[Tensor]) -> Option<Tensor> {
    let [data, offsets, numbers] = arrays else {
        return None;
    };
    let offsets = offsets.to_vec::<i64>()?;
    let strings = numbers.to_vec::<i64>()?.into_iter().map(|number| {
        let number = usize::try_from(number).ok()?;
        let ends = offsets.get(number..number.checked_add(2)?)?;
        let [start, end] = [ends[0], ends[1]].map(|at| usize::try_from(at).ok());
        let bytes = data.bytes().get(start?..end?)?;
        std::str::from_utf8(bytes).ok().map(Box::from)
    });
    let strings = strings.collect::<Option<Vec<Box<str>>>>()?;
    Tensor::strings(numbers.shape().to_vec(), strings).ok()
}

/// The sequence for which arrays stand. `None` if they contradict each other.
pub(crate) fn gathered(form: &SequenceForm, arrays: &[Tensor]) -> Option<Datum> {
    let data = arrays.first()?;
    let rows = *data.shape().first()?;
    let numbers = |i: usize| arrays.get(i).and_then(Tensor::to_vec::<i64>);
    let offsets = match form.layout {
        Layout::Rows => (0..=rows as i64).collect(),
        _ => numbers(1)?,
    };
    let rank = form.dims.len();
    let (dims, corners) = match form.layout {
        Layout::Flat => (numbers(2)?, vec![]),
        Layout::Ragged => (numbers(2)?, numbers(3)?),
        _ => (vec![], vec![]),
    };
    let stride = data.bytes().len().checked_div(rows).unwrap_or(0);
    let mut items = vec![];
    for (place, ends) in offsets.windows(2).enumerate() {
        let [start, end] = [ends[0], ends[1]].map(|at| usize::try_from(at).ok());
        let (start, end) = (start?, end?);
        if start > end || end > rows {
            return None;
        }
        let mut shape = data.shape()[1..].to_vec();
        let mut bytes = data.bytes().slice(start * stride..end * stride);
        match form.layout {
            Layout::Rows => {}
            Layout::Pieces(axis) => {
                shape.insert(axis, end - start);
                let width = form.dtype.bits() / 8;
                bytes = moved(&bytes, &shape, width, axis, Direction::Back);
            }
            Layout::Flat => {
                let sizes = dims.get(place * rank..(place + 1) * rank)?;
                shape = sizes.iter().map(|&d| d as usize).collect();
            }
            Layout::Ragged => {
                let [first, last] = corners.get(place..place + 2)?.try_into().ok()?;
                let axes = usize::try_from(first).ok()?..usize::try_from(last).ok()?;
                shape = dims.get(axes)?.iter().map(|&d| d as usize).collect();
            }
        }
        items.push(Datum::Tensor(Tensor::new(form.dtype, shape, bytes).ok()?));
    }
    Some(Datum::Seq(items))
}

/// The two moves of an axis.
#[derive(Clone, Copy, PartialEq)]
enum Direction {
    /// To the front.
    First,
    /// From the front to its place.
    Back,
}

/// The bytes of an array of this shape after its axis has moved to the front, or, of one whose axis
/// is in front, after it has moved back.
fn moved(bytes: &Bytes, shape: &[usize], width: usize, axis: usize, to: Direction) -> Bytes {
    let outer: usize = shape[..axis].iter().product();
    if axis == 0 || outer <= 1 {
        return bytes.clone();
    }
    let count = shape[axis];
    let inner = shape[axis + 1..].iter().product::<usize>() * width;
    let mut all = BytesMut::with_capacity(bytes.len());
    let (slow, fast) = match to {
        Direction::First => (count, outer),
        Direction::Back => (outer, count),
    };
    for i in 0..slow {
        for j in 0..fast {
            let at = (j * slow + i) * inner;
            all.extend_from_slice(&bytes[at..at + inner]);
        }
    }
    all.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use heddle_ir::{DType, Dim};

    fn item(shape: &[usize], first: i32) -> Datum {
        let count = shape.iter().product::<usize>() as i32;
        let values: Vec<i32> = (first..first + count).collect();
        Tensor::from_slice(shape.to_vec(), &values).into()
    }

    #[test]
    fn what_is_flattened_comes_back() {
        let two = Dim::constant(2);
        let cases = [
            (
                Layout::Rows,
                vec![two.clone(), two.clone()],
                [[2, 2], [2, 2]],
            ),
            (
                Layout::Pieces(0),
                vec![Dim::UNKNOWN, two.clone()],
                [[0, 2], [3, 2]],
            ),
            (Layout::Pieces(1), vec![two, Dim::UNKNOWN], [[2, 3], [2, 1]]),
            (
                Layout::Flat,
                vec![Dim::UNKNOWN, Dim::UNKNOWN],
                [[3, 0], [2, 3]],
            ),
            (Layout::Ragged, vec![], [[3, 0], [2, 3]]),
        ];
        for (layout, dims, shapes) in cases {
            let dtype = DType::I32;
            let form = SequenceForm {
                layout,
                dtype,
                dims,
            };
            let items: Vec<Datum> = shapes.iter().map(|s| item(s, 1)).collect();
            for items in [items, vec![]] {
                let arrays = flattened(&form, &items).unwrap();
                assert_eq!(arrays.len(), form.types().len());
                assert_eq!(
                    gathered(&form, &arrays),
                    Some(Datum::Seq(items)),
                    "{layout:?}"
                );
            }
        }
    }

    #[test]
    fn an_axis_inside_comes_first() {
        let dims = vec![Dim::constant(2), Dim::UNKNOWN];
        let (layout, dtype) = (Layout::Pieces(1), DType::I32);
        let form = SequenceForm {
            layout,
            dtype,
            dims,
        };
        let arrays = flattened(&form, &[item(&[2, 3], 0), item(&[2, 1], 6)]).unwrap();
        assert_eq!(arrays[0].to_vec::<i32>().unwrap(), [0, 3, 1, 4, 2, 5, 6, 7]);
        assert_eq!(arrays[1].to_vec::<i64>().unwrap(), [0, 3, 4]);
    }
}
