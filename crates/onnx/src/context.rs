//! Compiled nodes (onnxruntime's `EPContext`), whose content is in the model or in a file next to
//! it.
//!
//! ```text
//! NodeProto, op_type "EPContext", domain "com.microsoft"
//!   attribute "ep_cache_context"   s: the content, or the path of its file, relative to the model
//!   attribute "embed_mode"         i: 1 for the content, as without the attribute; 0 for a path
//!   attribute "main_context"       i: 0 for a node that uses the content of another one
//! ```

use std::ops::Range;
use std::path::PathBuf;

use proto_splitter_core::spans::SourceId;
use proto_splitter_core::wire::{FieldNumber, WireType, put_varint, tag};
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::change::{Change, Inserted};
use crate::cursor::Cursor;
use crate::reference::{MAX_ENTRY_LEN, beneath};
use crate::tensor::{MAX_TENSOR_NAME, varint};

/// Operator type of compiled nodes.
pub(crate) const OPERATOR: &str = "EPContext";

/// Operator domain of compiled nodes.
const DOMAIN: &[u8] = b"com.microsoft";

const CONTENT: &[u8] = b"ep_cache_context";
const MODE: &[u8] = b"embed_mode";
const MAIN: &[u8] = b"main_context";

/// Numbers of the fields of `NodeProto` and `AttributeProto` that this module reads or writes.
mod field {
    pub(super) const NODE_NAME: u32 = 3;
    pub(super) const NODE_ATTRIBUTE: u32 = 5;
    pub(super) const NODE_DOMAIN: u32 = 7;
    pub(super) const NAME: u32 = 1;
    pub(super) const I: u32 = 3;
    pub(super) const S: u32 = 4;
    pub(super) const TYPE: u32 = 20;
}

/// Value of the enum constant `INT`, the type of attributes with an integer.
const INT: u64 = 2;

/// The location of a compiled node's content.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// Name of the node.
    pub(crate) node: String,
    /// Byte range in the model. It contains the content or, if `is_embedded` is false, the path of
    /// the file with the content.
    pub(crate) value: Range<u64>,
    pub(crate) is_embedded: bool,
    /// Offset of the attribute `ep_cache_context` in the model.
    content: u64,
    /// Offset of the attribute `embed_mode` in the model; `None` if the node doesn't have this
    /// attribute.
    mode: Option<u64>,
}

/// An attribute that contains or locates the content of a compiled node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The attribute `ep_cache_context`.
    Content,
    /// The attribute `embed_mode`.
    Mode,
}

impl Context {
    /// Locates the content of the node at `range`. Returns `None` if the node isn't in
    /// onnxruntime's domain, has no content, or uses the content of another node.
    pub(crate) fn find(cursor: &mut Cursor<'_>, range: Range<u64>) -> Result<Option<Context>> {
        let mut name = None;
        let (mut is_theirs, mut is_main) = (false, true);
        let (mut content, mut mode) = (None, None);
        cursor.set_range(range.clone());
        while let Some(found) = cursor.next()? {
            match (found.number.0, found.wire_type) {
                (field::NODE_NAME, WireType::Len) => name = Some(found.value),
                (field::NODE_DOMAIN, WireType::Len) => {
                    is_theirs = is(cursor, &found.value, DOMAIN)?;
                }
                (field::NODE_ATTRIBUTE, WireType::Len) => {
                    let Attribute { name, i, s } = Attribute::read(cursor, found.value.clone())?;
                    if is(cursor, &name, CONTENT)? {
                        content = Some((found.start, s));
                    } else if is(cursor, &name, MODE)? {
                        mode = Some((found.start, i));
                    } else if is(cursor, &name, MAIN)? {
                        is_main = i != 0;
                    }
                    cursor.set_range(found.end..range.end);
                }
                _ => {}
            }
        }
        let Some((content, value)) = content.filter(|(_, value)| is_theirs && !value.is_empty())
        else {
            return Ok(None);
        };
        let name = name.filter(|name| name.end - name.start <= MAX_TENSOR_NAME);
        let name = name.map(|name| cursor.bytes(name).map(String::from_utf8_lossy));
        let node = name.transpose()?.unwrap_or_default().into_owned();
        let is_embedded = mode.is_none_or(|(_, mode)| mode != 0);
        Ok(is_main.then_some(Context {
            node,
            value,
            is_embedded,
            content,
            mode: mode.map(|(at, _)| at),
        }))
    }

    /// Identifies the attribute that begins at offset `attribute`; `None` if it neither contains
    /// nor locates the content.
    pub(crate) fn part(&self, attribute: u64) -> Option<Part> {
        match attribute {
            at if at == self.content => Some(Part::Content),
            at if Some(at) == self.mode => Some(Part::Mode),
            _ => None,
        }
    }

