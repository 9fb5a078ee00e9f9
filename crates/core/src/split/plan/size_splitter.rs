//! A splitter for messages of any type.

use super::splitter::{ComposableSplitter, SplitContext};
use crate::Result;

/// A splitter for messages of any type, guided only by descriptors and sizes.
///
/// ```
/// use proto_splitter_core::split::{SizeSplitter, SplitExt, SplitOptions};
///
/// let value = prost_reflect::prost_types::FileDescriptorProto {
///     name: Some("a".repeat(3000)),
///     package: Some("b".repeat(500)),
///     ..Default::default()
/// };
/// let options = SplitOptions::new().max_chunk_size(1000);
/// let plan = SizeSplitter.plan(&value, &options)?;
/// assert_eq!(plan.to_string(), "0 MESSAGE 505 B\n1 BYTES 3000 B name\n");
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SizeSplitter;

impl ComposableSplitter for SizeSplitter {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
        cx.fit()
    }
}
