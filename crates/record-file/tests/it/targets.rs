//! Fuzz targets: functions that take arbitrary bytes and check properties that must always hold.
//! `/fuzz` runs the targets with libFuzzer, and `mutations.rs` runs them with reproducible
//! mutations.
use std::io::Read;

use record_file::{
    ChunkOffset, ChunkType, Compression, ErrorKind, FieldProjection, ReaderOptions, RecordFile,
    RecordInput, RecordPosition, RecordReader, RecordWriter, RecordsMetadata, SearchResult,
    WriterOptions,
};

use crate::support::frame::{self, Frame};

/// A function that checks properties of arbitrary bytes.
pub(crate) type Target = fn(&[u8]);

/// All targets, by name.
pub(crate) const TARGETS: [(&str, Target); 7] = [
    ("sequence", sequence),
    ("positioned", positioned),
    ("simple_chunk", simple_chunk),
    ("transposed_chunk", transposed_chunk),
    ("metadata", metadata),
    ("round_trip", round_trip),
    ("text", text),
];

/// Reader options that allow little memory, since the input may claim large sizes.
const OPTIONS: ReaderOptions = ReaderOptions::new()
    .max_chunk_memory(1 << 20)
    .max_window_log(20);

/// Maximum number of records that are checked per file.
const MOST: usize = 10_000;

/// Maximum number of records that are checked one by one, since reading any record in a damaged
/// chunk reads the whole chunk.
const MOST_ONE_BY_ONE: usize = 100;

/// Returns the file in `data`: all bytes except the last. If the last byte is odd, corrects all
/// hashes.
fn file_of(data: &[u8]) -> Vec<u8> {
    let Some((mode, file)) = data.split_last() else {
        return Vec::new();
    };
    let mut file = file.to_vec();
    if mode % 2 == 1 {
        frame::mend(&mut file);
    }
    file
}

type Ending = Result<(), (ErrorKind, Option<u64>)>;

fn read_all<I: RecordInput>(
    reader: &mut RecordReader<I>,
) -> (Vec<(RecordPosition, Vec<u8>)>, Ending) {
    let mut records = Vec::new();
    while records.len() < MOST {
        match reader.read_record() {
            Ok(Some(record)) => {
                let record = record.to_vec();
                let position = reader.last_position().expect("the record just read");
                records.push((position, record));
            }
            Ok(None) => break,
            Err(error) => return (records, Err((error.kind(), error.offset()))),
        }
    }
    (records, Ok(()))
}

/// Streams records where possible and skips the other records, or skips all records if `skips` is
/// set. Checks that each record occurs once, and equals the record that reading returns.
fn one_by_one<I: RecordInput>(
    mut reader: RecordReader<I>,
    skips: bool,
    expected: &[(RecordPosition, Vec<u8>)],
    end: &Ending,
) {
    let mut count = 0;
    let mut last = None;
    let ended = loop {
        if count == MOST_ONE_BY_ONE {
            break true;
        }
        let passed = if skips {
            reader.skip_record()
        } else {
            let streamed = reader.read_record_stream().map(|stream| {
                stream.map(|mut stream| {
                    let mut record = Vec::new();
                    let read = stream.read_to_end(&mut record);
                    (stream.position(), read.ok().map(|_| record))
                })
            });
            match streamed {
                Ok(Some((position, Some(record)))) => {
                    let at = expected.binary_search_by_key(&position, |(position, _)| *position);
                    assert!(at.is_err() || at.is_ok_and(|at| expected[at].1 == record));
                    Ok(true)
                }
                Ok(Some((_, None))) => Ok(true),
                Ok(None) => Ok(false),
                Err(_) => reader.skip_record(),
            }
        };
        match passed {
            Ok(true) => {}
            Ok(false) => break true,
            Err(_) => break false,
        }
        count += 1;
        let position = reader.last_position();
        assert!(last < position, "{last:?}, {position:?}");
        last = position;
    };
    let known = expected.len().min(MOST_ONE_BY_ONE);
    if end.is_ok() {
        assert!(ended && count == known);
    } else {
        assert!(count >= known);
    }
}

