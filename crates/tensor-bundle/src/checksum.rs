//! The stored form of checksums in a bundle.

/// Constant added to a rotated checksum.
const DELTA: u32 = 0xa282_ead8;

/// Masks a crc32c as a bundle stores it: rotated by 15 bits, plus a constant.
///
/// A checksum of bytes that contain their own checksums would be weak, unless these are masked.
///
/// ```
/// use proto_splitter_tensor_bundle::{mask_crc, unmask_crc};
///
/// assert_eq!(mask_crc(0), 0xa282_ead8);
/// assert_eq!(unmask_crc(mask_crc(0x1234_5678)), 0x1234_5678);
/// ```
#[must_use]
pub const fn mask_crc(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(DELTA)
}

/// Returns the crc32c of a masked one.
#[must_use]
pub const fn unmask_crc(masked: u32) -> u32 {
    masked.wrapping_sub(DELTA).rotate_left(15)
}
