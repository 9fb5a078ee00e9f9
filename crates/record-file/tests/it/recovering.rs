//! Tests of recovery in situations other than plain reading: seeking, metadata, growing files, and
//! headers with valid hashes and wrong content.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use record_file::{
    Compression, ErrorKind, ReadAt, ReaderOptions, RecordFile, RecordInput, RecordPosition,
    RecordReader, RecordWriter, WriterOptions,
};

use crate::support::frame::{self, Frame, hash};
use crate::support::{Fixture, noise};

type Regions = Arc<Mutex<Vec<(u64, u64)>>>;

fn recovering<S: ReadAt>(source: S) -> (RecordReader<S>, Regions) {
    let regions = Regions::default();
    let seen = Arc::clone(&regions);
    let reader = RecordReader::new(source, ReaderOptions::new()).on_damage(move |region| {
        seen.lock().unwrap().push((region.begin, region.end));
        true
    });
    (reader, regions)
}

/// Returns the bytes of all records before the reader's position, from the last record to the first.
fn read_backwards<S: ReadAt>(reader: &mut RecordReader<S>) -> Vec<u8> {
    let mut back = Vec::new();
    while reader.seek_back().unwrap() {
        back.extend_from_slice(reader.read_record().unwrap().unwrap());
        assert!(reader.seek_back().unwrap());
    }
    back
}

/// Returns a file with records of 100 bytes, each in its own chunk, and the beginnings of the
/// chunks.
fn chunks(count: u64) -> (Vec<u8>, Vec<usize>) {
    let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
    let mut begins = Vec::new();
    for index in 0..count {
        let position = writer
            .write_record_alone(&noise(100, index), Compression::None)
            .unwrap();
        begins.push(usize::try_from(position.chunk_begin().0).unwrap());
    }
    (writer.finish().unwrap(), begins)
}

fn read_all<S: ReadAt>(reader: &mut RecordReader<S>) -> Vec<u64> {
    let mut begins = Vec::new();
    while reader.read_record().unwrap().is_some() {
        begins.push(reader.last_position().unwrap().chunk_begin().0);
    }
    begins
}

