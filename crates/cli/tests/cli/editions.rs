//! Printing schemas of editions, and messages of their types.

use crate::support::{Dir, run};

#[test]
fn a_delimited_field_of_an_edition_is_printed_as_one() {
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/schemas");
    let types = data.join("edition_2023.binpb");
    let message = data.join("edition_2023.pb");
    let text = run([
        &"schema",
        &message,
        &"--message=edition.Root",
        &"--descriptor-set",
        &types,
    ])
    .ok();
    // The printed schema is accepted by protoc, and describes the same wire format.
    let expected = r#"// edition_2023.proto

edition = "2023";

package edition;

message Root {
  repeated int32 loose = 1 [features.repeated_field_encoding = EXPANDED];
  repeated int32 packed = 2;
  Inner delimited = 3 [features.message_encoding = DELIMITED];
  Inner prefixed = 4;
  map<string, Inner> by_name = 5;
  int32 required = 6 [features.field_presence = LEGACY_REQUIRED];
  bytes blob = 7;
  extensions 100 to 200;
}

message Inner {
  string name = 1;
  repeated Inner kids = 2 [features.message_encoding = DELIMITED];
}

extend Root {
  Inner extra = 100 [features.message_encoding = DELIMITED];
}
"#;
    assert_eq!(text, expected);
}

#[test]
fn a_schema_with_features_that_proto2_cannot_express_is_printed_as_an_edition() {
    let dir = Dir::new();
    let message = dir.file("m.pb", b"\x08\0");
    for (source, expected) in [
        ("enum E { A = 0; }\nmessage M { E e = 1; }", "  E e = 1;\n"),
        ("message M { string s = 1; }", "  string s = 1;\n"),
        (
            "option features.field_presence = IMPLICIT;\nmessage M { int32 n = 1; M m = 2; oneof o { int32 c = 3; } }",
            "  int32 n = 1 [features.field_presence = IMPLICIT];\n  M m = 2;\n  oneof o {\n    int32 c = 3;\n",
        ),
        (
            "message M { string s = 1;\nmap<string, bytes> m = 2 [features.utf8_validation = NONE]; }",
            "  map<string, bytes> m = 2 [features.utf8_validation = NONE];\n",
        ),
    ] {
        let types = dir.file("m.proto", format!("edition = \"2023\";\n{source}"));
        let with = |types| run([&"schema", &message, &"--message=M", &"--proto", types]).ok();
        let text = with(&types);
        assert!(text.contains("\nedition = \"2023\";\n"), "{text}");
        assert!(text.contains(expected), "{text}");
        // The printed schema is printed as itself again.
        let printed = dir.file("m.proto", &text);
        assert_eq!(with(&printed), text);
    }
}

#[test]
fn a_zero_is_printed_only_if_its_field_has_presence() {
    let dir = Dir::new();
    let zeros = b"\x08\0\x10\0";
    let any = [b"\x0a\x03x/M\x12\x04", &zeros[..]].concat();
    let source = "edition = \"2023\"; import \"google/protobuf/any.proto\";
        message M { int32 a = 1; int32 b = 2 [features.field_presence = IMPLICIT]; }
        message Holder { google.protobuf.Any any = 1; }";
    let types = dir.file("m.proto", source);
    let holder = [b"\x0a\x0b", &any[..]].concat();
    for (name, message, format, expected) in [
        ("M", &zeros[..], "text", "a: 0\n"),
        ("M", zeros, "json", "{\n  \"a\": 0\n}\n"),
        (
            "Holder",
            &holder,
            "text",
            "any {\n  type_url: \"x/M\"\n  value: \"\\010\\000\\020\\000\"\n}\n",
        ),
        (
            "Holder",
            &holder,
            "json",
            "{\n  \"any\": {\n    \"@type\": \"x/M\",\n    \"a\": 0\n  }\n}\n",
        ),
    ] {
        let message = dir.file("m.pb", message);
        let name = format!("--message={name}");
        let format = format!("--format={format}");
        let with: [&dyn AsRef<std::path::Path>; 7] =
            [&"get", &message, &"", &name, &"--proto", &types, &format];
        assert_eq!(run(with).ok(), expected);
    }
}

#[test]
fn the_bytes_of_an_any_in_a_new_value_are_kept_unless_they_are_given_as_json() {
    let dir = Dir::new();
    let source = "edition = \"2023\"; import \"google/protobuf/any.proto\";
        message M { int32 a = 1; int32 b = 2 [features.field_presence = IMPLICIT]; }
        message Holder { google.protobuf.Any any = 1; }";
    let types = dir.file("m.proto", source);
    let holder = dir.file("m.pb", b"\x0a\x05\x0a\x03x/M");
    let out = dir.path("out.pb");
    for (value, expected) in [
        (
            r#"type_url: "x/M" value: "\020\000\010\000""#,
            &b"\x0a\x03x/M\x12\x04\x10\0\x08\0"[..],
        ),
        (
            r#"{"@type": "x/M", "a": 0, "b": 0}"#,
            b"\x0a\x03x/M\x12\x02\x08\0",
        ),
    ] {
        let with: [&dyn AsRef<std::path::Path>; 11] = [
            &"replace",
            &holder,
            &"any",
            &"--value",
            &value,
            &"-o",
            &out,
            &"--force",
            &"--message=Holder",
            &"--proto",
            &types,
        ];
        run(with).ok();
        let written = std::fs::read(&out).unwrap();
        assert_eq!(&written[2..], expected, "{value}");
    }
}
