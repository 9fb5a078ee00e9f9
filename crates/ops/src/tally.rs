//! Counting the values that a query selects, and summing numbers inside them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use prost_reflect::Kind;
use proto_splitter_core::path::PathQuery;
use proto_splitter_core::view::size_tree::NameRule;
use proto_splitter_core::view::{MessageView, ScalarPath, ScalarValue};
use proto_splitter_core::{Error, ErrorKind, Result};

/// Maximum number of groups.
const MOST_GROUPS: usize = 1 << 20;

/// Options for [`tally`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct TallyOptions {
    sum: Vec<String>,
    by: Vec<String>,
}

impl TallyOptions {
    /// Returns the defaults: the values are counted, without sums or groups.
    pub fn new() -> Self {
        TallyOptions::default()
    }

    /// Sets the paths of the numbers to sum, relative to each value; `.` is the value itself.
    pub fn sum(mut self, paths: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.sum = paths.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the paths to group by, relative to each value. Each group has its own count and sums.
    pub fn by(mut self, paths: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.by = paths.into_iter().map(Into::into).collect();
        self
    }

    /// Returns the paths of the numbers to sum, relative to each value.
    pub fn get_sum(&self) -> &[String] {
        &self.sum
    }

    /// Returns the paths to group by, relative to each value.
    pub fn get_by(&self) -> &[String] {
        &self.by
    }
}

/// The result of [`tally`].
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Tally {
    /// Number of values that the query selects.
    pub count: u64,
    /// Sums over all selected values, one for each path to sum, in the order of
    /// [`TallyOptions::sum`].
    pub sums: Vec<Total>,
    /// Groups in descending order of their first sum or, without sums, of their count. Empty if the
    /// options have no paths to group by.
    pub groups: Vec<TallyGroup>,
}

/// A group of selected values that have equal contents at the paths to group by.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TallyGroup {
    /// Contents that the group's values have in common, as text: one for each path to group by, in
    /// the order of [`TallyOptions::by`]; `None` for an absent field.
    pub by: Vec<Option<String>>,
    /// Number of values in the group.
    pub count: u64,
    /// Sums over the group's values, one for each path to sum, in the order of
    /// [`TallyOptions::sum`].
    pub sums: Vec<Total>,
}

/// The sum of the numbers at one path.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(untagged))]
pub enum Total {
    /// Exact sum of integers.
    Integer(i128),
    /// Sum of numbers of the type `float` or `double`.
    Real(f64),
}

impl std::fmt::Display for Total {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Total::Integer(sum) => sum.fmt(f),
            Total::Real(sum) => sum.fmt(f),
        }
    }
}

impl Total {
    fn add(&mut self, value: &ScalarValue) {
        match (self, value) {
            // In practice, the sum can't overflow, since even 2^63 values of 64 bits fit in 128
            // bits.
            (Total::Integer(sum), ScalarValue::Signed(value)) => *sum += i128::from(*value),
            (Total::Integer(sum), ScalarValue::Unsigned(value)) => *sum += i128::from(*value),
            (Total::Integer(sum), ScalarValue::Bool(value)) => *sum += i128::from(*value),
            (Total::Real(sum), ScalarValue::Double(value)) => *sum += value,
            (Total::Real(sum), ScalarValue::Float(value)) => *sum += f64::from(*value),
            _ => {}
        }
    }

    fn order(self, other: Total) -> std::cmp::Ordering {
        match (self, other) {
            (Total::Integer(a), Total::Integer(b)) => a.cmp(&b),
            (Total::Real(a), Total::Real(b)) => a.total_cmp(&b),
            _ => std::cmp::Ordering::Equal,
        }
    }
}

