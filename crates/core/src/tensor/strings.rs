//! Reading tensors of strings as fixed-width arrays.

use std::io::Write;
use std::ops::Range;

use super::decode::TensorHeader;
use super::{DType, Location, TensorReader, TensorRule};
use crate::path::FieldPath;
use crate::view::MessageView;
use crate::wire::{Input, WireCursor, WireType};
use crate::{Error, ErrorKind, Result};

/// Maximum total size of strings padded to the length of the longest, in bytes: 8 GiB. One long
/// string among many short ones would require an array too large for memory.
const MOST_BYTES: u64 = 8 << 30;

/// Size of an array element that points to a separate string object, in bytes.
const POINTER: u64 = 8;

/// Returns a reader for the strings of the tensor at a path, each padded with zeros to the length
/// of the longest, as in NumPy's arrays of bytes; `None` if the value is not a tensor of strings.
/// The width of an element is the size in the reader's header divided by the number of elements.
///
/// # Errors
///
/// [`ErrorKind::InvalidMessage`] if there are more strings than the shape has elements, or fewer in
/// a format that doesn't repeat the last string; [`ErrorKind::LimitExceeded`] if the padded strings
/// would take more than 8 GiB; any error from [`MessageView::get`].
pub fn strings_at<'a>(
    view: MessageView<'a>,
    path: &FieldPath,
    name: impl Into<String>,
    rule: &'static TensorRule,
) -> Result<Option<TensorReader<'a>>> {
    let text = view.show(path);
    let (portion, pieces) = view.find_some(path)?;
    let mut cursor = WireCursor::new(portion);
    let found = Strings::find(&mut cursor, &pieces, rule);
    let found = found.map_err(|error| cursor.into_input().damage_first(error).at_path(&text))?;
    let Some(strings) = found else {
        return Ok(None);
    };
    let location = Location::Message {
        path: path.clone(),
        text: text.clone(),
    };
    let info = strings.header.info(name.into(), rule, location);
    let bytes = strings.bytes().map_err(|error| error.at_path(&text))?;
    let info = info.sized(bytes);
    let path = path.clone();
    Ok(Some(TensorReader::new(info, move |sink| {
        let (portion, pieces) = view.find_some(&path)?;
        let mut cursor = WireCursor::new(portion);
        let written = strings.write(&mut cursor, &pieces, sink);
        written.map_err(|error| cursor.into_input().damage_first(error).at_path(&text))
    })))
}

