//! Tests that compare the rows of tables with the fields of decoded messages.

#![allow(clippy::unwrap_used, reason = "tests")]

use prost_reflect::{DynamicMessage, MessageDescriptor, Value};
use proto_splitter_columns::arrow_array::cast::AsArray;
use proto_splitter_columns::arrow_array::types::{Float32Type, Int32Type, UInt32Type, UInt64Type};
use proto_splitter_columns::arrow_array::{Array, RecordBatch};
use proto_splitter_columns::arrow_schema::DataType;
use proto_splitter_columns::{Table, TableOptions};
use proto_splitter_core::ReadOptions;
use proto_splitter_core::path::PathQuery;
use proto_splitter_core::view::MessageView;
use proto_splitter_core::wire::put_varint;
use proto_splitter_testkit::compiled::compiled;
use proto_splitter_testkit::schemas::pool_of;

const SCHEMA: &str = r#"
syntax = "proto2";
package t;
message All { repeated Item item = 1; optional string end = 2; repeated Group group = 3; }
message Group { optional string text = 1; repeated Item item = 2; }
message Item {
  optional int32 small = 1;
  optional sint32 zigzag = 2;
  optional fixed64 wide = 3;
  optional float half = 4;
  optional bool flag = 5;
  optional string text = 6;
  optional Level level = 7;
  oneof either {
    uint32 number = 8;
    string word = 9;
    Item item = 10;
    Level grade = 15;
  }
  repeated int64 many = 11;
  optional uint64 far = 100;
  optional string farther = 3000;
  map<int32, Mood> moods = 500;
  enum Level { LOW = 1; HIGH = 2; }
  enum Mood { BRIGHT = 3; DULL = 0; }
}
"#;

const COLUMNS: [&str; 12] = [
    "small",
    "zigzag",
    "wide",
    "half",
    "flag",
    "text",
    "level",
    "number",
    "word",
    "item.text",
    "far",
    "farther",
];

fn all() -> MessageDescriptor {
    compiled("t.proto", SCHEMA)
        .get_message_by_name("t.All")
        .unwrap()
}

fn rows(message: &[u8], query: &str, columns: &[&str]) -> Vec<Vec<Option<String>>> {
    let options = TableOptions::new().columns(columns.iter().copied());
    rows_of(message, query, &options)
}

fn rows_of(message: &[u8], query: &str, options: &TableOptions) -> Vec<Vec<Option<String>>> {
    let view = MessageView::of_plain(&message, ReadOptions::new().descriptor(all())).unwrap();
    let query = PathQuery::parse(query, view.descriptor()).unwrap();
    let table = Table::new(view, &query, &[], options).unwrap();
    let mut rows = Vec::new();
    let taken = table.for_each_batch(|batch| {
        rows.extend((0..batch.num_rows()).map(|row| cells(&batch, row)));
        Ok(())
    });
    taken.unwrap();
    rows
}

fn cells(batch: &RecordBatch, row: usize) -> Vec<Option<String>> {
    let text = |column: &dyn Array| match column.data_type() {
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().value(row).to_string(),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).to_string(),
        DataType::Float32 => {
            let value = column.as_primitive::<Float32Type>().value(row);
            value.to_bits().to_string()
        }
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        DataType::Dictionary(..) => {
            let column = column.as_dictionary::<Int32Type>();
            let place = usize::try_from(column.keys().value(row)).unwrap();
            column.values().as_string::<i32>().value(place).to_owned()
        }
        _ => column.as_string::<i32>().value(row).to_owned(),
    };
    let columns = batch.columns().iter();
    columns
        .map(|column| column.is_valid(row).then(|| text(column)))
        .collect()
}

/// Returns the field at a path of a decoded message as text; `None` if the field is absent.
fn expected(message: &DynamicMessage, path: &str) -> Option<String> {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    if !message.has_field_by_name(first) {
        return None;
    }
    let value = message.get_field_by_name(first)?;
    Some(match &*value {
        Value::Message(inner) => return expected(inner, rest),
        Value::I32(value) => value.to_string(),
        Value::U32(value) => value.to_string(),
        Value::U64(value) => value.to_string(),
        Value::F32(value) => value.to_bits().to_string(),
        Value::Bool(value) => value.to_string(),
        Value::String(value) => value.clone(),
        Value::EnumNumber(1) => "LOW".into(),
        Value::EnumNumber(2) => "HIGH".into(),
        other => format!("{other:?}"),
    })
}

/// A generator of pseudorandom numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % end
    }
}

fn varint(out: &mut Vec<u8>, value: u64, padded: bool) {
    put_varint(out, value);
    if padded && let Some(last) = out.last_mut() {
        *last |= 0x80;
        out.push(0);
    }
}

