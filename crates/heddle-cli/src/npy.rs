//! NumPy's array format (`.npy`, versions 1 to 3).
//!
//! [`npyz`] parses headers and type strings and decodes strings. This file does what it does not:
//! - Header checks that come before parsing: npyz allocates whatever length a header states, descends into brackets without a
//!   limit, and multiplies sizes without a check.
//! - Elements in one piece, as long as they are there. npyz decodes numbers one by one, and has neither `bf16` nor the small
//!   floats and integers.
//! - Fortran order, which npyz only reports.
//! - Writing: npyz panics on a header of 64 KiB or more, as an array of thousands of axes has.
//!
//! Types without one of their own in NumPy are stored as Python's `ml_dtypes` does, so that
//! `array.view(ml_dtypes.bfloat16)` reads them: `bf16` as two raw bytes (`V2`), the small floats
//! and the 2- and 4-bit integers as one raw byte an element (`V1`). Strings are UTF-32 (`U`).

use std::io::{self, Read, Write};

use heddle::{DType, Tensor};
use heddle_ir::tensor::{byte_size, element_count};
use npyz::{Deserialize, Endianness, NpyHeader, Order, TypeChar, TypeRead, TypeStr};

/// Why an array could not be read.
#[derive(Debug, thiserror::Error)]
pub enum NpyError {
    /// The file or archive cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The bytes are not those of an array.
    #[error("{0}")]
    Malformed(String),
    /// The elements are of another type than the one that is wanted.
    #[error("it holds {found}, but {wanted} is needed")]
    Type {
        /// The type in the file, as people call it.
        found: String,
        /// The type that is wanted.
        wanted: DType,
    },
}

/// Longer headers are refused: NumPy itself writes a few hundred bytes.
const MAX_HEADER: usize = 1 << 20;

/// Brackets in headers nest no deeper: a record's fields may be records.
const MAX_NESTING: usize = 32;

/// The part before the elements.
#[derive(Debug, Clone)]
pub struct Header {
    dtype: npyz::DType,
    order: Order,
    /// The size of each axis.
    pub shape: Vec<usize>,
}

impl Header {
    /// Reads the header and leaves the reader at the first element.
    pub fn read(source: &mut impl Read) -> Result<Self, NpyError> {
        let mut start = vec![0; 8];
        source.read_exact(&mut start).map_err(truncated)?;
        if &start[..6] != b"\x93NUMPY" {
            return Err(malformed("it is not in NumPy's format"));
        }
        let mut size = [0; 4];
        let width = match start[6] {
            1 => 2,
            2 | 3 => 4,
            v => return Err(malformed(format!("format version {v} is not known"))),
        };
        source.read_exact(&mut size[..width]).map_err(truncated)?;
        start.extend(&size[..width]);
        let size = u32::from_le_bytes(size) as usize;
        if size > MAX_HEADER {
            return Err(malformed(format!("a header of {size} bytes is too long")));
        }
        let mut text = vec![0; size];
        source.read_exact(&mut text).map_err(truncated)?;
        check(&mut text)?;
        let header = NpyHeader::from_reader(start.as_slice().chain(text.as_slice()));
        let header = header.map_err(|e| malformed(format!("the header cannot be parsed: {e}")))?;
        let size = |d: &u64| usize::try_from(*d).ok();
        let shape = header.shape().iter().map(size).collect::<Option<_>>();
        Ok(Self {
            dtype: header.dtype(),
            order: header.order(),
            shape: shape.ok_or_else(|| malformed("its shape is too large"))?,
        })
    }

    /// The element type as people call it.
    pub fn type_name(&self) -> String {
        if let Some(dtype) = self.plain() {
            return dtype.to_string();
        }
        let Some(ty) = self.type_str() else {
            return "records".into();
        };
        match ty.type_char() {
            TypeChar::RawData => format!("raw elements of {} bytes", ty.size_field()),
            TypeChar::Object => "pickled Python objects".into(),
            TypeChar::DateTime | TypeChar::TimeDelta => "dates".into(),
            _ => format!("elements of type {ty}"),
        }
    }

    /// The element type, unless NumPy's is one that other types are stored as.
    pub fn plain(&self) -> Option<DType> {
        let ty = self.type_str()?;
        match ty.type_char() {
            TypeChar::UnicodeStr | TypeChar::ByteStr => Some(DType::Str),
            letter => {
                let found = Some((letter, ty.size_field()));
                DType::ALL.iter().copied().find(|d| native(*d) == found)
            }
        }
    }

