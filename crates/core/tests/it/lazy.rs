//! Tests of reading the value at a path without reading more than necessary.

use std::collections::HashSet;
use std::io;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::thread::ThreadId;
use std::time::Duration;

use crate::merge_support::file::{ALONE, Counted, Layout, cpb, cpb_with};
use crate::merge_support::schema::descriptor;
use crate::merge_support::{Chunked, cat, entry, fixed32, group, int, len, path};
use prost_reflect::ReflectMessage;
use proto_splitter_core::ChunkIndex;
use proto_splitter_core::ErrorKind::{
    self, InvalidConfig, InvalidMessage, InvalidPath, SchemaNeeded,
};
use proto_splitter_core::container::ChunkedFile;
use proto_splitter_core::merge::{ChunkStore, Limits, ReadOptions};
use proto_splitter_core::path::FieldPath;
use proto_splitter_core::split::{SizeSplitter, Source, SplitExt, SplitOptions};
use proto_splitter_core::view::{Fields, MessageView};
use record_file::{Compression, ReadAt};

const BIG: usize = 600_000;

fn typed() -> ReadOptions {
    ReadOptions::new().descriptor(descriptor())
}

fn big(seed: u8) -> Vec<u8> {
    (0..BIG)
        .map(|i| u8::try_from(i % 251).unwrap() ^ seed)
        .collect()
}

/// Returns a chunked message with everything that complicates reading a part of it: placeholders of
/// every kind, slices, paths into slices, values in pieces, groups and maps.
fn sample() -> Chunked {
    let base = cat([
        int(1, 150),
        len(8, []),
        len(9, int(1, 1)),
        len(10, []),
        len(10, cat([int(1, 7), len(8, "here")])),
        entry(13, "a", len(2, [])),
        entry(13, "b", len(2, len(7, "inline"))),
        group(33, len(8, [])),
        fixed32(35, 9),
        len(9, len(8, [])),
    ]);
    Chunked::marked()
        .base(base)
        .bytes("8", big(1))
        .bytes("9.8", big(2))
        .message("10[0]", cat([int(1, 5), len(8, []), len(7, "in a chunk")]))
        .bytes("10[0].8", big(3))
        .message("", cat([len(10, int(1, 3)), len(10, len(8, []))]))
        .bytes("10[3].8", big(4))
        .message("13[\"a\"]", cat([len(8, []), int(1, 2)]))
        .bytes("13[\"a\"].8", big(5))
        .bytes("33.8", big(6))
}

fn unmarked() -> Chunked {
    Chunked::unmarked()
        .base(cat([int(1, 1), len(10, int(1, 7)), int(34, 1)]))
        .bytes("8", big(1))
        .bytes("9.8", big(2))
        .message("10[1]", int(1, 5))
        .bytes("10[1].8", big(3))
        .bytes("14[-1i32].7", "text")
        .bytes("36", "-12")
}

fn open(bytes: Vec<u8>) -> ChunkedFile<Vec<u8>> {
    ChunkedFile::from_source(bytes, &Limits::default()).unwrap()
}