/// Appends fields in random order. Some occur several times, and some are unknown.
fn put_item(numbers: &mut Numbers, out: &mut Vec<u8>, depth: u64) {
    for _ in 0..numbers.below(6) {
        let number = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 100, 3000];
        let number = number[usize::try_from(numbers.below(16)).unwrap()];
        let wire = match number {
            3 | 14 => 1,
            4 => 5,
            6 | 9 | 10 | 13 | 3000 => 2,
            _ => 0,
        };
        let padded = numbers.below(8) == 0;
        varint(out, number << 3 | wire, padded && numbers.below(2) == 0);
        match (number, wire) {
            (3 | 14, _) => out.extend(numbers.below(1 << 30).to_le_bytes()),
            (4, _) => out.extend((numbers.below(1000) as f32).to_le_bytes()),
            (7, _) => varint(out, numbers.below(2) + 1, padded),
            (5, _) => varint(out, numbers.below(2), padded),
            (10, _) => {
                let mut inner = Vec::new();
                if depth > 0 {
                    put_item(numbers, &mut inner, depth - 1);
                }
                varint(out, inner.len() as u64, padded);
                out.extend(inner);
            }
            (_, 2) => {
                let text = "ä long text".repeat(usize::try_from(numbers.below(4)).unwrap());
                varint(out, text.len() as u64, padded);
                out.extend(text.bytes());
            }
            _ => {
                let shift = numbers.below(31);
                varint(out, numbers.below(1 << 30) >> shift, padded);
            }
        }
    }
}

fn put_field(out: &mut Vec<u8>, number: u64, content: &[u8]) {
    put_varint(out, number << 3 | 2);
    put_varint(out, content.len() as u64);
    out.extend(content);
}

#[test]
fn rows_have_the_values_that_a_reader_of_each_element_decodes() {
    let mut numbers = Numbers(7);
    let item = all().get_field_by_name("item").unwrap();
    let item = item.kind().as_message().unwrap().clone();
    let (mut message, mut decoded) = (Vec::new(), Vec::new());
    for at in 0..40_000 {
        let mut bytes = Vec::new();
        put_item(&mut numbers, &mut bytes, 3);
        decoded.push(DynamicMessage::decode(item.clone(), &bytes[..]).unwrap());
        put_field(&mut message, 1, &bytes);
        if at % 1000 == 0 {
            // Another field between the elements.
            put_field(&mut message, 2, b"between");
        }
    }
    let of = |decoded: &DynamicMessage| COLUMNS.map(|path| expected(decoded, path)).to_vec();
    let expected: Vec<_> = decoded.iter().map(of).collect();
    assert_eq!(rows(&message, "item[*]", &COLUMNS), expected);
    assert_eq!(
        rows(&message, "item[7:39990]", &COLUMNS),
        expected[7..39_990]
    );
    let deep = rows(&message, "item[*].item", &["text"]);
    let present = decoded.iter().filter(|item| item.has_field_by_name("item"));
    assert_eq!(deep.len(), present.count());
}

#[test]
fn an_unknown_number_of_a_closed_enum_does_not_replace_an_earlier_one() {
    let mut message = Vec::new();
    for item in [
        &b"\x38\x02\x38\x07"[..],
        b"\x38\x07",
        b"\x38\x07\x38\x01",
        b"",
    ] {
        put_field(&mut message, 1, item);
    }
    let levels: Vec<_> = rows(&message, "item[*]", &["level"]).concat();
    let expected = [Some("HIGH"), None, Some("LOW"), None].map(|name| name.map(str::to_owned));
    assert_eq!(levels, expected);
}

#[test]
fn an_unknown_number_of_a_closed_enum_does_not_remove_another_value_of_its_oneof() {
    let mut message = Vec::new();
    // The same number, and then a known and an unknown grade.
    for item in [b"\x40\x05\x78\x02", b"\x40\x05\x78\x07"] {
        put_field(&mut message, 1, item);
    }
    for columns in [&["number"][..], &["number", "grade"]] {
        let rows = rows(&message, "item[*]", columns);
        let numbers: Vec<_> = rows.iter().map(|row| row[0].as_deref()).collect();
        assert_eq!(numbers, [None, Some("5")], "{columns:?}");
    }
}

/// Returns the names of the moods of all items.
fn moods(message: &[u8]) -> Vec<String> {
    let view = MessageView::of_plain(&message, ReadOptions::new().descriptor(all())).unwrap();
    let query = PathQuery::parse("item[*]", view.descriptor()).unwrap();
    let options = TableOptions::new().columns(["moods"]);
    let table = Table::new(view, &query, &[], &options).unwrap();
    let mut names = Vec::new();
    let read = table.for_each_batch(|batch| {
        let values = batch.column(0).as_map().values().clone();
        let values = values.as_dictionary::<Int32Type>();
        for key in values.keys() {
            let place = usize::try_from(key.unwrap()).unwrap();
            names.push(values.values().as_string::<i32>().value(place).to_owned());
        }
        Ok(())
    });
    read.unwrap();
    names
}

