//! The bytes of a tensor, from first to last.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use record_file::ReadAt;

use super::TensorInfo;
use crate::merge::Memory;
use crate::{Error, ErrorKind, Result};

/// How much is copied at a time: 256 KiB.
const COPY_LEN: usize = 256 << 10;

/// Writes the bytes of a tensor.
type Produce<'a> = Box<dyn FnOnce(&mut dyn Write) -> Result<()> + Send + 'a>;

/// The bytes of a tensor, which are read when they are asked for and never held as a whole.
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
    /// A tensor whose bytes `produce` writes, from the first to the last. It may write them in
    /// pieces of any size; exactly [`TensorInfo::bytes`] of them.
    pub fn new(
        info: TensorInfo,
        produce: impl FnOnce(&mut dyn Write) -> Result<()> + Send + 'a,
    ) -> Self {
        let produce = Box::new(produce);
        TensorReader { info, produce }
    }

    /// A tensor that is a range of what can be read by position.
    pub fn of_range(info: TensorInfo, source: Arc<dyn ReadAt>, range: Range<u64>) -> Self {
        TensorReader::new(info, move |sink| copy_range(&source, range, sink))
    }

    /// A tensor that is in memory.
    pub fn of_bytes(info: TensorInfo, bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        TensorReader::new(info, move |sink| Ok(sink.write_all(&bytes)?))
    }

    /// What its header says.
    pub fn info(&self) -> &TensorInfo {
        &self.info
    }

    /// Writes the bytes of the tensor, as they are stored.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidMessage`] if they are more or fewer than the header says; what reading
    /// and writing report. Then `sink` has had bytes that are not to be used.
    pub fn write_to(self, sink: &mut dyn Write) -> Result<()> {
        let TensorReader { info, produce } = self;
        let mut counted = Counted {
            sink,
            left: info.bytes,
            is_over: false,
        };
        let produced = produce(&mut counted);
        let Counted { left, is_over, .. } = counted;
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

    /// All bytes of the tensor, in memory.
    ///
    /// # Errors
    ///
    /// As [`write_to`](Self::write_to).
    pub fn to_vec(self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.write_to(&mut bytes)?;
        Ok(bytes)
    }
}

/// Reads a range of what can be read by position to fresh memory: in huge pages, where it is large
/// and the system has them, since faults of small ones take as long as the copy.
///
/// ```
/// let file = b"....\x01\x02....";
/// assert_eq!(proto_splitter_core::tensor::read_bytes(&file, 4..6)?, [1, 2].as_slice());
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::InvalidMessage`] if the range goes past the end, before anything is allocated;
/// [`ErrorKind::LimitExceeded`] if there isn't as much memory; [`ErrorKind::Io`].
pub fn read_bytes(source: &dyn ReadAt, range: Range<u64>) -> Result<Bytes> {
    let size = source.size()?;
    if range.end > size || range.start > range.end {
        let message = format!(
            "bytes {} to {} of a file of {size} bytes",
            range.start, range.end
        );
        return Err(Error::new(ErrorKind::InvalidMessage, message));
    }
    let mut memory = Memory::of(range.end - range.start)?;
    source.read_exact_at(range.start, memory.as_mut_slice())?;
    Ok(memory.into())
}

fn copy_range(source: &dyn ReadAt, range: Range<u64>, sink: &mut dyn Write) -> Result<()> {
    let mut buffer = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let left = usize::try_from(range.end - at).unwrap_or(usize::MAX);
        buffer.resize(left.min(COPY_LEN), 0);
        source
            .read_exact_at(at, &mut buffer)
            .map_err(|error| Error::from(error).at_offset(at))?;
        sink.write_all(&buffer)?;
        at += buffer.len() as u64;
    }
    Ok(())
}

/// Lets no more bytes through than there may be.
struct Counted<'a> {
    sink: &'a mut dyn Write,
    left: u64,
    is_over: bool,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            self.is_over = true;
            return Err(io::Error::other("more bytes than the tensor has"));
        }
        let written = self.sink.write(bytes)?;
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
