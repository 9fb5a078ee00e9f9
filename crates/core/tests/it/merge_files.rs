//! Tests of merging files: the choice of the file, the bytes read, and the destination.

use std::fs;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use crate::merge_support::file::{ALONE, Counted, Layout, cpb, cpb_with};
use crate::merge_support::schema::{descriptor, text};
use crate::merge_support::{Chunked, cat, int, len};
use proto_splitter_core::container::{ChunkIndex, ChunkKind, ChunkSummary, ChunkedFile};
use proto_splitter_core::merge::{
    ChunkStore, FilePlace, Limits, MergeOptions, Merger, ReadOptions,
};
use proto_splitter_core::path::FieldPath;
use proto_splitter_core::progress::Progress;
use proto_splitter_core::proto::VersionDef;
use proto_splitter_core::{ErrorKind, MergedMessage, MessageOffset, MessageReader};
use record_file::{Compression, ReadAt};

const BIG: usize = 300_000;

fn content(seed: u8) -> Vec<u8> {
    (0..BIG)
        .map(|i| u8::try_from(i % 251).unwrap() ^ seed)
        .collect()
}

fn whole() -> Vec<u8> {
    cat([
        int(1, 1),
        len(8, content(1)),
        len(10, len(8, content(2))),
        len(10, int(1, 3)),
        int(34, 1),
    ])
}

fn sample() -> Chunked {
    let mut chunked = Chunked::marked()
        .base(cat([int(1, 1), len(8, []), len(10, []), int(34, 1)]))
        .bytes("8", content(1))
        .message("10[0]", len(8, []))
        .bytes("10[0].8", content(2))
        .message("", len(10, int(1, 3)));
    let metadata = &mut chunked.metadata;
    metadata.source_size = Some(whole().len() as u64);
    metadata.source_crc32c = Some(crc32c::crc32c(&whole()));
    metadata.byte_exact = true;
    metadata.message_type = "t.T".into();
    for (chunk, info) in chunked.chunks.iter().zip(&mut metadata.chunks) {
        info.crc32c = Some(crc32c::crc32c(chunk));
    }
    chunked
}

#[test]
fn every_door_gives_the_message() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("model");
    for layout in [
        ALONE,
        Layout::Alone(Compression::ZSTD),
        Layout::Together(1 << 20),
        Layout::Together(100_000),
    ] {
        let bytes = cpb_with(&sample(), layout, |_| {});
        fs::write(folder.path().join("model.cpb"), &bytes).unwrap();
        assert_eq!(
            Merger::new().merge_to_bytes(&prefix).unwrap(),
            whole(),
            "{layout:?}"
        );
        assert_eq!(
            Merger::new()
                .merge_to_bytes(folder.path().join("model.cpb"))
                .unwrap(),
            whole()
        );
        let mut out = Vec::new();
        let merged = Merger::new().merge_to(&prefix, &mut out).unwrap();
        assert_eq!(out, whole());
        assert_eq!(merged.size, whole().len() as u64);
        assert_eq!(merged.crc32c, crc32c::crc32c(&whole()));
        assert_eq!(merged.byte_exact, Some(true));
        assert_eq!(merged.message_type.as_deref(), Some("t.T"));
        assert_eq!(merged.input, folder.path().join("model.cpb"));
        let dynamic = Merger::new().read_dynamic(&prefix, descriptor()).unwrap();
        assert_eq!(dynamic.get_field_by_name("u64").unwrap().as_u64(), Some(1));
        // Any type can be read: field 1 of `VersionDef` is an int32, and the other fields are
        // unknown.
        let options = ReadOptions::new();
        let version: VersionDef = Merger::new()
            .options(&options)
            .read_chunked_from_bytes(bytes)
            .unwrap();
        assert_eq!(version.splitter_version, 1);
        assert_eq!(Merger::new().read::<VersionDef>(&prefix).unwrap(), version);
        let target = folder.path().join("out.pb");
        Merger::new()
            .options(MergeOptions::from(options).force(true))
            .merge_to_file(&prefix, &target)
            .unwrap();
        assert_eq!(fs::read(&target).unwrap(), whole());
    }
}

