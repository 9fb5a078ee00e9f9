//! Going through a model, wherever it is read from.

use proto_splitter_core::wire::{SourceInput, WireCursor};
use record_file::ReadAt;

/// Goes through a model field by field.
pub(crate) type Cursor<'a> = WireCursor<SourceInput<'a, dyn ReadAt + 'a>>;