    /// Returns the path of the file that contains the node's content, relative to the model's
    /// folder.
    pub(crate) fn location(&self, cursor: &mut Cursor<'_>) -> Result<PathBuf> {
        if self.value.end - self.value.start > MAX_ENTRY_LEN {
            let len = self.value.end - self.value.start;
            return Err(self.invalid(&format!(
                "the path has {len} bytes, over the limit of {MAX_ENTRY_LEN}"
            )));
        }
        let text = std::str::from_utf8(cursor.bytes(self.value.clone())?);
        let Ok(text) = text else {
            return Err(self.invalid("the path is not UTF-8"));
        };
        beneath(text).map_err(|error| self.named(error))
    }

    /// Returns the change to the attribute that `part` identifies, when the content is moved into
    /// the model. The content is all of `file`, which has `size` bytes.
    pub(crate) fn inside(&self, part: Part, file: SourceId, size: u64) -> Change {
        match part {
            Part::Content => {
                let mut front = Vec::new();
                put_varint(&mut front, tag(FieldNumber(field::S), WireType::Len));
                put_varint(&mut front, size);
                let content = Inserted::Span(file, 0..size);
                content_of(vec![Inserted::Literal(front), content], Vec::new())
            }
            Part::Mode => mode_of(1),
        }
    }

    /// Returns the change to the attribute `part` when the content is moved to the file at
    /// `location`.
    pub(crate) fn outside(&self, part: Part, location: &str) -> Change {
        match part {
            Part::Content => {
                let mut path = Vec::new();
                put_bytes(&mut path, field::S, location.as_bytes());
                let after = match self.mode {
                    Some(_) => Vec::new(),
                    None => embed_mode(),
                };
                content_of(vec![Inserted::Literal(path)], after)
            }
            Part::Mode => mode_of(0),
        }
    }

    /// Adds the node's name to an error.
    pub(crate) fn named(&self, error: Error) -> Error {
        error.context(format!("node \"{}\"", self.node))
    }

    #[cold]
    fn invalid(&self, message: &str) -> Error {
        let message = format!("ep_cache_context: {message}");
        self.named(Error::new(ErrorKind::InvalidMessage, message))
    }
}

/// Returns the change that replaces the value of `ep_cache_context` with `inserted`, and inserts
/// the encoded fields `after` behind this attribute in the node.
fn content_of(inserted: Vec<Inserted>, after: Vec<u8>) -> Change {
    Change::Fields {
        dropped: &[field::S],
        before: field::S,
        inserted,
        after,
    }
}

fn mode_of(mode: u64) -> Change {
    let mut value = Vec::new();
    put_number(&mut value, field::I, mode);
    Change::Fields {
        dropped: &[field::I],
        before: field::I,
        inserted: vec![Inserted::Literal(value)],
        after: Vec::new(),
    }
}

/// Returns an encoded attribute `embed_mode` with the value 0, which means that the content is in a
/// file.
fn embed_mode() -> Vec<u8> {
    let (mut attribute, mut out) = (Vec::new(), Vec::new());
    put_bytes(&mut attribute, field::NAME, MODE);
    put_number(&mut attribute, field::I, 0);
    put_number(&mut attribute, field::TYPE, INT);
    put_bytes(&mut out, field::NODE_ATTRIBUTE, &attribute);
    out
}

fn put_number(out: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(out, tag(FieldNumber(number), WireType::Varint));
    put_varint(out, value);
}

/// Appends an encoded `bytes` field to `out`.
pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_varint(out, tag(FieldNumber(number), WireType::Len));
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The fields of an `AttributeProto` that this module reads.
#[derive(Default)]
struct Attribute {
    name: Range<u64>,
    i: u64,
    s: Range<u64>,
}

impl Attribute {
    fn read(cursor: &mut Cursor<'_>, range: Range<u64>) -> Result<Attribute> {
        let mut attribute = Attribute::default();
        cursor.set_range(range);
        while let Some(found) = cursor.next()? {
            match (found.number.0, found.wire_type) {
                (field::NAME, WireType::Len) => attribute.name = found.value,
                (field::I, WireType::Varint) => attribute.i = varint(cursor, &found)?,
                (field::S, WireType::Len) => attribute.s = found.value,
                _ => {}
            }
        }
        Ok(attribute)
    }
}

/// Returns true if the bytes at `range` equal `expected`.
pub(crate) fn is(cursor: &mut Cursor<'_>, range: &Range<u64>, expected: &[u8]) -> Result<bool> {
    let is_as_long = range.end - range.start == expected.len() as u64;
    Ok(is_as_long && cursor.bytes(range.clone())? == expected)
}
