//! Tests that damage to the stored data of an original, or to the model next to it, is detected.

use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;
use proto_splitter_core::formats::{Checks, OpenOptions, Registry, Verified};
use proto_splitter_core::{ErrorKind, Result};
use proto_splitter_externalize::{
    ExternalizePlan, ExternalizedFormat, RECORD_FILE, finish_in_place, internalize,
};
use proto_splitter_graph_def::proto::{DataType, TensorProto};
use proto_splitter_saved_model::proto::SavedModel;
use proto_splitter_saved_model::{SaveOptions, SavedModelDir};

use crate::models::{constant, constant_of, model, shape};
use crate::{files, fixture, options, write_model};

static FORMATS: Registry = Registry::new(&[&ExternalizedFormat]);

fn verify(folder: &Path) -> Result<Verified> {
    FORMATS.open(folder, &OpenOptions::new())?.verify()
}

/// Returns a model with a constant in each encoding, and the folder to which it was externalized.
fn externalized(folder: &Path, mapped: bool) -> (SavedModel, PathBuf) {
    let ints = TensorProto {
        dtype: DataType::DtInt32.into(),
        tensor_shape: shape(&[1000]),
        int_val: (-500..500).map(|at| at * 4_000_000).collect(),
        ..TensorProto::default()
    };
    let nodes = vec![
        constant("a", 1),
        constant_of("ints", ints),
        constant("b", 2),
    ];
    let model = model(nodes, Vec::new());
    let path = write_model(folder, &model);
    let out = folder.join("out");
    let plan = ExternalizePlan::new(&path, &options().mapped(mapped)).unwrap();
    assert_eq!(plan.constants().len(), 3);
    plan.write(&out).unwrap();
    (model, out)
}

/// Flips a bit in a file, checks that `internalize` and `verify` refuse the folder, and returns
/// their errors.
fn refused(out: &Path, file: &str, at: usize, bit: u8) -> [String; 2] {
    let path = out.join(file);
    let good = fs::read(&path).unwrap();
    let mut bad = good.clone();
    bad[at] ^= 1 << bit;
    fs::write(&path, bad).unwrap();
    let back = out.with_file_name("back");
    let errors = [
        internalize(out, &back, &options()).map(drop),
        verify(out).map(drop),
    ];
    fs::write(&path, good).unwrap();
    assert!(!back.exists(), "{file} {at} {bit}");
    errors.map(|result| match result {
        Ok(()) => panic!("{file} {at} {bit}: not noticed"),
        Err(error) => error.to_string(),
    })
}

#[test]
fn no_bit_of_what_was_kept_of_an_original_is_flipped_unnoticed() {
    for mapped in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (_, out) = externalized(folder.path(), mapped);
        assert_eq!(verify(&out).unwrap().checks, Checks::Checksums);
        let len = fs::metadata(out.join(RECORD_FILE)).unwrap().len();
        let len = usize::try_from(len).unwrap();
        for at in 0..len {
            // Flips all bits of the record's version and checksum.
            let is_end = at < 4 || at + 6 > len;
            for bit in (0..8).filter(|bit| is_end || usize::from(*bit) == at % 8) {
                for error in refused(&out, RECORD_FILE, at, bit) {
                    assert!(error.contains(RECORD_FILE), "{at} {bit}: {error}");
                }
            }
        }
    }
}

#[test]
fn no_bit_of_a_constant_is_flipped_unnoticed() {
    for (mapped, kept) in [(false, ".data-"), (true, "proto_splitter_mapped/")] {
        let folder = tempfile::tempdir().unwrap();
        let (_, out) = externalized(folder.path(), mapped);
        let kept: Vec<String> = files(&out)
            .into_iter()
            .filter(|file| file.contains(kept))
            .collect();
        assert_eq!(kept.len(), if mapped { 3 } else { 1 });
        for file in kept {
            let len = fs::metadata(out.join(&file)).unwrap().len();
            let len = usize::try_from(len).unwrap();
            for at in (0..len).step_by(61).chain([len - 1]) {
                let bit = u8::try_from(at % 8).unwrap();
                for error in refused(&out, &file, at, bit) {
                    // If a constant is encoded as varints, the error names the constant instead of
                    // the file.
                    let named = error.contains(&file) && error.contains(" at 0x");
                    assert!(named || error.contains("the constant"), "{at}: {error}");
                }
            }
        }
    }
}

#[cfg(unix)]
#[test]
fn a_record_or_a_model_that_is_not_a_regular_file_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let (_, out) = externalized(folder.path(), false);
    // A device reports a size of 0, however many bytes it has.
    let replace = |file: &str| {
        fs::remove_file(out.join(file)).unwrap();
        std::os::unix::fs::symlink("/dev/null", out.join(file)).unwrap();
        internalize(&out, folder.path().join("back"), &options()).unwrap_err()
    };
    let error = replace("saved_model.pb").to_string();
    assert!(error.contains("not a regular file"), "{error}");
    let error = replace(RECORD_FILE).to_string();
    assert!(error.contains("not a regular file"), "{error}");
    assert!(error.contains(RECORD_FILE), "{error}");
}

