//! Tests with bundles that TensorFlow 2.21 wrote.

use std::path::Path;

use prost::Message;
use proto_splitter_core::Result;
use proto_splitter_graph_def::proto::DataType;
use proto_splitter_tensor_bundle::{
    Bundle, BundleOptions, TensorLocation, data_path, element_size,
};
use record_file::ReadAt;

use crate::fixture;

#[test]
fn the_variables_of_saved_models_are_listed_and_their_checksums_hold() {
    for (model, name, shape) in [
        (
            "functions_consts",
            "v/.ATTRIBUTES/VARIABLE_VALUE",
            &[300][..],
        ),
        (
            "keras_mlp",
            "_all_variables/0/.ATTRIBUTES/VARIABLE_VALUE",
            &[16, 32],
        ),
        ("tf1_two_metagraphs", "w", &[8, 3]),
    ] {
        let prefix = fixture(model).join("variables/variables");
        let bundle = Bundle::open(&prefix).unwrap();
        let names: Vec<&str> = bundle
            .tensors()
            .iter()
            .map(|tensor| tensor.name())
            .collect();
        assert!(names.is_sorted(), "{model}: {names:?}");
        let verified = bundle.verify(&BundleOptions::new()).unwrap();
        assert_eq!(verified.tensors, names.len() as u64);
        let tensor = bundle
            .find(name)
            .unwrap_or_else(|| panic!("{model}: {names:?}"));
        assert_eq!((tensor.dtype(), tensor.shape()), (DataType::DtFloat, shape));
    }
}

#[test]
fn a_tensor_of_strings_is_read_as_the_strings_it_has() {
    let bundle = Bundle::open(fixture("keras_mlp/variables/variables")).unwrap();
    let graph = bundle.find("_CHECKPOINTABLE_OBJECT_GRAPH").unwrap();
    assert_eq!(
        (graph.dtype(), graph.shape()),
        (DataType::DtString, &[][..])
    );
    let strings = bundle.read_strings(graph).unwrap();
    assert_eq!(strings.len(), 1);
    // The string is a serialized message that begins with field 1, a list of nodes.
    assert_eq!(strings[0][0], 0x0a);
    let () = <() as Message>::decode(strings[0].as_slice()).unwrap();
}

#[test]
fn a_bundle_is_found_by_any_of_its_files() {
    let prefix = fixture("keras_mlp/variables/variables");
    for suffix in ["", ".index", ".data-00000-of-00001"] {
        let path = format!("{}{suffix}", prefix.display());
        assert_eq!(Bundle::open(path).unwrap().prefix(), prefix);
    }
}

/// Opens a bundle with two sliced tensors, which two `SaveV2` ops wrote and TensorFlow then merged.
/// TensorFlow 2.21 reads the numbers from 0 to 59 from both tensors.
fn in_slices() -> Bundle {
    Bundle::open(fixture("../checkpoints/checkpoint")).unwrap()
}

#[test]
fn slices_in_several_files_are_read_as_the_whole_tensor() {
    let bundle = in_slices();
    assert_eq!(bundle.num_shards(), 2);
    let numbers: Vec<u8> = (0u16..60)
        .flat_map(|number| f32::from(number).to_le_bytes())
        .collect();
    for (name, slices) in [("sliced/rows", 2), ("sliced/columns", 4)] {
        let tensor = bundle.find(name).unwrap();
        let TensorLocation::Slices(found) = tensor.location() else {
            panic!("{name} is in one piece");
        };
        assert_eq!((found.len(), tensor.shape()), (slices, &[5, 4, 3][..]));
        assert_eq!(bundle.read(tensor).unwrap(), numbers, "{name}");
        // Reads byte ranges of different lengths, from every offset.
        let reader = bundle.reader(tensor).unwrap();
        for start in 0..numbers.len() {
            let len = (start % 23).min(numbers.len() - start);
            let mut some = vec![0; len];
            reader.read_exact_at(start as u64, &mut some).unwrap();
            assert_eq!(some, numbers[start..start + len], "{name} {start}");
        }
    }
}

