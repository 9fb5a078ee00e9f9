//! Tests of modules and executables through the interface that all formats share.

use std::io::Write;
use std::sync::Arc;

use proto_splitter_core::ErrorKind;
use proto_splitter_core::formats::{
    Candidate, ConvertOptions, Format, OpenOptions, Opened, Registry,
};
use proto_splitter_core::merge::Limits;
use proto_splitter_core::progress::{CancelToken, Progress};
use proto_splitter_xla::{
    Draft, EXECUTABLE_AND_OPTIONS, GPU_EXECUTABLE, HLO_PROTO, HUMAN_READABLE_EXECUTABLE,
    SplitProto, WriteOptions, XlaFormat,
};
use sha2::{Digest, Sha256};

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
        // XLA writes these overrides even if they are empty.
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

/// Returns options with the message type that XLA's own tool creates when it unpacks an executable.
fn unpacked() -> OpenOptions {
    OpenOptions::new().descriptor(crate::fixtures::message_type(HUMAN_READABLE_EXECUTABLE))
}

#[test]
fn an_executable_and_what_is_in_it_are_one_message() {
    let opened = FORMATS.open(path(AOT), &unpacked()).unwrap();
    let kind = "gpu_executable.gpu_compute_capability";
    assert!(!opened.get(kind).unwrap().is_empty());
    let client = opened
        .get("executable_and_options.pjrt_client_name")
        .unwrap();
    assert_eq!(client, "PjRtStreamExecutorClient");
    assert!(
        opened
            .get("executable_and_options.serialized_executable")
            .is_err()
    );
    let names = |opened: &Opened| -> Vec<String> {
        let tensors = opened.tensors().unwrap().into_iter();
        tensors.map(|tensor| tensor.name).collect()
    };
    // Constants are found in the executable as stored, and in the unpacked message.
    let plain = FORMATS.open(path(AOT), &OpenOptions::new()).unwrap();
    assert!(!names(&plain).is_empty());
    assert_eq!(names(&plain), names(&opened));
    for tensor in plain.tensors().unwrap() {
        let bytes = plain.tensor(&tensor.name).unwrap().to_vec().unwrap();
        assert_eq!(
            bytes,
            opened.tensor(&tensor.name).unwrap().to_vec().unwrap()
        );
    }
}

#[test]
fn an_executable_is_unpacked_and_packed_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (tree, packed) = (folder.path().join("tree.pb"), folder.path().join("packed"));
    let target = |name| {
        let mut targets = XlaFormat.targets().iter();
        targets.find(|target| target.name == name).unwrap()
    };
    let options = ConvertOptions::new().force(true);
    for (name, known) in expected("aot/expected.json") {
        let opened = FORMATS.open(path(&format!("aot/{name}")), &OpenOptions::new());
        let opened = opened.unwrap();
        XlaFormat
            .convert(&opened, target("unpacked-aot"), &tree, &options)
            .unwrap();
        let as_one = FORMATS.open(path(&format!("aot/{name}")), &unpacked());
        assert_eq!(
            std::fs::read(&tree).unwrap(),
            as_one.unwrap().bytes().unwrap()
        );
        let unpacked = FORMATS.open(&tree, &unpacked()).unwrap();
        XlaFormat
            .convert(&unpacked, target("aot"), &packed, &options)
            .unwrap();
        let again = FORMATS.open(&packed, &OpenOptions::new()).unwrap();
        // The options must have the same bytes, and the executable must have the same records. The
        // records may be compressed differently.
        let value = |opened: &Opened, path: &str| opened.get(path).unwrap();
        for path in ["compile_options", "pjrt_client_name"] {
            assert_eq!(value(&again, path), value(&opened, path), "{name}: {path}");
        }
        let inner = |opened: &Opened| {
            let bytes = value(opened, "serialized_executable");
            merged(&SplitProto::open(Arc::new(bytes), None).unwrap()).unwrap()
        };
        assert_eq!(inner(&again), inner(&opened), "{name}");
        let manifest = &known["executable_and_options"]["records"];
        assert_eq!(manifest.as_array().unwrap().len(), 3, "{name}");
    }
    // A message that isn't an executable can be neither unpacked nor packed.
    let module = FORMATS.open(path("jax01201_scan_before.riegeli"), &OpenOptions::new());
    let module = module.unwrap();
    for name in ["unpacked-aot", "aot"] {
        let error = XlaFormat.convert(&module, target(name), &packed, &options);
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
    }
}

