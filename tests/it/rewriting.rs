use std::fs::{self, File};
use std::ops::Range;
use std::path::Path;

use proto_splitter::container::ChunkedFile;
use proto_splitter::edit::{RewriteOptions, Rewritten, recompress, replace, replace_plain};
use proto_splitter::merge::{ChunkStore, Limits, ReadOptions};
use proto_splitter::path::{FieldPath, Select, TargetKind};
use proto_splitter::record_file::{
    CompressionKind, ReaderOptions, RecordFile, RecordWriter, WriterOptions,
};
use proto_splitter::split::{ChunkCompression, SizeSplitter, Source, SplitExt, SplitOptions};
use proto_splitter::view::MessageView;
use proto_splitter::wire::{FieldNumber, WireCursor, WireType, put_varint, tag};
use proto_splitter::{ErrorKind, Result};
use proto_splitter_testkit::generate::{Habits, Order, Random, kitchen_sink, message};

pub(crate) fn reading() -> ReadOptions {
    ReadOptions::new().descriptor(kitchen_sink())
}

/// Splits a message into chunks of at most `max` bytes. If some values can't be divided so far,
/// uses a maximum up to eight times larger.
fn split(model: &[u8], folder: &Path, max: u64) -> ChunkedFile {
    let (input, prefix) = (folder.join("in.pb"), folder.join("out"));
    fs::write(&input, model).unwrap();
    let mut tried = (0..4).map(|more| {
        let options = SplitOptions::new().max_chunk_size(max << more);
        let options = options.value_chunk_size(Some(max / 4)).force(true);
        let source = Source::open(&input, kitchen_sink()).unwrap();
        SizeSplitter.write_with(source, &prefix, &options)
    });
    let written = tried.find_map(Result::ok).unwrap();
    assert!(written.is_split);
    ChunkedFile::open(written.path).unwrap()
}

/// A value in a message that a test can replace.
pub(crate) struct Target {
    pub(crate) path: FieldPath,
    value: Range<u64>,
    wire: WireType,
    is_message: bool,
}

/// Returns all values of a message that have a path, and whose field or element occurs only once.
pub(crate) fn targets(model: &[u8]) -> Vec<Target> {
    let model = model.to_vec();
    let view = MessageView::of_plain(&model, reading()).unwrap();
    let mut found = Vec::new();
    let mut open = vec![(FieldPath::root(), 0..model.len() as u64)];
    while let Some((path, range)) = open.pop() {
        let Ok(entries) = view.fields(&path) else {
            continue;
        };
        let entries: Vec<_> = entries.map(Result::unwrap).collect();
        let mut cursor = WireCursor::new(&model[..]);
        cursor.set_range(range);
        for entry in &entries {
            let field = cursor.next().unwrap().unwrap();
            let here = path.join(entry.step.clone());
            let Ok(Some(size)) = view.size(&here) else {
                continue;
            };
            let once = entries
                .iter()
                .filter(|other| other.step == entry.step)
                .count()
                == 1;
            // Also skips map entries: the path of an entry refers to its value, so the sizes
            // differ.
            if !once || size != entry.size {
                continue;
            }
            let kind = here.resolve(&kitchen_sink()).unwrap().kind;
            // Skips elements that are numbers: the module `numbers` tests them.
            let is_text = matches!(
                kind,
                TargetKind::Scalar(prost_reflect::Kind::String | prost_reflect::Kind::Bytes)
            );
            let is_message = matches!(kind, TargetKind::Message(_) | TargetKind::Group(_));
            let is_element = matches!(entry.step.select, Select::Index(_));
            if is_element && !is_text && !is_message {
                continue;
            }
            if is_message {
                open.push((here.clone(), field.value.clone()));
            }
            found.push(Target {
                path: here,
                value: field.value,
                wire: field.wire_type,
                is_message,
            });
        }
    }
    found
}

