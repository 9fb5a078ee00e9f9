//! Large parts of a message, which errors name by path and size.

use std::fmt;

/// Number of large parts that an error names.
pub const NAMED: usize = 3;

const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// Maximum length of a name in an error, in characters.
const LONGEST_NAME: usize = 60;

/// A part of a message: its path, and its size in bytes, including tags and lengths.
///
/// Displays as `graph.node[7] 1.5 GiB (embedding)`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LargePart {
    /// The path of a value or of a whole field. `[*]` denotes all elements of a repeated field.
    pub path: String,
    /// Name of the element at `path`; `None` if the part isn't an element, or has no name.
    pub name: Option<String>,
    /// Size in bytes.
    pub size: u64,
}

impl LargePart {
    /// Creates a part without a name.
    pub fn new(path: impl Into<String>, size: u64) -> Self {
        let path = path.into();
        let name = None;
        LargePart { path, name, size }
    }
}

impl fmt::Display for LargePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path, shown_size(self.size))?;
        match self.name.as_deref().filter(|name| !name.is_empty()) {
            None => Ok(()),
            Some(name) => match name.char_indices().nth(LONGEST_NAME) {
                None => write!(f, " ({})", name.escape_debug()),
                Some((end, _)) => write!(f, " ({}...)", name[..end].escape_debug()),
            },
        }
    }
}

/// Formats parts as the end of a line: `; the largest: a 2.0 GiB, b 7 B`. Returns an empty string
/// if there are none.
///
/// ```
/// use proto_splitter_core::view::size_tree::{LargePart, largest_named};
///
/// let parts = [LargePart::new("a", 2 << 30), LargePart::new("b", 7)];
/// assert_eq!(largest_named(&parts), "; the largest: a 2.0 GiB, b 7 B");
/// assert_eq!(largest_named(&[]), "");
/// ```
pub fn largest_named(parts: &[LargePart]) -> String {
    let named: Vec<String> = parts.iter().map(LargePart::to_string).collect();
    match named.as_slice() {
        [] => String::new(),
        named => format!("; the largest: {}", named.join(", ")),
    }
}

/// Formats a size with one decimal, in the largest unit that is not larger than the size. A size
/// below 1 KiB is a whole number of bytes.
///
/// ```
/// assert_eq!(proto_splitter_core::view::size_tree::shown_size(1536), "1.5 KiB");
/// ```
pub fn shown_size(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut power, mut scale) = (1, 1024);
    loop {
        // A value that would be rounded to 1024.0 uses the next unit.
        let tenths = (u128::from(bytes) * 10 + scale / 2) / scale;
        if tenths < 10_240 || power + 1 == UNITS.len() {
            return format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[power]);
        }
        (power, scale) = (power + 1, scale * 1024);
    }
}