#[test]
fn a_part_is_the_same_in_chunks_and_in_one_piece() {
    let paths = [
        "",
        "1",
        "8",
        "9",
        "9.1",
        "9.8",
        "10[0]",
        "10[0].1",
        "10[0].7",
        "10[0].8",
        "10[1]",
        "10[1].8",
        "10[2].1",
        "10[3]",
        "10[3].8",
        "13[\"a\"]",
        "13[\"a\"].8",
        "13[\"a\"].1",
        "13[\"b\"]",
        "13[\"b\"].7",
        "33",
        "33.8",
        "35",
    ];
    let whole = sample().merge().unwrap();
    for layout in [
        ALONE,
        Layout::Alone(Compression::ZSTD),
        Layout::Together(1 << 20),
    ] {
        let file = open(cpb_with(&sample(), layout, |_| {}));
        for at in paths {
            let plain = MessageView::of_plain(&whole, typed()).unwrap();
            let wanted = plain.get(&path(at)).unwrap();
            let view = file.view(typed());
            assert_eq!(view.get(&path(at)).unwrap(), wanted, "{at}");
            assert_eq!(view.size(&path(at)).unwrap(), Some(wanted.len() as u64));
            let untyped = file.get(&path(at));
            match at {
                // Field 9 is in two pieces, so reading it needs the type.
                "9" => assert_eq!(untyped.unwrap_err().kind(), SchemaNeeded),
                _ => assert_eq!(untyped.unwrap(), wanted, "{at}"),
            }
            let (mut buffer, mut sink) = (vec![0; whole.len()], Vec::new());
            if at != "9" {
                let len = file.get_into(&path(at), &mut buffer).unwrap();
                assert_eq!(buffer[..len], wanted, "{at}");
            }
            let len = view.get_into(&path(at), &mut buffer).unwrap();
            assert_eq!(buffer[..len], wanted);
            assert_eq!(view.get_to(&path(at), &mut sink).unwrap(), len as u64);
            assert_eq!(sink, wanted);
        }
    }
    let plain = MessageView::of_plain(&whole, typed()).unwrap();
    let file = open(cpb_with(&sample(), ALONE, |_| {}));
    let sizes =
        |fields: Fields<'_>| -> Vec<u64> { fields.map(|field| field.unwrap().size).collect() };
    let below = sizes(file.fields(&path("10[3]")).unwrap());
    assert_eq!(below, sizes(plain.fields(&path("10[3]")).unwrap()));
    assert!(below.contains(&(big(4).len() as u64)));
    assert_eq!(plain.get(&path("")).unwrap(), whole);
    assert_eq!(plain.get(&path("10[3].8")).unwrap(), big(4));
    assert_eq!(
        plain.get(&path("9")).unwrap(),
        cat([int(1, 1), len(8, big(2))])
    );
    assert_eq!(plain.get(&path("1")).unwrap()[..], [0x96, 1]);
}

#[test]
fn a_file_of_another_writer_needs_its_type() {
    let whole = unmarked().merge_with(&typed()).unwrap();
    let plain = MessageView::of_plain(&whole, typed()).unwrap();
    let file = open(cpb(&unmarked()));
    for at in [
        "1",
        "8",
        "9",
        "9.8",
        "10[0].1",
        "10[1].8",
        "14[-1i32].7",
        "36",
        "34",
    ] {
        let wanted = plain.get(&path(at)).unwrap();
        assert_eq!(file.view(typed()).get(&path(at)).unwrap(), wanted, "{at}");
    }
    assert_eq!(file.get(&path("8")).unwrap_err().kind(), SchemaNeeded);
    // No value along this path depends on the type.
    assert_eq!(file.get(&path("10[0].1")).unwrap()[..], [7]);
}

#[test]
fn no_chunk_beside_the_path_is_read() {
    let source = Counted::new(cpb(&sample()));
    let file = ChunkedFile::from_source(&source, &Limits::default()).unwrap();
    let size = file.record_file().size();
    let read_for = |at: &str| {
        source.take(0..size);
        file.get(&path(at)).unwrap();
        let infos = &file.trailer().metadata().chunks;
        let reads = source.all();
        let read: u64 = reads.iter().map(|(_, len)| *len as u64).sum();
        // A large chunk counts as read only if a read reaches 200 bytes into it: reads of its
        // headers also return a few bytes after them.
        let large = (0..file.len()).filter(|&chunk| infos[chunk].size == BIG as u64);
        let touched: Vec<usize> = large
            .filter(|&chunk| {
                let data = infos[chunk].offset + 1..infos[chunk].offset + BIG as u64;
                // The header of a block is read to find the record chunks that begin in the block.
                const BLOCK_HEADER: usize = 24;
                let begins = |(start, len): &(u64, usize)| {
                    *len > BLOCK_HEADER
                        && *start < data.end
                        && start + *len as u64 > data.start + 200
                };
                reads.iter().any(begins)
            })
            .collect();
        (touched, read)
    };
    let (touched, read) = read_for("1");
    assert_eq!(touched, [0; 0]);
    assert!(read < 10_000, "{read}");
    for (at, chunk) in [("8", 1), ("10[0].8", 4), ("10[3].8", 6), ("13[\"a\"].8", 8)] {
        let (touched, read) = read_for(at);
        assert_eq!(touched, [chunk], "{at}");
        // Small chunks are inspected as a whole before they are copied.
        assert!(read < 2 * BIG as u64 + 50_000, "{at}: {read}");
    }
    let none = [0; 0];
    assert_eq!(
        read_for("10[0].7").0,
        none,
        "behind a value that is beside the path"
    );
}

