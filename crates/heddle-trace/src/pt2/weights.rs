//! Parameters, buffers and constants: raw bytes of a storage, and sizes and strides in it.

use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;
use heddle_ir::{DType, Tensor};

use super::archive::Archive;
use super::json;
use super::schema::{self, Payload, PayloadConfig, STRIDED, SymInt, TensorMeta};
use crate::pt2_error::Pt2Error;

/// Axes of an array.
const MAX_AXES: usize = 32;

/// Weights and constants of an archive, by name.
pub struct Weights {
    /// Each with the folder of its bytes.
    payloads: HashMap<String, (&'static str, Payload)>,
}

impl Weights {
    /// Reads the lists of weights and constants of a model.
    pub fn of(archive: &mut Archive, model: &str) -> Result<Self, Pt2Error> {
        let legacy = ["data/weights/", "data/constants/"].map(|f| format!("{f}{model}.pt"));
        if let Some(name) = legacy.iter().find(|n| archive.has(n)) {
            let entry = archive.full(name);
            return Err(Pt2Error::Pickle { entry });
        }
        let mut payloads = HashMap::new();
        for (folder, kind) in [
            ("data/constants/", "constants"),
            ("data/weights/", "weights"),
        ] {
            let entry = format!("{folder}{model}_{kind}_config.json");
            if archive.has(&entry) {
                let config: PayloadConfig = json::read(archive, &entry)?;
                let all = config.config.into_iter();
                payloads.extend(all.map(|(name, p)| (name, (folder, p))));
            }
        }
        Ok(Self { payloads })
    }

    /// Is there an array of this name?
    pub fn has(&self, name: &str) -> bool {
        self.payloads.contains_key(name)
    }

    /// The place of an array, unless reading it is an error.
    pub fn place(&self, name: &str) -> Option<Place<'_>> {
        let (folder, payload) = self.payloads.get(name)?;
        let layout = Layout::of(payload.tensor_meta.as_ref()?).ok()?;
        let (_, end) = layout.extent()?;
        let start = layout.offset.saturating_mul(layout.dtype.bits() / 8);
        Some(Place {
            storage: (folder, &payload.path_name),
            bytes: start..end,
            layout,
        })
    }

    /// Those of these arrays that overlap with another one in the file, each with the name of such a one.
    pub fn overlapping<'n>(&self, names: &[&'n str]) -> Vec<(&'n str, &'n str)> {
        let places = names.iter().filter_map(|n| Some((self.place(n)?, *n)));
        let mut places: Vec<_> = places.filter(|(p, _)| !p.bytes.is_empty()).collect();
        places.sort_by_key(|(place, _)| (place.storage, place.bytes.start));
        let mut found = vec![];
        // The array that reaches furthest so far.
        let mut last: Option<&(Place, &str)> = None;
        for here in &places {
            let (place, name) = here;
            if let Some((other, other_name)) = last
                && place.overlaps(other)
            {
                found.extend([(*name, *other_name), (*other_name, *name)]);
            }
            let is_behind = |(other, _): &&(Place, &str)| {
                other.storage == place.storage && other.bytes.end >= place.bytes.end
            };
            last = last.filter(is_behind).or(Some(here));
        }
        found
    }

    /// The array of a name.
    pub fn tensor(&self, archive: &mut Archive, name: &str) -> Result<Tensor, Pt2Error> {
        let Some((folder, payload)) = self.payloads.get(name) else {
            let entry = format!("an array `{name}` among the weights and constants");
            return Err(Pt2Error::Missing { entry });
        };
        let entry = format!("{folder}{}", payload.path_name);
        let full = archive.full(&entry);
        let Some(meta) = payload.tensor_meta.as_ref().filter(|_| !payload.use_pickle) else {
            return Err(Pt2Error::Pickle { entry: full });
        };
        let broken = |message: String| Pt2Error::Entry {
            entry: full.clone(),
            message: format!("`{name}`: {message}"),
        };
        let layout = Layout::of(meta).map_err(broken)?;
        let storage = archive.read(&entry)?;
        let bytes = layout.bytes(archive, &storage)?;
        let bytes = bytes.ok_or_else(|| {
            broken(format!(
                "its elements lie outside of the {} bytes",
                storage.len()
            ))
        })?;
        Tensor::new(layout.dtype, layout.shape, bytes).map_err(|e| broken(e.to_string()))
    }
}

