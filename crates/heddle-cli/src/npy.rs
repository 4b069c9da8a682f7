//! NumPy's array format (`.npy`, versions 1 to 3).
//!
//! Types without one of their own in NumPy are stored as Python's `ml_dtypes` does, so that
//! `array.view(ml_dtypes.bfloat16)` reads them: `bf16` as two raw bytes (`V2`), the small floats
//! and the 2- and 4-bit integers as one raw byte an element (`V1`). Strings are UTF-32 (`U`).

use std::io::{self, Read, Write};

use bytes::Bytes;
use heddle::ir::tensor::{byte_size, element_count};
use heddle::ir::{DType, Tensor};

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

/// What stands before the elements.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// NumPy's type string, as `<f4`.
    descr: String,
    /// Whether the first index varies fastest.
    fortran: bool,
    /// The size of each axis.
    pub shape: Vec<usize>,
}

impl Header {
    /// Reads the header and leaves the reader at the first element.
    pub fn read(source: &mut impl Read) -> Result<Self, NpyError> {
        let mut start = [0; 8];
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
        let size = u32::from_le_bytes(size) as usize;
        if size > MAX_HEADER {
            return Err(malformed(format!("a header of {size} bytes is too long")));
        }
        let mut text = vec![0; size];
        source.read_exact(&mut text).map_err(truncated)?;
        Self::parse(&text).ok_or_else(|| malformed("the header cannot be parsed"))
    }

    /// The element type as people call it.
    pub fn type_name(&self) -> String {
        match self.plain() {
            Some(dtype) => dtype.to_string(),
            None => match self.kind_and_size() {
                Some(('V', size)) => format!("raw elements of {size} bytes"),
                Some(('U' | 'S', _)) => "str".into(),
                Some(('O', _)) => "pickled Python objects".into(),
                Some(('M' | 'm', _)) => "dates".into(),
                _ => format!("elements of type {}", self.descr),
            },
        }
    }

    /// The element type, where NumPy's says what it is.
    pub fn plain(&self) -> Option<DType> {
        Some(match self.kind_and_size()? {
            ('b', 1) => DType::Bool,
            ('i', 1) => DType::I8,
            ('i', 2) => DType::I16,
            ('i', 4) => DType::I32,
            ('i', 8) => DType::I64,
            ('u', 1) => DType::U8,
            ('u', 2) => DType::U16,
            ('u', 4) => DType::U32,
            ('u', 8) => DType::U64,
            ('f', 2) => DType::F16,
            ('f', 4) => DType::F32,
            ('f', 8) => DType::F64,
            ('c', 8) => DType::C64,
            ('c', 16) => DType::C128,
            ('U' | 'S', _) => DType::Str,
            _ => return None,
        })
    }

    /// Reads the elements that follow as type `dtype`, where the file's type can hold it.
    pub fn read_elements(&self, source: &mut impl Read, dtype: DType) -> Result<Tensor, NpyError> {
        let (kind, size) = self.kind_and_size().ok_or_else(|| self.mismatch(dtype))?;
        let bits = size.checked_mul(8);
        let fits = match kind {
            'V' => bits == Some(stored_bits(dtype)) && dtype != DType::Str,
            // The bits of a type that NumPy lacks may also come as an unsigned integer.
            'u' => self.plain() == Some(dtype) || (raw(dtype) && bits == Some(stored_bits(dtype))),
            'i' => self.plain() == Some(dtype) || (dtype.is_small_int() && size == 1),
            _ => self.plain() == Some(dtype),
        };
        if !fits {
            return Err(self.mismatch(dtype));
        }
        let too_large = || malformed(format!("shape {:?} is too large", self.shape));
        let count = element_count(&self.shape).ok_or_else(too_large)?;
        let width = if kind == 'U' {
            size.checked_mul(4)
        } else {
            Some(size)
        };
        let width = width.ok_or_else(too_large)?;
        let total = count.checked_mul(width).ok_or_else(too_large)?;
        if width == 0 && count > 0 {
            return Err(malformed("its elements have no size"));
        }
        let mut bytes = read_exactly(source, total)?;
        if self.descr.starts_with('>') {
            let unit = match kind {
                'U' => 4,
                'c' => width / 2,
                'S' | 'V' => 1,
                _ => width,
            };
            bytes
                .chunks_exact_mut(unit.max(1))
                .for_each(<[u8]>::reverse);
        }
        if self.fortran && self.shape.len() > 1 {
            bytes = to_row_major(&bytes, &self.shape, width);
        }
        if dtype == DType::Str {
            return strings(&bytes, &self.shape, count, width, kind == 'U');
        }
        if dtype == DType::Bool {
            bytes.iter_mut().for_each(|b| *b = (*b != 0) as u8);
        }
        if dtype.bits() < 8 {
            bytes = pack(&bytes, dtype.bits());
        }
        let made = Tensor::new(dtype, self.shape.clone(), Bytes::from(bytes));
        made.map_err(|e| malformed(e.to_string()))
    }

