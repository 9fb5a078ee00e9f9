//! Tests of features that apply to fields.

use prost_reflect::prost_types::{Any, FileDescriptorSet};

use super::*;

/// A schema in edition 2023 with a field for each form to which a feature of fields may apply.
/// `features` are the features of the file, and `own` those of the field `own`.
fn forms(features: &str, own: &str) -> Vec<u8> {
    let message = "type: TYPE_MESSAGE type_name: 'M'";
    let singular = "label: LABEL_OPTIONAL";
    let mut fields = String::new();
    for (number, (name, form)) in (1..).zip([
        ("number", format!("{singular} type: TYPE_INT32")),
        ("text", format!("{singular} type: TYPE_STRING")),
        (
            "own",
            format!("{singular} type: TYPE_STRING options {{ features {{ {own} }} }}"),
        ),
        (
            "choice",
            format!("{singular} type: TYPE_STRING oneof_index: 0"),
        ),
        ("below", format!("{singular} {message}")),
        ("list", "label: LABEL_REPEATED type: TYPE_STRING".to_owned()),
        (
            "map",
            "label: LABEL_REPEATED type: TYPE_MESSAGE type_name: 'M.E'".to_owned(),
        ),
    ]) {
        fields.push_str(&format!(
            "field {{ name: '{name}' number: {number} {form} }}"
        ));
    }
    set_of(&format!(
        "file {{ name: 'a.proto' syntax: 'editions' edition: EDITION_2023
           options {{ features {{ {features} }} }}
           extension {{ name: 'x' number: 100 extendee: 'M' {singular} type: TYPE_STRING }}
           message_type {{ name: 'M' {fields} oneof_decl {{ name: 'o' }}
             extension_range {{ start: 100 end: 200 }}
             nested_type {{ name: 'E' options {{ map_entry: true }}
               field {{ name: 'key' number: 1 {singular} type: TYPE_STRING }}
               field {{ name: 'value' number: 2 {singular} type: TYPE_STRING }} }} }} }}"
    ))
}

const FORMS: [&str; 7] = ["number", "text", "own", "choice", "below", "list", "map"];

/// Decodes a schema, and decodes it again as it is embedded in a file.
fn read_twice(set: &[u8]) -> [DescriptorPool; 2] {
    let pool = decode_descriptor_set(set).unwrap();
    let again = decode_descriptor_set(&pool.encode_to_vec()).unwrap();
    [pool, again]
}

#[test]
fn a_field_has_presence_as_its_features_say_unless_its_form_decides() {
    let implicit = "field_presence: IMPLICIT";
    let explicit = "field_presence: EXPLICIT";
    // Of the fields of the schema, in order, and of a key in the map.
    for (features, own, expected, of_key) in [
        ("", "", [true, true, true, true, true, false, false], true),
        (
            "",
            implicit,
            [true, true, false, true, true, false, false],
            true,
        ),
        (
            implicit,
            "",
            [false, false, false, true, true, false, false],
            false,
        ),
        (
            implicit,
            explicit,
            [false, false, true, true, true, false, false],
            false,
        ),
    ] {
        for pool in read_twice(&forms(features, own)) {
            let found = FORMS.map(|name| has_presence(&field(&pool, "M", name)));
            assert_eq!(found, expected, "{features}, {own}");
            assert_eq!(
                has_presence(&field(&pool, "M.E", "key")),
                of_key,
                "{features}"
            );
            assert!(pool.get_extension_by_name("x").unwrap().supports_presence());
        }
    }
}

#[test]
fn a_field_is_required_if_its_features_say_so_unless_its_form_decides() {
    let required = "field_presence: LEGACY_REQUIRED";
    for (features, own, expected) in [
        ("", "", [false; 7]),
        (
            "",
            required,
            [false, false, true, false, false, false, false],
        ),
        (required, "", [true, true, true, false, true, false, false]),
    ] {
        for pool in read_twice(&forms(features, own)) {
            let found = FORMS.map(|name| field(&pool, "M", name).is_required());
            assert_eq!(found, expected, "{features}, {own}");
            let extension = pool.get_extension_by_name("x").unwrap();
            assert_ne!(
                extension.cardinality(),
                prost_reflect::Cardinality::Required
            );
        }
    }
}

