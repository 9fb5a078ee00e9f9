//! Tests with untrusted files: each kind of damage causes a specific error, and false claims don't
//! use up memory or time.

use crate::merge_support::file::{ALONE, Layout, cpb, cpb_with};
use crate::merge_support::{Chunked, cat, int, len, path, sample};
use prost::Message;
use proto_splitter_core::ErrorKind::{
    self, ChecksumMismatch, InvalidTrailer, LimitExceeded, NotChunked, Record, UnsupportedVersion,
};
use proto_splitter_core::container::{ChunkedFile, Trailer, TrailerUse};
use proto_splitter_core::merge::{Limits, Merger, ReadOptions, plan};
use proto_splitter_core::proto::{
    ChunkMetadata, ChunkedField, ChunkedMessage, FieldIndex, field_index,
};
use record_file::{Compression, RecordWriter};

/// Opens a file and merges it.
fn merge(bytes: Vec<u8>) -> proto_splitter_core::Result<Vec<u8>> {
    let file = ChunkedFile::from_source(bytes, &Limits::default())?;
    file.merge_to_bytes(&ReadOptions::new())
        .map(|bytes| bytes.to_vec())
}

fn records(records: &[&[u8]]) -> Vec<u8> {
    let mut writer = RecordWriter::with_defaults(Vec::new());
    for record in records {
        writer
            .write_record_alone(record, Compression::None)
            .unwrap();
    }
    writer.finish().unwrap()
}

type Patch = fn(&mut ChunkMetadata);

fn field(metadata: &mut ChunkMetadata, at: usize) -> &mut ChunkedField {
    &mut metadata.message.as_mut().unwrap().chunked_fields[at]
}

#[test]
fn the_sample_merges() {
    let expected = cat([int(1, 1), len(8, "value"), len(10, int(1, 2))]);
    assert_eq!(merge(cpb(&sample())).unwrap(), expected);
}

