//! Tests that splits to sequential writers produce the same bytes as splits to files.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use bytes::Bytes;
use proto_splitter::container::ChunkedFile;
use proto_splitter::merge::{Limits, ReadOptions};
use proto_splitter::progress::{CancelToken, Progress};
use proto_splitter::record_file::ReadAt;
use proto_splitter::split::{ChunkCompression, Source, SplitExt, SplitOptions};
use proto_splitter::{ErrorKind, SavedModelSplitter};
use proto_splitter_testkit::models::{Parts, constant};
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

/// Checks that each constant of 3 MiB is read `times` times by a split to a stream.
fn reads_of_large_constants(how: &str, times: u64) {
    let (watched, reads) = Watched::new(model());
    let size = model().len() as u64;
    let source = Source::from_reader(Arc::new(watched), size, descriptor());
    SavedModelSplitter
        .write_to_with(source, &mut io::sink(), &options(how, 3))
        .unwrap();
    // Two of the constants differ from all others. The other two are equal, so only one of them is
    // written, but both are read twice to compare them.
    let [others, equal] = [2, 2].map(|constants: u64| constants * (3 << 20));
    let large = others * times + equal / 2 * times + equal * 2;
    let read: u64 = reads.take().iter().map(|read| read.end - read.start).sum();
    let rest = size - others - equal;
    // Everything else is read for planning, hashing and writing, and parts of it again to find the
    // ends of slices.
    let bounds = large..large + 4 * rest;
    assert!(bounds.contains(&read), "{how}: {read}, not in {bounds:?}");
}

#[test]
fn large_chunks_are_read_twice_if_stored_as_they_are_and_once_if_compressed() {
    reads_of_large_constants(NONE, 2);
    reads_of_large_constants("zstd:1", 1);
}

/// A source whose last constant changes after more than 3 MiB of it were read.
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
    /// A writer that appends bytes to the source file on the first write.
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

/// A writer that cancels the work after 100,000 bytes, and counts the bytes written after that.
struct Cancelling {
    token: CancelToken,
    had: usize,
    more: usize,
}

impl Write for Cancelling {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.token.is_cancelled() {
            self.more += bytes.len()
        } else {
            self.had += bytes.len()
        }
        if self.had > 100_000 {
            self.token.cancel();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn nothing_more_is_written_once_it_is_cancelled() {
    let source = Source::from_bytes(model(), descriptor());
    for threads in THREADS {
        for how in [NONE, "zstd:1"] {
            let token = CancelToken::new();
            let progress = Progress::default().cancelled_by(&token);
            let options = options(how, threads).progress(progress);
            let (had, more) = (0, 0);
            let mut sink = Cancelling { token, had, more };
            let error = SavedModelSplitter
                .write_to_with(&source, &mut sink, &options)
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
            assert_eq!(sink.more, 0, "{how} on {threads} threads");
        }
    }
}

/// Returns a model with a small constant, followed by a constant of 12 MiB. Also returns a byte
/// range in the middle of the large constant.
fn one_large_constant() -> (Bytes, Range<u64>) {
    let graph = Parts::new()
        .message(1, constant("small", 1, 300_000))
        .message(1, constant("large", 2, 12 << 20));
    let model = Parts::new().message(2, Parts::new().message(2, graph));
    let mut bytes = Vec::new();
    model.write_to(&mut bytes).unwrap();
    let end = bytes.len() as u64;
    (bytes.into(), end - (11 << 20)..end - (1 << 20))
}

/// A source that calls `touched` before each read that begins in `range`, and counts these reads.
struct Sensitive<F> {
    bytes: Bytes,
    range: Range<u64>,
    touched: F,
    more: Arc<AtomicU64>,
}

impl<F: Fn() + Send + Sync> ReadAt for Sensitive<F> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if self.range.contains(&offset) {
            (self.touched)();
            self.more.fetch_add(1, Ordering::Relaxed);
        }
        self.bytes.read_at(offset, buf)
    }

    fn size(&self) -> io::Result<u64> {
        self.bytes.size()
    }
}

