mod features;

use prost_reflect::{FieldDescriptor, Syntax};

use super::*;
use crate::ErrorKind;

const EDITION_2023: &[u8] = include_bytes!("../../../../tests/data/schemas/edition_2023.binpb");
const EDITION_2024: &[u8] = include_bytes!("../../../../tests/data/schemas/edition_2024.binpb");

fn set_of(text: &str) -> Vec<u8> {
    let set = set_descriptor().unwrap();
    let set = DynamicMessage::parse_text_format(set, text).unwrap();
    set.encode_to_vec()
}

fn field(pool: &DescriptorPool, message: &str, field: &str) -> FieldDescriptor {
    let message = pool.get_message_by_name(message).unwrap();
    message.get_field_by_name(field).unwrap()
}

#[test]
fn an_edition_is_read_with_the_wire_format_that_its_features_say() {
    let pool = decode_descriptor_set(EDITION_2023).unwrap();
    let field = |name| field(&pool, "edition.Root", name);
    for (name, packed, group) in [
        ("loose", false, false),
        ("packed", true, false),
        ("delimited", false, true),
        ("prefixed", false, false),
        ("by_name", false, false),
    ] {
        assert_eq!(field(name).is_packed(), packed, "{name}");
        assert_eq!(field(name).is_group(), group, "{name}");
    }
    assert!(field("by_name").is_map());
    assert!(field("required").is_required());
    assert!(
        pool.get_extension_by_name("edition.extra")
            .unwrap()
            .is_group()
    );
}

#[test]
fn what_is_said_for_a_whole_file_holds_for_its_fields_but_not_for_maps() {
    let pool = decode_descriptor_set(EDITION_2024).unwrap();
    let root = |name| field(&pool, "edition2024.Root", name);
    assert!(root("delimited").is_group());
    assert!(!root("prefixed").is_group());
    assert!(root("by_name").is_map() && !root("by_name").is_group());
    assert!(root("packed").is_packed() && !root("loose").is_packed());
    assert!(field(&pool, "edition2024.Root.Inner", "kids").is_group());
    let value = field(&pool, "edition2024.Root.ByNameEntry", "value");
    assert!(!value.is_group());
}

#[test]
fn the_schema_of_an_edition_becomes_one_that_has_no_features() {
    let features = "options { features { json_format: ALLOW } }";
    let field = "number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 oneof_index: 0";
    let presence = "options { features { field_presence: EXPLICIT } }";
    let set = set_of(&format!(
        "file {{ name: 'a.proto' syntax: 'editions' edition: EDITION_2023 {presence}
           message_type {{ name: 'M' {features} oneof_decl {{ name: 'o' {features} }}
             field {{ name: 'f' {field} {presence} }} }}
           enum_type {{ name: 'E' {features} value {{ name: 'E_0' number: 0 {features} }} }} }}"
    ));
    let pool = decode_descriptor_set(&set).unwrap();
    let message = pool.get_message_by_name("M").unwrap();
    let values = pool.get_enum_by_name("E").unwrap();
    for options in [
        message.parent_file().options(),
        message.options(),
        message.oneofs().next().unwrap().options(),
        message.get_field(1).unwrap().options(),
        values.options(),
        values.get_value(0).unwrap().options(),
    ] {
        assert!(!options.has_field_by_name("features"), "{options}");
    }
}

#[test]
fn an_enum_is_closed_as_its_syntax_or_its_features_say() {
    let values = |name: &str, options: &str| {
        format!("enum_type {{ name: '{name}' value {{ name: '{name}_0' number: 0 }} {options} }}")
    };
    let features = |openness: &str| format!("options {{ features {{ enum_type: {openness} }} }}");
    let edition = "syntax: 'editions' edition: EDITION_2023";
    for (file, expected) in [
        (String::new(), [true, true, true]),
        ("syntax: 'proto3'".to_owned(), [false, false, false]),
        (edition.to_owned(), [false, true, false]),
        (
            format!("{edition} {}", features("CLOSED")),
            [true, true, false],
        ),
    ] {
        let [closed, open] = if file.contains("editions") {
            ["CLOSED", "OPEN"].map(features)
        } else {
            Default::default()
        };
        let enums = [values("A", ""), values("B", &closed)].concat();
        let nested = values("C", &open);
        let set = set_of(&format!(
            "file {{ name: 'a.proto' {file} {enums} message_type {{ name: 'M' {nested} }} }}"
        ));
        let pool = decode_descriptor_set(&set).unwrap();
        // A schema that is stored in a file has the same features when it is read again.
        let again = decode_descriptor_set(&pool.encode_to_vec()).unwrap();
        for pool in [pool, again] {
            let is_closed = |name: &str| is_closed_enum(&pool.get_enum_by_name(name).unwrap());
            assert_eq!(["A", "B", "M.C"].map(is_closed), expected, "{file}");
            // Protobuf's libraries refuse features outside of editions.
            for name in ["A", "B", "M.C"] {
                let values = pool.get_enum_by_name(name).unwrap();
                assert!(!values.options().has_field_by_name("features"), "{file}");
            }
        }
    }
}