#[test]
fn every_wrong_trailer_has_its_own_error() {
    let cases: &[(&str, Patch, ErrorKind, &str)] = &[
        (
            "index out of range",
            |m| field(m, 0).message.as_mut().unwrap().chunk_index = Some(3),
            InvalidTrailer,
            "8: chunk index 3 is out of range: there are 3 chunks",
        ),
        (
            "index of 64 bits",
            |m| m.message.as_mut().unwrap().chunk_index = Some(u64::MAX),
            InvalidTrailer,
            "chunk index 18446744073709551615 is out of range: there are 3 chunks",
        ),
        (
            "offset between records",
            |m| m.chunks[1].offset += 1,
            InvalidTrailer,
            "chunk 1: no record begins at its offset 114",
        ),
        (
            "offset past the end",
            |m| m.chunks[1].offset = u64::MAX,
            InvalidTrailer,
            "chunk 1: no record begins at its offset 18446744073709551615",
        ),
        (
            "offset of the signature",
            |m| m.chunks[1].offset = 0,
            InvalidTrailer,
            "chunk 1: no record begins at its offset 0",
        ),
        (
            "size too large",
            |m| m.chunks[1].size = 1 << 62,
            InvalidTrailer,
            "chunk 1: the trailer says 4611686018427387904 bytes, where its record has 5",
        ),
        (
            "size too small",
            |m| m.chunks[1].size = 4,
            InvalidTrailer,
            "chunk 1: the trailer says 4 bytes, where its record has 5",
        ),
        (
            "type unset",
            |m| m.chunks[1].r#type = 0,
            InvalidTrailer,
            "chunk 1: type 0 is neither MESSAGE nor BYTES",
        ),
        (
            "type unknown",
            |m| m.chunks[1].r#type = -3,
            InvalidTrailer,
            "chunk 1: type -3 is neither MESSAGE nor BYTES",
        ),
        (
            "type of the other",
            |m| m.chunks[0].r#type = 2,
            InvalidTrailer,
            "chunk 0: a BYTES chunk where the message itself belongs",
        ),
        (
            "children of a value",
            |m| {
                let child = field(m, 1).clone();
                field(m, 0)
                    .message
                    .as_mut()
                    .unwrap()
                    .chunked_fields
                    .push(child);
                m.message.as_mut().unwrap().chunked_fields.pop();
            },
            InvalidTrailer,
            "8: chunk 1: a BYTES chunk with chunked fields below it",
        ),
        (
            "a key where there is no map",
            |m| field(m, 1).field_tag = path("1[\"k\"]").to_tags(),
            InvalidTrailer,
            "1[\"k\"]: no placeholder for chunk 2: no map entry has this key",
        ),
        (
            "an index where nothing is",
            |m| field(m, 1).field_tag = path("10[1]").to_tags(),
            InvalidTrailer,
            "10[1]: no placeholder for chunk 2: index 1 is out of range: the field has 1 elements",
        ),
        (
            "a path into a value",
            |m| field(m, 0).field_tag = path("1.2").to_tags(),
            InvalidTrailer,
            "1: no placeholder for chunk 1: the field does not occur",
        ),
        (
            "two chunks at one placeholder",
            |m| field(m, 1).field_tag = path("8").to_tags(),
            InvalidTrailer,
            "8: chunk 1: a BYTES chunk at the path of MESSAGE chunk 2",
        ),
        (
            "a path that begins with an index",
            |m| {
                field(m, 1).field_tag.remove(0);
            },
            InvalidTrailer,
            "field tag 0: an index or map key that belongs to no field",
        ),
        (
            "an empty tag",
            |m| field(m, 1).field_tag[1] = FieldIndex { kind: None },
            InvalidTrailer,
            "field tag 1: a tag that is neither field, index nor map key",
        ),
        (
            "a key without a type",
            |m| {
                let key = field_index::MapKey { r#type: None };
                field(m, 1).field_tag[1] = FieldIndex {
                    kind: Some(field_index::Kind::MapKey(key)),
                };
            },
            InvalidTrailer,
            "field tag 1: a map key without a type",
        ),
        (
            "field number 0",
            |m| {
                field(m, 0).field_tag[0] = FieldIndex {
                    kind: Some(field_index::Kind::Field(0)),
                }
            },
            InvalidTrailer,
            "field tag 0: 0 is not a field number",
        ),
        (
            "a field without a chunk",
            |m| field(m, 0).message = None,
            InvalidTrailer,
            "8: a chunked field with neither a chunk nor fields below it",
        ),
        (
            "a chunk of no place",
            |m| {
                m.message.as_mut().unwrap().chunked_fields.remove(0);
            },
            InvalidTrailer,
            "chunk 1: no path refers to the chunk",
        ),
        (
            "a chunk in two places",
            |m| field(m, 1).message.as_mut().unwrap().chunk_index = Some(1),
            InvalidTrailer,
            "10[0]: chunk 1: the chunk is used in two places",
        ),
        (
            "a path too long",
            |m| field(m, 0).field_tag = path(&["9"; 101].join(".")).to_tags(),
            LimitExceeded,
            "the path is longer than the maximum depth of 100 steps",
        ),
        (
            "a newer version",
            |m| m.version.as_mut().unwrap().join_version = 2,
            UnsupportedVersion,
            "join version 2 is not known to this reader, which knows 0 to 1",
        ),
        (
            "a negative version",
            |m| m.version.as_mut().unwrap().join_version = -1,
            UnsupportedVersion,
            "join version -1 is not known to this reader, which knows 0 to 1",
        ),
        (
            "barred by a newer writer",
            |m| m.version.as_mut().unwrap().bad_consumers = vec![7, 1],
            UnsupportedVersion,
            "the file says that readers of join version 1 must not read it",
        ),
        (
            "barred by its own version",
            |m| m.version.as_mut().unwrap().bad_consumers = vec![0],
            UnsupportedVersion,
            "the file says that readers of join version 0 must not read it",
        ),
        (
            "an extension of another version",
            |m| m.extended_message = Some(ChunkedMessage::default()),
            InvalidTrailer,
            "an extended message, not allowed in join version 0",
        ),
        (
            "nothing in it",
            |m| m.message = Some(ChunkedMessage::default()),
            InvalidTrailer,
            "the chunked message names no chunk",
        ),
        (
            "no message",
            |m| m.message = None,
            NotChunked,
            "the last record is not a trailer: it has no chunked message at 0xce",
        ),
        (
            "another checksum of a chunk",
            |m| m.chunks[1].crc32c = Some(1),
            ChecksumMismatch,
            "chunk 1: crc32c is e1e00363 where the trailer says 00000001",
        ),
        (
            "another checksum of a chunk that others are spliced into",
            |m| m.chunks[0].crc32c = Some(1),
            ChecksumMismatch,
            "chunk 0: crc32c is fc6b7034 where the trailer says 00000001",
        ),
        (
            "another source: too small",
            |m| m.source_size = Some(12),
            ChecksumMismatch,
            "the merged message has 13 bytes, but the original had 12",
        ),
        (
            "another source: too large, and said to be the same",
            |m| {
                m.source_size = Some(14);
                m.byte_exact = true;
            },
            ChecksumMismatch,
            "the merged message has 13 bytes, but the original had 14",
        ),
        (
            "another source: other bytes",
            |m| {
                m.source_crc32c = Some(1);
                m.byte_exact = true;
            },
            ChecksumMismatch,
            "the merged message has crc32c 1d2129b4, but the original had 00000001",
        ),
    ];
    for (what, patch, kind, expected) in cases {
        let error = merge(cpb_with(&sample(), ALONE, patch)).expect_err(what);
        // The error names a path of a hundred steps in full.
        let found = error.to_string().replace("9.9.", "").replace("9.9: ", "");
        assert_eq!(found, *expected, "{what}");
        assert_eq!(error.kind(), *kind, "{what}");
    }
}

#[test]
fn what_is_no_chunked_file_is_said_to_be_none() {
    let error = |bytes: Vec<u8>| {
        let error = merge(bytes).unwrap_err();
        (error.kind(), error.to_string())
    };
    let no_file = "not a record file: wrong signature";
    assert_eq!(
        error(b"\x0a\x03abc".repeat(30)),
        (NotChunked, no_file.into())
    );
    assert_eq!(
        error(Vec::new()),
        (NotChunked, "the file has no records".into())
    );
    assert_eq!(
        error(records(&[])),
        (NotChunked, "the file has no records".into())
    );
    // TensorFlow accepts an empty record as the trailer of an empty message.
    let no_trailer = "the last record is not a trailer: it has no chunked message at 0x40";
    assert_eq!(error(records(&[b""])), (NotChunked, no_trailer.into()));
    assert_eq!(
        error(records(&[&int(9, 5)])),
        (NotChunked, no_trailer.into())
    );
    let (kind, text) = error(records(&[b"not a message"]));
    assert_eq!(kind, NotChunked);
    assert!(
        text.starts_with("the last record is not a trailer: failed to decode Protobuf message"),
        "{text}"
    );
    // This file has a record after the trailer.
    let mut behind = cpb(&sample());
    behind.extend([0; 10]);
    assert_eq!(error(behind).0, Record);
    // In this file, a chunk claims the position of the trailer.
    let trailer = 0xce;
    let own = cpb_with(&sample(), ALONE, |m| m.chunks[1].offset = trailer);
    assert_eq!(
        error(own),
        (
            InvalidTrailer,
            "chunk 1: its offset 206 is the trailer's".into()
        )
    );
}

#[test]
fn a_file_that_is_cut_anywhere_is_an_error() {
    let bytes = cpb(&sample());
    for len in 0..bytes.len() {
        let error = merge(bytes[..len].to_vec()).expect_err("cut");
        assert!(
            matches!(error.kind(), NotChunked | Record),
            "{len}: {error}"
        );
    }
}

#[test]
fn a_file_with_any_byte_changed_is_an_error() {
    let bytes = cpb(&sample());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x20;
        let error = merge(damaged).expect_err("damaged");
        assert!(matches!(error.kind(), NotChunked | Record), "{at}: {error}");
    }
}

