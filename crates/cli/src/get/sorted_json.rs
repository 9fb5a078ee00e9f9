//! Writing JSON with sorted keys in every object, without building a tree of values.

use std::fmt::Display;
use std::ops::Range;

use serde::ser::{Error as _, Impossible, Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Error;

use crate::sanitize;

/// Writes a value as JSON on one line. Object keys are sorted, since map entries have no order.
/// Strings are cut after `most` bytes. Characters that a terminal interprets are escaped.
pub(super) fn write(value: &impl Serialize, most: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    value.serialize(Sorted { out, most })
}

/// A serializer that appends JSON with sorted keys to a buffer.
struct Sorted<'a> {
    out: &'a mut Vec<u8>,
    most: usize,
}

impl<'a> Sorted<'a> {
    fn list(self) -> Result<List<'a>, Error> {
        self.out.push(b'[');
        Ok(List {
            out: self.out,
            most: self.most,
            is_first: true,
        })
    }

    fn object(self) -> Object<'a> {
        Object {
            start: self.out.len(),
            out: self.out,
            most: self.most,
            entries: Vec::new(),
        }
    }
}

/// Returns a string that is longer than `most` bytes cut after `most` bytes, with the number of
/// the others.
pub(super) fn cut(text: &str, most: usize) -> Option<String> {
    let (front, rest) = text.split_at(text.floor_char_boundary(most));
    (!rest.is_empty()).then(|| format!("{front}... and {} more bytes", rest.len()))
}

fn quoted(text: &str, out: &mut Vec<u8>) -> Result<(), Error> {
    let is_plain = |byte: &u8| (b' '..0x7f).contains(byte) && !matches!(byte, b'"' | b'\\');
    if text.as_bytes().iter().all(is_plain) {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
        return Ok(());
    }
    serde_json::to_writer(sanitize::JsonWriter(out), text)
}

/// A serializer for the elements of a JSON list.
struct List<'a> {
    out: &'a mut Vec<u8>,
    most: usize,
    is_first: bool,
}

impl SerializeSeq for List<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        if !std::mem::replace(&mut self.is_first, false) {
            self.out.push(b',');
        }
        value.serialize(Sorted {
            out: self.out,
            most: self.most,
        })
    }

    fn end(self) -> Result<(), Error> {
        self.out.push(b']');
        Ok(())
    }
}

/// A serializer for the entries of a JSON object. Entries are appended in any order, and sorted at
/// the end.
struct Object<'a> {
    out: &'a mut Vec<u8>,
    most: usize,
    start: usize,
    entries: Vec<Entry>,
}

/// The position of a JSON object's entry in the buffer. `key` is the range of the key with its
/// opening quote, but without its closing quote. `end` is the end of the entry.
struct Entry {
    key: Range<usize>,
    end: usize,
}

impl Object<'_> {
    fn begin(&mut self, key: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        let start = self.out.len();
        // Object keys, which are field names or map keys, are never cut.
        key.serialize(Sorted {
            out: self.out,
            most: usize::MAX,
        })?;
        // The key's range excludes the closing quote. Otherwise, `a` would be sorted after `a b`,
        // since a quote is greater than a space.
        let key = start..self.out.len().saturating_sub(1);
        self.out.push(b':');
        self.entries.push(Entry { key, end: 0 });
        Ok(())
    }

    fn value(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        value.serialize(Sorted {
            out: self.out,
            most: self.most,
        })?;
        if let Some(entry) = self.entries.last_mut() {
            entry.end = self.out.len();
        }
        Ok(())
    }

    fn finish(mut self) {
        let bytes = self.out.split_off(self.start);
        let part = |range: Range<usize>| &bytes[range.start - self.start..range.end - self.start];
        // For UTF-8, comparing bytes gives the same order as comparing characters.
        self.entries
            .sort_by(|a, b| part(a.key.clone()).cmp(part(b.key.clone())));
        self.out.push(b'{');
        for (at, entry) in self.entries.iter().enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            self.out.extend_from_slice(part(entry.key.start..entry.end));
        }
        self.out.push(b'}');
    }
}

