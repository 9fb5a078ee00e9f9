//! Parsing paths.

use std::str::FromStr;

use prost_reflect::{Kind, MessageDescriptor};

use super::condition::{Condition, Operator, Wanted};
use super::field_path::{FieldPath, Select};
use super::field_ref::{FieldRef, key_kind, kind_name, message_below};
use super::map_key::MapKey;
use super::query::{PathQuery, Pick, Place, QueryStep};
use super::resolve::{TargetKind, is_implicit};
use crate::wire::FieldNumber;
use crate::{Error, ErrorKind, Result};

impl FromStr for FieldPath {
    type Err = Error;

    /// Parses a path of field numbers.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if the text is not a path, or contains a name.
    fn from_str(text: &str) -> Result<Self> {
        let mut query = query(text, None)?;
        query.read_negative_as_keys()?;
        query.into_path()
    }
}

impl FieldPath {
    /// Parses a path with the names or numbers of `root`'s fields.
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
    /// [`ErrorKind::InvalidPath`] if the text is not a path, or the path doesn't exist in `root`:
    /// it has an unknown field, an index on a field that isn't repeated, or a key that doesn't have
    /// the map's key type.
    pub fn parse(text: &str, root: &MessageDescriptor) -> Result<Self> {
        query(text, Some(root))?.into_path()
    }
}

impl PathQuery {
    /// Parses a path or query, with the names or numbers of `root`'s fields, or only numbers if
    /// there is no `root`. The text `.` is the path of the message itself.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if the text is not a path, or the path doesn't exist in `root`.
    pub fn parse(text: &str, root: Option<&MessageDescriptor>) -> Result<PathQuery> {
        query(if text == "." { "" } else { text }, root)
    }
}

/// Parses a path or a query, which have the same grammar.
fn query(text: &str, root: Option<&MessageDescriptor>) -> Result<PathQuery> {
    let steps = steps(text, root).map_err(|error| error.at_path(text))?;
    let text = text.to_owned();
    Ok(PathQuery { text, steps })
}

fn steps(text: &str, root: Option<&MessageDescriptor>) -> Result<Vec<QueryStep>> {
    let mut steps = Vec::new();
    let mut message = root.cloned();
    let mut rest = text;
    while !rest.is_empty() {
        let (name, after) = take_name(rest)?;
        let known =
            match &message {
                None if root.is_some() => {
                    let above = text[..text.len() - rest.len()].trim_end_matches('.');
                    let message = format!("{above} is not a message, so it has no field {name}");
                    return Err(invalid(message));
                }
                None => None,
                Some(message) => Some(FieldRef::by_text(message, name).ok_or_else(|| {
                    invalid(format!("{} has no field {name}", message.full_name()))
                })?),
            };
        rest = after;
        let field = match (&known, name.parse::<u32>()) {
            (Some(field), _) => FieldNumber(field.number()),
            (None, Ok(number)) if (1..=FieldNumber::MAX.0).contains(&number) => FieldNumber(number),
            (None, _) => {
                let message =
                    format!("{name} is not a field number, and names need the message's type");
                return Err(invalid(message));
            }
        };
        let pick = match rest.strip_prefix('[') {
            None => Pick::One(Select::Field),
            Some(inner) => {
                let (pick, after) = take_pick(inner, known.as_ref())?;
                rest = after;
                pick
            }
        };
        if let (Some(field), Pick::One(Select::Field), false) = (&known, &pick, rest.is_empty())
            && (field.is_list() || field.is_map())
        {
            let needed = if field.is_map() {
                "[\"key\"]"
            } else {
                "[index]"
            };
            return Err(invalid(format!("{name} needs an {needed}")));
        }
        let end = text.len() - rest.len();
        steps.push(QueryStep { field, pick, end });
        message = known.as_ref().and_then(message_below);
        match rest.strip_prefix('.') {
            Some("") => return Err(invalid("the path ends with a dot")),
            Some(after) => rest = after,
            None if rest.is_empty() => {}
            None => return Err(invalid(format!("expected a dot before {rest:?}"))),
        }
    }
    Ok(steps)
}

/// Splits off a field's name, number, or parenthesised extension name. Returns this part and the
/// remaining text.
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

