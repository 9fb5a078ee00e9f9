use prost::Message;
use prost_reflect::DynamicMessage;
use proto_splitter_core::ErrorKind;

use super::*;
use crate::fingerprint::descriptor;

fn canonical(message: &str, bytes: &[u8]) -> Result<(Vec<u8>, usize)> {
    let source = bytes.to_vec();
    let mut canonical = Canonical::new(&source, source.len() as u64);
    let whole = canonical.whole();
    let plan = canonical.message(&descriptor(message)?, &whole, &Edits::none())?;
    let mut written = Vec::new();
    canonical.write(&plan, &mut written)?;
    assert_eq!(written.len() as u64, plan.len());
    Ok((written, plan.spans().span_count()))
}

#[track_caller]
fn check(message: &str, bytes: &[u8], expected: &[u8]) {
    let message = &format!("tensorflow.{message}");
    let (written, _) = canonical(message, bytes).unwrap();
    assert_eq!(written, expected, "{message} {bytes:x?}");
    let (again, segments) = canonical(message, expected).unwrap();
    assert_eq!(again, expected);
    assert!(segments <= 1, "a canonical message is one span");
}

/// Returns a field with this number that is a map entry with a string key and an empty message.
fn entry(number: u8, key: &str) -> Vec<u8> {
    let len = u8::try_from(key.len()).unwrap();
    let mut bytes = vec![number << 3 | 2, len + 4, 0x0a, len];
    bytes.extend_from_slice(key.as_bytes());
    bytes.extend_from_slice(&[0x12, 0]);
    bytes
}

#[test]
fn fields_are_put_by_number_and_map_entries_by_the_bytes_of_their_keys() {
    check("NodeDef", b"\x12\x01o\x0a\x01n", b"\x0a\x01n\x12\x01o");
    let keys = |keys: [&str; 6]| keys.map(|key| entry(5, key)).concat();
    check(
        "NodeDef",
        &keys(["ab", "aa", "b", "a", "Z", "B"]),
        &keys(["B", "Z", "a", "aa", "ab", "b"]),
    );
}

#[test]
fn integer_keys_are_put_by_their_value() {
    // FunctionDef.resource_arg_unique_id: map<uint32, uint32>.
    check(
        "FunctionDef",
        b"\x42\x05\x08\xac\x02\x10\x01\x42\x04\x08\x0a\x10\x01\x42\x04\x08\x02\x10\x01",
        b"\x42\x04\x08\x02\x10\x01\x42\x04\x08\x0a\x10\x01\x42\x05\x08\xac\x02\x10\x01",
    );
}

#[test]
fn an_entry_has_its_key_and_its_value_even_where_they_are_defaults() {
    check("NodeDef", b"\x2a\x00", b"\x2a\x04\x0a\x00\x12\x00");
    check("FunctionDef", b"\x42\x00", b"\x42\x04\x08\x00\x10\x00");
    // The value comes first, followed by two keys and a field that isn't in the schema.
    check(
        "NodeDef",
        b"\x2a\x0a\x12\x00\x0a\x01x\x0a\x01y\x18\x05",
        b"\x2a\x05\x0a\x01y\x12\x00",
    );
}

#[test]
fn the_last_entry_with_a_key_counts() {
    check(
        "NodeDef",
        b"\x2a\x07\x0a\x01k\x12\x02\x18\x01\x2a\x07\x0a\x01k\x12\x02\x18\x02",
        b"\x2a\x07\x0a\x01k\x12\x02\x18\x02",
    );
}

#[test]
fn the_last_value_counts_and_defaults_are_left_out() {
    check("NodeDef", b"\x0a\x01a\x0a\x01b", b"\x0a\x01b");
    check("NodeDef", b"\x0a\x01a\x0a\x00", b"");
    check("SavedModel", b"\x08\x00", b"");
    check("VersionDef", b"\x08\x05\x08\x00\x10\x01", b"\x10\x01");
}

#[test]
fn of_a_oneof_the_last_member_counts_default_or_not() {
    check("AttrValue", b"\x18\x05\x28\x00", b"\x28\x00");
    check("AttrValue", b"\x12\x01a\x12\x00", b"\x12\x00");
    // If a message follows another member of its oneof, it isn't merged with an earlier message.
    check(
        "AttrValue",
        b"\x3a\x02\x18\x01\x18\x01\x3a\x00",
        b"\x3a\x00",
    );
}

