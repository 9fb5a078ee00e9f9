//! A fuzz target for edits of messages in one piece and of chunked files, and for the recovery of
//! damaged files.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use proto_splitter_core::ChunkedFile;
use proto_splitter_core::container::Profile;
use proto_splitter_core::edit::{
    Changes, RewriteOptions, Rewritten, recompress, recompress_to_file, replace, replace_plain,
    replace_to_file, salvage,
};
use proto_splitter_core::path::{FieldPath, PathQuery};
use proto_splitter_core::progress::Progress;
use proto_splitter_core::split::{
    LEAST_MAX_FILE_SIZE, SizeSplitter, Source, SplitExt, SplitOptions,
};
use proto_splitter_core::view::MessageView;
use record_file::{Compression, ReadAt};

use super::{file_from, limits, options};
use crate::merge_support::file::cpb;
use crate::merge_support::random::{Random, fields};
use crate::merge_support::schema::descriptor;
use crate::merge_support::{int, len};

/// Number of bytes that precede a message and determine the edit.
const CHOICES: usize = 8;

/// Queries for the values to edit. A message may have no such values.
const QUERIES: [&str; 24] = [
    "s",
    "y",
    "i32",
    "f",
    "d",
    "e",
    "m",
    "m.s",
    "m.m.i32",
    "r",
    "r[0]",
    "r[1].s",
    "r[-1].m",
    "r[*].s",
    "r[s=\"a\"].m",
    "rs[0]",
    "ri[1]",
    "ms[\"a\"]",
    "ms[\"b\"].r[0]",
    "mi[0].m",
    "mss[\"a\"]",
    "om",
    "os",
    "g",
];

/// Edits a message, or a file with unusual chunks. The first byte determines which of them is
/// edited, and the following bytes determine the edit.
pub(super) fn edits(data: &[u8]) {
    let (choices, rest) = data.split_at(data.len().min(CHOICES));
    let random = &mut Random::of_bytes(choices);
    match random.below(4) {
        0 => changed(&Arc::new(rest.to_vec()), random),
        1 => {
            let (chunked, _) = file_from(&mut Random::of_bytes(rest));
            rewritten(&cpb(&chunked), random);
        }
        2 => {
            if let Some(file) = split(rest, random) {
                rewritten(&file, random);
            }
        }
        _ => damaged(rest, random),
    }
}

fn query(random: &mut Random<'_>) -> PathQuery {
    let text = random.one_of(&QUERIES);
    PathQuery::parse(text, Some(&descriptor())).unwrap()
}

/// Returns a random value: fields, text, or a number of any wire type.
fn value(random: &mut Random<'_>) -> Vec<u8> {
    match random.below(8) {
        0 => Vec::new(),
        1 => vec![1],
        2 => vec![0; 4],
        3 => vec![0; 8],
        4 => "text".into(),
        5 => len(7, [b'x'; 100]),
        6 => vec![b'x'; 200],
        _ => int(1, 300),
    }
}

fn get(message: &impl ReadAt, path: &FieldPath) -> Option<Vec<u8>> {
    let view = MessageView::of_plain(message, options()[0].clone()).unwrap();
    view.get(path).ok().map(|found| found.to_vec())
}

/// Returns the number of values that a query selects; `None` if one of them can't be reached.
fn count(message: &dyn ReadAt, query: &PathQuery) -> Option<u64> {
    let view = MessageView::of_reader(message, options()[0].clone()).unwrap();
    let mut selected = view.select(query, &[]).ok()?;
    let mut count = 0;
    while selected.next().transpose().ok()?.is_some() {
        count += 1;
    }
    Some(count)
}