/// Returns the message with the value at the range `value` replaced by `new`. Rebuilds the messages
/// around the value, whose lengths may change. `base` is the offset of `bytes` in the whole
/// message.
fn rebuilt(bytes: &[u8], base: u64, value: &Range<u64>, new: &[u8]) -> Vec<u8> {
    let mut cursor = WireCursor::new(bytes);
    let mut out = Vec::new();
    while let Some(field) = cursor.next().unwrap() {
        let at = |position: u64| usize::try_from(position).unwrap();
        let span = |range: Range<u64>| &bytes[at(range.start)..at(range.end)];
        let absolute = base + field.value.start..base + field.value.end;
        let content = if absolute == *value {
            new.to_vec()
        } else if absolute.start <= value.start && value.end <= absolute.end {
            rebuilt(span(field.value.clone()), absolute.start, value, new)
        } else {
            out.extend_from_slice(span(field.start..field.end));
            continue;
        };
        out.extend_from_slice(span(field.start..field.tag_end));
        if field.wire_type == WireType::Len {
            put_varint(&mut out, content.len() as u64);
        }
        out.extend(content);
        out.extend_from_slice(span(field.value.end..field.end));
    }
    out
}

/// Returns new values that are valid for a target.
pub(crate) fn values(target: &Target) -> Vec<Vec<u8>> {
    let mut unknown = Vec::new();
    put_varint(&mut unknown, tag(FieldNumber(5000), WireType::Len));
    put_varint(&mut unknown, 300);
    unknown.extend([b'u'; 300]);
    match target.wire {
        WireType::Varint => vec![b"\x96\x01".to_vec(), b"\x07".to_vec()],
        WireType::Fixed64 => vec![vec![7; 8]],
        WireType::Fixed32 => vec![vec![7; 4]],
        _ if target.is_message => vec![Vec::new(), unknown],
        _ => vec![Vec::new(), b"x".to_vec(), b"long ".repeat(70)],
    }
}

fn merged(file: &File) -> Vec<u8> {
    let file = ChunkedFile::from_source(file, &Limits::new()).unwrap();
    let checked = file.verify(&ReadOptions::new());
    assert!(checked.problems().is_empty(), "{checked:?}");
    file.merge_to_bytes(&ReadOptions::new()).unwrap().into()
}

fn replaced(file: &ChunkedFile, path: &FieldPath, new: &[u8]) -> Result<(File, Rewritten)> {
    let target = tempfile::tempfile().unwrap();
    let options = RewriteOptions::new();
    let rewritten = replace(file, path, new, &target, &reading(), &options)?;
    Ok((target, rewritten))
}

/// Returns the message that a merge returns if it uses only placeholders, and a chunked file with
/// this message. After a value is replaced, a file no longer has the layout of its source, so later
/// merges return exactly this message.
fn canonical(model: &[u8], folder: &Path) -> (Vec<u8>, ChunkedFile) {
    let file = split(model, folder, 500);
    let target = targets(model).into_iter().next().unwrap();
    let same = file.get(&target.path).unwrap();
    let (rewritten, _) = replaced(&file, &target.path, &same).unwrap();
    let model = merged(&rewritten);
    let file = split(&model, folder, 500);
    assert!(file.merge_to_bytes(&reading()).unwrap() == model);
    (model, file)
}

#[test]
fn a_value_replaced_in_chunks_or_in_one_piece_is_the_value_merged_replaced_and_split() {
    let mut tried = 0;
    for (seed, order, odd_wire) in [
        (1, Order::Ascending, false),
        (2, Order::Shuffled, false),
        (3, Order::Shuffled, true),
        (4, Order::Ascending, false),
    ] {
        let habits = Habits {
            order,
            odd_wire,
            repeats: odd_wire,
            size: 6000,
        };
        let model = message(&kitchen_sink(), &mut Random::new(seed), &habits);
        let folder = tempfile::tempdir().unwrap();
        let (model, file) = canonical(&model, folder.path());
        let all = targets(&model);
        for target in all.iter().step_by(1 + all.len() / 80) {
            for new in values(target) {
                let wanted = rebuilt(&model, 0, &target.value, &new);
                let mut plain = Vec::new();
                replace_plain(&model, &target.path, &new, &mut plain, &reading()).unwrap();
                assert!(plain == wanted, "{} of seed {seed}", target.path);
                let (file, _) = replaced(&file, &target.path, &new).unwrap();
                assert!(merged(&file) == wanted, "{} of seed {seed}", target.path);
                tried += 1;
            }
        }
    }
    assert!(tried > 200, "{tried}");
}