#[test]
fn chunked_messages_nest_only_so_deep() {
    let nested = |depth: usize| {
        let mut chunked = Chunked::marked().base([]);
        let mut message = ChunkedMessage {
            chunk_index: Some(0),
            ..Default::default()
        };
        for _ in 0..depth {
            let field = ChunkedField {
                message: Some(message),
                ..Default::default()
            };
            message = ChunkedMessage {
                chunk_index: None,
                chunked_fields: vec![field],
            };
        }
        chunked.metadata.message = Some(message);
        chunked
    };
    assert_eq!(nested(40).merge().unwrap(), b"");
    let error = nested(60).merge().unwrap_err();
    assert_eq!(error.to_string(), "chunked messages nest deeper than 48");
    assert_eq!(error.kind(), LimitExceeded);
    assert_eq!(merge(cpb(&nested(40))).unwrap(), b"");
    // The parser for trailers also has a limit.
    let error = merge(cpb(&nested(60))).unwrap_err();
    assert!(
        error.to_string().contains("recursion limit reached"),
        "{error}"
    );
}

#[test]
fn groups_nest_only_so_deep() {
    let base = vec![0x0b; 1 << 20];
    let error = Chunked::marked()
        .base(base)
        .bytes("2", "x")
        .merge()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "chunk 0: groups nest deeper than 100 at 0x64"
    );
}

