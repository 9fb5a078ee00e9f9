//! The paths and sizes of the largest chunks of a file, computed from the trailer alone.

use std::collections::HashMap;

use prost_reflect::MessageDescriptor;

use super::chunk_tree::NodeId;
use super::trailer::Trailer;
use crate::Error;
use crate::error::{LargePart, NAMED};
use crate::path::{Select, Step};
use crate::wire::FieldNumber;

/// Adds the largest chunks to an error caused by a message's size, unless the error already names
/// the largest parts. The sizes are those in the trailer; no chunk is read.
pub(crate) fn with_largest_chunks(
    error: Error,
    trailer: &Trailer,
    root: Option<&MessageDescriptor>,
) -> Error {
    if error.needs_largest() {
        error.with_largest(largest_chunks(trailer, root))
    } else {
        error
    }
}

/// Returns the paths with the largest chunks. The slices of a field count as one chunk, and a chunk
/// that several paths name counts once for each path.
fn largest_chunks(trailer: &Trailer, root: Option<&MessageDescriptor>) -> Vec<LargePart> {
    let (tree, infos) = (trailer.chunk_tree(), &trailer.metadata().chunks);
    let mut sizes: HashMap<(NodeId, Option<FieldNumber>), u64> = HashMap::new();
    for id in tree.ids() {
        for chunk in tree.chunks(id) {
            let size = infos.get(chunk.chunk).map_or(0, |info| info.size);
            let sum = sizes.entry((id, chunk.slice_of)).or_default();
            *sum = sum.saturating_add(size);
        }
    }
    // The root chunk holds the remainder of the message, and has no path.
    let is_part =
        |(id, slice_of): &(NodeId, Option<FieldNumber>)| *id != NodeId::ROOT || slice_of.is_some();
    let mut sizes: Vec<_> = sizes.into_iter().filter(|(at, _)| is_part(at)).collect();
    sizes.sort_by_key(|((id, _), size)| (u64::MAX - size, id.index()));
    sizes.truncate(NAMED);
    let parts = sizes.into_iter().map(|((id, slice_of), size)| {
        let path = match slice_of {
            None => tree.show(id, root),
            Some(field) => {
                let select = Select::Field;
                let list = tree.path(id).join(Step { field, select });
                format!("{}[*]", list.display(root))
            }
        };
        LargePart::new(path, size)
    });
    parts.collect()
}