#[test]
fn a_plain_message_is_hopped_through() {
    let whole = sample().merge().unwrap();
    let source = Counted::new(whole.clone());
    let view = MessageView::of_plain(&source, typed()).unwrap();
    assert_eq!(view.get(&path("10[2].1")).unwrap()[..], [3]);
    let read = source.take(0..whole.len() as u64);
    assert!(read < 100_000, "{read}");
}

#[test]
fn what_lies_under_a_path_is_listed() {
    let file = open(cpb(&sample()));
    let list = |options: ReadOptions, at: &str| -> Vec<(String, u64)> {
        let fields = file.view(options).fields(&path(at)).unwrap();
        let shown = fields.map(|field| {
            let field = field.unwrap();
            let path = FieldPath::from_iter([field.step]);
            (path.to_string(), field.size)
        });
        shown.collect()
    };
    let big = BIG as u64;
    let inner = [("1".into(), 1), ("8".into(), big), ("7".into(), 10)];
    assert_eq!(list(typed(), "10[0]"), inner);
    assert_eq!(list(ReadOptions::new(), "10[0]"), inner);
    let names: Vec<String> = list(typed(), "")
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        names,
        [
            "1",
            "8",
            "9",
            "10[0]",
            "10[1]",
            "10[2]",
            "10[3]",
            "13[\"a\"]",
            "13[\"b\"]",
            "33",
            "35",
            "9"
        ]
    );
    assert_eq!(list(typed(), "9"), [("1".into(), 1), ("8".into(), big)]);
}

#[test]
fn a_part_is_a_message_of_its_type() {
    let file = open(cpb(&sample()));
    let view = file.view(typed());
    let message = view.message_dynamic(&path("10[2]")).unwrap();
    assert_eq!(message.descriptor(), descriptor());
    assert_eq!(message.get_field_by_number(1).unwrap().as_i32(), Some(3));
    let timestamp: prost_reflect::prost_types::Timestamp = view.message(&path("10[2]")).unwrap();
    assert_eq!(timestamp.seconds, 3);
    let error = view.message::<prost_reflect::prost_types::Timestamp>(&path("8"));
    assert_eq!(error.unwrap_err().kind(), InvalidMessage);
}

#[test]
fn the_last_of_a_value_counts_and_another_member_of_its_oneof_ends_it() {
    let whole = cat([len(7, "a"), len(31, "b"), len(7, "c"), len(30, int(1, 1))]);
    let view = MessageView::of_plain(&whole, typed()).unwrap();
    assert_eq!(view.get(&path("7")).unwrap(), "c");
    assert_eq!(view.size(&path("31")).unwrap(), None);
    assert_eq!(view.size(&path("30.1")).unwrap(), Some(1));
    let entries = cat([entry(13, "k", len(2, int(1, 1))), entry(13, "k", vec![])]);
    let view = MessageView::of_plain(&entries, typed()).unwrap();
    assert_eq!(view.size(&path("13[\"k\"]")).unwrap(), None);
}

#[test]
fn an_entry_has_the_last_of_its_keys_however_large_it_is() {
    let value = |size: usize| len(2, len(7, vec![7; size]));
    for size in [1, 100, 1000, BIG] {
        for (keys, at) in [
            (cat([len(1, "a"), len(1, "b"), value(size)]), "b"),
            (cat([len(1, "a"), value(size), len(1, "b")]), "b"),
            (cat([value(size), len(1, "b")]), "b"),
            (
                cat([len(1, "a"), len(1, "c"), value(size), len(1, "b")]),
                "b",
            ),
            // More bytes precede the key than fit in the window for skipping.
            (
                cat([group(9, len(8, vec![1; size])), len(1, "b"), value(size)]),
                "b",
            ),
            // Field 1 in this entry doesn't have the key's type, so it is an unknown field.
            (cat([len(1, "b"), value(size), int(1, 1)]), "b"),
            (cat([int(1, 1), value(size)]), ""),
            (value(size), ""),
        ] {
            let whole = cat([entry(13, "x", value(1)), len(13, keys)]);
            let source = Counted::new(whole);
            let view = MessageView::of_plain(&source, typed()).unwrap();
            let at = format!("13[{at:?}]");
            assert_eq!(
                view.size(&path(&format!("{at}.7"))).unwrap(),
                Some(size as u64),
                "{at}"
            );
            assert_eq!(view.size(&path("13[\"a\"]")).unwrap(), None, "{at}");
            let last = view.fields(&path("")).unwrap().last().unwrap().unwrap();
            assert_eq!(FieldPath::from_iter([last.step]).to_string(), at);
        }
    }
    let long = len(13, cat([len(1, vec![b'k'; 70_000]), value(1)]));
    let view = MessageView::of_plain(&long, typed()).unwrap();
    let error = view.size(&path("13[\"a\"]")).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string()),
        (
            ErrorKind::LimitExceeded,
            "ms[\"a\"]: the map key has 70000 bytes, more than the maximum of 65536, at 0x8".into()
        )
    );
}

