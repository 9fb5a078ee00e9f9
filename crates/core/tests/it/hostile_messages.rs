//! Tests with untrusted messages: small ones don't use up time, and different ones aren't taken for
//! equal.

use crate::merge_support::schema::{descriptor, pool_of};
use crate::merge_support::{Chunked, cat, group, int, len, path};
use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, OneofDescriptorProto,
};
use prost_reflect::{DescriptorPool, MessageDescriptor};
use proto_splitter_core::ErrorKind;
use proto_splitter_core::canonical::{Canonical, Edits};
use proto_splitter_core::compare::{Comparison, compare};
use proto_splitter_core::merge::ReadOptions;
use proto_splitter_core::path::PathQuery;
use proto_splitter_core::tensor::{DType, ElementRule, ShapeRule, TensorRule, tensors_in};
use proto_splitter_core::view::MessageView;

/// Number of nested messages. If each level doubled the time, the last would never be reached.
const LEVELS: usize = 40;

const GROUPS: TensorRule = TensorRule {
    shape: ShapeRule::Sizes(12),
    content: 8,
    elements: &[ElementRule::new(1, DType::U8, 12)],
    ..TensorRule::new("t.G", 1)
};

fn view(message: &Vec<u8>) -> MessageView<'_> {
    MessageView::of_plain(message, ReadOptions::new().descriptor(descriptor())).unwrap()
}

#[test]
fn a_field_with_the_wrong_wire_type_does_not_clear_another_member_of_its_oneof() {
    let tensor = group(33, cat([int(1, 1), len(8, b"ab"), len(12, [2])]));
    let message = cat([len(30, tensor), len(32, b"no int32")]);
    let view = view(&message);
    assert_eq!(tensors_in(&view, &[&GROUPS]).unwrap().len(), 1);
    assert_eq!(view.get(&path("30.33.1")).unwrap()[..], [1]);
    // A field with the right wire type clears it.
    let message = cat([message.clone(), int(32, 7)]);
    let view = self::view(&message);
    assert!(tensors_in(&view, &[&GROUPS]).unwrap().is_empty());
    assert!(view.get(&path("30.33.1")).is_err());
}

#[test]
fn tensors_in_fields_with_the_wrong_wire_type_are_not_listed() {
    let tensor = cat([int(1, 1), len(8, b"ab"), len(12, [2])]);
    for message in [group(9, group(33, &tensor)), len(33, &tensor)] {
        assert!(tensors_in(&view(&message), &[&GROUPS]).unwrap().is_empty());
    }
}

#[test]
fn tensors_below_messages_that_each_come_in_two_pieces_are_listed_at_once() {
    let tensor = group(33, cat([int(1, 1), len(8, b"ab"), len(12, [2])]));
    // Each message contains the next as an element, so that the next is in one piece again.
    let listed = |more: &[u8]| {
        let message = (0..LEVELS).fold(tensor.clone(), |below, _| {
            cat([len(9, len(10, below)), more.to_vec()])
        });
        tensors_in(&view(&message), &[&GROUPS]).unwrap()
    };
    let expected = listed(&[]);
    assert_eq!(expected.len(), 1);
    assert_eq!(listed(&len(9, [])), expected);
}

/// Returns the first of these message types, which are in the package `t`.
fn first_of(messages: Vec<DescriptorProto>) -> MessageDescriptor {
    let name = format!("t.{}", messages[0].name());
    let mut pool = DescriptorPool::new();
    pool.add_file_descriptor_proto(FileDescriptorProto {
        name: Some("hostile.proto".into()),
        package: Some("t".into()),
        message_type: messages,
        ..Default::default()
    })
    .unwrap();
    pool.get_message_by_name(&name).unwrap()
}

/// Returns a singular field whose value is a message of the type `of`.
fn single(number: usize, of: &str) -> FieldDescriptorProto {
    FieldDescriptorProto {
        name: Some(format!("f{number}")),
        number: Some(number.try_into().unwrap()),
        label: Some(Label::Optional.into()),
        r#type: Some(Type::Message.into()),
        type_name: Some(format!(".t.{of}")),
        ..Default::default()
    }
}

/// Returns a message type `O` with a oneof of this many messages.
fn one_of(members: usize) -> MessageDescriptor {
    let tensor = DescriptorProto {
        name: Some("G".into()),
        ..Default::default()
    };
    let members = (1..=members).map(|number| FieldDescriptorProto {
        oneof_index: Some(0),
        ..single(number, "G")
    });
    let all = DescriptorProto {
        name: Some("O".into()),
        field: members.collect(),
        oneof_decl: vec![OneofDescriptorProto {
            name: Some("o".into()),
            options: None,
        }],
        ..Default::default()
    };
    first_of(vec![all, tensor])
}

