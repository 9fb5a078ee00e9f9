//! Reading the original of an externalized model from the pieces in its record.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter_core::checksum::{CrcOfPieces, combine, crc32c};
use proto_splitter_core::spans::{SourceId, Spans, SpansBuilder, read_pieces};
use proto_splitter_core::wire::put_varint;
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_tensor_bundle::{Bundle, TensorLocation};
use record_file::ReadAt;

use crate::constant::Varints;
use crate::record::{MAPPED_FOLDER, Piece, Record, bundle_prefix, file_size};

/// Name of the original in errors, instead of a file's name.
const ORIGINAL: &str = "the original";

impl Record {
    /// Returns the original of the externalized model in `folder`, as spans.
    ///
    /// If the record has checksums, verifies that the checksums of the pieces combine to the
    /// checksum of the original. The checksum of a constant is verified only when the constant is
    /// read.
    pub(crate) fn original(&self, folder: &Path) -> Result<Spans> {
        let stored = Stored::open(folder, self.mapped)?;
        let mut spans = SpansBuilder::new();
        let mut known: BTreeMap<(&str, u32, bool), Content> = BTreeMap::new();
        let mut spool = None;
        let mut whole = Some(0);
        for piece in &self.pieces {
            spans.literal(&piece.literal)?;
            let len = piece.literal.len() as u64;
            whole = whole.map(|whole| combine(whole, crc32c(&piece.literal), len));
            if piece.content.is_empty() {
                continue;
            }
            let key = (piece.content.as_str(), piece.width, piece.signed);
            let content = match (known.get(&key), piece.varints()?) {
                (Some(known), _) => known.clone(),
                (None, Some(varints)) => {
                    let spool = match &mut spool {
                        Some(spool) => spool,
                        none => none.insert(Spool::new()?),
                    };
                    let tensor = stored.reader(piece)?;
                    let (range, crc32c) = spool.encode(&tensor, varints)?;
                    let file: Arc<dyn ReadAt> = Arc::clone(&spool.file) as Arc<dyn ReadAt>;
                    let file = spans.reader("a temporary file", file)?;
                    let crc32c = Some(crc32c);
                    Content {
                        file,
                        range,
                        crc32c,
                    }
                }
                (None, None) => stored.add(piece, &mut spans)?,
            };
            known.entry(key).or_insert_with(|| content.clone());
            if let (Some(kept), Some(found)) = (piece.crc32c, content.crc32c)
                && kept != found
            {
                let what = format!("the constant {:?}", piece.content);
                return Err(differs(&what, found, kept));
            }
            let len = content.range.end - content.range.start;
            whole = whole
                .zip(content.crc32c)
                .map(|(whole, crc32c)| combine(whole, crc32c, len));
            spans.span(content.file, content.range)?;
        }
        let spans = spans.finish()?;
        if spans.total_size() != self.size {
            let message = format!(
                "the original had {} bytes, but its pieces have {}",
                self.size,
                spans.total_size()
            );
            return Err(Error::new(ErrorKind::InvalidMessage, message));
        }
        match (self.crc32c, whole) {
            (Some(kept), Some(found)) if kept != found => Err(differs(ORIGINAL, found, kept)),
            _ => Ok(spans),
        }
    }
}

fn differs(what: &str, found: u32, kept: u32) -> Error {
    let message = format!("the crc32c of {what} is 0x{found:08x}, but was 0x{kept:08x}");
    Error::new(ErrorKind::ChecksumMismatch, message)
}

impl Piece {
    /// Returns the parameters of the varints that encode the content; `None` if the content is
    /// stored as bytes.
    fn varints(&self) -> Result<Option<Varints>> {
        match usize::try_from(self.width) {
            Ok(0) => Ok(None),
            Ok(width @ 1..=8) => Ok(Some(Varints {
                width,
                signed: self.signed,
            })),
            _ => {
                let message = format!("unsupported varints of {} bytes", self.width);
                Err(Error::new(ErrorKind::InvalidMessage, message))
            }
        }
    }
}

/// The location of a constant of the original.
#[derive(Clone)]
struct Content {
    /// Source that contains the constant, as it is encoded in the original.
    file: SourceId,
    range: Range<u64>,
    /// Checksum of the encoded constant; `None` if the record has no checksums and the constant is
    /// a mapped file.
    crc32c: Option<u32>,
}

/// The storage of the constants next to an externalized model.
enum Stored {
    Bundle(Bundle),
    /// Separate files in this folder.
    Files(PathBuf),
}

impl Stored {
    fn open(folder: &Path, is_mapped: bool) -> Result<Stored> {
        if is_mapped {
            return Ok(Stored::Files(folder.join(MAPPED_FOLDER)));
        }
        Bundle::open(bundle_prefix(folder)).map(Stored::Bundle)
    }

