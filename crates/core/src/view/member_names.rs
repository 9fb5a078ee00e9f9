//! Descriptive names for the members of repeated fields and maps.

use std::ops::Range;

use prost_reflect::{Kind, MessageDescriptor};

use crate::Result;
use crate::path::{KeyForm, MapKey, is_key, with_key};
use crate::wire::header::field_if_any;
use crate::wire::{Field, Input, WireCursor, WireType, decode_varint, each_field};

/// Number of bytes at the beginning of a value to inspect for deciding whether the value is text.
pub(crate) const PROBED_TEXT: usize = 128;

/// Maximum number of fields to search for a message's name, which is usually among the first.
const MAX_FIELDS: usize = 256;

/// Maximum size of a text to display, in bytes.
pub(crate) const MAX_TEXT: usize = 120;

/// The name of a member (an element of a repeated field, or a map entry), and a detail that helps
/// to distinguish the member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberName {
    /// Name that the member itself contains; `None` if none was found.
    pub name: Option<String>,
    /// Short description, such as a node's op, or a tensor's type and shape; `None` if there is
    /// none.
    pub detail: Option<String>,
}

/// A rule for naming messages of one type: the type's full name, and a function that reads the name
/// from a message.
///
/// ```
/// use proto_splitter_core::view::size_tree::{MemberName, NameRule};
///
/// // Field 1 of a node is its name, and field 2 its description.
/// const NODE: NameRule = ("tensorflow.NodeDef", |node| {
///     Ok(MemberName { name: node.text(&[1])?, detail: node.text(&[2])? })
/// });
/// ```
pub type NameRule = (
    &'static str,
    fn(&mut MemberFields<'_>) -> Result<MemberName>,
);

/// A reader that looks up the fields of a member by number, to find the member's name. If a field
/// occurs several times, the first occurrence is used. In a message with many fields, only the
/// first ones are searched.
pub struct MemberFields<'a> {
    cursor: WireCursor<&'a mut dyn Input>,
    range: Range<u64>,
    /// Maximum size of a text to return, in bytes.
    most: usize,
}

impl std::fmt::Debug for MemberFields<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemberFields")
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

impl<'a> MemberFields<'a> {
    pub(crate) fn new(input: &'a mut dyn Input, range: Range<u64>, most: usize) -> Self {
        MemberFields {
            cursor: WireCursor::new(input),
            range,
            most,
        }
    }

    /// Returns the text at a path of field numbers, truncated if it is long; `None` if there is no
    /// text.
    ///
    /// # Errors
    ///
    /// If reading fails.
    pub fn text(&mut self, path: &[u32]) -> Result<Option<String>> {
        let Some(found) = self.find(path)? else {
            return Ok(None);
        };
        self.show(found, WireType::Len)
    }

    /// Returns the varint at a path of field numbers, without decoding zigzag encoding; `None` if
    /// there is no varint.
    ///
    /// # Errors
    ///
    /// If reading fails.
    pub fn number(&mut self, path: &[u32]) -> Result<Option<u64>> {
        match self.find(path)? {
            Some(found) if found.wire_type == WireType::Varint => {
                let bytes = self.cursor.bytes(found.value)?;
                Ok(decode_varint(bytes).map(|(number, _)| number))
            }
            _ => Ok(None),
        }
    }

    /// Returns the bytes at a path of field numbers; `None` if there are none, or more than `most`.
    ///
    /// # Errors
    ///
    /// If reading fails.
    pub fn bytes(&mut self, path: &[u32], most: usize) -> Result<Option<Vec<u8>>> {
        match self.find(path)? {
            Some(found)
                if found.wire_type == WireType::Len
                    && found.value.end - found.value.start <= most as u64 =>
            {
                Ok(Some(self.cursor.bytes(found.value)?.to_vec()))
            }
            _ => Ok(None),
        }
    }

