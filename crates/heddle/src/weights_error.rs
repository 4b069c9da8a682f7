//! Errors of weights in fewer bytes.

use std::time::Duration;

use crate::pipeline::{Origin, compile_for};
use crate::{CompileOptions, Error, Inputs, Program, RunOptions, Tensor, Value, Weights, backend};

impl Program {
    /// The error of each output against the same program with weights in `f32`, on the same inputs: the largest difference of two
    /// elements by the largest number of the latter; infinite where shapes or infinities differ. Zeros for a program with weights in `f32`.
    ///
    /// # Errors
    ///
    /// As for [`compile`](crate::compile) and [`Program::run`].
    pub fn weights_errors(
        &self,
        inputs: Inputs,
        options: &RunOptions,
    ) -> Result<Vec<(String, f64)>, Error> {
        let wide = CompileOptions {
            weights: Weights::F32,
            ..(*self.options).clone()
        };
        let origin = Origin::Optimized(self.module.clone());
        let wide = compile_for(&*backend::of(&wide)?, origin, Duration::ZERO, &wide)?;
        let wide = Program {
            structures: self.structures.clone(),
            ..wide
        };
        let found = self.run(inputs.clone(), options)?.outputs;
        let wanted = wide.run(inputs, options)?.outputs;
        let error = |(name, wanted): (&String, &Value)| {
            let found = found.get(name);
            let error = found.map_or(f64::INFINITY, |found| difference(found, wanted));
            (name.clone(), error)
        };
        Ok(wanted.iter().map(error).collect())
    }

    /// That no error of [`Program::weights_errors`] exceeds a limit.
    ///
    /// # Errors
    ///
    /// [`Error::WeightsError`] names the first output whose error does.
    pub fn check_weights_errors(&self, errors: &[(String, f64)], limit: f64) -> Result<(), Error> {
        match errors.iter().find(|(_, error)| *error > limit) {
            Some((output, error)) => Err(Error::WeightsError {
                output: output.clone(),
                weights: self.options.weights,
                error: *error,
                limit,
            }),
            None => Ok(()),
        }
    }
}

fn difference(found: &Value, wanted: &Value) -> f64 {
    let all = |pairs: &mut dyn Iterator<Item = (&Value, &Value)>| {
        pairs.map(|(a, b)| difference(a, b)).fold(0.0, f64::max)
    };
    match (found, wanted) {
        (Value::Tensor(found), Value::Tensor(wanted)) => of_arrays(found, wanted),
        (Value::Seq(a), Value::Seq(b)) if a.len() == b.len() => all(&mut a.iter().zip(b)),
        (Value::Opt(None), Value::Opt(None)) => 0.0,
        (Value::Opt(Some(a)), Value::Opt(Some(b))) => difference(a, b),
        _ => f64::INFINITY,
    }
}

fn of_arrays(found: &Tensor, wanted: &Tensor) -> f64 {
    if found.shape() != wanted.shape() {
        return f64::INFINITY;
    }
    let numbers = |tensor: &Tensor| {
        let integers = || {
            tensor
                .to_i64s()
                .map(|v| v.iter().map(|v| *v as f64).collect())
        };
        tensor.to_f64s().or_else(integers)
    };
    let (Some(a), Some(b)): (Option<Vec<f64>>, Option<Vec<f64>>) =
        (numbers(found), numbers(wanted))
    else {
        return if found == wanted { 0.0 } else { f64::INFINITY };
    };
    let finite = b.iter().filter(|b| b.is_finite());
    let most = finite.fold(0.0, |most: f64, b| most.max(b.abs()));
    let pair = |(a, b): (&f64, &f64)| match a - b {
        _ if a == b || a.is_nan() && b.is_nan() => 0.0,
        by if by.is_finite() && most > 0.0 => by.abs() / most,
        _ => f64::INFINITY,
    };
    a.iter().zip(&b).map(pair).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_relative_to_the_largest_number() {
        let array = |values: &[f32]| Value::from(Tensor::vector(values));
        let error = |a: &[f32], b: &[f32]| difference(&array(a), &array(b));
        assert_eq!(error(&[1.0, -2.0, 0.5], &[1.0, -4.0, 0.0]), 0.5);
        assert_eq!(error(&[f32::NAN, 1.0], &[f32::NAN, 1.0]), 0.0);
        assert_eq!(error(&[f32::INFINITY], &[f32::INFINITY]), 0.0);
        assert_eq!(error(&[1.0], &[f32::NAN]), f64::INFINITY);
        assert_eq!(error(&[1.0], &[0.0]), f64::INFINITY);
        assert_eq!(error(&[1.0], &[1.0, 2.0]), f64::INFINITY);
        assert_eq!(error(&[], &[]), 0.0);
    }
}
