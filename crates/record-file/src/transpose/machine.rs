//! The header of a transposed chunk: its buffers, and the state machine that puts them together.
use super::states::{State, has_implicit_loop, parse_states};
use crate::codec::{Decoders, TRUSTED_SIZE};
use crate::compression::CompressionKind;
use crate::error::{Error, Result};
use crate::options::ReaderOptions;
use crate::simple::take_size;
use crate::varint;

#[derive(Debug)]
pub(crate) struct Bucket<'a> {
    stored: &'a [u8],
    /// Where in the data of the chunk that is.
    at: usize,
    size: u64,
}

/// Where a buffer is.
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
    /// The transitions, still as stored.
    pub(crate) transitions: &'a [u8],
}

/// Takes numbers off the header.
pub(super) struct Header<'a> {
    pub(super) rest: &'a [u8],
    pub(super) begin: u64,
}

impl Header<'_> {
    fn u64(&mut self, what: &'static str) -> Result<u64> {
        let begin = self.begin;
        varint::take(&mut self.rest)
            .ok_or_else(|| Error::corrupt(begin, format!("transposed chunk: no {what}")))
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32> {
        let begin = self.begin;
        u32::try_from(self.u64(what)?)
            .map_err(|_| Error::corrupt(begin, format!("transposed chunk: {what} out of range")))
    }

    /// A count of things that take at least one byte each of the header.
    pub(super) fn count(&mut self, what: &'static str) -> Result<usize> {
        let count = self.u32(what)?;
        usize::try_from(count)
            .ok()
            .filter(|&count| count <= self.rest.len())
            .ok_or_else(|| {
                Error::corrupt(
                    self.begin,
                    format!("transposed chunk: {what} is more than the header has room for"),
                )
            })
    }
}

