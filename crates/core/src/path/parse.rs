//! Paths as text.

use std::fmt::{self, Write};
use std::str::FromStr;

use prost_reflect::{Kind, MessageDescriptor};

use super::{FieldPath, MapKey, Select, Step, resolve};
use crate::wire::FieldNumber;
use crate::{Error, ErrorKind, Result};

impl FromStr for FieldPath {
    type Err = Error;

    /// Reads a path written in field numbers.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if the text is no path, or has a name in it.
    fn from_str(text: &str) -> Result<Self> {
        parse(text, None)
    }
}

impl FieldPath {
    /// Reads a path with the names or numbers of `root`'s fields.
    ///
    /// ```
    /// use prost_reflect::ReflectMessage;
    /// use proto_splitter_core::path::FieldPath;
    ///
    /// let root = prost_reflect::prost_types::FileDescriptorProto::default().descriptor();
    /// let path = FieldPath::parse("message_type[2].name", &root)?;
    /// assert_eq!(path, "4[2].1".parse()?);
    /// assert_eq!(path.display(Some(&root)), "message_type[2].name");
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if the text is no path, or leads where `root` has nothing: no
    /// such field, an index on a field that isn't repeated, a key of another type than the
    /// map's.
    pub fn parse(text: &str, root: &MessageDescriptor) -> Result<Self> {
        parse(text, Some(root))
    }
}

fn parse(text: &str, root: Option<&MessageDescriptor>) -> Result<FieldPath> {
    let mut path = FieldPath::root();
    let mut message = root.cloned();
    let mut rest = text;
    while !rest.is_empty() {
        let (name, after) = take_name(rest).map_err(|e| e.at_path(text))?;
        rest = after;
        let known = match &message {
            None if root.is_some() => {
                let message = format!(
                    "{} is not a message, it has no field {name}",
                    path.display(root)
                );
                return Err(invalid(message).at_path(text));
            }
            None => None,
            Some(message) => Some(resolve::field_by_text(message, name).ok_or_else(|| {
                invalid(format!("{} has no field {name}", message.full_name())).at_path(text)
            })?),
        };
        let field = match (&known, name.parse::<u32>()) {
            (Some(field), _) => FieldNumber(field.number()),
            (None, Ok(number)) if (1..=FieldNumber::MAX.0).contains(&number) => FieldNumber(number),
            (None, _) => {
                let message =
                    format!("{name} is no field number, and names need the message's type");
                return Err(invalid(message).at_path(text));
            }
        };
        let select = match rest.strip_prefix('[') {
            None => Select::Field,
            Some(inner) => {
                let (select, after) =
                    take_select(inner, known.as_ref()).map_err(|e| e.at_path(text))?;
                rest = after;
                select
            }
        };
        if let (Some(field), Select::Field, false) = (&known, &select, rest.is_empty())
            && (field.is_list() || field.is_map())
        {
            let message = format!(
                "{name} needs an {}",
                if field.is_map() {
                    "[\"key\"]"
                } else {
                    "[index]"
                }
            );
            return Err(invalid(message).at_path(text));
        }
        path.push(Step { field, select });
        message = known.as_ref().and_then(resolve::message_below);
        match rest.strip_prefix('.') {
            Some("") => return Err(invalid("the path ends with a dot").at_path(text)),
            Some(after) => rest = after,
            None if rest.is_empty() => {}
            None => return Err(invalid(format!("expected a dot before {rest:?}")).at_path(text)),
        }
    }
    Ok(path)
}

/// A field's name, number, or parenthesised extension name, and what follows.
fn take_name(text: &str) -> Result<(&str, &str)> {
    if let Some(inner) = text.strip_prefix('(') {
        let end = inner
            .find(')')
            .ok_or_else(|| invalid("an extension name without its )"))?;
        return Ok((&text[..end + 2], &inner[end + 1..]));
    }
    let end = text.find(['.', '[']).unwrap_or(text.len());
    let name = &text[..end];
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Err(invalid(format!(
            "expected a field's name or number at {text:?}"
        )));
    }
    Ok((name, &text[end..]))
}

/// What stands between brackets, and what follows them; the opening one is gone.
fn take_select<'a>(text: &'a str, field: Option<&resolve::FieldRef>) -> Result<(Select, &'a str)> {
    let (token, quoted, rest) = if let Some(inner) = text.strip_prefix('"') {
        let (string, rest) = take_quoted(inner)?;
        (string, true, rest)
    } else {
        let end = text.find(']').ok_or_else(|| invalid("a [ without its ]"))?;
        (text[..end].to_owned(), false, &text[end..])
    };
    let rest = rest
        .strip_prefix(']')
        .ok_or_else(|| invalid("expected a ] behind a key"))?;
    let select = match field {
        None if quoted => Select::Key(MapKey::String(token)),
        None if token == "true" || token == "false" => Select::Key(MapKey::Bool(token == "true")),
        None if token.starts_with('-') => Select::Key(MapKey::I64(number(&token)?)),
        None => Select::Index(number(&token)?),
        Some(field) if field.is_list() && !quoted => Select::Index(number(&token)?),
        Some(field) if field.is_map() => Select::Key(typed_key(field, token, quoted)?),
        Some(field) => {
            return Err(invalid(format!(
                "[{token}] doesn't belong to {}",
                field.name()
            )));
        }
    };
    Ok((select, rest))
}

fn typed_key(field: &resolve::FieldRef, token: String, quoted: bool) -> Result<MapKey> {
    let kind = resolve::key_kind(field);
    let key = match kind {
        Some(Kind::String) if quoted => Some(MapKey::String(token.clone())),
        _ if quoted => None,
        Some(Kind::Bool) => token.parse().ok().map(MapKey::Bool),
        Some(Kind::Int32 | Kind::Sint32 | Kind::Sfixed32) => token.parse().ok().map(MapKey::I32),
        Some(Kind::Int64 | Kind::Sint64 | Kind::Sfixed64) => token.parse().ok().map(MapKey::I64),
        Some(Kind::Uint32 | Kind::Fixed32) => token.parse().ok().map(MapKey::U32),
        Some(Kind::Uint64 | Kind::Fixed64) => token.parse().ok().map(MapKey::U64),
        _ => None,
    };
    key.ok_or_else(|| {
        let kind = kind.map_or("unknown".to_owned(), |kind| {
            format!("{kind:?}").to_lowercase()
        });
        invalid(format!(
            "{token:?} is no key of {}, whose keys are {kind}",
            field.name()
        ))
    })
}

fn number<T: FromStr>(token: &str) -> Result<T> {
    token
        .parse()
        .map_err(|_| invalid(format!("{token:?} is no index")))
}

/// A quoted string without its opening quote: what it says, and what follows the closing one.
fn take_quoted(text: &str) -> Result<(String, &str)> {
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((out, &text[at + 1..])),
            '\\' => match chars.next().map(|(_, c)| c) {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some('t') => out.push('\t'),
                Some('u') => {
                    let hex: String = chars.by_ref().take(4).map(|(_, c)| c).collect();
                    let code = u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32);
                    out.push(code.ok_or_else(|| invalid(format!("\\u{hex} is no character")))?);
                }
                Some(c @ ('"' | '\\' | '/')) => out.push(c),
                _ => return Err(invalid("a \\ that escapes nothing")),
            },
            c => out.push(c),
        }
    }
    Err(invalid("a key without its closing quote"))
}

pub(super) fn write_quoted(f: &mut impl Write, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if c.is_control() => write!(f, "\\u{:04x}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

#[cold]
fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidPath, message)
}