/// A record in the version without checksums.
#[derive(Clone, PartialEq, Message)]
struct Old {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(uint64, tag = "2")]
    size: u64,
    #[prost(bytes = "vec", tag = "3")]
    model: Vec<u8>,
    #[prost(message, repeated, tag = "4")]
    pieces: Vec<OldPiece>,
    #[prost(bool, tag = "5")]
    mapped: bool,
}

#[derive(Clone, PartialEq, Message)]
struct OldPiece {
    #[prost(bytes = "vec", tag = "1")]
    literal: Vec<u8>,
    #[prost(string, tag = "2")]
    content: String,
    #[prost(uint32, tag = "3")]
    width: u32,
    #[prost(bool, tag = "4")]
    signed: bool,
}

#[test]
fn a_folder_from_before_there_were_checksums_is_taken_and_says_so() {
    for (mapped, checks) in [(false, Checks::Checksums), (true, Checks::Structure)] {
        let folder = tempfile::tempdir().unwrap();
        let (model, out) = externalized(folder.path(), mapped);
        assert_eq!(verify(&out).unwrap().warnings, [""; 0]);
        let path = out.join(RECORD_FILE);
        let mut record = Old::decode(&*fs::read(&path).unwrap()).unwrap();
        record.version = 1;
        fs::write(&path, record.encode_to_vec()).unwrap();
        let verified = verify(&out).unwrap();
        assert_eq!(verified.checks, checks);
        let [warning] = &verified.warnings[..] else {
            panic!("{:?}", verified.warnings);
        };
        assert!(warning.contains(RECORD_FILE), "{warning}");
        let back = folder.path().join("back");
        internalize(&out, &back, &options()).unwrap();
        assert_eq!(crate::read_model(&back), model);
        // The checksums are removed, since a record in the old version can't have them.
        let mut bytes = record.encode_to_vec();
        bytes.extend([6 << 3 | 5, 0, 0, 0, 0]);
        fs::write(&path, bytes).unwrap();
        let error = verify(&out).unwrap_err();
        assert!(error.to_string().contains("which came with version 2"));
    }
}

#[test]
fn a_bundle_that_is_sound_and_has_other_bytes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (_, out) = externalized(folder.path(), false);
    let prefix = out.join("assets/proto_splitter_constants");
    let bundle = proto_splitter_tensor_bundle::Bundle::open(&prefix).unwrap();
    let tensors: Vec<_> = bundle.tensors().to_vec();
    let zeros: Vec<Vec<u8>> = tensors
        .iter()
        .map(|tensor| vec![0; usize::try_from(tensor.size()).unwrap()])
        .collect();
    let new = tensors.iter().zip(&zeros).map(|(tensor, zeros)| {
        let (name, shape) = (tensor.name(), tensor.shape().to_vec());
        proto_splitter_tensor_bundle::NewTensor::new(name, tensor.dtype(), shape, zeros)
    });
    let plan = proto_splitter_tensor_bundle::BundlePlan::new(new.collect(), 1).unwrap();
    let force = proto_splitter_tensor_bundle::BundleOptions::new().force(true);
    plan.write(&prefix, &force).unwrap();
    let error = internalize(&out, folder.path().join("back"), &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChecksumMismatch, "{error}");
    assert!(error.to_string().contains("the constant"), "{error}");
    assert_eq!(
        verify(&out).unwrap_err().kind(),
        ErrorKind::ChecksumMismatch
    );
}

#[test]
fn what_an_interrupted_run_in_place_left_to_do_is_done_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("place");
    let split = proto_splitter_core::split::SplitOptions::new().max_chunk_size(20 << 10);
    let save = SaveOptions::new().split(split);
    let dir = SavedModelDir::open(fixture("functions_consts")).unwrap();
    dir.save_as_chunked(&place, &save).unwrap();
    // The model isn't externalized yet.
    assert!(finish_in_place(&place, &options()).unwrap().is_none());
    let old = fs::read(place.join("fingerprint.pb")).unwrap();
    let plan = ExternalizePlan::new(&place, &options()).unwrap();
    let written = plan.write_in_place().unwrap();
    let whole = files(&place);
    let new = fs::read(place.join("fingerprint.pb")).unwrap();
    assert_ne!(old, new);
    fs::write(place.join("fingerprint.pb"), old).unwrap();
    for _ in 0..2 {
        let done = finish_in_place(&place, &options()).unwrap().unwrap();
        assert_eq!(
            (done.model_size, done.stored, done.message_size),
            (written.model_size, written.stored, written.message_size)
        );
        assert!(fs::read(place.join("fingerprint.pb")).unwrap() == new);
        assert_eq!(files(&place), whole);
    }
    // With mapped constants, the result would be a different model.
    let mapped = options().mapped(true);
    assert!(finish_in_place(&place, &mapped).unwrap().is_none());
}
