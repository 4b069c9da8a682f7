//! Philox 4x32-10, a counter-based generator (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3), and numbers of
//! other distributions made of its bits.
//!
//! All arithmetic is on integers, but for one square root, which IEEE 754 rounds in one way. Emitted programs repeat
//! it step by step, so that all devices draw the same numbers.

/// Coefficients of `ln(1 + t) / t` for `0 <= t <= sqrt(2) - 1`, in units of 2^-63 and with alternating signs.
const LOG: [u64; 15] = [
    0x7fff_ffff_ffff_ff69,
    0x3fff_ffff_fffd_809b,
    0x2aaa_aaaa_a8e6_7ef2,
    0x1fff_ffff_8159_1443,
    0x1999_9986_f34f_eb7d,
    0x1555_53ac_0ffd_3701,
    0x1249_0bb5_b583_2eea,
    0x0ffe_ff06_d5ee_42c3,
    0x0e31_7c3b_014d_2b55,
    0x0ca5_084f_fdba_0c32,
    0x0b05_8b4b_1daf_fcf6,
    0x08dd_8bd3_ffbb_cb20,
    0x05ee_2c4a_734c_396d,
    0x02cb_50a1_e640_3b4b,
    0x00aa_b0d0_2245_5781,
];

/// Coefficients of `sin(q pi / 2) / q` for `0 <= q <= 1`, of powers of `q^2`, in the same form.
const SIN: [u64; 9] = [
    0xc90f_daa2_2168_c232,
    0x52ae_f398_96f9_4915,
    0x0a33_5e33_bad5_3e48,
    0x0099_6966_7313_e42f,
    0x0005_41e0_d215_4615,
    0x0000_1e30_74df_af88,
    0x0000_007a_3cd9_d7b9,
    0x0000_0001_6f7a_cdb9,
    0x0000_0000_033a_8c40,
];

/// `2^64 / sqrt(2)`.
const ROOT_OF_HALF: u64 = 0xb504_f333_f9de_6484;

/// `ln(2) / 2` in units of 2^-57.
const HALF_LN_2: u64 = 0x00b1_7217_f7d1_cf7a;

/// `7 ln(2)` in units of 2^-53.
const SEVEN_LN_2: u64 = 0x009b_43d4_f8d7_958a;

/// The first 64 random bits of a key and a counter.
pub fn philox(key: u64, counter: u64) -> u64 {
    random_bits(key, counter)[0]
}

/// A standard normal number, an `i64` in units of 2^-53: `sqrt(-2 ln u) sin(2 pi v)` (Box and Muller). The first 64 random
/// bits are `u`, the others `v`: a sign, and the place within a quarter of the circle.
pub fn normal(key: u64, counter: u64) -> u64 {
    let [u, v] = random_bits(key, counter);
    // In units of 2^-59, at most 9.5.
    let radius = ((minus_log(u) as f64).sqrt() * 2f64.powi(31)) as u64;
    let q = (v << 1) | 1;
    let size = high(radius, high(q, polynomial(&SIN, high(q, q)))) >> 5;
    if v >> 63 == 1 {
        size.wrapping_neg()
    } else {
        size
    }
}

/// A standard Gumbel number, `-ln(-ln u)`, an `i64` in units of 2^-53.
pub fn gumbel(key: u64, counter: u64) -> u64 {
    let exponential = minus_log(philox(key, counter));
    (minus_log(exponential) >> 4).wrapping_sub(SEVEN_LN_2)
}

/// `-ln(u)` in units of 2^-57 for `u = (bits | 1) / 2^64`, to within 2^-51: `f = u 2^n` in `[1, sqrt(2))` or that divided by
/// `sqrt(2)`, and a polynomial of `f - 1`.
fn minus_log(bits: u64) -> u64 {
    let odd = bits | 1;
    let zeros = odd.leading_zeros();
    let whole = odd << zeros;
    let divided = high(whole, ROOT_OF_HALF);
    let (f, halves) = match divided >> 63 {
        0 => (whole, 2 * zeros + 2),
        _ => (divided, 2 * zeros + 1),
    };
    let t = f << 1;
    let log = high(polynomial(&LOG, t), t) >> 6;
    (u64::from(halves) * HALF_LN_2).saturating_sub(log)
}

/// The polynomial with alternating signs at `x / 2^64`.
fn polynomial(coefficients: &[u64], x: u64) -> u64 {
    let mut terms = coefficients.iter().rev();
    let last = terms.next().copied().unwrap_or(0);
    terms.fold(last, |rest, c| c - high(rest, x))
}

