//! The stored form of checksums in a bundle.

/// Constant added to a rotated checksum.
const DELTA: u32 = 0xa282_ead8;

/// Masks a crc32c for storage in a bundle: rotates it by 15 bits, and adds a constant.
///
/// Bundles store masked checksums, since a checksum over data that contains its own checksum would
/// be weak.
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

/// Returns the crc32c from which a masked checksum was made.
#[must_use]
pub const fn unmask_crc(masked: u32) -> u32 {
    masked.wrapping_sub(DELTA).rotate_left(15)
}
