//! Writing the elements of a tensor as raw data. They are copied if they are stored as raw data,
//! and converted if they are stored in a typed field.

use std::io::Write;
use std::ops::Range;

use proto_splitter_core::Result;
use proto_splitter_core::spans::copy_range;
use proto_splitter_core::tensor::{ElementForm, write_elements};
use proto_splitter_core::wire::{SourceInput, WireCursor};
use record_file::ReadAt;

/// Copies the bytes at `range`, and returns the number of bytes copied.
pub(crate) fn copy(source: &dyn ReadAt, range: Range<u64>, sink: &mut dyn Write) -> Result<u64> {
    let bytes = range.end.saturating_sub(range.start);
    copy_range(source, range, sink).map(|()| bytes)
}

/// Converts the elements in a typed field of the tensor at `tensor` to raw data. Returns the number
/// of bytes written.
pub(crate) fn convert(
    source: &dyn ReadAt,
    tensor: Range<u64>,
    form: ElementForm,
    sink: &mut dyn Write,
) -> Result<u64> {
    let mut cursor = WireCursor::new(SourceInput::new(source, tensor.end));
    write_elements(&mut cursor, &[tensor], form, sink)
}
