//! Tests of recovering the intact parts of damaged files.

use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;
use prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto};
use proto_splitter_core::container::Profile;
use proto_splitter_core::edit::{Lost, Salvaged, salvage};
use proto_splitter_core::merge::ReadOptions;
use proto_splitter_core::split::{SizeSplitter, SplitExt, SplitOptions};
use record_file::Compression;

/// Returns `count` distinct texts of 300 bytes.
fn texts(of: &str, count: usize) -> impl Iterator<Item = String> {
    (0..count).map(move |number| format!("{of}{number:0>299}"))
}

/// Splits a message into chunks. Returns the path of the file.
fn split(message: &FileDescriptorProto, folder: &Path) -> PathBuf {
    let options = SplitOptions::new()
        .max_chunk_size(700)
        .value_chunk_size(None)
        .profile(Profile::Extended)
        .compression(Compression::None);
    let written = SizeSplitter.write_with(message, folder.join("m"), &options);
    written.unwrap().path
}

fn merged(salvaged: &Salvaged) -> FileDescriptorProto {
    let bytes = salvaged.file.merge_to_bytes(&ReadOptions::new()).unwrap();
    FileDescriptorProto::decode(&bytes[..]).unwrap()
}

#[test]
fn damaged_slices_of_two_fields_of_a_message_cost_those_slices_alone() {
    let names = |texts: &mut dyn Iterator<Item = String>| -> Vec<DescriptorProto> {
        let message = |name| DescriptorProto {
            name: Some(name),
            ..DescriptorProto::default()
        };
        texts.map(message).collect()
    };
    let (dependency, message_type): (Vec<_>, _) =
        (texts("d", 30).collect(), names(&mut texts("m", 30)));
    let message = FileDescriptorProto {
        dependency,
        message_type,
        ..FileDescriptorProto::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = split(&message, folder.path());
    let mut bytes = fs::read(&path).unwrap();
    for of in ["d", "m"] {
        let text = texts(of, 16).last().unwrap();
        let mut windows = bytes.windows(text.len());
        let at = windows.position(|window| window == text.as_bytes());
        bytes[at.unwrap()] ^= 1;
    }
    fs::write(&path, bytes).unwrap();
    let salvaged = salvage(&path, &ReadOptions::new()).unwrap();
    let lost = salvaged.lost.iter();
    let lost: Vec<_> = lost
        .map(|loss| (loss.path.to_string(), loss.what))
        .collect();
    let expected = ["3", "4"].map(|path| (path.to_owned(), Lost::Elements));
    assert_eq!(lost, expected);
    let left = merged(&salvaged);
    // A slice has two elements.
    let mut expected = message;
    expected
        .dependency
        .retain(|text| left.dependency.contains(text));
    expected
        .message_type
        .retain(|one| left.message_type.contains(one));
    assert_eq!(left, expected);
    assert_eq!((left.dependency.len(), left.message_type.len()), (28, 28));
}
