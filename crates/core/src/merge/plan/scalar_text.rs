//! Parsing chunks that contain a scalar value as text, as TensorFlow's splitters may write them.

use prost_reflect::Kind;

use crate::path::TargetKind;
use crate::wire::{FieldNumber, put_varint, tag, wire_type};
use crate::{Error, ErrorKind, Result};

/// Maximum size of a number or an enum value's name as text, in bytes.
pub(in crate::merge) const MAX_TEXT: u64 = 4096;

/// Encodes a field with its tag and the value that `text` spells: a decimal number, `true` or
/// `false`, or the name of an enum value.
///
/// TensorFlow's reader stops at the first invalid character, or aborts. This function requires the
/// whole text to be valid.
pub(in crate::merge) fn field_from_text(
    number: FieldNumber,
    kind: &Kind,
    text: &[u8],
) -> Result<Vec<u8>> {
    let Some(text) = std::str::from_utf8(text).ok() else {
        return nonsense(kind, "text that is not UTF-8");
    };
    match kind {
        Kind::String | Kind::Bytes | Kind::Message(_) => return nonsense(kind, "text"),
        Kind::Enum(descriptor) if descriptor.get_value_by_name(text).is_none() => {
            let message = format!("{text:?} is not a value of {}", descriptor.full_name());
            return Err(Error::new(ErrorKind::InvalidMessage, message));
        }
        Kind::Float => finite(kind, text, text.parse::<f32>().is_ok_and(f32::is_infinite))?,
        Kind::Double => finite(kind, text, text.parse::<f64>().is_ok_and(f64::is_infinite))?,
        _ => {}
    }
    let Some(value) = TargetKind::Scalar(kind.clone()).encode(text) else {
        return nonsense(kind, &format!("{text:?}"));
    };
    let mut out = Vec::new();
    put_varint(&mut out, tag(number, wire_type(kind, false)));
    out.extend_from_slice(&value);
    Ok(out)
}

/// Fails if a finite number was parsed as infinite because it is too large for its type.
fn finite(kind: &Kind, text: &str, is_infinite: bool) -> Result<()> {
    if is_infinite && text.bytes().any(|byte| byte.is_ascii_digit()) {
        return nonsense(kind, &format!("{text:?}"));
    }
    Ok(())
}

#[cold]
fn nonsense<T>(kind: &Kind, what: &str) -> Result<T> {
    let kind = format!("{kind:?}");
    let article = if kind.starts_with('i') { "an" } else { "a" };
    let message = format!("{what} is not {article} {kind}");
    Err(Error::new(ErrorKind::InvalidMessage, message))
}