/// Parses a selection in brackets, after its opening bracket. Returns the selection, and the text
/// after the closing bracket.
fn take_pick<'a>(text: &'a str, field: Option<&FieldRef>) -> Result<(Pick, &'a str)> {
    let (pick, rest) = if text.starts_with(['"', '\'']) {
        let (token, rest) = take_quoted(text)?;
        (pick_quoted(token, field)?, rest)
    } else {
        match operator_at(text)? {
            Some(_) => {
                let (conditions, rest) = take_conditions(text, field)?;
                (Pick::Where(conditions), rest)
            }
            None => {
                let end = text.find(']').unwrap_or(text.len());
                let (token, rest) = text.split_at(end);
                (pick_unquoted(token, field)?, rest)
            }
        }
    };
    let rest = rest
        .strip_prefix(']')
        .ok_or_else(|| invalid("expected ] after a key"))?;
    Ok((pick, rest))
}

fn pick_quoted(token: String, field: Option<&FieldRef>) -> Result<Pick> {
    let one = |select| Ok(Pick::One(select));
    match field {
        None => one(Select::Key(MapKey::String(token))),
        Some(field) if field.is_map() => one(Select::Key(typed_key(field, token, true)?)),
        Some(field) if field.is_list() => match field.kind() {
            Kind::Message(_) | Kind::String => Ok(Pick::Named(token)),
            _ => Err(invalid(format!(
                "{} has numbers, without names",
                field.name()
            ))),
        },
        Some(field) => Err(misplaced(&token, field)),
    }
}

fn pick_unquoted(token: &str, field: Option<&FieldRef>) -> Result<Pick> {
    let takes_many = field.is_none_or(|field| field.is_list() || field.is_map());
    let is_list = field.is_none_or(FieldRef::is_list);
    let one = |select| Ok(Pick::One(select));
    match field {
        _ if token == "*" && takes_many => Ok(Pick::All),
        _ if is_list && let Some((start, end)) = token.split_once(':') => Ok(Pick::Range(
            place(start)?.unwrap_or(Place::FromStart(0)),
            place(end)?,
        )),
        None if token == "true" || token == "false" => {
            one(Select::Key(MapKey::Bool(token == "true")))
        }
        Some(field) if field.is_map() => {
            one(Select::Key(typed_key(field, token.to_owned(), false)?))
        }
        Some(field) if !field.is_list() => Err(misplaced(token, field)),
        _ => match place(token)? {
            Some(Place::FromEnd(back)) => Ok(Pick::FromEnd(back)),
            Some(Place::FromStart(index)) => one(Select::Index(index)),
            None => Err(invalid("an index without digits")),
        },
    }
}

/// Parses an index, which counts from the end if it is negative. Returns `None` for an empty
/// string.
fn place(token: &str) -> Result<Option<Place>> {
    match token.strip_prefix('-') {
        _ if token.is_empty() => Ok(None),
        Some(back) => match number(back)? {
            0 => Err(invalid("-0 is not an index: the last is -1")),
            back => Ok(Some(Place::FromEnd(back))),
        },
        None => Ok(Some(Place::FromStart(number(token)?))),
    }
}

/// Returns the position of the first operator of a condition in brackets; `None` if the bracket
/// closes before any operator.
fn operator_at(text: &str) -> Result<Option<usize>> {
    let (mut depth, mut at) = (0, 0);
    while let Some(c) = text[at..].chars().next() {
        match c {
            '"' | '\'' => {
                let (_, rest) = take_quoted(&text[at..])?;
                at = text.len() - rest.len();
                continue;
            }
            '[' => depth += 1,
            ']' if depth == 0 => return Ok(None),
            ']' => depth -= 1,
            '=' | '!' | '<' | '>' | '~' if depth == 0 => return Ok(Some(at)),
            _ => {}
        }
        at += c.len_utf8();
    }
    Err(invalid("a [ without its ]"))
}