#[test]
fn a_map_entry_without_a_value_has_the_first_value_of_its_enum() {
    let mut message = Vec::new();
    put_field(&mut message, 1, b"\xa2\x1f\x02\x08\x07");
    let item = all().fields().next().unwrap();
    let item = item.kind().as_message().unwrap().clone();
    let decoded = DynamicMessage::decode(item, &b"\xa2\x1f\x02\x08\x07"[..]).unwrap();
    let decoded = decoded.get_field_by_name("moods").unwrap();
    let mut numbers = decoded.as_map().unwrap().values();
    assert_eq!(numbers.next(), Some(&Value::EnumNumber(3)));
    assert_eq!(moods(&message), ["BRIGHT"]);
}

#[test]
fn a_map_entry_with_an_unknown_number_of_a_closed_enum_does_not_replace_an_earlier_one() {
    let [known, other, unknown] = [3, 0, 99].map(|mood| [0xa2, 0x1f, 4, 8, 7, 0x10, mood]);
    let mut message = Vec::new();
    for item in [
        [known, unknown].concat(),
        [unknown, known].concat(),
        unknown.to_vec(),
        [known, other, unknown].concat(),
    ] {
        put_field(&mut message, 1, &item);
    }
    assert_eq!(moods(&message), ["BRIGHT", "BRIGHT", "DULL"]);
}

#[test]
fn an_unknown_number_of_a_closed_enum_is_no_row() {
    let mut message = Vec::new();
    for item in [b"\x38\x02", b"\x38\x07", b"\x38\x01"] {
        put_field(&mut message, 1, item);
    }
    let levels = rows_of(&message, "item[*].level", &TableOptions::new()).concat();
    let expected = ["HIGH", "LOW"].map(|name| Some(name.to_owned()));
    assert_eq!(levels, expected);
}

#[test]
fn a_number_without_a_name_is_kept_in_an_open_enum_of_an_edition() {
    let set = "file { name: 'o.proto' syntax: 'editions' edition: EDITION_2023
        message_type { name: 'All' field { name: 'item' number: 1 label: LABEL_REPEATED
            type: TYPE_MESSAGE type_name: '.Item' } }
        message_type { name: 'Item' field { name: 'level' number: 7 label: LABEL_OPTIONAL
            type: TYPE_ENUM type_name: '.Level' } }
        enum_type { name: 'Level' value { name: 'NONE' number: 0 } value { name: 'LOW' number: 1 } } }";
    let pool = pool_of(set);
    let all = pool.get_message_by_name("All").unwrap();
    let mut message = Vec::new();
    for item in [&b"\x38\x01\x38\x07"[..], b"\x38\x01"] {
        put_field(&mut message, 1, item);
    }
    let view = MessageView::of_plain(&message, ReadOptions::new().descriptor(all)).unwrap();
    let query = PathQuery::parse("item[*]", view.descriptor()).unwrap();
    let table = Table::new(view, &query, &[], &TableOptions::new()).unwrap();
    let mut levels = Vec::new();
    let read = table.for_each_batch(|batch| {
        levels.extend((0..batch.num_rows()).flat_map(|row| cells(&batch, row)));
        Ok(())
    });
    read.unwrap();
    assert_eq!(levels, ["7", "LOW"].map(|name| Some(name.to_owned())));
}

#[test]
fn damage_in_an_element_among_many_is_an_error_at_its_offset() {
    let mut message = Vec::new();
    for at in 0..1000 {
        let item: &[u8] = if at == 700 {
            b"\x08\x01\x32\x05x"
        } else {
            b"\x08\x01\x32\x01x"
        };
        put_field(&mut message, 1, item);
    }
    let view = MessageView::of_plain(&message, ReadOptions::new().descriptor(all())).unwrap();
    let query = PathQuery::parse("item[*]", view.descriptor()).unwrap();
    let table = Table::new(view, &query, &[], &TableOptions::new()).unwrap();
    let error = table.for_each_batch(|_| Ok(())).unwrap_err();
    assert_eq!(error.offset(), Some(700 * 7 + 4), "{error}");
    assert_eq!(error.path(), Some("item[700]"), "{error}");
}