#[test]
fn strings_are_verified_as_their_features_say() {
    let none = "utf8_validation: NONE";
    for (features, own, expected, of_others) in [
        ("", "", [false, true, true, true, false, true, false], true),
        (
            "",
            none,
            [false, true, false, true, false, true, false],
            true,
        ),
        (none, "", [false; 7], false),
        (
            none,
            "utf8_validation: VERIFY",
            [false, false, true, false, false, false, false],
            false,
        ),
    ] {
        for pool in read_twice(&forms(features, own)) {
            let found = FORMS.map(|name| verifies_utf8(&field(&pool, "M", name)));
            assert_eq!(found, expected, "{features}, {own}");
            let extension = pool.get_extension_by_name("x").unwrap();
            let value = field(&pool, "M.E", "value");
            let found = [extension_verifies_utf8(&extension), verifies_utf8(&value)];
            assert_eq!(found, [of_others; 2], "{features}");
        }
    }
}

#[test]
fn features_of_a_message_apply_to_its_fields_and_those_of_a_map_to_its_entries() {
    let singular = "label: LABEL_OPTIONAL type: TYPE_STRING";
    let features = |features: &str| format!("options {{ features {{ {features} }} }}");
    let (implicit, none) = (
        features("field_presence: IMPLICIT"),
        features("utf8_validation: NONE"),
    );
    let set = set_of(&format!(
        "file {{ name: 'a.proto' syntax: 'editions' edition: EDITION_2023
           message_type {{ name: 'M' {implicit}
             field {{ name: 'text' number: 1 {singular} }}
             field {{ name: 'map' number: 2 label: LABEL_REPEATED type: TYPE_MESSAGE
               type_name: '.M.MapEntry' {none} }}
             nested_type {{ name: 'MapEntry' options {{ map_entry: true }}
               field {{ name: 'key' number: 1 {singular} }}
               field {{ name: 'value' number: 2 {singular} }} }} }} }}"
    ));
    for pool in read_twice(&set) {
        let text = field(&pool, "M", "text");
        assert!(!has_presence(&text) && verifies_utf8(&text));
        assert!(!verifies_utf8(&field(&pool, "M.MapEntry", "value")));
    }
}

#[test]
fn a_decoded_message_has_no_zeros_in_fields_without_presence() {
    // In order: a number, a text, a text with features of its own, and the same in a message.
    let fields = b"\x08\0\x12\0\x1a\0";
    let message = [&fields[..], b"\x2a\x06", fields].concat();
    for (features, own, expected) in [
        (
            "",
            "",
            r#"number:0,text:"",own:"",below{number:0,text:"",own:""}"#,
        ),
        (
            "",
            "field_presence: IMPLICIT",
            r#"number:0,text:"",below{number:0,text:""}"#,
        ),
        ("field_presence: IMPLICIT", "", "below{}"),
    ] {
        let pool = decode_descriptor_set(&forms(features, own)).unwrap();
        let descriptor = pool.get_message_by_name("M").unwrap();
        let decoded = decode_dynamic(descriptor, message.as_slice()).unwrap();
        assert_eq!(decoded.to_string(), expected);
    }
}

#[test]
fn zeros_in_the_message_of_an_any_are_cleared_up_to_a_depth() {
    let file = "google/protobuf/any.proto";
    let file = DescriptorPool::global().get_file_by_name(file).unwrap();
    let file = vec![file.file_descriptor_proto().clone()];
    let set = [
        FileDescriptorSet { file }.encode_to_vec(),
        forms("field_presence: IMPLICIT", "field_presence: EXPLICIT"),
    ];
    let pool = decode_descriptor_set(&set.concat()).unwrap();
    let packed = |name: &str, value: &[u8]| {
        let type_url = format!("type.googleapis.com/{name}");
        let value = value.to_vec();
        Any { type_url, value }.encode_to_vec()
    };
    // Numbers and texts as in the test above.
    let mut message = packed("M", b"\x08\0\x12\0\x1a\0");
    let mut expected = packed("M", b"\x1a\0");
    for depth in 1..20 {
        let any = pool.get_message_by_name("google.protobuf.Any").unwrap();
        let mut decoded = decode_dynamic(any, message.as_slice()).unwrap();
        assert!(decoded.encode_to_vec() == message);
        clear_defaults(&mut decoded);
        let is_deep = depth > 16;
        let expected_here = if is_deep { &message } else { &expected };
        assert!(decoded.encode_to_vec() == *expected_here, "{depth}");
        message = packed("google.protobuf.Any", &message);
        expected = packed("google.protobuf.Any", &expected);
    }
}
