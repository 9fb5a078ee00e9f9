//! Fuzz targets for sets of several files, and for trailers that are themselves in chunks.

use prost_reflect::prost::Message;
use proto_splitter_core::proto::chunk_metadata::ExternalFile;
use proto_splitter_core::proto::{ChunkInfo, ChunkMetadata, ChunkedMessage, VersionDef};
use proto_splitter_core::{ChunkedFile, Error, ErrorKind};
use record_file::{Compression, RecordWriter, WriterOptions};

use super::{file_from, hold, limits};
use crate::merge_support::random::Random;
use crate::merge_support::{Chunked, cat, int, len};

/// Returns a record file, and the positions of its records.
fn record_file(records: &[&[u8]]) -> (Vec<u8>, Vec<u64>) {
    let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
    let write = |record: &&[u8]| {
        let position = writer.write_record_alone(record, Compression::None);
        position.unwrap().numeric()
    };
    let positions = records.iter().map(write).collect();
    (writer.finish().unwrap(), positions)
}

/// Tests chunks in up to three other files, whose trailers and names may be false, and whose bytes
/// may be damaged or belong to another file.
pub(super) fn several_files(data: &[u8]) {
    let random = &mut Random::of_bytes(data);
    let (mut chunked, paths) = file_from(random);
    let count = 1 + random.below(3);
    let metadata = &mut chunked.metadata;
    metadata.version.as_mut().unwrap().join_version = 1;
    metadata.extended_message = metadata.message.take();
    for info in &mut metadata.chunks {
        info.file = u32::try_from(random.below(count + 1)).unwrap();
    }
    let mut parts = Vec::new();
    for number in 1..=count {
        let own: Vec<usize> = (0..chunked.chunks.len())
            .filter(|&at| u64::from(metadata.chunks[at].file) == number)
            .collect();
        let bytes: Vec<&[u8]> = own.iter().map(|&at| &chunked.chunks[at][..]).collect();
        let (_, positions) = record_file(&bytes);
        let mut part = ChunkMetadata {
            is_part: random.below(16) < 15,
            version: metadata.version.clone(),
            ..Default::default()
        };
        for (&at, offset) in own.iter().zip(positions) {
            metadata.chunks[at].offset = offset;
            part.chunks.push(ChunkInfo {
                crc32c: Some(crc32c::crc32c(&chunked.chunks[at])),
                ..metadata.chunks[at]
            });
        }
        let last = part.encode_to_vec();
        let (mut file, _) = record_file(&[&bytes[..], &[&last[..]]].concat());
        if random.below(8) == 7 {
            let at = usize::try_from(random.below(file.len() as u64)).unwrap();
            file[at] ^= 1;
        }
        metadata.files.push(ExternalFile {
            path: format!("{}{number}.cpb", random.one_of(&["", "m.", "a/"])),
            size: file.len() as u64 - u64::from(random.below(16) == 15),
            trailer_crc32c: crc32c::crc32c(&last) ^ u32::from(random.below(16) == 15),
        });
        parts.push(file);
    }
    if random.below(8) == 7 {
        parts.reverse();
    }
    let own: Vec<usize> = (0..chunked.chunks.len())
        .filter(|&at| metadata.chunks[at].file == 0)
        .collect();
    let bytes: Vec<&[u8]> = own.iter().map(|&at| &chunked.chunks[at][..]).collect();
    let (_, positions) = record_file(&bytes);
    for (&at, offset) in own.iter().zip(positions) {
        metadata.chunks[at].offset = offset + u64::from(random.below(16) == 15);
    }
    let last = metadata.encode_to_vec();
    let (file, _) = record_file(&[&bytes[..], &[&last[..]]].concat());
    let opened = ChunkedFile::from_sources(file, &limits(), |named: &ExternalFile| {
        let number = named
            .path
            .trim_end_matches(".cpb")
            .rsplit(['.', '/'])
            .next();
        let number = number.and_then(|number| number.parse::<usize>().ok());
        let part = number.and_then(|number| parts.get(number.checked_sub(1)?));
        part.cloned()
            .ok_or_else(|| Error::new(ErrorKind::InvalidConfig, "no such file"))
    });
    if let Ok(file) = opened {
        hold(&file, &paths);
    }
}

/// Tests a trailer that is chunked repeatedly. At each level, the level's number, the chunks'
/// positions and the bytes may be false.
pub(super) fn trailer_levels(data: &[u8]) {
    let random = &mut Random::of_bytes(data);
    let mut inner = Chunked::marked()
        .base(cat([int(1, 1), len(8, [])]))
        .bytes("8", "value")
        .metadata;
    inner.version = version();
    inner.extended_message = inner.message.take();
    let mut records: Vec<Vec<u8>> = vec![cat([int(1, 1), len(8, [])]), b"value".to_vec()];
    // The records come first, so that their positions are known before they are referenced.
    let (_, mut positions) = record_file(&borrowed(&records));
    for (info, position) in inner.chunks.iter_mut().zip(&positions) {
        info.offset = *position;
    }
    let levels = random.below(12);
    for level in 1..=levels {
        let chunk = inner.encode_to_vec();
        records.push(chunk.clone());
        positions = record_file(&borrowed(&records)).1;
        let own = positions.last().copied().unwrap();
        let lie = random.below(16) == 15;
        inner = ChunkMetadata {
            version: version(),
            chunks: vec![ChunkInfo {
                r#type: 1,
                size: chunk.len() as u64 + u64::from(random.below(16) == 15),
                offset: if random.below(16) == 15 {
                    positions[0]
                } else {
                    own
                },
                ..Default::default()
            }],
            extended_message: Some(ChunkedMessage {
                chunk_index: Some(0),
                ..Default::default()
            }),
            splice_marker: true,
            trailer_level: u32::try_from(level + u64::from(lie)).unwrap(),
            ..Default::default()
        };
    }
    records.push(inner.encode_to_vec());
    let (file, _) = record_file(&borrowed(&records));
    if let Ok(file) = ChunkedFile::from_source(file, &limits()) {
        assert!(levels <= 8, "{levels}");
        hold(&file, &["8".parse().unwrap()]);
    }
}

fn version() -> Option<VersionDef> {
    Some(VersionDef {
        splitter_version: 1,
        join_version: 1,
        ..Default::default()
    })
}

fn borrowed(records: &[Vec<u8>]) -> Vec<&[u8]> {
    records.iter().map(Vec::as_slice).collect()
}