#[test]
fn claims_of_sizes_that_add_up_to_nonsense_are_refused() {
    // Sizes in a file are checked against the records, but nothing checks sizes in the caller's
    // metadata.
    let mut chunked = sample();
    for info in &mut chunked.metadata.chunks[1..] {
        info.size = u64::MAX;
    }
    struct Claims(Vec<bytes::Bytes>, Vec<u64>);
    impl proto_splitter_core::merge::ChunkStore for Claims {
        fn len(&self) -> usize {
            self.0.len()
        }
        fn size(&self, chunk: usize) -> u64 {
            self.1[chunk]
        }
        fn stream(&self, chunk: usize) -> proto_splitter_core::Result<Box<dyn std::io::Read + '_>> {
            Ok(Box::new(&self.0[chunk][..]))
        }
    }
    let sizes = chunked
        .metadata
        .chunks
        .iter()
        .map(|info| info.size)
        .collect();
    let store = Claims(chunked.chunks.clone(), sizes);
    let trailer =
        Trailer::from_metadata(chunked.metadata, TrailerUse::Whole, &Limits::default()).unwrap();
    let error = plan(&trailer, &store, &ReadOptions::new()).unwrap_err();
    assert_eq!(error.kind(), LimitExceeded);
    assert!(
        error
            .to_string()
            .starts_with("the merged message would have"),
        "{error}"
    );
}

#[test]
fn limits_are_what_the_caller_says() {
    let bytes = cpb(&sample());
    let limits = Limits::new().max_trailer_size(10).max_cached_size(10);
    let error = ChunkedFile::from_source(bytes.clone(), &limits).unwrap_err();
    assert_eq!(error.kind(), LimitExceeded);
    let limits = Limits::new().max_message_size(12);
    let file = ChunkedFile::from_source(bytes, &limits).unwrap();
    let error = file
        .merge_to_bytes(&ReadOptions::new().limits(limits))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "a message of 13 bytes doesn't fit in memory; the largest: 8 5 B, 10[0] 2 B"
    );
}

#[test]
fn sizes_of_records_that_share_a_record_chunk_are_checked_when_they_are_read() {
    let together = Layout::Together(1 << 20);
    let bytes = cpb_with(&sample(), together, |_| {});
    assert!(merge(bytes).is_ok());
    let bytes = cpb_with(&sample(), together, |m| m.chunks[1].size = 4);
    let error = merge(bytes).unwrap_err();
    assert_eq!(
        error.to_string(),
        "chunk 1: the trailer says 4 bytes, where its record has 5"
    );
    let bytes = cpb_with(&sample(), together, |m| m.chunks[1].size = 1 << 62);
    let error = merge(bytes).unwrap_err();
    assert!(error.to_string().starts_with(
        "chunk 1: the trailer says 4611686018427387904 bytes, where all records there have"
    ));
}

#[test]
fn junk_that_parses_never_panics() {
    // Each round replaces one to four bytes of the trailer. The noise is the same in every run.
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let valid = sample().metadata.encode_to_vec();
    for round in 0..3000 {
        let mut trailer = valid.clone();
        for _ in 0..1 + round % 4 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let at = usize::try_from(state % trailer.len() as u64).unwrap();
            trailer[at] = u8::try_from(state >> 56).unwrap();
        }
        if let Ok(trailer) = Trailer::parse(&trailer, &Limits::default()) {
            let _ = plan(&trailer, &sample().chunks[..], &ReadOptions::new());
        }
    }
}

#[test]
fn many_entries_with_one_key_and_many_paths_into_it_are_planned_at_once() {
    let entry = len(1, len(1, "k"));
    let mut chunked = Chunked::unmarked().base(entry.repeat(200_000));
    for number in 1..=18_000 {
        chunked = chunked.bytes(&format!("1[\"k\"].{number}"), "");
    }
    let options = ReadOptions::new();
    let error = chunked.merge_with(&options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaNeeded, "{error}");
    let merged = chunked.merge_with(&options.assume_plain(true)).unwrap();
    let values = (1..=18_000).flat_map(|number| len(number, ""));
    let last = cat([len(1, "k"), len(2, values.collect::<Vec<_>>())]);
    assert!(merged == [entry.repeat(199_999), len(1, last)].concat());
}

#[test]
fn many_values_that_are_put_in_are_planned_at_once() {
    let mut chunked = Chunked::unmarked().base([]);
    for number in 1..=200_000 {
        chunked = chunked.bytes(&number.to_string(), "");
    }
    let merged = chunked.merge_with(&ReadOptions::new().assume_plain(true));
    let expected: Vec<u8> = (1..=200_000).flat_map(|number| len(number, "")).collect();
    assert!(merged.unwrap() == expected);
}

#[test]
fn fewer_or_more_chunks_than_the_metadata_has_are_refused() {
    let Chunked { chunks, metadata } = sample();
    let more = [&chunks[..], &[bytes::Bytes::new()]].concat();
    for given in [&[][..], &chunks[..1], &more[..]] {
        let error = Merger::new().merge(given, &metadata).unwrap_err();
        let (given, expected) = (given.len(), chunks.len());
        assert_eq!(error.kind(), InvalidTrailer);
        assert_eq!(
            error.to_string(),
            format!("{given} chunks, where the trailer has {expected}")
        );
    }
}
