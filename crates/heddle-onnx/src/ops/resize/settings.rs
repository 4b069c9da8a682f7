//! Attributes of Resize and Upsample.

use super::super::cx::{NodeCx, Result};

/// Attributes that hold for all axes.
pub struct Settings {
    pub mode: Mode,
    pub places: Places,
    pub exclude_outside: bool,
    pub antialias: bool,
    pub extrapolation: f64,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Mode {
    Nearest(Nearest),
    Linear,
    Cubic { a: f64 },
}

/// Rounding of a coordinate between two elements.
#[derive(Clone, Copy, PartialEq)]
pub enum Nearest {
    PreferFloor,
    PreferCeil,
    Floor,
    Ceil,
    /// Opset 10: up where the scale is below 1, else down.
    Shrink,
}

/// Coordinate transformation from the result to the input.
#[derive(Clone, Copy, PartialEq)]
pub enum Places {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    TfHalfPixel,
    AlignCorners,
    Asymmetric,
    Crop,
}

impl Settings {
    pub fn of(cx: &NodeCx) -> Result<Self> {
        let nearest = [
            ("round_prefer_floor", Nearest::PreferFloor),
            ("", Nearest::PreferFloor),
            ("round_prefer_ceil", Nearest::PreferCeil),
            ("floor", Nearest::Floor),
            ("ceil", Nearest::Ceil),
        ];
        let a = f64::from(cx.float_or("cubic_coeff_a", -0.75));
        let modes = [
            ("nearest", None),
            ("linear", Some(Mode::Linear)),
            ("cubic", Some(Mode::Cubic { a })),
        ];
        let mode = match cx.choice("mode", "nearest", &modes)? {
            Some(mode) => mode,
            None => Mode::Nearest(cx.choice("nearest_mode", "round_prefer_floor", &nearest)?),
        };
        let places = [
            ("half_pixel", Places::HalfPixel),
            ("half_pixel_symmetric", Places::HalfPixelSymmetric),
            ("pytorch_half_pixel", Places::PytorchHalfPixel),
            ("tf_half_pixel_for_nn", Places::TfHalfPixel),
            ("align_corners", Places::AlignCorners),
            ("asymmetric", Places::Asymmetric),
            ("tf_crop_and_resize", Places::Crop),
        ];
        let places = cx.choice("coordinate_transformation_mode", "half_pixel", &places)?;
        Ok(Self {
            mode,
            places,
            exclude_outside: cx.flag("exclude_outside", false),
            antialias: cx.flag("antialias", false) && !matches!(mode, Mode::Nearest(_)),
            extrapolation: f64::from(cx.float_or("extrapolation_value", 0.0)),
        })
    }

    /// The settings of Upsample and of Resize 10.
    pub fn simple(cx: &NodeCx, shrink: bool) -> Result<Self> {
        let rounding = if shrink {
            Nearest::Shrink
        } else {
            Nearest::Floor
        };
        let modes = [
            ("nearest", Mode::Nearest(rounding)),
            ("linear", Mode::Linear),
            ("bilinear", Mode::Linear),
            ("trilinear", Mode::Linear),
        ];
        let mode = cx.choice("mode", "nearest", &modes)?;
        Ok(Self {
            mode,
            places: Places::Asymmetric,
            exclude_outside: false,
            antialias: false,
            extrapolation: 0.0,
        })
    }
}
