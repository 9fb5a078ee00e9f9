//! Upper bounds on the sizes of record files.

/// Returns the maximum stored size in bytes of a record with `size` bytes, including headers and
/// the growth of incompressible data.
pub fn most_stored(size: u64) -> u64 {
    size.saturating_add(size / 64).saturating_add(512)
}

/// Returns the maximum stored size in bytes of the last record of a file with `chunks` chunks. This
/// record lists the chunks.
pub fn most_of_trailer(chunks: usize) -> u64 {
    most_stored(64 + 48 * chunks as u64)
}

/// Returns the maximum size in bytes of a chunk that fits in a file of `max` bytes.
pub(super) fn largest_chunk(max: u64) -> u64 {
    (max - max / 32).saturating_sub(2048).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_chunk_has_room_in_a_file_of_its_own() {
        for max in [4096, 5000, 1 << 20, 4 << 30, u64::MAX] {
            let stored = most_stored(largest_chunk(max)).saturating_add(most_of_trailer(1));
            assert!(stored + 64 <= max, "{max}");
        }
    }
}
