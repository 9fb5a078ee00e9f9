use std::io;

use prost::Message;
use prost_reflect::ReflectMessage;
use prost_reflect::prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
};
use record_file::ReadAt;

use super::*;
use crate::ErrorKind;
use crate::merge::{Limits, ReadOptions};
use crate::path::FieldPath;
use crate::view::MessageView;
use crate::wire::put_varint;

/// A source that isn't in memory, so it is read in windows.
struct Windows<'a>(&'a [u8]);

impl ReadAt for Windows<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buf)
    }

    fn size(&self) -> io::Result<u64> {
        ReadAt::size(self.0)
    }
}

fn tree_of(source: &impl ReadAt, options: ReadOptions, kept: &TreeOptions) -> SizeTree {
    let view = MessageView::of_plain(source, options).unwrap();
    measure(&view, &FieldPath::root(), kept).unwrap()
}

fn untyped(bytes: &[u8]) -> TreeNode {
    tree_of(&bytes, ReadOptions::new(), &TreeOptions::new()).root
}

fn typed() -> ReadOptions {
    ReadOptions::new().descriptor(FileDescriptorSet::default().descriptor())
}

fn set() -> FileDescriptorSet {
    let field = |name: String| FieldDescriptorProto {
        name: Some(name),
        ..Default::default()
    };
    let message = |at: usize| DescriptorProto {
        name: Some(format!("Message{at}")),
        field: (0..at).map(|at| field(format!("field_{at}"))).collect(),
        ..Default::default()
    };
    let file = |at: usize| FileDescriptorProto {
        name: Some(format!("file{at}.proto")),
        message_type: (0..20 * at).map(message).collect(),
        dependency: (0..at).map(|at| format!("file{at}.proto")).collect(),
        ..Default::default()
    };
    FileDescriptorSet {
        file: (0..6).map(file).collect(),
    }
}

/// Formats a tree with one line per node, for comparison.
fn lines(node: &TreeNode, depth: usize, out: &mut Vec<String>) {
    let TreeNode {
        count, size, own, ..
    } = node;
    out.push(format!("{depth} {} {count} {size} {own}", node.label()));
    for member in &node.members {
        let Member {
            text, name, size, ..
        } = member;
        out.push(format!("{depth} {text} {:?} {size}", name.name));
    }
    node.children
        .iter()
        .for_each(|child| lines(child, depth + 1, out));
}

fn all_lines(node: &TreeNode) -> Vec<String> {
    let mut out = Vec::new();
    lines(node, 0, &mut out);
    out
}

fn check_sums(node: &TreeNode) {
    let below: u64 = node.children.iter().map(|child| child.size).sum();
    assert_eq!(node.size, node.own + below, "{}", node.name);
    let kept: u64 = node.members.iter().map(|member| member.size).sum();
    assert!(kept <= node.size, "{}", node.name);
    node.children.iter().for_each(check_sums);
}

#[test]
fn the_sizes_of_fields_add_up_to_that_of_their_message() {
    let bytes = set().encode_to_vec();
    let tree = tree_of(&bytes, typed(), &TreeOptions::new()).root;
    assert_eq!((tree.size, tree.count), (bytes.len() as u64, 1));
    check_sums(&tree);
    let file = tree.child("file").unwrap();
    assert_eq!((file.count, file.repeated), (6, true));
    let messages = file.child("message_type").unwrap();
    assert_eq!(messages.count, 20 * (1 + 2 + 3 + 4 + 5));
    assert_eq!(
        messages.type_name.as_deref(),
        Some("google.protobuf.DescriptorProto")
    );
    let names = messages.child("field").unwrap().child("name").unwrap();
    assert_eq!((names.own, names.size), (names.size, names.size));
}