#[test]
fn a_file_that_is_no_message_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let nested = cat([int(1, 1), len(10, b"import os\n")]);
    let deep = cat([len(8, vec![0; 100_000]), b"#!/bin/sh\n".to_vec()]);
    let text = b"import os\n\n\ndef walk(path):\n    return os.walk(path)\n".to_vec();
    let cut = len(8, b"abcdef")[..6].to_vec();
    for (bytes, typed, refused) in [
        (&text, false, Some("an end group tag without a group")),
        (&text, true, Some("an end group tag without a group")),
        (&cut, false, Some("0x0")),
        (&deep, false, Some("at 0x186a4")),
        // The content of a field isn't inspected.
        (&nested, true, None),
        (&nested, false, None),
        (&Vec::new(), true, None),
        (&whole(), true, None),
    ] {
        let (source, target) = (folder.path().join("zoo.py"), folder.path().join("out.pb"));
        fs::write(&source, bytes).unwrap();
        let known = typed.then(descriptor);
        let merger = Merger::new().options(ReadOptions::new().descriptor(known));
        let mut sink = Vec::new();
        let doors = [
            merger.merge_to(&source, &mut sink).map(drop),
            merger.merge_to_bytes(&source).map(drop),
            merger.merge_to_file(&source, &target).map(drop),
        ];
        for door in doors {
            let Some(what) = refused else {
                door.unwrap();
                continue;
            };
            let error = door.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidMessage, "{error}");
            let text = error.to_string();
            assert!(text.contains("zoo.py") && text.contains(what), "{text}");
            assert!(!text.contains('\n'), "{text}");
        }
        let written = refused.is_none();
        assert_eq!(target.exists(), written);
        assert_eq!(sink.len(), if written { bytes.len() } else { 0 });
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 1 + usize::from(written));
        let _ = fs::remove_file(target);
    }
}

#[test]
fn the_chunked_file_wins_and_a_plain_one_is_the_message() {
    let folder = tempfile::tempdir().unwrap();
    let (prefix, plain, chunked) = (
        folder.path().join("model"),
        folder.path().join("model.pb"),
        folder.path().join("model.cpb"),
    );
    let error = Merger::new().merge_to_bytes(&prefix).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    let expected = format!(
        "there is neither {} nor {}",
        chunked.display(),
        plain.display()
    );
    assert_eq!(error.to_string(), expected);
    fs::write(&plain, int(1, 7)).unwrap();
    assert_eq!(Merger::new().merge_to_bytes(&prefix).unwrap(), int(1, 7));
    assert_eq!(Merger::new().merge_to_bytes(&plain).unwrap(), int(1, 7));
    assert_eq!(
        Merger::new()
            .read::<VersionDef>(&prefix)
            .unwrap()
            .splitter_version,
        7
    );
    let mut out = Vec::new();
    let merged = Merger::new().merge_to(&prefix, &mut out).unwrap();
    assert_eq!(
        (out, merged.chunked, merged.byte_exact),
        (int(1, 7), false, None)
    );
    let metadata = sample().metadata;
    let options = ReadOptions::new();
    let error = Merger::new()
        .options(&options)
        .read_partial::<VersionDef>(&prefix, &metadata)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{} is a message in one piece", plain.display())
    );
    fs::write(&chunked, cpb(&sample())).unwrap();
    assert_eq!(Merger::new().merge_to_bytes(&prefix).unwrap(), whole());
    // A damaged chunked file is not skipped in favor of the plain file.
    fs::write(&chunked, "junk").unwrap();
    let error = Merger::new().merge_to_bytes(&prefix).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotChunked);
    assert!(
        error
            .to_string()
            .starts_with(&chunked.display().to_string()),
        "{error}"
    );
}

#[test]
fn a_part_is_what_its_metadata_says() {
    let bytes = cpb(&sample());
    let file = ChunkedFile::from_source(bytes.clone(), &Limits::default()).unwrap();
    let mut metadata = file.trailer().metadata().clone();
    metadata
        .message
        .as_mut()
        .unwrap()
        .chunked_fields
        .retain(|field| field.field_tag.len() == 2);
    let part = ChunkedFile::with_metadata(bytes, metadata, &Limits::default()).unwrap();
    let merged = part.merge_to_bytes(&ReadOptions::new()).unwrap();
    assert_eq!(
        merged,
        cat([int(1, 1), len(8, []), len(10, len(8, [])), int(34, 1)])
    );
}

