//! Reading the bytes of a tensor, from first to last.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use record_file::ReadAt;

use super::TensorInfo;
use crate::merge::Buffer;
use crate::spans::copy_range;
use crate::{Error, ErrorKind, Result};

/// A function that writes all bytes of a tensor.
type All<'a> = dyn FnOnce(&mut dyn Write) -> Result<()> + Send + 'a;

/// A function that writes any range of a tensor's bytes, and reads only this range.
type Part<'a> = dyn FnOnce(Range<u64>, &mut dyn Write) -> Result<()> + Send + 'a;

/// The function that writes the bytes of a tensor.
enum Produce<'a> {
    All(Box<All<'a>>),
    Part(Box<Part<'a>>),
}

/// A reader of a tensor's bytes, which are read on demand and never held in memory as a whole.
///
/// ```
/// use std::sync::Arc;
/// use proto_splitter_core::tensor::{DType, Location, TensorInfo, TensorReader};
///
/// // Two bytes of a tensor in the middle of a file.
/// let file: Arc<dyn record_file::ReadAt> = Arc::new(b"....\x01\x02....");
/// let info = TensorInfo::new("steps", DType::U8, vec![2]).located(Location::file("a.bin", 4));
/// let reader = TensorReader::of_range(info, file, 4..6);
///
/// let mut bytes = Vec::new();
/// reader.write_to(&mut bytes)?;
/// assert_eq!(bytes, [1, 2]);
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
pub struct TensorReader<'a> {
    info: TensorInfo,
    produce: Produce<'a>,
}

impl std::fmt::Debug for TensorReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TensorReader")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

impl<'a> TensorReader<'a> {
    /// Creates a reader of the bytes that `produce` writes, from first to last. `produce` may write
    /// pieces of any size, but must write exactly [`TensorInfo::bytes`] bytes in total.
    pub fn new(
        info: TensorInfo,
        produce: impl FnOnce(&mut dyn Write) -> Result<()> + Send + 'a,
    ) -> Self {
        let produce = Produce::All(Box::new(produce));
        TensorReader { info, produce }
    }

    /// Creates a reader of the bytes that `produce` writes. `produce` must write any requested
    /// range of the tensor's bytes, and should read only the bytes in that range.
    pub fn of_parts(
        info: TensorInfo,
        produce: impl FnOnce(Range<u64>, &mut dyn Write) -> Result<()> + Send + 'a,
    ) -> Self {
        let produce = Produce::Part(Box::new(produce));
        TensorReader { info, produce }
    }

    /// Creates a reader for a tensor stored at `range` in a random-access source.
    pub fn of_range(info: TensorInfo, source: Arc<dyn ReadAt>, range: Range<u64>) -> Self {
        let whole = range.end.saturating_sub(range.start);
        if whole != info.bytes {
            return TensorReader::new(info, move |sink| copy_range(&source, range, sink));
        }
        TensorReader::of_parts(info, move |part, sink| {
            copy_range(
                &source,
                range.start + part.start..range.start + part.end,
                sink,
            )
        })
    }

    /// Creates a reader for a tensor in memory.
    pub fn of_bytes(info: TensorInfo, bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        TensorReader::new(info, move |sink| Ok(sink.write_all(&bytes)?))
    }

    /// Returns the header of the tensor.
    pub fn info(&self) -> &TensorInfo {
        &self.info
    }

