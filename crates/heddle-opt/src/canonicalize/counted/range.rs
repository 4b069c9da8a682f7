//! Ranges of integers.

use std::ops::{Add, Neg};

use heddle_ir::DType;

/// Integers from `low` to `high`; `None` is no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub low: Option<i128>,
    pub high: Option<i128>,
}

/// 0 and 1.
pub(super) const BIT: Interval = Interval::new(0, 1);

/// The lengths of arrays: memory holds none that is longer.
pub(super) const LENGTH: Interval = Interval::new(0, 1 << 47);

/// Integers whose sums and differences do not overflow.
pub(super) const SMALL: Interval = Interval::new(-(1 << 61), 1 << 61);

impl Interval {
    pub(super) const AT_LEAST_0: Self = Self {
        low: Some(0),
        high: None,
    };

    pub(super) const fn new(low: i128, high: i128) -> Self {
        Self {
            low: Some(low),
            high: Some(high),
        }
    }

    /// The one number, if it is just one.
    pub(super) fn as_one(self) -> Option<i128> {
        self.low.filter(|_| self.low == self.high)
    }

    /// All numbers of both and those between them.
    pub(super) fn hull(self, other: Self) -> Self {
        Self {
            low: self.low.zip(other.low).map(|(a, b)| a.min(b)),
            high: self.high.zip(other.high).map(|(a, b)| a.max(b)),
        }
    }

    /// The larger ones of any two numbers of both.
    pub(super) fn larger(self, other: Self) -> Self {
        Self {
            low: self.low.max(other.low),
            high: self.high.zip(other.high).map(|(a, b)| a.max(b)),
        }
    }

    /// The numbers that are in both.
    pub(super) fn common(self, other: Self) -> Self {
        Self {
            low: self.low.max(other.low),
            high: match (self.high, other.high) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            },
        }
    }

    /// Is each of its numbers in the other one?
    pub(super) fn is_within(self, other: Self) -> bool {
        self.common(other) == self
    }

    /// Sums of any number of its numbers, if all have one sign.
    pub(super) fn repeated(self) -> Option<Self> {
        match (self.low, self.high) {
            (Some(0), Some(0)) => Some(self),
            (Some(0..), _) => Some(Self::AT_LEAST_0),
            (_, Some(..=0)) => Some(-Self::AT_LEAST_0),
            _ => None,
        }
    }
}

impl From<i64> for Interval {
    fn from(number: i64) -> Self {
        Self::from(i128::from(number))
    }
}

impl From<i128> for Interval {
    fn from(number: i128) -> Self {
        Self::new(number, number)
    }
}

impl From<i32> for Interval {
    fn from(number: i32) -> Self {
        Self::from(i128::from(number))
    }
}

impl Add for Interval {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            low: self.low.zip(other.low).map(|(a, b)| a + b),
            high: self.high.zip(other.high).map(|(a, b)| a + b),
        }
    }
}

impl Neg for Interval {
    type Output = Self;

    fn neg(self) -> Self {
        Self {
            low: self.high.map(|n| -n),
            high: self.low.map(|n| -n),
        }
    }
}

/// The numbers of an integer type that `i64` holds.
pub(super) fn range_of(dtype: DType) -> Option<Interval> {
    let (low, high) = match dtype {
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DType::I32 => (i32::MIN.into(), i32::MAX.into()),
        DType::I64 => (i64::MIN.into(), i64::MAX.into()),
        DType::U8 => (0, u8::MAX.into()),
        DType::U16 => (0, u16::MAX.into()),
        DType::U32 => (0, u32::MAX.into()),
        _ => return None,
    };
    Some(Interval::new(low, high))
}
