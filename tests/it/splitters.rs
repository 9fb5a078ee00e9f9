use bytes::Bytes;
use prost_reflect::prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor, Value};
use proto_splitter::container::{ChunkKind, ChunkedFile};
use proto_splitter::merge::{Merger, ReadOptions};
use proto_splitter::path::{FieldPath, MapKey};
use proto_splitter::split::{
    AddedChunk, ComposableSplitter, Profile, SizeRules, SizeSplitter, Source, SplitContext,
    SplitExt, SplitOptions, SplitPlan, ViewKind,
};
use proto_splitter::wire::put_varint;
use proto_splitter::{Error, ErrorKind, GraphDefSplitter, Result, SAVED_MODEL, SavedModelSplitter};
use proto_splitter_testkit::generate::kitchen_sink;
use proto_splitter_testkit::reference;

/// A splitter that calls the given function.
struct By<F>(F);

impl<F: Fn(&mut SplitContext<'_>) -> Result<()>> ComposableSplitter for By<F> {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
        (self.0)(cx)
    }
}

fn text_format(text: &str) -> Source {
    let message = DynamicMessage::parse_text_format(kitchen_sink(), text).unwrap();
    Source::from(&message)
}

fn paths(splitter: &impl ComposableSplitter, source: &Source) -> Vec<String> {
    let plan = splitter.plan(source, &SplitOptions::new()).unwrap();
    plan.chunks()
        .iter()
        .map(|chunk| chunk.path().display(Some(plan.descriptor())))
        .collect()
}

const NESTED: &str = r#"
    text: "root"
    child { blob: "in the child" child { text: "deeper" } }
    children { text: "first" } children { blob: "second" } children { blobs: "third" }
    by_name { key: "a" value { text: "under a" } }
    by_name { key: "b" value { blob: "under b" text: "also under b" } }
    blobs: "x" blobs: "y"
    Pair { left: "in a group" }
"#;

#[test]
fn what_is_cut_by_hand_gets_its_path_and_comes_back() {
    let source = text_format(NESTED);
    let splitter = By(|cx: &mut SplitContext<'_>| {
        let root = cx.message();
        cx.cut(&root.get("text")?.unwrap())?;
        cx.cut(&root.repeated("children")?.nth(1).unwrap()?.view())?;
        for entry in root.map("by_name")? {
            let (_, value) = entry?;
            cx.cut(&value.get("text")?.unwrap())?;
        }
        let child = root.get("child")?.unwrap();
        cx.cut(&child)?;
        cx.cut(&child.get("child")?.unwrap())?;
        cx.cut(&root.get("pair")?.unwrap().get("left")?.unwrap())
    });
    let mut found = paths(&splitter, &source);
    found.sort();
    let expected = [
        "",
        "by_name[\"a\"].text",
        "by_name[\"b\"].text",
        "child",
        "child.child",
        "children[1]",
        "pair.left",
        "text",
    ];
    assert_eq!(found, expected);
    let split = splitter.split(&source).unwrap();
    let merged = Merger::new()
        .merge(&split.bytes(), &split.metadata)
        .unwrap();
    assert!(split.byte_exact());
    let reflected = reference::merge(&split.bytes(), &split.message(), &kitchen_sink());
    assert!(reflected == DynamicMessage::decode(kitchen_sink(), merged).unwrap());
}

#[test]
fn a_child_splitter_works_below_the_path_of_its_message() {
    struct Child;
    impl ComposableSplitter for Child {
        fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
            assert_eq!(cx.message().display_path(), "child");
            assert_eq!(cx.message().size(), 24);
            if let Some(blob) = cx.message().get("blob")? {
                assert_eq!(
                    (blob.kind(), blob.read()?),
                    (&ViewKind::Bytes, b"in the child".to_vec())
                );
                cx.cut(&blob)?;
            }
            Ok(())
        }
    }
    let parent = By(|cx: &mut SplitContext<'_>| {
        let root = cx.message();
        let child = root.get("child")?.unwrap();
        cx.compose(&Child, &child)?;
        cx.cut(&child)
    });
    assert_eq!(
        paths(&parent, &text_format(NESTED)),
        ["", "child", "child.blob"]
    );
}