    /// Limits the tensor to some of its rows: the elements at these indices in the first dimension.
    /// Doesn't read the bytes of other rows if the tensor is contiguous.
    ///
    /// ```
    /// use proto_splitter_core::tensor::{DType, TensorInfo, TensorReader};
    ///
    /// let info = TensorInfo::new("table", DType::U8, vec![3, 2]);
    /// let reader = TensorReader::of_bytes(info, vec![1, 2, 3, 4, 5, 6]);
    /// let rows = reader.rows(1..3)?;
    /// assert_eq!(rows.info().shape, [2, 2]);
    /// assert_eq!(rows.to_vec()?, [3, 4, 5, 6]);
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the tensor doesn't have all of these rows, or if rows begin
    /// inside a byte.
    pub fn rows(self, rows: Range<u64>) -> Result<TensorReader<'a>> {
        let TensorReader { mut info, produce } = self;
        let invalid = |message: String| {
            let error = Error::new(ErrorKind::InvalidConfig, message);
            Err(error.context(format!("tensor {:?}", info.name)))
        };
        let Some(&count) = info.shape.first() else {
            return invalid("it has one element, but no rows".into());
        };
        let Range { start, end } = rows;
        if start > end || end > count {
            return invalid(format!(
                "there are no rows {start} to {end}, since the tensor has {count}"
            ));
        }
        let whole = info.bytes;
        let bits = info.dtype.bits().filter(|_| info.is_packed());
        let row = whole.checked_div(count).unwrap_or(0);
        let inside = bits.is_some_and(|bits| {
            let elements = info.elements().unwrap_or(0).checked_div(count);
            !(elements.unwrap_or(0) * u64::from(bits)).is_multiple_of(8)
        });
        if inside || row.checked_mul(count) != Some(whole) {
            return invalid("its rows begin inside bytes".into());
        }
        let part = start * row..end * row;
        info.shape[0] = end - start;
        let info = info.sized(part.end - part.start);
        Ok(match produce {
            Produce::Part(produce) => TensorReader::of_parts(info, move |range, sink| {
                produce(part.start + range.start..part.start + range.end, sink)
            }),
            Produce::All(produce) => TensorReader::new(info, move |sink| {
                let mut window = Window {
                    sink,
                    before: part.start,
                    left: part.end - part.start,
                    is_over: false,
                };
                let produced = produce(&mut window);
                if window.is_over { Ok(()) } else { produced }
            }),
        })
    }

    /// Writes all bytes of the tensor, unchanged, to `sink`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidMessage`] if the number of bytes differs from the size in the header;
    /// any error from reading or writing. After an error, discard the bytes that `sink` received.
    pub fn write_to(self, sink: &mut dyn Write) -> Result<()> {
        let TensorReader { info, produce } = self;
        let mut window = Window {
            sink,
            before: 0,
            left: info.bytes,
            is_over: false,
        };
        let produced = match produce {
            Produce::All(produce) => produce(&mut window),
            Produce::Part(produce) => produce(0..info.bytes, &mut window),
        };
        let Window { left, is_over, .. } = window;
        let bytes = info.bytes;
        let differs = |message: String| {
            let error = Error::new(ErrorKind::InvalidMessage, message);
            Err(error.context(format!("tensor {:?}", info.name)))
        };
        if is_over {
            return differs(format!("it has more than the {bytes} bytes of its header"));
        }
        produced?;
        if left > 0 {
            let there = bytes - left;
            return differs(format!(
                "it has {there} bytes, where its header says {bytes}"
            ));
        }
        Ok(())
    }

    /// Returns all bytes of the tensor.
    ///
    /// # Errors
    ///
    /// The errors of [`write_to`](Self::write_to).
    pub fn to_vec(self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.write_to(&mut bytes)?;
        Ok(bytes)
    }
}

