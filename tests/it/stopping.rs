//! Tests that work leaves no files behind if it is cancelled or fails, whenever this happens.

use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use prost_reflect::MessageDescriptor;
use proto_splitter::container::ChunkedFile;
use proto_splitter::edit::{RewriteOptions, recompress, replace, replace_plain};
use proto_splitter::merge::{Limits, Merger, ReadOptions};
use proto_splitter::progress::{CancelToken, Progress};
use proto_splitter::record_file::{Compression, ReadAt};
use proto_splitter::split::{Profile, Source, SplitExt, SplitOptions};
use proto_splitter::view::MessageView;
use proto_splitter::{ErrorKind, Result, SAVED_MODEL, SavedModelSplitter};
use proto_splitter_testkit::models::{ModelSize, saved_model};
use proto_splitter_testkit::sources::Guarded;

/// Returns a serialized model of 7 MB, which is split into large and small chunks.
fn model() -> Bytes {
    let mut bytes = Vec::new();
    let size = ModelSize {
        constants: 2,
        functions: 30,
        constant_bytes: 200_000,
        small_nodes: 4000,
    };
    saved_model(&size).write_to(&mut bytes).unwrap();
    bytes.into()
}

fn descriptor() -> MessageDescriptor {
    proto_splitter::proto::saved_model::descriptor_pool()
        .get_message_by_name(SAVED_MODEL)
        .unwrap()
}

fn options(threads: usize, compression: Compression) -> SplitOptions {
    SplitOptions::new()
        .max_chunk_size(64 << 10)
        .value_chunk_size(Some(50_000))
        .compression(compression)
        .threads(NonZeroUsize::new(threads).unwrap())
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().count() == 0
}

/// Repeats a split, and calls `stop` at a later read each time, until a split completes. Returns the
/// number of stopped splits.
fn stop_at_every_read(
    split: fn(Source, &Path, &SplitOptions) -> Result<()>,
    options: &SplitOptions,
    stop: impl Fn(&CancelToken) -> io::Result<()> + Clone + Send + Sync + 'static,
    stopped_by: ErrorKind,
) -> u64 {
    let bytes = model();
    let folder = tempfile::tempdir().unwrap();
    let mut stopped = 0;
    let mut at = 0;
    loop {
        let token = CancelToken::new();
        let (guard, stop) = (token.clone(), stop.clone());
        let guarded = Guarded::new(bytes.clone(), move |read| {
            if read >= at { stop(&guard) } else { Ok(()) }
        });
        let source = Source::from_reader(Arc::new(guarded), bytes.len() as u64, descriptor());
        let options = options
            .clone()
            .progress(Progress::default().cancelled_by(&token));
        match split(source, &folder.path().join("model"), &options) {
            Ok(()) => break stopped,
            Err(error) => assert_eq!(error.kind(), stopped_by, "at read {at}: {error}"),
        }
        assert!(is_empty(folder.path()), "at read {at}");
        stopped += 1;
        // Stops at each of the first reads, which are for planning. Later, skips more and more
        // reads.
        at += 1 + at / 10;
    }
}

/// Splits to one file, or to several if the options limit the file size.
fn to_file(source: Source, prefix: &Path, options: &SplitOptions) -> Result<()> {
    let written = SavedModelSplitter.write_with(source, prefix, options);
    written.map(drop)
}

fn to_stream(source: Source, _: &Path, options: &SplitOptions) -> Result<()> {
    let written = SavedModelSplitter.write_to_with(source, &mut io::sink(), options);
    written.map(drop)
}

type Way = (fn(Source, &Path, &SplitOptions) -> Result<()>, SplitOptions);

/// Returns several ways to split, to a file, to several files, or to a stream, each with its
/// options.
fn ways() -> [Way; 7] {
    let several = options(3, Compression::None).profile(Profile::Extended);
    [
        (to_file, options(1, Compression::None)),
        (to_file, options(3, Compression::None)),
        (to_file, options(2, Compression::zstd(1))),
        (to_file, several.max_file_size(Some(2 << 20))),
        (to_stream, options(1, Compression::None)),
        (to_stream, options(3, Compression::None)),
        (to_stream, options(2, Compression::zstd(1))),
    ]
}

#[test]
fn a_split_that_is_cancelled_at_any_read_leaves_nothing() {
    for (split, options) in ways() {
        let cancel = |token: &CancelToken| {
            token.cancel();
            Ok(())
        };
        let stopped = stop_at_every_read(split, &options, cancel, ErrorKind::Cancelled);
        assert!(stopped > 20, "{stopped}");
    }
}

#[test]
fn a_split_whose_source_fails_at_any_read_leaves_nothing() {
    for (split, options) in ways() {
        let fail = |_: &CancelToken| Err(io::Error::other("the disk is gone"));
        let stopped = stop_at_every_read(split, &options, fail, ErrorKind::Io);
        assert!(stopped > 20, "{stopped}");
    }
}