/// Waits until another thread sets a flag, for at most a minute.
fn wait_for(flag: &AtomicBool) {
    let waits = (0..60_000).take_while(|_| !flag.load(Ordering::SeqCst));
    waits.for_each(|_| sleep(Duration::from_millis(1)));
}

#[test]
fn a_chunk_is_read_no_further_once_it_is_cancelled_or_nobody_takes_it() {
    /// A writer that accepts 10,000 bytes, waits for the first flag, sets the second flag, and
    /// fails.
    struct Failing<'a>(usize, &'a AtomicBool, &'a AtomicBool);
    impl Write for Failing<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            if self.0 > 10_000 {
                wait_for(self.1);
                self.2.store(true, Ordering::SeqCst);
                return Err(io::ErrorKind::StorageFull.into());
            }
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (bytes, range) = one_large_constant();
    let source = |touched: Box<dyn Fn() + Send + Sync>| {
        let more = Arc::new(AtomicU64::new(0));
        let sensitive = Sensitive {
            bytes: bytes.clone(),
            range: range.clone(),
            touched,
            more: Arc::clone(&more),
        };
        let size = bytes.len() as u64;
        let source = Source::from_reader(Arc::new(sensitive), size, descriptor());
        (source, more)
    };
    for how in [NONE, "zstd:1"] {
        let token = CancelToken::new();
        let progress = Progress::default().cancelled_by(&token);
        let (sensitive, reads) = source(Box::new(move || token.cancel()));
        let cancelled = options(how, 1).progress(progress);
        let error = SavedModelSplitter
            .write_to_with(sensitive, &mut io::sink(), &cancelled)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{how}");
        assert_eq!(reads.load(Ordering::Relaxed), 1, "{how}");

        // The sink fails while it writes the small constant and another thread reads the large one.
        let [begun, failed] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (sensitive, reads) = source({
            let (begun, failed) = (Arc::clone(&begun), Arc::clone(&failed));
            Box::new(move || {
                begun.store(true, Ordering::SeqCst);
                wait_for(&failed);
                // Gives the writing thread time to stop the work.
                sleep(Duration::from_millis(20));
            })
        });
        let mut sink = Failing(0, &begun, &failed);
        let error = SavedModelSplitter
            .write_to_with(sensitive, &mut sink, &options(how, 3))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{how}: {error}");
        // If nothing failed, there would be ten reads.
        let reads = reads.load(Ordering::Relaxed);
        assert!((1..8).contains(&reads), "{how}: {reads}");
    }
}

#[test]
fn what_is_done_is_never_far_ahead_of_what_is_written_where_nothing_is_compressed() {
    struct Counting(Arc<AtomicU64>);
    impl Write for Counting {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let written = Arc::new(AtomicU64::new(0));
    let reported = Arc::new(AtomicU64::new(0));
    let progress = Progress::new({
        let (written, reported) = (Arc::clone(&written), Arc::clone(&reported));
        move |done, _| {
            let ahead = done.saturating_sub(written.load(Ordering::Relaxed));
            assert!(ahead <= 2 << 20, "{ahead} bytes");
            reported.store(done, Ordering::Relaxed);
        }
    });
    let source = Source::from_bytes(model(), descriptor());
    let options = options(NONE, 1).progress(progress);
    let mut sink = Counting(Arc::clone(&written));
    let streamed = SavedModelSplitter
        .write_to_with(source, &mut sink, &options)
        .unwrap();
    let distinct = streamed
        .chunks
        .iter()
        .filter(|chunk| chunk.same_as.is_none());
    let total: u64 = distinct.map(|chunk| chunk.size).sum();
    assert_eq!(reported.load(Ordering::Relaxed), total);
}

#[test]
fn what_was_streamed_is_merged() {
    let source = Source::from_bytes(model(), descriptor());
    let mut stream = Vec::new();
    SavedModelSplitter
        .write_to_with(&source, &mut stream, &options("auto", 2))
        .unwrap();
    let file = ChunkedFile::from_source(stream, &Limits::default()).unwrap();
    assert!(file.merge_to_bytes(&ReadOptions::new()).unwrap() == model());
}