#[test]
fn a_shape_in_many_packed_fields_is_limited_as_a_whole() {
    let run = len(12, [1; 1 << 10]);
    for (runs, is_read) in [(64, true), (65, false)] {
        let tensor = cat([int(1, 1), len(8, b"a"), run.repeat(runs)]);
        let message = group(33, tensor);
        let found = tensors_in(&view(&message), &[&GROUPS]);
        match found {
            Ok(tensors) => assert!(is_read, "{}", tensors.len()),
            Err(error) => {
                assert!(!is_read, "{error}");
                assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
            }
        }
    }
}

#[test]
fn tensors_below_a_long_chain_of_types_are_searched_for() {
    const TYPES: usize = 50_000;
    let of = |at: usize| match at {
        TYPES => "G".to_owned(),
        _ => format!("A{at}"),
    };
    let message = |at: usize| DescriptorProto {
        name: Some(of(at)),
        field: (at < TYPES)
            .then(|| single(1, &of(at + 1)))
            .into_iter()
            .collect(),
        ..Default::default()
    };
    let root = first_of((0..=TYPES).map(message).collect());
    let message = Vec::new();
    let options = ReadOptions::new().descriptor(root);
    let view = MessageView::of_plain(&message, options).unwrap();
    assert!(tensors_in(&view, &[&GROUPS]).unwrap().is_empty());
}

/// Returns a message in which the members of a oneof replace one another many times, and a message
/// with only the last of them.
fn replaced() -> [Vec<u8>; 2] {
    let last = len(2, len(8, b"ab"));
    let all = cat([len(1, len(8, b"cd")), last.clone()]).repeat(500_000);
    [all, last]
}

#[test]
fn tensors_in_a_oneof_with_many_members_are_listed_at_once() {
    let options = ReadOptions::new().descriptor(one_of(15_000));
    let [all, _] = replaced();
    let view = MessageView::of_plain(&all, options).unwrap();
    assert_eq!(tensors_in(&view, &[&GROUPS]).unwrap().len(), 1);
}

#[test]
fn many_chunks_in_the_members_of_a_oneof_are_merged_at_once() {
    const MEMBERS: usize = 5000;
    let numbers = 1..=u32::try_from(MEMBERS).unwrap();
    // Each member occurs many times, and is then set by a chunk, in ascending order. Since each
    // clears the others, none of the chunks is merged into an occurrence.
    let every = |value: &[u8]| -> Vec<u8> {
        let fields = numbers.clone().map(|number| len(number, value));
        fields.collect::<Vec<_>>().concat()
    };
    let base = every(&int(1, 1)).repeat(50);
    let chunk = int(1, 2);
    let mut chunked = Chunked::unmarked().base(base.clone());
    for number in numbers.clone() {
        chunked = chunked.message(&number.to_string(), chunk.clone());
    }
    let options = ReadOptions::new().descriptor(one_of(MEMBERS));
    let merged = chunked.merge_with(&options).unwrap();
    assert!(merged == [base, every(&chunk)].concat());
}

#[test]
fn messages_that_set_a_oneof_with_many_members_are_compared_at_once() {
    let descriptor = one_of(15_000);
    let [all, last] = replaced();
    let view = |message| {
        let options = ReadOptions::new().descriptor(descriptor.clone());
        MessageView::of_plain(message, options).unwrap()
    };
    let found = compare(&view(&all), &view(&last), 10).unwrap();
    assert_eq!(found, Comparison::Equal);
}

#[test]
fn the_canonical_form_of_a_oneof_with_many_members_is_planned_at_once() {
    let descriptor = one_of(15_000);
    let [all, last] = replaced();
    let mut canonical = Canonical::new(&all, all.len() as u64);
    let whole = canonical.whole();
    let plan = canonical.message(&descriptor, &whole, &Edits::none());
    let mut written = Vec::new();
    canonical.write(&plan.unwrap(), &mut written).unwrap();
    assert!(written == last);
}

#[test]
fn the_canonical_form_of_messages_that_each_come_in_two_pieces_is_planned_at_once() {
    let more = cat([int(1, 7), len(9, int(1, 5))]);
    let source = (0..LEVELS).fold(int(2, 4), |below, _| cat([len(9, below), more.clone()]));
    let mut canonical = Canonical::new(&source, source.len() as u64);
    let whole = canonical.whole();
    let plan = canonical.message(&descriptor(), &whole, &Edits::none());
    let mut written = Vec::new();
    canonical.write(&plan.unwrap(), &mut written).unwrap();
    // Each nested message has the value from its second piece, and the outermost has its own.
    let innermost = cat([int(1, 5), int(2, 4)]);
    let below = (1..LEVELS).fold(innermost, |below, _| cat([int(1, 5), len(9, below)]));
    assert!(written == cat([int(1, 7), len(9, below)]));
}

