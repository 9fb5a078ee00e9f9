//! Reading the content of a stream, after its header.

use std::ops::Range;

use bytes::Bytes;
use proto_splitter_core::spans::read_pieces;
use proto_splitter_core::tensor::read_bytes;
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use super::{Stream, len};

impl Stream {
    /// Reads the stream's elements into `buffer`, whose size must be the length of
    /// [`data`](Self::data). To use several threads, let each thread read a part of
    /// [`data`](Self::data) with the source's `read_exact_at` instead.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the buffer has the wrong size; [`ErrorKind::Io`].
    pub fn read_data(&self, source: &dyn ReadAt, buffer: &mut [u8]) -> Result<()> {
        let size = len(&self.parts.data);
        if size != buffer.len() as u64 {
            let message = format!(
                "the buffer has {} bytes, but the data has {size}",
                buffer.len()
            );
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        Ok(source.read_exact_at(self.parts.data.start, buffer)?)
    }

    /// Reads the stream's elements into newly allocated memory. Several threads can read different
    /// streams at the same time.
    ///
    /// # Errors
    ///
    /// The errors of [`read_bytes`].
    pub fn to_bytes(&self, source: &dyn ReadAt) -> Result<Bytes> {
        read_bytes(source, self.parts.data.clone())
    }

    /// Reads the offsets of each LoD level, as they are stored in the file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`].
    pub fn lod(&self, source: &dyn ReadAt) -> Result<Vec<Vec<u64>>> {
        let levels = self.parts.lod.iter();
        levels
            .map(|level| {
                let mut offsets = Vec::new();
                numbers(source, level, |_, offset| {
                    offsets.push(offset);
                    Ok(())
                })?;
                Ok(offsets)
            })
            .collect()
    }

    /// Reads the row numbers of SelectedRows. Returns an empty list for streams of other kinds.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`].
    pub fn rows(&self, source: &dyn ReadAt) -> Result<Vec<i64>> {
        let mut rows = Vec::new();
        numbers(source, &self.parts.rows, |_, row| {
            rows.push(row.cast_signed());
            Ok(())
        })?;
        Ok(rows)
    }

    /// Checks the content that isn't checked when the header is read. The offsets of each LoD level
    /// must begin with 0, not decrease, and end with the number of items that the level divides.
    /// The row numbers of SelectedRows must be below the number of rows in the matrix, and the
    /// words of a vocabulary must be UTF-8.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidMessage`] with an offset if the content is invalid;
    /// [`ErrorKind::LimitExceeded`] if a word is larger than 1 MiB; [`ErrorKind::Io`].
    pub fn verify(&self, source: &dyn ReadAt) -> Result<()> {
        let levels = self.parts.lod.iter().enumerate();
        for (at, level) in levels {
            // A level divides the sequences of the next level, and the last level divides the
            // tensor's rows.
            let counted = match self.parts.lod.get(at + 1) {
                Some(next) => (len(next) / 8).saturating_sub(1),
                None => self.dims.first().copied().unwrap_or(1),
            };
            let mut last = 0;
            numbers(source, level, |index, offset| {
                let fits = if index == 0 {
                    offset == 0
                } else {
                    offset >= last
                };
                last = offset;
                if fits {
                    Ok(())
                } else {
                    Err(Error::invalid(format!(
                        "offsets must start at 0 and not decrease: offset {index} of LoD level {at} is {offset}"
                    )))
                }
            })?;
            if last != counted {
                let message =
                    format!("LoD level {at} ends with {last}, but must end with {counted}");
                return Err(Error::invalid(message).at_offset(level.start));
            }
        }
        self.for_each_word(source, |_, _| ())?;
        let height = self.parts.height;
        numbers(source, &self.parts.rows, |index, row| {
            if (0..height).contains(&row.cast_signed()) {
                Ok(())
            } else {
                Err(Error::invalid(format!(
                    "row {index} has the number {}, but the height is {height}",
                    row.cast_signed()
                )))
            }
        })
    }
}

/// Calls `take` with each 64-bit number in a byte range, and the number's index in that range.
fn numbers(
    source: &dyn ReadAt,
    range: &Range<u64>,
    mut take: impl FnMut(u64, u64) -> Result<()>,
) -> Result<()> {
    read_pieces(source, range.clone(), &mut Vec::new(), |at, piece| {
        for (index, bytes) in piece.chunks_exact(8).enumerate() {
            let mut number = [0; 8];
            number.copy_from_slice(bytes);
            let offset = at + 8 * index as u64;
            take((offset - range.start) / 8, u64::from_le_bytes(number))
                .map_err(|error| error.at_offset(offset))?;
        }
        Ok(())
    })
}
