//! Tests that large records, including those over 4 GiB, are read directly into their destination
//! or in bounded memory.
use std::io::{self, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::sync::Mutex;

use record_file::{
    Compression, ErrorKind, ReadAt, ReaderOptions, RecordFile, RecordInput, RecordReader,
    RecordWriter, WriterOptions,
};

use crate::support::noise;

/// A source in memory that doesn't lend its bytes, and counts the bytes that it copies to addresses
/// outside the range `place`.
struct Watched<'a> {
    bytes: &'a [u8],
    place: Range<usize>,
    elsewhere: Mutex<usize>,
}

impl Watched<'_> {
    fn note(&self, buf: &[u8]) {
        let at = buf.as_ptr().addr();
        if !(self.place.contains(&at) && at + buf.len() <= self.place.end) {
            *self.elsewhere.lock().unwrap() += buf.len();
        }
    }
}

impl ReadAt for Watched<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.note(buf);
        self.bytes.read_at(offset, buf)
    }

    fn read_vectored_at(&self, mut offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut filled = 0;
        for buf in bufs {
            let n = self.read_at(offset, buf)?;
            // Some reads are short.
            let n = n.min(50_000);
            filled += n;
            offset += n as u64;
            if n < buf.len() {
                break;
            }
        }
        Ok(filled)
    }

    fn is_vectored(&self) -> bool {
        true
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }
}

#[test]
fn an_uncompressed_record_is_read_straight_to_its_place() {
    let record = noise(5_000_000, 1);
    for before in [0, 1000, 65_000, 65_390, 65_430] {
        let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
        writer
            .write_record_alone(&noise(before, 2), Compression::None)
            .unwrap();
        let position = writer
            .write_record_alone(&record, Compression::None)
            .unwrap();
        let mut bytes = writer.finish().unwrap();
        let mut read = vec![0; record.len()];
        let place = read.as_ptr().addr()..read.as_ptr().addr() + read.len();
        let watched = Watched {
            bytes: &bytes,
            place,
            elsewhere: Mutex::new(0),
        };
        let file = RecordFile::open(watched, ReaderOptions::new()).unwrap();
        file.read_record_into(position, &mut read).unwrap();
        assert!(read == record);
        // The bytes read to other places are the bytes read with the headers, 24 bytes per block,
        // and the same bytes again after a short read.
        let elsewhere = file.into_inner().elsewhere.into_inner().unwrap();
        assert!(elsewhere < 300_000, "{elsewhere}");

        // Damage is still found everywhere.
        let begin = usize::try_from(position.chunk_begin().0).unwrap();
        for at in [begin + 1_000_000, (begin / 65_536 + 9) * 65_536 + 9] {
            bytes[at] ^= 1;
            let watched = Watched {
                bytes: &bytes,
                place: 0..usize::MAX,
                elsewhere: Mutex::new(0),
            };
            let file = RecordFile::open(watched, ReaderOptions::new()).unwrap();
            let error = file.read_record_into(position, &mut read).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
            bytes[at] ^= 1;
        }
    }
}

/// A file in memory that stores only its nonzero pages and its length.
#[derive(Default)]
struct Sparse {
    pos: u64,
    size: u64,
    /// Pages of 4 KiB, by number.
    pages: std::collections::HashMap<u64, Vec<u8>>,
}

const PAGE: u64 = 4096;

impl Write for Sparse {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let within = usize::try_from(self.pos % PAGE).unwrap();
        let part = &buf[..buf.len().min(4096 - within)];
        let number = self.pos / PAGE;
        if self.pages.contains_key(&number) || part.iter().any(|&byte| byte != 0) {
            let page = self.pages.entry(number).or_insert_with(|| vec![0; 4096]);
            page[within..within + part.len()].copy_from_slice(part);
        }
        self.pos += part.len() as u64;
        self.size = self.size.max(self.pos);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Sparse {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.pos = match to {
            SeekFrom::Start(pos) => Some(pos),
            SeekFrom::End(by) => self.size.checked_add_signed(by),
            SeekFrom::Current(by) => self.pos.checked_add_signed(by),
        }
        .ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.pos)
    }
}

impl ReadAt for Sparse {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buf.len() && offset + (filled as u64) < self.size {
            let pos = offset + filled as u64;
            let within = usize::try_from(pos % PAGE).unwrap();
            let left = usize::try_from(self.size - pos).unwrap_or(usize::MAX);
            let n = (4096 - within).min(buf.len() - filled).min(left);
            let part = &mut buf[filled..filled + n];
            match self.pages.get(&(pos / PAGE)) {
                Some(page) => part.copy_from_slice(&page[within..within + n]),
                None => part.fill(0),
            }
            filled += n;
        }
        Ok(filled)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }
}

