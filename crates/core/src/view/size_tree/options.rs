//! Options for measuring a message.

use crate::view::NameRule;

/// Default number of members to list per field.
pub const DEFAULT_TOP: usize = 10;

/// Options for measuring a message: which members to list, and how many messages to traverse.
#[derive(Clone, Debug)]
pub struct TreeOptions {
    pub(super) top: usize,
    pub(super) min_member_size: u64,
    pub(super) names: Vec<NameRule>,
    pub(super) most_entered: u64,
}

impl Default for TreeOptions {
    fn default() -> Self {
        TreeOptions::new()
    }
}

impl TreeOptions {
    /// Creates the default options.
    #[must_use]
    pub const fn new() -> Self {
        TreeOptions {
            top: DEFAULT_TOP,
            min_member_size: 0,
            names: Vec::new(),
            most_entered: u64::MAX,
        }
    }

    crate::options! {
        /// Sets the number of largest members to list for each field. Default: [`DEFAULT_TOP`].
        /// Each listed member of each repeated field takes about 100 bytes of memory for each level
        /// of its path. If the paths of all listed members would have more than 4 million levels,
        /// fewer members are listed, but not fewer than [`DEFAULT_TOP`] for a field.
        const top, get_top: usize;

        /// Sets the minimum size of members to list, in bytes. Default: 0.
        const min_member_size, get_min_member_size: u64;

        /// Sets the maximum number of messages to traverse. The fields of further messages aren't
        /// listed. Default: no maximum.
        const most_entered, get_most_entered: u64;
    }

    /// Adds rules for naming messages, each for one message type. Default: none. Messages of a type
    /// without a rule are named by a field that looks like a name. If a type has several rules, the
    /// first one applies.
    #[must_use]
    pub fn names(mut self, rules: &[NameRule]) -> Self {
        self.names.extend_from_slice(rules);
        self
    }

    /// Returns the rules for naming messages, each for one message type.
    pub fn get_names(&self) -> &[NameRule] {
        &self.names
    }
}
