//! Printing messages in protobuf's text format, in a fixed order: fields are sorted by number, and
//! map entries by key.

use std::io::{self, Write};

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};

use crate::sanitize::harms_quoted;

pub(crate) mod untyped;

/// Writes a message with a line for each value, like `protoc --decode`. Unknown fields become
/// comments. A value longer than `most` bytes is cut, and a comment with the number of omitted
/// bytes is added.
pub(crate) fn message(
    message: &DynamicMessage,
    most: usize,
    sink: &mut impl Write,
) -> io::Result<()> {
    fields(message, 0, most, &mut |depth, text| {
        writeln!(sink, "{:indent$}{text}", "", indent = 2 * depth)
    })
}

/// Returns a message on one line, without cutting values.
pub(crate) fn inline(message: &DynamicMessage) -> String {
    let mut lines = Vec::new();
    // Writing to memory doesn't fail.
    let _ = fields(message, 0, usize::MAX, &mut |_, text| {
        lines.push(text.to_owned());
        Ok(())
    });
    lines.join(" ")
}

type Line<'a> = &'a mut dyn FnMut(usize, &str) -> io::Result<()>;

fn fields(message: &DynamicMessage, depth: usize, most: usize, line: Line<'_>) -> io::Result<()> {
    let mut known: Vec<_> = message.fields().collect();
    known.sort_by_key(|(field, _)| field.number());
    for (field, value) in known {
        let kind = field.kind();
        let name = match &kind {
            Kind::Message(group) if is_group_by_name(&field, group) => group.name().to_owned(),
            _ => field.name().to_owned(),
        };
        values(&name, &kind, value, (depth, most), line)?;
    }
    let mut extensions: Vec<_> = message.extensions().collect();
    extensions.sort_by_key(|(extension, _)| extension.number());
    for (extension, value) in extensions {
        let name = format!("[{}]", extension.full_name());
        values(&name, &extension.kind(), value, (depth, most), line)?;
    }
    let mut unknown: Vec<_> = message.unknown_fields().collect();
    unknown.sort_by_key(|field| field.number());
    for field in unknown {
        let (number, bytes) = (field.number(), field.encoded_len());
        line(
            depth,
            &format!("# field {number} is not in the schema: {bytes} bytes with its tag"),
        )?;
    }
    Ok(())
}

/// Returns true if a field is a proto2 group, which is printed with the name of its type. With
/// editions, any message field can be encoded like a group; such a field is printed with its own
/// name.
fn is_group_by_name(field: &FieldDescriptor, group: &MessageDescriptor) -> bool {
    field.is_group()
        && field.name() == group.name().to_lowercase()
        && group.parent_message().as_ref() == Some(field.parent_message())
}

fn values(
    name: &str,
    kind: &Kind,
    value: &Value,
    (depth, most): (usize, usize),
    line: Line<'_>,
) -> io::Result<()> {
    match (value, kind) {
        (Value::List(list), _) => {
            for element in list {
                single(name, kind, element, (depth, most), line)?;
            }
            Ok(())
        }
        (Value::Map(map), Kind::Message(entry)) => {
            let mut entries: Vec<(&MapKey, &Value)> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            let (key_kind, value_kind) = (
                entry.map_entry_key_field().kind(),
                entry.map_entry_value_field().kind(),
            );
            for (key, value) in entries {
                line(depth, &format!("{name} {{"))?;
                let key = Value::from(key.clone());
                let inner = (depth + 1, most);
                single("key", &key_kind, &key, inner, line)?;
                single("value", &value_kind, value, inner, line)?;
                line(depth, "}")?;
            }
            Ok(())
        }
        _ => single(name, kind, value, (depth, most), line),
    }
}

fn single(
    name: &str,
    kind: &Kind,
    value: &Value,
    (depth, most): (usize, usize),
    line: Line<'_>,
) -> io::Result<()> {
    match value {
        Value::Message(message) if is_empty(message) => line(depth, &format!("{name} {{}}")),
        Value::Message(message) => {
            line(depth, &format!("{name} {{"))?;
            fields(message, depth + 1, most, line)?;
            line(depth, "}")
        }
        value => line(depth, &format!("{name}: {}", shortened(value, kind, most))),
    }
}

fn is_empty(message: &DynamicMessage) -> bool {
    message.fields().next().is_none()
        && message.extensions().next().is_none()
        && message.unknown_fields().next().is_none()
}

/// Formats a value that isn't a message in the text format.
pub(crate) fn scalar(value: &Value, kind: &Kind) -> String {
    shortened(value, kind, usize::MAX)
}