#[test]
fn damage_inside_of_an_executable_is_found() {
    let opened = FORMATS.open(path(AOT), &OpenOptions::new()).unwrap();
    let mut message = opened.bytes().unwrap().to_vec();
    let inner = opened.get("serialized_executable").unwrap();
    let at = message
        .windows(64)
        .position(|window| *window == inner[..64]);
    // Damages the data of the last chunk in the executable.
    message[at.unwrap() + inner.len() - 9] ^= 1;
    let descriptor = crate::fixtures::message_type(EXECUTABLE_AND_OPTIONS);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("executable.riegeli");
    Draft::new(Arc::new(message), descriptor.full_name())
        .unwrap()
        .write_file(&file, &Default::default(), &WriteOptions::new())
        .unwrap();
    let error = FORMATS.open(&file, &OpenOptions::new()).unwrap().verify();
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("serialized_executable") && error.contains("hash"),
        "{error}"
    );
}

#[test]
fn canonical_bytes_are_those_of_the_module_in_one_piece() {
    for (name, known) in expected("expected.json") {
        let opened = FORMATS.open(path(&name), &OpenOptions::new()).unwrap();
        let bytes = opened.canonical().unwrap().bytes().unwrap();
        let hash: String = Sha256::digest(&bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(hash, known["merged_sha256"], "{name}");
    }
    for (name, known) in expected("aot/expected.json") {
        let opened = FORMATS
            .open(path(&format!("aot/{name}")), &OpenOptions::new())
            .unwrap();
        let bytes = opened.canonical().unwrap().bytes().unwrap();
        let hash: String = Sha256::digest(&bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(
            hash, known["executable_and_options"]["merged_sha256"],
            "{name}"
        );
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
        let least = Limits::new().max_merged_size(inside.len() as u64 - 1);
        let token = CancelToken::new();
        token.cancel();
        let stopped = Progress::default().cancelled_by(&token);
        for (options, kind) in [
            (OpenOptions::new().limits(least), ErrorKind::LimitExceeded),
            (OpenOptions::new().progress(stopped), ErrorKind::Cancelled),
        ] {
            let error = FORMATS.open(&path, &options).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}

#[test]
fn what_xla_left_when_it_gave_up_is_named() {
    for (name, bytes, said) in [
        ("m.riegeli", &b""[..], "a computation has more than 2 GiB"),
        ("m.hlo.pb", b"", "the file is empty"),
        (
            "m.hlo.pb",
            b"Failed to serialize HLO module proto.",
            "left the message",
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
fn an_empty_profile_is_no_dump_of_a_module() {
    let name = "host.xplane.riegeli".as_ref();
    let input = Candidate::of_source(name, Arc::new(Vec::new())).unwrap();
    assert_eq!(XlaFormat.recognize(&input), None);
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

/// Returns a serialized length-delimited field.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    proto_splitter_core::wire::put_varint(&mut bytes, value.len() as u64);
    [&bytes, value].concat()
}

/// Opens a module with these computations.
fn module(computations: &[u8]) -> Opened {
    let message = field(1, computations);
    let input = Candidate::of_source("m.hlo.pb".as_ref(), Arc::new(message)).unwrap();
    FORMATS.open_input(&input, &OpenOptions::new()).unwrap()
}

#[test]
fn constants_of_the_same_name_are_numbered_at_once() {
    // A computation "c", whose instructions have the name "i" and a literal with a shape.
    let instruction = [field(1, b"i"), field(8, b"\x0a\x02\x10\x0b")].concat();
    let instructions = field(2, &instruction).repeat(20_000);
    let opened = module(&field(3, &[field(1, b"c"), instructions].concat()));
    let tensors = opened.tensors().unwrap();
    let names = |at: std::ops::Range<usize>| tensors[at].iter().map(|tensor| &tensor.name[..]);
    assert!(names(0..4).eq(["i", "c/i", "c/i#2", "c/i#3"]));
    assert!(names(19_999..20_000).eq(["c/i#19999"]));
}

#[test]
fn names_of_constants_have_a_limited_total_size() {
    // A tuple, whose name is large and appears in the name of each element.
    let elements = field(10, b"\x0a\x02\x10\x0b").repeat(300);
    let tuple = [&b"\x0a\x02\x10\x0d"[..], &elements].concat();
    let instruction = [field(1, &[b'i'; 1 << 20]), field(8, &tuple)].concat();
    let error = module(&field(3, &field(2, &instruction))).tensors();
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
}
