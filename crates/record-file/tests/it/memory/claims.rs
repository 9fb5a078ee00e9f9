//! Tests with chunks of a few bytes that claim large sizes.
use record_file::{
    ChunkOffset, Compression, Error, ErrorKind, FieldProjection, ReaderOptions, RecordFile,
    RecordReader, RecordWriter, Sequential, WriterOptions,
};

use super::{MIB, check, most};
use crate::elsewhere::Elsewhere;
use crate::hostile_transposed::{compressed, compressed_chunk};
use crate::own_process::in_own_process;
use crate::support::frame::{self, Frame, varint_of};

const CLAIM: u64 = 1 << 30;
/// File offset of the first chunk with records, in bytes.
const BEGIN: usize = 64;
const HEADER: usize = 40;

/// Returns a file with one small chunk that claims a large decoded size and, unless `stored` is
/// `None`, a stored size of `stored` bytes.
fn claiming(compression: Compression, transpose: bool, stored: Option<u64>) -> Vec<u8> {
    let options = WriterOptions::new()
        .compression(compression)
        .transpose(transpose);
    let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
    let records = 10;
    for _ in 0..records {
        writer.write_record(b"\x0a\x03abc\x10\x05").unwrap();
    }
    let file = writer.finish().unwrap();
    let kind = if transpose { b't' } else { b'r' };
    let mut frame = Frame::new(kind, records, CLAIM, &file[BEGIN + HEADER..]);
    frame.data_size = stored;
    frame::file(&[frame])
}

#[test]
fn what_a_chunk_claims_takes_no_memory_before_it_is_there() {
    in_own_process(|| {
        let options = ReaderOptions::new().threads(1);
        for compression in [
            Compression::None,
            Compression::zstd(3),
            Compression::brotli(5),
        ] {
            for transpose in [false, true] {
                for stored in [None, Some(CLAIM)] {
                    let file = claiming(compression, transpose, stored);
                    let what = format!("{compression}, transposed {transpose}, stored {stored:?}");
                    let used = most(|| {
                        let at = ChunkOffset(BEGIN as u64);
                        let in_memory = RecordFile::open(&file, options).unwrap();
                        in_memory.read_chunk(at).unwrap_err();
                        let elsewhere = RecordFile::open(Elsewhere(&file), options).unwrap();
                        elsewhere.read_chunk(at).unwrap_err();
                        let stream = Sequential::new(&file[..]);
                        RecordReader::new(stream, options)
                            .read_record()
                            .unwrap_err();
                    });
                    check(&what, used, 20 * MIB);
                }
            }
        }
    });
}

/// Returns the error with which a transposed chunk is refused, and the memory used, if all fields or
/// only field 1 are read.
fn refusal(frame: Frame<'_>, options: ReaderOptions, all: bool) -> (Error, usize) {
    let file = frame::file(&[frame]);
    let mut error = None;
    let used = most(|| {
        let mut reader = RecordReader::new(&file, options);
        if !all {
            reader.set_field_projection(FieldProjection::none().field(&[1]));
        }
        error = reader.read_record().err();
    });
    (error.unwrap(), used)
}

#[test]
fn lists_of_a_transposed_chunk_take_no_more_memory_than_is_allowed() {
    in_own_process(|| {
        let most_memory = 40 * MIB;
        let options = ReaderOptions::new().max_chunk_memory(most_memory as u64);
        let count = &varint_of(8 << 20)[..];
        let items = vec![0; 8 << 20];
        for (what, header) in [
            ("buckets", [count, &[0], &items].concat()),
            ("buffers", [&[1], count, &[1], &items, &[0, 0]].concat()),
            ("states", [&[0, 0], count, &items, &items, &[0]].concat()),
        ] {
            let data = compressed_chunk(&header, &[vec![0]], b"");
            for all in [true, false] {
                let frame = Frame::new(b't', 0, 0, &data);
                let (error, used) = refusal(frame, options, all);
                assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{what}: {error}");
                check(what, used, 2 * most_memory);
            }
        }
    });
}

#[test]
fn messages_that_only_end_take_little_memory() {
    in_own_process(|| {
        // The only state ends a submessage. A transition of 3 visits it four times.
        let header = [0, 0, 1, 1 << 3 | 6, 0, 0];
        let data = compressed_chunk(&header, &[], &vec![3; 2 * MIB]);
        for all in [true, false] {
            let frame = Frame::new(b't', 1, CLAIM, &data);
            let (error, used) = refusal(frame, ReaderOptions::new(), all);
            assert!(error.to_string().contains("in one another"), "{error}");
            check("messages that end", used, 64 * MIB);
        }
    });
}

#[test]
fn buckets_that_a_projection_needs_take_no_more_memory_together_than_is_allowed() {
    in_own_process(|| {
        const BUCKET: usize = 16 * MIB;
        let (buckets, options) = (8, ReaderOptions::new().max_chunk_memory(40 * MIB as u64));
        let bucket = compressed(&vec![0; BUCKET]);
        // Each bucket has one buffer, and one state reads an empty string from it.
        let push = |header: &mut Vec<u8>, value: u64| frame::varint(header, value);
        let mut header = vec![8, 8];
        (0..buckets).for_each(|_| push(&mut header, bucket.len() as u64));
        (0..buckets).for_each(|_| push(&mut header, BUCKET as u64));
        header.push(8);
        header.extend([1 << 3 | 2; 8]);
        header.extend([8 + 1, 8 + 2, 8 + 3, 8 + 4, 8 + 5, 8 + 6, 8 + 7, 0]);
        header.extend([0, 1, 2, 3, 4, 5, 6, 7, 0]);
        let data = compressed_chunk(&header, &vec![bucket; 8], b"");
        for all in [true, false] {
            let frame = Frame::new(b't', 1, 1000, &data);
            let (error, used) = refusal(frame, options, all);
            assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
            check("buckets", used, 64 * MIB);
        }
    });
}