    /// Reads the elements that follow as type `dtype`, where the file's type can hold it.
    pub fn read_elements(&self, source: &mut impl Read, dtype: DType) -> Result<Tensor, NpyError> {
        let ty = self.type_str().ok_or_else(|| self.mismatch(dtype))?;
        let stores = ty.size_field().checked_mul(8) == Some(stored_bits(dtype) as u64);
        let fits = match ty.type_char() {
            TypeChar::RawData => stores && dtype != DType::Str,
            // The bits of a type that NumPy lacks may also come as an unsigned integer.
            TypeChar::Uint => self.plain() == Some(dtype) || (raw(dtype) && stores),
            TypeChar::Int => self.plain() == Some(dtype) || (dtype.is_small_int() && stores),
            _ => self.plain() == Some(dtype),
        };
        if !fits {
            return Err(self.mismatch(dtype));
        }
        let too_large = || malformed(format!("shape {:?} is too large", self.shape));
        let count = element_count(&self.shape).ok_or_else(too_large)?;
        let width = ty.num_bytes().ok_or_else(too_large)?;
        let total = count.checked_mul(width).ok_or_else(too_large)?;
        if width == 0 && count > 0 {
            return Err(malformed("its elements have no size"));
        }
        let mut bytes = read_exactly(source, total)?;
        if self.order == Order::Fortran && self.shape.len() > 1 {
            bytes = to_row_major(&bytes, &self.shape, width);
        }
        if dtype == DType::Str {
            return self.strings(&bytes, count);
        }
        if ty.endianness() == Endianness::Big {
            let unit = match ty.type_char() {
                TypeChar::Complex => width / 2,
                TypeChar::RawData => 1,
                _ => width,
            };
            bytes
                .chunks_exact_mut(unit.max(1))
                .for_each(<[u8]>::reverse);
        }
        if dtype == DType::Bool {
            bytes.iter_mut().for_each(|b| *b = (*b != 0) as u8);
        }
        if dtype.bits() < 8 {
            bytes = pack(&bytes, dtype.bits());
        }
        let made = Tensor::new(dtype, self.shape.clone(), bytes);
        made.map_err(|e| malformed(e.to_string()))
    }

    /// Fixed-width strings, padded with NULs at the end: UTF-32 or UTF-8.
    fn strings(&self, mut bytes: &[u8], count: usize) -> Result<Tensor, NpyError> {
        let reader = String::reader(&self.dtype).map_err(|e| malformed(e.to_string()))?;
        let items = (0..count).map(|_| Ok(reader.read_one(&mut bytes)?.into()));
        let items = items.collect::<io::Result<Vec<Box<str>>>>();
        let items = items.map_err(|_| malformed("a string is not valid Unicode"))?;
        Tensor::strings(self.shape.clone(), items).map_err(|e| malformed(e.to_string()))
    }

    /// NumPy's type string; records have none.
    fn type_str(&self) -> Option<&TypeStr> {
        match &self.dtype {
            npyz::DType::Plain(ty) => Some(ty),
            _ => None,
        }
    }

    fn mismatch(&self, wanted: DType) -> NpyError {
        let found = self.type_name();
        NpyError::Type { found, wanted }
    }
}

/// Checks that a header can be parsed without harm: brackets nest little, numbers are plain and their product is a number of 64
/// bits. Clears the `L` behind Python 2's long integers.
fn check(text: &mut [u8]) -> Result<(), NpyError> {
    let unknown = || malformed("the header cannot be parsed");
    let (mut nesting, mut product, mut number) = (0usize, 1u64, None::<u64>);
    let (mut quote, mut previous) = (None, 0u8);
    for byte in text.iter_mut() {
        let too_large = || malformed("its shape is too large");
        if byte.is_ascii_digit() {
            let digit = u64::from(*byte - b'0');
            let longer = number.unwrap_or(0).checked_mul(10);
            number = Some(
                longer
                    .and_then(|n| n.checked_add(digit))
                    .ok_or_else(too_large)?,
            );
        } else if let Some(n) = number.take().filter(|n| *n > 0) {
            product = product.checked_mul(n).ok_or_else(too_large)?;
        }
        match (quote, *byte) {
            (Some(_), b'\\') => return Err(unknown()),
            (Some(open), b) if open == b => quote = None,
            (Some(_), _) => {}
            (None, b @ (b'\'' | b'"')) => quote = Some(b),
            (None, b'(' | b'[' | b'{') => nesting += 1,
            (None, b')' | b']' | b'}') => nesting = nesting.saturating_sub(1),
            (None, b'L') if previous.is_ascii_digit() => *byte = b' ',
            (None, b) if b.is_ascii_digit() || b.is_ascii_whitespace() => {}
            (None, b) if b"TrueFals,:".contains(&b) => {}
            (None, _) => return Err(unknown()),
        }
        previous = *byte;
        if nesting > MAX_NESTING {
            return Err(unknown());
        }
    }
    Ok(())
}

