//! Transposed chunks as other writers make them, and read back.
use record_file::{Compression, ReaderOptions, RecordFile, RecordWriter, WriterOptions};

use crate::support::{Fixture, valid};

/// All records of a file.
fn records(file: &RecordFile<&[u8]>) -> Vec<Vec<u8>> {
    file.chunks()
        .map(|chunk| chunk.unwrap())
        .filter(|chunk| chunk.header.num_records > 0)
        .flat_map(|chunk| {
            let decoded = file.read_chunk(chunk.begin()).unwrap();
            decoded.records().map(<[u8]>::to_vec).collect::<Vec<_>>()
        })
        .collect()
}

fn write<R: AsRef<[u8]>>(records: &[R], options: &WriterOptions) -> Vec<u8> {
    let mut writer = RecordWriter::new(Vec::new(), options.clone().transpose(true)).unwrap();
    for record in records {
        writer.write_record(record.as_ref()).unwrap();
    }
    writer.finish().unwrap()
}

fn rewrite(fixture: &Fixture, options: &WriterOptions) -> Vec<u8> {
    let file = fixture.open();
    let mut options = options.clone();
    if let Some(metadata) = file.metadata().unwrap() {
        options = options.serialized_metadata(metadata);
    }
    write(&records(&file), &options)
}

#[test]
fn transposed_files_come_out_byte_by_byte() {
    let plain = WriterOptions::new()
        .compression(Compression::None)
        .chunk_size(1 << 20);
    let brotli = WriterOptions::new().compression(Compression::BROTLI);
    let mut checked = 0;
    for fixture in valid() {
        let options = match fixture.name.as_str() {
            "cpp_transpose_proto_uncompressed.riegeli"
            | "rs_transpose_proto_none.riegeli"
            | "rs_transpose_empty_records.riegeli" => plain.clone(),
            "cpp_transpose_mixed_uncompressed.riegeli" | "rs_transpose_mixed_none.riegeli" => {
                plain.clone().chunk_size(4096)
            }
            "cpp_transpose_proto_brotli6.riegeli" | "rs_transpose_proto_brotli.riegeli" => {
                brotli.clone()
            }
            "rs_transpose_mixed_brotli.riegeli" => brotli.clone().chunk_size(4096),
            _ => continue,
        };
        let written = rewrite(&fixture, &options);
        assert!(
            written == fixture.bytes,
            "{}: {} bytes, not {}",
            fixture.name,
            written.len(),
            fixture.bytes.len()
        );
        checked += 1;
    }
    assert_eq!(checked, 8);
}

#[test]
fn transposed_files_of_every_compression_are_read_back() {
    let mut checked = 0;
    for fixture in valid().iter().filter(|fixture| fixture.has_transposed()) {
        let expected = records(&fixture.open());
        for compression in [
            Compression::None,
            Compression::ZSTD,
            Compression::brotli(3),
            Compression::SNAPPY,
        ] {
            for (chunk_size, bucket_fraction) in [(1, 1.0), (1000, 0.5), (1 << 20, 0.0)] {
                let options = WriterOptions::new()
                    .compression(compression)
                    .chunk_size(chunk_size)
                    .bucket_fraction(bucket_fraction);
                let written = write(&expected, &options);
                let file = RecordFile::open(&written[..], ReaderOptions::new()).unwrap();
                assert!(records(&file) == expected, "{} {options}", fixture.name);
                checked += 1;
            }
        }
    }
    assert!(checked >= 300, "{checked}");
}
