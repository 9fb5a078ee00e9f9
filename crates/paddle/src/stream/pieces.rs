//! The pieces to write for a stream in each layout.

use std::ops::Range;

use bytes::Bytes;
use proto_splitter_core::{Error, ErrorKind, Result};

use super::{Layout, StreamKind, StreamParts, len};

/// A piece of a stream to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Bytes that are given literally.
    Literal(Bytes),
    /// Bytes in this range of the source.
    Span(Range<u64>),
}

impl Piece {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Piece::Literal(bytes) => bytes.len() as u64,
            Piece::Span(range) => len(range),
        }
    }
}

/// Returns the pieces to write, in order, for a stream that consists of these parts.
pub(crate) fn pieces(parts: &StreamParts, kind: StreamKind, layout: Layout) -> Result<Vec<Piece>> {
    match layout {
        Layout::Paddle => paddle(parts, kind),
        Layout::ModelFormat => model_format(parts, kind),
        Layout::Sized => {
            let mut stream = paddle(parts, kind)?;
            let size: u64 = stream.iter().map(Piece::len).sum();
            stream.insert(0, literal(&[&size.to_le_bytes()]));
            Ok(stream)
        }
    }
}

fn literal(words: &[&[u8]]) -> Piece {
    Piece::Literal(words.concat().into())
}

fn paddle(parts: &StreamParts, kind: StreamKind) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    match kind {
        StreamKind::Vocabulary => return Ok(vec![Piece::Span(parts.data.clone())]),
        StreamKind::SelectedRows => {
            let count = len(&parts.rows) / 8;
            pieces.push(literal(&[&[0; 4], &count.to_le_bytes()]));
            pieces.push(Piece::Span(parts.rows.clone()));
            pieces.push(literal(&[&parts.height.to_le_bytes()]));
        }
        StreamKind::Dense => {
            pieces.push(literal(&[&[0; 4]]));
            put_lod(&mut pieces, &parts.lod);
        }
    }
    pieces.push(literal(&[&[0; 4], &desc_size(parts)?]));
    pieces.push(Piece::Span(parts.desc.clone()));
    pieces.push(Piece::Span(parts.data.clone()));
    Ok(pieces)
}

fn model_format(parts: &StreamParts, kind: StreamKind) -> Result<Vec<Piece>> {
    if kind != StreamKind::Dense {
        return Err(Layout::ModelFormat.no_place(kind));
    }
    let mut pieces = vec![
        literal(&[&[0; 4], &desc_size(parts)?]),
        Piece::Span(parts.desc.clone()),
        Piece::Span(parts.data.clone()),
    ];
    put_lod(&mut pieces, &parts.lod);
    Ok(pieces)
}

fn put_lod(pieces: &mut Vec<Piece>, lod: &[Range<u64>]) {
    pieces.push(literal(&[&(lod.len() as u64).to_le_bytes()]));
    for level in lod {
        pieces.push(literal(&[&len(level).to_le_bytes()]));
        pieces.push(Piece::Span(level.clone()));
    }
}

fn desc_size(parts: &StreamParts) -> Result<[u8; 4]> {
    let size = i32::try_from(len(&parts.desc)).map_err(|_| {
        let message = "the tensor's description has 2 GiB or more";
        Error::new(ErrorKind::LimitExceeded, message)
    })?;
    Ok(size.to_le_bytes())
}
