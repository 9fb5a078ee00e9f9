use std::sync::Arc;

use prost_reflect::{DynamicMessage, Kind, ReflectMessage, Value};
use proto_splitter::container::ChunkedFile;
use proto_splitter::edit::Changes;
use proto_splitter::path::{FieldPath, PathQuery};
use proto_splitter::progress::Progress;
use proto_splitter::split::{SizeSplitter, SplitExt, SplitOptions};
use proto_splitter::view::{MessageView, ScalarValue};
use proto_splitter_testkit::generate::{Habits, Order, Random, kitchen_sink, message};

use crate::rewriting::reading;

/// Returns the name, kind and values of each repeated numeric field in a message.
fn lists(model: &DynamicMessage) -> Vec<(String, Kind, Vec<Value>)> {
    let fields = model.descriptor();
    let numbers = fields.fields().filter(|field| {
        field.is_list() && !matches!(field.kind(), Kind::Message(_) | Kind::String | Kind::Bytes)
    });
    let lists = numbers.map(|field| {
        let values = model.get_field(&field).as_list().unwrap().to_vec();
        (field.name().to_owned(), field.kind(), values)
    });
    lists.collect()
}

fn scalar(value: &Value) -> ScalarValue {
    match value {
        Value::I32(number) | Value::EnumNumber(number) => ScalarValue::Signed((*number).into()),
        Value::I64(number) => ScalarValue::Signed(*number),
        Value::U32(number) => ScalarValue::Unsigned((*number).into()),
        Value::U64(number) => ScalarValue::Unsigned(*number),
        Value::F32(number) => ScalarValue::Float(*number),
        Value::F64(number) => ScalarValue::Double(*number),
        Value::Bool(is_set) => ScalarValue::Bool(*is_set),
        other => panic!("{other:?}"),
    }
}

/// Formats a value, so that values can be compared as strings, including NaNs.
fn shown(value: &ScalarValue) -> String {
    format!("{value:?}")
}

fn models() -> impl Iterator<Item = Vec<u8>> {
    let odd = [(1, false), (2, true), (3, true), (4, false), (5, true)];
    odd.into_iter().map(|(seed, odd_wire)| {
        let habits = Habits {
            order: Order::Shuffled,
            odd_wire,
            repeats: odd_wire,
            size: 6000,
        };
        message(&kitchen_sink(), &mut Random::new(seed), &habits)
    })
}

fn check(view: &MessageView<'_>, model: &DynamicMessage) -> usize {
    let mut checked = 0;
    for (name, kind, values) in lists(model) {
        let query = |picked: &str| {
            let query = PathQuery::parse(&format!("{name}{picked}"), view.descriptor()).unwrap();
            let mut selected = view.select(&query, &[]).unwrap();
            let mut found = Vec::new();
            while let Some(size) = selected.next() {
                let bytes = selected.value().unwrap();
                assert_eq!(size.unwrap(), bytes.len() as u64);
                let at = selected.path().to_string();
                found.push((at, shown(&ScalarValue::decode(&kind, bytes).unwrap())));
            }
            found
        };
        let number = view.descriptor().unwrap().get_field_by_name(&name);
        let number = number.unwrap().number();
        let expected: Vec<(String, String)> = values
            .iter()
            .enumerate()
            .map(|(at, value)| (format!("{number}[{at}]"), shown(&scalar(value))))
            .collect();
        for (at, (path, value)) in expected.iter().enumerate() {
            let path: FieldPath = path.parse().unwrap();
            let found: ScalarValue = view.get_as(&path).unwrap();
            assert_eq!(shown(&found), *value, "{name}[{at}]");
            checked += 1;
        }
        let behind = FieldPath::parse(&format!("{name}[{}]", values.len()), &kitchen_sink());
        assert_eq!(view.size(&behind.unwrap()).unwrap(), None);
        let len = expected.len();
        assert_eq!(query("[*]"), expected);
        assert_eq!(query("[1:4]"), expected[len.min(1)..len.min(4)]);
        assert_eq!(query("[-3:]"), expected[len.saturating_sub(3)..]);
        assert_eq!(query("[-1]"), expected[len.saturating_sub(1)..]);
    }
    checked
}

