//! Constants: literals are read twice, first for their shape and then, when the type is known,
//! straight into bytes.

use bytes::Bytes;

use super::super::element::{self, Written};
use super::super::lexer::{Lexer, Spanned, Token};
use super::super::names::unescape;
use super::{ParseError, Parser, Result};
use crate::tensor::{byte_size, element_count};
use crate::types::MAX_RANK;
use crate::{DType, Tensor, Type};

/// A literal whose elements have been passed over.
pub(super) struct Literal<'a> {
    pub(super) place: Spanned<'a>,
    /// From where the elements are read again, and how many there are.
    lexer: Lexer<'a>,
    count: usize,
    /// The shape that its brackets give it; empty for one element.
    nested: Vec<usize>,
    looks_like: DType,
    stated: Wanted,
}

impl Literal<'_> {
    /// The element type that follows the literal.
    pub(super) fn stated_dtype(&self) -> Option<DType> {
        self.stated.dtype
    }
}

/// Facts about a constant's type before its elements are read.
#[derive(Default)]
pub(super) struct Wanted {
    pub(super) dtype: Option<DType>,
    pub(super) shape: Option<Vec<usize>>,
}

impl<'a> Parser<'a, '_> {
    /// Reads the rest of a `const`; `stated` is the type of the value.
    pub(super) fn constant(&mut self, stated: Option<&Type>) -> Result<Tensor> {
        let place = self.token;
        let mut wanted = Wanted::default();
        if let Some(ty) = stated {
            let shape = ty
                .as_tensor()
                .and_then(|t| Some((t.dtype, t.static_shape()?)));
            let Some((dtype, shape)) = shape else {
                let message = format!("a constant has a tensor type of constant sizes, not {ty}");
                return Err(self.error(place, message));
            };
            wanted = Wanted {
                dtype: Some(dtype),
                shape: Some(shape),
            };
        }
        match place.token {
            Token::Word("elided") => {
                let error = self.error(
                    place,
                    "this constant was left out when the text was written",
                );
                Err(error.hint(
                    "print the program with its constants, in the text or in a file beside it",
                ))
            }
            Token::Word("splat") => {
                self.advance()?;
                let literal = self.literal()?;
                self.splat(place, literal, wanted)
            }
            Token::Word("file") => {
                self.advance()?;
                self.file(place, wanted)
            }
            _ => {
                let literal = self.literal()?;
                self.tensor(literal, wanted)
            }
        }
    }

    /// A literal and the type that may follow it.
    pub(super) fn literal(&mut self) -> Result<Literal<'a>> {
        let place = self.token;
        let mut scan = Scan {
            shape: vec![],
            count: 0,
            looks_like: None,
            is_part: false,
        };
        // The token that is looked at has left the lexer: elements are read again from its
        // beginning.
        let lexer = self.lexer.at(place.pos);
        self.scan(&mut scan, 0)?;
        let stated = match self.eat(":")? {
            true => self.literal_type()?,
            false => Wanted::default(),
        };
        Ok(Literal {
            place,
            lexer,
            count: scan.count,
            nested: scan.shape,
            looks_like: scan.looks_like.unwrap_or(DType::I64),
            stated,
        })
    }

    /// A type, or just an element type.
    fn literal_type(&mut self) -> Result<Wanted> {
        let place = self.token;
        if !matches!(self.after(), Some(Token::Mark("["))) {
            let dtype = Some(self.dtype()?);
            return Ok(Wanted { dtype, shape: None });
        }
        let ty = self.ty()?;
        let shape = ty
            .as_tensor()
            .and_then(|t| Some((t.dtype, t.static_shape()?)));
        match shape {
            Some((dtype, shape)) => Ok(Wanted {
                dtype: Some(dtype),
                shape: Some(shape),
            }),
            None => Err(self.error(place, format!("a constant has constant sizes, not {ty}"))),
        }
    }

    /// Passes over one element or list; `depth` brackets are open.
    fn scan(&mut self, scan: &mut Scan, depth: usize) -> Result<()> {
        let place = self.token;
        if !self.eat("[")? {
            if depth > 0 && scan.shape.len() > depth {
                return Err(self.error(place, "expected a list, as its neighbours are"));
            }
            scan.count += 1;
            return self.scan_element(scan);
        }
        if depth == MAX_RANK {
            return Err(self.error(place, format!("more than {MAX_RANK} axes")));
        }
        // The first list at each depth says how long the others are.
        let is_first = scan.shape.len() == depth;
        if is_first {
            if depth > 0 && scan.count > 0 {
                return Err(self.error(place, "expected an element, as its neighbours are"));
            }
            scan.shape.push(0);
        }
        let mut len = 0;
        while self.token.token != Token::Mark("]") {
            self.scan(scan, depth + 1)?;
            len += 1;
            if !self.eat(",")? {
                break;
            }
        }
        self.expect("]")?;
        if is_first {
            scan.shape[depth] = len;
        } else if scan.shape[depth] != len {
            let message = format!("lists of {} and {len} elements", scan.shape[depth]);
            return Err(self.error(place, message));
        }
        Ok(())
    }

    fn scan_element(&mut self, scan: &mut Scan) -> Result<()> {
        let place = self.token;
        let is_signed = self.eat("-")?;
        let found = match self.token.token {
            Token::Number(n) if n.contains(['.', 'e', 'E']) && !n.starts_with("0x") => DType::F32,
            Token::Number(_) => DType::I64,
            Token::Word("inf" | "nan") => DType::F32,
            Token::Word("true" | "false") if !is_signed => DType::Bool,
            Token::Str(_) if !is_signed => DType::Str,
            // The parts of a complex number are real.
            Token::Mark("(") if !is_signed && !scan.is_part => DType::C64,
            _ => return Err(self.expected("an element")),
        };
        self.advance()?;
        if found == DType::C64 {
            let mut part = Scan {
                shape: vec![],
                count: 0,
                looks_like: Some(DType::F32),
                is_part: true,
            };
            self.scan_element(&mut part)?;
            self.expect(",")?;
            self.scan_element(&mut part)?;
            self.expect(")")?;
        }
        scan.looks_like = Some(match (scan.looks_like, found) {
            (None, found) => found,
            (Some(a), b) if a == b => a,
            (Some(DType::F32), DType::I64) | (Some(DType::I64), DType::F32) => DType::F32,
            _ => return Err(self.error(place, "elements of different kinds")),
        });
        Ok(())
    }

    /// Reads a literal's elements as what it says it is, else as what is wanted, else as what it
    /// looks like.
    pub(super) fn tensor(&mut self, literal: Literal, wanted: Wanted) -> Result<Tensor> {
        let place = literal.place;
        let (dtype, shape) = self.agree(&literal, wanted)?;
        let shape = shape.unwrap_or_else(|| literal.nested.clone());
        let is_flat = literal.nested.len() <= 1 && !shape.is_empty();
        // One element without brackets is a scalar, and fills nothing but a scalar.
        let bare = literal.nested.is_empty() && !shape.is_empty();
        if bare || !(is_flat || literal.nested == shape) {
            let message = format!("this literal has shape {:?}, not {shape:?}", literal.nested);
            return Err(self.error(place, message));
        }
        if element_count(&shape) != Some(literal.count) {
            let message = format!("{} elements do not fill shape {shape:?}", literal.count);
            return Err(self.error(place, message));
        }
        let mut source = literal.lexer;
        if dtype == DType::Str {
            if literal.count > 0 && literal.looks_like != DType::Str {
                return Err(self.error(place, "elements of type str are written in quotes"));
            }
            let mut strings = vec![];
            while strings.len() < literal.count {
                if let Token::Str(raw) = source.next()?.token {
                    let text = unescape(raw).map_err(|m| self.error(place, m))?;
                    strings.push(text.into_boxed_str());
                }
            }
            return Tensor::strings(shape, strings).map_err(|e| self.error(place, e.to_string()));
        }
        let mut bytes = Packer::new(dtype, literal.count);
        for _ in 0..literal.count {
            bytes.push(read_element(&mut source, dtype)?);
        }
        Tensor::new(dtype, shape, bytes.finish()).map_err(|e| self.error(place, e.to_string()))
    }

    fn splat(&mut self, place: Spanned, literal: Literal, wanted: Wanted) -> Result<Tensor> {
        let (dtype, shape) = self.agree(&literal, wanted)?;
        let Some(shape) = shape else {
            let error = self.error(place, "the shape of this constant is not stated");
            return Err(error.hint("write its type: const splat 0.0: f32[10,10]"));
        };
        if !literal.nested.is_empty() || dtype == DType::Str {
            return Err(self.error(literal.place, "`splat` takes one number"));
        }
        let size = element_count(&shape).and_then(|n| Some((n, byte_size(dtype, n)?)));
        let left = size.and_then(|(_, bytes)| self.splat_left.checked_sub(bytes));
        let (Some((count, _)), Some(left)) = (size, left) else {
            return Err(self.error(place, "the program's `splat` constants are too large"));
        };
        self.splat_left = left;
        let element = read_element(&mut { literal.lexer }, dtype)?;
        let mut bytes = Packer::new(dtype, count);
        (0..count).for_each(|_| bytes.push(element));
        Tensor::new(dtype, shape, bytes.finish()).map_err(|e| self.error(place, e.to_string()))
    }

    fn file(&mut self, place: Spanned, mut wanted: Wanted) -> Result<Tensor> {
        self.expect("(")?;
        let file = match self.token.token {
            Token::Str(_) => self.size_name()?,
            _ => return Err(self.expected("the file's name in quotes")),
        };
        self.expect(",")?;
        let offset = self.integer()?;
        self.expect(",")?;
        let length = self.integer()?;
        self.expect(")")?;
        if self.eat(":")? {
            wanted = self.literal_type()?;
        }
        let (Some(dtype), Some(shape)) = (wanted.dtype, wanted.shape) else {
            return Err(self.error(place, "the type of this constant is not stated"));
        };
        let size = element_count(&shape).and_then(|n| byte_size(dtype, n));
        let size = size.filter(|_| dtype != DType::Str);
        if size.and_then(|s| u64::try_from(s).ok()) != Some(length) {
            let message = format!("{length} bytes do not fill {dtype} of shape {shape:?}");
            return Err(self.error(place, message));
        }
        let bytes = (self.load)(&file, offset, length).map_err(|m| self.error(place, m))?;
        Tensor::new(dtype, shape, bytes).map_err(|e| self.error(place, e.to_string()))
    }

    /// Element type and shape: what the literal states comes first, and may not contradict what is
    /// wanted.
    fn agree(&self, l: &Literal, wanted: Wanted) -> Result<(DType, Option<Vec<usize>>)> {
        let conflict = |what: String| self.error(l.place, what);
        let dtype = match (l.stated.dtype, wanted.dtype) {
            (Some(a), Some(b)) if a != b => {
                return Err(conflict(format!("this constant is {a}, not {b}")));
            }
            (a, b) => a.or(b).unwrap_or(l.looks_like),
        };
        let shape = match (&l.stated.shape, wanted.shape) {
            (Some(a), Some(b)) if *a != b => {
                return Err(conflict(format!(
                    "this constant has shape {a:?}, not {b:?}"
                )));
            }
            (a, b) => a.clone().or(b),
        };
        Ok((dtype, shape))
    }
}