#[test]
fn chunks_that_do_not_change_are_copied_as_they_are_stored() {
    let habits = Habits::plain(20_000);
    let model = message(&kitchen_sink(), &mut Random::new(5), &habits);
    let folder = tempfile::tempdir().unwrap();
    let file = split(&model, folder.path(), 2000);
    let chunks = file.trailer().kinds().len();
    let places = file.trailer().places();
    let all: Vec<&FieldPath> = places.iter().flatten().map(|place| &place.path).collect();
    // Finds a chunk that contains a whole value, with no other chunk inside it.
    let alone = all.iter().find(|path| {
        let below = all
            .iter()
            .filter(|other| other.strip_prefix(path).is_some());
        !path.is_root() && below.count() == 1
    });
    let path = alone.unwrap();
    let got = file.get(path).unwrap();
    let (out, rewritten) = replaced(&file, path, &got).unwrap();
    assert_eq!((rewritten.chunks, rewritten.copied), (chunks, chunks - 1));
    assert!(merged(&out) == model);
    let headers = |file: &File| -> Vec<_> {
        let records = RecordFile::open(file, ReaderOptions::new()).unwrap();
        records
            .chunks()
            .map(|chunk| chunk.unwrap().header.data_hash)
            .collect()
    };
    let (before, after) = (
        headers(file.record_file().get_ref().get_ref().unwrap()),
        headers(&out),
    );
    let kept = before.iter().filter(|hash| after.contains(hash)).count();
    assert!(kept >= chunks, "{kept} of {}", before.len());
}

#[test]
fn what_was_below_a_replaced_value_goes() {
    let habits = Habits::plain(8000);
    let model = message(&kitchen_sink(), &mut Random::new(9), &habits);
    let folder = tempfile::tempdir().unwrap();
    let file = split(&model, folder.path(), 500);
    let places = file.trailer().places();
    let below = |path: &FieldPath| {
        let under = places
            .iter()
            .flatten()
            .filter(|place| place.path.strip_prefix(path).is_some());
        under.count()
    };
    let all = targets(&model);
    let target = all
        .iter()
        .filter(|target| target.is_message)
        .max_by_key(|target| below(&target.path))
        .unwrap();
    assert!(below(&target.path) > 1, "{}", below(&target.path));
    let (out, rewritten) = replaced(&file, &target.path, b"").unwrap();
    assert!(rewritten.chunks <= places.len() + 1 - below(&target.path));
    assert!(merged(&out) == rebuilt(&model, 0, &target.value, b""));
}