/// Repeats the work until it completes, and cancels it at a later progress report each time.
/// Cancelled work must fail, even if the last report cancels it. Returns the number of
/// cancellations.
fn stop_at_every_report(work: &dyn Fn(&Progress) -> Result<()>, check: &dyn Fn()) -> u64 {
    let mut stopped = 0;
    loop {
        let token = CancelToken::new();
        let reports = AtomicU64::new(0);
        let progress = Progress::new({
            let token = token.clone();
            move |done, total| {
                assert!(done <= total);
                if reports.fetch_add(1, Ordering::Relaxed) >= stopped {
                    token.cancel();
                }
            }
        });
        match work(&progress.cancelled_by(&token)) {
            Ok(()) => {
                assert!(!token.is_cancelled(), "at the last report, too, it ends");
                break stopped;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled),
        }
        check();
        stopped += 1;
    }
}

#[test]
fn a_split_and_a_merge_that_are_cancelled_at_any_report_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("model");
    let source = Source::from_bytes(model(), descriptor());
    let merged = tempfile::tempdir().unwrap();
    for (threads, compression) in [
        (1, Compression::None),
        (3, Compression::None),
        (1, Compression::zstd(1)),
        (3, Compression::zstd(1)),
    ] {
        let split = |progress: &Progress| {
            let options = options(threads, compression).progress(progress.clone());
            let written = SavedModelSplitter.write_with(&source, &prefix, &options)?;
            assert!(written.is_split);
            Ok(())
        };
        let stopped = stop_at_every_report(&split, &|| assert!(is_empty(folder.path())));
        assert!(stopped >= 6, "{stopped}");

        let stream = |progress: &Progress| {
            let options = options(threads, compression).progress(progress.clone());
            to_stream(source.clone(), folder.path(), &options)
        };
        let stopped = stop_at_every_report(&stream, &|| {});
        assert!(stopped >= 6, "{stopped}");

        let merge = |progress: &Progress| {
            let threads = NonZeroUsize::new(threads).unwrap();
            let options = ReadOptions::new().threads(threads);
            let options = options.progress(progress.clone());
            let target = merged.path().join("model.pb");
            Merger::new()
                .options(&options)
                .merge_to_file(&prefix, &target)?;
            Ok(fs::remove_file(target)?)
        };
        let stopped = stop_at_every_report(&merge, &|| assert!(is_empty(merged.path())));
        assert!(stopped >= 6, "{stopped}");
        fs::remove_file(prefix.with_extension("cpb")).unwrap();
    }
}

#[test]
fn what_is_cancelled_before_it_begins_does_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("model");
    let source = Source::from_bytes(model(), descriptor());
    let done = options(2, Compression::None);
    SavedModelSplitter
        .write_with(&source, &prefix, &done)
        .unwrap();
    let token = CancelToken::new();
    token.cancel();
    let progress = Progress::default().cancelled_by(&token);

    let options = done.progress(progress.clone());
    let kind = |error: proto_splitter::Error| error.kind();
    let plan = SavedModelSplitter.plan(&source, &options).map_err(kind);
    assert_eq!(plan.err(), Some(ErrorKind::Cancelled));
    let merge = ReadOptions::new().progress(progress);
    let to_memory = Merger::new()
        .options(&merge)
        .merge_to_bytes(&prefix)
        .map_err(kind);
    assert_eq!(to_memory.err(), Some(ErrorKind::Cancelled));
    let to_stream = Merger::new()
        .options(&merge)
        .merge_to(&prefix, &mut io::sink())
        .map_err(kind);
    assert_eq!(to_stream.err(), Some(ErrorKind::Cancelled));
}

/// A writer that accepts the given number of bytes, and then fails.
struct Full(usize);

