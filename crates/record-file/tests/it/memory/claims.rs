//! Tests with chunks of a few bytes that claim large sizes.
use record_file::{
    ChunkOffset, Compression, ReaderOptions, RecordFile, RecordReader, RecordWriter, Sequential,
    WriterOptions,
};

use super::{MIB, check, most};
use crate::elsewhere::Elsewhere;
use crate::own_process::in_own_process;
use crate::support::frame::{self, Frame};

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
