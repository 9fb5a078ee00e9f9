//! Writing a tensor as a stream.

use std::io::{self, Read, Write};

use proto_splitter_core::{Error, ErrorKind, Result};

use super::{Layout, Piece, StreamParts, TensorSpec, pieces};

/// Writes a tensor of any size as a stream, and returns the stream's size in bytes. `data` is a
/// reader of the elements. For elements in memory, pass `&mut &data[..]`.
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`] if the tensor's description contradicts itself, the layout doesn't
/// support the tensor, or `data` has fewer bytes than the dims require; [`ErrorKind::Io`]. After an
/// error, discard the bytes already written to `sink`.
pub fn write_stream(
    sink: &mut impl Write,
    spec: &TensorSpec,
    layout: Layout,
    data: &mut impl Read,
) -> Result<u64> {
    spec.check()?;
    let size = spec.data_size()?;
    let mut front = Vec::new();
    let mut put = |bytes: &mut dyn Iterator<Item = u8>| {
        let start = front.len() as u64;
        front.extend(bytes);
        start..front.len() as u64
    };
    let mut parts = StreamParts {
        desc: put(&mut spec.desc()?.into_iter()),
        height: spec.height,
        rows: put(&mut spec.rows.iter().flat_map(|row| row.to_le_bytes())),
        ..StreamParts::default()
    };
    for level in &spec.lod {
        let level = put(&mut level.iter().flat_map(|offset| offset.to_le_bytes()));
        parts.lod.push(level);
    }
    // The data isn't in memory. It is represented by a range after those of the parts that are.
    let start = front.len() as u64;
    parts.data = start..start.saturating_add(size);
    let mut written = 0;
    for piece in pieces(&parts, spec.kind, layout)? {
        written += piece.len();
        match piece {
            Piece::Literal(bytes) => sink.write_all(&bytes)?,
            Piece::Span(range) if range == parts.data => {
                let copied = io::copy(&mut data.take(size), sink)?;
                if copied < size {
                    let message = format!("{copied} bytes of data for a tensor of {size}");
                    return Err(Error::new(ErrorKind::InvalidConfig, message));
                }
            }
            Piece::Span(range) => {
                let at = |offset| usize::try_from(offset).unwrap_or(usize::MAX);
                let bytes = front.get(at(range.start)..at(range.end));
                sink.write_all(bytes.unwrap_or_default())?;
            }
        }
    }
    Ok(written)
}
