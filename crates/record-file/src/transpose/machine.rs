//! Parsing the header of a transposed chunk's data. The header describes the chunk's buffers and
//! the state machine that assembles the records.
use std::ops::Range;

use super::fast::Cursor;
use super::header::Header;
use super::states::{State, has_implicit_loop, parse_states, skip_no_ops};
use crate::codec::Decoders;
use crate::compression::CompressionKind;
use crate::error::{Error, Result};
use crate::options::ReaderOptions;
use crate::simple::take_size;
use crate::varint;

#[derive(Debug)]
pub(crate) struct Bucket<'a> {
    stored: &'a [u8],
    /// Offset of the bucket in the data of the chunk.
    at: usize,
    size: u64,
}

/// The location of a buffer: the index of its bucket, and its range in the decompressed bucket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BufferPlace {
    pub(crate) bucket: u32,
    pub(crate) start: usize,
    pub(crate) len: usize,
}

#[derive(Debug)]
pub(crate) struct Machine<'a> {
    pub(crate) compression: CompressionKind,
    pub(crate) buckets: Vec<Bucket<'a>>,
    pub(crate) buffers: Vec<BufferPlace>,
    pub(crate) states: Vec<State>,
    pub(crate) first: u32,
    /// The transitions, as stored.
    pub(crate) transitions: &'a [u8],
}

impl<'a> Machine<'a> {
    /// Parses the data of a transposed chunk.
    pub(crate) fn parse(
        mut data: &'a [u8],
        begin: u64,
        decoders: &mut Decoders,
        options: &ReaderOptions,
    ) -> Result<Self> {
        let total = data.len();
        let compression = crate::simple::compression_kind(data.first(), begin)?;
        data = &data[1..];
        let bad = |what: &'static str| Error::corrupt(begin, what);
        let header_len = varint::take(&mut data)
            .ok_or_else(|| bad("transposed chunk lacks the length of its header"))?;
        let (mut stored, mut rest) = usize::try_from(header_len)
            .ok()
            .and_then(|len| data.split_at_checked(len))
            .ok_or_else(|| bad("transposed chunk: header longer than the chunk"))?;
        let decompressed;
        let header = if compression == CompressionKind::None {
            stored
        } else {
            let size = take_size(&mut stored, begin)?;
            options.check_memory(begin, size)?;
            decompressed = decoders
                .decompress(compression, stored, size)
                .map_err(|error| error.or_at(begin))?;
            &decompressed[..]
        };
        let mut header = Header {
            rest: header,
            begin,
            options,
        };
        let num_buckets = header.count("number of buckets")?;
        let num_buffers = header.count("number of buffers")?;
        let mut buckets = header.list(num_buckets)?;
        for _ in 0..num_buckets {
            let len = header.u64("length of a bucket")?;
            let (mut stored, after) = usize::try_from(len)
                .ok()
                .and_then(|len| rest.split_at_checked(len))
                .ok_or_else(|| bad("transposed chunk: bucket longer than the chunk"))?;
            rest = after;
            let size = if compression == CompressionKind::None {
                len
            } else {
                take_size(&mut stored, begin)?
            };
            buckets.push(Bucket {
                stored,
                at: total - rest.len() - stored.len(),
                size,
            });
        }
        let buffers = place_buffers(&mut header, &buckets, num_buffers)?;
        let mut states = parse_states(&mut header, num_buffers)?;
        let first = header.u32("first state")?;
        if usize::try_from(first).is_ok_and(|first| first >= states.len())
            && !(states.is_empty() && first == 0)
        {
            return Err(bad("transposed chunk: first state out of range"));
        }
        if !header.rest.is_empty() {
            return Err(bad("transposed chunk: bytes after the header"));
        }
        if has_implicit_loop(&states) {
            return Err(bad("transposed chunk: states form an infinite loop"));
        }
        skip_no_ops(&mut states);
        Ok(Machine {
            compression,
            buckets,
            buffers,
            states,
            first,
            transitions: rest,
        })
    }

    /// Decompresses the transitions. Returns `None` if they aren't compressed.
    pub(crate) fn decompress_transitions(
        &self,
        begin: u64,
        decoders: &mut Decoders,
        options: &ReaderOptions,
    ) -> Result<Option<Vec<u8>>> {
        if self.compression == CompressionKind::None {
            return Ok(None);
        }
        let (stored, size) = self.stored_transitions(begin, options)?;
        decoders
            .decompress(self.compression, stored, size)
            .map(Some)
            .map_err(|error| error.or_at(begin))
    }

    /// Returns the compressed transitions and their decompressed size.
    fn stored_transitions(&self, begin: u64, options: &ReaderOptions) -> Result<(&'a [u8], u64)> {
        let mut stored = self.transitions;
        let size = take_size(&mut stored, begin)?;
        options.check_memory(begin, size)?;
        Ok((stored, size))
    }

    /// Decompresses all buckets, one after another, and then the transitions, into the front of
    /// `place` or, if `place` is too small, into newly allocated memory. Returns the range of the
    /// transitions, and the allocated memory, if any.
    pub(crate) fn decompress_all(
        &self,
        place: &mut [u8],
        begin: u64,
        decoders: &mut Decoders,
        options: &ReaderOptions,
    ) -> Result<(Range<usize>, Option<Vec<u8>>)> {
        let (transitions, len) = self.stored_transitions(begin, options)?;
        let sizes = self.buckets.iter().map(|bucket| bucket.size);
        let buffers = sizes.fold(0, u64::saturating_add);
        options.check_memory(begin, buffers)?;
        let fits = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        let (from, to) = (fits(buffers), fits(buffers.saturating_add(len)));
        let Some(mut place) = place.get_mut(..to) else {
            return self.decompress_apart(begin, decoders, options);
        };
        let streams = self
            .buckets
            .iter()
            .map(|bucket| (bucket.stored, bucket.size));
        for (stored, size) in streams.chain([(transitions, len)]) {
            let (out, rest) = place.split_at_mut(fits(size));
            decoders
                .decompress_into(self.compression, stored, out)
                .map_err(|error| error.or_at(begin))?;
            place = rest;
        }
        Ok((from..to, None))
    }