/// Reads a whole message in pieces of `step` bytes. Unless `ordered` is set, reads the second half
/// first.
fn read_by_position(message: &dyn ReadAt, step: u64, ordered: bool) -> io::Result<()> {
    let size = message.size()?;
    let middle = if ordered { 0 } else { size / 2 };
    for mut range in [middle..size, 0..middle] {
        while !range.is_empty() {
            let len = step.min(range.end - range.start);
            let mut piece = vec![0; usize::try_from(len).unwrap()];
            message.read_exact_at(range.start, &mut piece)?;
            range.start += len;
        }
    }
    Ok(())
}

#[test]
fn every_reader_of_a_whole_message_compares_its_checksum() {
    let (options, root) = (ReadOptions::new(), FieldPath::root());
    let size = whole().len() as u64;
    for layout in [
        ALONE,
        Layout::Alone(Compression::ZSTD),
        Layout::Together(1 << 20),
    ] {
        for (crc32c, is_right) in [(crc32c::crc32c(&whole()), true), (1, false)] {
            let bytes = cpb_with(&sample(), layout, |m| m.source_crc32c = Some(crc32c));
            let file = || ChunkedFile::from_source(bytes.clone(), &Limits::default()).unwrap();
            let opened = || MergedMessage::new(file(), None).unwrap();
            let shared = || {
                let bytes: Arc<dyn ReadAt> = Arc::new(bytes.clone());
                ChunkedFile::from_source(bytes, &Limits::default()).unwrap()
            };
            let check = |way: &str, read: proto_splitter_core::Result<()>| {
                let kind = read.err().map(|error| error.kind());
                let expected = (!is_right).then_some(ErrorKind::ChecksumMismatch);
                assert_eq!(kind, expected, "{way}, {layout:?}");
            };
            for (step, ordered) in [(7000, true), (250_000, true), (90_000, false)] {
                let read = read_by_position(&opened(), step, ordered);
                check("by position", read.map_err(Into::into));
            }
            let mut buffer = whole();
            let places = [(0..size, &mut buffer[..])];
            let meter = Progress::default().meter(size);
            check("in parts", opened().read_parts(places, None, &meter));

            // Omits either each whole chunk or only its first half from the output.
            for share in [1, 2] {
                let message = MessageReader::of_chunks(shared(), None).unwrap();
                let target = tempfile::tempfile().unwrap();
                let mut left: Vec<Range<u64>> = Vec::new();
                let around = message.write_around(&mut io::sink(), &mut |_, range| {
                    let taken = (range.end - range.start) / share;
                    left.push(range.start..range.start + taken);
                    Ok(taken)
                });
                let copied = around.and_then(|()| {
                    let place = |range: &Range<u64>| FilePlace {
                        range: MessageOffset::range(range),
                        file: &target,
                        offset: range.start,
                    };
                    let places: Vec<_> = left.iter().map(place).collect();
                    message.copy_to_files(&places, None, &meter)
                });
                assert!(!left.is_empty());
                check("around whole chunks, and these", copied);
            }

            let (file, view) = (file(), options.clone());
            let view = file.view(view);
            check("a value", view.get(&root).map(drop));
            check("a buffer", view.get_into(&root, &mut buffer).map(drop));
            check("a sink", view.get_to(&root, &mut io::sink()).map(drop));
            // The checksum covers only the whole message, so a part can be read.
            let (part, merged) = (FieldPath::from_str("8").unwrap(), opened());
            assert_eq!(view.get(&part).unwrap(), content(1));
            assert!(merged.read_exact_at(1, &mut vec![0; BIG * 2]).is_ok());
        }
    }
}

#[test]
fn a_file_is_written_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let (prefix, target) = (folder.path().join("model"), folder.path().join("out"));
    let options = ReadOptions::new();
    let wrong = cpb_with(&sample(), ALONE, |m| m.source_crc32c = Some(1));
    fs::write(folder.path().join("model.cpb"), wrong).unwrap();
    let error = Merger::new()
        .options(&options)
        .merge_to_file(&prefix, &target)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        1,
        "nothing is left"
    );
    fs::write(folder.path().join("model.cpb"), cpb(&sample())).unwrap();
    fs::write(&target, "in the way").unwrap();
    let error = Merger::new()
        .options(&options)
        .merge_to_file(&prefix, &target)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&target).unwrap(), b"in the way");
    let input = folder.path().join("model.cpb");
    let options = MergeOptions::from(options).force(true);
    let error = Merger::new()
        .options(&options)
        .merge_to_file(&prefix, &input)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    Merger::new()
        .options(&options)
        .merge_to_file(&prefix, &target)
        .unwrap();
    assert_eq!(fs::read(&target).unwrap(), whole());
}