#[test]
fn a_splitter_that_cuts_nothing_leaves_one_chunk_that_is_the_message() {
    let source = text_format(NESTED);
    let split = By(|_: &mut SplitContext<'_>| Ok(()))
        .split(&source)
        .unwrap();
    assert_eq!(split.chunks.len(), 1);
    assert_eq!(split.chunks[0].kind, ChunkKind::Message);
    assert_eq!(split.chunks[0].bytes.len() as u64, source.size());
    assert_eq!(split.message().chunk_index, Some(0));
}

#[test]
fn splitting_twice_gives_the_same_chunks() {
    let source = text_format(NESTED);
    let options = SplitOptions::new().max_chunk_size(40);
    let [a, b] = [(); 2].map(|()| SizeSplitter.split_with(&source, &options).unwrap());
    assert_eq!(a.chunks, b.chunks);
    assert_eq!(a.metadata, b.metadata);
}

#[test]
fn sizes_go_on_where_a_splitter_has_cut_by_hand() {
    let source = text_format(NESTED);
    let splitter = By(|cx: &mut SplitContext<'_>| {
        cx.cut(&cx.message().get("child")?.unwrap())?;
        cx.fit()
    });
    let options = SplitOptions::new().max_chunk_size(60);
    let split = splitter.split_with(&source, &options).unwrap();
    assert!(
        split
            .chunks
            .iter()
            .any(|chunk| chunk.path.to_string() == "4")
    );
    assert!(split.chunks.iter().all(|chunk| chunk.bytes.len() <= 60));
    let reflected = reference::merge(&split.bytes(), &split.message(), &kitchen_sink());
    assert!(reflected == DynamicMessage::parse_text_format(kitchen_sink(), NESTED).unwrap());
}

#[test]
fn a_message_may_be_fitted_by_its_splitter_and_its_parent_s_in_any_order() {
    let source = text_format(NESTED);
    let options = SplitOptions::new().max_chunk_size(40);
    let children = |cx: &mut SplitContext<'_>| {
        let root = cx.message();
        let values = root.map("by_name")?.map(|entry| entry.map(|entry| entry.1));
        let children = root.repeated("children")?;
        let children = children.map(|child| child.map(|child| child.view()));
        let children = children.chain(values);
        let children = children.chain(root.get("child")?.map(Ok));
        children
            .into_iter()
            .try_for_each(|child| cx.compose(&SizeSplitter, &child?))
    };
    let first = By(|cx: &mut SplitContext<'_>| {
        children(cx)?;
        cx.fit()
    });
    let last = By(|cx: &mut SplitContext<'_>| {
        cx.fit()?;
        children(cx)?;
        cx.fit()
    });
    let alone = SizeSplitter.plan(&source, &options).unwrap().to_string();
    assert_eq!(first.plan(&source, &options).unwrap().to_string(), alone);
    assert_eq!(last.plan(&source, &options).unwrap().to_string(), alone);

    let cut_after = By(|cx: &mut SplitContext<'_>| {
        cx.fit()?;
        cx.cut(&cx.message().repeated("children")?.nth(2).unwrap()?.view())
    });
    let split = cut_after.split_with(&source, &options).unwrap();
    let merged = Merger::new()
        .merge(&split.bytes(), &split.metadata)
        .unwrap();
    let expected = DynamicMessage::parse_text_format(kitchen_sink(), NESTED).unwrap();
    assert!(DynamicMessage::decode(kitchen_sink(), merged).unwrap() == expected);
}