/// Tests changes to a message in one piece: a new value can be read back, a removed value is gone,
/// and an emptied value isn't emptied again.
fn changed(message: &Arc<Vec<u8>>, random: &mut Random<'_>) {
    let (what, query, value) = (random.below(5), query(random), value(random));
    let reading = &options()[0];
    let apply = |message: Arc<dyn ReadAt>, changes: Changes| {
        let changed = changes.apply(message, reading).ok()?;
        let mut bytes = Vec::new();
        let written = changed.write_to(&mut bytes, &Progress::default()).unwrap();
        assert_eq!(written, bytes.len() as u64);
        assert_eq!(changed.message.total_size(), written);
        Some((changed, bytes))
    };
    let new: Arc<dyn ReadAt> = Arc::new(value.clone());
    let view = MessageView::of_plain(&**message, reading.clone()).unwrap();
    let place = view.select_one(&query, &[]);
    match what {
        0 => {
            let changes = Changes::new().replace(query.clone(), new);
            let Some((changed, bytes)) = apply(message.clone(), changes) else {
                return;
            };
            assert_eq!(changed.replaced, 1, "{query:?}");
            assert_eq!(get(&bytes, &place.unwrap()), Some(value), "{query:?}");
        }
        1 => {
            let before = count(&**message, &query);
            let changes = Changes::new().insert(query.clone(), new);
            let Some((changed, bytes)) = apply(message.clone(), changes) else {
                return;
            };
            assert_eq!(changed.inserted, 1, "{query:?}");
            // If the query has no index for a repeated field, the field gets another element, and
            // the query doesn't select just that element.
            let is_of_one = !query.as_str().contains("s=") && query.as_str() != "r";
            if let (Ok(place), true) = (place, is_of_one) {
                assert_eq!(get(&bytes, &place), Some(value), "{query:?}");
            } else if let Some(before) = before {
                assert!(count(&bytes, &query) >= Some(before), "{query:?}");
            }
        }
        2 => {
            let before = count(&**message, &query);
            let changes = Changes::new().remove(query.clone());
            let Some((changed, bytes)) = apply(message.clone(), changes) else {
                return;
            };
            assert!(bytes.len() <= message.len());
            assert!(changed.removed > 0, "{query:?}");
            if query
                .as_path()
                .is_some_and(|path| !path.to_string().contains('['))
            {
                assert_eq!(
                    count(&bytes, &query).unwrap_or(0),
                    0,
                    "{query:?}, {before:?}"
                );
            }
        }
        3 => {
            let least = 1 + random.below(8);
            let strip = Changes::new().strip_values(least);
            let Some((changed, bytes)) = apply(message.clone(), strip.clone()) else {
                return;
            };
            assert!(changed.stripped_bytes >= changed.stripped * least);
            let (again, same) = apply(Arc::new(bytes.clone()), strip).unwrap();
            assert_eq!((again.stripped, same == bytes), (0, true));
        }
        _ => {
            let other = self::query(random);
            let changes = Changes::new()
                .remove(other)
                .replace(query.clone(), new)
                .strip_values(4);
            let _ = apply(message.clone(), changes);
        }
    }
}

/// Returns the bytes of a `.cpb` file with a message, if the message can be split.
fn split(message: &[u8], random: &mut Random<'_>) -> Option<Vec<u8>> {
    let (source, mut written) = (
        Source::from_bytes(message.to_vec(), descriptor()),
        Vec::new(),
    );
    let options = split_options(random);
    SizeSplitter
        .write_to_with(source, &mut written, &options)
        .ok()?;
    Some(written)
}

fn split_options(random: &mut Random<'_>) -> SplitOptions {
    let how = random.below(32);
    let mut options = SplitOptions::new()
        .max_chunk_size([40, 300][usize::from(how & 1 == 1)])
        .compression(Compression::None)
        .threads(std::num::NonZeroUsize::MIN)
        .always_chunked(how & 2 == 2)
        .merkle_root(how & 4 == 4);
    if how & 8 == 8 {
        options = options.profile(Profile::Extended);
    }
    if how & 16 == 16 {
        options = options.value_chunk_size(Some(16));
    }
    options
}

/// Opens a file that was just written.
fn open(file: File) -> ChunkedFile<File> {
    ChunkedFile::from_source(file, &limits()).unwrap()
}

