//! Fuzz targets for this crate: functions that take arbitrary bytes and check invariants of the
//! results. `/fuzz` runs the targets with libFuzzer, and `fuzzed.rs` runs them with the same inputs
//! each time.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "code of tests"
)]

mod edits;
mod files;
mod text;

use prost_reflect::prost::Message;
use proto_splitter_core::container::{Trailer, TrailerUse};
use proto_splitter_core::merge::{ChunkStore, Limits, Merger, ReadOptions, plan};
use proto_splitter_core::path::FieldPath;
use proto_splitter_core::proto::{ChunkMetadata, ChunkedField, ChunkedMessage};
use proto_splitter_core::view::MessageView;
use proto_splitter_core::{ChunkedFile, Error, ErrorKind};
use record_file::ReadAt;

use crate::merge_support::file::cpb;
use crate::merge_support::random::{Random, fields, place};
use crate::merge_support::schema::descriptor;
use crate::merge_support::{Chunked, len, sample};

/// A function that checks invariants of arbitrary bytes.
pub type Target = fn(&[u8]);

/// All targets, by name.
pub const TARGETS: [(&str, Target); 8] = [
    ("trailer", trailer),
    ("chunks", chunks),
    ("several_files", files::several_files),
    ("trailer_levels", files::trailer_levels),
    ("schema", text::schema),
    ("path", text::path),
    ("message", text::message),
    ("edits", edits::edits),
];

/// Returns low limits, so that exceeding them is noticed.
fn limits() -> Limits {
    Limits::new()
        .max_message_size(1 << 20)
        .max_merged_size(1 << 20)
        .max_trailer_memory(4 << 20)
}

fn options() -> [ReadOptions; 3] {
    let options = ReadOptions::new()
        .limits(limits())
        .threads(std::num::NonZeroUsize::MIN);
    [
        options.clone().descriptor(descriptor()),
        options.clone(),
        options.assume_plain(true),
    ]
}

/// Checks that all ways to merge a file agree, that a file which passes verification can be merged,
/// and that the value at a path equals the value in the merged message.
fn hold<S: ReadAt>(file: &ChunkedFile<S>, paths: &[FieldPath]) {
    let _ = (file.summaries(), file.schema());
    for options in options() {
        let merged = file.merge_to_bytes(&options);
        let mut streamed = Vec::new();
        let streaming = file.merge_to(&mut streamed, &options);
        assert_eq!(
            merged.is_ok(),
            streaming.is_ok(),
            "{merged:?}, {streaming:?}"
        );
        if file.verify(&options).problems().is_empty() {
            // Verification doesn't determine whether a merge needs the type.
            let needs_type = |error: &Error| error.kind() == ErrorKind::SchemaNeeded;
            assert!(
                merged.is_ok() || merged.as_ref().is_err_and(needs_type),
                "verified, but {merged:?}"
            );
        }
        let view = file.view(options.clone());
        let Ok(merged) = merged else {
            for path in paths {
                let _ = view.get(path);
            }
            continue;
        };
        assert!(merged == streamed);
        let merged = merged.to_vec();
        let plain = MessageView::of_plain(&merged, options).unwrap();
        for path in paths {
            match (view.get(path), plain.get(path)) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{path}"),
                (Err(_), Err(_)) => {}
                (found, expected) => {
                    panic!("{path}: {found:?}, in the merged message {expected:?}")
                }
            }
        }
    }
    // If all hashes match the root, each chunk can be read while the root is required.
    if let Ok(Some(root)) = file.trailer().merkle_root() {
        let problems = file.verify_against(&root, &ReadOptions::new());
        let required = file.require_root(&root);
        let read = (0..file.len()).all(|chunk| file.stream(chunk).is_ok());
        if problems.is_ok_and(|problems| problems.is_empty()) {
            required.unwrap();
            assert!(
                read,
                "the root {root} holds, but a chunk can't be read by it"
            );
        }
    }
}

fn paths_of(metadata: &ChunkMetadata) -> Vec<FieldPath> {
    let mut paths = vec![FieldPath::root()];
    let mut left: Vec<_> = [&metadata.message, &metadata.extended_message]
        .into_iter()
        .flatten()
        .map(|message| (FieldPath::root(), message))
        .collect();
    while let Some((base, message)) = left.pop() {
        for field in &message.chunked_fields {
            if let Ok(path) = FieldPath::from_tags(&field.field_tag) {
                let path = base.concat(&path);
                paths.push(path.clone());
                left.extend(field.message.iter().map(|message| (path.clone(), message)));
            }
        }
    }
    paths.truncate(8);
    paths
}

/// Returns the records for trailers that are made from arbitrary bytes.
fn records() -> [Vec<u8>; 4] {
    let content = |seed| fields(&mut Random::of_seed(seed), 2);
    [content(3), content(8), len(8, []), b"12".to_vec()]
}

