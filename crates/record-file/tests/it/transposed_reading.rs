//! Tests of transposed chunks whose records are assembled in the memory that holds their stored
//! form.
use record_file::{
    Compression, ReaderOptions, RecordFile, RecordReader, RecordWriter, WriterOptions,
};

use crate::support::message::{bytes_field, varint_field};
use crate::support::noise;

fn write(records: &[Vec<u8>], compression: Compression) -> Vec<u8> {
    let options = WriterOptions::new()
        .compression(compression)
        .transpose(true)
        .chunk_size(1 << 30);
    let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
    for record in records {
        writer.write_record(record).unwrap();
    }
    writer.finish().unwrap()
}

/// Writes records to one chunk, and reads them in every way.
fn check(what: &str, records: &[Vec<u8>]) {
    for compression in [Compression::None, Compression::zstd(1), Compression::SNAPPY] {
        let file = write(records, compression);
        for threads in [0, 2] {
            let options = ReaderOptions::new().threads(threads);
            let mut reader = RecordReader::new(&file[..], options);
            let mut streaming = RecordReader::from_read(&file[..], options);
            for (index, record) in records.iter().enumerate() {
                let read = reader.read_record().unwrap().unwrap();
                assert!(read == record, "{what}, {compression}: record {index}");
                let read = streaming.read_record().unwrap().unwrap();
                assert!(
                    read == record,
                    "{what}, {compression}: record {index} of a stream"
                );
            }
            assert_eq!(reader.read_record().unwrap(), None);
            assert_eq!(streaming.read_record().unwrap(), None);
        }
        let file = RecordFile::open(&file[..], ReaderOptions::new()).unwrap();
        let chunks: Vec<_> = file.chunks().map(|chunk| chunk.unwrap()).collect();
        let decoded = file.read_chunk(chunks.last().unwrap().begin()).unwrap();
        assert!(
            decoded.records().eq(records.iter().map(Vec::as_slice)),
            "{what}, {compression}"
        );
    }
}

#[test]
fn records_of_every_shape_are_put_together_where_their_parts_were() {
    let small = |index: u64| {
        let name = noise(20, index);
        [varint_field(1, index), bytes_field(2, &name)].concat()
    };
    let large = |index: u64, len| bytes_field(1, &noise(len, index));
    let cases: [(&str, Vec<Vec<u8>>); 6] = [
        ("small ones", (0..150_000).map(small).collect()),
        (
            "equal ones",
            vec![bytes_field(1, b"the same again and again"); 200_000],
        ),
        (
            "large ones",
            (0..40).map(|index| large(index, 100_000)).collect(),
        ),
        ("one", vec![large(1, 3_000_000)]),
        (
            "no messages",
            (0..60_000).map(|index| noise(40, index)).collect(),
        ),
        // The lengths of these records take more space than their content.
        (
            "empty ones and others",
            (0..100_000)
                .map(|at| vec![0xff; usize::from(at % 50 == 0)])
                .collect(),
        ),
    ];
    for (what, records) in cases {
        check(what, &records);
    }
}

#[test]
fn records_are_read_that_are_larger_than_is_believed_of_what_is_stored() {
    // The total size of the records is more than 16 MiB, and more than 16 times their stored size.
    let records: Vec<_> = (0..30u8)
        .map(|index| bytes_field(1, &vec![index; 1 << 20]))
        .collect();
    let file = write(&records, Compression::zstd(1));
    assert!(file.len() < 1 << 20);
    let mut reader = RecordReader::new(&file[..], ReaderOptions::new());
    for record in &records {
        assert!(reader.read_record().unwrap() == Some(record));
    }
    assert_eq!(reader.read_record().unwrap(), None);
}