    /// NumPy's kind letter and the size that follows it.
    fn kind_and_size(&self) -> Option<(char, usize)> {
        let plain = self.descr.trim_start_matches(['<', '>', '|', '=']);
        let mut letters = plain.chars();
        let kind = letters.next()?;
        let digits: String = letters.take_while(char::is_ascii_digit).collect();
        Some((kind, digits.parse().unwrap_or(0)))
    }

    fn mismatch(&self, wanted: DType) -> NpyError {
        let found = self.type_name();
        NpyError::Type { found, wanted }
    }

    /// Parses `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`; keys in any order.
    fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let after = |key: &str| {
            let at = text.find(&format!("'{key}'"))? + key.len() + 2;
            Some(text[at..].trim_start().strip_prefix(':')?.trim_start())
        };
        let descr = after("descr")?;
        // A list of fields instead of a string: a structured type, which nothing here takes.
        let descr = match descr.strip_prefix('\'') {
            Some(rest) => rest[..rest.find('\'')?].to_string(),
            None if descr.starts_with('[') => "V".to_string(),
            None => return None,
        };
        let fortran = match after("fortran_order")? {
            s if s.starts_with("True") => true,
            s if s.starts_with("False") => false,
            _ => return None,
        };
        let shape = after("shape")?.strip_prefix('(')?;
        let sizes = shape[..shape.find(')')?].split(',').map(str::trim);
        let sizes = sizes.filter(|s| !s.is_empty());
        let shape = sizes
            .map(|s| s.trim_end_matches('L').parse().ok())
            .collect::<Option<Vec<usize>>>()?;
        Some(Self {
            descr,
            fortran,
            shape,
        })
    }
}

/// Writes an array.
pub fn write(sink: &mut impl Write, tensor: &Tensor) -> io::Result<()> {
    let widest = tensor.strs().iter().map(|s| s.chars().count()).max();
    let width = widest.unwrap_or(0).max(1);
    let descr = match tensor.dtype() {
        DType::F32 => "<f4".into(),
        DType::F64 => "<f8".into(),
        DType::F16 => "<f2".into(),
        DType::I8 => "|i1".into(),
        DType::I16 => "<i2".into(),
        DType::I32 => "<i4".into(),
        DType::I64 => "<i8".into(),
        DType::U8 => "|u1".into(),
        DType::U16 => "<u2".into(),
        DType::U32 => "<u4".into(),
        DType::U64 => "<u8".into(),
        DType::Bool => "|b1".into(),
        DType::C64 => "<c8".into(),
        DType::C128 => "<c16".into(),
        DType::Str => format!("<U{width}"),
        other => format!("|V{}", stored_bits(other) / 8),
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

/// Fixed-width strings, padded with NULs at the end: UTF-32 or UTF-8.
fn strings(
    bytes: &[u8],
    shape: &[usize],
    count: usize,
    width: usize,
    wide: bool,
) -> Result<Tensor, NpyError> {
    let decode = |item: &[u8]| -> Option<Box<str>> {
        let text = if wide {
            let units = item.chunks_exact(4);
            let units = units.map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]));
            units.map(char::from_u32).collect::<Option<String>>()?
        } else {
            std::str::from_utf8(item).ok()?.to_string()
        };
        Some(text.trim_end_matches('\0').into())
    };
    let items = (0..count).map(|i| decode(&bytes[i * width..(i + 1) * width]));
    let items = items.collect::<Option<Vec<_>>>();
    let items = items.ok_or_else(|| malformed("a string is not valid Unicode"))?;
    Tensor::strings(shape.to_vec(), items).map_err(|e| malformed(e.to_string()))
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
                round_trip(&Tensor::new(dtype, shape, bytes.into()).unwrap());
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
        round_trip(&Tensor::new(DType::U8, vec![1; 30_000], vec![7].into()).unwrap());
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
            let error = read(order, "(18446744073709551615, 0)", "<f4").unwrap_err();
            assert!(error.to_string().contains("too large"), "{error}");
            assert!(read(order, "(4294967296, 4294967296, 0)", "<f4").is_ok());
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
        assert!(Header::read(&mut &b"PK"[..]).is_err());
    }
}