    /// Returns a reader for the message at a path of field numbers; `None` if there is no message.
    ///
    /// # Errors
    ///
    /// If reading fails.
    pub fn message(&mut self, path: &[u32]) -> Result<Option<MemberFields<'_>>> {
        match self.find(path)? {
            Some(found) if found.wire_type == WireType::Len => Ok(Some(self.at(found.value))),
            _ => Ok(None),
        }
    }

    /// Returns a reader for the value of the entry with this key, in the map with the field number
    /// `map`; `None` if there is no such value.
    ///
    /// # Errors
    ///
    /// If reading fails.
    pub fn entry(&mut self, map: u32, key: &str) -> Result<Option<MemberFields<'_>>> {
        let key = MapKey::String(key.to_owned());
        let mut rest = self.range.clone();
        for _ in 0..MAX_FIELDS {
            let Some(field) = self.next(&mut rest)? else {
                break;
            };
            if field.number.0 != map || field.wire_type != WireType::Len {
                continue;
            }
            let form = KeyForm::plain(&key);
            let matches = with_key(&mut self.cursor, &field, form, |found| {
                is_key(&key, form, found)
            })?;
            if matches {
                let mut entry = self.at(field.value);
                let value = entry.find(&[2])?;
                return Ok(value
                    .filter(|value| value.wire_type == WireType::Len)
                    .map(|value| self.at(value.value)));
            }
        }
        Ok(None)
    }

    fn at(&mut self, range: Range<u64>) -> MemberFields<'_> {
        MemberFields::new(self.cursor.input_mut(), range, self.most)
    }

    fn find(&mut self, path: &[u32]) -> Result<Option<Field>> {
        let mut range = self.range.clone();
        let mut found: Option<Field> = None;
        for number in path {
            if let Some(above) = found.take() {
                if above.wire_type != WireType::Len {
                    return Ok(None);
                }
                range = above.value;
            }
            for _ in 0..MAX_FIELDS {
                match self.next(&mut range)? {
                    Some(field) if field.number.0 == *number => {
                        found = Some(field);
                        break;
                    }
                    Some(_) => {}
                    None => return Ok(None),
                }
            }
            if found.is_none() {
                return Ok(None);
            }
        }
        Ok(found)
    }

    /// Returns the first field in a range, and shortens the range to the remaining fields. Returns
    /// `None` for an invalid field, too, since a name is optional and not worth an error.
    fn next(&mut self, range: &mut Range<u64>) -> Result<Option<Field>> {
        let found = field_if_any(self.cursor.input_mut(), range.clone())?;
        if let Some(field) = &found {
            range.start = field.end;
        }
        Ok(found)
    }

    /// Returns the beginning of a field's value as text; `None` if it isn't text, or the field's
    /// wire type isn't `wire`.
    fn show(&mut self, found: Field, wire: WireType) -> Result<Option<String>> {
        if found.wire_type != wire {
            return Ok(None);
        }
        let len = found.value.end - found.value.start;
        let end = found.value.start + len.min(self.most as u64);
        let front = self.cursor.bytes(found.value.start..end)?;
        Ok(shown(front, len > self.most as u64))
    }

    /// Returns the beginning of a string or bytes member as text; `None` if it isn't text.
    fn own_text(&mut self) -> Result<Option<String>> {
        let len = self.range.end - self.range.start;
        let end = self.range.start + len.min(self.most as u64);
        let front = self.cursor.bytes(self.range.start..end)?;
        Ok(shown(front, len > self.most as u64))
    }

    /// Returns the value of the first field that is short text; `None` if none of the first eight
    /// fields is.
    fn first_text(&mut self) -> Result<Option<String>> {
        let mut rest = self.range.clone();
        for _ in 0..8 {
            let Some(field) = self.next(&mut rest)? else {
                break;
            };
            let len = field.value.end - field.value.start;
            if field.wire_type == WireType::Len
                && (1..=self.most as u64).contains(&len)
                && let Some(text) = self.show(field, WireType::Len)?
            {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }
}

fn shown(front: &[u8], cut: bool) -> Option<String> {
    let valid = match std::str::from_utf8(front) {
        Ok(text) => text,
        Err(error) if cut && error.error_len().is_none() => {
            std::str::from_utf8(&front[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    if valid.is_empty() || !is_text(valid.as_bytes()) {
        return None;
    }
    Some(if cut {
        format!("{valid}…")
    } else {
        valid.to_owned()
    })
}

/// Names of string fields that may contain a message's name, the most likely first.
const NAMES: [&str; 12] = [
    "name",
    "full_name",
    "display_name",
    "id",
    "identifier",
    "key",
    "title",
    "label",
    "uri",
    "url",
    "path",
    "symbol",
];

/// Names of message fields that may contain the name of their parent message.
const HEADS: [&str; 6] = [
    "signature",
    "metadata",
    "meta",
    "header",
    "info",
    "definition",
];

/// Returns the name of a member, in at most `most` bytes: found by the rule for the member's type,
/// in a field that looks like a name, or else in the first text in the member.
pub(crate) fn name_of(
    input: &mut dyn Input,
    value: Range<u64>,
    kind: &Kindred<'_>,
    rules: &[NameRule],
    most: usize,
) -> Result<MemberName> {
    Naming::of(kind, rules).name(input, value, most)
}

/// A method of finding the name of a member, determined once for many members of the same type.
pub(crate) enum Naming {
    Rule(fn(&mut MemberFields<'_>) -> Result<MemberName>),
    /// Text in the field at this path of field numbers.
    Field(Vec<u32>),
    OwnText,
    FirstText,
    Nothing,
}

impl Naming {
    pub(crate) fn of(kind: &Kindred<'_>, rules: &[NameRule]) -> Naming {
        let message = match kind {
            Kindred::Text => return Naming::OwnText,
            Kindred::Unknown => return Naming::FirstText,
            Kindred::Message(message) => message,
        };
        let rule = rules.iter().find(|(of, _)| *of == message.full_name());
        match (rule, name_field(message)) {
            (Some((_, rule)), _) => Naming::Rule(*rule),
            (None, Some(path)) => Naming::Field(path),
            (None, None) => Naming::Nothing,
        }
    }

    /// Returns the name of the member with this value, in at most `most` bytes.
    pub(crate) fn name(
        &self,
        input: &mut dyn Input,
        value: Range<u64>,
        most: usize,
    ) -> Result<MemberName> {
        let mut fields = MemberFields::new(input, value, most);
        let name = match self {
            Naming::Rule(rule) => return rule(&mut fields),
            Naming::Field(path) => fields.text(path)?,
            Naming::OwnText => fields.own_text()?,
            Naming::FirstText => fields.first_text()?,
            Naming::Nothing => None,
        };
        Ok(MemberName { name, detail: None })
    }

    /// Returns `Some(true)` if a member with these bytes has the name `wanted`, `Some(false)` if
    /// not, and `None` if this can't be determined quickly. `wanted` must be [readable
    /// text](is_text) of at most `most` bytes.
    pub(crate) fn is_at_once(&self, bytes: &[u8], wanted: &str, most: usize) -> Option<bool> {
        let Naming::Field(path) = self else {
            return None;
        };
        let &[number] = path.as_slice() else {
            return None;
        };
        let (mut found, mut passed) = (None, 0);
        each_field(bytes, |tag, value| {
            passed += 1;
            if tag >> 3 == u64::from(number) {
                found = Some((tag, value));
            }
            found.is_none() && passed < MAX_FIELDS
        })?;
        let Some((tag, value)) = found else {
            return Some(false);
        };
        let name = bytes.get(value).filter(|name| name.len() <= most)?;
        let is_len = tag & 7 == WireType::Len.bits();
        Some(is_len && name == wanted.as_bytes())
    }
}

/// The kind of a member: text, a message of a known type, or a value of an unknown field.
pub(crate) enum Kindred<'a> {
    Text,
    Message(&'a MessageDescriptor),
    Unknown,
}

/// Returns the field numbers that lead from a message type to the field that looks like a name;
/// `None` if there is no such field.
pub(crate) fn name_field(message: &MessageDescriptor) -> Option<Vec<u32>> {
    let direct = |message: &MessageDescriptor| {
        NAMES.iter().find_map(|name| {
            let field = message.get_field_by_name(name)?;
            (!field.is_list() && field.kind() == Kind::String).then(|| field.number())
        })
    };
    if let Some(number) = direct(message) {
        return Some(vec![number]);
    }
    HEADS.iter().find_map(|name| {
        let field = message.get_field_by_name(name)?;
        match field.kind() {
            Kind::Message(head) if !field.is_list() && !field.is_map() => {
                Some(vec![field.number(), direct(&head)?])
            }
            _ => None,
        }
    })
}

/// Returns true if the beginning of these bytes is readable text.
pub(crate) fn is_text(bytes: &[u8]) -> bool {
    let front = &bytes[..bytes.len().min(PROBED_TEXT)];
    let text = match std::str::from_utf8(front) {
        Ok(text) => text,
        // The last character is incomplete, since the value continues.
        Err(error) if error.error_len().is_none() && front.len() < bytes.len() => {
            std::str::from_utf8(&front[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    text.chars()
        .all(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_by_its_front_even_if_a_character_is_cut() {
        let long = format!("{}é", "a".repeat(PROBED_TEXT - 1));
        assert!(is_text(long.as_bytes()) && is_text("ein Wört\n".as_bytes()));
        assert!(!is_text(b"\xff") && !is_text(b"a\x00b"));
    }
}
