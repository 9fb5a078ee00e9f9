//! Conversions between this crate's format and classic, SDNB, SDZ and safetensors files.

mod classic;
mod export;
mod safetensors;
mod sdnb;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

pub(crate) use classic::config_to_json;
pub use export::{left_out_of_classic, write_classic};
pub(crate) use safetensors::header_len as safetensors_header;
pub use safetensors::write_safetensors;
pub(crate) use sdnb::MAGIC as SDNB_MAGIC;

use proto_splitter_core::atomic::AtomicFile;
use proto_splitter_core::progress::Meter;
use record_file::ReadAt;

use crate::limits::SameDiffLimits;
use crate::{
    ArrayElements, Error, ErrorKind, ModelOptions, Result, SameDiffWriteOptions, TagContent,
};

/// First bytes of a zip archive that has at least one entry.
pub(crate) const ZIP_MAGIC: &[u8] = b"PK\x03\x04";

/// Reads a model in another format, and returns it as the content of a new tag. The file may be a
/// classic FlatBuffers file, SDNB (a single file or shards), SDZ, or safetensors. All tensors of a
/// safetensors file become variables.
///
/// The data of the arrays isn't copied until the tag is written.
///
/// # Errors
///
/// [`ErrorKind::InvalidGraph`], [`ErrorKind::InvalidArray`] or another error in the file;
/// [`ErrorKind::NotConvertible`] if the file already is a model in this crate's format, or has
/// content that this format can't represent; [`ErrorKind::Io`] if the file can't be read.
///
/// ```
/// use proto_splitter_samediff::{Draft, ErrorKind, SameDiffWriteOptions, import};
///
/// // A safetensors file without tensors.
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("none.safetensors");
/// std::fs::write(&path, b"\x02\0\0\0\0\0\0\0{}")?;
/// let mut draft = Draft::new();
/// draft.add_tag("first".parse()?, import(&path)?)?;
/// draft.write(folder.path().join("model.zip"), &SameDiffWriteOptions::new())?;
///
/// let error = import(folder.path().join("model.zip")).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::NotConvertible);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn import(path: impl AsRef<Path>) -> Result<TagContent> {
    import_with(path, &ModelOptions::new())
}

/// Does the same as [`import`], with the given options.
///
/// # Errors
///
/// The errors of [`import`].
pub fn import_with(path: impl AsRef<Path>, options: &ModelOptions) -> Result<TagContent> {
    let path = path.as_ref();
    let limits = &options.limits;
    let file = File::open(path).map_err(Error::from);
    let imported = file.and_then(|file| import_any(Arc::new(file), path, limits));
    imported.map_err(|error| error.in_file(path.display()))
}

/// Reads a model from an open file, in any of the formats that [`import`] supports.
pub(crate) fn import_open(file: Arc<dyn ReadAt>, path: &Path) -> Result<TagContent> {
    let imported = import_any(file, path, &SameDiffLimits::new());
    imported.map_err(|error| error.in_file(path.display()))
}

fn import_any(file: Arc<dyn ReadAt>, path: &Path, limits: &SameDiffLimits) -> Result<TagContent> {
    let mut magic = [0; 4];
    let read = file.read_at(0, &mut magic)?;
    let mut content = match &magic[..read] {
        ZIP_MAGIC => sdnb::read_sdz(file, limits)?,
        sdnb::MAGIC => sdnb::read_files(file, path, limits)?,
        _ => match safetensors::read_header_len(&*file)? {
            Some(header_len) => safetensors::read(file, header_len)?,
            None => classic::read(file, limits)?,
        },
    };
    content.files.insert(0, path.to_owned());
    Ok(content)
}

/// A file that is being written.
struct Output<'a> {
    file: BufWriter<Box<dyn Write + 'a>>,
    meter: Meter,
    buf: Vec<u8>,
}

impl Output<'_> {
    /// Writes the data of an array.
    fn put(&mut self, data: ArrayElements) -> Result<()> {
        let Output { file, meter, buf } = self;
        data.for_each_piece(buf, |piece| {
            meter.advance(piece.len() as u64)?;
            Ok(file.write_all(piece)?)
        })
    }
}

/// Writes a file atomically, and returns its size in bytes, which `fill` returns. `total` is the
/// number of bytes to write, for the progress. Each error names the file.
fn write_file(
    path: &Path,
    options: &SameDiffWriteOptions,
    total: u64,
    fill: impl FnOnce(&mut Output<'_>) -> Result<u64>,
) -> Result<u64> {
    // The errors of the file itself begin with its path.
    let file = AtomicFile::create(path, &options.made_from, options.force)?;
    let write = || {
        let sink: Box<dyn Write + '_> = Box::new(file.writer_at(0));
        let mut output = Output {
            file: BufWriter::with_capacity(1 << 20, sink),
            meter: options.progress.meter(total),
            buf: vec![0; 1 << 20],
        };
        let size = fill(&mut output)?;
        output.file.flush()?;
        Ok(size)
    };
    let size = write().map_err(|error: Error| error.in_file(path.display()))?;
    file.commit()?;
    Ok(size)
}

#[cold]
fn not_convertible(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::NotConvertible, message)
}

#[cfg(test)]
mod tests;
