//! Conditions on the elements that a query selects.

use std::cmp::Ordering;
use std::fmt;

use bytes::Bytes;
use prost_reflect::Kind;

use super::expected::{Expected, MOST_OF_NUMBER, NumberForm};
use super::field_path::FieldPath;
use super::scalar::ScalarValue;
use crate::{Error, ErrorKind, Result};

/// A test of the value at a path inside an element.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    pub(crate) path: FieldPath,
    test: Test,
}

/// The comparison that a condition makes.
#[derive(Clone, Debug, PartialEq)]
enum Test {
    Is(Expected),
    IsNot(Expected),
    /// The value contains this text.
    Contains(Vec<u8>),
    Order {
        operator: Operator,
        bound: ScalarValue,
        kind: Kind,
        /// Value to compare if the field is absent; `None` if an absent field never meets the
        /// condition.
        absent: Option<ScalarValue>,
    },
}

/// The operator between a path and a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Contains,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// All operators, with the text of each. If one text begins with another, the longer one comes
/// first.
const OPERATORS: [(&str, Operator); 7] = [
    ("!=", Operator::NotEqual),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("=", Operator::Equal),
    ("<", Operator::Less),
    (">", Operator::Greater),
    ("~", Operator::Contains),
];

impl Operator {
    /// Returns the operator at the beginning of `text`, and the remaining text.
    pub(super) fn take(text: &str) -> Option<(Operator, &str)> {
        OPERATORS
            .iter()
            .find_map(|(sign, operator)| Some((*operator, text.strip_prefix(sign)?)))
    }

    /// Returns true if the operator compares values by their order.
    pub(super) fn is_order(self) -> bool {
        !matches!(
            self,
            Operator::Equal | Operator::NotEqual | Operator::Contains
        )
    }

    fn allows(self, order: Ordering) -> bool {
        match self {
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::Greater => order.is_gt(),
            Operator::GreaterOrEqual => order.is_ge(),
            Operator::Equal | Operator::Contains => order.is_eq(),
            Operator::NotEqual => order.is_ne(),
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = OPERATORS.iter().find(|(_, operator)| operator == self);
        f.write_str(found.map_or("", |(sign, _)| sign))
    }
}

/// A value as written in a condition.
pub(super) struct Wanted<'a> {
    pub(super) text: &'a str,
    pub(super) quoted: bool,
}

impl Condition {
    /// Returns the condition for values of this kind; `None` if the text isn't a value of the kind,
    /// or the operator doesn't apply to the kind. If `implicit`, an absent value counts as 0 or
    /// empty.
    pub(super) fn typed(
        path: FieldPath,
        operator: Operator,
        wanted: &Wanted<'_>,
        kind: &Kind,
        implicit: bool,
    ) -> Option<Condition> {
        let is = || Expected::parse(wanted.text, wanted.quoted, kind, implicit);
        let is_text = matches!(kind, Kind::String | Kind::Bytes);
        let test = match operator {
            Operator::Equal => Test::Is(is()?),
            Operator::NotEqual => Test::IsNot(is()?),
            Operator::Contains if is_text => Test::Contains(wanted.text.as_bytes().to_vec()),
            Operator::Contains => return None,
            _ if *kind == Kind::Bool => return None,
            _ if wanted.quoted && !is_text && !matches!(kind, Kind::Enum(_)) => return None,
            operator => {
                let bound = Expected::parse(wanted.text, false, kind, false)?.into_wire(kind);
                Test::Order {
                    operator,
                    bound: ScalarValue::decode(kind, bound.into())?,
                    kind: kind.clone(),
                    absent: ScalarValue::zero(kind).filter(|_| implicit),
                }
            }
        };
        Some(Condition { path, test })
    }

    /// Returns the condition for a message of unknown type: an unquoted number is compared as a
    /// varint, anything else as text.
    pub(super) fn untyped(
        path: FieldPath,
        operator: Operator,
        wanted: &Wanted<'_>,
    ) -> Result<Condition> {
        let is = || match (wanted.quoted, wanted.text.parse::<i64>()) {
            (false, Ok(value)) => Expected::Bits {
                value: u64::from_ne_bytes(value.to_ne_bytes()),
                form: NumberForm::Varint,
                implicit: false,
            },
            _ => Expected::Bytes {
                value: wanted.text.as_bytes().to_vec(),
                implicit: false,
            },
        };
        let test = match operator {
            Operator::Equal => Test::Is(is()),
            Operator::NotEqual => Test::IsNot(is()),
            Operator::Contains => Test::Contains(wanted.text.as_bytes().to_vec()),
            _ => {
                let message = "the message's type is needed to tell which of two values is larger";
                return Err(Error::new(ErrorKind::SchemaNeeded, message));
            }
        };
        Ok(Condition { path, test })
    }