/// Writes a block header with the right hash.
fn block_header(file: &mut [u8], block: usize, previous: u64, next: u64) {
    file[block + 8..block + 16].copy_from_slice(&previous.to_le_bytes());
    file[block + 16..block + 24].copy_from_slice(&next.to_le_bytes());
    let sum = hash(&file[block + 8..block + 24]);
    file[block..block + 8].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn valid_block_headers_of_another_chunk_are_believed_only_as_far_as_they_go() {
    let (good, begins) = chunks(1500);
    let block = 1 << 16;
    // These are the beginnings of the chunk that contains the block's header and of the next chunk.
    let around = *begins.iter().rfind(|&&begin| begin < block).unwrap();
    let after = *begins.iter().find(|&&begin| begin > block).unwrap();
    let [previous, next] = [(block - around) as u64, (after - block) as u64];
    // Each row has the content of a block header, and the position where the search for chunks
    // continues, or 0 if this position isn't checked.
    let table = [
        // The beginning differs, so reading continues at the end that the header gives.
        ("previous", previous - 1, next, after as u64),
        ("previous, far", previous + 1000, next, after as u64),
        // Reading doesn't continue at an end that is far away, that is before the block, or where
        // no chunk can begin.
        ("next, far", previous - 1, 3 << 16, 2 * block as u64),
        (
            "next, inside of a header",
            previous - 1,
            5,
            2 * block as u64,
        ),
        ("next, 0", previous - 1, 0, 0),
        ("next, beyond all", previous - 1, u64::MAX, 2 * block as u64),
        // The end differs from the end of the chunk, so neither end is reliable.
        ("end", previous, next + 200, 2 * block as u64),
        ("a chunk that begins here", 0, next, 0),
    ];
    for (what, previous, next, resumed) in table {
        let mut bad = good.clone();
        block_header(&mut bad, block, previous, next);
        let mut reader = RecordReader::new(&bad, ReaderOptions::new());
        let error = loop {
            if let Err(error) = reader.read_record() {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
        assert_eq!(error.offset(), Some(block as u64), "{what}: {error}");

        let (mut reader, regions) = recovering(&bad);
        let read = read_all(&mut reader);
        let regions = regions.lock().unwrap();
        let (begin, end) = regions[0];
        assert_eq!(begin, around as u64, "{what}");
        assert!(regions.is_sorted() && regions.iter().all(|region| region.0 < region.1));
        if resumed == after as u64 {
            assert_eq!((regions.len(), end), (1, resumed), "{what}");
        } else if resumed > 0 {
            // Reading continues at the first chunk that begins after the next block's header.
            let expected = begins.iter().find(|&&begin| begin as u64 >= resumed);
            assert_eq!(end, *expected.unwrap() as u64, "{what}");
        }
        let kept = begins.iter().map(|&begin| begin as u64);
        let kept = kept.filter(|at| {
            !regions
                .iter()
                .any(|region| (region.0..region.1).contains(at))
        });
        assert!(read.into_iter().eq(kept), "{what}");
    }
}

/// Returns the lengths of the records that recovery finds, and the regions that it skips.
fn recovered<I: RecordInput>(reader: RecordReader<I>) -> (Vec<usize>, Vec<(u64, u64)>) {
    let regions = Regions::default();
    let seen = Arc::clone(&regions);
    let mut reader = reader.on_damage(move |region| {
        seen.lock().unwrap().push((region.begin, region.end));
        true
    });
    let mut lens = Vec::new();
    while let Some(record) = reader.read_record().unwrap() {
        lens.push(record.len());
    }
    let regions = regions.lock().unwrap().clone();
    (lens, regions)
}

#[test]
fn a_stream_recovers_from_a_wrong_block_header_inside_a_chunk_as_a_file_does() {
    let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
    for (len, seed) in [(10, 1), (400_000, 2), (30, 3)] {
        writer
            .write_record_alone(&noise(len, seed), Compression::None)
            .unwrap();
    }
    let good = writer.finish().unwrap();
    let block = 2 << 16;
    let mut flipped = good.clone();
    flipped[block] ^= 1;
    // This header says that another chunk ends inside the block.
    let mut of_another = good;
    block_header(&mut of_another, block, 1000, 30_000);
    for bad in [flipped, of_another] {
        let options = ReaderOptions::new();
        for options in [options, options.stream_from(0), options.threads(2)] {
            let expected = recovered(RecordReader::new(&bad, options));
            assert_eq!(expected.0, [10, 30]);
            let streamed = recovered(RecordReader::from_read(&bad[..], options));
            assert_eq!(streamed, expected, "{options:?}");
        }
    }
}

#[test]
fn seeking_recovers_too() {
    let (mut file, begins) = chunks(10);
    file[begins[4] + 60] ^= 1;
    let bad = RecordPosition::new(begins[4] as u64, 1);
    let mut reader = RecordReader::new(&file, ReaderOptions::new());
    assert_eq!(
        reader.seek(bad).unwrap_err().kind(),
        ErrorKind::ChecksumMismatch
    );
    let (mut reader, regions) = recovering(&file);
    reader.seek(bad).unwrap();
    assert_eq!(reader.read_record().unwrap(), Some(&noise(100, 5)[..]));
    assert_eq!(
        *regions.lock().unwrap(),
        [(begins[4] as u64, begins[5] as u64)]
    );
    // The reader also recovers when it moves backwards.
    reader
        .seek(RecordPosition::new(begins[5] as u64, 0))
        .unwrap();
    let mut back = Vec::new();
    while reader.seek_back().unwrap() {
        let position = reader.position();
        back.push(position.chunk_begin().0);
        if back.len() > 20 {
            break;
        }
    }
    assert!(back.ends_with(&[begins[0] as u64]), "{back:?}");
    assert!(back.contains(&(begins[3] as u64)), "{back:?}");
}

#[test]
fn seeking_finds_records_after_an_unsupported_chunk_in_the_same_block() {
    let simple = |records: &[u8]| {
        let count = u8::try_from(records.len()).unwrap();
        [&[0, count][..], &vec![1; records.len()][..], records].concat()
    };
    let (before, after) = (simple(b"abc"), simple(b"defgh"));
    let mut file = frame::file(&[]);
    let [_, unsupported, begin] = [
        Frame::new(b'r', 3, 3, &before),
        Frame::new(b'?', 1, 0, b"later"),
        Frame::new(b'r', 5, 5, &after),
    ]
    .map(|frame| frame::push(&mut file, &frame) as u64);
    for (index, record) in b"defgh".chunks(1).enumerate() {
        let (mut reader, regions) = recovering(&file);
        reader.seek_numeric(begin + index as u64).unwrap();
        assert_eq!(reader.read_record().unwrap(), Some(record));
        assert_eq!(*regions.lock().unwrap(), [(unsupported, begin)]);
    }
    let (mut reader, regions) = recovering(&file);
    reader.seek_numeric(file.len() as u64).unwrap();
    assert_eq!(read_backwards(&mut reader), b"hgfedcba");
    assert_eq!(*regions.lock().unwrap(), [(unsupported, begin)]);
}

#[test]
fn going_back_passes_over_a_damaged_chunk_with_several_records() {
    let mut file = frame::file(&[]);
    let [_, damaged, after] = [b"abc", b"def", b"ghi"].map(|records| {
        let data = [&[0, 3, 1, 1, 1][..], &records[..]].concat();
        frame::push(&mut file, &Frame::new(b'r', 3, 3, &data))
    });
    file[after - 1] ^= 1;
    let (mut reader, regions) = recovering(&file);
    reader.seek_numeric(file.len() as u64).unwrap();
    assert_eq!(read_backwards(&mut reader), b"ihgcba");
    assert_eq!(*regions.lock().unwrap(), [(damaged as u64, after as u64)]);
    // The callback can end the search for an earlier record.
    let mut reader = RecordReader::new(&file, ReaderOptions::new()).on_damage(|_| false);
    reader.seek_numeric(after as u64).unwrap();
    assert!(!reader.seek_back().unwrap());
}

#[test]
fn going_back_over_damaged_chunks_to_no_record_does_not_move_the_reader() {
    let mut file = frame::file(&[]);
    // Appends a chunk with three records of `len` bytes each.
    let mut push = |fill: &[u8; 3], len: usize| {
        let sizes = frame::varint_of(len as u64).repeat(3);
        let mut data = vec![0, u8::try_from(sizes.len()).unwrap()];
        data.extend(sizes);
        data.extend(fill.iter().flat_map(|&byte| vec![byte; len]));
        frame::push(&mut file, &Frame::new(b'r', 3, 3 * len as u64, &data))
    };
    let (first, second, third) = (push(b"abc", 1000), push(b"def", 1), push(b"ghi", 1));
    let options = ReaderOptions::new();
    let damaged = |begins: &[usize]| {
        let mut file = file.clone();
        begins.iter().for_each(|begin| file[begin + 44] ^= 1);
        file
    };
    let too_large = ErrorKind::LimitExceeded;
    for (file, options, recovers, expected) in [
        (
            damaged(&[second]),
            options,
            false,
            Err(ErrorKind::ChecksumMismatch),
        ),
        (damaged(&[first, second]), options, true, Ok(false)),
        (
            damaged(&[second]),
            options.max_chunk_memory(500),
            true,
            Err(too_large),
        ),
    ] {
        let mut reader = RecordReader::new(&file, options);
        if recovers {
            reader = reader.on_damage(|_| true);
        }
        let place = RecordPosition::new(third as u64, 0);
        reader.seek(place).unwrap();
        for _ in 0..2 {
            let moved = reader.seek_back().map_err(|error| error.kind());
            assert_eq!(moved, expected);
            assert_eq!(reader.position(), place);
        }
        assert_eq!(reader.read_record().unwrap(), Some(&b"g"[..]));
    }
}

#[test]
fn a_header_damaged_in_the_last_block_costs_the_rest_once() {
    let (mut file, begins) = chunks(10);
    file[begins[7] + 5] ^= 1;
    let (mut reader, regions) = recovering(&file);
    assert_eq!(read_all(&mut reader).len(), 7);
    for _ in 0..3 {
        assert_eq!(reader.read_record().unwrap(), None);
    }
    let size = file.len() as u64;
    assert_eq!(*regions.lock().unwrap(), [(begins[7] as u64, size)]);
}

#[test]
fn a_callback_that_panics_leaves_a_reader_that_reads_on() {
    let (mut file, begins) = chunks(6);
    file[begins[2] + 60] ^= 1;
    file[begins[4] + 60] ^= 1;
    let second = begins[2] as u64;
    let mut reader = RecordReader::new(&file, ReaderOptions::new()).on_damage(move |region| {
        assert_ne!(region.begin, second, "on purpose");
        true
    });
    for _ in 0..2 {
        assert!(reader.read_record().unwrap().is_some());
    }
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let panicked = catch_unwind(AssertUnwindSafe(|| reader.read_record().map(|_| ())));
    std::panic::set_hook(hook);
    assert!(panicked.is_err());
    let left: Vec<_> = [3, 5].map(|index| begins[index] as u64).into();
    assert_eq!(read_all(&mut reader), left);
}

#[test]
fn metadata_that_is_damaged_costs_no_records() {
    let mut contradictions = 0;
    for name in [
        "cpp_meta_uncompressed.riegeli",
        "cpp_meta_zstd3_transpose.riegeli",
    ] {
        let fixture = Fixture::load(name);
        let records = fixture.records().len();
        let end = fixture.records()[0].position.chunk_begin().0;
        let inside = usize::try_from(end).unwrap() - 1;
        // Either the damaged bytes contradict the hash, or the hash is corrected.
        for mended in [false, true] {
            let mut bad = fixture.bytes.clone();
            bad[inside] ^= 0xff;
            if mended {
                bad[inside - 1] ^= 0x55;
                crate::support::frame::mend(&mut bad);
            }
            let mut strict = RecordReader::new(&bad, ReaderOptions::new());
            let error = match strict.read_metadata() {
                // A value in the metadata changed, which can't be detected.
                Ok(_) if mended => continue,
                result => result.unwrap_err(),
            };
            assert_eq!(error.offset(), Some(64), "{name}: {error}");
            contradictions += u32::from(mended);
            assert!(
                RecordFile::open(&bad, ReaderOptions::new())
                    .unwrap()
                    .metadata()
                    .is_err()
            );

            let (mut reader, regions) = recovering(&bad);
            assert_eq!(reader.read_metadata().unwrap(), None);
            assert_eq!(read_all(&mut reader).len(), records);
            assert_eq!(*regions.lock().unwrap(), [(64, end)]);
        }
    }
    assert!(contradictions > 0);
}

/// A file to which others write.
#[derive(Clone, Default)]
struct Growing(Arc<Mutex<Vec<u8>>>);

impl ReadAt for Growing {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().read_at(offset, buf)
    }

    fn size(&self) -> std::io::Result<u64> {
        ReadAt::size(&*self.0.lock().unwrap())
    }
}

#[test]
fn a_header_that_is_filled_in_later_is_read_then() {
    let (whole, begins) = chunks(3);
    let mut unfinished = whole.clone();
    unfinished[begins[1]..begins[1] + 40].fill(0);
    let growing = Growing::default();
    let mut reader = RecordReader::new(growing.clone(), ReaderOptions::new());
    let mut backwards = RecordReader::new(growing.clone(), ReaderOptions::new());
    *growing.0.lock().unwrap() = unfinished;
    assert!(reader.read_record().unwrap().is_some());
    backwards
        .seek(RecordPosition::new(begins[2] as u64, 0))
        .unwrap();
    for _ in 0..2 {
        let error = reader.read_record().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
        let error = backwards.seek_back().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
    }
    *growing.0.lock().unwrap() = whole;
    assert_eq!(reader.read_record().unwrap(), Some(&noise(100, 1)[..]));
    assert!(backwards.seek_back().unwrap());
    assert_eq!(backwards.read_record().unwrap(), Some(&noise(100, 1)[..]));
}

#[test]
fn a_file_that_grows_is_recovered_only_where_it_is_damaged() {
    let (mut file, begins) = chunks(30);
    file[begins[10] + 60] ^= 1;
    let growing = Growing::default();
    let (mut reader, regions) = recovering(growing.clone());
    let mut read = Vec::new();
    // The file grows by whole chunks; another test covers incomplete chunks.
    for &end in &begins[1..] {
        *growing.0.lock().unwrap() = file[..end].to_vec();
        read.extend(read_all(&mut reader));
    }
    *growing.0.lock().unwrap() = file;
    read.extend(read_all(&mut reader));
    assert_eq!(read.len(), 29);
    assert_eq!(
        *regions.lock().unwrap(),
        [(begins[10] as u64, begins[11] as u64)]
    );
}

#[test]
fn what_is_appended_to_a_file_cut_anywhere_is_found_by_recovery() {
    let (whole, begins) = chunks(4);
    for cut in 1..=whole.len() {
        let file = Vec::from(&whole[..cut]);
        let options = WriterOptions::new()
            .compression(Compression::None)
            .initial_padding(1 << 16);
        let mut writer = RecordWriter::append_at(file, cut as u64, options).unwrap();
        writer.write_record(b"new").unwrap();
        let new = writer.last_position().unwrap();
        let file = writer.finish().unwrap();
        let (mut reader, regions) = recovering(&file);
        let read = read_all(&mut reader);
        let ends = begins[1..].iter().copied().chain([whole.len()]);
        let kept = begins.iter().zip(ends).filter(|(_, end)| *end <= cut);
        let expected: Vec<_> = kept
            .map(|(&begin, _)| begin as u64)
            .chain([new.chunk_begin().0])
            .collect();
        if cut < 64 {
            // Without the signature, the first block is lost.
            assert_eq!(read, expected[expected.len() - 1..], "{cut}");
        } else {
            assert_eq!(read, expected, "{cut}");
        }
        let between = cut == 64 || cut == whole.len() || begins.contains(&cut);
        assert_eq!(regions.lock().unwrap().is_empty(), between, "{cut}");
    }
}

#[test]
fn what_is_appended_to_a_torn_chunk_of_several_blocks_is_found_by_recovery() {
    let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
    writer
        .write_record_alone(&noise(400_000, 1), Compression::None)
        .unwrap();
    let whole = writer.finish().unwrap();
    // The torn chunk claims to end after the appended chunks, or inside them.
    for (cut, lens) in [
        (100_000, &[3][..]),
        (200_000, &[3]),
        (100_000, &[3, 500_000]),
    ] {
        let options = WriterOptions::new().initial_padding(1 << 16);
        let file = whole[..cut].to_vec();
        let mut writer = RecordWriter::append_at(file, cut as u64, options).unwrap();
        for &len in lens {
            writer
                .write_record_alone(&noise(len, 2), Compression::None)
                .unwrap();
        }
        let file = writer.finish().unwrap();
        let appended = cut.next_multiple_of(1 << 16) as u64;
        let expected = (lens.to_vec(), vec![(64, appended)]);
        let options = ReaderOptions::new();
        assert_eq!(recovered(RecordReader::new(&file, options)), expected);
        assert_eq!(
            recovered(RecordReader::from_read(&file[..], options)),
            expected
        );
    }
}

#[test]
fn a_damaged_chunk_without_records_is_not_skipped_as_a_record() {
    for kind in *b"pmr?" {
        let mut file = frame::file(&[]);
        let begin = frame::push(&mut file, &Frame::new(kind, 0, 0, b"bytes"));
        file[begin + 40] ^= 1;
        frame::push(&mut file, &Frame::new(b'r', 1, 1, &[0, 1, 1, b'a']));
        let options = ReaderOptions::new();
        let mut of_file = RecordReader::new(&file, options);
        let mut of_stream = RecordReader::from_read(&file[..], options);
        for error in [
            of_file.read_record().unwrap_err(),
            of_file.skip_record().unwrap_err(),
            of_stream.read_record().unwrap_err(),
            of_stream.skip_record().unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::ChecksumMismatch, "{kind}: {error}");
        }
        assert_eq!(of_stream.last_position(), None);
    }
}

#[test]
fn block_headers_that_all_lead_to_the_first_chunk_make_no_search_walk_the_file() {
    let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
    let mut last = 0;
    for index in 0..50 {
        let record = noise(60_000, index);
        let position = writer.write_record_alone(&record, Compression::None);
        last = position.unwrap().numeric();
    }
    let mut file = writer.finish().unwrap();
    for block in (1 << 16..file.len()).step_by(1 << 16) {
        block_header(&mut file, block, block as u64 - 64, 1 << 40);
    }
    let (size, options) = (file.len() as u64, ReaderOptions::new());
    let mut reader = RecordReader::new(&file, options);
    reader.seek_numeric(size).unwrap();
    let opened = RecordFile::open(&file, options).unwrap();
    for error in [
        opened.locate(last).unwrap_err(),
        opened.last_record().unwrap_err(),
        reader.seek_back().unwrap_err(),
        reader.seek_numeric(last).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("impossible chunk"), "{error}");
    }
}