/// Tests rewriting a file with another compression, and with another value at a path.
fn rewritten(bytes: &[u8], random: &mut Random<'_>) {
    let Ok(file) = ChunkedFile::from_source(bytes.to_vec(), &limits()) else {
        return;
    };
    let reading = &options()[0];
    let compression = [Compression::None, Compression::zstd(1)];
    let rewriting = RewriteOptions::new().compression(random.one_of(&compression));
    let several = rewriting.clone().max_file_size(Some(LEAST_MAX_FILE_SIZE));
    let (in_files, query, value) = (random.below(2) == 1, query(random), value(random));
    let merged = file.merge_to_bytes(reading).ok();

    let folder = tempfile::tempdir().unwrap();
    let write =
        |name: &str,
         to: &dyn Fn(&File) -> proto_splitter_core::Result<Rewritten>,
         to_files: &dyn Fn(&Path) -> proto_splitter_core::Result<Rewritten>| {
            let path = folder.path().join(name);
            if in_files {
                let written = to_files(&path);
                assert_eq!(written.is_ok(), path.exists(), "{written:?}");
                written.ok()?;
                return Some(ChunkedFile::open_with(&path, &limits()).unwrap());
            }
            let target = tempfile::tempfile().unwrap();
            to(&target).ok()?;
            Some(open(target))
        };
    let again = write(
        "again.cpb",
        &|to| recompress(&file, to, &rewriting),
        &|to| recompress_to_file(&file, to, &several),
    );
    if let Some(again) = again {
        assert_eq!(again.merge_to_bytes(reading).ok(), merged);
        let root = |root: proto_splitter_core::Result<_>| root.ok().flatten();
        assert_eq!(
            root(again.trailer().merkle_root()),
            root(file.trailer().merkle_root())
        );
    }
    let Ok(path) = file.view(reading.clone()).select_one(&query, &[]) else {
        return;
    };
    let replaced = write(
        "replaced.cpb",
        &|to| replace(&file, &path, &value, to, reading, &rewriting),
        &|to| replace_to_file(&file, &path, &value, to, reading, &several),
    );
    let Some(replaced) = replaced else {
        return;
    };
    assert_eq!(replaced.view(reading.clone()).get(&path).unwrap(), value);
    let Some(merged) = merged.map(|merged| merged.to_vec()) else {
        return;
    };
    let now = replaced.merge_to_bytes(reading).unwrap().to_vec();
    let mut plain = Vec::new();
    if replace_plain(&merged, &path, &value, &mut plain, reading).is_ok() {
        assert_eq!(get(&plain, &path), Some(value.clone()));
        assert_eq!(now, plain, "{path}");
    }
    assert_eq!(get(&now, &path), Some(value));
}

/// Tests a split message in which some bits or bytes are changed or missing. The remaining parts
/// can be read, and are the whole message if no loss is reported.
fn damaged(message: &[u8], random: &mut Random<'_>) {
    let folder = tempfile::tempdir().unwrap();
    let mut options = split_options(random);
    if random.below(2) == 1 {
        options = options.max_file_size(Some(LEAST_MAX_FILE_SIZE));
    }
    let source = Source::from_bytes(message.to_vec(), descriptor());
    let Ok(written) = SizeSplitter.write_with(source, folder.path().join("m"), &options) else {
        return;
    };
    let reading = &super::options()[0];
    let whole = ChunkedFile::open_with(&written.path, &limits());
    let Some(whole) = whole
        .ok()
        .and_then(|whole| whole.merge_to_bytes(reading).ok())
    else {
        return;
    };
    let mut bytes = std::fs::read(&written.path).unwrap();
    let changes = random.below(3);
    for _ in 0..changes {
        // Two random numbers select a byte anywhere in the file.
        let part = random.below(256) * 256 + random.below(256);
        let at = usize::try_from(part * bytes.len() as u64 / (256 * 256)).unwrap();
        bytes[at] ^= 1 << (at % 8);
    }
    std::fs::write(&written.path, &bytes).unwrap();
    let Ok(salvaged) = salvage(&written.path, reading) else {
        assert!(changes > 0, "nothing is damaged");
        return;
    };
    let left = salvaged.file.merge_to_bytes(reading);
    if salvaged.lost.is_empty() {
        assert!(left.unwrap() == whole);
    } else {
        assert!(changes > 0, "{:?}", salvaged.lost);
        let left = left.unwrap().to_vec();
        assert!(left.len() <= whole.len(), "{:?}", salvaged.lost);
    }
}

/// Returns seeds for each edit: the bytes that determine the edit, followed by a message.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let seed = |number: u64| {
        let random = &mut Random::of_seed(number);
        let mut seed = vec![u8::try_from(number % 4).unwrap()];
        seed.resize_with(CHOICES, || u8::try_from(random.below(256)).unwrap());
        match number % 4 {
            1 => seed.extend((0..100).map(|_| u8::try_from(random.below(256)).unwrap())),
            _ => (0..3).for_each(|_| seed.extend(fields(random, 3))),
        }
        seed
    };
    (0..40).map(seed).collect()
}
