//! Tests of several changes to a message in one pass.

use std::sync::Arc;

use crate::merge_support::schema::descriptor;
use crate::merge_support::{cat, group, int, len};
use proto_splitter_core::edit::{Changed, Changes};
use proto_splitter_core::merge::ReadOptions;
use proto_splitter_core::path::PathQuery;
use proto_splitter_core::progress::Progress;
use proto_splitter_core::tensor::TensorRule;
use proto_splitter_core::{ErrorKind, Result};

fn query(text: &str) -> PathQuery {
    PathQuery::parse(text, Some(&descriptor())).unwrap()
}

fn value(text: &str) -> Arc<Vec<u8>> {
    Arc::new(text.as_bytes().to_vec())
}

/// Applies changes to a message. Returns the numbers of the changes, and the new message.
fn apply(message: Vec<u8>, changes: &Changes) -> Result<(Changed, Vec<u8>)> {
    let reading = ReadOptions::new().descriptor(descriptor());
    let changed = changes.apply(Arc::new(message), &reading)?;
    let mut bytes = Vec::new();
    changed.write_to(&mut bytes, &Progress::default())?;
    Ok((changed, bytes))
}

#[test]
fn the_only_field_of_a_message_can_be_removed_while_another_is_inserted() {
    for (removed, inserted, message, expected) in [
        ("s", "y", len(7, "old"), len(8, "new")),
        ("m.s", "m.y", len(9, len(7, "old")), len(9, len(8, "new"))),
    ] {
        let changes = Changes::new()
            .remove(query(removed))
            .insert(query(inserted), value("new"));
        let (changed, bytes) = apply(message, &changes).unwrap();
        assert_eq!((changed.removed, changed.inserted), (1, 1));
        assert_eq!(bytes, expected, "{removed}");
    }
}

#[test]
fn nothing_is_inserted_into_a_removed_message() {
    let changes = Changes::new()
        .remove(query("m"))
        .insert(query("m.y"), value("new"));
    for message in [
        len(9, len(7, "old")),
        cat([int(1, 1), len(9, len(7, "old"))]),
    ] {
        let error = apply(message, &changes).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
    }
}

#[test]
fn a_tensor_without_other_fields_is_stripped_while_a_field_is_inserted() {
    static RULE: TensorRule = TensorRule {
        content: 8,
        ..TensorRule::new("t.T", 1)
    };
    let changes = Changes::new()
        .strip_tensors(vec![&RULE])
        .insert(query("m.s"), value("new"));
    let (changed, bytes) = apply(len(9, len(8, "elements")), &changes).unwrap();
    assert_eq!((changed.stripped, changed.inserted), (1, 1));
    assert_eq!(bytes, len(9, len(7, "new")));
}

#[test]
fn a_value_is_neither_inserted_nor_replaced_twice() {
    let insert = |path: &str| Changes::new().insert(query(path), value("a"));
    let number = |changes: Changes, path| changes.insert(query(path), Arc::new(vec![5]));
    let replace = |changes: Changes| changes.replace(query("g"), Arc::new(int(1, 1)));
    let empty = || group(33, []);
    for (message, changes) in [
        (int(1, 1), insert("s").insert(query("7"), value("b"))),
        (len(9, []), insert("m.s").insert(query("m.s"), value("a"))),
        (
            int(1, 1),
            insert("mss['k']").insert(query("mss['k']"), value("b")),
        ),
        (int(1, 1), number(insert("os"), "oi")),
        (empty(), replace(replace(Changes::new()))),
        (empty(), replace(number(Changes::new(), "g.i32"))),
        (empty(), replace(Changes::new().remove(query("g")))),
    ] {
        let error = apply(message, &changes).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
        assert!(error.to_string().contains("contradict"), "{error}");
    }
    let several = insert("rs").insert(query("rs"), value("b"));
    let several = several.insert(query("mss['k']"), value("a"));
    let several = several.insert(query("mss['l']"), value("a"));
    let (changed, _) = apply(int(1, 1), &several).unwrap();
    assert_eq!(changed.inserted, 4);
}