#[test]
fn a_sink_that_fails_or_takes_little_is_no_trouble() {
    struct Few(Vec<u8>, usize);
    impl Write for Few {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0.len() >= self.1 {
                return Err(io::Error::other("disk on fire"));
            }
            let taken = bytes.len().min(1000);
            self.0.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let file = ChunkedFile::from_source(cpb(&sample()), &Limits::default()).unwrap();
    let mut few = Few(Vec::new(), usize::MAX);
    file.merge_to(&mut few, &ReadOptions::new()).unwrap();
    assert_eq!(few.0, whole());
    for most in [0, 5000, 400_000, 599_000] {
        let error = file
            .merge_to(&mut Few(Vec::new(), most), &ReadOptions::new())
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.to_string().ends_with("disk on fire"), "{error}");
    }
}

#[test]
fn a_plan_reads_no_more_than_the_chunks_that_others_are_spliced_into() {
    let bytes = cpb(&sample());
    let (size, source) = (bytes.len() as u64, Counted::new(bytes));
    let file = ChunkedFile::from_source(&source, &Limits::default()).unwrap();
    let opened = source.take(0..size);
    // Opening reads both ends of the file, each in one read.
    assert!(
        opened <= (64 + 256) << 10,
        "{opened} bytes were read to open it"
    );
    let plan = file.plan(&ReadOptions::new()).unwrap();
    let planned = source.take(0..size);
    assert!(planned < 10_000, "{planned} bytes were read to plan");
    assert_eq!(plan.total_len(), whole().len() as u64);
    file.merge_to(&mut io::sink(), &ReadOptions::new()).unwrap();
    let merged = source.take(0..size);
    assert!(
        merged < size + 20_000,
        "{merged} bytes of {size} were read to merge"
    );
}

#[test]
fn a_chunk_is_read_once_and_its_header_with_it() {
    let large = |at: u8| -> Vec<u8> { content(at).into_iter().cycle().take(200_000).collect() };
    let chunked = (1..7).fold(Chunked::marked().base(int(34, 1)), |chunked, at| {
        chunked.message("", len(10, large(at)))
    });
    let source = Counted::new(cpb(&chunked));
    let file = ChunkedFile::from_source(&source, &Limits::default()).unwrap();
    for chunk in 0..file.len() {
        source.all();
        io::copy(&mut file.stream(chunk).unwrap(), &mut io::sink()).unwrap();
        let mut reads = source.all();
        reads.sort_unstable();
        let overlaps = |pair: &[(u64, usize)]| pair[0].0 + pair[0].1 as u64 > pair[1].0;
        let twice = reads.windows(2).find(|pair| overlaps(pair));
        assert_eq!(twice, None, "chunk {chunk}: {reads:?}");
    }
}

#[test]
fn a_slice_that_says_its_field_is_not_looked_into() {
    let base = cat([len(10, "0"), int(34, 1)]);
    let slices = [len(10, content(1)), len(10, content(2))];
    for said in [0, 10] {
        let chunked = slices
            .iter()
            .fold(Chunked::marked().base(base.clone()), |chunked, slice| {
                chunked.message("", slice.clone()).slice_of(said)
            });
        let bytes = cpb(&chunked);
        let (size, source) = (bytes.len() as u64, Counted::new(bytes));
        let file = ChunkedFile::from_source(&source, &Limits::default()).unwrap();
        source.all();
        let plan = file.plan(&ReadOptions::new()).unwrap();
        let begins = [1, 2].map(|chunk| file.position(chunk).unwrap().chunk_begin().0);
        let read = source.take(begins[0]..size);
        // Reading the base, which comes first, also reads a few bytes of the slices.
        assert_eq!(read < 1000, said == 10, "{read} bytes for a plan");
        assert_eq!(plan.total_len(), (base.len() + 2 * slices[0].len()) as u64);
        let merged = file.merge_to_bytes(&ReadOptions::new()).unwrap();
        let [first, second] = slices.clone();
        assert!(merged == cat([len(10, "0"), first, second, int(34, 1)]));
    }
}

