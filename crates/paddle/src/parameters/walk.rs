//! Finding the streams in a file, and detecting their layout.

use std::ops::Range;

use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use super::{described, kind};
use crate::part::FilePart;
use crate::program::ParameterSpec;
use crate::stream::{Layout, MAX_LOD_LEVELS, Stream, StreamKind};

/// Maximum number of streams in a file: 2^20. Each takes about 200 bytes of memory, even though an
/// empty tensor takes only 22 bytes in the file.
const MAX_STREAMS: usize = 1 << 20;

/// Size in bytes of a vocabulary without words, which consists of just the word count.
const LEAST_VOCABULARY: u64 = 8;

/// Reads the headers of all streams in a file, with the layout in which the whole file is valid. If
/// no layout is valid, returns the error for the layout that the file's first bytes suggest.
pub(super) fn detect(
    part: &FilePart,
    specs: Option<&[ParameterSpec]>,
) -> Result<(Layout, Vec<Stream>)> {
    let likely = likely(part)?;
    let first = match walk(part, specs, likely) {
        Ok(streams) => return Ok((likely, streams)),
        Err(error) => error,
    };
    for layout in Layout::ALL.into_iter().filter(|layout| *layout != likely) {
        if let Ok(streams) = walk(part, specs, layout) {
            return Ok((layout, streams));
        }
    }
    Err(first)
}

/// Returns the layout that the first bytes of a file suggest.
fn likely(part: &FilePart) -> Result<Layout> {
    let mut front = [0; 12];
    if part.len() < front.len() as u64 {
        return Ok(Layout::Paddle);
    }
    part.read_exact_at(0, &mut front)?;
    let [a, b, c, d, e, f, g, h, i, j, k, l] = front;
    let version = u32::from_le_bytes([a, b, c, d]);
    let levels = u64::from_le_bytes([e, f, g, h, i, j, k, l]);
    let size = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    let version_behind_size = u32::from_le_bytes([i, j, k, l]);
    Ok(match version {
        0 if levels <= MAX_LOD_LEVELS => Layout::Paddle,
        // `i` is the tag of the data type, with which a `TensorDesc` begins.
        0 if i == 0x08 => Layout::ModelFormat,
        0 => Layout::Paddle,
        _ if version_behind_size == 0 && size <= part.len() - 8 => Layout::Sized,
        _ => Layout::Paddle,
    })
}

/// Reads the headers of all streams in a file, with the given layout.
pub(super) fn walk(
    part: &FilePart,
    specs: Option<&[ParameterSpec]>,
    layout: Layout,
) -> Result<Vec<Stream>> {
    let end = part.len();
    let mut streams = Vec::new();
    let mut at = 0;
    loop {
        let index = streams.len();
        let wanted = specs.map(<[_]>::len);
        match wanted {
            Some(wanted) if index == wanted => break,
            Some(wanted) if at == end && kind(specs, index) != StreamKind::Vocabulary => {
                let message = format!("the file ends after {index} of {wanted} parameters");
                let error = Error::new(ErrorKind::InvalidMessage, message).at_offset(at);
                return Err(error.at_path(described(specs, index)));
            }
            None if at == end => break,
            _ if index == MAX_STREAMS => {
                let message = format!("more than {MAX_STREAMS} tensors");
                return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(at));
            }
            _ => {}
        }
        let stream = match specs {
            Some(_) => Stream::read_within(part, at..end, kind(specs, index), layout),
            None => read_unknown(part, at..end, layout),
        };
        let stream = stream
            .and_then(|stream| {
                if let Some(spec) = specs.and_then(|specs| specs.get(index)) {
                    spec.check(&stream)?;
                }
                Ok(stream)
            })
            .map_err(|error| error.at_path(described(specs, index)))?;
        at = stream.range().end;
        streams.push(stream);
    }
    if at < end {
        let message = format!(
            "there are {} bytes after the last of {} parameters",
            end - at,
            streams.len()
        );
        return Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(at));
    }
    Ok(streams)
}

/// Reads the header of a stream whose kind is unknown. Tries each kind, starting with a dense
/// tensor. If no kind is valid, returns the error for a dense tensor.
fn read_unknown(part: &FilePart, within: Range<u64>, layout: Layout) -> Result<Stream> {
    let read = |kind| Stream::read_within(part, within.clone(), kind, layout);
    let dense = match read(StreamKind::Dense) {
        Ok(stream) => return Ok(stream),
        Err(error) => error,
    };
    let others = [StreamKind::SelectedRows, StreamKind::Vocabulary];
    let found = others.into_iter().find_map(|kind| {
        let stream = read(kind).ok()?;
        // Almost any bytes could begin a vocabulary, so a vocabulary must also end exactly at the
        // end of its stream or file.
        let is_whole = layout == Layout::Sized || stream.range() == within;
        let has_words = stream.data().end - stream.data().start > LEAST_VOCABULARY;
        let is_plausible = kind == StreamKind::SelectedRows || is_whole && has_words;
        is_plausible.then_some(stream)
    });
    found.ok_or(dense)
}