#[test]
fn maps_with_keys_that_are_not_text_are_never_equal() {
    for keys in [[&[0xfe][..], &[0xff]], [&[0xfe], &[0xfe, 0x80]]] {
        for field in [13, 21] {
            let [a, b] = keys.map(|key| len(9, len(field, cat([len(1, key), len(2, [])]))));
            for (a, b) in [(&a, &b), (&cat([a.clone(), b.clone()]), &b)] {
                let error = compare(&view(a), &view(b), 10).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidMessage);
                let text = format!("9.{field}: the map has a key that is not UTF-8");
                assert_eq!(error.to_string(), text);
            }
        }
    }
}

#[test]
fn packed_numbers_that_end_inside_a_number_equal_no_others() {
    let [whole, cut] = [[0_u8], [0x80]].map(|run| len(9, len(12, run)));
    for (a, b) in [(&whole, &cut), (&cut, &whole)] {
        let error = compare(&view(a), &view(b), 10).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidMessage);
        let text = "9.12: packed numbers end inside a number";
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn groups_are_put_by_number_and_their_pieces_are_merged() {
    let pieces = [cat([len(8, b"y"), int(1, 5)]), int(1, 6)].map(|piece| group(33, piece));
    let source = cat([int(34, 1), pieces.concat()]);
    let mut canonical = Canonical::new(&source, source.len() as u64);
    let whole = canonical.whole();
    let plan = canonical.message(&descriptor(), &whole, &Edits::none());
    let mut written = Vec::new();
    canonical.write(&plan.unwrap(), &mut written).unwrap();
    let merged = group(33, cat([int(1, 6), len(8, b"y")]));
    assert_eq!(written, cat([merged, int(34, 1)]));
}

/// Returns a message type with an enum in every form of field, in a file with this syntax.
fn with_enums(syntax: &str) -> MessageDescriptor {
    let of = |name: &str, number: u32, label: &str, more: &str| {
        format!("field {{ name: '{name}' number: {number} label: LABEL_{label} {more} }}")
    };
    let kind = "type: TYPE_ENUM type_name: '.K'";
    let fields = [
        of("single", 1, "OPTIONAL", kind),
        of("loose", 2, "REPEATED", kind),
        of(
            "packed",
            3,
            "REPEATED",
            &format!("{kind} options {{ packed: true }}"),
        ),
        of(
            "by_place",
            4,
            "REPEATED",
            "type: TYPE_MESSAGE type_name: '.M.ByPlaceEntry'",
        ),
        of("choice", 5, "OPTIONAL", &format!("{kind} oneof_index: 0")),
        of("number", 6, "OPTIONAL", "type: TYPE_INT32 oneof_index: 0"),
        of("below", 7, "REPEATED", "type: TYPE_MESSAGE type_name: '.M'"),
    ];
    let entry = [
        of("key", 1, "OPTIONAL", "type: TYPE_INT32"),
        of("value", 2, "OPTIONAL", kind),
    ];
    let text = format!(
        "file {{ name: 'k.proto' {syntax}
           enum_type {{ name: 'K' value {{ name: 'NONE' number: 0 }} value {{ name: 'MINUS' number: -1 }}
             value {{ name: 'ONE' number: 1 }} }}
           message_type {{ name: 'M' {} oneof_decl {{ name: 'o' }}
             nested_type {{ name: 'ByPlaceEntry' {} options {{ map_entry: true }} }} }} }}",
        fields.concat(),
        entry.concat()
    );
    let pool = pool_of(&text);
    pool.get_message_by_name("M").unwrap()
}

#[test]
fn a_number_that_a_closed_enum_does_not_declare_does_not_clear_another_member_of_its_oneof() {
    let edition = "syntax: 'editions' edition: EDITION_2023";
    for (syntax, is_there) in [("", true), (edition, false)] {
        let message = cat([int(6, 5), int(5, 99)]);
        let options = ReadOptions::new().descriptor(with_enums(syntax));
        let view = MessageView::of_plain(&message, options).unwrap();
        assert_eq!(view.get(&path("6")).is_ok(), is_there, "{syntax}");
    }
}