#[test]
fn every_number_of_a_list_is_found_in_one_piece_and_in_chunks() {
    let mut checked = 0;
    for bytes in models() {
        let model = DynamicMessage::decode(kitchen_sink(), &bytes[..]).unwrap();
        checked += check(&MessageView::of_plain(&bytes, reading()).unwrap(), &model);
        let folder = tempfile::tempdir().unwrap();
        let options = SplitOptions::new().max_chunk_size(3000);
        let written = SizeSplitter
            .write_with(&model, folder.path().join("a"), &options)
            .unwrap();
        let chunked = ChunkedFile::open(&written.path).unwrap();
        checked += check(&chunked.view(reading()), &model);
    }
    assert!(checked > 200, "{checked}");
}

#[test]
fn a_number_among_packed_ones_is_replaced() {
    let mut replaced = 0;
    for bytes in models() {
        let model = DynamicMessage::decode(kitchen_sink(), &bytes[..]).unwrap();
        for (name, kind, values) in lists(&model) {
            if values.is_empty() || matches!(kind, Kind::Enum(_) | Kind::Bool) {
                continue;
            }
            // Replaces the first and the last number at once. The new number has several bytes,
            // while the old one may have had only one.
            let places = [0, values.len() - 1];
            let mut changes = Changes::new();
            let mut expected = model.clone();
            let mut list = values.clone();
            let text = "1000000";
            for at in &places[..places.len().min(values.len())] {
                let path = format!("{name}[{at}]");
                let query = PathQuery::parse(&path, Some(&kitchen_sink())).unwrap();
                let target = query.resolve(&kitchen_sink()).unwrap();
                let value = target.kind.encode(text).unwrap();
                changes = changes.replace(query, Arc::new(value));
                list[*at] = match &list[*at] {
                    Value::I32(_) => Value::I32(1_000_000),
                    Value::I64(_) => Value::I64(1_000_000),
                    Value::U32(_) => Value::U32(1_000_000),
                    Value::U64(_) => Value::U64(1_000_000),
                    Value::F32(_) => Value::F32(1e6),
                    Value::F64(_) => Value::F64(1e6),
                    other => panic!("{other:?}"),
                };
            }
            expected.set_field_by_name(&name, Value::List(list));
            let changed = changes.apply(Arc::new(bytes.clone()), &reading()).unwrap();
            let mut out = Vec::new();
            changed.write_to(&mut out, &Progress::none()).unwrap();
            let out = DynamicMessage::decode(kitchen_sink(), &out[..]).unwrap();
            // Compares the lists, and the sizes of the messages. Map entries aren't compared, since
            // they have no order.
            let shown = |model: &DynamicMessage| format!("{:?}", lists(model));
            assert_eq!(shown(&out), shown(&expected), "{name}");
            let len = |model: &DynamicMessage| prost_reflect::prost::Message::encoded_len(model);
            assert_eq!(len(&out), len(&expected), "{name}");
            replaced += 1;
        }
    }
    assert!(replaced > 5, "{replaced}");
}

#[test]
fn numbers_that_end_inside_one_are_refused() {
    let numbers = lists(&DynamicMessage::new(kitchen_sink()));
    for (name, kind, _) in numbers {
        let field = kitchen_sink().get_field_by_name(&name).unwrap();
        let mut bytes = Vec::new();
        let broken: &[u8] = match kind {
            Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => &[1; 9],
            Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => &[1; 5],
            _ => &[1, 0x80],
        };
        proto_splitter::wire::put_varint(&mut bytes, u64::from(field.number()) << 3 | 2);
        bytes.push(u8::try_from(broken.len()).unwrap());
        bytes.extend_from_slice(broken);
        let view = MessageView::of_plain(&bytes, reading()).unwrap();
        for picked in ["[*]", "[1]", "[-1]"] {
            let query =
                PathQuery::parse(&format!("{name}{picked}"), Some(&kitchen_sink())).unwrap();
            let outcome = view.select(&query, &[]).and_then(|selected| {
                let all: proto_splitter::Result<Vec<u64>> = selected.collect();
                all
            });
            let error = outcome.unwrap_err();
            assert_eq!(
                error.kind(),
                proto_splitter::ErrorKind::InvalidMessage,
                "{name}{picked}"
            );
        }
    }
}
