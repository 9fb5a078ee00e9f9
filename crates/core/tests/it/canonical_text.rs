//! Tests of strings that aren't UTF-8 in canonical forms.

use crate::merge_support::schema::pool_of;
use crate::merge_support::{cat, len};
use prost_reflect::MessageDescriptor;
use proto_splitter_core::canonical::{Canonical, Edits};
use proto_splitter_core::{ErrorKind, Result};

/// Returns a message type with strings in each form, in a file that begins with `head`.
fn message(head: &str) -> MessageDescriptor {
    let text = format!(
        "file {{ name: 'a.proto' {head}
           message_type {{ name: 'M'
             field {{ name: 'text' number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }}
             field {{ name: 'list' number: 2 label: LABEL_REPEATED type: TYPE_STRING }}
             field {{ name: 'map' number: 3 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: 'M.E' }}
             field {{ name: 'below' number: 4 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: 'M' }}
             field {{ name: 'bytes' number: 5 label: LABEL_OPTIONAL type: TYPE_BYTES }}
             nested_type {{ name: 'E' options {{ map_entry: true }}
               field {{ name: 'key' number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }}
               field {{ name: 'value' number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }} }} }} }}"
    );
    pool_of(&text).get_message_by_name("M").unwrap()
}

fn canonical(message: &[u8], descriptor: &MessageDescriptor) -> Result<Vec<u8>> {
    let mut canonical = Canonical::new(&message, message.len() as u64);
    let whole = canonical.whole();
    let plan = canonical.message(descriptor, &whole, &Edits::none())?;
    let mut written = Vec::new();
    canonical.write(&plan, &mut written)?;
    Ok(written)
}

const EDITION: &str = "syntax: 'editions' edition: EDITION_2023";
const NONE: &str = "options { features { utf8_validation: NONE } }";

#[test]
fn strings_that_parsers_verify_are_utf8_in_the_canonical_form() {
    let none = format!("{EDITION} {NONE}");
    for (head, is_verified) in [
        ("", false),
        ("syntax: 'proto3'", true),
        (EDITION, true),
        (&none, false),
    ] {
        let descriptor = message(head);
        // Each message, the field with the string, and the offset of the string's bad byte.
        let entry = |key: &[u8], value: &[u8]| len(3, cat([len(1, key), len(2, value)]));
        for (source, field, at) in [
            (len(1, b"a\xff"), "M.text", 3),
            (cat([len(1, b"\xff"), len(1, b"a")]), "M.text", 2),
            (cat([len(2, b"a"), len(2, b"\xe4\xb8")]), "M.list", 5),
            (entry(b"\xff", b""), "M.map", 4),
            (entry(b"", b"\xff"), "M.map", 6),
            (len(4, len(1, b"\xff")), "M.text", 4),
        ] {
            match canonical(&source, &descriptor) {
                Ok(_) => assert!(!is_verified, "{head} {source:02x?}"),
                Err(error) => {
                    assert!(is_verified, "{head} {source:02x?} {error}");
                    assert_eq!(error.kind(), ErrorKind::InvalidMessage);
                    assert_eq!(error.offset(), Some(at), "{source:02x?}");
                    assert!(error.to_string().contains(field), "{error}");
                }
            }
        }
        let long = "\u{4e16}".repeat(100_000);
        for source in [
            cat([len(1, long.as_bytes()), len(5, b"\xff")]),
            cat([len(5, b"\xff"), len(9, b"\xff")]),
        ] {
            assert_eq!(canonical(&source, &descriptor).unwrap(), source, "{head}");
        }
    }
}