#[test]
fn pieces_of_a_message_are_merged() {
    check(
        "SavedModel",
        b"\x12\x08\x12\x02\x18\x01\x12\x02\x18\x03",
        b"\x12\x04\x12\x02\x18\x03",
    );
    check(
        "GraphDef",
        b"\x22\x02\x08\x01\x22\x02\x10\x02",
        b"\x22\x04\x08\x01\x10\x02",
    );
}

#[test]
fn lengths_and_numbers_take_no_more_bytes_than_they_need() {
    check("NodeDef", b"\x0a\x81\x80\x00a", b"\x0a\x01a");
    check("SavedModel", b"\x08\x85\x80\x00", b"\x08\x05");
    // Tags may be overlong, too.
    check("SavedModel", b"\x88\x00\x05", b"\x08\x05");
    check(
        "SavedModel",
        b"\x12\x83\x00\x0a\x80\x00",
        b"\x12\x02\x0a\x00",
    );
}

#[test]
fn numbers_are_cut_to_their_type() {
    // The int32 -1, with 32 bits and with 64 bits.
    let minus_one = b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    check("GraphDef", b"\x18\xff\xff\xff\xff\x0f", minus_one);
    check("GraphDef", minus_one, minus_one);
    // 2^32 + 1.
    check("GraphDef", b"\x18\x81\x80\x80\x80\x10", b"\x18\x01");
    // bool 2.
    check("AttrValue", b"\x28\x02", b"\x28\x01");
}

#[test]
fn repeated_numbers_are_one_run_however_they_were_written() {
    // TensorProto.int64_val in two packed runs and as a single element; float_val in two runs.
    check(
        "TensorProto",
        b"\x52\x02\x01\x02\x50\x03\x52\x03\x84\x00\x05",
        b"\x52\x05\x01\x02\x03\x04\x05",
    );
    check(
        "TensorProto",
        b"\x2a\x04abcd\x2a\x00\x2d\x00\x00\x00\x00",
        b"\x2a\x08abcd\x00\x00\x00\x00",
    );
    check("TensorProto", b"\x52\x00", b"");
    let error = canonical("tensorflow.TensorProto", b"\x2a\x03abc").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidMessage);
}

#[test]
fn what_the_type_does_not_know_goes_behind_in_its_order() {
    // Field 900 as an overlong varint, field 3 (an int32) as bytes, and a group.
    check(
        "GraphDef",
        b"\xa0\x38\x85\x00\x1a\x01x\xa3\x38\x08\x81\x00\xa4\x38\x22\x00",
        b"\x22\x00\xa0\x38\x05\x1a\x01x\xa3\x38\x08\x01\xa4\x38",
    );
}

#[test]
fn nesting_has_a_limit() {
    // A tensor contains a variant, which contains a tensor, and so on.
    let nested = |levels: usize| {
        let mut bytes = Vec::new();
        for _ in 0..levels {
            for tag in [0x1a_u8, 0x7a] {
                let mut outer = vec![tag];
                prost::encoding::encode_varint(bytes.len() as u64, &mut outer);
                outer.extend_from_slice(&bytes);
                bytes = outer;
            }
        }
        bytes
    };
    assert!(canonical("tensorflow.TensorProto", &nested(49)).is_ok());
    let error = canonical("tensorflow.TensorProto", &nested(50)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert!(canonical("tensorflow.TensorProto", &nested(5000)).is_err());
}

#[test]
fn an_equal_message_comes_out() {
    let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/tensorflow");
    for model in [
        "functions_consts",
        "keras_mlp",
        "lookup_strings",
        "tf1_two_metagraphs",
    ] {
        let path = format!("{models}/{model}/saved_model.pb");
        let Ok(bytes) = std::fs::read(&path) else {
            // The test data isn't in the published package.
            return;
        };
        let (written, _) = canonical("tensorflow.SavedModel", &bytes).unwrap();
        let decode = |bytes: &[u8]| {
            DynamicMessage::decode(descriptor("tensorflow.SavedModel").unwrap(), bytes).unwrap()
        };
        assert!(decode(&written) == decode(&bytes), "{model}");
        // Another library serializes fields in a different order, but with the same canonical form.
        let other = decode(&bytes).encode_to_vec();
        assert!(
            canonical("tensorflow.SavedModel", &other).unwrap().0 == written,
            "{model}"
        );
    }
}