/// Reads a file in sequence. Checks that a stream returns the same records as a slice, and that
/// recovery skips all damage.
pub(crate) fn sequence(data: &[u8]) {
    let file = file_of(data);
    let (records, end) = read_all(&mut RecordReader::new(&file, OPTIONS));
    let (streamed, streamed_end) = read_all(&mut RecordReader::from_read(&file[..], OPTIONS));
    let limited = |end: &Ending| matches!(end, Err((ErrorKind::LimitExceeded, _)));
    // A stream may report an exceeded limit where a slice detects that the file ends earlier.
    if !limited(&streamed_end) || limited(&end) {
        assert_eq!(streamed_end, end);
        assert!(streamed == records);
    }
    // Each file is read in only one way, to save time. Only one in sixteen is read with threads,
    // since starting threads is slow.
    let way = file.len() % 16;
    let options = OPTIONS.stream_from(0).threads(u32::from(way == 0));
    let skips = way % 4 == 1;
    one_by_one(RecordReader::new(&file, options), skips, &records, &end);
    let plain = RecordReader::from_read(&file[..], options);
    one_by_one(plain, skips, &records, &end);
    let mut reached = 0;
    let size = file.len() as u64;
    let mut reader = RecordReader::new(&file, OPTIONS).on_damage(move |region| {
        assert!(reached <= region.begin && region.begin < region.end && region.end <= size);
        reached = region.end;
        true
    });
    let (recovered, end) = read_all(&mut reader);
    assert!(recovered.starts_with(&records));
    assert!(recovered.is_sorted_by_key(|(position, _)| position.numeric()));
    assert!(end.is_ok() || limited(&end), "{end:?}");
}

/// Reads a file at random positions. Checks that every way to reach a record returns the same
/// record.
pub(crate) fn positioned(data: &[u8]) {
    let file = file_of(data);
    let mut reader = RecordReader::new(&file, OPTIONS).on_damage(|_| true);
    let size = file.len() as u64;
    for numeric in [
        0,
        1,
        size / 3,
        size / 2,
        size.saturating_sub(1),
        size,
        size + 1,
    ] {
        if reader.seek_numeric(numeric).is_ok()
            && let Ok(Some(_)) = reader.read_record()
            && let Some(position) = reader.last_position()
        {
            assert!(reader.seek(position).is_ok());
            assert!(matches!(reader.read_record(), Ok(Some(_))));
            let _ = reader.seek_back();
        }
    }
    let mut last = None;
    let found = reader.search(|record| {
        last = Some(record.to_vec());
        record.cmp(b"m").into()
    });
    if let Ok(SearchResult::Equal) = found {
        assert_eq!(reader.read_record().ok().flatten(), Some(&b"m"[..]));
    }
    let Ok(file) = RecordFile::open(&file, OPTIONS) else {
        return;
    };
    let _ = (file.last_record(), file.metadata());
    for chunk in file.chunks().map_while(Result::ok).take(100) {
        let begin = chunk.begin();
        let _ = file.compression(&chunk);
        let Ok(decoded) = file.read_chunk(begin) else {
            continue;
        };
        if matches!(chunk.header.kind, ChunkType::Simple | ChunkType::Transposed) {
            assert_eq!(decoded.len() as u64, chunk.header.num_records);
            assert_eq!(decoded.decoded_size(), chunk.header.decoded_data_size);
        }
        for index in (0..decoded.len()).step_by(1 + decoded.len() / 5) {
            let record = decoded.record(index).expect("within the chunk");
            let position = RecordPosition::new(begin.0, index as u64);
            one_record(&file, position, record);
        }
    }
}