#[test]
fn entries_whose_writer_left_out_an_empty_value_are_entries_too() {
    let text = "t".repeat(300);
    let whole = DynamicMessage::parse_text_format(
        kitchen_sink(),
        &format!(
            "by_name {{ key: 'a' value {{ text: '{text}' }} }} by_name {{ key: 'b' value {{ text: '{text}' }} }}"
        ),
    );
    let mut bytes = whole.unwrap().encode_to_vec();
    let number = kitchen_sink()
        .get_field_by_name("by_name")
        .unwrap()
        .number();
    // These entries have no values. The first has the key `c`, the second has no key, and the third
    // repeats the key `a`.
    for entry in [&b"\x0a\x01c"[..], b"", b"\x0a\x01a"] {
        put_varint(&mut bytes, u64::from(number) << 3 | 2);
        put_varint(&mut bytes, entry.len() as u64);
        bytes.extend_from_slice(entry);
    }
    let source = Source::from_bytes(bytes.clone(), kitchen_sink());
    let cuts_all = By(|cx: &mut SplitContext<'_>| {
        let mut keys = Vec::new();
        for entry in cx.message().map("by_name")? {
            let (key, value) = entry?;
            keys.push((key, value.size() > 0));
            assert!(value.get("text")?.is_none_or(|text| text.size() == 300));
            assert_eq!(value.read()?.is_empty(), value.size() == 0);
            cx.cut(&value)?;
            cx.compose(&SizeSplitter, &value)?;
        }
        let key = |key: &str| MapKey::String(key.into());
        assert_eq!(
            keys,
            [
                (key("b"), true),
                (key("c"), false),
                (key(""), false),
                (key("a"), false)
            ]
        );
        Ok(())
    });
    let by_hand = cuts_all.split(&source).unwrap();
    let by_size = SplitOptions::new()
        .max_chunk_size(400)
        .value_chunk_size(None);
    let by_size = SizeSplitter.split_with(&source, &by_size).unwrap();
    for split in [by_hand, by_size] {
        assert_eq!(split.chunks.len(), 2);
        let merged = Merger::new().merge(&split.bytes(), &split.metadata);
        assert!(merged.unwrap() == bytes);
    }
}

#[test]
fn rules_for_a_message_hold_when_its_parent_is_fitted_too() {
    let text = "t".repeat(40);
    let source = text_format(&format!(
        "text: '{text}' Pair {{ left: '{text}' right {{ text: '{text}' }} }}"
    ));
    let options = SplitOptions::new()
        .max_chunk_size(100)
        .value_chunk_size(None);
    let keeping = By(|cx: &mut SplitContext<'_>| {
        let root = cx.message();
        let pair = root.get("pair")?.unwrap();
        let rules = SizeRules::new().keep_whole("testkit.Sink.Pair");
        cx.compose(&By(|cx: &mut SplitContext<'_>| cx.fit_with(&rules)), &pair)?;
        cx.fit()
    });
    let paths = |plan: SplitPlan| -> Vec<String> {
        let cut = plan.chunks().iter().skip(1);
        cut.map(|chunk| chunk.path().display(Some(plan.descriptor())))
            .collect()
    };
    let alone = SizeSplitter.plan(&source, &options).unwrap();
    assert_eq!(paths(alone), ["pair"]);
    assert_eq!(paths(keeping.plan(&source, &options).unwrap()), ["text"]);
}

#[test]
fn added_chunks_are_merged_as_tensorflow_would() {
    let source = text_format("text: 'base' children { text: 'a' }");
    let splitter = By(|cx: &mut SplitContext<'_>| {
        let path = |text: &str| FieldPath::parse(text, &kitchen_sink());
        let bytes = |bytes: &'static [u8]| Bytes::from_static(bytes);
        cx.add_chunk(AddedChunk::Bytes(bytes(b"set")), &path("child.blob")?, None)?;
        cx.add_chunk(
            AddedChunk::Message(bytes(b"\x1a\x01b")),
            &path("children[1]")?,
            Some(1),
        )
    });
    let split = splitter.split(&source).unwrap();
    assert_eq!(
        split.chunks[1].path.to_string(),
        "5[1]",
        "its index was asked for"
    );
    assert!(
        !split.metadata.splice_marker,
        "placeholders don't say where these go"
    );
    let options = ReadOptions::new().descriptor(kitchen_sink());
    let merged = Merger::new()
        .options(&options)
        .merge(&split.bytes(), &split.metadata)
        .unwrap();
    let expected =
        "text: 'base' child { blob: 'set' } children { text: 'a' } children { text: 'b' }";
    let expected = DynamicMessage::parse_text_format(kitchen_sink(), expected).unwrap();
    assert!(DynamicMessage::decode(kitchen_sink(), merged).unwrap() == expected);
}

