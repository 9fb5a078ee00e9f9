//! Tests that unknown fields in tensors' descriptions, which Paddle ignores, survive a round trip.

use std::fs;
use std::path::Path;

use proto_splitter_core::ErrorKind;
use proto_splitter_core::merge::Merger;
use proto_splitter_core::split::{SplitExt, SplitOptions};
use proto_splitter_paddle::stream::Layout;
use proto_splitter_paddle::{
    Arrangement, ModelSplitter, PaddleModel, PaddleWriteOptions, convert, write_model,
};

const DATA: [u8; 3] = [7, 8, 9];

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// Returns an encoded field of each wire type with this number, each with a flag that is true for a
/// group.
fn fields(number: u64) -> [(bool, Vec<u8>); 5] {
    let field = |wire: u64, value: &[u8]| [varint(number << 3 | wire), value.to_vec()].concat();
    let group = [&[8, 1][..], &varint(number << 3 | 4)].concat();
    [
        (false, field(0, &[0x85, 0x80, 0])),
        (false, field(1, &[1, 2, 3, 4, 5, 6, 7, 8])),
        (false, field(2, &[3, 100, 101, 102])),
        (true, field(3, &group)),
        (false, field(5, &[1, 2, 3, 4])),
    ]
}

/// Returns the stream of a three-byte tensor that has this serialized description.
fn stream(desc: &[u8]) -> Vec<u8> {
    let size = u32::try_from(desc.len()).unwrap().to_le_bytes();
    [&[0; 16][..], &size, desc, &DATA].concat()
}

fn in_one(folder: &Path) -> Vec<u8> {
    fs::read(folder.join("w.pdiparams")).unwrap()
}

#[test]
fn a_field_that_is_not_known_comes_back_or_is_refused_before_anything_is_written() {
    let (dtype, dims) = ([8, 20], [16, 3]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.pdiparams");
    let open = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        PaddleModel::open(&path).unwrap()
    };
    let first = stream(&[&dtype[..], &dims].concat());
    let (mut kept, mut all, mut refused) = (0, first.clone(), 0);
    for number in [1, 2, 3, 15, 16, 99, 100, 101, 5000, (1 << 29) - 1] {
        for (wire, (is_group, unknown)) in fields(number).into_iter().enumerate() {
            // In a description, fields with these numbers and wire types have a meaning.
            if number == 1 && wire == 0 || number == 2 && matches!(wire, 0 | 2) {
                continue;
            }
            for (desc, at) in [
                ([&unknown[..], &dtype, &dims].concat(), 0),
                ([&dtype[..], &unknown, &dims].concat(), 2),
                ([&dtype[..], &dims, &unknown].concat(), 4),
            ] {
                if !is_group && number != 100 {
                    all.extend(stream(&desc));
                    kept += 1;
                    continue;
                }
                let model = open(&[&first[..], &stream(&desc)].concat());
                let error = model.source().unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidMessage);
                let line = error.to_string();
                let front = format!(
                    "{}: tensor 1: the tensor's description has field {number}, ",
                    path.display()
                );
                assert!(line.starts_with(&front), "{wire} {at}: {line}");
                // The description begins at offset 20 of the stream.
                let offset = format!(" at 0x{:x}", first.len() + 20 + at);
                assert!(line.ends_with(&offset), "{wire} {at}: {line}");
                refused += 1;
            }
        }
    }
    assert_eq!((kept, refused), (99, 42));
    comes_back(&open(&all), folder.path(), &all);
}

/// Converts a model to a chunked file, to a plain message, and to the sized layout. Checks that
/// each converts back to `bytes`.
fn comes_back(model: &PaddleModel, folder: &Path, bytes: &[u8]) {
    let path = |name: &str| folder.join(name);
    for size in [64, 1 << 20] {
        let options = SplitOptions::new().max_chunk_size(size).force(true);
        let written = ModelSplitter
            .write_with(model.source().unwrap(), path("m"), &options)
            .unwrap();
        assert!(written.byte_exact);
        let back = path(&format!("back{size}"));
        write_model(&written.path, &back, &PaddleWriteOptions::new()).unwrap();
        assert_eq!(in_one(&back), bytes, "{size}");
        let plain = path("plain");
        fs::write(&plain, Merger::new().merge_to_bytes(path("m")).unwrap()).unwrap();
        let back = path(&format!("of-plain{size}"));
        write_model(&plain, &back, &PaddleWriteOptions::new()).unwrap();
        assert_eq!(in_one(&back), bytes, "{size}");
    }
    let to = |layout| PaddleWriteOptions::new().arrangement(Arrangement::Combined(layout));
    convert(model, path("sized"), &to(Layout::Sized)).unwrap();
    let sized = PaddleModel::open(path("sized").join("w.pdiparams")).unwrap();
    convert(&sized, path("again"), &to(Layout::Paddle)).unwrap();
    assert_eq!(in_one(&path("again")), bytes);
}

#[test]
fn a_field_of_a_description_that_comes_after_the_data_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let around = |tag: u8, content: &[u8]| {
        let size = u8::try_from(content.len()).unwrap();
        [&[tag, size][..], content].concat()
    };
    // Returns a model whose only parameter is a tensor of three bytes with `last` after its data.
    let model = |last: &[u8]| {
        let data = [&[0xa2, 6, 3][..], &DATA].concat();
        let tensor = [&[8, 20, 16, 3][..], &data, last].concat();
        let parameter = [around(10, b"w"), around(50, &tensor)].concat();
        let file = [around(10, b"w.pdiparams"), around(34, &parameter)].concat();
        around(34, &file)
    };
    let write = |last: &[u8]| {
        fs::write(path("m.pb"), model(last)).unwrap();
        write_model(path("m.pb"), path("to"), &PaddleWriteOptions::new())
    };
    for number in [1, 2, 5, 101, 5000] {
        for (_, last) in fields(number).into_iter().filter(|(is_group, _)| !is_group) {
            let error = write(&last).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidMessage, "{error}");
            let line = error.to_string();
            let said = format!("field {number} comes after field 100: ");
            assert!(line.contains(&said), "{line}");
            assert!(!path("to").exists());
        }
    }
    write(&[]).unwrap();
    assert_eq!(in_one(&path("to")), stream(&[8, 20, 16, 3]));
}
