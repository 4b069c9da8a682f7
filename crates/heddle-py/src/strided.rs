//! Copies of arrays with strides, or of the other byte order, without the interpreter's lock.

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

/// A copy of an array's elements in C order; `swapped` is the number of bytes of a number whose order is to be turned around. Other
/// threads of Python run meanwhile; an error is a message.
pub fn dense(array: &Bound<'_, PyUntypedArray>, swapped: Option<usize>) -> Result<Vec<u8>, String> {
    let view = Strided::of(array);
    // The array lives as long as `array`, which this call borrows.
    array.py().detach(|| {
        let mut copy = view.copied()?;
        if let Some(width) = swapped.filter(|width| *width > 1) {
            copy.chunks_exact_mut(width).for_each(<[u8]>::reverse);
        }
        Ok(copy)
    })
}

/// Elements at strides.
struct Strided {
    data: *const u8,
    shape: Vec<usize>,
    /// Bytes from one place to the next along each axis; they may be negative.
    strides: Vec<isize>,
    /// Bytes of an element.
    width: usize,
}

// SAFETY: as for dense arrays that programs read: that nobody writes to it meanwhile is the caller's part.
unsafe impl Sync for Strided {}
// SAFETY: as above.
unsafe impl Send for Strided {}

impl Strided {
    fn of(array: &Bound<'_, PyUntypedArray>) -> Self {
        // SAFETY: the structure of an array that is alive.
        let data = unsafe { (*array.as_array_ptr()).fields.data };
        let (mut shape, mut strides) = (array.shape().to_vec(), array.strides().to_vec());
        if shape.is_empty() {
            (shape, strides) = (vec![1], vec![0]);
        }
        Self {
            data: data.cast_const().cast(),
            shape,
            strides,
            width: array.dtype().itemsize(),
        }
    }

    fn copied(&self) -> Result<Vec<u8>, String> {
        let count = self
            .shape
            .iter()
            .try_fold(1usize, |n, &size| n.checked_mul(size));
        let bytes = count.and_then(|count| count.checked_mul(self.width));
        let mut copy = Vec::new();
        let room = bytes.map(|bytes| copy.try_reserve_exact(bytes));
        if !matches!(room, Some(Ok(()))) {
            return Err(format!(
                "there is no memory for a dense copy of shape {:?}",
                self.shape
            ));
        }
        if bytes == Some(0) {
            return Ok(copy);
        }
        let (last, outer) = (self.shape.len() - 1, self.shape.len() - 1);
        let mut place = vec![0usize; outer];
        loop {
            let steps = place.iter().zip(&self.strides);
            let offset: isize = steps.map(|(&k, &stride)| k as isize * stride).sum();
            // SAFETY: NumPy's strides lead to elements of the array from any place within its shape.
            unsafe {
                let row = self.data.offset(offset);
                self.append_row(row, self.shape[last], self.strides[last], &mut copy);
            }
            // The next row in C order.
            let Some(axis) = (0..outer)
                .rev()
                .find(|&axis| place[axis] + 1 < self.shape[axis])
            else {
                return Ok(copy);
            };
            place[axis] += 1;
            place[axis + 1..].fill(0);
        }
    }

    /// # Safety
    /// `count` elements lie at `row` and the strides behind it.
    unsafe fn append_row(&self, row: *const u8, count: usize, stride: isize, copy: &mut Vec<u8>) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.width {
                width if stride == width as isize => {
                    copy.extend_from_slice(std::slice::from_raw_parts(row, count * width));
                }
                1 => append::<1>(row, count, stride, copy),
                2 => append::<2>(row, count, stride, copy),
                4 => append::<4>(row, count, stride, copy),
                8 => append::<8>(row, count, stride, copy),
                width => {
                    for k in 0..count as isize {
                        let element = std::slice::from_raw_parts(row.offset(k * stride), width);
                        copy.extend_from_slice(element);
                    }
                }
            }
        }
    }
}

/// # Safety
/// `count` elements of `N` bytes lie at `row` and the strides behind it.
unsafe fn append<const N: usize>(row: *const u8, count: usize, stride: isize, copy: &mut Vec<u8>) {
    for k in 0..count as isize {
        // SAFETY: the caller's promise; an array of bytes may lie anywhere.
        let element = unsafe { row.offset(k * stride).cast::<[u8; N]>().read() };
        copy.extend_from_slice(&element);
    }
}
