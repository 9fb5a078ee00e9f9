use std::fs::{self, File};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use proto_splitter::path::{FieldPath, Step};
use proto_splitter::record_file::ReadAt;
use proto_splitter::split::{
    AddedChunk, ComposableSplitter, SizeSplitter, Source, SplitContext, SplitExt, SplitOptions,
};
use proto_splitter::{ErrorKind, Result, SAVED_MODEL, SavedModelSplitter};
use proto_splitter_testkit::generate::kitchen_sink;

use crate::fixtures::{data, descriptor};

fn options() -> SplitOptions {
    SplitOptions::new()
        .max_chunk_size(40)
        .value_chunk_size(None)
}

#[test]
fn malformed_sources_are_refused_where_they_are_and_nothing_is_written() {
    let filler = [b"\x3a\x20".as_slice(), &[b'f'; 32]].concat();
    let table: &[(&str, &[u8], ErrorKind, &str)] = &[
        (
            "a length past the end of the message",
            b"\x12\x7fabc",
            ErrorKind::InvalidMessage,
            "field 2: 127 bytes run past the end of the message, which has 3 more at 0x44",
        ),
        (
            "a length past the end of its parent",
            b"\x22\x30\x3a\x2caaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\x12\x09",
            ErrorKind::InvalidMessage,
            "child: field 2: 9 bytes run past the end of the message, which has 0 more at 0x74",
        ),
        (
            "a group without its end",
            b"\xb3\x01\x0a\x01x",
            ErrorKind::InvalidMessage,
            "group 22 has no end tag at 0x44",
        ),
        (
            "an end without its group",
            b"\xb4\x01",
            ErrorKind::InvalidMessage,
            "an end group tag without a group at 0x44",
        ),
        (
            "a group that ends as another",
            b"\xb3\x01\xbc\x01",
            ErrorKind::InvalidMessage,
            "group 22 is closed by the end tag of group 23 at 0x46",
        ),
        (
            "half a tag",
            b"\xff",
            ErrorKind::InvalidMessage,
            "tag is truncated or too long at 0x44",
        ),
        (
            "no tag",
            b"\x06\x00",
            ErrorKind::InvalidMessage,
            "6 is not a tag at 0x44",
        ),
        (
            "half a varint",
            b"\x08\xff",
            ErrorKind::InvalidMessage,
            "varint is truncated or too long at 0x45",
        ),
    ];
    for (what, bytes, kind, message) in table {
        let folder = tempfile::tempdir().unwrap();
        let bytes = [&filler, &filler, *bytes].concat();
        let source = Source::from_bytes(bytes, kitchen_sink());
        let error = SizeSplitter
            .write_with(source, folder.path().join("out"), &options())
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (*kind, *message),
            "{what}"
        );
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            0,
            "{what} leaves something"
        );
    }
}

#[test]
fn a_model_that_is_cut_short_is_refused() {
    let bytes = fs::read(data("tensorflow/keras_mlp/saved_model.pb")).unwrap();
    let options = SplitOptions::new().max_chunk_size(1 << 10);
    for len in [1, 3, 100, 1000, 10_000, bytes.len() - 1] {
        let source = Source::from_bytes(bytes[..len].to_vec(), descriptor(SAVED_MODEL));
        let error = SavedModelSplitter.plan(source, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidMessage, "{error}");
    }
}

