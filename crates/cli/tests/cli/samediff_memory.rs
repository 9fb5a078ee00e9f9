//! Tests for the memory that commands use for SameDiff models, whose arrays are larger than the
//! limit.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use proto_splitter_testkit::memory::watch;
use serde_json::json;

const MIB: u64 = 1 << 20;

/// Limit on anonymous memory, in bytes.
const MOST: u64 = 64 * MIB;

/// Size of each array in a file, in bytes. Arrays are holes in the file, except for the last byte.
const ARRAY: u64 = 96 * MIB;

/// Writes a safetensors file with two tensors. `last` is the last byte of the second tensor.
fn tensors(path: &Path, last: u8) {
    let tensor =
        |from: u64| json!({"dtype": "U8", "shape": [ARRAY], "data_offsets": [from, from + ARRAY]});
    let header = json!({"a": tensor(0), "b": tensor(ARRAY)}).to_string();
    let mut file = File::create(path).unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes())
        .unwrap();
    file.write_all(header.as_bytes()).unwrap();
    let end = 8 + header.len() as u64 + 2 * ARRAY;
    file.set_len(end - 1).unwrap();
    std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).unwrap();
    file.write_all(&[last]).unwrap();
}

#[test]
fn models_are_made_edited_and_converted_without_holding_an_array() {
    let folder = tempfile::tempdir().unwrap();
    tensors(&folder.path().join("first.safetensors"), 1);
    tensors(&folder.path().join("second.safetensors"), 2);
    for arguments in [
        "samediff add first.safetensors --tag first -o model.zip",
        "samediff add second.safetensors --tag second --onto model.zip -o model.zip --force",
        "verify model.zip",
        "samediff extract model.zip second -o second.zip",
        "diff model.zip model.zip",
        "convert second.zip -o second.fb --to fb",
        "convert second.fb -o second.zip --to samediff --force",
        "get second.zip a -o a --force",
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_protosplit"));
        let command = command
            .args(arguments.split(' '))
            .current_dir(folder.path());
        let (status, peak) = watch(command).unwrap();
        assert!(status.success(), "{arguments}");
        assert!(peak.anonymous > 0, "nothing was seen of {arguments}");
        assert!(peak.anonymous <= MOST, "{arguments}: {peak:?}");
    }
    let size = |name: &str| folder.path().join(name).metadata().unwrap().len();
    // The model contains three arrays, since both checkpoints share one.
    assert_eq!(size("model.zip") / ARRAY, 3);
    assert_eq!(size("a"), ARRAY);
}
