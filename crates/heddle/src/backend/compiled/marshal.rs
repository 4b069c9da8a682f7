//! Arrays as compiled programs hold them: elements of under 8 bits take a byte each.

use heddle_ir::{DType, Tensor};

/// An input as a program reads it.
pub fn unpacked(tensor: &Tensor) -> Tensor {
    let bits = tensor.dtype().bits();
    if !(1..8).contains(&bits) {
        return tensor.clone();
    }
    let (per, mask) = (8 / bits, ((1u16 << bits) - 1) as u8);
    let bytes = tensor.bytes();
    let codes = (0..tensor.len()).map(|i| bytes[i / per] >> (i % per * bits) & mask);
    Tensor::from_slice(tensor.shape().to_vec(), &codes.collect::<Vec<u8>>())
}

/// The bytes of a tensor of what a program wrote.
pub fn packed(dtype: DType, bytes: &[u8]) -> Vec<u8> {
    let bits = dtype.bits();
    if !(1..8).contains(&bits) {
        return bytes.to_vec();
    }
    let codes = bytes.chunks(8 / bits);
    let pack = |codes: &[u8]| {
        codes
            .iter()
            .rev()
            .fold(0u8, |byte, code| byte << bits | code)
    };
    codes.map(pack).collect()
}

/// An element as a launch is given it: an integer, or a float's bits.
pub fn element(dtype: DType, data: &[u8], place: usize) -> i64 {
    let width = dtype.bits() / 8;
    let mut bits = [0; 8];
    if let Some(bytes) = data.chunks_exact(width.max(1)).nth(place) {
        bits[..width].copy_from_slice(bytes);
    }
    let spare = 64 - 8 * width as u32;
    let bits = i64::from_le_bytes(bits);
    match dtype.is_signed_int() {
        true => bits << spare >> spare,
        false => bits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_elements_take_a_byte_each() {
        let packed_bytes = vec![0x21, 0x03];
        let tensor = Tensor::new(DType::I4, vec![3], packed_bytes.clone().into()).unwrap();
        let bytes = unpacked(&tensor);
        assert_eq!(bytes.bytes()[..], [1, 2, 3]);
        assert_eq!(packed(DType::I4, bytes.bytes()), packed_bytes);
        assert_eq!(packed(DType::U2, &[3, 0, 1, 2, 1]), [0b10_01_00_11, 1]);
    }

    #[test]
    fn elements_keep_their_sign() {
        let of = |tensor: &Tensor, place| element(tensor.dtype(), tensor.bytes(), place);
        assert_eq!(of(&Tensor::vector(&[1i32, -2]), 1), -2);
        assert_eq!(of(&Tensor::vector(&[250u8]), 0), 250);
        assert_eq!(of(&Tensor::scalar(1f32), 0), 0x3f80_0000);
    }
}