#[test]
fn a_model_given_as_another_type_is_refused_and_nothing_is_written() {
    let table = [
        (
            "graphdef_dtypes/graph.pb",
            SAVED_MODEL,
            "saved_model_schema_version",
        ),
        (
            "keras_mlp/saved_model.pb",
            proto_splitter::GRAPH_DEF,
            "node",
        ),
    ];
    for (file, message, field) in table {
        for max in [1 << 10, 1 << 30] {
            let folder = tempfile::tempdir().unwrap();
            let source = Source::open(data("tensorflow").join(file), descriptor(message)).unwrap();
            let options = SplitOptions::new().max_chunk_size(max);
            let prefix = folder.path().join("out");
            let result = SizeSplitter.write_with(source, prefix, &options);
            assert_eq!(
                result.unwrap_err().to_string(),
                format!(
                    "the message may be of another type: field {field} has a wire type that {message} does not declare at 0x0"
                )
            );
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }
}

#[test]
fn a_file_that_shrinks_while_it_is_read_is_an_error_of_its_own() {
    /// A source that reports its whole size, but loses half of its bytes after `reads_before`
    /// reads.
    struct Shrinking {
        bytes: Vec<u8>,
        reads: AtomicU64,
        reads_before: u64,
    }
    impl ReadAt for Shrinking {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
            let shrunk = self.reads.fetch_add(1, Ordering::Relaxed) >= self.reads_before;
            let end = if shrunk {
                self.bytes.len() / 2
            } else {
                self.bytes.len()
            };
            self.bytes[..end].read_at(offset, buf)
        }
        fn size(&self) -> io::Result<u64> {
            Ok(self.bytes.len() as u64)
        }
    }
    let bytes = [b"\x3a\x20".as_slice(), &[b'f'; 32]].concat().repeat(2000);
    for reads_before in [0, 1, 2, 5, 10, 50, 500] {
        let folder = tempfile::tempdir().unwrap();
        let shrinking = Shrinking {
            bytes: bytes.clone(),
            reads: AtomicU64::new(0),
            reads_before,
        };
        let source = Source::from_reader(Arc::new(shrinking), bytes.len() as u64, kitchen_sink());
        let options = SplitOptions::new().max_chunk_size(2000);
        let result = SizeSplitter.write_with(source, folder.path().join("out"), &options);
        let Err(error) = result else {
            assert_eq!(reads_before, 500, "it was read before it shrank");
            continue;
        };
        assert_eq!(error.kind(), ErrorKind::SourceChanged, "{error}");
        assert_eq!(
            error.to_string().split(" at 0x").next().unwrap(),
            "the source ended early: it had 68000 bytes when it was opened"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_file_that_changes_while_it_is_read_is_an_error_of_its_own() {
    struct Touching<'a>(&'a std::path::Path);
    impl ComposableSplitter for Touching<'_> {
        fn build_chunks(
            &self,
            cx: &mut proto_splitter::split::SplitContext<'_>,
        ) -> proto_splitter::Result<()> {
            cx.fit()?;
            // Modifies the file after it was planned and before it is copied.
            std::thread::sleep(std::time::Duration::from_millis(20));
            let mut file = File::options().write(true).open(self.0)?;
            Ok(file.write_all(b"\x3a\x20g")?)
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.pb");
    fs::write(
        &path,
        [b"\x3a\x20".as_slice(), &[b'f'; 32]].concat().repeat(100),
    )
    .unwrap();
    let source = Source::open(&path, kitchen_sink()).unwrap();
    let options = SplitOptions::new().max_chunk_size(1000);
    let error = Touching(&path)
        .write_with(source, folder.path().join("out"), &options)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SourceChanged, "{error}");
    assert!(
        error
            .to_string()
            .ends_with("in.pb was changed while it was being read"),
        "{error}"
    );
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        1,
        "only the source is left"
    );
}

#[test]
fn groups_and_messages_that_nest_without_end_are_refused_or_left_whole() {
    let groups = vec![0x0b; 1 << 20];
    let error = SizeSplitter
        .plan(Source::from_bytes(groups, kitchen_sink()), &options())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    // The message is nested 10,000 levels deep.
    let mut message = Vec::new();
    for _ in 0..10_000 {
        let mut outer = vec![0x22];
        proto_splitter::wire::put_varint(&mut outer, message.len() as u64);
        outer.extend_from_slice(&message);
        message = outer;
    }
    let error = SizeSplitter
        .plan(Source::from_bytes(message, kitchen_sink()), &options())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Uncuttable, "{error}");
}

