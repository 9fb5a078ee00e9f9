//! The contents of constants, that is, their types, shapes and bytes. Each content is named by a
//! hash, so that equal contents are stored once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use proto_splitter_core::progress::Meter;
use proto_splitter_core::spans::read_pieces;
use proto_splitter_core::wire::{Input, SourceInput, decode_varint, varint_len};
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_graph_def::proto::DataType;
use proto_splitter_tensor_bundle::work;
use record_file::ReadAt;

use crate::constant::{Constant, Encoding, Place, SpanReader, Varints};

/// The content of a constant, or of several equal constants.
#[derive(Clone)]
pub(crate) struct Content {
    /// Name of the content, which is its key in the bundle.
    pub(crate) key: String,
    pub(crate) dtype: DataType,
    pub(crate) shape: Vec<u64>,
    pub(crate) size: u64,
    /// Bytes of the content, little-endian.
    pub(crate) bytes: SpanReader,
}

/// The contents of all constants.
pub(crate) struct Contents {
    /// Distinct contents, in the order in which they first occur in the model.
    pub(crate) all: Vec<Content>,
    /// Index in `all` of each constant's content.
    pub(crate) of: BTreeMap<Place, usize>,
    /// Constants whose varints differ from those that TensorFlow would write. They aren't in
    /// `of`, since they can't be moved.
    pub(crate) unusual: BTreeSet<Place>,
}

impl Contents {
    /// Reads all constants once. Constants that are stored as varints are decoded into a temporary
    /// file.
    pub(crate) fn read(
        data: &Arc<dyn ReadAt>,
        constants: &[Constant],
        threads: std::num::NonZeroUsize,
        meter: &Meter,
    ) -> Result<Contents> {
        let mut spool = Spool::default();
        let mut unusual = BTreeSet::new();
        let mut readers = Vec::with_capacity(constants.len());
        for constant in constants {
            let span = SpanReader::new(Arc::clone(data), constant.span.clone());
            readers.push(match constant.encoding {
                Encoding::Raw => Some(span),
                Encoding::Varints(varints) => {
                    let range = spool.convert(&span, constant, varints)?;
                    if range.is_none() {
                        unusual.insert(constant.place);
                    }
                    range
                }
            });
        }
        let keys = work::map(threads, constants.len(), |at, buffer| {
            let (constant, reader) = (&constants[at], &readers[at]);
            match reader {
                Some(reader) => key(constant, reader, buffer, meter)
                    .map(Some)
                    .map_err(|error| error.at_path(&constant.name)),
                None => Ok(None),
            }
        })?;
        let mut all: Vec<Content> = Vec::new();
        let mut by_key: BTreeMap<String, usize> = BTreeMap::new();
        let mut of = BTreeMap::new();
        for ((constant, reader), key) in constants.iter().zip(readers).zip(keys) {
            let Some((reader, key)) = reader.zip(key) else {
                continue;
            };
            let at = *by_key.entry(key.clone()).or_insert_with(|| {
                all.push(Content {
                    key,
                    dtype: constant.dtype,
                    shape: constant.shape.clone(),
                    size: constant.size,
                    bytes: reader,
                });
                all.len() - 1
            });
            of.insert(constant.place, at);
        }
        Ok(Contents { all, of, unusual })
    }
}

/// Returns the name of a constant's content: 128 bits, in hexadecimal, of the BLAKE3 hash of its
/// type, shape and bytes. Equal names mean equal contents, even in different models.
fn key(
    constant: &Constant,
    reader: &SpanReader,
    buffer: &mut Vec<u8>,
    meter: &Meter,
) -> Result<String> {
    let mut hash = blake3::Hasher::new();
    hash.update(&i32::from(constant.dtype).to_le_bytes());
    hash.update(&(constant.shape.len() as u64).to_le_bytes());
    for dim in &constant.shape {
        hash.update(&dim.to_le_bytes());
    }
    read_pieces(reader, 0..constant.size, buffer, |_, bytes| {
        hash.update(bytes);
        meter.advance(bytes.len() as u64)
    })
    .map_err(|error| match error.io_kind() {
        Some(io::ErrorKind::UnexpectedEof) => {
            let message = "the model ended within a constant";
            Error::new(ErrorKind::SourceChanged, message)
        }
        _ => error,
    })?;
    let hex = hash.finalize().to_hex();
    Ok(hex.as_str()[..32].to_owned())
}

/// A temporary file for the bytes of decoded constants.
#[derive(Default)]
struct Spool {
    file: Option<Arc<File>>,
    len: u64,
}

impl Spool {
    /// Decodes a constant's varints, and appends the decoded bytes to the temporary file. Returns
    /// `None` if encoding these bytes again wouldn't restore the varints.
    fn convert(
        &mut self,
        span: &SpanReader,
        constant: &Constant,
        varints: Varints,
    ) -> Result<Option<SpanReader>> {
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => {
                let file = Arc::new(tempfile::tempfile()?);
                Arc::clone(self.file.insert(file))
            }
        };
        let mut out = BufWriter::new(&*file);
        let start = self.len;
        let size = span.size()?;
        let mut input = SourceInput::new(span as &dyn ReadAt, size);
        let mut position = 0;
        let mut written = 0;
        while position < size {
            let window = input.fetch(position, 10)?;
            let Some((number, len)) = decode_varint(window) else {
                return self.give_up(out);
            };
            let element = &number.to_le_bytes()[..varints.width];
            if varints.number(element) != number || varint_len(number) != len {
                return self.give_up(out);
            }
            out.write_all(element)?;
            position += len as u64;
            written += varints.width as u64;
        }
        if written != constant.size {
            return self.give_up(out);
        }
        out.flush()?;
        drop(out);
        self.len += written;
        Ok(Some(SpanReader::new(file, start..start + written)))
    }

    /// Discards the bytes of an unfinished tensor, so that the next tensor overwrites them. Returns
    /// `None`.
    fn give_up(&self, out: BufWriter<&File>) -> Result<Option<SpanReader>> {
        use std::io::Seek;
        let (mut file, _) = out.into_parts();
        file.seek(io::SeekFrom::Start(self.len))?;
        Ok(None)
    }
}
