//! Tests of zeros and empty values in fields with and without presence.

use crate::merge_support::schema::pool_of;
use crate::merge_support::{cat, group, int, len};
use prost_reflect::MessageDescriptor;
use proto_splitter_core::canonical::{Canonical, Edits};
use proto_splitter_core::compare::{Comparison, compare};
use proto_splitter_core::merge::ReadOptions;
use proto_splitter_core::path::PathQuery;
use proto_splitter_core::view::{MessageView, ScalarPath, ScalarValue};

const EDITION: &str = "syntax: 'editions' edition: EDITION_2023";
const IMPLICIT: &str = "options { features { field_presence: IMPLICIT } }";

/// Returns the message type of a file that begins with `head`. The field `own` has `options`.
fn message(head: &str, options: &str) -> MessageDescriptor {
    let group = "options { features { message_encoding: DELIMITED } }";
    let delimited = if head.contains("editions") { group } else { "" };
    let text = format!(
        "file {{ name: 'a.proto' {head}
           message_type {{ name: 'M' oneof_decl {{ name: 'o' }}
             field {{ name: 'n' number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 }}
             field {{ name: 'own' number: 2 label: LABEL_OPTIONAL type: TYPE_STRING {options} }}
             field {{ name: 'c' number: 3 label: LABEL_OPTIONAL type: TYPE_INT32 oneof_index: 0 }}
             field {{ name: 'below' number: 4 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: 'M' }}
             field {{ name: 'list' number: 5 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: 'M' }}
             field {{ name: 'group' number: 6 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: 'M' {delimited} }}
             field {{ name: 'x' number: 7 label: LABEL_OPTIONAL type: TYPE_FLOAT }} }} }}"
    );
    let pool = pool_of(&text);
    pool.get_message_by_name("M").unwrap()
}

/// The heads of files, the options of the field `own`, and whether the fields `n` and `own` have
/// presence.
fn schemas() -> [(String, &'static str, bool, bool); 5] {
    let implicit = format!("{EDITION} {IMPLICIT}");
    let explicit = "options { features { field_presence: EXPLICIT } }";
    [
        (String::new(), "", true, true),
        ("syntax: 'proto3'".to_owned(), "", false, false),
        (EDITION.to_owned(), IMPLICIT, true, false),
        (implicit.clone(), "", false, false),
        (implicit, explicit, false, true),
    ]
}

fn canonical(message: &[u8], descriptor: &MessageDescriptor) -> Vec<u8> {
    let mut canonical = Canonical::new(&message, message.len() as u64);
    let whole = canonical.whole();
    let plan = canonical.message(descriptor, &whole, &Edits::none());
    let mut written = Vec::new();
    canonical.write(&plan.unwrap(), &mut written).unwrap();
    written
}

#[test]
fn the_canonical_form_has_a_zero_only_where_its_field_has_presence() {
    for (head, options, of_n, of_own) in schemas() {
        let descriptor = message(&head, options);
        let kept = |is_kept: bool, field: Vec<u8>| if is_kept { field } else { Vec::new() };
        let fields = cat([int(1, 0), len(2, b""), int(3, 0)]);
        let left = cat([kept(of_n, int(1, 0)), kept(of_own, len(2, b"")), int(3, 0)]);
        let minus_zero = b"\x3d\0\0\0\x80".to_vec();
        let mut cases = vec![
            (fields.clone(), left.clone()),
            (cat([int(1, 5), int(1, 0)]), kept(of_n, int(1, 0))),
            (cat([int(1, 0), int(1, 5)]), int(1, 5)),
            (len(4, &fields), len(4, &left)),
            (len(5, &fields), len(5, &left)),
            (
                b"\x3d\0\0\0\0".to_vec(),
                kept(of_n, b"\x3d\0\0\0\0".to_vec()),
            ),
            (minus_zero.clone(), minus_zero),
        ];
        if head.contains("editions") {
            cases.push((group(6, &fields), group(6, &left)));
        }
        for (source, expected) in cases {
            let found = canonical(&source, &descriptor);
            assert_eq!(found, expected, "{head} {options} {source:02x?}");
        }
    }
}

fn view<'a>(message: &'a Vec<u8>, descriptor: &MessageDescriptor) -> MessageView<'a> {
    MessageView::of_plain(message, ReadOptions::new().descriptor(descriptor.clone())).unwrap()
}

#[test]
fn an_absent_value_equals_zero_only_where_its_field_has_no_presence() {
    for (head, options, of_n, of_own) in schemas() {
        let descriptor = message(&head, options);
        for (field, has_presence) in [(int(1, 0), of_n), (len(2, b""), of_own), (int(3, 0), true)] {
            let found = compare(
                &view(&field, &descriptor),
                &view(&Vec::new(), &descriptor),
                10,
            )
            .unwrap();
            let is_equal = !matches!(found, Comparison::Different(_));
            assert_eq!(is_equal, !has_presence, "{head} {options} {field:02x?}");
        }
        // The only element has no fields.
        let list = len(5, b"");
        let view = view(&list, &descriptor);
        let query = PathQuery::parse("list[n<1]", Some(&descriptor)).unwrap();
        let found = view.select(&query, &[]).unwrap().next().is_some();
        assert_eq!(found, !of_n, "{head} {options}");
        let query = PathQuery::parse("list[*]", Some(&descriptor)).unwrap();
        let own = ScalarPath::new("own", &query.resolve(&descriptor).unwrap().kind).unwrap();
        let mut selected = view.select(&query, &[]).unwrap();
        selected.next().unwrap().unwrap();
        let expected = (!of_own).then(|| ScalarValue::String(String::new()));
        assert_eq!(selected.scalar(&own).unwrap(), expected, "{head} {options}");
    }
}
