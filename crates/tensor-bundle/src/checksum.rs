//! Masking checksums for storage in a bundle.

/// Constant added to a rotated checksum.
const DELTA: u32 = 0xa282_ead8;

/// Masks a crc32c for storage in a bundle: rotates the crc32c by 15 bits, and adds a constant.
///
/// Bundles store masked checksums, since a crc32c over data that contains unmasked crc32c values
/// would be a weak checksum.
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

/// Returns the original crc32c for a value that [`mask_crc`] returned.
#[must_use]
pub const fn unmask_crc(masked: u32) -> u32 {
    masked.wrapping_sub(DELTA).rotate_left(15)
}
