//! Tests that small files are read with the same results as by XLA's own reader.

use std::sync::Arc;

use proto_splitter_core::ErrorKind;
use proto_splitter_xla::{GPU_EXECUTABLE, SplitProto};
use serde_json::Value;

use crate::fixtures::{decoded, expected, merged, message_type, read};

/// Files with paths that XLA's format allows, but its reader doesn't support. Each is given with
/// the expected message in JSON.
const NESTED: &[(&str, &str)] = &[("case16.riegeli", r#"{"k": "x"}"#)];

/// A file with a string that isn't UTF-8. Only a parser with the message's type detects it.
const NOT_UTF8: &str = "case22.riegeli";

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2)
        .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
        .collect()
}

#[test]
fn every_case_is_read_as_by_xla() {
    for (name, case) in expected("cases/cases.json") {
        let file = Arc::new(read(&format!("cases/{name}")));
        let split = SplitProto::open(file, message_type(GPU_EXECUTABLE));
        let bytes = split.and_then(|split| merged(&split));
        let accepted = case["xla_accepts"] == Value::Bool(true);
        let extended = NESTED.iter().any(|(nested, _)| *nested == name) || name == NOT_UTF8;
        let what = format!("{name}: {}", case["case"]);
        match bytes {
            Err(error) => {
                assert!(!accepted, "{what}: {error}");
                let text = error.to_string();
                assert!(!text.contains('\n') && !text.is_empty(), "{what}: {text}");
            }
            Ok(bytes) => {
                assert!(accepted || extended, "{what} was read");
                if let Some(hex) = case["merged_hex"].as_str() {
                    let expected = decoded(GPU_EXECUTABLE, &bytes_of(hex));
                    let found = decoded(GPU_EXECUTABLE, &bytes);
                    assert!(found == expected, "{what}: {} {hex}", bytes.escape_ascii());
                }
            }
        }
    }
}

#[test]
fn errors_name_the_record() {
    for (name, kind, parts) in [
        (
            "case09",
            ErrorKind::InvalidMessage,
            &["record 2 is not there"][..],
        ),
        (
            "case11",
            ErrorKind::InvalidMessage,
            &["record 0", "not a xla.gpu.GpuExecutableProto"],
        ),
        (
            "case13",
            ErrorKind::InvalidPath,
            &["record 2", "hlo_module", "neither a string nor bytes"],
        ),
        ("case14", ErrorKind::InvalidPath, &["record 2"]),
        ("case17", ErrorKind::InvalidPath, &["record 2", "repeated"]),
        (
            "case18",
            ErrorKind::InvalidPath,
            &["record 2", "has no path"],
        ),
        ("case19", ErrorKind::InvalidPath, &["record 2", "9999"]),
        (
            "case20",
            ErrorKind::UnsupportedVersion,
            &["record 2", "type 0"],
        ),
        (
            "case21",
            ErrorKind::InvalidMessage,
            &["record 1 is not a message"],
        ),
        (
            "case33",
            ErrorKind::Record,
            &["record 2: ", "inside a chunk"],
        ),
        (
            "case34",
            ErrorKind::InvalidMessage,
            &["record 1 is not there"],
        ),
        (
            "case35",
            ErrorKind::Record,
            &["record 2: ", "hash mismatch"],
        ),
        (
            "case36",
            ErrorKind::Record,
            &["record 0: ", "hash mismatch"],
        ),
        ("case37", ErrorKind::NotChunked, &["not a split proto"]),
        ("case38", ErrorKind::NotChunked, &["not a split proto"]),
    ] {
        let file = Arc::new(read(&format!("cases/{name}.riegeli")));
        let split = SplitProto::open(file, message_type(GPU_EXECUTABLE));
        let error = split.and_then(|split| merged(&split)).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), kind, "{name}: {text}");
        for part in parts {
            assert!(text.contains(part), "{name}: {text}");
        }
    }
}

#[test]
fn findings_say_what_readers_pass_over() {
    for (name, expected) in [
        ("case00", &[][..]),
        ("case06", &["record 1"][..]),
        ("case07", &["record 2"]),
        (
            "case08",
            &["1 more records than the manifest names, from record 2"],
        ),
        ("case39", &["bytes after the last record"]),
        ("case40", &["40 bytes after the last record"]),
    ] {
        let file = Arc::new(read(&format!("cases/{name}.riegeli")));
        let split = SplitProto::open(file, None).unwrap();
        let findings = split.findings().unwrap();
        assert_eq!(findings.len(), expected.len(), "{name}: {findings:?}");
        for (finding, part) in findings.iter().zip(expected) {
            assert!(finding.to_string().contains(part), "{name}: {finding}");
        }
    }
}