impl io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.min(bytes.len()) {
            0 => Err(io::ErrorKind::StorageFull.into()),
            n => {
                self.0 -= n;
                Ok(n)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_split_to_a_writer_that_fails_after_any_number_of_bytes_fails() {
    let source = Source::from_bytes(model(), descriptor());
    for (threads, compression) in [(1, Compression::None), (3, Compression::zstd(1))] {
        let options = options(threads, compression);
        let split = |sink: &mut Full| SavedModelSplitter.write_to_with(&source, sink, &options);
        let mut whole = Full(usize::MAX);
        let written = split(&mut whole).unwrap();
        let size = usize::MAX - whole.0;
        assert_eq!(written.output_size, size as u64);
        for room in (0..size).step_by(size / 37).chain([size - 1]) {
            let error = split(&mut Full(room)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io, "{room}: {error}");
        }
    }
}

#[test]
fn a_merge_to_a_writer_that_fails_after_any_number_of_bytes_fails() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("model");
    let source = Source::from_bytes(model(), descriptor());
    let options = options(2, Compression::None);
    SavedModelSplitter
        .write_with(&source, &prefix, &options)
        .unwrap();
    let size = model().len();
    for room in (0..size).step_by(size / 37).chain([size - 1]) {
        let error = Merger::new()
            .merge_to(&prefix, &mut Full(room))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{room}");
    }
    Merger::new().merge_to(&prefix, &mut Full(size)).unwrap();
}

/// An operation that reads a file, and writes another file or reads a part of the message.
type Work = fn(&dyn ReadAt, &Progress) -> Result<()>;

const OTHER_WORK: [(&str, bool, Work); 9] = [
    ("merge to a stream", true, |source, progress| {
        let file = ChunkedFile::from_source(source, &Limits::default())?;
        let options = ReadOptions::new().progress(progress.clone());
        file.merge_to(&mut io::sink(), &options).map(drop)
    }),
    ("merge to memory", true, |source, progress| {
        let file = ChunkedFile::from_source(source, &Limits::default())?;
        let options = ReadOptions::new().progress(progress.clone());
        file.merge_to_bytes(&options).map(drop)
    }),
    (
        "merge into a buffer, on several threads",
        true,
        |source, progress| {
            let file = ChunkedFile::from_source(source, &Limits::default())?;
            let options = ReadOptions::new().progress(progress.clone());
            let options = options.threads(NonZeroUsize::MIN.saturating_add(2));
            let mut buffer = vec![0; model().len()];
            file.merge_into(&mut buffer, &options).map(drop)
        },
    ),
    ("get to memory", true, |source, progress| {
        let file = ChunkedFile::from_source(source, &Limits::default())?;
        let view = file.view(ReadOptions::new().progress(progress.clone()));
        view.get(&"2[0]".parse()?).map(drop)
    }),
    ("recompress", true, |source, progress| {
        let file = ChunkedFile::from_source(source, &Limits::default())?;
        let options = RewriteOptions::new()
            .compression(Compression::None)
            .progress(progress.clone());
        recompress(&file, &tempfile::tempfile()?, &options).map(drop)
    }),
    ("replace", true, |source, progress| {
        let file = ChunkedFile::from_source(source, &Limits::default())?;
        let options = RewriteOptions::new().progress(progress.clone());
        let reading = ReadOptions::new().progress(progress.clone());
        let target = tempfile::tempfile()?;
        replace(&file, &NAME.parse()?, b"new", &target, &reading, &options).map(drop)
    }),
    ("get", true, |source, progress| {
        let file = ChunkedFile::from_source(source, &Limits::default())?;
        let view = file.view(ReadOptions::new().progress(progress.clone()));
        view.get_to(&"2[0]".parse()?, &mut io::sink()).map(drop)
    }),
    ("replace in one piece", false, |source, progress| {
        let reading = ReadOptions::new().progress(progress.clone());
        replace_plain(&source, &NAME.parse()?, b"new", &mut io::sink(), &reading).map(drop)
    }),
    ("get from one piece", false, |source, progress| {
        let reading = ReadOptions::new().progress(progress.clone());
        let view = MessageView::of_plain(&source, reading)?;
        view.get_to(&"2[0]".parse()?, &mut io::sink()).map(drop)
    }),
];

/// Field path of a node's name in the model.
const NAME: &str = "2[0].2.1[3].1";

#[test]
fn merging_rewriting_and_reading_parts_stop_at_whatever_report_or_read_is_cancelled_or_fails() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::from_bytes(model(), descriptor());
    let options = options(2, Compression::zstd(1));
    let written = SavedModelSplitter
        .write_with(&source, folder.path().join("model"), &options)
        .unwrap();
    let chunked: Bytes = fs::read(written.path).unwrap().into();
    for (name, in_chunks, work) in OTHER_WORK {
        let bytes = if in_chunks { chunked.clone() } else { model() };
        let stopped = stop_at_every_report(&|progress| work(&bytes, progress), &|| {});
        assert!(stopped >= 6, "{name}: {stopped}");
        for kind in [ErrorKind::Cancelled, ErrorKind::Io] {
            let (mut at, mut stopped) = (0, 0);
            loop {
                let token = CancelToken::new();
                let guard = token.clone();
                let guarded = Guarded::new(bytes.clone(), move |read| match read >= at {
                    true if kind == ErrorKind::Io => Err(io::Error::other("the disk is gone")),
                    true => {
                        guard.cancel();
                        Ok(())
                    }
                    false => Ok(()),
                });
                let progress = Progress::default().cancelled_by(&token);
                match work(&guarded, &progress) {
                    Ok(()) => break,
                    Err(error) => assert_eq!(error.kind(), kind, "{name} at {at}: {error}"),
                }
                stopped += 1;
                at += 1 + at / 10;
            }
            assert!(stopped > 5, "{name}: {stopped}");
        }
    }
}
