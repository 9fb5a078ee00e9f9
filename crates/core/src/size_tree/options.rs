//! What is kept beside the sums.

use crate::member_names::NameRule;

/// How many members of a field are kept, unless options say otherwise.
pub const DEFAULT_TOP: usize = 10;

/// What is kept beside the sums.
#[derive(Clone, Debug)]
pub struct TreeOptions {
    pub(super) top: usize,
    pub(super) min_member_size: u64,
    pub(super) names: Vec<NameRule>,
}

impl Default for TreeOptions {
    fn default() -> Self {
        TreeOptions::new()
    }
}

impl TreeOptions {
    /// The defaults, which the setters name in parentheses.
    #[must_use]
    pub const fn new() -> Self {
        TreeOptions {
            top: DEFAULT_TOP,
            min_member_size: 0,
            names: Vec::new(),
        }
    }

    /// Keeps this many of a field's largest members ([`DEFAULT_TOP`]). Each takes some hundred
    /// bytes of memory, for every path that repeats.
    #[must_use]
    pub const fn top(mut self, members: usize) -> Self {
        self.top = members;
        self
    }

    /// Keeps only members of at least this many bytes (0: of any size).
    #[must_use]
    pub const fn min_member_size(mut self, bytes: u64) -> Self {
        self.min_member_size = bytes;
        self
    }

    /// Adds rules for what the messages of some types are called (none: by fields that sound like
    /// names). The first rule of a type counts.
    #[must_use]
    pub fn names(mut self, rules: &[NameRule]) -> Self {
        self.names.extend_from_slice(rules);
        self
    }
}