#[test]
fn the_largest_members_are_kept_with_their_places_and_names_and_of_equal_ones_the_first() {
    let bytes = set().encode_to_vec();
    let tree = tree_of(&bytes, typed(), &TreeOptions::new().top(3)).root;
    let file = tree.child("file").unwrap();
    let told = |node: &TreeNode| -> Vec<(String, String, Option<String>)> {
        let members = node.members.iter();
        members
            .map(|m| (m.text.clone(), m.short.clone(), m.name.name.clone()))
            .collect()
    };
    let member = |text: &str, short: &str, name: &str| {
        (text.to_owned(), short.to_owned(), Some(name.to_owned()))
    };
    assert_eq!(
        told(file),
        [5, 4, 3].map(|at| member(
            &format!("file[{at}]"),
            &format!("[{at}]"),
            &format!("file{at}.proto")
        ))
    );
    let path = |at: usize| format!("file[5].message_type[{at}]");
    assert_eq!(
        told(file.child("message_type").unwrap()),
        [99, 98, 97].map(|at| member(&path(at), &path(at), &format!("Message{at}")))
    );
    // The dependencies are equal in size: from file1.proto in the second file to file4.proto in the
    // last one.
    let dependencies = file.child("dependency").unwrap();
    assert_eq!(
        told(dependencies)[..2],
        [
            member(
                "file[1].dependency[0]",
                "file[1].dependency[0]",
                "file0.proto"
            ),
            member(
                "file[2].dependency[0]",
                "file[2].dependency[0]",
                "file0.proto"
            ),
        ]
    );
    let none = tree_of(&bytes, typed(), &TreeOptions::new().top(0)).root;
    assert!(none.children[0].members.is_empty());
    let least = file.members[1].size;
    let large = TreeOptions::new().min_member_size(least);
    let large = tree_of(&bytes, typed(), &large).root;
    assert_eq!(large.children[0].members.len(), 2);
}

#[test]
fn what_is_read_in_windows_is_what_is_read_at_once() {
    let bytes = set().encode_to_vec();
    assert!(bytes.len() > 64 << 10, "several windows");
    for options in [typed(), ReadOptions::new()] {
        let kept = TreeOptions::new();
        let at_once = tree_of(&bytes, options.clone(), &kept);
        let in_windows = tree_of(&Windows(&bytes), options, &kept);
        assert_eq!(all_lines(&at_once.root), all_lines(&in_windows.root));
    }
}

#[test]
fn without_a_type_a_field_is_a_message_if_it_looks_like_one_whenever_it_occurs() {
    // Field 1 has two messages: one with a number and text, and one with only a number. Field 2 has
    // a value that looks like a message, and one that doesn't. Field 3 is a number.
    let bytes = b"\x0a\x06\x08\x01\x12\x02hi\x0a\x02\x08\x02\x12\x02\x08\x01\x12\x04\xff\xff\xff\xff\x18\x07";
    let tree = untyped(bytes);
    check_sums(&tree);
    let told = |number: &str| {
        let node = tree.child(number).unwrap();
        (node.guessed, node.count, node.children.len(), node.repeated)
    };
    assert_eq!(told("1"), (Some(Guessed::Message), 2, 2, true));
    assert_eq!(told("2"), (Some(Guessed::Bytes), 2, 0, true));
    assert_eq!(told("3"), (Some(Guessed::Number), 1, 0, false));
    let text = tree.child("1").unwrap().child("2").unwrap();
    assert_eq!((text.guessed, text.repeated), (Some(Guessed::Text), false));
}

#[test]
fn what_looked_like_a_message_and_is_none_is_bytes() {
    // A group that ends with another group's end tag, immediately and after valid fields.
    let fine = b"\x08\x01".repeat(3000);
    let long = [&fine[..], b"\x0b\x14"].concat();
    let mut value = vec![0x0a];
    crate::wire::put_varint(&mut value, long.len() as u64);
    value.extend(&long);
    for bytes in [&b"\x0a\x02\x0b\x14"[..], &value] {
        let tree = untyped(bytes);
        assert_eq!(tree.children.len(), 1, "{tree:?}");
        check_sums(&tree);
    }
}

