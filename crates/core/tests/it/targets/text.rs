//! Fuzz targets for schemas, for paths as text and as tags, and for messages of a known type.

use prost_reflect::prost::Message;
use prost_reflect::prost_types::FileDescriptorSet;
use proto_splitter_core::ChunkedFile;
use proto_splitter_core::compare::{Comparison, compare};
use proto_splitter_core::merge::Merger;
use proto_splitter_core::path::{FieldPath, PathQuery};
use proto_splitter_core::proto::ChunkedField;
use proto_splitter_core::schema::decode_descriptor_set;
use proto_splitter_core::split::{SizeSplitter, Source, SplitExt, SplitOptions};
use proto_splitter_core::view::MessageView;
use proto_splitter_core::view::size_tree::{TreeOptions, measure};
use record_file::{RecordWriter, WriterOptions};

use super::{limits, options};
use crate::merge_support::random::Random;
use crate::merge_support::schema::descriptor;
use crate::merge_support::{int, len, sample};

/// Tests a descriptor set, and the same bytes as the metadata of a chunked file.
pub(super) fn schema(data: &[u8]) {
    if let Ok(pool) = decode_descriptor_set(data) {
        for message in pool.all_messages().take(4) {
            let bytes = int(1, 1);
            let options = options()[0].clone().descriptor(message);
            let view = MessageView::of_plain(&bytes, options).unwrap();
            let _ = measure(&view, &FieldPath::root(), &TreeOptions::new());
        }
    }
    let options = WriterOptions::new().serialized_metadata(data.to_vec());
    let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
    let mut metadata = sample().metadata;
    for (info, chunk) in metadata.chunks.iter_mut().zip(&sample().chunks) {
        writer.write_record(chunk).unwrap();
        info.offset = writer.last_position().unwrap().numeric();
    }
    writer.write_record(&metadata.encode_to_vec()).unwrap();
    let file = ChunkedFile::from_source(writer.finish().unwrap(), &limits()).unwrap();
    let _ = (file.schema(), file.descriptor());
}

/// Tests paths as text, with and without a type, and as tags.
pub(super) fn path(data: &[u8]) {
    if let Ok(field) = ChunkedField::decode(data)
        && let Ok(path) = FieldPath::from_tags(&field.field_tag)
    {
        assert_eq!(FieldPath::from_tags(&path.to_tags()).unwrap(), path);
        let _ = path.resolve(&descriptor());
        let _ = path.display(Some(&descriptor()));
    }
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(path) = text.parse::<FieldPath>() {
        let again: FieldPath = path.to_string().parse().unwrap();
        assert_eq!(again, path);
    }
    if let Ok(path) = FieldPath::parse(text, &descriptor()) {
        let shown = path.display(Some(&descriptor()));
        assert_eq!(
            FieldPath::parse(&shown, &descriptor()).unwrap(),
            path,
            "{shown}"
        );
    }
    for root in [None, Some(descriptor())] {
        if let Ok(query) = PathQuery::parse(text, root.as_ref()) {
            let again = PathQuery::parse(query.as_str(), root.as_ref()).unwrap();
            assert_eq!(again.as_path(), query.as_path());
        }
    }
}

/// Tests a message: measures the message, compares it with itself, splits it, and checks that the
/// chunks merge to the same message.
pub(super) fn message(data: &[u8]) {
    let data = data.to_vec();
    for options in options() {
        let view = MessageView::of_plain(&data, options).unwrap();
        if let Ok(tree) = measure(&view, &FieldPath::root(), &TreeOptions::new()) {
            assert_eq!(tree.root.size, data.len() as u64);
        }
        if let Ok(found) = compare(&view, &view, 3) {
            assert!(matches!(found, Comparison::Identical | Comparison::Equal));
        }
        for path in ["9.9.7", "10[1].8", "37[0]"] {
            let _ = view.get(&path.parse().unwrap());
        }
    }
    for most in [40, 300] {
        let options = SplitOptions::new().max_chunk_size(most);
        let source = Source::from_bytes(data.clone(), descriptor());
        let Ok(split) = SizeSplitter.split_with(source, &options) else {
            continue;
        };
        let with = super::options()[0].clone();
        let merged = Merger::new()
            .options(&with)
            .merge(&split.bytes(), &split.metadata)
            .unwrap();
        if split.metadata.byte_exact {
            assert!(merged == data);
        }
        let source = Source::from_bytes(data.clone(), descriptor());
        let mut file = Vec::new();
        let options = options.merkle_root(true).always_chunked(true);
        SizeSplitter
            .write_to_with(source, &mut file, &options)
            .unwrap();
        rooted(file, &merged);
    }
}

/// Tests a file with a Merkle root: the file matches its root and merges to the message, and if one
/// bit is changed, a merge that requires the root fails or returns the same message.
fn rooted(mut bytes: Vec<u8>, message: &[u8]) {
    let open = |bytes: &[u8]| ChunkedFile::from_source(bytes.to_vec(), &limits());
    let file = open(&bytes).unwrap();
    let root = file.trailer().merkle_root().unwrap().unwrap();
    let problems = file.verify_against(&root, &options()[0]).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    file.require_root(&root).unwrap();
    assert!(file.merge_to_bytes(&options()[0]).unwrap().to_vec() == message);

    let bit = u64::from(crc32c::crc32c(message)) % (bytes.len() as u64 * 8);
    bytes[usize::try_from(bit / 8).unwrap()] ^= 1 << (bit % 8);
    let Ok(changed) = open(&bytes) else { return };
    let _ = changed.verify_against(&root, &options()[0]);
    if changed.require_root(&root).is_ok()
        && let Ok(merged) = changed.merge_to_bytes(&options()[0])
    {
        assert!(merged.to_vec() == message);
    }
}

pub(super) fn schema_seeds() -> Vec<Vec<u8>> {
    let file = descriptor().parent_file().file_descriptor_proto().clone();
    let set = FileDescriptorSet { file: vec![file] }.encode_to_vec();
    let metadata = [len(4, "t.T"), len(5, &set[2..])].concat();
    let imports = |name: u8| len(1, [len(1, [name]), len(3, [name + 1])].concat());
    vec![
        set,
        metadata,
        (b'a'..b'k').rev().flat_map(imports).collect(),
    ]
}

pub(super) fn path_seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = [
        "9.10[0].13[\"k\"].8",
        "m.r[1].ms[\"a\\n\"].y",
        "r[*].s",
        "r[s=\"x\"].m",
        "r[-1]",
        "14[3]",
        "mb[true].on",
        "ms['k'].g",
        "16[3].33",
    ]
    .map(Into::into)
    .into();
    for seed in 0..20 {
        let (chunked, _) = super::file_from(&mut Random::of_seed(seed));
        let fields = chunked.metadata.message.unwrap().chunked_fields;
        seeds.extend(fields.first().map(Message::encode_to_vec));
    }
    seeds
}
