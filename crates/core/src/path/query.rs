//! Paths that may select several values, or an element by its name or by a value in it.

use prost_reflect::{Kind, MessageDescriptor};

use super::condition::Condition;
use super::field_path::{FieldPath, Select, Step};
use super::map_key::MapKey;
use crate::wire::FieldNumber;
use crate::{Error, ErrorKind, Result};

/// A path whose steps may also select elements by their position from the end, by a range, by a
/// name, or by values in them.
///
/// A [`FieldPath`] names one value, whatever the message contains. The values that a query selects
/// depend on the message's content: [`MessageView::select`](crate::view::MessageView::select) finds
/// these values.
///
/// | in brackets | selects |
/// | --- | --- |
/// | `[7]`, `["key"]` | one element, one map entry |
/// | `[-1]` | one element, counted from the end |
/// | `[*]` | all elements, or the values of all map entries |
/// | `[2:5]`, `[2:]`, `[:-1]` | the elements from one index up to another, exclusive |
/// | `["name"]` on a repeated field | the elements with this name |
/// | `[name="x"]`, `[meta.id=5]` | the elements with this value at a path inside them |
///
/// ```
/// use prost_reflect::{ReflectMessage, prost_types::FileDescriptorProto};
/// use proto_splitter_core::path::PathQuery;
///
/// let root = FileDescriptorProto::default().descriptor();
/// let query = PathQuery::parse(r#"message_type[name="Node"].field[-1].name"#, Some(&root))?;
/// assert_eq!(query.as_path(), None);
/// let plain = PathQuery::parse("message_type[0].name", Some(&root))?;
/// assert_eq!(plain.as_path(), Some("4[0].1".parse()?));
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PathQuery {
    pub(super) text: String,
    pub(super) steps: Vec<QueryStep>,
}

/// One step of a [`PathQuery`]: a field, and a selection of its values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QueryStep {
    pub(crate) field: FieldNumber,
    pub(crate) pick: Pick,
    /// End of the step in the query's text, as a byte offset.
    pub(crate) end: usize,
}

/// A selection of a field's values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pick {
    /// A selection that a [`FieldPath`] supports.
    One(Select),
    /// The element at this position from the end; 1 is the last.
    FromEnd(u64),
    /// All elements of a repeated field, or all entries of a map.
    All,
    /// The elements from the first position up to the second, exclusive; `None` means the end.
    Range(Place, Option<Place>),
    /// The elements with this name.
    Named(String),
    /// The elements that meet all of these conditions.
    Where(Vec<Condition>),
}

/// A position among the elements of a repeated field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    FromStart(u64),
    FromEnd(u64),
}

impl Place {
    /// Returns the index of this position in a list of `count` elements.
    pub(crate) fn among(self, count: u64) -> u64 {
        match self {
            Place::FromStart(index) => index.min(count),
            Place::FromEnd(back) => count.saturating_sub(back),
        }
    }
}

impl PathQuery {
    /// Returns the query as a path; `None` unless every step is a field, an index or a key.
    pub fn as_path(&self) -> Option<FieldPath> {
        let step = |step: &QueryStep| match &step.pick {
            Pick::One(select) => Some(Step {
                field: step.field,
                select: select.clone(),
            }),
            _ => None,
        };
        self.steps.iter().map(step).collect()
    }

    /// Returns the query for all elements of the field at the end of a path.
    pub(crate) fn all_of(field: &FieldPath) -> PathQuery {
        PathQuery::from(field).each_element()
    }

    /// Returns true if a step's syntax selects several elements: `[*]` or `[a:b]`.
    pub fn is_plural(&self) -> bool {
        let plural = |step: &QueryStep| matches!(step.pick, Pick::All | Pick::Range(..));
        self.steps.iter().any(plural)
    }

    /// Returns true if the query may select several values, because a step selects elements by
    /// their names or values, or selects [several elements](Self::is_plural).
    pub fn picks_several(&self) -> bool {
        let several = |step: &QueryStep| !matches!(step.pick, Pick::One(_) | Pick::FromEnd(_));
        self.steps.iter().any(several)
    }

    /// Returns the query for all elements of the repeated field that this query selects.
    #[must_use]
    pub fn each_element(mut self) -> PathQuery {
        if let Some(last) = self.steps.last_mut() {
            last.pick = Pick::All;
        }
        self.text.push_str("[*]");
        self
    }

    /// Returns the query for the steps before the first step with `[*]` or `[a:b]`, and the text of
    /// the remaining steps.
    pub fn singular(&self) -> (PathQuery, &str) {
        let plural = |step: &QueryStep| matches!(step.pick, Pick::All | Pick::Range(..));
        let count = self.steps.iter().position(plural);
        let steps = &self.steps[..count.unwrap_or(self.steps.len())];
        let end = steps.last().map_or(0, |step| step.end);
        let (front, rest) = self.text.split_at(end.min(self.text.len()));
        let front = PathQuery {
            text: front.to_owned(),
            steps: steps.to_vec(),
        };
        (front, rest.trim_start_matches('.'))
    }