impl SerializeMap for Object<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.begin(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.value(value)
    }

    fn end(self) -> Result<(), Error> {
        self.finish();
        Ok(())
    }
}

type No = Impossible<(), Error>;

/// Returns the error for serializing a struct, tuple or variant. Messages are serialized only as
/// maps, lists and scalars.
#[cold]
fn no_such_value<T>() -> Result<T, Error> {
    Err(Error::custom("such a value has no form in protobuf's JSON"))
}

/// Writes numbers and truth values as serde_json does.
macro_rules! plain {
    ($($serialize:ident($value:ty),)+) => {
        $(fn $serialize(self, value: $value) -> Result<(), Error> {
            serde_json::to_writer(self.out, &value)
        })+
    };
}

impl<'a> Serializer for Sorted<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = List<'a>;
    type SerializeTuple = No;
    type SerializeTupleStruct = No;
    type SerializeTupleVariant = No;
    type SerializeMap = Object<'a>;
    type SerializeStruct = No;
    type SerializeStructVariant = No;

    plain! {
        serialize_bool(bool),
        serialize_i8(i8),
        serialize_i16(i16),
        serialize_i32(i32),
        serialize_i64(i64),
        serialize_u8(u8),
        serialize_u16(u16),
        serialize_u32(u32),
        serialize_u64(u64),
        serialize_f32(f32),
        serialize_f64(f64),
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        match cut(value, self.most) {
            Some(front) => quoted(&front, self.out),
            None => quoted(value, self.out),
        }
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<(), Error> {
        // This is never called for a message, since protobuf's JSON mapping encodes bytes as base64
        // text.
        no_such_value()
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), Error> {
        no_such_value()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<List<'a>, Error> {
        self.list()
    }

    fn serialize_tuple(self, _: usize) -> Result<No, Error> {
        no_such_value()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<No, Error> {
        no_such_value()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<No, Error> {
        no_such_value()
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Object<'a>, Error> {
        Ok(self.object())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<No, Error> {
        no_such_value()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<No, Error> {
        no_such_value()
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        let start = self.out.len();
        // Writing to memory doesn't fail.
        let _ = std::io::Write::write_fmt(self.out, format_args!("{value}"));
        let written = self.out.split_off(start);
        let written = String::from_utf8(written).map_err(Error::custom)?;
        self.serialize_str(&written)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn written(value: &Value, most: usize) -> String {
        let mut out = b"before ".to_vec();
        write(value, most, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn keys_are_in_order_at_every_depth() {
        struct Unordered;
        impl Serialize for Unordered {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("b", &json!([{"z": "1", "y": []}, null]))?;
                map.serialize_entry("a\"", &1.5f32)?;
                map.serialize_entry("a ", &0)?;
                map.serialize_entry("a", &true)?;
                map.serialize_entry("", &json!({}))?;
                map.end()
            }
        }
        let mut out = Vec::new();
        write(&Unordered, 100, &mut out).unwrap();
        let expected = r#"{"":{},"a":true,"a ":0,"a\"":1.5,"b":[{"y":[],"z":"1"},null]}"#;
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn strings_are_cut_and_escaped_and_keys_are_not_cut() {
        let value = json!({"a long key": "caf\u{e9}s", "b": "\u{9b}\"\n"});
        let expected = r#"before {"a long key":"caf... and 3 more bytes","b":"\u009b\"\n"}"#;
        assert_eq!(written(&value, 4), expected);
    }

    #[test]
    fn the_same_is_written_as_by_serde_json() {
        fn check(value: impl Serialize) {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            write(&value, usize::MAX, &mut ours).unwrap();
            serde_json::to_writer(sanitize::JsonWriter(&mut theirs), &value).unwrap();
            assert_eq!(String::from_utf8(ours), String::from_utf8(theirs));
        }
        check(-2);
        check(u64::MAX);
        check(vec![0.1, 1e300]);
        check(vec![0.1f32, 16_777_216.0]);
        check(vec![Some(true), None]);
        check("a\u{1}\\\"\u{2028}\u{7f}\u{9b}caf\u{e9}");
        check(json!({"nested": {"b": {"a": []}, "a": {}}}));
    }
}
