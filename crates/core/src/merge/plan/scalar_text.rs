//! Values that a chunk holds as text, as TensorFlow's splitters may write them.

use prost_reflect::Kind;

use crate::wire::wire_type;
use crate::wire::{FieldNumber, put_varint, tag, zigzag};
use crate::{Error, ErrorKind, Result};

/// The longest text that is read: a number, or the name of an enum's value.
pub(in crate::merge) const MAX_TEXT: u64 = 4096;

/// A field with its tag, of the value that `text` spells: a decimal number, `true` or `false`, the
/// name of an enum's value.
///
/// TensorFlow's reader stops at the first character it can't use, or aborts. Here all of the text
/// has to make sense.
pub(in crate::merge) fn field_from_text(
    number: FieldNumber,
    kind: &Kind,
    text: &[u8],
) -> Result<Vec<u8>> {
    let Some(text) = std::str::from_utf8(text).ok() else {
        return nonsense(kind, "text that is not UTF-8");
    };
    let mut out = Vec::new();
    put_varint(&mut out, tag(number, wire_type(kind, false)));
    fn parse<T: std::str::FromStr>(kind: &Kind, text: &str) -> Result<T> {
        match text.parse() {
            Ok(value) => Ok(value),
            Err(_) => nonsense(kind, &format!("{text:?}")),
        }
    }
    match kind {
        Kind::Bool => put_varint(&mut out, u64::from(parse::<bool>(kind, text)?)),
        Kind::Int32 => put_varint(
            &mut out,
            i64::from(parse::<i32>(kind, text)?).cast_unsigned(),
        ),
        Kind::Int64 => put_varint(&mut out, parse::<i64>(kind, text)?.cast_unsigned()),
        Kind::Uint32 => put_varint(&mut out, u64::from(parse::<u32>(kind, text)?)),
        Kind::Uint64 => put_varint(&mut out, parse(kind, text)?),
        Kind::Sint32 => put_varint(&mut out, zigzag(i64::from(parse::<i32>(kind, text)?))),
        Kind::Sint64 => put_varint(&mut out, zigzag(parse(kind, text)?)),
        Kind::Fixed32 => out.extend_from_slice(&parse::<u32>(kind, text)?.to_le_bytes()),
        Kind::Fixed64 => out.extend_from_slice(&parse::<u64>(kind, text)?.to_le_bytes()),
        Kind::Sfixed32 => out.extend_from_slice(&parse::<i32>(kind, text)?.to_le_bytes()),
        Kind::Sfixed64 => out.extend_from_slice(&parse::<i64>(kind, text)?.to_le_bytes()),
        Kind::Float => {
            let value = parse::<f32>(kind, text)?;
            finite(kind, text, value.is_infinite())?;
            out.extend_from_slice(&value.to_le_bytes());
        }
        Kind::Double => {
            let value = parse::<f64>(kind, text)?;
            finite(kind, text, value.is_infinite())?;
            out.extend_from_slice(&value.to_le_bytes());
        }
        Kind::Enum(descriptor) => match descriptor.get_value_by_name(text) {
            Some(value) => put_varint(&mut out, i64::from(value.number()).cast_unsigned()),
            None => {
                let message = format!("{text:?} is not a value of {}", descriptor.full_name());
                return Err(Error::new(ErrorKind::InvalidMessage, message));
            }
        },
        Kind::String | Kind::Bytes | Kind::Message(_) => return nonsense(kind, "text"),
    }
    Ok(out)
}

/// A number too large for the type is read as infinite, and that is not what it says.
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