#[test]
fn recompressing_changes_nothing_but_how_chunks_are_stored() {
    let habits = Habits::plain(20_000);
    let model = message(&kitchen_sink(), &mut Random::new(6), &habits);
    let folder = tempfile::tempdir().unwrap();
    let file = split(&model, folder.path(), 2000);
    for (text, kind) in [
        ("none", CompressionKind::None),
        ("zstd:9", CompressionKind::Zstd),
        ("brotli:2", CompressionKind::Brotli),
        ("snappy", CompressionKind::Snappy),
    ] {
        let target = tempfile::tempfile().unwrap();
        let compression: ChunkCompression = text.parse().unwrap();
        let options = RewriteOptions::new().compression(compression);
        let rewritten = recompress(&file, &target, &options).unwrap();
        assert_eq!(
            (rewritten.chunks, rewritten.copied),
            (file.trailer().kinds().len(), 0)
        );
        assert!(merged(&target) == model, "{text}");
        let other = ChunkedFile::from_source(&target, &Limits::new()).unwrap();
        let (ours, theirs) = (other.trailer().metadata(), file.trailer().metadata());
        assert_eq!(ours.message, theirs.message);
        assert_eq!(
            (ours.source_size, ours.source_crc32c),
            (theirs.source_size, theirs.source_crc32c)
        );
        let summaries = other.summaries().unwrap();
        assert!(
            summaries
                .iter()
                .all(|chunk| chunk.compression == Some(kind)),
            "{text}"
        );
        let crcs = |file: &proto_splitter::proto::proto_splitter::ChunkMetadata| -> Vec<_> {
            file.chunks
                .iter()
                .map(|chunk| (chunk.size, chunk.crc32c))
                .collect()
        };
        assert_eq!(crcs(ours), crcs(theirs));
    }
}

#[test]
fn what_is_no_chunk_stays_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let habits = Habits::plain(5000);
    let model = message(&kitchen_sink(), &mut Random::new(8), &habits);
    let file = split(&model, folder.path(), 1000);
    // `other` has the same chunks, but also has metadata, and an unrelated record at the start.
    let other = folder.path().join("other.cpb");
    let options = WriterOptions::new().serialized_metadata(b"\x0a\x04type".to_vec());
    let mut writer = RecordWriter::new(File::create(&other).unwrap(), options).unwrap();
    writer
        .write_record_alone(b"somebody's", "none".parse().unwrap())
        .unwrap();
    let mut metadata = file.trailer().metadata().clone();
    for (chunk, info) in metadata.chunks.iter_mut().enumerate() {
        let mut stream = file.stream(chunk).unwrap();
        let written = writer.write_record_from(&mut stream, info.size, "none".parse().unwrap());
        info.offset = written.unwrap().numeric();
    }
    let trailer = prost::Message::encode_to_vec(&metadata);
    writer
        .write_record_alone(&trailer, "none".parse().unwrap())
        .unwrap();
    writer.finish().unwrap();

    let file = ChunkedFile::open(&other).unwrap();
    let target = tempfile::tempfile().unwrap();
    recompress(&file, &target, &RewriteOptions::new()).unwrap();
    assert!(merged(&target) == model);
    let records = RecordFile::open(&target, ReaderOptions::new()).unwrap();
    assert_eq!(records.metadata().unwrap().unwrap(), b"\x0a\x04type"[..]);
    let mut all = Vec::new();
    for chunk in records.chunks().map(Result::unwrap) {
        let decoded = records.read_chunk(chunk.begin()).unwrap();
        all.extend(decoded.records().map(<[u8]>::to_vec));
    }
    assert!(all.contains(&b"somebody's".to_vec()));
}

#[test]
fn what_cannot_be_replaced_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let habits = Habits::plain(5000);
    let model = message(&kitchen_sink(), &mut Random::new(8), &habits);
    let file = split(&model, folder.path(), 1000);
    let failed = |path: &FieldPath, new: &[u8]| replaced(&file, path, new).unwrap_err();
    let whole = failed(&FieldPath::root(), b"");
    assert_eq!(whole.kind(), ErrorKind::InvalidPath);
    assert!(whole.to_string().contains("the whole message"), "{whole}");
    let all = targets(&model);
    for target in &all {
        let wrong: &[u8] = match target.wire {
            WireType::Varint => b"\x80",
            WireType::Fixed32 | WireType::Fixed64 => b"123",
            _ if target.is_message => b"\x0a\xff",
            _ => continue,
        };
        let error = failed(&target.path, wrong);
        assert_eq!(error.kind(), ErrorKind::InvalidMessage, "{error}");
        let plain = replace_plain(&model, &target.path, wrong, &mut Vec::new(), &reading());
        assert_eq!(plain.unwrap_err().kind(), ErrorKind::InvalidMessage);
    }
}