#[test]
fn a_record_of_more_than_4_gib_is_written_and_read_as_a_stream() {
    for compression in [Compression::None, Compression::zstd(1)] {
        beyond_4_gib(compression);
    }
}

fn beyond_4_gib(compression: Compression) {
    let len = (4 << 30) + 12_345;
    let mut writer = RecordWriter::new(Sparse::default(), WriterOptions::new()).unwrap();
    writer.write_record(b"before").unwrap();
    let mut source = io::repeat(0).take(len - 7).chain(&b"the end"[..]);
    let position = writer
        .write_record_from(&mut source, len, compression)
        .unwrap();
    writer.write_record(b"after").unwrap();
    let after = writer.last_position().unwrap();
    let file = RecordFile::open(writer.finish().unwrap(), ReaderOptions::new()).unwrap();
    assert_eq!(file.last_record().unwrap(), Some(after));
    assert_eq!(
        file.locate(after.numeric() - 1).unwrap_err().kind(),
        ErrorKind::InvalidPosition
    );
    assert_eq!(file.read_record(after).unwrap(), b"after"[..]);
    assert_eq!(file.record_len(position).unwrap(), len);
    let mut stream = file.record_stream(position).unwrap();
    stream.skip(len - 7).unwrap();
    let mut end = Vec::new();
    stream.read_to_end(&mut end).unwrap();
    assert_eq!(end, b"the end");
    let error = file.read_record(position).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);

    let sparse = file.into_inner();
    for threads in [0, 1] {
        let options = ReaderOptions::new().threads(threads);
        past_a_huge_record(RecordReader::new(&sparse, options), len);
    }
    let plain = Forward { sparse, pos: 0 };
    past_a_huge_record(RecordReader::from_read(plain, ReaderOptions::new()), len);
}

/// Reads the records around a record that is too large: streams its first bytes, and skips the
/// remaining bytes.
fn past_a_huge_record<I: RecordInput>(mut reader: RecordReader<I>, len: u64) {
    assert_eq!(reader.read_record().unwrap(), Some(&b"before"[..]));
    for _ in 0..2 {
        let error = reader.read_record().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    }
    let mut stream = reader.read_record_stream().unwrap().unwrap();
    assert_eq!(stream.remaining(), len);
    let mut front = [1; 5];
    stream.read_exact(&mut front).unwrap();
    assert_eq!(front, [0; 5]);
    // The remainder of the huge record is skipped.
    assert_eq!(reader.read_record().unwrap(), Some(&b"after"[..]));
    assert_eq!(reader.read_record().unwrap(), None);
}

/// A plain stream that reads a sparse file.
struct Forward {
    sparse: Sparse,
    pos: u64,
}

impl Read for Forward {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.sparse.read_at(self.pos, buf)?;
        self.pos += n as u64;
        Ok(n)
    }
}

#[test]
fn chunks_decoded_as_they_are_read_give_what_whole_ones_give() {
    let records: Vec<_> = (0..60)
        .map(|seed| match seed % 3 {
            0 => noise(30_000, seed),
            1 => vec![3; 100_000],
            _ => Vec::new(),
        })
        .collect();
    let compressions = [
        Compression::None,
        Compression::zstd(1),
        Compression::Zstd {
            level: 3,
            window_log: Some(12),
        },
        Compression::brotli(4),
        Compression::SNAPPY,
    ];
    for compression in compressions {
        for chunk_size in [1, 1 << 20] {
            let options = WriterOptions::new()
                .compression(compression)
                .chunk_size(chunk_size);
            let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
            for record in &records {
                writer.write_record(record).unwrap();
            }
            let bytes = writer.finish().unwrap();
            for max_window_log in [10, 27] {
                let options = ReaderOptions::new()
                    .stream_from(0)
                    .max_window_log(max_window_log);
                let mut random = RecordReader::new(&bytes, options);
                let mut stream = RecordReader::from_read(&bytes[..], options);
                for record in &records {
                    assert!(random.read_record().unwrap() == Some(&record[..]));
                    assert!(stream.read_record().unwrap() == Some(&record[..]));
                }
                assert_eq!(random.read_record().unwrap(), None);
                assert_eq!(stream.read_record().unwrap(), None);
            }
        }
    }
}