/// Returns a message with `count` elements of `size` bytes. Each element is a chunk with a
/// placeholder for another chunk.
fn nested(count: u8, size: usize) -> (Chunked, Vec<u8>) {
    let inside = |at: u8, value: &[u8]| {
        let large = content(at).into_iter().cycle().take(size);
        cat([len(7, large.collect::<Vec<u8>>()), len(8, value)])
    };
    let mut chunked = Chunked::marked().base(len(10, []).repeat(count.into()));
    let mut expected = Vec::new();
    for at in 0..count {
        chunked = chunked
            .message(&format!("10[{at}]"), inside(at, &[]))
            .bytes(&format!("10[{at}].8"), [at; 50]);
        expected.extend(len(10, inside(at, &[at; 50])));
    }
    (chunked, expected)
}

#[test]
fn a_merge_reads_every_chunk_once_on_any_number_of_threads() {
    let (chunked, expected) = nested(20, 100_000);
    for compression in [Compression::None, Compression::zstd(1)] {
        let bytes = cpb_with(&chunked, Layout::Alone(compression), |_| {});
        let (size, source) = (bytes.len() as u64, Counted::new(bytes));
        let file = ChunkedFile::from_source(&source, &Limits::default()).unwrap();
        for threads in [1, 2, 5] {
            let options = ReadOptions::new().threads(NonZeroUsize::new(threads).unwrap());
            source.all();
            assert!(file.merge_to_bytes(&options).unwrap() == expected);
            let mut streamed = Vec::new();
            file.merge_to(&mut streamed, &options).unwrap();
            assert!(streamed == expected);
            let read = source.take(0..size);
            // For each chunk, the bound includes a header and the surrounding bytes.
            assert!(read < 2 * size + 2 * 41 * 200, "{read} bytes of {size}");
        }
    }
}

#[test]
fn what_is_too_large_or_too_much_to_be_kept_is_merged_all_the_same() {
    // A merge keeps chunks of up to 1 MiB each and 32 MiB in total.
    for (count, size) in [(40, 1_000_000), (3, 1_100_000)] {
        let (chunked, expected) = nested(count, size);
        let bytes = cpb_with(&chunked, Layout::Alone(Compression::zstd(1)), |_| {});
        let file = ChunkedFile::from_source(&bytes, &Limits::default()).unwrap();
        for threads in [1, 3] {
            let options = ReadOptions::new().threads(NonZeroUsize::new(threads).unwrap());
            assert!(file.merge_to_bytes(&options).unwrap() == expected);
            let mut streamed = Vec::new();
            file.merge_to(&mut streamed, &options).unwrap();
            assert!(streamed == expected);
        }
    }
}

#[test]
fn a_damaged_chunk_that_others_are_spliced_into_is_the_error_on_any_number_of_threads() {
    let (chunked, _) = nested(20, 100_000);
    let mut bytes = cpb(&chunked);
    let file = ChunkedFile::from_source(&bytes, &Limits::default()).unwrap();
    let begin = file.position(15).unwrap().chunk_begin().0;
    let at = usize::try_from(begin).unwrap() + 1000;
    bytes[at] ^= 1;
    let file = ChunkedFile::from_source(&bytes, &Limits::default()).unwrap();
    let errors = [1, 2, 5].map(|threads| {
        let options = ReadOptions::new().threads(NonZeroUsize::new(threads).unwrap());
        file.merge_to_bytes(&options).unwrap_err().to_string()
    });
    assert!(errors[0].starts_with("10[7]: chunk 15"), "{}", errors[0]);
    assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
}

#[test]
fn a_damaged_record_header_is_the_error_on_any_number_of_threads_however_many_chunks_there_are() {
    // From 1,024 chunks on, records are checked while the merge is planned.
    for count in [100, 1200] {
        let mut chunked = Chunked::marked().base(len(11, []).repeat(count));
        for at in 0..count {
            chunked = chunked.bytes(&format!("11[{at}]"), [7; 3000]);
        }
        let mut bytes = cpb(&chunked);
        let merge = |bytes: &Vec<u8>, threads| {
            let file = ChunkedFile::from_source(bytes, &Limits::default()).unwrap();
            let options = ReadOptions::new().threads(NonZeroUsize::new(threads).unwrap());
            file.merge_to_bytes(&options)
        };
        let expected = len(11, [7; 3000]).repeat(count);
        assert!(
            [1, 2, 5]
                .iter()
                .all(|&threads| merge(&bytes, threads).unwrap() == expected)
        );
        let file = ChunkedFile::from_source(&bytes, &Limits::default()).unwrap();
        let begin = file.position(count * 2 / 3).unwrap().chunk_begin().0;
        bytes[usize::try_from(begin).unwrap() + 9] ^= 1;
        let errors = [1, 2, 5].map(|threads| merge(&bytes, threads).unwrap_err().to_string());
        assert!(errors[0].starts_with("chunk "), "{}", errors[0]);
        assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
    }
}