/// Counts the values that a query selects, and sums numbers inside these values, in total and for
/// each group. `names` contains the rules that give names to list elements.
///
/// # Errors
///
/// The errors of [`MessageView::select`]; [`ErrorKind::SchemaNeeded`] if the options request sums
/// or groups and the message's type is unknown; [`ErrorKind::InvalidPath`] if a path in the options
/// doesn't select a single value, or a path to sum doesn't select a number;
/// [`ErrorKind::LimitExceeded`] if there are more than 2^20 groups.
pub fn tally(
    view: &MessageView<'_>,
    query: &PathQuery,
    names: &[NameRule],
    options: &TallyOptions,
) -> Result<Tally> {
    let paths = |texts: &[String]| -> Result<Vec<ScalarPath>> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let root = view.descriptor().ok_or_else(|| {
            let message = "the message's type is needed to look inside a value";
            Error::new(ErrorKind::SchemaNeeded, message)
        })?;
        let value = query.resolve(root)?.kind;
        texts
            .iter()
            .map(|text| ScalarPath::new(text, &value))
            .collect()
    };
    let (summed, by) = (paths(&options.sum)?, paths(&options.by)?);
    let zeros = summed.iter().zip(&options.sum);
    let zeros: Result<Vec<Total>> = zeros.map(|(path, text)| zero(path, text)).collect();
    let zeros = zeros?;
    let mut all = Tally {
        count: 0,
        sums: zeros.clone(),
        groups: Vec::new(),
    };
    let mut places: HashMap<Vec<Option<Key>>, usize> = HashMap::new();
    let mut selected = view.select(query, names)?;
    while selected.next().transpose()?.is_some() {
        all.count += 1;
        let mut group = None;
        if !by.is_empty() {
            let mut key = Vec::with_capacity(by.len());
            for path in &by {
                key.push(selected.scalar(path)?.map(Key::of));
            }
            let count = places.len();
            let at = match places.entry(key) {
                Entry::Occupied(place) => *place.get(),
                Entry::Vacant(_) if count == MOST_GROUPS => {
                    let message = format!("more than {MOST_GROUPS} groups");
                    return Err(Error::new(ErrorKind::LimitExceeded, message));
                }
                Entry::Vacant(place) => {
                    let shown = place.key().iter().zip(&by);
                    let shown = shown.map(|(key, path)| Some(key.as_ref()?.shown(path.kind())));
                    all.groups.push(TallyGroup {
                        by: shown.collect(),
                        count: 0,
                        sums: zeros.clone(),
                    });
                    *place.insert(count)
                }
            };
            group = all.groups.get_mut(at);
        }
        if let Some(group) = &mut group {
            group.count += 1;
        }
        for (at, path) in summed.iter().enumerate() {
            let Some(value) = selected.scalar(path)? else {
                continue;
            };
            if let Some(sum) = all.sums.get_mut(at) {
                sum.add(&value);
            }
            if let Some(sum) = group.as_mut().and_then(|group| group.sums.get_mut(at)) {
                sum.add(&value);
            }
        }
    }
    all.groups.sort_by(|a, b| {
        let sums = b.sums.first().zip(a.sums.first());
        let by_sum = sums.map(|(b, a)| b.order(*a));
        let by_count = b.count.cmp(&a.count);
        let by_size = by_sum.map_or(by_count, |by_sum| by_sum.then(by_count));
        by_size.then_with(|| a.by.cmp(&b.by))
    });
    Ok(all)
}

/// Returns the initial sum, zero, for the values at the path. Fails if the values aren't numbers.
fn zero(path: &ScalarPath, text: &str) -> Result<Total> {
    match path.kind() {
        Kind::Float | Kind::Double => Ok(Total::Real(0.0)),
        Kind::String | Kind::Bytes | Kind::Enum(_) | Kind::Message(_) => {
            let message = "only numbers can be added up";
            Err(Error::new(ErrorKind::InvalidPath, message).at_path(text))
        }
        _ => Ok(Total::Integer(0)),
    }
}

/// The content of a selected value at a path to group by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Signed(i64),
    Unsigned(u64),
    /// Bits of a `double`.
    Double(u64),
    /// Bits of a `float`.
    Float(u32),
    Bool(bool),
    Text(String),
    Bytes(Vec<u8>),
}

impl Key {
    fn of(value: ScalarValue) -> Key {
        match value {
            ScalarValue::Signed(value) => Key::Signed(value),
            ScalarValue::Unsigned(value) => Key::Unsigned(value),
            ScalarValue::Double(value) => Key::Double(value.to_bits()),
            ScalarValue::Float(value) => Key::Float(value.to_bits()),
            ScalarValue::Bool(value) => Key::Bool(value),
            ScalarValue::String(value) => Key::Text(value),
            ScalarValue::Bytes(value) => Key::Bytes(value.to_vec()),
            _ => Key::Bytes(Vec::new()),
        }
    }