/// Returns the strings of the tensor at a path, unpadded; `None` if the value is not a tensor of
/// strings. In a format that repeats the last string, there may be fewer strings than the shape has
/// elements.
///
/// # Errors
///
/// [`ErrorKind::InvalidMessage`] if there are more strings than the shape has elements, or fewer in
/// a format that doesn't repeat the last string; [`ErrorKind::LimitExceeded`] if an array of that
/// shape would take more than 8 GiB; any error from [`MessageView::get`].
pub fn string_elements_at(
    view: &MessageView<'_>,
    path: &FieldPath,
    rule: &'static TensorRule,
) -> Result<Option<Vec<Vec<u8>>>> {
    let (portion, pieces) = view.find_some(path)?;
    let mut cursor = WireCursor::new(portion);
    let read = |cursor: &mut WireCursor<_>| {
        let Some(strings) = Strings::find(cursor, &pieces, rule)? else {
            return Ok(None);
        };
        let count = strings.count;
        if count > MOST_BYTES / POINTER {
            let message = format!("an array of {count} strings is over {MOST_BYTES} bytes");
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        let mut elements = Vec::new();
        each(cursor, &pieces, strings.field, |cursor, value| {
            let mut element = Vec::new();
            cursor.read_pieces(value, |bytes| {
                element.extend_from_slice(bytes);
                Ok(())
            })?;
            elements.push(element);
            Ok(())
        })?;
        Ok(Some(elements))
    };
    let elements: Result<_> = read(&mut cursor);
    elements.map_err(|error| {
        cursor
            .into_input()
            .damage_first(error)
            .at_path(view.show(path))
    })
}

/// A tensor of strings that haven't been read yet.
struct Strings {
    header: TensorHeader,
    /// Number of the field that contains the strings.
    field: u32,
    /// Number of strings in the field with the number `field`.
    there: u64,
    /// Number of elements in the shape.
    count: u64,
    width: u64,
}

impl Strings {
    fn find<I: Input>(
        cursor: &mut WireCursor<I>,
        pieces: &[Range<u64>],
        rule: &TensorRule,
    ) -> Result<Option<Strings>> {
        let header = TensorHeader::read(cursor, pieces, rule)?;
        let element = header.element(rule);
        let Some(field) = element.filter(|element| element.dtype == DType::String) else {
            return Ok(None);
        };
        let bad = |message: String| Err(Error::new(ErrorKind::InvalidMessage, message));
        let Some(count) = header.elements() else {
            return bad("the tensor's shape has no size".into());
        };
        let (field, mut there, mut width) = (field.field, 0, 1);
        each(cursor, pieces, field, |_, value| {
            there += 1;
            width = width.max(value.end - value.start);
            Ok(())
        })?;
        if there > count || (there < count && !rule.fills_up) {
            return bad(format!(
                "the tensor's shape requires {count} strings, but it has {there}"
            ));
        }
        Ok(Some(Strings {
            header,
            field,
            there,
            count,
            width,
        }))
    }

    /// Returns the size in bytes of an array in which all strings are padded to the length of the
    /// longest. Fails if it exceeds [`MOST_BYTES`].
    fn bytes(&self) -> Result<u64> {
        let (count, width) = (self.count, self.width);
        let bytes = count.checked_mul(width);
        bytes.filter(|&bytes| bytes <= MOST_BYTES).ok_or_else(|| {
            let message = format!(
                "{count} strings of up to {width} bytes: an array, in which all are as long as the longest, would exceed {MOST_BYTES} bytes"
            );
            Error::new(ErrorKind::LimitExceeded, message)
        })
    }

    fn write<I: Input>(
        &self,
        cursor: &mut WireCursor<I>,
        pieces: &[Range<u64>],
        sink: &mut dyn Write,
    ) -> Result<()> {
        let mut last = None;
        each(cursor, pieces, self.field, |cursor, value| {
            last = Some(value.clone());
            self.write_one(cursor, value, sink)
        })?;
        // Missing strings are copies of the last one, or empty if there is none.
        for _ in self.there..self.count {
            self.write_one(cursor, last.clone().unwrap_or(0..0), sink)?;
        }
        Ok(())
    }

    fn write_one<I: Input>(
        &self,
        cursor: &mut WireCursor<I>,
        value: Range<u64>,
        sink: &mut dyn Write,
    ) -> Result<()> {
        let mut padding = self.width - (value.end - value.start);
        cursor.read_pieces(value, |bytes| Ok(sink.write_all(bytes)?))?;
        let zeros = [0; 4096];
        while padding > 0 {
            let some = usize::try_from(padding).map_or(zeros.len(), |len| len.min(zeros.len()));
            sink.write_all(&zeros[..some])?;
            padding -= some as u64;
        }
        Ok(())
    }
}

/// Calls `take` with the range of each string in a field.
fn each<I: Input>(
    cursor: &mut WireCursor<I>,
    pieces: &[Range<u64>],
    number: u32,
    mut take: impl FnMut(&mut WireCursor<I>, Range<u64>) -> Result<()>,
) -> Result<()> {
    for piece in pieces {
        cursor.set_range(piece.clone());
        while let Some(field) = cursor.next()? {
            if (field.number.0, field.wire_type) == (number, WireType::Len) {
                take(cursor, field.value)?;
            }
        }
    }
    Ok(())
}