    /// Returns the query without its last step, and that step; `None` for the whole message.
    pub(crate) fn split_last(&self) -> Option<(PathQuery, &QueryStep)> {
        let (last, front) = self.steps.split_last()?;
        let end = front.last().map_or(0, |step| step.end);
        let parent = PathQuery {
            text: self.text.get(..end).unwrap_or_default().to_owned(),
            steps: front.to_vec(),
        };
        Some((parent, last))
    }

    /// Returns a pair for each step that selects by a name or by a string key. The pair consists of
    /// the query up to this step, with the step's selection replaced by all elements, and of the
    /// name or key.
    pub(crate) fn named(&self) -> impl Iterator<Item = (PathQuery, &str)> {
        self.steps.iter().enumerate().filter_map(|(at, step)| {
            let name = match &step.pick {
                Pick::Named(name) | Pick::One(Select::Key(MapKey::String(name))) => name,
                _ => return None,
            };
            let mut steps = self.steps[..=at].to_vec();
            steps[at].pick = Pick::All;
            let text = self.text.clone();
            Some((PathQuery { text, steps }, name.as_str()))
        })
    }

    /// Returns, for each step that selects elements by name, one query for each string field of the
    /// elements. Each query ends with this step, and selects the elements in which that string
    /// field has the name as its value.
    pub(crate) fn valued(&self, root: &MessageDescriptor) -> Vec<PathQuery> {
        let mut found = Vec::new();
        for (at, step) in self.steps.iter().enumerate() {
            let Pick::Named(name) = &step.pick else {
                continue;
            };
            let begin = at.checked_sub(1).map_or(0, |above| self.steps[above].end);
            let (front, own) = (&self.text[..begin], &self.text[begin..step.end]);
            let field = own.split('[').next().unwrap_or_default();
            let all = PathQuery::parse(&format!("{front}{field}[*]"), Some(root));
            let target = all.and_then(|all| all.resolve(root));
            let Ok(Some(message)) = target.map(|target| target.kind.message().cloned()) else {
                continue;
            };
            for member in message.fields() {
                if member.kind() == Kind::String && !member.is_list() {
                    let text = format!("{front}{field}[{}={name:?}]", member.name());
                    found.extend(PathQuery::parse(&text, Some(root)));
                }
            }
        }
        found
    }

    /// Returns the name of the last field, as in the query's text; empty for the whole message.
    #[doc(hidden)]
    pub fn last_name(&self) -> &str {
        let above = self.steps.len().checked_sub(2);
        let begin = above.map_or(0, |above| self.steps[above].end);
        let step = self.text.get(begin..).unwrap_or_default();
        let name = step.split('[').next().unwrap_or_default();
        name.strip_prefix('.').unwrap_or(name)
    }

    /// Returns the text that the query was parsed from.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn steps(&self) -> &[QueryStep] {
        &self.steps
    }

    /// Converts positions from the end to map keys. A path for an unknown message type has no such
    /// positions, so its negative numbers are keys.
    pub(super) fn read_negative_as_keys(&mut self) -> Result<()> {
        for step in &mut self.steps {
            if let Pick::FromEnd(back) = step.pick {
                let key = 0_i64.checked_sub_unsigned(back).ok_or_else(|| {
                    let message = format!("-{back} is not a key");
                    Error::new(ErrorKind::InvalidPath, message).at_path(&*self.text)
                })?;
                step.pick = Pick::One(Select::Key(MapKey::I64(key)));
            }
        }
        Ok(())
    }

    /// Converts the query to a path, for callers that allow only paths.
    pub(super) fn into_path(self) -> Result<FieldPath> {
        self.as_path().ok_or_else(|| {
            let message = "the path needs an index or key that selects one element";
            Error::new(ErrorKind::InvalidPath, message).at_path(self.text)
        })
    }
}

/// Creates a query that selects only the value at the path.
impl From<&FieldPath> for PathQuery {
    fn from(path: &FieldPath) -> Self {
        let mut text = String::new();
        let mut steps = Vec::with_capacity(path.steps().len());
        for step in path.steps() {
            let dot = if text.is_empty() { "" } else { "." };
            text.push_str(dot);
            text.push_str(&FieldPath::from_iter([step.clone()]).to_string());
            steps.push(QueryStep {
                field: step.field,
                pick: Pick::One(step.select.clone()),
                end: text.len(),
            });
        }
        PathQuery { text, steps }
    }
}

#[cfg(test)]
mod tests {
    use prost_reflect::ReflectMessage;
    use prost_reflect::prost_types::FileDescriptorProto;

    use super::*;

    fn parse(text: &str) -> Result<PathQuery> {
        PathQuery::parse(text, Some(&FileDescriptorProto::default().descriptor()))
    }

