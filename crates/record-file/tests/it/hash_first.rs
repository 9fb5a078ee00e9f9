//! Tests that damage in the data of a chunk is reported as a wrong hash, even if a decoder or an
//! earlier check has found another error.
use std::io::{self, Read};

use record_file::{
    Compression, Error, ErrorKind, ReaderOptions, RecordFile, RecordPosition, RecordReader,
    RecordWriter, WriterOptions,
};

use crate::support::message::bytes_field;
use crate::support::noise;

/// A file with chunks of one record and chunks of several records, and the range of each chunk's
/// data.
struct Subject {
    name: String,
    bytes: Vec<u8>,
    records: Vec<RecordPosition>,
    data: Vec<(usize, usize)>,
}

fn subject(compression: Compression, transpose: bool) -> Subject {
    let options = WriterOptions::new()
        .compression(compression)
        .transpose(transpose);
    let name = options.to_string();
    let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
    // The record has compressible and incompressible parts.
    let record = [noise(80, 3), vec![7; 100], noise(40, 3)].concat();
    let mut records = vec![writer.write_record_alone(&record, compression).unwrap()];
    for index in 0..7 {
        writer
            .write_record(&bytes_field(index % 3 + 1, &record[index as usize..]))
            .unwrap();
        records.extend(writer.last_position());
    }
    let bytes = writer.finish().unwrap();
    let file = RecordFile::open(&bytes, ReaderOptions::new()).unwrap();
    let data = file.chunks().map(|chunk| {
        let chunk = chunk.unwrap();
        let begin = usize::try_from(chunk.begin().0).unwrap() + 40;
        (
            begin,
            begin + usize::try_from(chunk.header.data_size).unwrap(),
        )
    });
    let data = data.filter(|(begin, end)| begin < end).collect();
    Subject {
        name,
        records,
        data,
        bytes,
    }
}

fn subjects() -> Vec<Subject> {
    let compressions = [
        Compression::None,
        Compression::zstd(3),
        Compression::brotli(5),
        Compression::SNAPPY,
    ];
    let both = compressions.map(|compression| [false, true].map(|all| subject(compression, all)));
    both.into_iter().flatten().collect()
}

/// The name of a way to read all records, and the function that does it.
type Way = (
    &'static str,
    fn(&[u8], &[RecordPosition]) -> Result<(), Error>,
);

fn in_sequence(reader: &mut RecordReader<impl record_file::RecordInput>) -> Result<(), Error> {
    while reader.read_record()?.is_some() {}
    Ok(())
}

fn from_io(error: io::Error) -> Error {
    *error.into_inner().unwrap().downcast().unwrap()
}

const STREAMED: ReaderOptions = ReaderOptions::new().stream_from(0);

const WAYS: [Way; 9] = [
    ("a reader", |bytes, _| {
        in_sequence(&mut RecordReader::new(bytes, ReaderOptions::new()))
    }),
    ("a reader that decodes as it reads", |bytes, _| {
        in_sequence(&mut RecordReader::new(bytes, STREAMED))
    }),
    ("a reader of a plain stream", |bytes, _| {
        in_sequence(&mut RecordReader::from_read(bytes, STREAMED))
    }),
    ("a reader with threads", |bytes, _| {
        in_sequence(&mut RecordReader::new(
            bytes,
            ReaderOptions::new().threads(1),
        ))
    }),
    ("read_record", |bytes, records| {
        let file = RecordFile::open(bytes, ReaderOptions::new())?;
        let mut all = records.iter();
        all.try_for_each(|&record| file.read_record(record).map(drop))
    }),
    ("read_record_into", |bytes, records| {
        into(bytes, records, ReaderOptions::new())
    }),
    ("read_record_into, as it is read", |bytes, records| {
        into(bytes, records, STREAMED)
    }),
    ("a stream", |bytes, records| {
        let file = RecordFile::open(bytes, ReaderOptions::new())?;
        for &record in records {
            let mut stream = file.record_stream(record)?;
            let mut some = [0; 37];
            while stream.read(&mut some).map_err(from_io)? > 0 {}
        }
        Ok(())
    }),
    ("a stream that is skipped", |bytes, records| {
        let file = RecordFile::open(bytes, ReaderOptions::new())?;
        let mut all = records.iter();
        all.try_for_each(|&record| file.record_stream(record)?.skip(u64::MAX))
    }),
];

fn into(bytes: &[u8], records: &[RecordPosition], options: ReaderOptions) -> Result<(), Error> {
    let file = RecordFile::open(bytes, options)?;
    for &record in records {
        // Getting a record's length also decodes the record, unless it has its own chunk.
        let len = file.record_len(record)?;
        file.read_record_into(record, &mut vec![0; usize::try_from(len).unwrap()])?;
    }
    Ok(())
}

#[test]
fn a_flipped_byte_of_data_is_a_wrong_hash_in_every_way_of_reading() {
    for subject in subjects() {
        for (way, read) in WAYS {
            read(&subject.bytes, &subject.records).unwrap();
            for &(begin, end) in &subject.data {
                for at in begin..end {
                    let mut bad = subject.bytes.clone();
                    bad[at] ^= 1 << (at % 8);
                    let error = read(&bad, &subject.records).unwrap_err();
                    let what = format!("{}, {way}, flip at {at}: {error}", subject.name);
                    assert_eq!(error.kind(), ErrorKind::ChecksumMismatch, "{what}");
                    assert_eq!(error.offset(), Some(begin as u64 - 40), "{what}");
                }
            }
        }
    }
}