/// Tests bytes as a trailer, alone and after a few records. The position of each record is
/// corrected, and so is its size unless the claimed size is an odd number, so that most inputs test
/// the content instead of the checks of sizes.
fn trailer(data: &[u8]) {
    let known = Trailer::parse(data, &limits());
    if let Ok(trailer) = &known {
        let again = Trailer::parse(&trailer.metadata().encode_to_vec(), &limits()).unwrap();
        assert_eq!(again.kinds(), trailer.kinds());
        assert_eq!(again.places(), trailer.places());
    }
    let Ok(mut metadata) = ChunkMetadata::decode(data) else {
        return;
    };
    let mut file = Chunked::unmarked();
    for record in records() {
        file.add(1, record);
    }
    for (info, record) in metadata.chunks.iter_mut().zip(&file.chunks) {
        if info.size % 2 == 0 {
            info.size = record.len() as u64;
            info.crc32c = None;
        }
    }
    file.chunks.truncate(metadata.chunks.len());
    file.metadata = metadata;
    if let Ok(file) = ChunkedFile::from_source(cpb(&file), &limits()) {
        hold(&file, &paths_of(file.trailer().metadata()));
    }
}

/// Returns a file of chunks, each with a place in a message. There may be placeholders. Chunks may
/// be unordered, nested, used twice in one place, damaged, or of the wrong kind.
pub fn file_from(random: &mut Random<'_>) -> (Chunked, Vec<FieldPath>) {
    let mut chunked = Chunked::unmarked();
    chunked.metadata.splice_marker = random.below(2) == 1;
    if random.below(8) > 0 {
        chunked = chunked.base(fields(random, 2));
    }
    let mut paths = vec![FieldPath::root()];
    for _ in 0..1 + random.below(5) {
        let (path, is_message) = if random.below(4) == 3 {
            (random.one_of_paths(&paths), random.below(2) == 0)
        } else {
            place(random)
        };
        let mut chunk = if is_message {
            fields(random, 1)
        } else {
            random.one_of(&["", "12", "x", "yz"]).into()
        };
        if random.below(16) == 15 && !chunk.is_empty() {
            let at = usize::try_from(random.below(chunk.len() as u64)).unwrap();
            chunk[at] = random.one_of(&[0, 1, 0x0b, 0x0c, 0x7f, 0x80, 0xff]);
        }
        let kind = if is_message { 1 } else { 2 };
        let index = match random.below(16) {
            15 => random.below(3),
            _ => chunked.add(kind, chunk),
        };
        let field = ChunkedField {
            field_tag: path.to_tags(),
            message: Some(ChunkedMessage {
                chunk_index: Some(index),
                ..Default::default()
            }),
            packed: random.below(16) == 15,
            slice_of: if random.below(16) == 15 { 10 } else { 0 },
            tail: random.below(16) == 15,
            within: random.below(16) == 15,
            elements: if random.below(8) == 7 {
                random.below(9)
            } else {
                0
            },
        };
        chunked.message_mut().chunked_fields.push(field);
        if random.below(4) == 3 && chunked.message_mut().chunked_fields.len() > 1 {
            chunked = chunked.nest(1);
        }
        paths.push(path);
    }
    for _ in 0..random.below(3) {
        paths.push(place(random).0);
    }
    (chunked, paths)
}

impl Random<'_> {
    fn one_of_paths(&mut self, paths: &[FieldPath]) -> FieldPath {
        let at = self.below(paths.len() as u64);
        paths[usize::try_from(at).unwrap()].clone()
    }
}

/// Tests a file [made from](file_from) the bytes, in memory and as a file.
fn chunks(data: &[u8]) {
    let (chunked, paths) = file_from(&mut Random::of_bytes(data));
    for options in options() {
        let whole = Trailer::from_metadata(chunked.metadata.clone(), TrailerUse::Whole, &limits());
        let Ok(trailer) = whole else { return };
        let Ok(plan) = plan(&trailer, &chunked.chunks[..], &options) else {
            continue;
        };
        // The plan covers the output, and stays within the chunks.
        let mut end = 0;
        for span in plan.spans().iter() {
            assert_eq!(span.offset, end);
            end += span.len;
            if let Some((chunk, range)) = span.stored() {
                assert!(range.end <= chunked.chunks[chunk.index()].len() as u64);
            }
        }
        assert_eq!(end, plan.total_len());
        let merged = Merger::new()
            .options(&options)
            .merge(&chunked.chunks, &chunked.metadata)
            .unwrap();
        assert_eq!(merged.len() as u64, end);
    }
    if let Ok(file) = ChunkedFile::from_source(cpb(&chunked), &limits()) {
        hold(&file, &paths);
    }
}

/// Returns the seeds of a target.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let noise = |count: u64, len: usize| -> Vec<Vec<u8>> {
        (0..count)
            .map(|seed| {
                let random = &mut Random::of_seed(seed);
                (0..len)
                    .map(|_| u8::try_from(random.below(256)).unwrap())
                    .collect()
            })
            .collect()
    };
    match target {
        "trailer" => {
            let mut seeds = vec![sample().metadata.encode_to_vec()];
            for seed in 0..40 {
                let (chunked, _) = file_from(&mut Random::of_seed(seed));
                seeds.push(chunked.metadata.encode_to_vec());
            }
            seeds
        }
        "schema" => text::schema_seeds(),
        "path" => text::path_seeds(),
        "edits" => edits::seeds(),
        "message" => (0..40)
            .map(|seed| fields(&mut Random::of_seed(seed), 3))
            .collect(),
        _ => noise(40, 200),
    }
}