#[test]
fn misuse_of_a_context_is_an_error_that_says_what() {
    let source = text_format(NESTED);
    type Misuse = fn(&mut SplitContext<'_>) -> Result<()>;
    let table: &[(Misuse, ErrorKind, &str)] = &[
        (
            |cx| cx.message().get("nothing").map(|_| ()),
            ErrorKind::InvalidPath,
            "testkit.Sink has no field nothing",
        ),
        (
            |cx| cx.message().get("children").map(|_| ()),
            ErrorKind::InvalidPath,
            "field children is repeated",
        ),
        (
            |cx| cx.message().repeated("child").map(|_| ()),
            ErrorKind::InvalidPath,
            "field child is not repeated",
        ),
        (
            |cx| cx.message().map("child").map(|_| ()),
            ErrorKind::InvalidPath,
            "field child is not a map",
        ),
        (
            |cx| cx.message().get("small").map(|_| ()),
            ErrorKind::InvalidPath,
            "field small is neither message, bytes nor string",
        ),
        (
            |cx| cx.cut(&cx.message().repeated("blobs")?.next().unwrap()?.view()),
            ErrorKind::Uncuttable,
            "blobs[0]: a string or bytes value that is an element or in a map can only be cut in the profile `extended`",
        ),
        (
            |cx| cx.cut(&cx.message()),
            ErrorKind::Uncuttable,
            "only a value inside the message that is written in one piece can be cut",
        ),
        (
            |cx| cx.compose(&SizeSplitter, &cx.message().get("text")?.unwrap()),
            ErrorKind::InvalidPath,
            "text: the splitter is applied to a field that is not a message",
        ),
        (
            |cx| cx.add_chunk(AddedChunk::Bytes(Bytes::new()), &"4".parse()?, None),
            ErrorKind::InvalidPath,
            "child: a BYTES chunk doesn't fit here",
        ),
        (
            |cx| cx.add_chunk(AddedChunk::Message(Bytes::new()), &"99".parse()?, None),
            ErrorKind::InvalidPath,
            "99: field 99 not found in testkit.Sink",
        ),
        (
            |_| Err(Error::new(ErrorKind::InvalidConfig, "my own reason")),
            ErrorKind::InvalidConfig,
            "my own reason",
        ),
    ];
    for (misuse, kind, message) in table {
        let error = By(misuse).plan(&source, &SplitOptions::new()).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (*kind, *message)
        );
    }
}