#[test]
fn a_number_that_a_closed_enum_does_not_declare_does_not_replace_an_earlier_value() {
    let edition = "syntax: 'editions' edition: EDITION_2023";
    for (syntax, expected) in [("", 1), (edition, 99)] {
        let message = cat([int(1, 1), int(1, 99)]);
        let options = ReadOptions::new().descriptor(with_enums(syntax));
        let view = MessageView::of_plain(&message, options).unwrap();
        assert_eq!(view.get(&path("1")).unwrap()[..], [expected], "{syntax}");
    }
}

#[test]
fn elements_are_not_selected_by_a_number_that_their_closed_enum_does_not_declare() {
    let element = cat([int(1, 1), int(1, 99)]);
    let message = len(7, element);
    let edition = "syntax: 'editions' edition: EDITION_2023";
    for (syntax, one) in [("", true), (edition, false)] {
        let root = with_enums(syntax);
        let options = ReadOptions::new().descriptor(root.clone());
        let view = MessageView::of_plain(&message, options).unwrap();
        for (query, expected) in [("7[1=ONE]", one), ("7[1=99]", !one)] {
            let query = PathQuery::parse(query, Some(&root)).unwrap();
            let found = view.select(&query, &[]).unwrap().next().is_some();
            assert_eq!(found, expected, "{syntax} {}", query.as_str());
        }
    }
}

#[test]
fn messages_that_differ_before_a_number_that_a_closed_enum_does_not_declare_are_different() {
    let pairs = [
        // The number neither clears another member of the oneof nor replaces an earlier value.
        [int(6, 1), int(6, 2)].map(|number| cat([number, int(5, 99)])),
        [int(1, 0), int(1, 1)].map(|value| cat([value, int(1, 99)])),
    ];
    let edition = "syntax: 'editions' edition: EDITION_2023";
    for (syntax, is_equal) in [("", false), (edition, true)] {
        let view = |message| {
            let options = ReadOptions::new().descriptor(with_enums(syntax));
            MessageView::of_plain(message, options).unwrap()
        };
        for [a, b] in &pairs {
            let found = compare(&view(a), &view(b), 10).unwrap();
            assert_eq!(found == Comparison::Equal, is_equal, "{syntax} {a:02x?}");
        }
    }
}

#[test]
fn numbers_that_a_closed_enum_does_not_declare_are_put_among_the_unknown_fields() {
    const MINUS: u64 = u64::MAX;
    let entry = |mood: u64| len(4, cat([int(1, 7), int(2, mood)]));
    let closed = [
        // An unknown number replaces neither an earlier value nor another member of the oneof.
        (cat([int(1, 1), int(1, 99)]), cat([int(1, 1), int(1, 99)])),
        (cat([int(1, 99), int(6, 5)]), cat([int(6, 5), int(1, 99)])),
        (cat([int(6, 5), int(5, 99)]), cat([int(6, 5), int(5, 99)])),
        (
            cat([int(1, MINUS), int(1, 2)]),
            cat([int(1, MINUS), int(1, 2)]),
        ),
        // Only the low 32 bits count, as in protobuf's C++ library.
        (int(1, 1 << 32 | 1), int(1, 1)),
        (int(1, 1 << 32 | 99), int(1, 99)),
        (int(2, 1 << 31), int(2, MINUS << 31)),
        (cat([int(2, 99), int(2, 1)]), cat([int(2, 1), int(2, 99)])),
        (len(2, [1, 99, 0]), cat([int(2, 1), int(2, 0), int(2, 99)])),
        (
            cat([int(3, 99), len(3, [1])]),
            cat([len(3, [1]), int(3, 99)]),
        ),
        (len(3, [1, 99, 0]), cat([len(3, [1, 0]), int(3, 99)])),
        (len(3, [99]), int(3, 99)),
        (cat([entry(1), entry(99)]), cat([entry(1), entry(99)])),
        (cat([entry(99), int(6, 5)]), cat([int(6, 5), entry(99)])),
    ];
    let open = [
        (cat([int(1, 1), int(1, 99)]), int(1, 99)),
        (cat([int(6, 5), int(5, 99)]), int(5, 99)),
        (len(3, [1, 99, 0]), len(3, [1, 99, 0])),
        (cat([entry(1), entry(99)]), entry(99)),
    ];
    let edition = "syntax: 'editions' edition: EDITION_2023";
    for (syntax, cases) in [("", &closed[..]), (edition, &open[..])] {
        let descriptor = with_enums(syntax);
        for (source, expected) in cases {
            let mut canonical = Canonical::new(source, source.len() as u64);
            let whole = canonical.whole();
            let plan = canonical.message(&descriptor, &whole, &Edits::none());
            let mut written = Vec::new();
            canonical.write(&plan.unwrap(), &mut written).unwrap();
            assert_eq!(written, *expected, "{syntax} {source:02x?}");
        }
    }
}
