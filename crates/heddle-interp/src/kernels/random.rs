//! Philox 4x32-10, a counter-based generator (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3).

/// The first 64 random bits of a key and a counter.
pub fn philox(key: u64, counter: u64) -> u64 {
    let words = |n: u64| [n as u32, (n >> 32) as u32];
    let [low, high] = words(counter);
    let [a, b, ..] = block([low, high, 0, 0], words(key));
    u64::from(b) << 32 | u64::from(a)
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
}
