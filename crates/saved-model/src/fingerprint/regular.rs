//! The parts of a graph that TensorFlow removes before it hashes the graph, since they change each
//! time a model is saved.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use prost::Message;
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_graph_def::proto::{AttrValue, DataType, attr_value};

use crate::hashed::{Canonical, Edits};

const NODE_OP: u32 = 2;
const NODE_ATTR: u32 = 5;
const ATTR_FUNC: u32 = 10;
const FUNC_NAME: u32 = 1;

/// Serialized `AttrValue` whose field `s` is set to an empty string.
const EMPTY_S: [u8; 2] = [0x12, 0x00];

/// Maximum size of an attribute that contains the name of a function or a type, in bytes.
const MAX_ATTR_LEN: u64 = 64 << 20;

/// The attributes of a node: for each name, the byte ranges of the value.
type Attrs = BTreeMap<Vec<u8>, Vec<Range<u64>>>;

/// Returns the changes to make to a top-level node of the graph before hashing; `None` if there are
/// none. If TensorFlow's code fails on the node, stores the reason in `refusal`.
pub(super) fn node_edits(
    canonical: &mut Canonical<'_>,
    node: Range<u64>,
    refusal: &RefCell<Option<String>>,
) -> Result<Option<Edits<'static>>> {
    let node = [node];
    let Some(op) = canonical.pieces(&node, NODE_OP)?.pop() else {
        return Ok(None);
    };
    if op.end - op.start > 32 {
        return Ok(None);
    }
    let is_call = match canonical.bytes(op)? {
        b"PartitionedCall" | b"StatefulPartitionedCall" => true,
        b"Const" => false,
        _ => return Ok(None),
    };
    let attrs = canonical.string_map(&node, NODE_ATTR)?;
    let needed: &[&str] = if is_call { &["f"] } else { &["dtype"] };
    if let Some(missing) = needed
        .iter()
        .find(|name| !attrs.contains_key(name.as_bytes()))
    {
        let what = if is_call { "a call" } else { "a constant" };
        refusal.replace(Some(format!(
            "{what} among its nodes has no attribute {missing}"
        )));
        return Ok(None);
    }
    if is_call {
        let mut edits = Edits::none().value(NODE_ATTR, "config_proto", Edits::content(EMPTY_S));
        if let Some(name) = function_name(canonical, &attrs)? {
            let func = Edits::none().field(FUNC_NAME, Edits::content(name));
            edits = edits.value(NODE_ATTR, "f", Edits::none().field(ATTR_FUNC, func));
        }
        return Ok(Some(edits));
    }
    let is_string = matches!(
        attr(canonical, &attrs, "dtype")?,
        Some(attr_value::Value::Type(dtype)) if dtype == DataType::DtString as i32
    );
    Ok(is_string.then(|| Edits::none().value(NODE_ATTR, "value", Edits::content([]))))
}

/// Returns the name of the function that a node calls, without the number at its end. Returns
/// `None` if the node calls no function, or the name doesn't end in a number.
fn function_name(canonical: &mut Canonical<'_>, attrs: &Attrs) -> Result<Option<Vec<u8>>> {
    let Some(attr_value::Value::Func(func)) = attr(canonical, attrs, "f")? else {
        return Ok(None);
    };
    let name = func.name.into_bytes();
    Ok(suffix_uid(&name).map(|uid| {
        let uid = uid.to_string();
        let stripped = name.strip_suffix(uid.as_bytes());
        stripped.map_or(name.clone(), <[u8]>::to_vec)
    }))
}

fn attr(
    canonical: &mut Canonical<'_>,
    attrs: &Attrs,
    name: &str,
) -> Result<Option<attr_value::Value>> {
    let mut bytes = Vec::new();
    for piece in attrs.get(name.as_bytes()).into_iter().flatten() {
        if piece.end - piece.start > MAX_ATTR_LEN - bytes.len() as u64 {
            let message = format!("the attribute {name} has more than {MAX_ATTR_LEN} bytes");
            return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(piece.start));
        }
        bytes.extend_from_slice(canonical.bytes(piece.clone())?);
    }
    let decoded = AttrValue::decode(bytes.as_slice()).map_err(|error| {
        let message = format!("the attribute {name} is not an AttrValue: {error}");
        Error::new(ErrorKind::InvalidMessage, message)
    })?;
    Ok(decoded.value)
}

/// Returns the number after the last underscore in a name. Accepts the same numbers as
/// `absl::SimpleAtoi`.
pub(super) fn suffix_uid(name: &[u8]) -> Option<i64> {
    let last = name.rsplit(|&byte| byte == b'_').next()?;
    let text = std::str::from_utf8(last).ok()?;
    // Vertical tabs are white space in C, but not in Rust.
    text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b')
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::suffix_uid;

    #[test]
    fn a_uid_is_the_integer_behind_the_last_underscore() {
        for (name, uid) in [
            ("__inference_f_123", Some(123)),
            ("x_007", Some(7)),
            ("x_-7", Some(-7)),
            ("x_+7", Some(7)),
            ("x_ 7 ", Some(7)),
            ("12", Some(12)),
            ("x_1.5", None),
            ("x_", None),
            ("", None),
            ("x_9223372036854775808", None),
        ] {
            assert_eq!(suffix_uid(name.as_bytes()), uid, "{name:?}");
        }
    }
}
