//! The headers of a zstd frame, read before anything is decompressed.
pub(super) const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The bit in a frame's descriptor that makes the window as large as the content.
const SINGLE_SEGMENT: u8 = 0x20;
/// Maximum decompressed size of a block, in bytes.
const MAX_BLOCK: u64 = 128 << 10;

/// Returns the size of the window that a zstd frame announces, in bytes; `None` if the window is as
/// large as the content, or if `start` isn't the start of a frame.
pub(in crate::codec) fn window(start: &[u8]) -> Option<u64> {
    let [descriptor, window, ..] = *start.strip_prefix(&MAGIC)? else {
        return None;
    };
    if descriptor & SINGLE_SEGMENT != 0 {
        return None;
    }
    let base = 1u64 << (10 + (window >> 3));
    Some(base + base / 8 * u64::from(window & 7))
}

/// Returns the maximum decompressed size of a frame, computed from the headers of its blocks;
/// `None` if the bytes aren't a frame.
///
/// The frame's own content size, if present, is an unchecked claim and is not used.
pub(in crate::codec) fn most_content(frame: &[u8]) -> Option<u64> {
    let (&descriptor, rest) = frame.strip_prefix(&MAGIC)?.split_first()?;
    let single_segment = descriptor & SINGLE_SEGMENT != 0;
    let window = usize::from(!single_segment);
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content_size = match descriptor >> 6 {
        0 => usize::from(single_segment),
        log => 1 << log,
    };
    let mut blocks = rest.get(window + dictionary + content_size..)?;
    let mut most = 0;
    loop {
        let (&[a, b, c], rest) = blocks.split_first_chunk()?;
        let header = u32::from_le_bytes([a, b, c, 0]);
        let size = header >> 3;
        let (stored, content) = match header >> 1 & 3 {
            // A raw block, or one repeated byte.
            0 => (size, u64::from(size)),
            1 => (1, u64::from(size)),
            _ => (size, MAX_BLOCK),
        };
        most += content;
        blocks = rest.get(usize::try_from(stored).ok()?..)?;
        if header & 1 != 0 {
            return Some(most);
        }
    }
}