fn one_record(file: &RecordFile<&Vec<u8>>, position: RecordPosition, record: &[u8]) {
    assert_eq!(file.read_record(position).expect("it was decoded"), record);
    let len = file.record_len(position).expect("it was decoded");
    assert_eq!(len, record.len() as u64);
    let mut buf = vec![0; record.len()];
    file.read_record_into(position, &mut buf)
        .expect("it was decoded");
    assert_eq!(buf, record);
    buf.clear();
    if let Ok(mut stream) = file.record_stream(position)
        && stream.read_to_end(&mut buf).is_ok()
    {
        assert_eq!(buf, record);
    }
    if let Ok(located) = file.locate(position.numeric()) {
        assert_eq!(located, position);
    }
}

/// Reads a chunk of kind `kind`. `data` consists of the number of records in two bytes, their size
/// in three bytes, and the chunk's data.
fn chunk(kind: u8, data: &[u8]) {
    let Some((claims, data)) = data.split_at_checked(5) else {
        return;
    };
    let number = |bytes: &[u8]| {
        let digit = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        bytes.iter().fold(0, digit)
    };
    let frame = Frame::new(kind, number(&claims[..2]), number(&claims[2..]), data);
    let mut file = frame::file(&[frame]);
    file.push(0);
    sequence(&file);
    positioned(&file);
    if kind == b't' {
        file.pop();
        project(&file);
    }
}

/// Reads a simple chunk with the fuzzer's `data` as its content.
pub(crate) fn simple_chunk(data: &[u8]) {
    chunk(b'r', data);
}

/// Reads a transposed chunk with the fuzzer's `data` as its content.
pub(crate) fn transposed_chunk(data: &[u8]) {
    chunk(b't', data);
}

/// Checks that a projection returns no more than the whole records.
fn project(file: &[u8]) {
    let projections = [
        FieldProjection::none(),
        FieldProjection::none().field(&[1]),
        FieldProjection::none().existence(&[2]).field(&[3, 1]),
    ];
    for projection in projections {
        let Ok(file) = RecordFile::open(file, OPTIONS) else {
            return;
        };
        let file = file.with_field_projection(projection);
        if let Ok(chunk) = file.read_chunk(ChunkOffset(64)) {
            assert!(chunk.records().count() == chunk.len());
        }
    }
}

/// Reads a metadata chunk whose size is in the first three bytes, and parses the message directly.
pub(crate) fn metadata(data: &[u8]) {
    if let Ok(parsed) = RecordsMetadata::parse(data) {
        let again = RecordsMetadata::parse(&parsed.serialize());
        assert_eq!(again.expect("what was serialized"), parsed);
    }
    let Some((size, content)) = data.split_first_chunk::<3>() else {
        return;
    };
    let size = u64::from_be_bytes([0, 0, 0, 0, 0, size[0], size[1], size[2]]);
    let file = frame::file(&[Frame::new(b'm', 0, size, content)]);
    let positioned = RecordFile::open(&file, OPTIONS)
        .and_then(|file| file.metadata())
        .map_err(|error| error.kind());
    let sequential = RecordReader::new(&file, OPTIONS)
        .read_metadata()
        .map_err(|error| error.kind());
    if let Ok(Some(metadata)) = &positioned {
        assert_eq!(metadata.len() as u64, size);
    }
    assert_eq!(positioned, sequential);
}

/// Writes records, each after a length byte, with options from the first two bytes, and reads them
/// back.
pub(crate) fn round_trip(data: &[u8]) {
    let Some((&[how, size], mut rest)) = data.split_first_chunk() else {
        return;
    };
    let compression = match how % 4 {
        0 => Compression::None,
        1 => Compression::zstd(1),
        2 => Compression::brotli(1),
        _ => Compression::SNAPPY,
    };
    let options = WriterOptions::new()
        .compression(compression)
        .transpose(how & 4 == 0)
        .bucket_fraction(f64::from(how >> 4) / 15.0)
        .chunk_size(1 + u64::from(size) * 16)
        .final_padding(if how & 8 == 0 { 1 } else { 100 });
    let mut writer = RecordWriter::new(Vec::new(), options).expect("options in their range");
    let mut records = Vec::new();
    while let Some((&len, after)) = rest.split_first() {
        let (record, after) = after.split_at(usize::from(len).min(after.len()));
        writer.write_record(record).expect("memory takes it");
        let position = writer.last_position().expect("a record was written");
        records.push((position, record.to_vec()));
        rest = after;
    }
    let file = writer.finish().expect("memory takes it");
    let (read, end) = read_all(&mut RecordReader::new(&file, OPTIONS));
    assert_eq!(end, Ok(()));
    assert!(read == records);
}