    /// Returns true if the value meets the condition. `None` is an absent field.
    pub(crate) fn holds(&self, value: Option<&[u8]>) -> bool {
        match &self.test {
            Test::Is(expected) => expected.is(value),
            Test::IsNot(expected) => !expected.is(value),
            Test::Contains(text) => value.is_some_and(|value| contains(value, text)),
            Test::Order {
                operator,
                bound,
                kind,
                absent,
            } => {
                let found = match value {
                    Some(value) => ScalarValue::decode(kind, Bytes::copy_from_slice(value)),
                    None => absent.clone(),
                };
                let order = found.and_then(|found| found.order(bound));
                order.is_some_and(|order| operator.allows(order))
            }
        }
    }

    /// Returns the number of bytes at the beginning of a value that suffice to determine whether
    /// the condition [holds](Self::holds). `len` is the length of the whole value.
    pub(crate) fn told_by(&self, len: u64) -> u64 {
        let most = match &self.test {
            Test::Is(expected) | Test::IsNot(expected) => expected.longest() + 1,
            Test::Contains(_) => u64::MAX,
            Test::Order { bound, .. } => match bound {
                ScalarValue::String(_) | ScalarValue::Bytes(_) => u64::MAX,
                _ => MOST_OF_NUMBER,
            },
        };
        len.min(most)
    }
}

fn contains(value: &[u8], text: &[u8]) -> bool {
    text.is_empty() || value.windows(text.len()).any(|window| window == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(sign: &str, text: &str, kind: Kind, implicit: bool) -> Option<Condition> {
        let (operator, _) = Operator::take(sign).unwrap();
        let wanted = Wanted {
            text,
            quoted: false,
        };
        Condition::typed(FieldPath::root(), operator, &wanted, &kind, implicit)
    }

    #[test]
    fn numbers_and_texts_are_compared_as_their_kind_says() {
        let minus_one: &[u8] = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        let half: &[u8] = &0.5_f64.to_le_bytes();
        let cases: [(&str, &str, Kind, &[u8], bool); 18] = [
            ("<", "5", Kind::Int32, minus_one, true),
            ("<", "5", Kind::Uint64, minus_one, false),
            ("<=", "5", Kind::Int64, b"\x05", true),
            (">", "5", Kind::Int64, b"\x05", false),
            (">=", "-1", Kind::Sint32, b"\x01", true),
            (">", "-1", Kind::Sint32, b"\x01", false),
            (">", "0.25", Kind::Double, half, true),
            ("!=", "0.5", Kind::Double, half, false),
            ("~", "onv", Kind::String, b"conv2d", true),
            ("~", "conv3", Kind::Bytes, b"conv2d", false),
            (">", "b", Kind::String, b"conv2d", true),
            ("<", "1", Kind::Fixed32, b"\0\0", false),
            ("=", "-1", Kind::Int32, minus_one, true),
            ("=", "-1", Kind::Int32, b"\xff\xff\xff\xff\x0f", true),
            ("=", "-1", Kind::Int64, b"\xff\xff\xff\xff\x0f", false),
            ("!=", "-1", Kind::Sint32, b"\x81\x80\x80\x80\x10", false),
            ("=", "true", Kind::Bool, b"\x02", true),
            ("=", "false", Kind::Bool, b"\x02", false),
        ];
        for (sign, text, kind, value, holds) in cases {
            let condition = typed(sign, text, kind, false).unwrap();
            assert_eq!(condition.holds(Some(value)), holds, "{sign} {text}");
        }
    }

    #[test]
    fn what_is_not_there_counts_as_0_where_the_type_says_so() {
        for (sign, text, implicit, holds) in [
            ("<", "1", true, true),
            ("<", "1", false, false),
            ("=", "0", true, true),
            ("!=", "0", true, false),
            ("!=", "0", false, true),
            (">=", "0", true, true),
        ] {
            let condition = typed(sign, text, Kind::Int32, implicit).unwrap();
            assert_eq!(condition.holds(None), holds, "{sign} {text} {implicit}");
        }
    }

    #[test]
    fn what_no_value_of_the_kind_is_compared_with_is_refused() {
        for (sign, text, kind) in [
            ("<", "true", Kind::Bool),
            ("~", "1", Kind::Int32),
            ("<", "x", Kind::Int32),
            (">", "-1", Kind::Uint32),
        ] {
            assert!(typed(sign, text, kind, false).is_none(), "{sign} {text}");
        }
        let wanted = Wanted {
            text: "1",
            quoted: false,
        };
        let error = Condition::untyped(FieldPath::root(), Operator::Less, &wanted).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SchemaNeeded);
    }
}
