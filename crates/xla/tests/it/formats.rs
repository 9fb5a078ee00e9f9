//! Modules and executables as inputs of any verb.

use std::io::Write;
use std::sync::Arc;

use proto_splitter_core::ErrorKind;
use proto_splitter_core::formats::{Candidate, OpenOptions, Registry};
use proto_splitter_xla::{
    EXECUTABLE_AND_OPTIONS, GPU_EXECUTABLE, HLO_PROTO, SplitProto, XlaFormat,
};

use crate::fixtures::{decoded, expected, merged, path, read};

static FORMATS: Registry = Registry::new(&[&XlaFormat]);

const AOT: &str = "aot/jax01201_cuda_h100_cond.aot";

#[test]
fn dumps_are_opened_with_their_type() {
    for name in [
        "jax01201_matmul_before.riegeli",
        "jax01201_matmul_before.hlo.pb",
    ] {
        let opened = FORMATS.open(path(name), &OpenOptions::new()).unwrap();
        let descriptor = opened.descriptor().unwrap();
        assert_eq!(descriptor.full_name(), HLO_PROTO, "{name}");
        assert_eq!(
            opened.get("hlo_module.name").unwrap(),
            "jit__lambda",
            "{name}"
        );
        let names = opened.get(r#"hlo_module.computations[0].instructions[0].name"#);
        assert!(!names.unwrap().is_empty());
        assert!(opened.verify().unwrap().warnings.is_empty());
    }
}

#[test]
fn executables_are_opened_through_what_is_around_them() {
    for (name, known) in expected("aot/expected.json") {
        let name = format!("aot/{name}");
        let opened = FORMATS.open(path(&name), &OpenOptions::new()).unwrap();
        assert_eq!(
            opened.descriptor().unwrap().full_name(),
            EXECUTABLE_AND_OPTIONS
        );
        let outer = opened.bytes().unwrap();
        let size = known["executable_and_options"]["merged_size"]
            .as_u64()
            .unwrap();
        assert_eq!(outer.len() as u64, size, "{name}");
        let layers = opened.archive().unwrap().properties().unwrap();
        assert!(
            layers[0].1.contains("IFRT metadata (pjrt_ifrt)"),
            "{layers:?}"
        );

        let inner = opened.get("serialized_executable").unwrap();
        let split = SplitProto::open(Arc::new(inner), None).unwrap();
        assert_eq!(split.manifest().message_type(), GPU_EXECUTABLE);
        let size = known["serialized_executable"]["merged_size"]
            .as_u64()
            .unwrap();
        let message = merged(&split).unwrap();
        // Empty overrides are written out.
        let empty = [3, 4].iter().filter(|number| {
            let kind = format!("override {number}");
            let records = known["serialized_executable"]["records"]
                .as_array()
                .unwrap();
            records
                .iter()
                .any(|record| record["kind"] == *kind && record["size"] == 0)
        });
        assert_eq!(
            message.len(),
            usize::try_from(size).unwrap() + 2 * empty.count()
        );
        assert!(decoded(GPU_EXECUTABLE, &message).has_field_by_name("thunks"));
    }
}

#[test]
fn entries_of_a_compilation_cache_are_opened() {
    let folder = tempfile::tempdir().unwrap();
    let inside = [&[0, 0, 1, 2], &read(AOT)[..]].concat();
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    zlib.write_all(&inside).unwrap();
    for (name, bytes) in [
        ("zstd", zstd::encode_all(&inside[..], 3).unwrap()),
        ("zlib", zlib.finish().unwrap()),
    ] {
        let path = folder.path().join(format!("jit_f-{name}-cache"));
        std::fs::write(&path, bytes).unwrap();
        let opened = FORMATS.open(&path, &OpenOptions::new()).unwrap();
        let expected = FORMATS
            .open(crate::fixtures::path(AOT), &OpenOptions::new())
            .unwrap();
        assert_eq!(opened.bytes().unwrap(), expected.bytes().unwrap());
        let layers = opened.archive().unwrap().properties().unwrap();
        assert!(
            layers[0].1.contains(name) && layers[1].1.contains("258"),
            "{layers:?}"
        );
    }
}

#[test]
fn what_xla_left_when_it_gave_up_is_named() {
    for (name, bytes, said) in [
        ("m.riegeli", &b""[..], "a computation has more than 2 GiB"),
        (
            "m.hlo.pb",
            b"Failed to serialize HLO module proto.",
            "left a text",
        ),
    ] {
        let called = name.as_ref();
        let input = Candidate::of_source(called, Arc::new(bytes.to_vec())).unwrap();
        let error = FORMATS.open_input(&input, &OpenOptions::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidMessage, "{error}");
        assert!(
            error.to_string().contains(said) && error.to_string().contains(name),
            "{error}"
        );
    }
}

#[test]
fn what_is_missing_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder
        .path()
        .join("module_0001.jit_f.cpu_after_optimizations.riegeli");
    std::fs::write(&copy, read("tf2220rc0_conv_after.riegeli")).unwrap();
    let verified = FORMATS
        .open(&copy, &OpenOptions::new())
        .unwrap()
        .verify()
        .unwrap();
    assert!(
        verified.warnings[0].contains("buffer_assignment"),
        "{verified:?}"
    );
}

#[test]
fn profiles_and_chunked_files_are_not_claimed() {
    let input = path("xspace/jax01201_cpu.by_events.xplane.riegeli");
    let candidate = Candidate::new(&input).unwrap();
    assert!(FORMATS.recognize(&candidate).is_none());
    assert!(FORMATS.is_chunked(&candidate).unwrap());
}

#[test]
fn constants_are_tensors_by_the_names_of_instructions() {
    for name in [
        "jax01201_dtypes_before",
        "jax01201_manyconst_after",
        "tf2220rc0_while_before",
    ] {
        let split = FORMATS
            .open(path(&format!("{name}.riegeli")), &OpenOptions::new())
            .unwrap();
        let whole = FORMATS
            .open(path(&format!("{name}.hlo.pb")), &OpenOptions::new())
            .unwrap();
        let tensors = split.tensors().unwrap();
        let others = whole.tensors().unwrap();
        assert!(!tensors.is_empty(), "{name}");
        assert_eq!(tensors.len(), others.len());
        for (tensor, other) in tensors.iter().zip(&others) {
            assert_eq!((&tensor.name, tensor.dtype), (&other.name, other.dtype));
            if tensor.dtype.bits().is_some_and(|bits| bits < 8) {
                continue;
            }
            let bytes = split.read_tensor(tensor).unwrap().to_vec().unwrap();
            assert_eq!(bytes, whole.tensor(&tensor.name).unwrap().to_vec().unwrap());
            assert_eq!(bytes.len() as u64, tensor.bytes);
        }
    }
}
