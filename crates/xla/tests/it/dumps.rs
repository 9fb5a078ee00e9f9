//! Tests that dumps written by XLA have the same content as the modules in one piece next to them.

use std::sync::Arc;

use proto_splitter_core::ErrorKind;
use proto_splitter_xla::{Finding, HLO_PROTO, SplitProto};
use record_file::{ReadAt, RecordWriter};

use crate::fixtures::{decoded, expected, merged, message_type, path, read, same};

/// Returns true if the fixture with this name is a dump after optimization. Fixtures don't have the
/// names that XLA gives to dumps.
fn is_after(name: &str) -> bool {
    name.contains("_after")
}

#[test]
fn dumps_merge_to_the_modules_beside_them() {
    let mut lost = 0;
    for (name, known) in expected("expected.json") {
        let split = SplitProto::open_file(path(&name), None).unwrap();
        let bytes = merged(&split).unwrap();
        let kinds = known["records"].as_array().unwrap();
        let sizes = kinds.iter().skip(1).map(|record| &record["size"]);
        let size: u64 = sizes.map(|size| size.as_u64().unwrap()).sum();
        assert_eq!(bytes.len() as u64, size, "{name}");
        assert_eq!(split.manifest().records().len(), kinds.len() - 1, "{name}");

        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        let beside = known["hlo_pb"]["file"].as_str().unwrap();
        let whole = read(format!("{folder}/{beside}").trim_start_matches('/'));
        let mut whole = decoded(HLO_PROTO, &whole);
        // XLA omits the fields in `differs_in` from dumps, although its writer of split protos
        // supports them.
        let differs = known["hlo_pb"]["differs_in"].as_array().unwrap();
        if !differs.is_empty() {
            assert!(is_after(&name) && folder.is_empty(), "{name}");
            whole.clear_field_by_name("buffer_assignment");
            lost += 1;
        }
        assert!(same(&decoded(HLO_PROTO, &bytes), &whole), "{name}");
    }
    assert!(lost > 5, "{lost}");
}

#[test]
fn a_type_that_is_not_known_changes_nothing() {
    let name = "jax01201_cond_before.riegeli";
    let typed = SplitProto::open(Arc::new(read(name)), message_type(HLO_PROTO)).unwrap();
    let expected = merged(&typed).unwrap();
    // Writes a file with the same records, whose manifest specifies an unknown type.
    let file = record_file::RecordFile::open(read(name), Default::default()).unwrap();
    let mut writer = RecordWriter::with_defaults(Vec::new());
    for chunk in file.chunks().map(Result::unwrap).skip(1) {
        for record in file.read_known_chunk(&chunk).unwrap().records() {
            let record = record.to_vec();
            let renamed = match record.strip_prefix(b"\x0a\x0cxla.HloProto") {
                Some(rest) => [b"\x0a\x0cxla.HloQuota", rest].concat(),
                None => record,
            };
            writer.write_record(&renamed).unwrap();
        }
    }
    let split = SplitProto::open(Arc::new(writer.finish().unwrap()), None).unwrap();
    assert_eq!(split.manifest().message_type(), "xla.HloQuota");
    assert_eq!(merged(&split).unwrap(), expected);
}

#[test]
fn a_part_is_read_without_the_rest() {
    let name = "jax01201_manyconst_after.riegeli";
    let split = SplitProto::open_file(path(name), None).unwrap();
    let all = merged(&split).unwrap();
    for at in [0, 1, 1000, all.len() / 2, all.len() - 7] {
        let mut part = [0; 7];
        split.message().read_exact_at(at as u64, &mut part).unwrap();
        assert_eq!(part, all[at..at + 7]);
    }
    let mut behind = [0; 8];
    let error = split
        .message()
        .read_exact_at(all.len() as u64 - 7, &mut behind);
    assert_eq!(error.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
}

#[test]
fn an_optimized_dump_without_buffers_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let name = "module_0001.jit_f.cpu_after_optimizations.riegeli";
    for (from, missing) in [
        ("tf2220rc0_conv_after.riegeli", true),
        ("xla_writer/tf2220rc0_conv_after.riegeli", false),
    ] {
        let copy = folder.path().join(name);
        std::fs::write(&copy, read(from)).unwrap();
        let split = SplitProto::open_file(&copy, None).unwrap();
        let expected = if missing {
            vec![Finding::NoBufferAssignment]
        } else {
            Vec::new()
        };
        assert_eq!(split.findings().unwrap(), expected, "{from}");
    }
    // A dump from before the optimization doesn't need a `buffer_assignment`.
    let copy = folder
        .path()
        .join("module_0001.jit_f.before_optimizations.riegeli");
    std::fs::write(&copy, read("tf2220rc0_conv_before.riegeli")).unwrap();
    assert_eq!(
        SplitProto::open_file(&copy, None)
            .unwrap()
            .findings()
            .unwrap(),
        []
    );
}

#[test]
fn other_files_are_no_split_protos() {
    let mut chunked = RecordWriter::with_defaults(Vec::new());
    // The first record begins with a string, like a manifest. The content of the trailer doesn't
    // matter.
    chunked
        .write_record(b"\x0a\x07a.proto\x62\x06proto3")
        .unwrap();
    chunked.write_record(b"\x0a\x02\x08\x01").unwrap();
    let module = {
        let mut writer = RecordWriter::with_defaults(Vec::new());
        writer
            .write_record(&read("tf2220rc0_conv_before.hlo.pb"))
            .unwrap();
        writer.finish().unwrap()
    };
    for bytes in [
        chunked.finish().unwrap(),
        module,
        read("xspace/jax01201_cpu.by_events.xplane.riegeli"),
        read("tf2220rc0_conv_before.hlo.pb"),
        b"text".to_vec(),
        Vec::new(),
    ] {
        assert!(
            SplitProto::recognize(Arc::new(bytes), None)
                .unwrap()
                .is_none()
        );
    }
}

#[test]
fn a_module_is_not_read_as_another_type() {
    let name = "tf2220rc0_conv_before.riegeli";
    let other = message_type(proto_splitter_xla::GPU_EXECUTABLE);
    let error = SplitProto::open_file(path(name), other).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidMessage);
    assert!(error.to_string().contains("xla.HloProto"), "{error}");
    assert!(expected("expected.json")[name]["type"] == HLO_PROTO);
}