#[test]
fn a_path_that_leads_nowhere_says_so() {
    let file = open(cpb(&sample()));
    let view = file.view(typed());
    let fails = |at: &str, kind: ErrorKind, message: &str| {
        let error = view.get(&path(at)).unwrap_err();
        assert_eq!((error.kind(), error.to_string()), (kind, message.into()));
    };
    fails(
        "10[4]",
        InvalidPath,
        "r[4]: the message has no such value: r has 4 elements, counted from 0",
    );
    fails(
        "13[\"c\"].8",
        InvalidPath,
        "ms[\"c\"].y: the message has no such value",
    );
    fails(
        "10",
        InvalidPath,
        "r: the path leads to a whole repeated field or map: add an index or key",
    );
    fails("999", InvalidPath, "999: field 999 not found in t.T");
    fails(
        "12[0]",
        InvalidPath,
        "ri[0]: the message has no such value: ri has 0 elements, counted from 0",
    );
    let error = file.get(&path("10")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "10: chunks of the file are at 10[0] of this field: add the index or key to the path"
    );
    let error = view.get_into(&path("8"), &mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), InvalidConfig);
    assert_eq!(
        error.to_string(),
        "y: the buffer has 10 bytes, but the value has 600000"
    );
    let error = file.get(&path("1.1")).unwrap_err();
    assert_eq!(error.kind(), InvalidPath);
}

#[test]
fn what_is_read_is_checked() {
    let mut chunked = sample();
    for (chunk, info) in chunked.chunks.iter().zip(&mut chunked.metadata.chunks) {
        info.crc32c = Some(crc32c::crc32c(chunk));
    }
    chunked.metadata.chunks[4].crc32c = Some(1);
    let file = open(cpb(&chunked));
    let error = file.get(&path("10[0].8")).unwrap_err();
    assert_eq!(
        (error.kind(), error.chunk()),
        (ErrorKind::ChecksumMismatch, Some(ChunkIndex::new(4)))
    );
    assert!(file.get(&path("10[3].8")).is_ok());
}

/// A source that records the threads that read it.
struct Watched {
    bytes: Vec<u8>,
    threads: Mutex<HashSet<ThreadId>>,
}

impl ReadAt for Watched {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.threads
            .lock()
            .unwrap()
            .insert(std::thread::current().id());
        // The pause gives other threads a chance to run.
        std::thread::sleep(Duration::from_micros(200));
        self.bytes.read_at(offset, buffer)
    }

    fn size(&self) -> io::Result<u64> {
        self.bytes.size()
    }
}

#[test]
fn opening_with_many_chunks_keeps_to_the_thread_limit() {
    let message: Vec<u8> = (0..6000u32)
        .flat_map(|at| len(37, [7; 100].map(|b| b ^ at.to_le_bytes()[0])))
        .collect();
    let options = SplitOptions::new()
        .max_chunk_size(200)
        .compression(Compression::None);
    let source = Source::from_bytes(message, descriptor());
    let mut bytes = Vec::new();
    SizeSplitter
        .write_to_with(&source, &mut bytes, &options)
        .unwrap();
    for threads in 1..=3 {
        let watched = Watched {
            bytes: bytes.clone(),
            threads: Mutex::default(),
        };
        let file = ChunkedFile::from_source(watched, &Limits::new()).unwrap();
        assert!(file.len() > 5000);
        file.prepare(NonZeroUsize::new(threads).unwrap()).unwrap();
        let source = file.record_file().get_ref().get_ref().unwrap();
        let seen = source.threads.lock().unwrap().len();
        assert!((1..=threads).contains(&seen), "{seen} of {threads}");
    }
}