/// Facts about a literal, as far as it has been read.
struct Scan {
    shape: Vec<usize>,
    count: usize,
    looks_like: Option<DType>,
    /// A complex number.
    is_part: bool,
}

/// The next element's bits; brackets and commas before it are passed over.
fn read_element(source: &mut Lexer, dtype: DType) -> Result<u128> {
    let mut negative = false;
    loop {
        let at = source.next()?;
        let misfit =
            |source: &Lexer, m: String| -> Box<ParseError> { source.error(at.pos, at.len, m) };
        let text = match at.token {
            Token::Mark("-") => {
                negative = true;
                continue;
            }
            Token::Mark("(") if dtype.is_complex() => {
                let part = if dtype == DType::C64 {
                    DType::F32
                } else {
                    DType::F64
                };
                let real = read_element(source, part)?;
                let imaginary = read_element(source, part)?;
                source.next()?;
                return Ok(real | imaginary << part.bits());
            }
            Token::Mark("[" | "]" | ",") => continue,
            Token::Number(text) | Token::Word(text) if !dtype.is_complex() => text,
            _ => return Err(misfit(source, format!("this is no {dtype}"))),
        };
        let written = Written { negative, text };
        return element::parse(dtype, written).map_err(|m| misfit(source, m));
    }
}

/// Puts elements into bytes, those of under 8 bits from the lowest bits on.
struct Packer {
    width: usize,
    bytes: Vec<u8>,
    partial: u8,
    filled: usize,
}

impl Packer {
    fn new(dtype: DType, count: usize) -> Self {
        let size = byte_size(dtype, count).unwrap_or(0);
        Self {
            width: dtype.bits(),
            bytes: Vec::with_capacity(size),
            partial: 0,
            filled: 0,
        }
    }

    fn push(&mut self, bits: u128) {
        if self.width >= 8 {
            self.bytes
                .extend_from_slice(&bits.to_le_bytes()[..self.width / 8]);
            return;
        }
        self.partial |= (bits as u8) << self.filled;
        self.filled += self.width;
        if self.filled == 8 {
            self.bytes.push(self.partial);
            (self.partial, self.filled) = (0, 0);
        }
    }

    fn finish(mut self) -> Bytes {
        if self.filled > 0 {
            self.bytes.push(self.partial);
        }
        self.bytes.into()
    }
}