#[test]
fn groups_are_messages_however_deep() {
    // Group 1, which contains the number 5 in field 2 and an empty group 3, occurs twice.
    let group = b"\x0b\x10\x05\x1b\x1c\x0c";
    let bytes = [&group[..], group].concat();
    let source = &bytes[..];
    let tree = untyped(source);
    check_sums(&tree);
    let outer = tree.child("1").unwrap();
    assert_eq!((outer.count, outer.size, outer.own), (2, 12, 4));
    assert_eq!(outer.child("3").unwrap().size, 4);
    let windows = tree_of(&Windows(source), ReadOptions::new(), &TreeOptions::new());
    assert_eq!(all_lines(&windows.root), all_lines(&tree));
}

#[test]
fn messages_deeper_than_the_limit_are_bytes() {
    let mut bytes = b"\x0a\x00".to_vec();
    while bytes.len() < 2000 {
        let mut outer = vec![0x0a];
        crate::wire::put_varint(&mut outer, bytes.len() as u64);
        outer.append(&mut bytes);
        bytes = outer;
    }
    for (limit, expected) in [
        (100, 101),
        (0, 1),
        (150, 151),
        (200, 201),
        (usize::MAX, 201),
    ] {
        let limits = Limits {
            max_message_depth: limit,
            ..Limits::default()
        };
        let options = ReadOptions::new().limits(limits);
        for source in [
            Box::new(Windows(&bytes)) as Box<dyn ReadAt + '_>,
            Box::new(&bytes[..]),
        ] {
            let tree = tree_of(&source, options.clone(), &TreeOptions::new()).root;
            check_sums(&tree);
            let (mut depth, mut node) = (0, &tree);
            while let Some(child) = node.children.first() {
                (depth, node) = (depth + 1, child);
            }
            assert_eq!(depth, expected, "{limit}");
        }
    }
}

#[test]
fn what_breaks_the_format_of_a_known_message_is_an_error_with_its_path() {
    for (bytes, expected) in [
        (
            &b"\x0a\x02\x0a\x05"[..],
            "file[*]: a value that runs past the end of its message at 0x2",
        ),
        (
            b"\x0a\x04\x22\x02\x0a\x80",
            "file[*].message_type[*]: length is truncated or too long at 0x4",
        ),
        (
            b"\x0a\x01\x0c",
            "file[*]: an end group tag without a group at 0x2",
        ),
        (b"\x0a\x01\x00", "file[*]: 0 is not a tag at 0x2"),
        (b"\x0a\x80", "length is truncated or too long at 0x0"),
    ] {
        for windowed in [false, true] {
            let windows = Windows(bytes);
            let failed = |source: &dyn ReadAt| {
                let view = MessageView::of_plain(&source, typed()).unwrap();
                measure(&view, &FieldPath::root(), &TreeOptions::new()).unwrap_err()
            };
            let error = if windowed {
                failed(&windows)
            } else {
                failed(&bytes)
            };
            assert_eq!(error.kind(), ErrorKind::InvalidMessage);
            assert_eq!(error.to_string(), expected);
        }
    }
}

#[test]
fn ever_new_fields_take_no_more_memory_than_a_limit() {
    let mut bytes = Vec::new();
    for number in 1..=100_000u32 {
        crate::wire::put_varint(&mut bytes, u64::from(number) << 3);
        bytes.push(1);
    }
    let tree = untyped(&bytes);
    check_sums(&tree);
    assert!(tree.children.len() <= 4097);
    let others = tree.child("(other fields)").unwrap();
    assert_eq!(others.count, 100_000 - 4096);
}