/// The place of an array in the file.
#[derive(PartialEq)]
pub struct Place<'w> {
    /// The folder and the name in it.
    storage: (&'static str, &'w str),
    bytes: Range<usize>,
    layout: Layout,
}

impl Place<'_> {
    /// Is there a byte between the first and the last of both?
    pub fn overlaps(&self, other: &Place) -> bool {
        let (a, b) = (&self.bytes, &other.bytes);
        self.storage == other.storage && a.start.max(b.start) < a.end.min(b.end)
    }
}

/// The places of an array's elements in a storage.
#[derive(PartialEq)]
struct Layout {
    dtype: DType,
    shape: Vec<usize>,
    strides: Vec<usize>,
    offset: usize,
}

impl Layout {
    fn of(meta: &TensorMeta) -> Result<Self, String> {
        let dtype = schema::dtype(meta.dtype).ok().and_then(|n| n.parse().ok());
        let Some(dtype) = dtype else {
            return Err(format!("its element type has the number {}", meta.dtype));
        };
        if meta.layout != STRIDED {
            return Err(format!("it has the layout {}", meta.layout));
        }
        if meta.sizes.len() > MAX_AXES || meta.strides.len() != meta.sizes.len() {
            let (n, m) = (meta.sizes.len(), meta.strides.len());
            return Err(format!("it has {n} sizes and {m} strides"));
        }
        let number = |n: &SymInt| match n {
            SymInt::AsInt(n) => usize::try_from(*n).map_err(|_| format!("it has a size of {n}")),
            SymInt::AsExpr(_) => Err("a size of it is not a number".to_owned()),
        };
        Ok(Self {
            dtype,
            shape: meta.sizes.iter().map(number).collect::<Result<_, _>>()?,
            strides: meta.strides.iter().map(number).collect::<Result<_, _>>()?,
            offset: number(&meta.storage_offset)?,
        })
    }

    /// The elements in row-major order: a slice of the storage where they lie so. `None` if some lie outside.
    fn bytes(&self, archive: &mut Archive, storage: &Bytes) -> Result<Option<Bytes>, Pt2Error> {
        let Some((length, end)) = self.extent() else {
            return Ok(None);
        };
        if length == 0 {
            return Ok(Some(Bytes::new()));
        }
        if end > storage.len() {
            return Ok(None);
        }
        let width = self.dtype.bits() / 8;
        let start = self.offset * width;
        if self.is_dense() {
            return Ok(Some(storage.slice(start..start + length)));
        }
        archive.spend(length as u64)?;
        let mut bytes = Vec::with_capacity(length);
        let mut index = vec![0; self.shape.len()];
        for _ in 0..length / width {
            let place: usize = index.iter().zip(&self.strides).map(|(i, s)| i * s).sum();
            let at = start + place * width;
            bytes.extend_from_slice(&storage[at..at + width]);
            for (axis, i) in index.iter_mut().enumerate().rev() {
                *i += 1;
                if *i < self.shape[axis] {
                    break;
                }
                *i = 0;
            }
        }
        Ok(Some(bytes.into()))
    }

    /// The bytes that the elements take, and where the last one ends in the storage; `None` on overflow.
    fn extent(&self) -> Option<(usize, usize)> {
        let width = self.dtype.bits() / 8;
        if self.shape.contains(&0) {
            return Some((0, 0));
        }
        let mut last = self.offset;
        let mut count = 1usize;
        for (size, stride) in self.shape.iter().zip(&self.strides) {
            count = count.checked_mul(*size)?;
            last = last.checked_add((size - 1).checked_mul(*stride)?)?;
        }
        let end = last.checked_add(1)?.checked_mul(width)?;
        Some((count.checked_mul(width)?, end))
    }

    fn is_dense(&self) -> bool {
        let mut want = 1;
        for (size, stride) in self.shape.iter().zip(&self.strides).rev() {
            if *size != 1 && *stride != want {
                return false;
            }
            want *= size;
        }
        true
    }
}
