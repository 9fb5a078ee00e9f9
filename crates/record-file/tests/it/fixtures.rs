//! Tests with files written by other implementations.
use std::fs;

use record_file::{ChunkType, ErrorKind, PartKind, ReaderOptions, RecordFile, RecordWriter};

use crate::support::{Fixture, all, dir, sha256, valid};

#[test]
fn every_file_has_a_checksum() {
    let listed: Vec<_> = all().into_iter().map(|fixture| fixture.name).collect();
    let mut there: Vec<_> = fs::read_dir(dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".json") && name != "SHA256SUMS" && name != "README.md")
        .collect();
    there.sort();
    let mut sorted = listed.clone();
    sorted.sort();
    assert_eq!(sorted, there);
    assert_eq!(there.len(), 110);
}

#[test]
fn chunks_are_those_of_the_sidecars() {
    for fixture in valid() {
        let file = fixture.open();
        let chunks: Vec<_> = file.chunks().map(|chunk| chunk.unwrap()).collect();
        let expected = fixture.sidecar["chunks"].as_array().unwrap();
        assert_eq!(chunks.len(), expected.len(), "{}", fixture.name);
        for (chunk, expected) in chunks.iter().zip(expected) {
            let number = |key: &str| expected[key].as_u64().unwrap();
            let header = chunk.header;
            assert_eq!(chunk.begin().0, number("begin"));
            assert_eq!(chunk.end().0, number("end"));
            assert_eq!(header.num_records, number("num_records"));
            assert_eq!(header.data_size, number("data_size"));
            assert_eq!(header.decoded_data_size, number("decoded_data_size"));
            assert_eq!(
                format!("{:016x}", header.data_hash),
                expected["data_hash"].as_str().unwrap()
            );
            assert_eq!(
                char::from(header.kind.byte()).to_string(),
                expected["type"].as_str().unwrap()
            );
            if let Some(compression) = expected["compression"].as_str() {
                let byte = match file.compression(chunk).unwrap().to_string().as_str() {
                    "none" => "00",
                    "zstd" => "7a",
                    "brotli" => "62",
                    _ => "73",
                };
                assert_eq!(byte, compression);
            }
        }
    }
}

#[test]
fn every_byte_of_a_file_belongs_to_a_chunk() {
    let mut fills = 0;
    for fixture in valid() {
        let file = fixture.open();
        let mut position = 0;
        for chunk in file.chunks() {
            let chunk = chunk.unwrap();
            let layout = chunk.layout();
            let mut end = chunk.begin().0;
            for part in chunk.parts() {
                assert!(part.begin == end && part.end > end, "{part:?}");
                end = part.end;
            }
            assert_eq!(end, chunk.end().0);
            let sum = |kind| -> u64 {
                let parts = chunk.parts().filter(|part| part.kind == kind);
                parts.map(|part| part.end - part.begin).sum()
            };
            assert_eq!(sum(PartKind::Header), layout.header);
            assert_eq!(sum(PartKind::BlockHeader), layout.block_headers);
            assert_eq!(sum(PartKind::Data), layout.data);
            assert_eq!(sum(PartKind::Fill), layout.fill);
            assert_eq!(chunk.begin().0, position, "{}", fixture.name);
            position += layout.total();
            assert_eq!(chunk.end().0, position, "{}", fixture.name);
            assert_eq!(layout.data, chunk.header.data_size);
            assert_eq!(layout.block_headers % 24, 0);
            fills += u64::from(layout.fill > 0);
        }
        assert_eq!(position, file.size(), "{}", fixture.name);
    }
    assert!(fills > 0, "some fixture has more records than bytes");
}

#[test]
fn chunks_are_copied_as_they_are_stored() {
    for fixture in valid() {
        let file = fixture.open();
        // This record shifts the block boundaries inside the copied chunks.
        let mut writer = RecordWriter::with_defaults(Vec::new());
        writer.write_record(&[7; 1000]).unwrap();
        writer.flush().unwrap();
        let mut copied = Vec::new();
        for chunk in file.chunks().map(Result::unwrap) {
            if chunk.header.num_records > 0 {
                copied.push((writer.copy_chunk(&file, &chunk).unwrap(), chunk));
            }
        }
        let last = writer.last_position();
        let copy = RecordFile::open(writer.finish().unwrap(), ReaderOptions::new()).unwrap();
        assert_eq!(copy.last_record().unwrap(), last, "{}", fixture.name);
        for (begin, chunk) in copied {
            assert_eq!(copy.chunk_header_at(begin).unwrap().header, chunk.header);
            let (ours, theirs) = (copy.read_chunk(begin), file.read_chunk(chunk.begin()));
            let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
            assert!(ours.records().eq(theirs.records()), "{}", fixture.name);
        }
    }
}