/// Writes an array.
pub fn write(sink: &mut impl Write, tensor: &Tensor) -> io::Result<()> {
    let widest = tensor.strs().iter().map(|s| s.chars().count()).max();
    let width = widest.unwrap_or(0).max(1);
    let descr = match (tensor.dtype(), native(tensor.dtype())) {
        (_, Some((letter, 1))) => format!("|{}1", letter.to_str()),
        (_, Some((letter, size))) => format!("<{}{size}", letter.to_str()),
        (DType::Str, _) => format!("<U{width}"),
        (other, _) => format!("|V{}", stored_bits(other) / 8),
    };
    let sizes: Vec<_> = tensor.shape().iter().map(|d| format!("{d},")).collect();
    let shape = sizes.join(" ");
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    // Elements begin at a multiple of 64 bytes, as NumPy has it.
    // Version 2 differs in that the header may be longer than 16 bits can say.
    let (start, version) = match header.len() + 128 <= u16::MAX as usize {
        true => (10, 1),
        false => (12, 2),
    };
    let padded = (start + header.len() + 1).next_multiple_of(64) - start;
    header.push_str(&" ".repeat(padded - header.len() - 1));
    header.push('\n');
    let length = u32::try_from(header.len()).map_err(io::Error::other)?;
    sink.write_all(b"\x93NUMPY")?;
    sink.write_all(&[version, 0])?;
    sink.write_all(&length.to_le_bytes()[..start - 8])?;
    sink.write_all(header.as_bytes())?;
    match tensor.dtype() {
        DType::Str => tensor.strs().iter().try_for_each(|s| {
            let mut units: Vec<u8> = s.chars().flat_map(|c| (c as u32).to_le_bytes()).collect();
            units.resize(width * 4, 0);
            sink.write_all(&units)
        }),
        d if d.bits() < 8 => sink.write_all(&unpack(tensor.bytes(), d, tensor.len())),
        _ => sink.write_all(tensor.bytes()),
    }
}

