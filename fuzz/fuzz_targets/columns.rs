//! Reads arbitrary bytes as a message, and its elements as the rows of a table. Checks that the table has as many rows as a
//! query finds elements, that each output format that supports these rows has them, and that a chunked message has the same
//! table.
#![no_main]

use std::num::NonZeroUsize;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use prost::Message;
use prost_reflect::prost_types::FileDescriptorProto;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, ReflectMessage};
use proto_splitter_columns::arrow_array::{Array, RecordBatch};
use proto_splitter_columns::arrow_schema::TimeUnit;
use proto_splitter_columns::{Table, TableOptions};
use proto_splitter_core::container::{ChunkedFile, Limits};
use proto_splitter_core::path::PathQuery;
use proto_splitter_core::split::{SizeSplitter, Source, SplitExt, SplitOptions};
use proto_splitter_core::view::MessageView;
use proto_splitter_core::{ReadOptions, Result};

/// Schema of the type `Times`, which has timestamps, durations, wrapped values and enums, with and without presence.
const TIMES: &str = r#"
name: "times.proto" syntax: "proto3"
dependency: "google/protobuf/timestamp.proto" dependency: "google/protobuf/duration.proto"
dependency: "google/protobuf/wrappers.proto" dependency: "google/protobuf/empty.proto"
message_type {
  name: "Times"
  field { name: "time" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" }
  field { name: "span" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".google.protobuf.Duration" }
  field { name: "wrapped" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".google.protobuf.Int64Value" }
  field { name: "text" number: 4 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".google.protobuf.StringValue" }
  field { name: "empty" number: 5 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".google.protobuf.Empty" }
  field { name: "level" number: 6 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".Level" }
  field { name: "levels" number: 7 label: LABEL_REPEATED type: TYPE_ENUM type_name: ".Level" }
  field { name: "times" number: 8 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" }
  field { name: "r" number: 9 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".Times" }
  field { name: "small" number: 10 label: LABEL_OPTIONAL type: TYPE_UINT32 oneof_index: 0 proto3_optional: true }
  oneof_decl { name: "_small" }
}
enum_type { name: "Level" value { name: "LOW" number: 0 } value { name: "HIGH" number: 1 } }
"#;

static TIMES_TYPE: LazyLock<MessageDescriptor> = LazyLock::new(|| {
    let of = FileDescriptorProto::default().descriptor();
    let file = DynamicMessage::parse_text_format(of, TIMES).expect("a file");
    let mut pool = DescriptorPool::global();
    pool.add_file_descriptor_proto(file.transcode_to().expect("a file"))
        .expect("a type");
    pool.get_message_by_name("Times").expect("it is there")
});

/// Queries for the type with a field of every kind, each with the columns to request; all columns if the list is empty.
const QUERIES: [(&str, &[&str]); 16] = [
    ("r[*]", &[]),
    ("r[*]", &["s", "m.s", "r.i32", "r.r.y", "g.y", "e", "d"]),
    ("r[*]", &["mss", "msi", "ri", "rs", "ry", "y"]),
    ("r[*]", &["om.s", "os", "oi", "on.s", "m.mss"]),
    ("m.r[*]", &[]),
    ("r[*].r[*]", &[]),
    ("r[*].m", &["s", "u64", "x32", "i64", "f", "b", "s32"]),
    ("r[*].m.r[*]", &["m.m.s", "r.s"]),
    ("rs[*]", &[]),
    ("ri[*]", &[]),
    ("r[*].ri[*]", &[]),
    ("ry[*]", &[]),
    ("ms[*]", &[]),
    ("mi[*].r[*]", &["s", "r.mss"]),
    ("r[*].mss[*]", &[]),
    ("mz[*].msi[*]", &[]),
];

/// Queries for the type `Times`, each with the columns to request; all columns if the list is empty.
const OF_TIMES: [(&str, &[&str]); 6] = [
    ("r[*]", &[]),
    (
        "r[*].r[*]",
        &["time", "span", "wrapped", "text", "empty", "level", "small"],
    ),
    ("r[*]", &["levels", "times", "r.time", "time.seconds"]),
    ("times[*]", &[]),
    ("r[*].times[*]", &["nanos"]),
    ("levels[*]", &[]),
];

/// Adds a seed for each query to the corpus: a message of the query's type, with values in a few fields.
fn plant() {
    let Some(corpus) = proto_splitter_fuzz::corpus("columns") else {
        return;
    };
    let element = r#"i32: 1 s: "a" e: E_SIX d: 1.5 y: "b" ri: [1, 2] rs: "c" ry: "d" os: "e" msi { key: "f" value: 7 } mss { key: "g"
        value: "h" } G { y: "i" }"#;
    let below = format!(
        r#"{element} m {{ {element} r {{ {element} }} }} r {{ {element} m {{ s: "j" }} }} ms {{ key: "k" value {{ {element} }} }}"#
    );
    let all = format!(
        r#"{below} r {{ {below} }} r {{ }} r {{ {below} }} mi {{ key: 1 value {{ {below} }} }} mz {{ key: -1 value
        {{ {element} }} }}"#
    );
    let time = r#"time { seconds: 1 nanos: 5 } span { seconds: -1 nanos: -5 } wrapped { value: 3 } text { value: "a" } empty { } level: HIGH
        levels: [LOW, HIGH] times { seconds: 7 } small: 0"#;
    let times = format!("{time} r {{ {time} r {{ {time} }} }} r {{ }}");
    let seeds = [
        (proto_splitter_fuzz::every_kind(), all, QUERIES.len()),
        (TIMES_TYPE.clone(), times, OF_TIMES.len()),
    ];
    for (kind, (of, text, queries)) in (0..).zip(seeds) {
        let message = DynamicMessage::parse_text_format(of, &text).expect("a message");
        for query in 0..u8::try_from(queries).expect("they are few") {
            let seed = [&[kind, query, query], &message.encode_to_vec()[..]].concat();
            std::fs::write(corpus.join(format!("seed-{kind}-{query:02}")), seed).expect("a seed");
        }
    }
}