impl<'a> Machine<'a> {
    /// Parses the data of a transposed chunk. `header` is where its decompressed header is kept.
    pub(crate) fn parse(
        mut data: &'a [u8],
        begin: u64,
        decoders: &mut Decoders,
        options: &ReaderOptions,
    ) -> Result<Self> {
        let total = data.len();
        let compression = crate::simple::compression_kind(data.first(), begin)?;
        data = &data[1..];
        let bad = |what: &'static str| move || Error::corrupt(begin, what);
        let header_len = varint::take(&mut data)
            .ok_or_else(bad("transposed chunk without the length of its header"))?;
        let (mut stored, mut rest) = usize::try_from(header_len)
            .ok()
            .and_then(|len| data.split_at_checked(len))
            .ok_or_else(bad("transposed chunk: header longer than the chunk"))?;
        let decompressed;
        let header = if compression == CompressionKind::None {
            stored
        } else {
            let size = take_size(&mut stored, begin)?;
            if size > options.max_chunk_memory {
                return Err(limit(begin, size));
            }
            decompressed = decoders
                .decompress(compression, stored, size)
                .map_err(|error| error.or_at(begin))?;
            &decompressed[..]
        };
        let mut header = Header {
            rest: header,
            begin,
        };
        let num_buckets = header.count("number of buckets")?;
        let num_buffers = header.count("number of buffers")?;
        let mut buckets = Vec::with_capacity(num_buckets);
        for _ in 0..num_buckets {
            let len = header.u64("length of a bucket")?;
            let (mut stored, after) = usize::try_from(len)
                .ok()
                .and_then(|len| rest.split_at_checked(len))
                .ok_or_else(bad("transposed chunk: bucket longer than the chunk"))?;
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
        let states = parse_states(&mut header, num_buffers)?;
        let first = header.u32("first state")?;
        if usize::try_from(first).is_ok_and(|first| first >= states.len())
            && !(states.is_empty() && first == 0)
        {
            return Err(Error::corrupt(
                begin,
                "transposed chunk: first state out of range",
            ));
        }
        if !header.rest.is_empty() {
            return Err(Error::corrupt(
                begin,
                "transposed chunk: bytes after the header",
            ));
        }
        if has_implicit_loop(&states) {
            return Err(Error::corrupt(
                begin,
                "transposed chunk: states that go round for ever",
            ));
        }
        Ok(Machine {
            compression,
            buckets,
            buffers,
            states,
            first,
            transitions: rest,
        })
    }

    /// The decompressed transitions, if they must be decompressed.
    pub(crate) fn decompress_transitions(
        &self,
        begin: u64,
        decoders: &mut Decoders,
        options: &ReaderOptions,
    ) -> Result<Option<Vec<u8>>> {
        if self.compression == CompressionKind::None {
            return Ok(None);
        }
        let mut stored = self.transitions;
        let size = take_size(&mut stored, begin)?;
        if size > options.max_chunk_memory {
            return Err(limit(begin, size));
        }
        decoders
            .decompress(self.compression, stored, size)
            .map(Some)
            .map_err(|error| error.or_at(begin))
    }

    /// Decompresses all buckets into `arena`, which may be longer in the end, and says where each begins there: or in
    /// the data of the chunk, if nothing is compressed.
    pub(crate) fn decompress_buckets(
        &self,
        arena: &mut Vec<u8>,
        begin: u64,
        decoders: &mut Decoders,
        options: &ReaderOptions,
    ) -> Result<Vec<usize>> {
        if self.compression == CompressionKind::None {
            return Ok(self.buckets.iter().map(|bucket| bucket.at).collect());
        }
        let sizes = self.buckets.iter().map(|bucket| bucket.size);
        let size = sizes.fold(0, u64::saturating_add);
        if size > options.max_chunk_memory {
            return Err(limit(begin, size));
        }
        let stored: usize = self.buckets.iter().map(|bucket| bucket.stored.len()).sum();
        // Beyond this, memory is taken as data arrives.
        let trusted = TRUSTED_SIZE.max((stored as u64).saturating_mul(64));
        let at_once = usize::try_from(size).ok().filter(|_| size <= trusted);
        match at_once {
            Some(size) if arena.len() < size => arena.resize(size, 0),
            Some(_) => {}
            None => arena.clear(),
        }
        let mut at = 0;
        let mut places = Vec::with_capacity(self.buckets.len());
        for (index, bucket) in self.buckets.iter().enumerate() {
            places.push(at);
            if at_once.is_none() {
                let bytes = self.decompress_bucket(index, begin, decoders, options)?;
                arena.append(&mut bytes.unwrap_or_default());
                at = arena.len();
                continue;
            }
            // Part of the size that was just checked.
            let end = at + usize::try_from(bucket.size).unwrap_or(0);
            decoders
                .decompress_into(self.compression, bucket.stored, &mut arena[at..end])
                .map_err(|error| error.or_at(begin))?;
            at = end;
        }
        Ok(places)
    }

    /// The bytes of a bucket, if they must be decompressed.
    pub(crate) fn decompress_bucket(
        &self,
        bucket: usize,
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
        if bucket.size > options.max_chunk_memory {
            return Err(limit(begin, bucket.size));
        }
        decoders
            .decompress(self.compression, bucket.stored, bucket.size)
            .map(Some)
            .map_err(|error| error.or_at(begin))
    }

    /// The bytes of a bucket as stored.
    pub(crate) fn stored_bucket(&self, bucket: usize) -> &'a [u8] {
        self.buckets.get(bucket).map_or(&[], |bucket| bucket.stored)
    }
}

fn limit(begin: u64, size: u64) -> Error {
    Error::at(
        crate::ErrorKind::LimitExceeded,
        begin,
        format!("{size} bytes in a part of a chunk are more than max_chunk_memory allows"),
    )
}

/// Buckets are filled by buffers one after the other, and exactly.
fn place_buffers(
    header: &mut Header<'_>,
    buckets: &[Bucket<'_>],
    num_buffers: usize,
) -> Result<Vec<BufferPlace>> {
    let begin = header.begin;
    let mut buffers = Vec::with_capacity(num_buffers);
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
        let place = usize::try_from(used).ok().zip(usize::try_from(len).ok());
        let (Some((start, in_memory)), true) = (place, fits) else {
            return Err(Error::corrupt(
                begin,
                "transposed chunk: a buffer doesn't fit in its bucket",
            ));
        };
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
        return Err(Error::corrupt(
            begin,
            "transposed chunk: buffers don't fill the buckets",
        ));
    }
    Ok(buffers)
}