/// Returns the first `most` bytes, and a comment with the number of omitted bytes. If `is_text` is
/// true, fewer bytes are returned if necessary, so that no character is split.
fn cut(bytes: &[u8], most: usize, is_text: bool) -> (&[u8], String) {
    if bytes.len() <= most {
        return (bytes, String::new());
    }
    let mut end = most;
    // Moves the end before the continuation bytes of a UTF-8 character.
    while is_text && end > 0 && bytes[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    let more = format!(" # and {} more bytes", bytes.len() - end);
    (&bytes[..end], more)
}

fn shortened(value: &Value, kind: &Kind, most: usize) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::I32(value) => value.to_string(),
        Value::I64(value) => value.to_string(),
        Value::U32(value) => value.to_string(),
        Value::U64(value) => value.to_string(),
        Value::F32(value) => float(&format!("{value:?}")),
        Value::F64(value) => float(&format!("{value:?}")),
        Value::String(text) => {
            let (front, more) = cut(text.as_bytes(), most, true);
            format!("{}{more}", quoted(front, true))
        }
        Value::Bytes(bytes) => {
            let (front, more) = cut(bytes, most, false);
            format!("{}{more}", quoted(front, false))
        }
        Value::EnumNumber(number) => match kind {
            Kind::Enum(values) => values
                .get_value(*number)
                .map_or_else(|| number.to_string(), |value| value.name().to_owned()),
            _ => number.to_string(),
        },
        Value::Message(message) => format!("{{ {} }}", inline(message)),
        Value::List(_) | Value::Map(_) => String::new(),
    }
}

fn float(text: &str) -> String {
    match text {
        "NaN" => "nan".into(),
        text => text.to_owned(),
    }
}

/// Returns bytes in quotes. Printable ASCII characters aren't escaped, except for quotes and
/// backslashes. If `is_text` is true, characters outside of ASCII aren't escaped, either, unless
/// they are [harmful](harms_quoted). Everything else is escaped.
fn quoted(bytes: &[u8], is_text: bool) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                ' '..='~' => out.push(c),
                '\u{80}'.. if is_text && !harms_quoted(c) => out.push(c),
                _ => escape(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut out),
            }
        }
        escape(chunk.invalid(), &mut out);
    }
    out.push('"');
    out
}

fn escape(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        // Writing to memory doesn't fail.
        let _ = std::fmt::Write::write_fmt(out, format_args!("\\{byte:03o}"));
    }
}

#[cfg(test)]
mod tests {
    use prost_reflect::ReflectMessage;
    use prost_reflect::prost::Message;
    use proto_splitter::proto::graph_def::attr_value::Value as Attr;
    use proto_splitter::proto::graph_def::{AttrValue, NodeDef, TensorProto};

    use super::*;

    fn node() -> NodeDef {
        let tensor = TensorProto {
            dtype: 1,
            float_val: vec![0.1, -0.0, f32::NAN, f32::INFINITY, 1e30],
            tensor_content: b"\x00\"\\\n\xff~".to_vec().into(),
            ..TensorProto::default()
        };
        let attrs = ["zeta", "alpha", "mid\u{e9}\"", ""].map(|key| {
            let value = AttrValue {
                value: Some(Attr::Tensor(tensor.clone().into())),
            };
            (key.to_owned(), value.into())
        });
        NodeDef {
            name: "n\u{1}".into(),
            input: vec!["a".into(), "b".into()],
            attr: attrs.into(),
            ..NodeDef::default()
        }
    }

    fn shown(of: &DynamicMessage) -> String {
        let mut text = Vec::new();
        message(of, usize::MAX, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn what_is_written_is_read_back_as_it_was() {
        let node = node();
        let dynamic = node.transcode_to_dynamic();
        for text in [shown(&dynamic), inline(&dynamic)] {
            let read = DynamicMessage::parse_text_format(node.descriptor(), &text).unwrap();
            assert_eq!(read.encoded_len(), node.encoded_len());
            assert_eq!(shown(&read), shown(&dynamic));
        }
    }

    #[test]
    fn map_entries_stand_in_the_order_of_their_keys() {
        let text = shown(&node().transcode_to_dynamic());
        let keys: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("  key: "))
            .collect();
        assert_eq!(
            keys,
            [r#""""#, r#""alpha""#, "\"mid\u{e9}\\\"\"", r#""zeta""#]
        );
    }

    #[test]
    fn what_the_schema_does_not_know_is_not_passed_over() {
        let bytes = [&b"\x0a\x01n"[..], b"\xa0\x06\x05"].concat();
        let descriptor = NodeDef::default().descriptor();
        let node = DynamicMessage::decode(descriptor, &bytes[..]).unwrap();
        assert_eq!(
            shown(&node),
            "name: \"n\"\n# field 100 is not in the schema: 3 bytes with its tag\n"
        );
    }
}