/// Parses positions and options as text, and positions as bytes. Checks that formatting them
/// restores the input.
pub(crate) fn text(data: &[u8]) {
    if let Ok(position) = RecordPosition::from_bytes(data) {
        let again = RecordPosition::from_bytes(&position.to_bytes());
        assert_eq!(again.expect("what was written"), position);
    }
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(position) = text.parse::<RecordPosition>() {
        let again = position.to_string().parse::<RecordPosition>();
        assert_eq!(again.expect("what was written"), position);
    }
    if let Ok(options) = text.parse::<WriterOptions>() {
        let again = options.to_string().parse::<WriterOptions>();
        assert_eq!(again.expect("what was written"), options);
    }
}

/// Returns the seeds of a target, made from the files in `dir`.
pub(crate) fn seeds(target: &str, dir: &std::path::Path) -> Vec<Vec<u8>> {
    const LARGEST: usize = 6000;
    if target == "text" {
        return [
            "64/0",
            "3986/2",
            "transpose,zstd:5,chunk_size:4M,parallelism:2",
            "default,brotli:11,window_log:20,bucket_fraction:0.5,padding",
            "uncompressed,initial_padding:64K,final_padding:1000",
            "snappy:2,chunk_size:auto",
        ]
        .map(|text| text.as_bytes().to_vec())
        .into();
    }
    let mut paths: Vec<_> = std::fs::read_dir(dir)
        .expect("the folder of files")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "riegeli")
        })
        .collect();
    paths.sort();
    let mut seeds = Vec::new();
    for path in paths {
        let mut file = std::fs::read(path).expect("a file");
        if file.len() > LARGEST {
            continue;
        }
        match target {
            "sequence" | "positioned" => {
                file.push(1);
                seeds.push(file);
            }
            "round_trip" => seeds.push(records_of(&file)),
            _ => seeds.extend(chunks(target, &file)),
        }
    }
    seeds
}

/// Returns the first records in a file, in the form that [`round_trip`] accepts.
fn records_of(file: &[u8]) -> Vec<u8> {
    const LARGEST: usize = 2000;
    let mut out = vec![0, 255];
    let mut reader = RecordReader::new(file, OPTIONS);
    while out.len() < LARGEST
        && let Ok(Some(record)) = reader.read_record()
    {
        if let Ok(len) = u8::try_from(record.len()) {
            out.push(len);
            out.extend(record);
        }
    }
    out
}

/// Returns a file's chunks that a target can read, each preceded by its claims.
fn chunks(target: &str, file: &[u8]) -> Vec<Vec<u8>> {
    let Ok(records) = RecordFile::open(file, OPTIONS) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for chunk in records.chunks().map_while(Result::ok) {
        let header = chunk.header;
        let claims = match (target, header.kind) {
            ("simple_chunk", ChunkType::Simple) | ("transposed_chunk", ChunkType::Transposed) => [
                &header.num_records.to_be_bytes()[6..],
                &header.decoded_data_size.to_be_bytes()[5..],
            ]
            .concat(),
            ("metadata", ChunkType::Metadata) => {
                header.decoded_data_size.to_be_bytes()[5..].to_vec()
            }
            _ => continue,
        };
        let begin = usize::try_from(chunk.begin().0).expect("within the file") + 40;
        let data = begin..begin + usize::try_from(header.data_size).expect("within the file");
        // Such small files have only one block.
        if let Some(data) = file.get(data) {
            out.push([&claims, data].concat());
        }
    }
    out
}