#[test]
fn proto2_and_proto3_stay_what_they_are() {
    for (syntax, expected) in [("proto2", Syntax::Proto2), ("proto3", Syntax::Proto3)] {
        let set = set_of(&format!(
            "file {{ name: 'a.proto' syntax: '{syntax}' message_type {{ name: 'A'
               field {{ name: 'n' number: 1 label: LABEL_REPEATED type: TYPE_INT32 }} }} }}"
        ));
        let pool = decode_descriptor_set(&set).unwrap();
        assert_eq!(pool.get_file_by_name("a.proto").unwrap().syntax(), expected);
        assert_eq!(field(&pool, "A", "n").is_packed(), syntax == "proto3");
    }
}

#[test]
fn sets_are_added_in_any_order_and_a_file_that_is_there_twice_must_be_the_same() {
    let file = |name: &str, import: &str, fields: &str| {
        format!(
            "file {{ name: '{name}.proto' package: 'p' {import} message_type {{ name: '{name}' {fields} }} }}"
        )
    };
    let string = |name: &str, number: u32| {
        format!(
            "field {{ name: '{name}' number: {number} label: LABEL_OPTIONAL type: TYPE_STRING }}"
        )
    };
    let base = file("Base", "", &string("a", 1));
    let user = file("User", "dependency: 'Base.proto'", &string("b", 1));
    // The imported file may come after the one that imports it.
    let mut pool = decode_descriptor_set(&set_of(&format!("{user} {base}"))).unwrap();
    add_descriptor_set(&mut pool, &set_of(&base)).unwrap();
    let other = file("Base", "", &string("c", 2));
    let error = add_descriptor_set(&mut pool, &set_of(&other)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Base.proto occurs twice, with different content"
    );
    // The imported file may also be in the pool already.
    let mut pool = decode_descriptor_set(&set_of(&base)).unwrap();
    add_descriptor_set(&mut pool, &set_of(&user)).unwrap();
    assert!(pool.get_message_by_name("p.User").is_some());
}

#[test]
fn what_is_no_schema_is_an_error_that_says_what() {
    let table = [
        (
            "file { name: 'a.proto' dependency: 'b.proto' }",
            "a.proto imports b.proto, which is not in the set (protoc includes it with --include_imports)",
        ),
        (
            "file { name: 'a.proto' syntax: 'proto4' }",
            "a.proto: syntax \"proto4\" is not known",
        ),
        (
            "file { name: 'a.proto' syntax: 'editions' }",
            "a.proto: edition number 0 is not known: only 2023 and 2024 are",
        ),
        (
            "file { name: 'a.proto' syntax: 'editions' edition: EDITION_99999_TEST_ONLY }",
            "a.proto: edition number 99999 is not known: only 2023 and 2024 are",
        ),
        (
            "file { name: 'a.proto' message_type { name: 'A' field { name: 'b' number: 1 type: TYPE_MESSAGE type_name: 'B' } } }",
            "a.proto: name 'B' is not defined",
        ),
    ];
    for (text, expected) in table {
        let error = decode_descriptor_set(&set_of(text)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSchema);
        assert!(error.to_string().starts_with(expected), "{error}");
    }
    assert_eq!(
        decode_descriptor_set(b"\x0a").unwrap_err().kind(),
        ErrorKind::InvalidSchema
    );
}

#[test]
fn a_damaged_descriptor_set_is_an_error_or_another_schema_but_never_a_panic() {
    let sets = [
        EDITION_2023,
        EDITION_2024,
        crate::proto::FILE_DESCRIPTOR_SET,
    ];
    for set in sets {
        for at in 0..set.len() {
            let _ = decode_descriptor_set(&set[..at]);
            for bit in [0, 3, 7] {
                let mut damaged = set.to_vec();
                damaged[at] ^= 1 << bit;
                let _ = decode_descriptor_set(&damaged);
            }
        }
    }
}