#[test]
fn an_error_has_the_path_of_the_element_that_is_wrong() {
    // Returns a message with three groups of three items. Each group and item has a string.
    let groups = |wrong: Option<(usize, Option<usize>)>| {
        let text = |is_wrong: bool| if is_wrong { b"\xff" } else { b"x" };
        let mut message = Vec::new();
        for at in 0..3 {
            let mut group = Vec::new();
            put_field(&mut group, 1, text(wrong == Some((at, None))));
            for index in 0..3 {
                let mut item = Vec::new();
                put_field(&mut item, 6, text(wrong == Some((at, Some(index)))));
                put_field(&mut group, 2, &item);
            }
            put_field(&mut message, 3, &group);
        }
        message
    };
    let options = TableOptions::new().columns(["text"]).with_parent(true);
    let cases = [
        ((1, Some(2)), "group[*].item[*]", "group[1].item[2]"),
        ((1, Some(2)), "group[1].item[*]", "group[1].item[2]"),
        ((1, Some(2)), "group[1:].item[2]", "group[1].item[2]"),
        ((2, None), "group[*].item[*]", "group[2]"),
    ];
    for (wrong, query, path) in cases {
        let message = groups(Some(wrong));
        let view = MessageView::of_plain(&message, ReadOptions::new().descriptor(all())).unwrap();
        let query = PathQuery::parse(query, view.descriptor()).unwrap();
        let table = Table::new(view, &query, &[], &options).unwrap();
        let error = table.for_each_batch(|_| Ok(())).unwrap_err();
        assert_eq!(error.path(), Some(path), "{error}");
        assert!(error.offset().is_some(), "{error}");
    }
    assert_eq!(
        rows_of(&groups(None), "group[*].item[*]", &options).len(),
        9
    );
}

#[test]
fn each_of_many_elements_has_its_index_and_its_parent_and_the_fields_of_that() {
    // There are more rows than fit in a batch. The groups have different sizes, and one group is
    // empty.
    let sizes = [3, 0, 70_000, 1, 65_536, 5];
    let (mut message, mut expected) = (Vec::new(), Vec::new());
    for (at, &size) in sizes.iter().enumerate() {
        let mut group = Vec::new();
        for index in 0..size {
            let mut item = vec![0x08];
            put_varint(&mut item, index);
            put_field(&mut group, 2, &item);
            // This field is between elements, so it ends a run of adjacent elements.
            if index % 1000 == 7 {
                put_field(&mut group, 1, b"earlier");
            }
            let [at, index] = [at as u64, index].map(|number| Some(number.to_string()));
            expected.push((at, index));
        }
        put_field(&mut group, 1, format!("group {at}").as_bytes());
        put_field(&mut message, 3, &group);
    }
    let options = TableOptions::new().columns(["small"]).with_parent(true);
    let all = rows_of(&message, "group[*].item[*]", &options);
    let row = |(at, index): &(Option<String>, Option<String>)| {
        let text = at.as_ref().map(|at| format!("group {at}"));
        vec![at.clone(), text, index.clone(), index.clone()]
    };
    assert!(
        all.iter()
            .eq(expected.iter().map(row).collect::<Vec<_>>().iter())
    );

    let some = rows_of(&message, "group[2].item[10:69990]", &options);
    let item = |index: u64| vec![Some(index.to_string()), Some(index.to_string())];
    assert!(some.into_iter().eq((10..69_990).map(item)));
}

/// Returns the number of rows in each batch of a table with the items of all groups.
fn batches(groups: impl Iterator<Item = (usize, usize)>) -> Vec<usize> {
    let mut message = Vec::new();
    for (text, items) in groups {
        let mut group = Vec::new();
        put_field(&mut group, 1, &vec![b'x'; text]);
        for _ in 0..items {
            put_field(&mut group, 2, b"\x08\x01");
        }
        put_field(&mut message, 3, &group);
    }
    let view = MessageView::of_plain(&message, ReadOptions::new().descriptor(all())).unwrap();
    let query = PathQuery::parse("group[*].item[*]", view.descriptor()).unwrap();
    let options = TableOptions::new().columns(["small"]).with_parent(true);
    let table = Table::new(view, &query, &[], &options).unwrap();
    let mut rows = Vec::new();
    let taken = table.for_each_batch(|batch| {
        rows.push(batch.num_rows());
        Ok(())
    });
    taken.unwrap();
    rows
}

#[test]
fn a_batch_ends_early_if_the_parents_of_its_rows_are_large() {
    let rows = batches((0..200).map(|_| (100_000, 1)));
    assert!(rows.iter().all(|&rows| rows <= 100), "{rows:?}");
    assert_eq!(rows.iter().sum::<usize>(), 200);
}

#[test]
fn rows_of_the_same_large_parent_are_in_one_batch() {
    assert_eq!(batches([(9_000_000, 8)].into_iter()), [8]);
}