#[test]
fn a_splitter_that_leaves_too_much_is_told_where() {
    let source = text_format(NESTED);
    let options = SplitOptions::new().max_chunk_size(20);
    let splitter = By(|cx: &mut SplitContext<'_>| cx.cut(&cx.message().get("child")?.unwrap()));
    let error = splitter.plan(&source, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Uncuttable);
    assert!(error.to_string().contains("the splitter leaves"), "{error}");
}

#[test]
fn superseded_values_are_not_cut() {
    // In the oneof, field 19, a message, is followed by a number, so the message is superseded.
    let bytes = b"\x9a\x01\x03\x1a\x01x\xa8\x01\x05";
    let source = Source::from_bytes(&bytes[..], kitchen_sink());
    let splitter = By(|cx: &mut SplitContext<'_>| cx.cut(&cx.message().get("chosen")?.unwrap()));
    let error = splitter.plan(&source, &SplitOptions::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "chosen: can't cut the value: it is superseded, a path can't contain its key, or an earlier value with the same key is invalid"
    );
}

#[test]
fn the_splitters_of_tensorflow_refuse_messages_of_other_types() {
    let descriptor = |name: &str| -> MessageDescriptor { crate::fixtures::descriptor(name) };
    let graph = Source::from_bytes(Bytes::new(), descriptor("tensorflow.GraphDef"));
    let error = SavedModelSplitter
        .plan(&graph, &SplitOptions::new())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the splitter of tensorflow.SavedModel was given a tensorflow.GraphDef"
    );
    let model = Source::from_bytes(Bytes::new(), descriptor(SAVED_MODEL));
    let error = GraphDefSplitter
        .plan(&model, &SplitOptions::new())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
}

#[test]
fn a_packed_field_is_cut_between_its_elements() {
    let mut message = DynamicMessage::new(kitchen_sink());
    let numbers: Vec<Value> = (0..400).map(|n| Value::I64(n * n)).collect();
    let doubles: Vec<Value> = (0..100).map(|n| Value::F64(f64::from(n))).collect();
    message.set_field_by_name("packed_varints", Value::List(numbers));
    message.set_field_by_name("packed_doubles", Value::List(doubles));
    let source = Source::from(&message);
    for max in [20, 50, 100, 333] {
        let options = SplitOptions::new().max_chunk_size(max);
        let split = SizeSplitter.split_with(&source, &options).unwrap();
        assert!(split.byte_exact());
        let merged = Merger::new()
            .merge(&split.bytes(), &split.metadata)
            .unwrap();
        assert!(DynamicMessage::decode(kitchen_sink(), merged).unwrap() == message);
        let reflected = reference::merge(&split.bytes(), &split.message(), &kitchen_sink());
        assert!(reflected == message, "at {max}");
    }
    let options = SplitOptions::new().max_chunk_size(8);
    let error = SizeSplitter.split_with(&source, &options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "packed_doubles: 10 bytes with tag and length that can't be cut, over the maximum chunk size of 8 bytes; \
         the profile `extended` may cut it"
    );
}

#[test]
fn a_refusal_says_what_is_too_large_and_how_much_is_allowed() {
    for (message, max, expected) in [
        (
            "small: 1 shade: DARK texts: 'twelve bytes' number_by_name { key: 'k' value: 1 }",
            30,
            "34 bytes that can't be cut stay in one chunk, over the maximum chunk size of 30 bytes\
             HINT; the largest: number_by_name 15 B, texts[0] 14 B, shade 3 B",
        ),
        (
            "child { texts: 'twelve bytes' small: 1 }",
            13,
            "child.texts[0]: 14 bytes with tag and length that can't be cut, over the maximum chunk size of 13 bytes",
        ),
        (
            "child { texts: 'twelve bytes' small: 1 }",
            11,
            "child.texts[0]: 12 bytes that can't be cut, over the maximum chunk size of 11 bytes",
        ),
        (
            "child { small: 1 shade: DARK texts: 'twelve bytes' }",
            15,
            "21 bytes that can't be cut stay in one chunk, over the maximum chunk size of 15 bytes\
             HINT; the largest: child.texts[0] 14 B, child.shade 3 B, child.small 2 B",
        ),
    ] {
        let options = SplitOptions::new().max_chunk_size(max);
        let error = SizeSplitter
            .plan(text_format(message), &options)
            .unwrap_err();
        let hint = "; the profile `extended` may cut it";
        let expected = if expected.contains("HINT") {
            expected.replace("HINT", hint)
        } else {
            format!("{expected}{hint}")
        };
        assert_eq!(
            (error.kind(), error.to_string()),
            (ErrorKind::Uncuttable, expected)
        );
    }
}

#[test]
fn a_packed_field_that_only_its_long_length_makes_too_large_is_cut() {
    // The field `packed_fixed` has one element, and its length is an overlong varint of ten bytes.
    let bytes = b"\xca\x01\x84\x80\x80\x80\x80\x80\x80\x80\x80\x00\x01\x02\x03\x04";
    let source = Source::from_bytes(&bytes[..], kitchen_sink());
    let options = SplitOptions::new().max_chunk_size(15);
    let split = SizeSplitter.split_with(&source, &options).unwrap();
    let merged = Merger::new()
        .merge(&split.bytes(), &split.metadata)
        .unwrap();
    assert_eq!(merged, &b"\xca\x01\x04\x01\x02\x03\x04"[..]);
}

#[test]
fn a_map_of_scalars_is_cut_between_its_entries() {
    use prost_reflect::MapKey;
    let mut message = DynamicMessage::new(kitchen_sink());
    let entries = (0..300).map(|n| (MapKey::U64(n), Value::Bytes(Bytes::from_static(b"value"))));
    message.set_field_by_name("blob_by_number", Value::Map(entries.collect()));
    let graph = crate::fixtures::descriptor("tensorflow.GraphDebugInfo");
    let mut traces = DynamicMessage::new(graph);
    let names = (0..300).map(|n| (MapKey::String(format!("name {n}")), Value::U64(n)));
    traces.set_field_by_name("name_to_trace_id", Value::Map(names.collect()));
    for message in [message, traces] {
        let options = SplitOptions::new().max_chunk_size(500);
        let split = SizeSplitter.split_with(&message, &options).unwrap();
        assert!(split.byte_exact() && split.chunks.len() > 5);
        let reflected = reference::merge(
            &split.bytes(),
            &split.message(),
            &prost_reflect::ReflectMessage::descriptor(&message),
        );
        assert!(reflected == message);
    }
}

#[test]
fn what_holds_a_type_that_contains_itself_can_be_shown() {
    let source = text_format(NESTED);
    let options = SplitOptions::new().max_chunk_size(60);
    let plan = SizeSplitter.plan(&source, &options).unwrap();
    assert!(format!("{plan:?}").contains("testkit.Sink"));
    let target = "4"
        .parse::<FieldPath>()
        .unwrap()
        .resolve(&kitchen_sink())
        .unwrap();
    assert!(format!("{target:?}").contains("testkit.Sink"));
    let splitter = By(|cx: &mut SplitContext<'_>| {
        assert!(format!("{cx:?}").contains("testkit.Sink"));
        Ok(())
    });
    splitter.plan(&source, &options).unwrap_err();
}