#[test]
fn the_listed_members_of_deep_fields_take_no_more_memory_than_a_limit() {
    let level = |below: Vec<u8>, _| {
        let mut message = vec![0x0a];
        put_varint(&mut message, below.len() as u64);
        message.extend(below);
        message.extend(b"\x0a\0".repeat(9_999));
        message
    };
    let message = (0..60).fold(b"\x10\x01".to_vec(), level);
    let kept = TreeOptions::new().top(10_000);
    let tree = tree_of(&&message[..], ReadOptions::new(), &kept).root;
    let (mut steps, mut node) = (0, &tree);
    for _ in 0..60 {
        node = &node.children[0];
        let sizes: Vec<u64> = node.members.iter().map(|member| member.size).collect();
        assert!(
            sizes.len() >= DEFAULT_TOP && sizes[0] > sizes[1],
            "{sizes:?}"
        );
        let paths = node.members.iter().map(|member| &member.path);
        steps += paths.map(|path| path.steps().len()).sum::<usize>();
    }
    assert!(steps < 5_000_000, "{steps}");
}

#[test]
fn a_value_that_is_no_message_is_a_tree_of_itself() {
    let bytes = set().encode_to_vec();
    let view = MessageView::of_plain(&bytes, typed()).unwrap();
    let path = FieldPath::parse("file[1].name", view.descriptor().unwrap()).unwrap();
    let tree = measure(&view, &path, &TreeOptions::new()).unwrap();
    assert_eq!((tree.root.size, tree.root.own), (11, 11));
    assert_eq!(tree.root.name, "file[1].name");
}

#[test]
fn a_tree_can_begin_at_a_sum() {
    let bytes = set().encode_to_vec();
    let view = MessageView::of_plain(&bytes, typed()).unwrap();
    let focus = |text: &str| {
        let place = TreePlace::parse(text, view.descriptor())?;
        let tree = measure(&view, &place.path, &TreeOptions::new())?;
        tree.focus(&place.below)
    };
    for (text, count) in [
        (
            "file[*].message_type[*].field[*]",
            20 * 19 / 2 + 780 + 1770 + 3160 + 4950,
        ),
        ("file", 6),
        ("file[*]", 6),
        ("file[5].message_type", 100),
    ] {
        let root = focus(text).unwrap().root;
        assert_eq!(root.count, count, "{text}");
        assert_eq!(
            root.name,
            text.strip_suffix("[*]").unwrap_or(text).to_owned() + "[*]"
        );
    }
    let error = focus("file[*].nam").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidPath);
    assert!(error.to_string().starts_with("file[*].nam: "), "{error}");
}

#[test]
fn members_that_moved_are_matched_by_name() {
    let old = set();
    let mut new = set();
    new.file.remove(2);
    new.file[0].package = Some("a new package".into());
    let tree = |set: &FileDescriptorSet| {
        tree_of(&set.encode_to_vec(), typed(), &TreeOptions::new().top(100))
    };
    let diff = TreeDiff::of(&tree(&old), &tree(&new));
    let file = &diff.root.children[0];
    let changes: Vec<_> = file
        .members
        .iter()
        .map(|member| {
            (
                member.name.name.as_deref().unwrap(),
                member.old.is_some(),
                member.new.is_some(),
            )
        })
        .collect();
    assert_eq!(
        changes,
        [("file2.proto", true, false), ("file0.proto", true, true)]
    );
    let package = file.children.iter().find(|child| child.label == "package");
    assert_eq!(package.unwrap().old, None);
    assert!(
        TreeDiff::of(&tree(&old), &tree(&old))
            .root
            .children
            .is_empty()
    );
}

#[test]
fn what_may_have_been_there_unseen_is_not_called_new() {
    let tree = |names: &[usize], top| {
        let file = |len: &usize| FileDescriptorProto {
            name: Some("n".repeat(*len)),
            ..Default::default()
        };
        let set = FileDescriptorSet {
            file: names.iter().map(file).collect(),
        };
        tree_of(&set.encode_to_vec(), typed(), &TreeOptions::new().top(top))
    };
    // The old tree keeps only the member of size 30. A member of size 20 may have existed there,
    // but none of size 40.
    let diff = TreeDiff::of(&tree(&[10, 20, 30], 1), &tree(&[20, 30, 40], 3));
    let members = &diff.root.children[0].members;
    let told: Vec<_> = members
        .iter()
        .map(|member| (member.new, member.unseen_up_to))
        .collect();
    assert_eq!(told, [(Some(44), Some(34))]);
}

