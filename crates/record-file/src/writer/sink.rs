//! A sink that writes chunks, divided into blocks, to the underlying writer.
use std::io::{self, IoSlice, Seek, SeekFrom, Write};

use crate::block::{
    BLOCK, BLOCK_HEADER, BLOCK_HEADER_LEN, BlockHeader, is_boundary, is_chunk_boundary,
    next_boundary, padded_end, payload_between, payload_end, payload_position,
};
use crate::chunk::{CHUNK_HEADER, CHUNK_HEADER_LEN, ChunkHeader, ChunkType, file_start};
use crate::hash::Hasher;

/// Minimum total size of parts that are written without being copied to the buffer, in bytes.
const GATHER_BELOW: u64 = 32 << 10;
const BUFFER: usize = 256 << 10;
/// Maximum number of blocks that are written in one call. Systems accept at most 1024 slices per
/// call, and each block needs two slices, in addition to the slices of the parts.
const BLOCKS_AT_ONCE: u64 = 500;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The range of the chunk that is being written. Block headers inside the chunk give this range.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Frame {
    Known {
        begin: u64,
        end: u64,
    },
    /// The end of the chunk isn't known yet, so zeros are written instead of block headers.
    Open,
}

impl Frame {
    fn block_header(self, block: u64) -> [u8; BLOCK_HEADER_LEN] {
        match self {
            Frame::Known { begin, end } => BlockHeader::within(block, begin, end).encode(),
            Frame::Open => [0; BLOCK_HEADER_LEN],
        }
    }
}

/// The type of [`BlockSink::patch`], which seeks back to fill in headers. Only seekable writers
/// have this function.
pub(crate) type Patch<W> = fn(&mut BlockSink<W>, u64, &ChunkHeader, Frame) -> io::Result<()>;

#[derive(Debug)]
pub(crate) struct BlockSink<W> {
    inner: W,
    /// File position of the next byte, counting buffered bytes as written.
    pos: u64,
    buffer: Vec<u8>,
}

impl<W: Write> BlockSink<W> {
    /// Returns a sink for a new file.
    pub(crate) fn new(inner: W) -> Self {
        let start = file_start();
        BlockSink {
            inner,
            pos: start.len() as u64,
            buffer: start.to_vec(),
        }
    }

    /// Returns a sink for a file that has `pos` bytes so far; `inner` must be at the end of the
    /// file.
    ///
    /// If no chunk can begin at the end of the file, the sink first writes zeros up to the next
    /// block.
    pub(crate) fn append(inner: W, pos: u64) -> Self {
        let begin = if is_chunk_boundary(pos) {
            pos
        } else {
            next_boundary(pos)
        };
        BlockSink {
            inner,
            pos: begin,
            // The number of zeros is less than the size of a block, so it fits in a `usize`.
            buffer: vec![0; usize::try_from(begin - pos).unwrap_or(0)],
        }
    }

    pub(crate) fn pos(&self) -> u64 {
        self.pos
    }

    pub(crate) fn get_ref(&self) -> &W {
        &self.inner
    }

    pub(crate) fn get_mut(&mut self) -> &mut W {
        &mut self.inner
    }

    pub(crate) fn into_inner(self) -> W {
        self.inner
    }

    /// Writes a chunk whose data is the concatenation of `data` and `values`.
    pub(crate) fn write_chunk(
        &mut self,
        header: &ChunkHeader,
        data: &[u8],
        values: &[&[u8]],
    ) -> io::Result<()> {
        let begin = self.pos;
        let end = header.end(begin);
        let frame = Frame::Known { begin, end };
        let encoded = header.encode();
        match values {
            [] => self.emit(frame, &[&encoded, data])?,
            [one] => self.emit(frame, &[&encoded, data, one])?,
            many => {
                let mut parts = vec![&encoded[..], data];
                parts.extend_from_slice(many);
                self.emit(frame, &parts)?;
            }
        }
        self.pad(frame, end)
    }

    /// Pads the file to a multiple of `padding` with a chunk of zeros.
    pub(crate) fn write_padding(&mut self, padding: u64) -> io::Result<()> {
        let begin = self.pos;
        let Some(end) = padded_end(begin, padding) else {
            return Ok(());
        };
        let data_size = payload_between(begin, end) - CHUNK_HEADER;
        let mut hasher = Hasher::new();
        let mut left = data_size;
        while left > 0 {
            let n = usize::try_from(left).map_or(ZEROS.len(), |left| left.min(ZEROS.len()));
            hasher.update(&ZEROS[..n]);
            left -= n as u64;
        }
        let header = ChunkHeader {
            kind: ChunkType::Padding,
            data_size,
            data_hash: hasher.finish(),
            num_records: 0,
            decoded_data_size: 0,
        };
        let frame = Frame::Known { begin, end };
        self.emit(frame, &[&header.encode()])?;
        self.pad(frame, end)
    }