    /// Returns the value as text: enum values by name, bytes in hexadecimal.
    fn shown(&self, kind: &Kind) -> String {
        match (self, kind) {
            (Key::Signed(value), Kind::Enum(values)) => {
                let number = i32::try_from(*value).ok();
                let known = number.and_then(|number| values.get_value(number));
                known.map_or_else(|| value.to_string(), |known| known.name().to_owned())
            }
            (Key::Signed(value), _) => value.to_string(),
            (Key::Unsigned(value), _) => value.to_string(),
            (Key::Float(bits), _) => f32::from_bits(*bits).to_string(),
            (Key::Double(bits), _) => f64::from_bits(*bits).to_string(),
            (Key::Bool(value), _) => value.to_string(),
            (Key::Text(value), _) => value.clone(),
            (Key::Bytes(value), _) => value.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use prost_reflect::ReflectMessage;
    use prost_reflect::prost::Message;
    use prost_reflect::prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto};
    use proto_splitter_core::merge::ReadOptions;

    use super::*;

    fn file() -> FileDescriptorProto {
        let field = |name: &str, number, kind| FieldDescriptorProto {
            name: Some(name.into()),
            number: Some(number),
            r#type: kind,
            ..Default::default()
        };
        FileDescriptorProto {
            message_type: vec![DescriptorProto {
                field: vec![
                    field("a", 7, Some(9)),
                    field("b", -2, Some(5)),
                    field("c", 30, Some(9)),
                    field("a", 4, None),
                ],
                ..Default::default()
            }],
            public_dependency: vec![3, 4, -1],
            ..Default::default()
        }
    }

    fn tallied(query: &str, options: &TallyOptions) -> Result<Tally> {
        let root = FileDescriptorProto::default().descriptor();
        let bytes = file().encode_to_vec();
        let options_read = ReadOptions::new().descriptor(root.clone());
        let view = MessageView::of_plain(&bytes, options_read).unwrap();
        tally(
            &view,
            &PathQuery::parse(query, Some(&root)).unwrap(),
            &[],
            options,
        )
    }

    #[test]
    fn values_are_counted_and_added_up_by_what_tells_them_apart() {
        let all = "message_type[*].field[*]";
        let options = TallyOptions::new().sum(["number"]).by(["type"]);
        let tally = tallied(all, &options).unwrap();
        assert_eq!(
            (tally.count, &tally.sums[..]),
            (4, &[Total::Integer(39)][..])
        );
        let groups = tally.groups.iter();
        let groups: Vec<_> = groups
            .map(|group| (group.by[0].as_deref(), group.count, group.sums[0]))
            .collect();
        let expected = [
            (Some("TYPE_STRING"), 2, Total::Integer(37)),
            (None, 1, Total::Integer(4)),
            (Some("TYPE_INT32"), 1, Total::Integer(-2)),
        ];
        assert_eq!(groups, expected);
        let one = tallied("message_type[0].field[number>5]", &TallyOptions::new()).unwrap();
        assert_eq!((one.count, one.groups.len()), (2, 0));
        let names = tallied(all, &TallyOptions::new().by(["name"])).unwrap();
        assert_eq!(names.groups[0].by, [Some("a".to_owned())]);
    }

    #[test]
    fn numbers_of_a_list_are_added_up_themselves() {
        let options = TallyOptions::new().sum(["."]);
        let tally = tallied("public_dependency[*]", &options).unwrap();
        assert_eq!((tally.count, tally.sums), (3, vec![Total::Integer(6)]));
    }

    #[test]
    fn what_is_no_number_is_not_added_up() {
        for (sum, kind) in [
            ("name", ErrorKind::InvalidPath),
            ("options", ErrorKind::InvalidPath),
            ("none", ErrorKind::InvalidPath),
            ("type", ErrorKind::InvalidPath),
        ] {
            let options = TallyOptions::new().sum([sum]);
            let error = tallied("message_type[0].field[*]", &options).unwrap_err();
            assert_eq!(error.kind(), kind, "{sum}");
        }
    }
}