#[test]
fn a_source_that_is_no_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("none")] {
        let error = Source::open(&path, kitchen_sink()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(
            error.to_string().contains(&path.display().to_string()),
            "{error}"
        );
    }
}

/// Checks that the time doesn't grow with the square of the message's size: otherwise, these cases
/// would take far too long.
#[test]
fn many_of_anything_cost_no_more_than_their_number() {
    let options = SplitOptions::new().max_chunk_size(1 << 10);
    // A singular submessage is in 50,000 pieces, so no path can identify a value in it.
    let pieces = b"\x22\x02\x3a\x00".repeat(50_000);
    let error = SizeSplitter
        .plan(Source::from_bytes(pieces, kitchen_sink()), &options)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Uncuttable, "{error}");
    // All fields are unknown and have different numbers.
    for (count, kind) in [(60_000, None), (70_000, Some(ErrorKind::LimitExceeded))] {
        let mut fields = Vec::new();
        for number in 2000..2000 + count {
            proto_splitter::wire::put_varint(&mut fields, number << 3);
            fields.push(1);
        }
        let options = SplitOptions::new().max_chunk_size(200 << 10);
        let result = SizeSplitter.plan(Source::from_bytes(fields, kitchen_sink()), &options);
        let expected = kind.unwrap_or(ErrorKind::Uncuttable);
        assert_eq!(result.unwrap_err().kind(), expected);
    }
    // Each field occurs twice, so that all of them could be sliced.
    let mut fields = Vec::new();
    for number in 2000..62_000 {
        for _ in 0..2 {
            proto_splitter::wire::put_varint(&mut fields, number << 3);
            fields.push(1);
        }
    }
    let options = SplitOptions::new().max_chunk_size(300 << 10);
    let source = Source::from_bytes(fields, kitchen_sink());
    assert!(SizeSplitter.plan(source, &options).unwrap().is_split());
    // All chunks have the same size, and differ only in a few bytes, which the search for equal
    // chunks doesn't sample.
    let mut nodes = Vec::new();
    for index in 0..20_000u32 {
        let mut blob = [0; 404];
        blob[90..94].copy_from_slice(&index.to_le_bytes());
        nodes.extend_from_slice(b"\x2a\x97\x03\x12\x94\x03");
        nodes.extend_from_slice(&blob);
    }
    let folder = tempfile::tempdir().unwrap();
    let options = SplitOptions::new()
        .max_chunk_size(64 << 10)
        .value_chunk_size(Some(400));
    let source = Source::from_bytes(nodes, kitchen_sink());
    let written = SizeSplitter
        .write_with(source, folder.path().join("out"), &options)
        .unwrap();
    assert!(written.chunks.len() > 20_000);
    assert!(written.chunks.iter().all(|chunk| chunk.same_as.is_none()));
}

/// Checks that the time doesn't grow with the square of the number of a custom splitter's requests.
#[test]
fn many_of_anything_cost_a_splitter_no_more_than_their_number() {
    struct Each;
    impl ComposableSplitter for Each {
        fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
            for entry in cx.message().map("by_name")? {
                cx.cut(&entry?.1)?;
            }
            for element in cx.message().repeated("children")? {
                let element = element?;
                let blob = AddedChunk::Bytes(Bytes::from_static(b"blob"));
                let path = FieldPath::root()
                    .join(Step::index(5, 0))
                    .join(Step::field(2));
                cx.add_chunk(blob, &path, None)?;
                cx.cut(&element.view())?;
            }
            Ok(())
        }
    }
    let mut fields = b"\x2a\x02\x08\x01".repeat(100_000);
    for index in 0..100_000 {
        let key = format!("{index:06}");
        fields.extend_from_slice(b"\x5a\x0c\x0a\x06");
        fields.extend_from_slice(key.as_bytes());
        fields.extend_from_slice(b"\x12\x02\x08\x01");
    }
    let source = Source::from_bytes(fields, kitchen_sink());
    let plan = Each.plan(source, &SplitOptions::new()).unwrap();
    assert_eq!(plan.chunks().len(), 1 + 3 * 100_000);
}