    /// Decompresses like [`decompress_all`](Self::decompress_all), into memory that grows as data
    /// arrives.
    fn decompress_apart(
        &self,
        begin: u64,
        decoders: &mut Decoders,
        options: &ReaderOptions,
    ) -> Result<(Range<usize>, Option<Vec<u8>>)> {
        let mut all = Vec::new();
        for index in 0..self.buckets.len() {
            let held = all.len() as u64;
            let bytes = self.decompress_bucket(index, held, begin, decoders, options)?;
            append(&mut all, &bytes.unwrap_or_default(), begin)?;
        }
        let buffers = all.len();
        let transitions = self.decompress_transitions(begin, decoders, options)?;
        append(&mut all, &transitions.unwrap_or_default(), begin)?;
        Ok((buffers..all.len(), Some(all)))
    }

    /// Returns the location of each buffer in the concatenation of all buckets or, without
    /// compression, in the data of the chunk. Fails if the total size doesn't fit in a `usize`.
    pub(crate) fn cursors(&self, begin: u64) -> Result<Vec<Cursor>> {
        let too_large = || {
            let sizes = self.buckets.iter().map(|bucket| bucket.size);
            Error::no_room_for(sizes.fold(0, u64::saturating_add)).or_at(begin)
        };
        let mut places = Vec::with_capacity(self.buckets.len());
        let mut behind = 0_usize;
        for bucket in &self.buckets {
            if self.compression == CompressionKind::None {
                places.push(bucket.at);
                continue;
            }
            places.push(behind);
            behind = usize::try_from(bucket.size)
                .ok()
                .and_then(|size| behind.checked_add(size))
                .ok_or_else(too_large)?;
        }
        let cursor = |buffer: &BufferPlace| {
            let place = *places.get(buffer.bucket as usize)?;
            let at = place.checked_add(buffer.start)?;
            let end = at.checked_add(buffer.len)?;
            Some(Cursor { at, end })
        };
        let cursors = self.buffers.iter().map(cursor).collect::<Option<_>>();
        cursors.ok_or_else(too_large)
    }

    /// Decompresses a bucket, in addition to `held` bytes of other buckets. Returns `None` if it
    /// isn't compressed.
    pub(crate) fn decompress_bucket(
        &self,
        bucket: usize,
        held: u64,
        begin: u64,
        decoders: &mut Decoders,
        options: &ReaderOptions,
    ) -> Result<Option<Vec<u8>>> {
        let Some(bucket) = self.buckets.get(bucket) else {
            return Ok(None);
        };
        if self.compression == CompressionKind::None {
            return Ok(None);
        }
        options.check_memory(begin, held.saturating_add(bucket.size))?;
        decoders
            .decompress(self.compression, bucket.stored, bucket.size)
            .map(Some)
            .map_err(|error| error.or_at(begin))
    }

    /// Returns the stored bytes of a bucket.
    pub(crate) fn stored_bucket(&self, bucket: usize) -> &'a [u8] {
        self.buckets.get(bucket).map_or(&[], |bucket| bucket.stored)
    }
}

fn append(all: &mut Vec<u8>, more: &[u8], begin: u64) -> Result<()> {
    let size = all.len().saturating_add(more.len()) as u64;
    all.try_reserve(more.len())
        .map_err(|_| Error::no_room_for(size).or_at(begin))?;
    all.extend_from_slice(more);
    Ok(())
}

/// Assigns each buffer to a bucket. A bucket consists of consecutive buffers, and has exactly their
/// total size.
fn place_buffers(
    header: &mut Header<'_>,
    buckets: &[Bucket<'_>],
    num_buffers: usize,
) -> Result<Vec<BufferPlace>> {
    let begin = header.begin;
    let bad = |what: &'static str| Error::corrupt(begin, what);
    let mut buffers = header.list(num_buffers)?;
    let mut bucket = 0;
    let mut used = 0;
    let full = |bucket: usize, used: u64| {
        buckets
            .get(bucket)
            .is_some_and(|bucket| bucket.size == used)
    };
    for _ in 0..num_buffers {
        let len = header.u64("length of a buffer")?;
        let fits = buckets
            .get(bucket)
            .is_some_and(|bucket| len <= bucket.size - used);
        if !fits {
            return Err(bad("transposed chunk: a buffer doesn't fit in its bucket"));
        }
        let place = usize::try_from(used).ok().zip(usize::try_from(len).ok());
        let (start, in_memory) =
            place.ok_or_else(|| Error::no_room_for(used.saturating_add(len)).or_at(begin))?;
        buffers.push(BufferPlace {
            bucket: u32::try_from(bucket).unwrap_or(u32::MAX),
            start,
            len: in_memory,
        });
        used += len;
        while full(bucket, used) && bucket + 1 < buckets.len() {
            bucket += 1;
            used = 0;
        }
    }
    let filled = buckets.is_empty() || bucket + 1 == buckets.len() && full(bucket, used);
    if !filled {
        return Err(bad("transposed chunk: buffers don't fill the buckets"));
    }
    Ok(buffers)
}