/// A splitter that begins a slice at each of the given element indices.
struct Slices(&'static [u64]);

impl ComposableSplitter for Slices {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
        for element in cx.message().repeated("children")? {
            let element = element?;
            if self.0.contains(&element.index()) {
                cx.slice_at(&element)?;
            }
            // A field inside a slice can also become a chunk.
            if element.index() == 3
                && let Some(text) = element.get("text")?
            {
                cx.cut(&text)?;
            }
        }
        Ok(())
    }
}

#[test]
fn a_splitter_slices_a_repeated_field_where_it_likes() {
    let text = r#"small: 1 children { text: "a" } children { text: "bb" } children { text: "ccc" }
        children { text: "dddd" } children { text: "eeeee" } text: "behind""#;
    let source = text_format(text);
    let mut bytes = Vec::new();
    let whole = SizeSplitter.split(&source).unwrap();
    bytes.extend_from_slice(&whole.chunks[0].bytes);
    for (starts, slices) in [
        (&[0u64, 2, 4][..], 2),
        (&[1], 1),
        (&[4], 1),
        (&[1, 2, 3, 4], 4),
        (&[0], 0),
        (&[9], 0),
    ] {
        for profile in [Profile::TensorFlow, Profile::Extended] {
            let options = SplitOptions::new().profile(profile);
            let split = Slices(starts).split_with(&source, &options).unwrap();
            // There are chunks for the base, for the text that is cut out of an element, and for
            // the slices.
            assert_eq!(split.chunks.len(), 1 + 1 + slices, "{starts:?}");
            assert!(split.byte_exact(), "{starts:?}");
            let folder = tempfile::tempdir().unwrap();
            let written = Slices(starts).write_with(&source, folder.path().join("m"), &options);
            let mut merged = Vec::new();
            ChunkedFile::open(written.unwrap().path)
                .unwrap()
                .merge_to(&mut merged, &ReadOptions::new())
                .unwrap();
            assert!(merged == bytes, "{starts:?}");
        }
    }
}

#[test]
fn slices_of_ones_own_and_a_fit_of_the_same_message_are_refused() {
    let source = text_format(r#"children { text: "aaaaaaaaaa" } children { text: "bbbbbbbbbb" }"#);
    let both = By(|cx: &mut SplitContext<'_>| {
        Slices(&[1]).build_chunks(cx)?;
        cx.fit()
    });
    let error = both
        .plan(&source, &SplitOptions::new().max_chunk_size(10))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Uncuttable);
    both.plan(&source, &SplitOptions::new()).unwrap();
}
