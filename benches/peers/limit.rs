//! The minimum work for merging a file: reading all stored bytes, hashing them, and decoding them
//! if they are compressed. Unlike a real merge, it computes no layout, compares no hashes, and
//! moves no bytes to their final position.

use std::fs::File;
use std::hint::black_box;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use highway::{HighwayHash, HighwayHasher, Key};
use proto_splitter::container::ChunkedFile;
use proto_splitter::merge::ChunkStore;
use proto_splitter::record_file::{CompressionKind, ReadAt};
use proto_splitter_testkit::cores::on_all_cores;

use super::Outcome;

/// Number of bytes to read at once. Two reads are small enough to stay in a core's cache until they
/// are hashed.
const WINDOW: usize = 128 << 10;

/// Number of bytes to hash before switching between two hashes. Computing two at once is faster,
/// since each step of a hash mostly waits for its previous step.
const TURN: usize = 256;

const ZSTD_LEVEL: i32 = 3;

/// The byte range of a stored record, including all headers. If the record is compressed, also a
/// zstd frame with its content, and the content's size in bytes.
struct Record {
    stored: Range<u64>,
    frame: Vec<u8>,
    len: usize,
}

/// The records in an open file, and buffers for all stored and decoded bytes, touched before.
pub(crate) struct Limit {
    file: File,
    records: Vec<Record>,
    read: Vec<u8>,
    decoded: Vec<u8>,
}

impl Limit {
    /// Opens a file, which must be uncompressed or compressed with zstd. Otherwise, returns `None`.
    pub(crate) fn of(chunked: &Path) -> Outcome<Option<Self>> {
        let file = ChunkedFile::open(chunked)?;
        let mut records = Vec::new();
        for chunk in 0..file.len() {
            let position = file.position(chunk).ok_or("one file has all chunks")?;
            let stored = file.record_file().stored(position)?;
            let frame = match stored.compression {
                CompressionKind::None => Vec::new(),
                CompressionKind::Zstd => {
                    let mut record = vec![0; usize::try_from(file.size(chunk))?];
                    file.read_into(chunk, &mut record)?;
                    zstd::bulk::compress(&record, ZSTD_LEVEL)?
                }
                _ => return Ok(None),
            };
            let len = if frame.is_empty() {
                0
            } else {
                usize::try_from(file.size(chunk))?
            };
            records.push(Record {
                stored: stored.chunk.begin().0..stored.chunk.end().0,
                frame,
                len,
            });
        }
        // Puts the largest record last, since records are taken from the end. If it were taken
        // last, one thread would still work on it after all others had finished.
        records.sort_by_key(|record| record.stored.end - record.stored.start);
        let read: u64 = records.iter().map(|r| r.stored.end - r.stored.start).sum();
        let decoded = records.iter().map(|record| record.len).sum();
        Ok(Some(Limit {
            file: File::open(chunked)?,
            read: vec![1; usize::try_from(read)?],
            decoded: vec![1; decoded],
            records,
        }))
    }

    /// Reads, hashes and decodes all records on all cores.
    pub(crate) fn run(&mut self) -> Outcome<()> {
        let mut jobs = Vec::with_capacity(self.records.len());
        let (mut read, mut decoded) = (&mut self.read[..], &mut self.decoded[..]);
        for record in &self.records {
            let len = usize::try_from(record.stored.end - record.stored.start)?;
            let (stored, behind) = read.split_at_mut(len);
            let (place, after) = decoded.split_at_mut(record.len);
            (read, decoded) = (behind, after);
            jobs.push((record, stored, place));
        }
        let jobs = &Mutex::new(jobs);
        let file = &self.file;
        let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let work = || -> io::Result<()> {
            let mut decoder = zstd::bulk::Decompressor::new()?;
            loop {
                let mut pair = [next(), next()];
                if pair.iter().all(Option::is_none) {
                    return Ok(());
                }
                let lanes = pair.each_mut().map(Option::as_mut);
                let lanes = lanes.map(|lane| {
                    lane.map(|(record, stored, _)| (record.stored.start, &mut **stored))
                });
                read_and_hash(file, lanes)?;
                for (record, _, place) in pair.into_iter().flatten() {
                    if !record.frame.is_empty() {
                        decoder.decompress_to_buffer(&record.frame, place)?;
                    }
                }
            }
        };
        on_all_cores(work)
    }
}

/// Reads and hashes one or two records at once. Each has its offset in the file, and a buffer.
fn read_and_hash(file: &File, lanes: [Option<(u64, &mut [u8])>; 2]) -> io::Result<()> {
    let mut hashers = [(); 2].map(|()| HighwayHasher::new(Key::default()));
    let [a, b] = lanes.map(Option::unwrap_or_default);
    let longest = a.1.len().max(b.1.len());
    let mut lanes = [a, b];
    for at in (0..longest).step_by(WINDOW) {
        let mut windows: [&[u8]; 2] = [&[], &[]];
        for (window, (begin, place)) in windows.iter_mut().zip(lanes.each_mut()) {
            let end = place.len().min(at + WINDOW);
            if at < end {
                file.read_exact_at(*begin + at as u64, &mut place[at..end])?;
                *window = &place[at..end];
            }
        }
        let most = windows[0].len().max(windows[1].len());
        for turn in (0..most).step_by(TURN) {
            for (hasher, window) in hashers.iter_mut().zip(windows) {
                let end = window.len().min(turn + TURN);
                if turn < end {
                    hasher.append(&window[turn..end]);
                }
            }
        }
    }
    black_box(hashers.map(HighwayHash::finalize64));
    Ok(())
}
