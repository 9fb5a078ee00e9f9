//! Comparing a merge with the message that is said to have been split.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use prost_reflect::{
    DynamicMessage, FieldDescriptor, MapKey as Key, MessageDescriptor, ReflectMessage, Value,
};
use proto_splitter::path::{FieldPath, MapKey, Step};

/// Compares what is written to it with a file, byte by byte.
#[derive(Debug)]
pub(super) struct Compare {
    original: BufReader<File>,
    position: u64,
    buffer: Vec<u8>,
    different: Option<u64>,
}

impl Compare {
    pub(super) fn with(path: &Path) -> io::Result<Self> {
        let original = BufReader::new(File::open(path)?);
        Ok(Compare {
            original,
            position: 0,
            buffer: Vec::new(),
            different: None,
        })
    }

    /// Where the first byte is that differs, all being written; where one ends and the other goes on counts too.
    pub(super) fn finish(mut self) -> io::Result<Option<u64>> {
        if self.different.is_none() && self.original.read(&mut [0])? != 0 {
            self.different = Some(self.position);
        }
        Ok(self.different)
    }
}

impl Write for Compare {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.different.is_some() {
            return Ok(bytes.len());
        }
        self.buffer.clear();
        self.original
            .by_ref()
            .take(bytes.len() as u64)
            .read_to_end(&mut self.buffer)?;
        let equal = bytes
            .iter()
            .zip(&self.buffer)
            .take_while(|(a, b)| a == b)
            .count();
        self.position += equal as u64;
        if equal < bytes.len() {
            self.different = Some(self.position);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The first place where two messages of one type differ, and how. Floats are compared by their bits.
pub(super) fn first_difference(
    merged: &DynamicMessage,
    original: &DynamicMessage,
) -> Option<(String, String)> {
    let mut path = FieldPath::root();
    let how = messages(merged, original, &mut path)?;
    Some((path.display(Some(&merged.descriptor())), how))
}

/// How two messages differ; `path` is left where.
fn messages(a: &DynamicMessage, b: &DynamicMessage, path: &mut FieldPath) -> Option<String> {
    let descriptor = a.descriptor();
    for field in sorted_fields(&descriptor) {
        let present = (a.has_field(&field), b.has_field(&field));
        // The default of a message that can hold itself has no end.
        if field.supports_presence() && present == (false, false) {
            continue;
        }
        path.push(Step::field(field.number()));
        let how = if field.supports_presence() {
            presence(present.0, present.1)
        } else {
            None
        };
        let how = how.or_else(|| values(&a.get_field(&field), &b.get_field(&field), path));
        if how.is_some() {
            return how;
        }
        path.pop();
    }
    for extension in descriptor.extensions() {
        let present = (a.has_extension(&extension), b.has_extension(&extension));
        if present == (false, false) {
            continue;
        }
        path.push(Step::field(extension.number()));
        let how = presence(present.0, present.1);
        let how = how.or_else(|| {
            values(
                &a.get_extension(&extension),
                &b.get_extension(&extension),
                path,
            )
        });
        if how.is_some() {
            return how;
        }
        path.pop();
    }
    unknown_fields(a, b, path)
}

fn sorted_fields(descriptor: &MessageDescriptor) -> Vec<FieldDescriptor> {
    let mut fields: Vec<FieldDescriptor> = descriptor.fields().collect();
    fields.sort_by_key(FieldDescriptor::number);
    fields
}

fn presence(merged: bool, original: bool) -> Option<String> {
    match (merged, original) {
        (true, false) => Some("only in the merge".into()),
        (false, true) => Some("only in the original".into()),
        _ => None,
    }
}

fn values(a: &Value, b: &Value, path: &mut FieldPath) -> Option<String> {
    let differs = |differs: bool, what: &dyn Fn() -> String| differs.then(what);
    match (a, b) {
        (Value::Message(a), Value::Message(b)) => messages(a, b, path),
        (Value::List(a), Value::List(b)) => {
            let number = path.pop()?.field.0;
            for (at, (a, b)) in (0..).zip(a.iter().zip(b)) {
                path.push(Step::index(number, at));
                let how = values(a, b, path);
                if how.is_some() {
                    return how;
                }
                path.pop();
            }
            path.push(Step::field(number));
            let lengths = || {
                format!(
                    "{} elements in the merge, {} in the original",
                    a.len(),
                    b.len()
                )
            };
            differs(a.len() != b.len(), &lengths)
        }
        (Value::Map(a), Value::Map(b)) => {
            let number = path.pop()?.field.0;
            let mut keys: Vec<(MapKey, &Key)> = a
                .keys()
                .chain(b.keys())
                .map(|key| (key_of(key), key))
                .collect();
            keys.sort_by(|(a, _), (b, _)| a.cmp(b));
            keys.dedup_by(|(a, _), (b, _)| a == b);
            for (shown, key) in keys {
                path.push(Step::key(number, shown));
                let how = match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) => values(a, b, path),
                    (a, b) => presence(a.is_some(), b.is_some()),
                };
                if how.is_some() {
                    return how;
                }
                path.pop();
            }
            path.push(Step::field(number));
            None
        }
        (Value::F32(a), Value::F32(b)) => differs(a.to_bits() != b.to_bits(), &|| {
            format!("{a:?} in the merge, {b:?} in the original")
        }),
        (Value::F64(a), Value::F64(b)) => differs(a.to_bits() != b.to_bits(), &|| {
            format!("{a:?} in the merge, {b:?} in the original")
        }),
        (Value::Bytes(a), Value::Bytes(b)) => differs(a != b, &|| runs(a, b)),
        (Value::String(a), Value::String(b)) => {
            differs(a != b, &|| runs(a.as_bytes(), b.as_bytes()))
        }
        (a, b) => differs(a != b, &|| {
            format!("{} in the merge, {} in the original", scalar(a), scalar(b))
        }),
    }
}

