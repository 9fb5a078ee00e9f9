//! Reading a model from any source, field by field.

use proto_splitter_core::wire::{SourceInput, WireCursor};
use record_file::ReadAt;

/// A cursor over the fields of a model.
pub(crate) type Cursor<'a> = WireCursor<SourceInput<'a, dyn ReadAt + 'a>>;
