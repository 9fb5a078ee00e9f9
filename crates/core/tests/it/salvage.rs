//! Tests of recovering the intact parts of damaged files.

use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;
use prost_reflect::prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto};
use proto_splitter_core::container::Profile;
use proto_splitter_core::edit::{Lost, Salvaged, salvage};
use proto_splitter_core::merge::ReadOptions;
use proto_splitter_core::split::{LEAST_MAX_FILE_SIZE, SizeSplitter, SplitExt, SplitOptions};
use record_file::Compression;

/// Returns `count` distinct texts of 300 bytes.
fn texts(of: &str, count: usize) -> impl Iterator<Item = String> {
    (0..count).map(move |number| format!("{of}{number:0>299}"))
}

/// Splits a message into chunks, and into files if `max_file` is given. Returns the paths of the
/// main file and of the others.
fn split(
    message: &FileDescriptorProto,
    folder: &Path,
    max_file: Option<u64>,
) -> (PathBuf, Vec<PathBuf>) {
    let options = SplitOptions::new()
        .max_chunk_size(700)
        .value_chunk_size(None)
        .profile(Profile::Extended)
        .max_file_size(max_file)
        .compression(Compression::None);
    let written = SizeSplitter.write_with(message, folder.join("m"), &options);
    let path = written.unwrap().path;
    let files = fs::read_dir(folder).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let mut others: Vec<_> = files.filter(|file| *file != path).collect();
    others.sort();
    (path, others)
}

fn merged(salvaged: &Salvaged) -> FileDescriptorProto {
    let bytes = salvaged.file.merge_to_bytes(&ReadOptions::new()).unwrap();
    FileDescriptorProto::decode(&bytes[..]).unwrap()
}

fn contains(bytes: &[u8], text: &str) -> bool {
    let mut windows = bytes.windows(text.len());
    windows.any(|window| window == text.as_bytes())
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
    let (path, _) = split(&message, folder.path(), None);
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

#[test]
fn a_missing_file_costs_only_what_it_held_even_if_that_is_of_several_messages() {
    let field = |name| FieldDescriptorProto {
        name: Some(name),
        ..FieldDescriptorProto::default()
    };
    let message_type = ["a", "b", "c", "d", "e"].map(|of| DescriptorProto {
        field: texts(of, 10).map(field).collect(),
        ..DescriptorProto::default()
    });
    let message = FileDescriptorProto {
        message_type: message_type.to_vec(),
        ..FileDescriptorProto::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let (path, others) = split(&message, folder.path(), Some(LEAST_MAX_FILE_SIZE));
    let mut with_several = 0;
    // The first file has the root chunk, without which there is nothing.
    for missing in &others[1..] {
        let held = fs::read(missing).unwrap();
        fs::remove_file(missing).unwrap();
        let salvaged = salvage(&path, &ReadOptions::new()).unwrap();
        let mut lost: Vec<_> = salvaged.lost.iter().map(|loss| &loss.path).collect();
        lost.dedup();
        with_several += usize::from(lost.len() > 1);
        let left = merged(&salvaged);
        assert_eq!(left.message_type.len(), message.message_type.len());
        for (at, (left, was)) in left
            .message_type
            .iter()
            .zip(&message.message_type)
            .enumerate()
        {
            let mut fields = was.field.clone();
            let is_lost = lost
                .iter()
                .any(|path| path.to_string() == format!("4[{at}]"));
            fields.retain(|field| !is_lost && !contains(&held, field.name()));
            assert_eq!(left.field, fields, "{lost:?}");
        }
        fs::write(missing, held).unwrap();
    }
    assert!(with_several > 0);
}