#[test]
fn records_that_share_a_record_chunk_are_decoded_once() {
    // A single record chunk has fifty incompressible values of 1000 bytes, and all other records.
    let mut state = 1u64;
    let mut noise = || {
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state.to_be_bytes()[0]
        };
        (0..1000).map(|_| next()).collect::<Vec<u8>>()
    };
    let mut chunked = Chunked::marked().base(len(11, []).repeat(50));
    let mut expected = Vec::new();
    for i in 0..50 {
        let value = noise();
        expected.extend(len(11, &value));
        chunked = chunked.bytes(&format!("11[{i}]"), value);
    }
    let bytes = cpb_with(&chunked, Layout::Together(1 << 20), |_| {});
    let (size, source) = (bytes.len() as u64, Counted::new(bytes));
    let file = ChunkedFile::from_source(&source, &Limits::default()).unwrap();
    let mut out = Vec::new();
    file.merge_to(&mut out, &ReadOptions::new()).unwrap();
    assert_eq!(out, expected);
    let data = file.record_file().chunks().last().unwrap().unwrap();
    assert_eq!(data.header.num_records, 52, "the trailer is in it, too");
    let stored = data.header.data_size;
    let read = source.take(data.begin().0 + 40..size);
    assert!(
        read < stored + stored / 2,
        "{read} bytes were read of {stored}"
    );
    // There are several record chunks, but only one can be cached.
    let bytes = cpb_with(&chunked, Layout::Together(10_000), |_| {});
    let (size, source) = (bytes.len() as u64, Counted::new(bytes));
    let limits = Limits::new().max_cached_size(1);
    let file = ChunkedFile::from_source(&source, &limits).unwrap();
    let mut out = Vec::new();
    file.merge_to(&mut out, &ReadOptions::new()).unwrap();
    assert_eq!(out, expected);
    let read = source.take(0..size);
    assert!(read < size * 2, "{read} bytes were read of {size}");
}

#[test]
fn summaries_say_how_chunks_are_stored() {
    let bytes = cpb(&sample());
    let file = ChunkedFile::from_source(&bytes, &Limits::default()).unwrap();
    let summaries = file.summaries().unwrap();
    assert_eq!(file.len(), 5);
    let paths: Vec<_> = summaries
        .iter()
        .map(|s| s.places[0].path.to_string())
        .collect();
    assert_eq!(paths, ["", "8", "10[0]", "10[0].8", ""]);
    assert_eq!(summaries[1].kind, ChunkKind::Bytes);
    assert_eq!(summaries[1].size, BIG as u64);
    assert!(summaries[1].stored_size.unwrap() > BIG as u64);
    assert_eq!(summaries[1].crc32c, Some(crc32c::crc32c(&content(1))));
    assert!(
        summaries
            .iter()
            .all(|s| s.shared_with.is_empty() && s.stored_size.is_some())
    );

    let bytes = cpb_with(&sample(), Layout::Together(1 << 20), |_| {});
    let file = ChunkedFile::from_source(&bytes, &Limits::default()).unwrap();
    let summaries = file.summaries().unwrap();
    assert!(
        summaries[2]
            .shared_with
            .iter()
            .eq([0, 1, 3, 4].map(ChunkIndex::new))
    );
    assert_eq!(summaries[2].shared_with.len(), 4);
    assert_eq!(summaries[2].stored_size, None);
}

#[test]
fn the_trailer_alone_says_all_of_a_chunk_but_how_it_is_stored() {
    for layout in [ALONE, Layout::Together(1 << 20)] {
        let bytes = cpb_with(&sample(), layout, |_| {});
        let file = ChunkedFile::from_source(&bytes, &Limits::default()).unwrap();
        for (listed, read) in file.listed().iter().zip(file.summaries().unwrap()) {
            let of = |summary: &ChunkSummary| {
                let shared: Vec<_> = summary.shared_with.iter().collect();
                let places: Vec<_> = summary
                    .places
                    .iter()
                    .map(|it| it.path.to_string())
                    .collect();
                let (size, position) = (summary.size, summary.position.numeric());
                (
                    summary.index,
                    places,
                    size,
                    position,
                    summary.crc32c,
                    shared,
                )
            };
            assert_eq!(of(listed), of(&read));
            assert_eq!((listed.stored_size, listed.compression), (None, None));
        }
    }
}