#[test]
fn tensors_of_every_kind_are_listed_and_their_checksums_hold() {
    let bundle = in_slices();
    let found: Vec<(&str, DataType, &[u64])> = bundle
        .tensors()
        .iter()
        .map(|tensor| (tensor.name(), tensor.dtype(), tensor.shape()))
        .collect();
    assert_eq!(
        found,
        [
            ("empty", DataType::DtInt32, &[0, 3][..]),
            ("half", DataType::DtHalf, &[2]),
            ("scalar", DataType::DtInt64, &[]),
            ("sliced/columns", DataType::DtFloat, &[5, 4, 3]),
            ("sliced/rows", DataType::DtFloat, &[5, 4, 3]),
            ("strings", DataType::DtString, &[2, 3]),
            ("variant", DataType::DtVariant, &[]),
        ]
    );
    assert_eq!(bundle.verify(&BundleOptions::new()).unwrap().tensors, 7);
    let strings = bundle
        .read_strings(bundle.find("strings").unwrap())
        .unwrap();
    let long = "x".repeat(300);
    let expected = ["one", "", "three", long.as_str(), "five"].map(|text| text.as_bytes().to_vec());
    assert_eq!(strings[..5], expected);
    assert_eq!(strings[5], "\u{ff}".as_bytes());
}

/// Opens the checkpoint in `folder`, and reads all of its bytes. `way` is 0 to verify the bundle, 1
/// to read whole tensors, or the size of the pieces to read.
fn read_all(folder: &Path, way: usize) -> Result<()> {
    let bundle = Bundle::open(folder.join("checkpoint"))?;
    if way == 0 {
        return bundle.verify(&BundleOptions::new()).map(drop);
    }
    for tensor in bundle.tensors() {
        if way == 1 {
            bundle.read(tensor)?;
            continue;
        }
        // Reads each tensor in pieces, and backwards if its elements have a fixed size.
        let reader = bundle.reader(tensor)?;
        let mut places: Vec<u64> = (0..reader.len()).step_by(way).collect();
        if element_size(tensor.dtype()).is_some() {
            places.reverse();
        }
        for at in places {
            let len = usize::try_from(reader.len() - at).unwrap().min(way);
            reader.read_exact_at(at, &mut vec![0; len])?;
        }
    }
    Ok(())
}

#[test]
fn a_byte_changed_in_any_kind_of_tensor_is_found_however_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let source = fixture("../checkpoints");
    for file in std::fs::read_dir(&source).unwrap() {
        let path = file.unwrap().path();
        std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    let ways = [0, 1, 5, 7, 64];
    for way in ways {
        read_all(folder.path(), way).unwrap();
    }
    for shard in 0..2 {
        let name = format!("checkpoint.data-0000{shard}-of-00002");
        let path = folder.path().join(&name);
        let good = std::fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            std::fs::write(&path, bad).unwrap();
            for way in ways {
                let error = read_all(folder.path(), way).unwrap_err();
                assert!(error.path().is_some(), "{name} {at} {way}: {error}");
                assert!(error.offset().is_some(), "{name} {at} {way}: {error}");
                assert!(error.to_string().contains(&name), "{at} {way}: {error}");
            }
        }
        std::fs::write(&path, good).unwrap();
    }
}

#[test]
fn a_part_of_a_damaged_tensor_is_read_without_its_checksum() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("b");
    crate::small_bundle(&prefix);
    let path = data_path(&prefix, 0, 1);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[40] ^= 1;
    std::fs::write(path, bytes).unwrap();
    let bundle = Bundle::open(&prefix).unwrap();
    let kernel = bundle.find("layer/kernel").unwrap();
    let reader = bundle.reader(kernel).unwrap();
    let mut some = [0; 40];
    reader.read_exact_at(0, &mut some).unwrap();
    // Together with the previous read, this read covers all bytes, so the checksum is compared.
    let error = reader.read_exact_at(40, &mut [0; 8]).unwrap_err();
    assert!(error.to_string().contains("the crc32c of 48 bytes"));
    // After the error, the reader starts over. The next tensor is intact.
    reader.read_exact_at(40, &mut [0; 8]).unwrap();
    let steps = bundle.find("layer/steps").unwrap();
    assert_eq!(bundle.read(steps).unwrap().len(), 48);
}