/// NumPy's letter for a number type and the bytes of an element.
fn native(dtype: DType) -> Option<(TypeChar, u64)> {
    use DType::{Bool, C64, C128, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    let letter = match dtype {
        Bool => TypeChar::Bool,
        I8 | I16 | I32 | I64 => TypeChar::Int,
        U8 | U16 | U32 | U64 => TypeChar::Uint,
        F16 | F32 | F64 => TypeChar::Float,
        C64 | C128 => TypeChar::Complex,
        _ => return None,
    };
    Some((letter, stored_bits(dtype) as u64 / 8))
}

/// Types that NumPy has no name for.
fn raw(dtype: DType) -> bool {
    dtype == DType::Bf16 || dtype.is_small_float() || dtype.is_small_int()
}

/// Bits an element takes in a file.
fn stored_bits(dtype: DType) -> usize {
    dtype.bits().max(8)
}

/// Reads so many bytes; memory is taken as they come, so that a false size costs nothing.
fn read_exactly(source: &mut impl Read, total: usize) -> Result<Vec<u8>, NpyError> {
    const FIRST: usize = 64 << 20;
    let mut bytes = Vec::with_capacity(total.min(FIRST));
    let got = source.take(total as u64).read_to_end(&mut bytes)?;
    if got < total {
        let text = format!("it is truncated: {got} of {total} bytes of elements are there");
        return Err(malformed(text));
    }
    Ok(bytes)
}

/// Elements of `width` bytes, first index fastest, put into row-major order.
fn to_row_major(bytes: &[u8], shape: &[usize], width: usize) -> Vec<u8> {
    // The strides of an empty array need not fit.
    if bytes.is_empty() {
        return vec![];
    }
    let mut strides = Vec::with_capacity(shape.len());
    let mut step = width;
    for &size in shape {
        strides.push(step);
        step *= size;
    }
    let mut result = Vec::with_capacity(bytes.len());
    let mut index = vec![0; shape.len()];
    while result.len() < bytes.len() {
        let at: usize = index.iter().zip(&strides).map(|(i, s)| i * s).sum();
        result.extend_from_slice(&bytes[at..at + width]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    result
}

/// One element a byte to elements of 2 or 4 bits, the first one lowest.
fn pack(bytes: &[u8], bits: usize) -> Vec<u8> {
    let mask = (1u8 << bits) - 1;
    let join = |chunk: &[u8]| {
        let shifted = chunk
            .iter()
            .enumerate()
            .map(|(i, b)| (b & mask) << (i * bits));
        shifted.fold(0, |a, b| a | b)
    };
    bytes.chunks(8 / bits).map(join).collect()
}

/// Elements of 2 or 4 bits to one a byte; signed ones keep their sign.
fn unpack(bytes: &[u8], dtype: DType, count: usize) -> Vec<u8> {
    let bits = dtype.bits();
    debug_assert_eq!(byte_size(dtype, count), Some(bytes.len()));
    let signed = matches!(dtype, DType::I4 | DType::I2);
    let element = |i: usize| {
        let per_byte = 8 / bits;
        let raw = bytes[i / per_byte] >> (i % per_byte * bits) << (8 - bits);
        if signed {
            ((raw as i8) >> (8 - bits)) as u8
        } else {
            raw >> (8 - bits)
        }
    };
    (0..count).map(element).collect()
}

fn malformed(text: impl Into<String>) -> NpyError {
    NpyError::Malformed(text.into())
}

fn truncated(error: io::Error) -> NpyError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => malformed("it is truncated"),
        _ => NpyError::Io(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(tensor: &Tensor) {
        let mut file = vec![];
        write(&mut file, tensor).unwrap();
        assert_eq!(file.len() % 64, tensor_bytes(tensor) % 64);
        let mut source = file.as_slice();
        let header = Header::read(&mut source).unwrap();
        assert_eq!(header.shape, tensor.shape());
        assert_eq!(
            &header.read_elements(&mut source, tensor.dtype()).unwrap(),
            tensor
        );
    }

    fn tensor_bytes(tensor: &Tensor) -> usize {
        match tensor.dtype() {
            DType::Str => {
                let widest = tensor.strs().iter().map(|s| s.chars().count()).max();
                widest.unwrap_or(0).max(1) * 4 * tensor.len()
            }
            d => stored_bits(d) / 8 * tensor.len(),
        }
    }

    #[test]
    fn every_type_round_trips() {
        for dtype in DType::ALL {
            if dtype == DType::Str {
                continue;
            }
            for shape in [vec![], vec![5], vec![2, 3], vec![0, 4], vec![1, 1, 7]] {
                let count = element_count(&shape).unwrap();
                let size = byte_size(dtype, count).unwrap();
                let mut bytes: Vec<u8> = (0..size).map(|i| (i * 37 + 11) as u8).collect();
                if dtype == DType::Bool {
                    bytes.iter_mut().for_each(|b| *b &= 1);
                }
                let used = count * dtype.bits() % 8;
                if let (true, Some(last)) = (used > 0, bytes.last_mut()) {
                    *last &= (1 << used) - 1;
                }
                round_trip(&Tensor::new(dtype, shape, bytes).unwrap());
            }
        }
        let words = ["", "größe", "a", "日本語"].map(Box::from).to_vec();
        round_trip(&Tensor::strings(vec![2, 2], words).unwrap());
        round_trip(&Tensor::strings(vec![0], vec![]).unwrap());
    }

    #[test]
    fn other_layouts_are_read() {
        let read = |descr: &str, order: &str, data: &[u8], dtype| {
            let text =
                format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': (2, 2), }}\n");
            let mut file = b"\x93NUMPY\x02\x00".to_vec();
            file.extend((text.len() as u32).to_le_bytes());
            file.extend(text.as_bytes());
            file.extend(data);
            let mut source = file.as_slice();
            Header::read(&mut source)?.read_elements(&mut source, dtype)
        };
        let fortran = read("|u1", "True", &[1, 2, 3, 4], DType::U8).unwrap();
        assert_eq!(fortran.to_vec::<u8>().unwrap(), [1, 3, 2, 4]);
        let big = read(">i2", "False", &[0, 1, 0, 2, 1, 0, 255, 255], DType::I16).unwrap();
        assert_eq!(big.to_vec::<i16>().unwrap(), [1, 2, 256, -1]);
        let bytes = read("|S2", "False", b"ab\0\0c\0de", DType::Str).unwrap();
        assert_eq!(
            bytes.strs().iter().map(|s| &**s).collect::<Vec<_>>(),
            ["ab", "", "c", "de"]
        );
        let error = read("<i4", "False", &[0; 16], DType::I64).unwrap_err();
        assert_eq!(error.to_string(), "it holds i32, but i64 is needed");
        let error = read("|O", "False", &[], DType::Str).unwrap_err();
        assert!(
            error.to_string().contains("pickled Python objects"),
            "{error}"
        );
        let error = read("<f4", "False", &[0; 15], DType::F32).unwrap_err();
        assert!(error.to_string().contains("truncated"), "{error}");
    }

    #[test]
    fn many_axes_take_a_longer_header() {
        round_trip(&Tensor::new(DType::U8, vec![1; 30_000], vec![7]).unwrap());
    }

    #[test]
    fn empty_arrays_of_any_sizes() {
        let read = |order: &str, shape: &str, descr: &str| {
            let text =
                format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}}}");
            let mut file = b"\x93NUMPY\x01\x00".to_vec();
            file.extend((text.len() as u16).to_le_bytes());
            file.extend(text.as_bytes());
            let mut source = file.as_slice();
            Header::read(&mut source)?.read_elements(&mut source, DType::F32)
        };
        for order in ["True", "False"] {
            // NumPy does not make such arrays, either.
            for shape in ["(18446744073709551615, 0)", "(4294967296, 4294967296, 0)"] {
                let error = read(order, shape, "<f4").unwrap_err();
                assert!(error.to_string().contains("too large"), "{error}");
            }
            assert!(read(order, "(4294967296, 0, 65536)", "<f4").is_ok());
        }
        for descr in ["V4611686018427387904", "<u4611686018427387904"] {
            assert!(read("False", "(0,)", descr).is_err());
        }
    }

    #[test]
    fn hostile_headers_are_errors() {
        for shape in [
            "(18446744073709551615, 2)",
            "(99999999999999999999,)",
            "(-1,)",
            "(1",
            "5",
        ] {
            let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}");
            let mut file = b"\x93NUMPY\x01\x00".to_vec();
            file.extend((text.len() as u16).to_le_bytes());
            file.extend(text.as_bytes());
            let mut source = file.as_slice();
            let read = Header::read(&mut source);
            assert!(
                read.is_err_and(|_| true) || {
                    let mut source = file.as_slice();
                    let header = Header::read(&mut source).unwrap();
                    header.read_elements(&mut source, DType::F32).is_err()
                }
            );
        }
        assert!(Header::read(&mut &b"\x93NUMPY\x02\x00\xff\xff\xff\xff"[..]).is_err());
        let header = |text: &str| {
            let mut file = b"\x93NUMPY\x02\x00".to_vec();
            file.extend((text.len() as u32).to_le_bytes());
            file.extend(text.as_bytes());
            Header::read(&mut file.as_slice())
        };
        let with = |descr: &str, shape: &str| {
            header(&format!(
                "{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"
            ))
        };
        // Brackets and numbers that a parser would follow, or multiply, without a limit.
        for shape in [
            "(".repeat(100_000),
            "[".repeat(400_000) + &"]".repeat(400_000),
            "9".repeat(100_000),
            "(0xffffffffffffffff, 0xffffffffffffffff)".into(),
            "(99_999_999_999, 99_999_999_999)".into(),
            format!("(2,{})", " 2,".repeat(64)),
        ] {
            assert!(with("'<f4'", &shape).is_err(), "{:.40}", shape);
        }
        for descr in [
            "'<f3'",
            "'|S99999999999999999999'",
            "'<q4'",
            "''",
            "4",
            "['<f4']",
        ] {
            assert!(with(descr, "(2,)").is_err(), "{descr}");
        }
        let records = with("[('a b', '<f4'), ('n', [('x', '|u1')])]", "(2,)").unwrap();
        let error = records
            .read_elements(&mut &[0; 10][..], DType::F32)
            .unwrap_err();
        assert_eq!(error.to_string(), "it holds records, but f32 is needed");
        // Python 2 wrote sizes as long integers.
        assert_eq!(with("'<f4'", "(3L, 2L)").unwrap().shape, [3, 2]);
        // A length that the file does not have takes no memory.
        let long = with("'|S1000000000000'", "(3,)").unwrap();
        let error = long
            .read_elements(&mut &b"abc"[..], DType::Str)
            .unwrap_err();
        assert!(error.to_string().contains("truncated"), "{error}");
        assert!(Header::read(&mut &b"PK"[..]).is_err());
    }
}