/// Returns the largest parts in the form in which an error names them.
fn named(bytes: &[u8], options: ReadOptions, path: &str) -> Vec<String> {
    let view = MessageView::of_plain(&bytes, options).unwrap();
    let parts = largest(&view, &path.parse().unwrap()).unwrap();
    parts.iter().map(LargePart::to_string).collect()
}

#[test]
fn the_largest_parts_are_named_as_exactly_as_their_sizes_justify() {
    let field = |name: &str, options: usize| FieldDescriptorProto {
        name: Some(name.into()),
        default_value: Some("x".repeat(options)),
        ..Default::default()
    };
    let message = |name: &str, field| DescriptorProto {
        name: Some(name.into()),
        field,
        ..Default::default()
    };
    let many = (0..1000)
        .map(|at| field(&format!("field_{at:03}"), 2))
        .collect();
    let file = FileDescriptorProto {
        name: Some("large\n.proto".into()),
        message_type: vec![
            message("Small", vec![field("a", 10)]),
            message("OneLarge", vec![field("b", 10), field("c", 9_000)]),
            message("ManySmall", many),
        ],
        package: Some("p".repeat(200)),
        ..Default::default()
    };
    let set = FileDescriptorSet { file: vec![file] };
    let bytes = set.encode_to_vec();
    assert_eq!(
        named(&bytes, typed(), ""),
        [
            "file[0].message_type[2] 16.6 KiB (ManySmall)",
            "file[0].message_type[1].field[1] 8.8 KiB (c)",
            "file[0].package 203 B",
        ]
    );
    assert_eq!(
        named(&bytes, typed(), "1[0].4[2]"),
        [
            "file[0].message_type[2].field[*].name 10.7 KiB",
            "file[0].message_type[2].field[*].default_value 3.9 KiB",
            "file[0].message_type[2].name 11 B",
        ]
    );
    assert_eq!(named(&bytes, typed(), "1[0].2"), [""; 0]);
    assert_eq!(named(&[], typed(), ""), [""; 0]);
}

#[test]
fn without_a_type_the_largest_parts_are_named_by_numbers() {
    let message = [&b"\x1a\x09\x0a\x07testing"[..], b"\x1a\x04\x0a\x02it"].concat();
    assert_eq!(
        named(&message, ReadOptions::new(), ""),
        ["3[0] 11 B (testing)", "3[1] 6 B (it)"]
    );
}

#[test]
fn a_search_for_the_largest_parts_looks_into_so_many_messages() {
    let bytes = set().encode_to_vec();
    let options = TreeOptions::new().most_entered(7);
    let few = tree_of(&bytes, typed(), &options).root;
    let all = tree_of(&bytes, typed(), &TreeOptions::new()).root;
    let (few, all) = (few.child("file").unwrap(), all.child("file").unwrap());
    assert_eq!((few.count, few.size), (all.count, all.size));
    let inside = |node: &TreeNode| node.children.iter().map(|child| child.count).sum::<u64>();
    assert!(inside(few) < inside(all));
}

#[test]
fn an_error_that_refuses_a_size_ends_with_the_largest_parts() {
    let bytes = set().encode_to_vec();
    let bytes = bytes.as_slice();
    let view = MessageView::of_plain(&bytes, typed()).unwrap();
    let root = FieldPath::root();
    let error = || crate::Error::new(ErrorKind::LimitExceeded, "too large");
    assert_eq!(with_largest(error(), &view, &root).to_string(), "too large");
    let told = with_largest(error().refusing_size().at_offset(7), &view, &root);
    assert_eq!(told.largest().len(), 3);
    let line = told.to_string();
    assert!(
        line.starts_with("too large at 0x7; the largest: file["),
        "{line}"
    );
    assert_eq!(with_largest(told, &view, &root).to_string(), line);
}