    /// Writes zeros up to `end`, the end of a chunk.
    pub(crate) fn pad(&mut self, frame: Frame, end: u64) -> io::Result<()> {
        while self.pos < end {
            // There is at least one zero, since the positions are more than a block header apart.
            let zeros = payload_between(self.pos, end).min(ZEROS.len() as u64);
            let zeros = usize::try_from(zeros).unwrap_or(ZEROS.len());
            self.emit(frame, &[&ZEROS[..zeros]])?;
            if zeros == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Writes `parts` one after another, and inserts the block headers.
    pub(crate) fn emit(&mut self, frame: Frame, parts: &[&[u8]]) -> io::Result<()> {
        let mut left: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let small = left < GATHER_BELOW;
        if small {
            for part in parts {
                self.buffer_part(frame, part);
            }
            if self.buffer.len() >= BUFFER {
                self.write_buffer()?;
            }
            return Ok(());
        }
        self.write_buffer()?;
        let mut parts = parts.iter().copied();
        let mut part: &[u8] = &[];
        loop {
            let first = next_boundary(self.pos);
            let end = payload_end(self.pos, left);
            let headers: Vec<_> = (0..BLOCKS_AT_ONCE)
                .map(|index| first + index * BLOCK)
                .take_while(|&block| block < end)
                .map(|block| frame.block_header(block))
                .collect();
            let mut slices: Vec<IoSlice<'_>> = Vec::new();
            let mut next_header = headers.iter();
            loop {
                while part.is_empty() {
                    match parts.next() {
                        Some(next) => part = next,
                        None => {
                            write_all_vectored(&mut self.inner, &mut slices)?;
                            return Ok(());
                        }
                    }
                }
                if is_boundary(self.pos) {
                    let Some(header) = next_header.next() else {
                        break;
                    };
                    slices.push(IoSlice::new(header));
                    self.pos += BLOCK_HEADER;
                }
                let room = BLOCK - self.pos % BLOCK;
                let n = usize::try_from(room).map_or(part.len(), |room| room.min(part.len()));
                let (now, later) = part.split_at(n);
                slices.push(IoSlice::new(now));
                self.pos += n as u64;
                left -= n as u64;
                part = later;
            }
            write_all_vectored(&mut self.inner, &mut slices)?;
        }
    }

    fn buffer_part(&mut self, frame: Frame, mut part: &[u8]) {
        while !part.is_empty() {
            if is_boundary(self.pos) {
                self.buffer.extend(frame.block_header(self.pos));
                self.pos += BLOCK_HEADER;
            }
            let room = BLOCK - self.pos % BLOCK;
            let n = usize::try_from(room).map_or(part.len(), |room| room.min(part.len()));
            self.buffer.extend_from_slice(&part[..n]);
            self.pos += n as u64;
            part = &part[n..];
        }
    }

    pub(crate) fn write_buffer(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            self.inner.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }
}

impl<W: Write + Seek> BlockSink<W> {
    /// Fills in the header of the chunk that was written from `begin` to the current position, and
    /// the block headers inside the chunk if zeros were written instead of them.
    pub(crate) fn patch(
        &mut self,
        begin: u64,
        header: &ChunkHeader,
        frame: Frame,
    ) -> io::Result<()> {
        self.write_buffer()?;
        let end = self.pos;
        let encoded = header.encode();
        let mut distance = None;
        let mut done = 0;
        while done < CHUNK_HEADER_LEN {
            let at = payload_position(begin, done as u64);
            let room = BLOCK - at % BLOCK;
            let n = usize::try_from(room)
                .unwrap_or(CHUNK_HEADER_LEN)
                .min(CHUNK_HEADER_LEN - done);
            self.write_back(at, &encoded[done..done + n], &mut distance)?;
            done += n;
        }
        if let Frame::Open = frame {
            let mut block = next_boundary(begin);
            while block < end {
                let header = BlockHeader::within(block, begin, end).encode();
                self.write_back(block, &header, &mut distance)?;
                block += BLOCK;
            }
        }
        self.seek_to(end, &mut distance)
    }

    /// Seeks to the file position `target`. Fails if the distance between `target` and the
    /// resulting position of `inner` has changed since an earlier call. The distance changes if the
    /// file was opened for appending, since every write then goes to the file's end.
    // The seek is relative, because the file may begin in the middle of the underlying stream.
    fn seek_to(&mut self, target: u64, distance: &mut Option<i128>) -> io::Result<()> {
        let by = i64::try_from(i128::from(target) - i128::from(self.pos))
            .map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let now = self.inner.seek(SeekFrom::Current(by))?;
        self.pos = target;
        let found = i128::from(now) - i128::from(target);
        if *distance.get_or_insert(found) != found {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the rewritten bytes went to another position, as in a file opened for appending",
            ));
        }
        Ok(())
    }

    fn write_back(&mut self, at: u64, bytes: &[u8], distance: &mut Option<i128>) -> io::Result<()> {
        self.seek_to(at, distance)?;
        self.inner.write_all(bytes)?;
        self.pos += bytes.len() as u64;
        Ok(())
    }
}

fn write_all_vectored<W: Write>(inner: &mut W, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    while !slices.is_empty() {
        match inner.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => IoSlice::advance_slices(&mut slices, n),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
