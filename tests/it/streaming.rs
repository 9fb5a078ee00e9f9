//! Splits to what takes bytes in their order only: the bytes that a file would have.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use proto_splitter::container::ChunkedFile;
use proto_splitter::merge::{Limits, MergeOptions};
use proto_splitter::record_file::ReadAt;
use proto_splitter::split::{ChunkCompression, ComposableSplitter, Source, SplitOptions};
use proto_splitter::{ErrorKind, SavedModelSplitter};
use proto_splitter_testkit::sources::Watched;

use crate::threads::{THREADS, descriptor, model, split_options};

const NONE: &str = "none";

fn options(how: &str, threads: usize) -> SplitOptions {
    let how: ChunkCompression = how.parse().unwrap();
    split_options(how, threads)
}

#[test]
fn a_stream_has_the_bytes_of_the_file_on_any_number_of_threads() {
    let source = Source::from_bytes(model(), descriptor());
    let folder = tempfile::tempdir().unwrap();
    for how in [NONE, "auto", "zstd:1", "brotli:2", "snappy"] {
        for embed in [false, true] {
            let options = |threads| options(how, threads).embed_schema(embed);
            let prefix = folder.path().join("model");
            let written = SavedModelSplitter
                .write_with(&source, prefix, &options(2))
                .unwrap();
            let file = fs::read(&written.path).unwrap();
            for threads in THREADS {
                let mut stream = Vec::new();
                let streamed = SavedModelSplitter
                    .write_to_with(&source, &mut stream, &options(threads))
                    .unwrap();
                assert!(stream == file, "{how} on {threads} threads");
                let chunks = format!("{:?}", streamed.chunks);
                assert_eq!(chunks, format!("{:?}", written.chunks), "{how}");
                assert!(streamed.chunks.iter().any(|chunk| chunk.same_as.is_some()));
                assert_eq!(streamed.output_size, file.len() as u64);
                assert_eq!(streamed.source_size, model().len() as u64);
                assert!(streamed.is_split && streamed.byte_exact);
            }
        }
    }
}

#[test]
fn a_message_that_needs_no_cut_is_streamed_as_it_is() {
    let source = Source::from_bytes(model(), descriptor());
    let mut stream = Vec::new();
    let written = SavedModelSplitter.write_to(&source, &mut stream).unwrap();
    assert!(!written.is_split && written.byte_exact && written.chunks.is_empty());
    assert_eq!(written.output_size, stream.len() as u64);
    assert!(stream == model());
}

#[test]
fn a_stream_is_never_several_files() {
    let source = Source::from_bytes(Bytes::new(), descriptor());
    let options = SplitOptions::new().max_file_size(Some(1 << 30));
    let error = SavedModelSplitter
        .write_to_with(source, &mut io::sink(), &options)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
}

/// The constants of 3 MiB that are written are read as often as `times`.
fn reads_of_large_constants(how: &str, times: u64) {
    let (watched, reads) = Watched::new(model());
    let size = model().len() as u64;
    let source = Source::from_reader(Arc::new(watched), size, descriptor());
    SavedModelSplitter
        .write_to_with(source, &mut io::sink(), &options(how, 3))
        .unwrap();
    // Two others, and two that are equal, of which one is written: for that both are read twice.
    let [others, equal] = [2, 2].map(|constants: u64| constants * (3 << 20));
    let large = others * times + equal / 2 * times + equal * 2;
    let read: u64 = reads.take().iter().map(|read| read.end - read.start).sum();
    let rest = size - others - equal;
    let bounds = large..large + 4 * rest;
    assert!(bounds.contains(&read), "{how}: {read}, not in {bounds:?}");
}

#[test]
fn large_chunks_are_read_twice_if_stored_as_they_are_and_once_if_compressed() {
    reads_of_large_constants(NONE, 2);
    reads_of_large_constants("zstd:1", 1);
}

/// Gives other bytes from some read of the last constant on.
struct Changing {
    bytes: Bytes,
    reads: AtomicU64,
}

impl ReadAt for Changing {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.bytes.read_at(offset, buf)?;
        let in_constant = offset > 10 << 20 && offset < 12 << 20;
        if in_constant && self.reads.fetch_add(n as u64, Ordering::Relaxed) > 3 << 20 {
            buf[..n].fill(1);
        }
        Ok(n)
    }

    fn size(&self) -> io::Result<u64> {
        self.bytes.size()
    }
}

#[test]
fn a_source_that_gives_other_bytes_when_it_is_read_again_is_an_error() {
    let changing = Changing {
        bytes: model(),
        reads: AtomicU64::new(0),
    };
    let source = Source::from_reader(Arc::new(changing), model().len() as u64, descriptor());
    let mut stream = Vec::new();
    let error = SavedModelSplitter
        .write_to_with(source, &mut stream, &options(NONE, 2))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SourceChanged, "{error}");
    assert!(ChunkedFile::from_source(stream, &Limits::default()).is_err());
}

#[test]
fn a_file_that_changes_while_it_is_streamed_is_an_error_and_the_stream_no_file() {
    /// Appends to the source when the first bytes come.
    struct Meddling<'a>(&'a std::path::Path, Vec<u8>);
    impl Write for Meddling<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.1.is_empty() {
                let mut source = OpenOptions::new().append(true).open(self.0)?;
                source.write_all(b"more")?;
            }
            self.1.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.pb");
    for (options, is_split) in [(options(NONE, 2), true), (SplitOptions::new(), false)] {
        fs::write(&path, model()).unwrap();
        let source = Source::open(&path, descriptor()).unwrap();
        let mut sink = Meddling(&path, Vec::new());
        let error = SavedModelSplitter
            .write_to_with(source, &mut sink, &options)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SourceChanged, "{error}");
        if is_split {
            assert!(ChunkedFile::from_source(sink.1, &Limits::default()).is_err());
        }
    }
}

#[test]
fn what_was_streamed_is_merged() {
    let source = Source::from_bytes(model(), descriptor());
    let mut stream = Vec::new();
    SavedModelSplitter
        .write_to_with(&source, &mut stream, &options("auto", 2))
        .unwrap();
    let file = ChunkedFile::from_source(stream, &Limits::default()).unwrap();
    assert!(file.merge_to_bytes(&MergeOptions::new()).unwrap() == model());
}
