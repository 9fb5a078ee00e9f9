//! Options for measuring an input, and limits on the listed parts.

use proto_splitter_core::progress::Progress;
use proto_splitter_core::view::size_tree;

/// Options for [`tree`](super::tree()), [`tree_diff`](super::tree_diff) and
/// [`MeasuredTree`](super::MeasuredTree).
#[derive(Clone, Debug, Default)]
pub struct TreeOptions {
    start: String,
    limits: TreeLimits,
    pub(super) enter_members: bool,
    pub(super) progress: Option<Progress>,
}

impl TreeOptions {
    /// Returns the defaults: the whole input is measured, and the limits on the listed parts are
    /// those of [`TreeLimits::new`].
    #[must_use]
    pub fn new() -> Self {
        TreeOptions::default()
    }

    /// Sets the path of the part to measure: one value, or all values that a tree lists as one
    /// line, such as `graph_def.node[*]`. For an archive, the path consists of the first components
    /// of the entries' names. Default: empty, which selects the whole input.
    #[must_use]
    pub fn start(mut self, path: impl Into<String>) -> Self {
        self.start = path.into();
        self
    }

    proto_splitter_core::options! {
        /// Sets the limits on the listed parts. Default: [`TreeLimits::new`].
        ref limits, get_limits: TreeLimits;

        /// Sets whether to also measure the largest list elements and map entries separately, for
        /// [`TreeReport::inside`](super::TreeReport::inside). Default: false.
        const enter_members, get_enter_members: bool;

        /// Sets progress reporting and cancellation. Default: the progress set when the input was
        /// opened.
        optional progress, get_progress: Progress;
    }

    /// Returns the path of the part to measure; empty for the whole input.
    pub fn get_start(&self) -> &str {
        &self.start
    }

    /// Returns the options for measuring a part of `whole` bytes. The measured tree contains all
    /// list elements and map entries that the limits allow in a report.
    pub(super) fn measuring(&self, whole: u64) -> size_tree::TreeOptions {
        size_tree::TreeOptions::new()
            .top(self.limits.top.max(size_tree::DEFAULT_TOP))
            .min_member_size(self.limits.min_size.of(whole))
    }
}

/// The limits on the parts that a tree lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeLimits {
    depth: usize,
    top: usize,
    min_size: LeastSize,
    order: TreeOrder,
}

impl Default for TreeLimits {
    fn default() -> Self {
        TreeLimits::new()
    }
}

impl TreeLimits {
    /// Returns the defaults: at any depth, the ten largest elements or map entries of each field
    /// and the ten largest fields of each message, without those under 1% of the total size.
    #[must_use]
    pub const fn new() -> Self {
        TreeLimits {
            depth: usize::MAX,
            top: size_tree::DEFAULT_TOP,
            min_size: LeastSize::Millionths(10_000),
            order: TreeOrder::Size,
        }
    }

    proto_splitter_core::options! {
        /// Sets the maximum depth of listed fields below the root. Default: unlimited.
        const depth, get_depth: usize;

        /// Sets the limit that applies both to the number of listed elements or map entries of each
        /// field, and to the number of listed fields of each message. Default: 10.
        const top, get_top: usize;

        /// Sets the minimum size of listed parts. Default: 1% of the total size.
        const min_size, get_min_size: LeastSize;

        /// Sets the order of listed fields, list elements and map entries. Default: the largest
        /// first.
        const order, get_order: TreeOrder;
    }
}

/// The order in which fields, list elements and map entries are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TreeOrder {
    /// The largest part first.
    #[default]
    Size,
    /// The field with the most values first; list elements and map entries by size.
    Count,
    /// Fields by name, list elements by index, and map entries by key.
    Name,
}

/// The minimum size of a listed part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeastSize {
    /// Size in bytes.
    Bytes(u64),
    /// Share of the total size, in millionths.
    Millionths(u64),
}

impl LeastSize {
    /// Returns the minimum size in bytes, given the total size `whole` in bytes.
    ///
    /// ```
    /// use proto_splitter_ops::LeastSize;
    ///
    /// assert_eq!(LeastSize::Millionths(10_000).of(5_000), 50);
    /// assert_eq!(LeastSize::Bytes(7).of(5_000), 7);
    /// ```
    pub fn of(self, whole: u64) -> u64 {
        match self {
            LeastSize::Bytes(bytes) => bytes,
            LeastSize::Millionths(share) => {
                let bytes = u128::from(whole) * u128::from(share) / 1_000_000;
                u64::try_from(bytes).unwrap_or(u64::MAX)
            }
        }
    }
}