    fn last(text: &str) -> Pick {
        parse(text).unwrap().steps.pop().unwrap().pick
    }

    #[test]
    fn brackets_pick_by_index_name_value_and_range() {
        let from_start = Place::FromStart;
        for (text, pick) in [
            ("message_type[3]", Pick::One(Select::Index(3))),
            ("message_type[-2]", Pick::FromEnd(2)),
            ("message_type[*]", Pick::All),
            (
                "message_type[1:4]",
                Pick::Range(from_start(1), Some(from_start(4))),
            ),
            ("message_type[1:]", Pick::Range(from_start(1), None)),
            ("message_type[:]", Pick::Range(from_start(0), None)),
            (
                "message_type[-3:-1]",
                Pick::Range(Place::FromEnd(3), Some(Place::FromEnd(1))),
            ),
            ("message_type[\"a].b\"]", Pick::Named("a].b".into())),
            ("message_type['a\"b']", Pick::Named("a\"b".into())),
        ] {
            assert_eq!(last(text), pick, "{text}");
        }
        for (text, path, value) in [
            ("message_type[name=\"a]b\"]", "1", &b"a]b"[..]),
            ("message_type[name=plain]", "1", b"plain"),
            ("message_type[options.map_entry=true]", "7.7", b"\x01"),
        ] {
            let Pick::Where(conditions) = last(text) else {
                panic!("{text}");
            };
            let [condition] = &conditions[..] else {
                panic!("{text}");
            };
            assert_eq!(condition.path.to_string(), path);
            assert!(condition.holds(Some(value)), "{text}");
            assert!(!condition.holds(Some(b"\0")), "{text}");
        }
    }

    #[test]
    fn an_enum_is_looked_for_by_name_or_number() {
        for text in ["TYPE_STRING", "9"] {
            let text = format!("message_type[0].field[type={text}]");
            let Pick::Where(conditions) = last(&text) else {
                panic!("{text}");
            };
            assert!(conditions[0].holds(Some(&[9])) && !conditions[0].holds(Some(&[8])));
        }
    }

    #[test]
    fn what_a_field_does_not_take_is_refused() {
        for text in [
            "name[*]",
            "name[0:1]",
            "name[\"x\"]",
            "message_type[nope=1]",
            "message_type[name]",
            "message_type[name=\"x]",
            "message_type[options=1]",
            "message_type[name=\"x\",]",
            "message_type[name=\"x\" name=\"y\"]",
            "message_type[options.map_entry<true]",
            "message_type[options.map_entry~true]",
            "message_type[0].field[type<NOPE]",
            "message_type[0].field[type=NOPE]",
            "message_type[-0]",
            "message_type[1:2:3]",
            "message_type[*",
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidPath, "{text}");
        }
    }

    #[test]
    fn without_a_type_a_negative_number_counts_from_the_end_of_a_query() {
        let query = PathQuery::parse("1[-2].3", None).unwrap();
        assert_eq!(query.steps[0].pick, Pick::FromEnd(2));
        let path: FieldPath = "1[-2].3".parse().unwrap();
        assert_eq!(path.steps()[0].select, Select::Key(MapKey::I64(-2)));
        let lowest = format!("1[{}]", i64::MIN);
        assert_eq!(lowest.parse::<FieldPath>().unwrap().to_string(), lowest);
        for none in ["1[-0]", "1[-9223372036854775809]"] {
            assert!(none.parse::<FieldPath>().is_err(), "{none}");
        }
    }

    #[test]
    fn a_path_is_a_query_that_reads_the_same() {
        let path: FieldPath = r#"4[0].2["a.b"].1"#.parse().unwrap();
        let query = PathQuery::from(&path);
        assert_eq!(query, PathQuery::parse(query.as_str(), None).unwrap());
    }

    #[test]
    fn the_last_name_is_that_of_the_field_without_brackets() {
        for (text, name) in [
            ("", ""),
            ("12", "12"),
            ("1[*].2['a.b]'].3['x]y']", "3"),
            ("1['x]y']", "1"),
        ] {
            let query = PathQuery::parse(text, None);
            assert_eq!(query.unwrap().last_name(), name, "{text}");
        }
        assert_eq!(parse("message_type[*].field").unwrap().last_name(), "field");
        let all = parse("message_type").unwrap().each_element();
        assert_eq!(all.last_name(), "message_type");
    }

    #[test]
    fn only_a_query_without_picks_is_a_path() {
        assert_eq!(parse(".").unwrap().as_path(), Some(FieldPath::root()));
        assert!(
            parse("message_type[1].field[*]")
                .unwrap()
                .as_path()
                .is_none()
        );
        assert!(parse("message_type[1].field[*]").unwrap().is_plural());
        assert!(!parse("message_type[-1]").unwrap().is_plural());
        let root = FileDescriptorProto::default().descriptor();
        assert!(FieldPath::parse("message_type[-1]", &root).is_err());
    }
}