/// Reads a range of a random-access source into newly allocated memory. Large ranges use huge pages
/// if the system has them, since page faults for small pages take as long as copying the bytes.
///
/// ```
/// let file = b"....\x01\x02....";
/// assert_eq!(proto_splitter_core::tensor::read_bytes(&file, 4..6)?, [1, 2].as_slice());
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::InvalidMessage`] if the range exceeds the source, which is checked before anything
/// is allocated; [`ErrorKind::LimitExceeded`] if there isn't enough memory; [`ErrorKind::Io`] if
/// reading fails.
pub fn read_bytes(source: &dyn ReadAt, range: Range<u64>) -> Result<Bytes> {
    check_within(source, &range)?;
    let mut memory = Buffer::of(range.end - range.start)?;
    source.read_exact_at(range.start, memory.as_mut_slice())?;
    Ok(memory.into())
}

/// Fails unless the source contains the whole range.
pub(super) fn check_within(source: &dyn ReadAt, range: &Range<u64>) -> Result<()> {
    let size = source.size()?;
    if range.end <= size && range.start <= range.end {
        return Ok(());
    }
    let message = format!(
        "bytes {} to {} exceed the file, which has {size} bytes",
        range.start, range.end
    );
    Err(Error::new(ErrorKind::InvalidMessage, message))
}

/// A writer that forwards only one range of the bytes that it receives, and fails on bytes after
/// that range.
struct Window<'a> {
    sink: &'a mut dyn Write,
    /// Number of bytes to skip before the range.
    before: u64,
    left: u64,
    /// True if bytes after the range were received.
    is_over: bool,
}

impl Write for Window<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let passed = usize::try_from(self.before).map_or(bytes.len(), |n| n.min(bytes.len()));
        self.before -= passed as u64;
        let rest = &bytes[passed..];
        let taken = usize::try_from(self.left).map_or(rest.len(), |n| n.min(rest.len()));
        if taken == 0 && !rest.is_empty() {
            self.is_over = true;
            return Err(io::Error::other("no more bytes are wanted"));
        }
        self.sink.write_all(&rest[..taken])?;
        self.left -= taken as u64;
        Ok(passed + taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spans::COPY_LEN;
    use crate::tensor::DType;

    #[test]
    fn bytes_other_than_the_header_says_are_an_error() {
        for (bytes, message) in [
            (3, "tensor \"t\": it has 3 bytes, where its header says 4"),
            (
                5,
                "tensor \"t\": it has more than the 4 bytes of its header",
            ),
        ] {
            let info = TensorInfo::new("t", DType::U8, vec![4]);
            let error = TensorReader::of_bytes(info, vec![0; bytes]).to_vec();
            assert_eq!(error.unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn rows_are_the_same_however_the_bytes_come() {
        let all: Vec<u8> = (0..60).collect();
        let info = || TensorInfo::new("t", DType::I16, vec![10, 3]);
        let readers = || {
            let (a, b) = (all.clone(), all.clone());
            let file: Arc<dyn ReadAt> = Arc::new([&[9; 5][..], &all, &[9; 5]].concat());
            [
                TensorReader::of_bytes(info(), a),
                TensorReader::of_range(info(), file, 5..65),
                TensorReader::new(info(), move |sink| {
                    b.chunks(7).try_for_each(|piece| Ok(sink.write_all(piece)?))
                }),
            ]
        };
        for (rows, expected) in [
            (0..10, 0..60),
            (3..4, 18..24),
            (9..10, 54..60),
            (4..4, 0..0),
        ] {
            for reader in readers() {
                let some = reader.rows(rows.clone()).unwrap();
                assert_eq!(some.info().shape, [rows.end - rows.start, 3]);
                assert_eq!(some.to_vec().unwrap(), all[expected.clone()], "{rows:?}");
            }
        }
        for reader in readers() {
            let of_rows = reader.rows(2..8).unwrap().rows(1..3).unwrap();
            assert_eq!(of_rows.to_vec().unwrap(), all[18..30]);
        }
    }

    #[test]
    fn rows_that_are_not_there_are_said() {
        let of = |shape: &[u64], dtype| {
            let info = TensorInfo::new("t", dtype, shape.to_vec());
            let bytes = vec![0; usize::try_from(info.bytes).unwrap()];
            TensorReader::of_bytes(info, bytes)
        };
        for (shape, dtype, rows, expected) in [
            (
                &[4, 2][..],
                DType::U8,
                2..5,
                "tensor \"t\": there are no rows 2 to 5, since the tensor has 4",
            ),
            (
                &[],
                DType::U8,
                0..1,
                "tensor \"t\": it has one element, but no rows",
            ),
            (
                &[4, 3],
                DType::I4,
                1..2,
                "tensor \"t\": its rows begin inside bytes",
            ),
        ] {
            let error = of(shape, dtype).rows(rows).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        let backwards = std::ops::Range { start: 3, end: 2 };
        assert!(of(&[4], DType::U8).rows(backwards).is_err());
    }

    #[test]
    fn a_range_past_the_end_says_where_the_source_ends() {
        let info = TensorInfo::new("t", DType::U8, vec![4]);
        let source: Arc<dyn ReadAt> = Arc::new(vec![0u8; 6]);
        let error = TensorReader::of_range(info, source, 4..8).to_vec();
        let error = error.unwrap_err();
        assert_eq!((error.kind(), error.offset()), (ErrorKind::Io, Some(4)));
    }

    #[test]
    fn a_long_tensor_is_copied_in_steps() {
        let all: Vec<u8> = (0..=250).cycle().take(COPY_LEN * 2 + 7).collect();
        let info = TensorInfo::new("t", DType::U8, vec![all.len() as u64 - 3]);
        let source: Arc<dyn ReadAt> = Arc::new(all.clone());
        let reader = TensorReader::of_range(info, source, 3..all.len() as u64);
        assert_eq!(reader.to_vec().unwrap(), all[3..]);
    }
}
