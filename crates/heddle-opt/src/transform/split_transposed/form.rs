//! The figures of a transposed convolution, and its phases.

use heddle_ir::patch::Patch;
use heddle_ir::{DType, Inst, Op, Value};

use super::super::drop_zeros::is_finite;

/// Maximum number of convolutions that one becomes.
const MAX_PARTS: usize = 16;
/// Limit on sizes, so that products of two fit.
const MAX_SIZE: i64 = 1 << 30;
/// Maximum number of phases along an axis.
const MAX_PHASES: i64 = 256;
/// Output channels of a group with which a convolution by itself is a product at its full rate.
const MANY_CHANNELS: i64 = 16;
/// Maximum number of places that a shifted result computes for one that it keeps.
const MAX_PLACES: f64 = 1.3;

/// A spatial axis of the convolution.
pub struct Axis {
    /// Sizes of the map, the window and the result.
    pub size: i64,
    pub taps: i64,
    pub places: i64,
    /// Distance of the map's elements: the number of phases.
    pub phases: i64,
    pub stride: i64,
    pub dilation: i64,
    /// Padding before and after the map.
    pub pads: [i64; 2],
}

/// Taps of a phase along an axis: `first`, `first + step`, …
#[derive(Clone, Copy)]
pub struct Taps {
    pub first: i64,
    pub step: i64,
    pub count: i64,
    /// Element of the map at the first tap of the first place.
    pub offset: i64,
}

impl Axis {
    fn divisor(&self) -> i64 {
        gcd(self.phases, self.dilation)
    }

    /// Distance of a phase's taps in the map.
    pub fn reach(&self) -> i64 {
        self.dilation / self.divisor()
    }

    /// The taps of the results at `place`, `place + phases`, …; there are none where `count` is 0.
    fn phase(&self, place: i64) -> Taps {
        let step = self.phases / self.divisor();
        let at = |tap: i64| place + tap * self.dilation - self.pads[0];
        let first = (0..step.min(self.taps)).find(|&tap| at(tap) % self.phases == 0);
        let Some(first) = first else {
            let (first, count, offset) = (0, 0, 0);
            return Taps {
                first,
                step,
                count,
                offset,
            };
        };
        Taps {
            first,
            step,
            count: (self.taps - first + step - 1) / step,
            offset: at(first) / self.phases,
        }
    }

    /// Places of each phase if the result begins `shift` places later.
    pub fn phase_places(&self, shift: i64) -> i64 {
        (self.places + shift + self.phases - 1) / self.phases
    }

    /// Runs of neighbouring phases whose windows are the same elements of the map.
    pub fn runs(&self, shift: i64) -> Vec<Vec<Taps>> {
        let whole = Taps {
            first: 0,
            step: 1,
            count: self.taps,
            offset: 0,
        };
        let mut runs: Vec<Vec<Taps>> = vec![];
        for phase in 0..self.phases {
            let taps = match self.phases {
                1 => whole,
                _ => self.phase(phase - shift),
            };
            match runs.last_mut() {
                Some(run) if [run[0].count, run[0].offset] == [taps.count, taps.offset] => {
                    run.push(taps);
                }
                _ => runs.push(vec![taps]),
            }
        }
        runs
    }

    /// The shift with which all phases are one run.
    fn shift(&self) -> Option<i64> {
        (0..self.phases).find(|&shift| self.runs(shift).len() == 1)
    }

    /// Padding for windows of `count` taps that begin at this element and have these places.
    pub fn pads(&self, taps: &Taps, places: i64) -> [i64; 2] {
        if self.phases == 1 {
            return self.pads;
        }
        let span = (taps.count - 1) * self.reach();
        [-taps.offset, places + span + taps.offset - self.size]
    }
}

/// The figures of a convolution.
pub struct Form {
    pub axes: Vec<Axis>,
    pub groups: usize,
    pub outputs: i64,
    /// Number of images, if it is static.
    pub batch: Option<i64>,
    pub x: Value,
    pub weight: Value,
    pub dtype: DType,
}

impl Form {
    /// The figures of a convolution whose phases can be computed by themselves.
    pub fn of(patch: &Patch, inst: Inst) -> Option<Self> {
        let data = &patch.func().insts[inst];
        let Op::Conv {
            strides,
            dilations,
            input_dilations,
            groups,
        } = &data.op
        else {
            return None;
        };
        let [x, weight, pads] = patch.args(inst)[..] else {
            return None;
        };
        let pads = patch.func().constant(pads)?.to_i64s()?;
        // The zeros between elements would make an infinite weight NaN.
        if !is_finite(patch.func(), weight) {
            return None;
        }
        let ty = patch.ty(x).as_tensor()?;
        let [sizes, window, result] = [x, weight, data.results[0]].map(|v| patch.ty(v));
        let [sizes, result] = [sizes, result].map(|t| t.as_tensor()?.shape.clone());
        let (sizes, result) = (sizes?, result?);
        let window = window.as_tensor()?.static_shape()?;
        let rank = strides.len();
        let mut axes = vec![];
        for k in 0..rank {
            let int = |n: usize| i64::try_from(n).ok();
            let axis = Axis {
                size: sizes.get(k + 2)?.as_const()?,
                taps: int(*window.get(k + 2)?)?,
                places: result.get(k + 2)?.as_const()?,
                phases: int(input_dilations[k])?,
                stride: int(strides[k])?,
                dilation: int(dilations[k])?,
                pads: [*pads.get(k)?, *pads.get(rank + k)?],
            };
            let all = [axis.size, axis.taps, axis.places, axis.phases];
            let is_some = all.iter().all(|n| (1..MAX_SIZE).contains(n));
            let small = [axis.dilation, axis.pads[0], axis.pads[1]];
            let fits = small.iter().all(|n| n.abs() < MAX_SIZE);
            let is_strided = axis.phases > 1 && axis.stride > 1;
            if !is_some || !fits || is_strided || axis.phases > MAX_PHASES {
                return None;
            }
            axes.push(axis);
        }
        Some(Self {
            axes,
            groups: *groups,
            outputs: i64::try_from(*window.first()?).ok().filter(|&o| o > 0)?,
            batch: sizes[0].as_const(),
            x,
            weight,
            dtype: ty.dtype,
        })
    }

    /// Places by which the result begins earlier, along each axis. `None` if it would take too
    /// many convolutions.
    pub fn shift(&self) -> Option<Vec<i64>> {
        let parts = |shift: &[i64]| {
            let axes = self.axes.iter().zip(shift);
            axes.map(|(axis, &shift)| axis.runs(shift).len())
                .product::<usize>()
        };
        let none = vec![0; self.axes.len()];
        let parts_alone = parts(&none);
        let is_wide = self.outputs / self.groups as i64 >= MANY_CHANNELS;
        if parts_alone == 1 || is_wide && parts_alone <= MAX_PARTS {
            return Some(none);
        }
        let stacked: Option<Vec<i64>> = self.axes.iter().map(Axis::shift).collect();
        let places = |(axis, &shift): (&Axis, &i64)| {
            (axis.phase_places(shift) * axis.phases) as f64 / axis.places as f64
        };
        let stacked = stacked.filter(|shift| {
            let more = self.axes.iter().zip(shift).map(places);
            more.product::<f64>() <= MAX_PLACES
        });
        stacked.or((parts_alone <= MAX_PARTS).then_some(none))
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    match b {
        0 => a,
        _ => gcd(b, a % b),
    }
}