fn runs(a: &[u8], b: &[u8]) -> String {
    let at = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    format!(
        "{} bytes in the merge, {} in the original, different from byte {at} on",
        a.len(),
        b.len()
    )
}

fn scalar(value: &Value) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::I32(value) | Value::EnumNumber(value) => value.to_string(),
        Value::I64(value) => value.to_string(),
        Value::U32(value) => value.to_string(),
        Value::U64(value) => value.to_string(),
        _ => "another kind of value".into(),
    }
}

fn key_of(key: &Key) -> MapKey {
    match key {
        Key::Bool(key) => MapKey::Bool(*key),
        Key::I32(key) => MapKey::I32(*key),
        Key::I64(key) => MapKey::I64(*key),
        Key::U32(key) => MapKey::U32(*key),
        Key::U64(key) => MapKey::U64(*key),
        Key::String(key) => MapKey::String(key.clone()),
    }
}

/// Unknown fields have an order among those of one number only.
fn unknown_fields(a: &DynamicMessage, b: &DynamicMessage, path: &mut FieldPath) -> Option<String> {
    let sorted = |message: &DynamicMessage| {
        let mut fields: Vec<_> = message.unknown_fields().cloned().collect();
        fields.sort_by_key(prost_reflect::UnknownField::number);
        fields
    };
    let (a, b) = (sorted(a), sorted(b));
    let at = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let number = match (a.get(at), b.get(at)) {
        (None, None) => return None,
        (Some(a), Some(b)) => a.number().min(b.number()),
        (Some(one), None) | (None, Some(one)) => one.number(),
    };
    path.push(Step::field(number));
    Some("a field that the type doesn't know differs".into())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use prost_reflect::prost;
    use prost_reflect::prost::Message;
    use proto_splitter::proto::graph_def::attr_value::Value as Attr;
    use proto_splitter::proto::graph_def::{AttrValue, GraphDef, NodeDef, TensorProto};

    use super::*;

    fn difference(a: &impl ReflectMessage, b: &impl ReflectMessage) -> Option<(String, String)> {
        first_difference(&a.transcode_to_dynamic(), &b.transcode_to_dynamic())
    }

    fn graph(change: impl FnOnce(&mut NodeDef)) -> GraphDef {
        let tensor = TensorProto {
            float_val: vec![0.0, f32::NAN],
            ..TensorProto::default()
        };
        let value = AttrValue {
            value: Some(Attr::Tensor(tensor)),
        };
        let mut node = NodeDef {
            name: "n".into(),
            input: vec!["a".into(), "b".into()],
            attr: [("value".to_owned(), value)].into(),
            ..NodeDef::default()
        };
        change(&mut node);
        GraphDef {
            node: vec![NodeDef::default(), node],
            ..GraphDef::default()
        }
    }

    #[test]
    fn equal_messages_have_no_difference_nan_or_not() {
        // An OpDef's attributes and a function's are messages that can hold themselves, and are absent here.
        let value = AttrValue {
            value: Some(Attr::Func(Default::default())),
        };
        assert_eq!(difference(&value, &value), None);
        assert_eq!(difference(&graph(|_| {}), &graph(|_| {})), None);
    }

    #[test]
    fn the_first_difference_is_told_by_path() {
        let tensor = |node: &mut NodeDef, values: Vec<f32>| {
            let tensor = TensorProto {
                float_val: values,
                ..TensorProto::default()
            };
            node.attr.insert(
                "value".into(),
                AttrValue {
                    value: Some(Attr::Tensor(tensor)),
                },
            );
        };
        for (other, path, how) in [
            (
                graph(|node| node.op = "Const".into()),
                "node[1].op",
                "0 bytes in the merge, 5 in the original",
            ),
            (
                graph(|node| node.input.truncate(1)),
                "node[1].input",
                "2 elements in the merge, 1 in the original",
            ),
            (
                graph(|node| tensor(node, vec![-0.0, f32::NAN])),
                r#"node[1].attr["value"].tensor.float_val[0]"#,
                "0.0 in the merge, -0.0 in the original",
            ),
            (
                graph(|node| node.attr.clear()),
                r#"node[1].attr["value"]"#,
                "only in the merge",
            ),
            (
                graph(|node| {
                    node.attr.insert(
                        "value".into(),
                        AttrValue {
                            value: Some(Attr::I(3)),
                        },
                    );
                }),
                r#"node[1].attr["value"].i"#,
                "only in the original",
            ),
        ] {
            let (found, said) = difference(&graph(|_| {}), &other).unwrap();
            assert_eq!(found, path);
            assert!(said.starts_with(how), "{said}");
        }
    }

    #[test]
    fn a_negative_zero_is_not_an_absent_value() {
        let attr = |bytes: &[u8]| {
            let descriptor = AttrValue::default().descriptor();
            DynamicMessage::decode(descriptor, bytes).unwrap()
        };
        let (zero, negative) = (attr(&[0x25, 0, 0, 0, 0]), attr(&[0x25, 0, 0, 0, 0x80]));
        assert!(first_difference(&zero, &negative).is_some());
    }

    #[test]
    fn unknown_fields_count() {
        let decode = |extra: &[u8]| {
            let bytes = [graph(|_| {}).encode_to_vec(), extra.to_vec()].concat();
            DynamicMessage::decode(
                GraphDef::default().descriptor(),
                prost::bytes::Bytes::from(bytes),
            )
            .unwrap()
        };
        let (a, b) = (
            decode(&[0xa0, 0x06, 1, 0xa8, 0x06, 2]),
            decode(&[0xa8, 0x06, 2, 0xa0, 0x06, 1]),
        );
        assert_eq!(first_difference(&a, &b), None);
        let b = decode(&[0xa8, 0x06, 2, 0xa0, 0x06, 7]);
        assert_eq!(first_difference(&a, &b).unwrap().0, "100");
    }

    #[test]
    fn bytes_are_compared_up_to_the_end_of_both() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("original");
        fs::write(&file, b"0123456789").unwrap();
        let compare = |written: &[&[u8]]| {
            let mut compare = Compare::with(&file).unwrap();
            for piece in written {
                compare.write_all(piece).unwrap();
            }
            compare.finish().unwrap()
        };
        assert_eq!(compare(&[b"01234", b"56789"]), None);
        assert_eq!(compare(&[b"01234", b"5x789", b"abc"]), Some(6));
        assert_eq!(compare(&[b"01234"]), Some(5));
        assert_eq!(compare(&[b"0123456789", b"x"]), Some(10));
    }
}