/// Parses conditions separated by commas. Returns them and the remaining text.
fn take_conditions<'a>(
    text: &'a str,
    field: Option<&FieldRef>,
) -> Result<(Vec<Condition>, &'a str)> {
    let (mut conditions, mut rest) = (Vec::new(), text);
    loop {
        let begun = rest.trim_start();
        let Some(at) = operator_at(begun)? else {
            return Err(invalid(format!(
                "expected a condition, as in [a=1, b>2], at {begun:?}"
            )));
        };
        let (path, behind) = begun.split_at(at);
        let (operator, behind) = Operator::take(behind)
            .ok_or_else(|| invalid(format!("expected =, !=, <, <=, >, >= or ~ at {behind:?}")))?;
        let (value, quoted, behind) = take_value(behind.trim_start())?;
        let value = Wanted {
            text: &value,
            quoted,
        };
        conditions.push(condition(path.trim(), operator, &value, field)?);
        let behind = behind.trim_start();
        match behind.strip_prefix(',') {
            Some(next) => rest = next,
            None => return Ok((conditions, behind)),
        }
    }
}

/// Parses a condition on the elements of `field`.
fn condition(
    path: &str,
    operator: Operator,
    wanted: &Wanted<'_>,
    field: Option<&FieldRef>,
) -> Result<Condition> {
    let Some(field) = field else {
        return Condition::untyped(path.parse()?, operator, wanted);
    };
    let message = match message_below(field) {
        Some(message) if field.is_list() => message,
        _ => {
            let shown = format!("{path}{operator}{}", wanted.text);
            return Err(misplaced(&shown, field));
        }
    };
    let path = FieldPath::parse(path, &message)?;
    let target = path.resolve(&message)?;
    let shown = || path.display(Some(&message));
    let kind = match target.kind {
        TargetKind::Scalar(kind) if !target.whole_field => kind,
        _ => {
            let shown = shown();
            return Err(invalid(format!("{shown} is not one value to compare with")));
        }
    };
    let implicit = !path.is_root() && is_implicit(&path, &message);
    let made = Condition::typed(path.clone(), operator, wanted, &kind, implicit);
    made.ok_or_else(|| {
        let (shown, kind, value) = (shown(), kind_name(&kind), wanted.text);
        invalid(match operator {
            Operator::Contains => {
                format!("~ only applies to strings and bytes, but {shown} is {kind}")
            }
            _ if operator.is_order() && kind == "bool" => {
                format!("{shown} is bool, which has no order")
            }
            _ => format!("{value:?} is not a value of {shown}, which is {kind}"),
        })
    })
}

/// Splits off the value of a condition. Returns the value, true if it was quoted, and the remaining
/// text.
fn take_value(text: &str) -> Result<(String, bool, &str)> {
    if text.starts_with(['"', '\'']) {
        let (value, rest) = take_quoted(text)?;
        return Ok((value, true, rest));
    }
    let end = text
        .find([']', ','])
        .ok_or_else(|| invalid("a [ without its ]"))?;
    Ok((text[..end].trim_end().to_owned(), false, &text[end..]))
}

#[cold]
fn misplaced(token: &str, field: &FieldRef) -> Error {
    invalid(format!("[{token}] doesn't belong to {}", field.name()))
}

fn typed_key(field: &FieldRef, token: String, quoted: bool) -> Result<MapKey> {
    let kind = key_kind(field);
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
        let kind = kind.map_or("unknown".to_owned(), |kind| kind_name(&kind));
        invalid(format!(
            "{token:?} is not a key of {}, whose keys are {kind}",
            field.name()
        ))
    })
}

fn number<T: FromStr>(token: &str) -> Result<T> {
    token
        .parse()
        .map_err(|_| invalid(format!("{token:?} is not an index")))
}

/// Splits off a string in double or single quotes. Returns the unescaped string, and the remaining
/// text.
fn take_quoted(text: &str) -> Result<(String, &str)> {
    let mut out = String::new();
    let mut chars = text.char_indices();
    let quote = chars.next().map(|(_, quote)| quote);
    while let Some((at, c)) = chars.next() {
        match c {
            c if Some(c) == quote => return Ok((out, &text[at + 1..])),
            '\\' => match chars.next().map(|(_, c)| c) {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some('t') => out.push('\t'),
                Some('u') => {
                    let hex: String = chars.by_ref().take(4).map(|(_, c)| c).collect();
                    let code = u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32);
                    out.push(code.ok_or_else(|| invalid(format!("\\u{hex} is not a character")))?);
                }
                Some(c @ ('"' | '\'' | '\\' | '/')) => out.push(c),
                _ => return Err(invalid("a \\ that escapes nothing")),
            },
            c => out.push(c),
        }
    }
    Err(invalid("a key without its closing quote"))
}

#[cold]
fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidPath, message)
}