#[test]
fn a_damaged_chunk_is_not_copied() {
    let fixture = all()
        .into_iter()
        .find(|fixture| fixture.name == "bad_flip_data.riegeli")
        .unwrap();
    let file = fixture.open();
    let mut writer = RecordWriter::with_defaults(Vec::new());
    let copied: Vec<_> = file
        .chunks()
        .map_while(Result::ok)
        .filter(|chunk| chunk.header.num_records > 0)
        .map(|chunk| writer.copy_chunk(&file, &chunk))
        .collect();
    let failed = copied
        .iter()
        .find_map(|copied| copied.as_ref().err())
        .unwrap();
    assert_eq!(failed.kind(), ErrorKind::ChecksumMismatch);
    assert_eq!(
        writer.write_record(b"a").unwrap_err().kind(),
        ErrorKind::Closed
    );
}

fn check_records(fixture: &Fixture) {
    let file = fixture.open();
    let name = &fixture.name;
    let mut expected = fixture.records().into_iter();
    // Records after the expected ones are the trailer records that array_record adds.
    let mut trailer = 0;
    for chunk in file.chunks() {
        let chunk = chunk.unwrap();
        let decoded = match chunk.header.kind {
            ChunkType::Simple | ChunkType::Transposed => file.read_chunk(chunk.begin()).unwrap(),
            _ => continue,
        };
        assert_eq!(decoded.len() as u64, chunk.header.num_records);
        for (index, record) in decoded.records().enumerate() {
            let Some(expected) = expected.next() else {
                trailer += 1;
                continue;
            };
            assert_eq!(record.len() as u64, expected.len, "{name} {index}");
            assert_eq!(sha256(record), expected.sha256, "{name} {index}");
            assert_eq!(
                expected.position.chunk_begin(),
                chunk.begin(),
                "{name} {index}"
            );
            assert_eq!(
                expected.position.record_index(),
                index as u64,
                "{name} {index}"
            );
        }
    }
    assert_eq!(expected.next(), None, "{name}");
    assert_eq!(fixture.sidecar["trailer_records"], trailer, "{name}");
}

#[test]
fn records_of_all_chunks() {
    let mut transposed = 0;
    for fixture in valid() {
        check_records(&fixture);
        transposed += u32::from(fixture.has_transposed());
    }
    assert!(transposed > 20, "{transposed}");
}

#[test]
fn metadata_is_that_of_the_sidecars() {
    let mut checked = 0;
    for fixture in valid() {
        let metadata = fixture.open().metadata().unwrap();
        let hex = |bytes: &[u8]| {
            bytes
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        };
        let expected = fixture.sidecar["serialized_metadata_hex"].as_str();
        assert_eq!(
            metadata.as_deref().map(hex).as_deref(),
            expected,
            "{}",
            fixture.name
        );
        checked += u32::from(expected.is_some());
    }
    assert!(checked >= 4, "{checked}");
}

#[test]
fn damaged_files_are_never_read_to_their_end_in_peace() {
    for fixture in all().iter().filter(|fixture| !fixture.is_valid()) {
        let read = || {
            let file = RecordFile::open(&fixture.bytes[..], ReaderOptions::new())?;
            for chunk in file.chunks() {
                let chunk = chunk?;
                file.read_chunk(chunk.begin())?;
            }
            Ok::<_, record_file::Error>(())
        };
        // A file that was truncated between chunks, or to nothing, is valid.
        let fine = ["zero_length", "trunc_at_chunk_boundary"];
        let fine = fine.iter().any(|part| fixture.name.contains(part));
        match read() {
            Ok(()) => assert!(fine, "{}", fixture.name),
            Err(error) => {
                assert!(!fine, "{}: {error}", fixture.name);
                assert!(
                    error.is_corrupt() || error.kind() == ErrorKind::Unsupported,
                    "{}: {error}",
                    fixture.name
                );
                assert!(error.offset().is_some(), "{}: {error}", fixture.name);
            }
        }
    }
}

#[test]
fn last_records_are_found_from_the_end() {
    let trailed = |fixture: &Fixture| fixture.sidecar["trailer_records"] != 0;
    for fixture in valid().into_iter().filter(|fixture| !trailed(fixture)) {
        let file = fixture.open();
        let expected = fixture.records().last().map(|record| record.position);
        assert_eq!(file.last_record().unwrap(), expected, "{}", fixture.name);
    }
}