/// Returns the rows of a table in batches, after checking that the columns of each batch are valid.
fn rows(table: &Table<'_>) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    table.for_each_batch(|batch| {
        for column in batch.columns() {
            let data = column.to_data();
            data.validate_full().expect("columns are valid");
        }
        batches.push(batch);
        Ok(())
    })?;
    Ok(batches)
}

fn number(batches: &[RecordBatch]) -> u64 {
    batches.iter().map(|batch| batch.num_rows() as u64).sum()
}

/// Returns the number of elements that a query selects.
fn count(view: &MessageView<'_>, query: &PathQuery) -> Result<u64> {
    let mut selected = view.select(query, &[])?;
    let mut count = 0;
    while selected.next().transpose()?.is_some() {
        count += 1;
    }
    Ok(count)
}

fuzz_target!(init: plant(), |data: &[u8]| {
    let Some((&[how, which, sink], message)) = data.split_first_chunk::<3>() else {
        return;
    };
    let (of, queries) = match how % 2 {
        0 => (proto_splitter_fuzz::every_kind(), &QUERIES[..]),
        _ => (TIMES_TYPE.clone(), &OF_TIMES[..]),
    };
    let (text, columns) = queries[usize::from(which) % queries.len()];
    let query = PathQuery::parse(text, Some(&of)).expect("a query");
    let units = [TimeUnit::Nanosecond, TimeUnit::Microsecond, TimeUnit::Millisecond, TimeUnit::Second];
    let mut options = TableOptions::new()
        .with_parent(how & 2 == 2)
        .time_unit(units[usize::from(how >> 2) % 4])
        .threads(NonZeroUsize::MIN);
    if !columns.is_empty() {
        options = options.columns(columns.iter().copied());
    }
    let limits = Limits::new().max_message_size(1 << 20).max_merged_size(1 << 20);
    let reading = ReadOptions::new().limits(limits.clone()).threads(NonZeroUsize::MIN).descriptor(of.clone());
    let message = message.to_vec();
    let view = || MessageView::of_plain(&message, reading.clone()).expect("it has a size");
    let Ok(table) = Table::new(view(), &query, &[], &options) else {
        return;
    };
    let plain = rows(&table);
    if let Ok(plain) = &plain {
        let found = count(&view(), &query).expect("they are rows");
        assert_eq!(number(plain), found, "{text}");
    }
    let mut written = Vec::new();
    let (count, needs_flat) = match sink % 4 {
        0 => (table.write_parquet(&mut written), false),
        1 => (table.write_arrow(&mut written), false),
        _ => (table.write_csv(&mut written), true),
    };
    match (&plain, count) {
        (Ok(plain), Ok(count)) => assert_eq!(number(plain), count),
        (Err(_), Ok(count)) => panic!("{count} rows are written, but can't be read"),
        (Ok(_), Err(error)) => assert!(needs_flat, "{error}"),
        (Err(_), Err(_)) => {}
    }

    let splitting = SplitOptions::new().max_chunk_size(300).always_chunked(true).threads(NonZeroUsize::MIN);
    let (source, mut file) = (Source::from_bytes(message.clone(), of), Vec::new());
    let Ok(split) = SizeSplitter.write_to_with(source, &mut file, &splitting) else {
        return;
    };
    if split.byte_exact {
        let file = ChunkedFile::from_source(file, &limits).expect("what was written is read");
        let table = Table::new(file.view(reading.clone()), &query, &[], &options);
        let chunked = rows(&table.expect("the type is the same"));
        match (&plain, &chunked) {
            (Ok(plain), Ok(chunked)) => assert_eq!(plain, chunked, "{text}"),
            (Err(_), Err(_)) => {}
            _ => panic!("{text}: {plain:?}, in chunks {chunked:?}"),
        }
    }
});