    /// Adds the content of a piece to the sources of `spans`. The content must be stored as bytes.
    fn add(&self, piece: &Piece, spans: &mut SpansBuilder) -> Result<Content> {
        let (file, size, crc32c) = match self {
            Stored::Bundle(bundle) => {
                let (reader, crc32c) = tensor(bundle, &piece.content)?;
                let size = reader.size()?;
                (spans.reader(ORIGINAL, reader)?, size, Some(crc32c))
            }
            Stored::Files(folder) => {
                let path = content_path(folder, &piece.content)?;
                let file = MappedFile::new(path.clone(), piece.crc32c)?;
                let size = file.size;
                (spans.reader(path, Arc::new(file))?, size, piece.crc32c)
            }
        };
        let range = 0..size;
        Ok(Content {
            file,
            range,
            crc32c,
        })
    }

    /// Returns a reader for the bytes of the tensor that a piece refers to.
    fn reader(&self, piece: &Piece) -> Result<Arc<dyn ReadAt>> {
        match self {
            Stored::Bundle(bundle) => Ok(tensor(bundle, &piece.content)?.0),
            Stored::Files(folder) => {
                let path = content_path(folder, &piece.content)?;
                // The piece's checksum is that of the varints, so it doesn't apply to the file.
                Ok(Arc::new(MappedFile::new(path, None)?))
            }
        }
    }
}

/// Returns a reader for a tensor of a bundle, and the tensor's checksum, which the reader verifies.
fn tensor(bundle: &Bundle, name: &str) -> Result<(Arc<dyn ReadAt>, u32)> {
    let Some(tensor) = bundle.find(name) else {
        return Err(Error::invalid(format!("the bundle has no tensor {name:?}")));
    };
    let TensorLocation::Whole(span) = tensor.location() else {
        return Err(Error::invalid(format!("the tensor {name:?} is in slices")));
    };
    Ok((Arc::new(bundle.reader(tensor)?), span.crc32c))
}

/// Returns true if a content can have this name. No such name is a path to another folder.
pub(crate) fn is_content_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the path in `folder` of the file with the content called `name`.
fn content_path(folder: &Path, name: &str) -> Result<PathBuf> {
    if !is_content_name(name) {
        let message = format!("{name:?} can't be the name of a content");
        return Err(Error::new(ErrorKind::InvalidMessage, message));
    }
    Ok(folder.join(name))
}

/// A file from which a constant is mapped. The file's checksum, if it is known, is verified once
/// the whole file has been read. The file is opened again for each read, since there may be more
/// files than a process can have open.
struct MappedFile {
    path: PathBuf,
    size: u64,
    crc32c: Option<u32>,
    seen: CrcOfPieces,
}

impl MappedFile {
    fn new(path: PathBuf, crc32c: Option<u32>) -> Result<MappedFile> {
        let size = file_size(&path).map_err(|error| error.in_file(&path))?;
        Ok(MappedFile {
            path,
            size,
            crc32c,
            seen: CrcOfPieces::new(size),
        })
    }
}

impl ReadAt for MappedFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = buf.len().min(left);
        let read = File::open(&self.path)?.read_at(offset, &mut buf[..len])?;
        if let Some(kept) = self.crc32c
            && let Some(found) = self.seen.add(offset, &buf[..read])
            && found != kept
        {
            let what = format!("{} bytes", self.size);
            return Err(differs(&what, found, kept).at_offset(0).into());
        }
        Ok(read)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }
}

/// A temporary file for constants that are encoded as varints.
struct Spool {
    file: Arc<File>,
    len: u64,
}

impl Spool {
    fn new() -> Result<Spool> {
        Ok(Spool {
            file: Arc::new(tempfile::tempfile()?),
            len: 0,
        })
    }

    /// Encodes a tensor as varints, and appends the varints to the temporary file. Returns the byte
    /// range of the varints in this file, and their crc32c.
    fn encode(&mut self, tensor: &dyn ReadAt, varints: Varints) -> Result<(Range<u64>, u32)> {
        let (start, mut crc) = (self.len, 0);
        let size = tensor.size()?;
        let mut out = BufWriter::new(&*self.file);
        let mut bytes = Vec::new();
        // The size of each piece is a multiple of all element sizes.
        read_pieces(tensor, 0..size, &mut Vec::new(), |_, piece| {
            bytes.clear();
            for element in piece.chunks(varints.width) {
                put_varint(&mut bytes, varints.number(element));
            }
            out.write_all(&bytes)?;
            crc = combine(crc, crc32c(&bytes), bytes.len() as u64);
            self.len += bytes.len() as u64;
            Ok(())
        })?;
        out.flush()?;
        Ok((start..self.len, crc))
    }
}