/// The upper half of a product.
fn high(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

/// The 128 random bits of a key and a counter, whose upper 64 bits are zero.
fn random_bits(key: u64, counter: u64) -> [u64; 2] {
    let words = |n: u64| [n as u32, (n >> 32) as u32];
    let [low, upper] = words(counter);
    let [a, b, c, d] = block([low, upper, 0, 0], words(key));
    let join = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
    [join(a, b), join(c, d)]
}

fn block(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let [a, b, c, d] = counter;
        let (x, y) = (0xd251_1f53 * u64::from(a), 0xcd9e_8d57 * u64::from(c));
        counter = [
            (y >> 32) as u32 ^ b ^ key[0],
            y as u32,
            (x >> 32) as u32 ^ d ^ key[1],
            x as u32,
        ];
        key = [
            key[0].wrapping_add(0x9e37_79b9),
            key[1].wrapping_add(0xbb67_ae85),
        ];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers of the authors' library, Random123.
    #[test]
    fn blocks_are_those_of_the_paper() {
        let zero = block([0; 4], [0; 2]);
        assert_eq!(zero, [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
        let ones = block([u32::MAX; 4], [u32::MAX; 2]);
        assert_eq!(ones, [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]);
        let pi = [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344];
        let pi = block(pi, [0xa4093822, 0x299f31d0]);
        assert_eq!(pi, [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]);
        assert_eq!(philox(0, 0), 0xe169_c58d_6627_e8d5);
    }

    #[test]
    fn logarithms_are_accurate() {
        let edges = [0, 1, 2, 1 << 63, (1 << 63) - 1, ROOT_OF_HALF, u64::MAX];
        let places = (0..20_000).map(|i| philox(1, i) >> (i % 64));
        for bits in edges.into_iter().chain(places) {
            let got = minus_log(bits) as f64 / 2f64.powi(57);
            let odd = bits | 1;
            // In floats, `1 - u` is more accurate than `u` where that is near to 1.
            let exact = match odd >> 63 {
                1 => -(-(odd.wrapping_neg() as f64 / 2f64.powi(64))).ln_1p(),
                _ => -(odd as f64 / 2f64.powi(64)).ln(),
            };
            let error = (got - exact).abs();
            assert!(error < 2f64.powi(-46), "-ln({bits}) is {got}, not {exact}");
        }
    }

    #[test]
    fn normals_and_gumbels_are_those_of_their_formulas() {
        let number = |units: u64| units as i64 as f64 / 2f64.powi(53);
        let fraction = |bits: u64| (bits | 1) as f64 / 2f64.powi(64);
        for counter in 0..20_000 {
            let [u, v] = random_bits(7, counter);
            let turn = fraction(v << 1) * std::f64::consts::FRAC_PI_2;
            let sign = if v >> 63 == 1 { -1.0 } else { 1.0 };
            let radius = (-2.0 * fraction(u).ln()).sqrt();
            let off = number(normal(7, counter)) - sign * radius * turn.sin();
            assert!(
                off.abs() * radius < 2f64.powi(-44),
                "normal {counter}: {off}"
            );
            let off = number(gumbel(7, counter)) + (-fraction(u).ln()).ln();
            assert!(off.abs() < 2f64.powi(-30), "gumbel {counter}: {off}");
        }
    }

    /// Calculated apart, in Python's integers.
    #[test]
    fn numbers_stay_the_same() {
        let draws =
            |f: fn(u64, u64) -> u64| [f(0, 0), f(1, 2), f(u64::MAX, 1 << 40)].map(|n| n as i64);
        let normals = [-1478326916664528, -9457440882362877, 4020184130569836];
        assert_eq!(draws(normal), normals);
        let gumbels = [18569793714468476, 4812419199044757, 20693815796525290];
        assert_eq!(draws(gumbel), gumbels);
    }

    /// Moments of a million numbers.
    #[test]
    fn numbers_are_distributed_as_stated() {
        const COUNT: u64 = 1_000_000;
        let moments = |f: fn(u64, u64) -> u64| {
            let mut sums = [0.0; 4];
            for i in 0..COUNT {
                let x = f(3, i) as i64 as f64 / 2f64.powi(53);
                let mut power = 1.0;
                for sum in &mut sums {
                    power *= x;
                    *sum += power;
                }
            }
            sums.map(|sum| sum / COUNT as f64)
        };
        // Limits are five deviations of the mean.
        let near = |got: f64, want: f64, limit: f64| {
            assert!((got - want).abs() < limit, "{got}, not {want}");
        };
        let [first, second, third, fourth] = moments(normal);
        near(first, 0.0, 5e-3);
        near(second, 1.0, 7.1e-3);
        near(third, 0.0, 0.02);
        near(fourth, 3.0, 0.05);
        let [first, second, ..] = moments(gumbel);
        near(first, 0.577_215_664_9, 6.5e-3);
        near(
            second - first * first,
            std::f64::consts::PI.powi(2) / 6.0,
            0.02,
        );
        let [first, second, ..] = moments(|key, i| philox(key, i) >> 11);
        near(first, 0.5, 1.5e-3);
        near(second - first * first, 1.0 / 12.0, 4e-4);
    }
}