#[test]
fn two_chunks_may_be_one_record() {
    let mut chunked = Chunked::marked()
        .base(cat([len(11, []), len(11, [])]))
        .bytes("11[0]", "same")
        .bytes("11[1]", "same");
    chunked.metadata.byte_exact = false;
    let bytes = cpb_with(&chunked, ALONE, |m| m.chunks[2].offset = m.chunks[1].offset);
    let file = ChunkedFile::from_source(&bytes, &Limits::default()).unwrap();
    assert_eq!(
        file.merge_to_bytes(&ReadOptions::new()).unwrap(),
        cat([len(11, "same"), len(11, "same")])
    );
    let summaries = file.summaries().unwrap();
    assert!(summaries[1].shared_with.iter().eq([ChunkIndex::new(2)]));
    assert_eq!(summaries[1].stored_size, summaries[2].stored_size);
}

#[test]
fn options_for_a_type_of_the_program_know_its_fields() {
    let folder = tempfile::tempdir().unwrap();
    let mut chunked = Chunked::unmarked().base([]).bytes("1", "5");
    chunked.metadata.version = None;
    fs::write(folder.path().join("v.cpb"), cpb(&chunked)).unwrap();
    let prefix = folder.path().join("v");
    let error = Merger::new().read::<VersionDef>(&prefix).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaNeeded);
    let options = ReadOptions::for_message::<VersionDef>();
    let version: VersionDef = Merger::new().options(&options).read(&prefix).unwrap();
    assert_eq!(version.splitter_version, 5);
    assert!(Merger::new().read_dynamic(&prefix, descriptor()).unwrap() == text("i32: 5"));
    // `Debug` for a descriptor recurses endlessly if the type contains itself, but `Debug` for the
    // options doesn't.
    assert!(format!("{:?}", ReadOptions::new().descriptor(descriptor())).contains("t.T"));
}

#[test]
fn a_plan_prints_what_goes_where() {
    let chunked = Chunked::marked()
        .base(cat([int(1, 1), len(9, len(8, [])), int(34, 1)]))
        .bytes("9.8", [7; 200]);
    let file = ChunkedFile::from_source(cpb(&chunked), &Limits::default()).unwrap();
    let plan = file.plan(&ReadOptions::new()).unwrap();
    let expected = "\
        0 chunk 0 0..3\n\
        3 literal cb 01\n\
        5 chunk 0 4..5\n\
        6 literal c8 01\n\
        8 chunk 1 0..200\n\
        208 chunk 0 6..9\n\
        211 bytes\n";
    assert_eq!(plan.to_string(), expected);
    let offsets: Vec<_> = plan.chunk_spans(0).map(|span| span.offset).collect();
    assert_eq!(offsets, [0, 5, 208]);
    assert_eq!(plan.chunk_spans(1).count(), 1);
    assert_eq!(plan.chunk_spans(2).count(), 0);
}

#[test]
fn more_chunks_may_be_in_use_than_are_open_at_once() {
    // Each chunk has three fields, which are interleaved with the fields of other chunks.
    let mut chunked = Chunked::unmarked().base(cat([int(1, 0), len(7, "0"), len(10, [])]));
    let mut parts: [Vec<u8>; 3] = [int(1, 0), len(7, "0"), len(10, [])];
    for i in 1..200u64 {
        let fields = [int(1, i), len(7, i.to_string()), len(10, int(1, i))];
        chunked = chunked.message("", fields.concat());
        for (part, field) in parts.iter_mut().zip(fields) {
            part.extend(field);
        }
    }
    let expected = parts.concat();
    for layout in [
        ALONE,
        Layout::Alone(Compression::ZSTD),
        Layout::Together(1000),
    ] {
        let bytes = cpb_with(&chunked, layout, |_| {});
        let file = ChunkedFile::from_source(bytes, &Limits::default()).unwrap();
        let options = ReadOptions::new().descriptor(descriptor());
        assert_eq!(file.merge_to_bytes(&options).unwrap(), expected);
    }
}
