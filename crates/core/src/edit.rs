//! Editing messages: changing the compression or one value of a `.cpb` file without merging it, and
//! applying several [`Changes`] to any message in one pass.
//!
//! Unchanged parts of a `.cpb` file are copied as they are stored. The trailer stays the same,
//! except for the chunks' new positions and, if the message changes, the message's size and
//! checksum. Before the trailer is written, the new file is read once and all checksums are
//! verified.
//!
//! ```
//! use proto_splitter_core::container::ChunkedFile;
//! use proto_splitter_core::merge::{ReadOptions, Merger};
//! use proto_splitter_core::edit::{RewriteOptions, replace};
//! use proto_splitter_core::split::{SplitExt, SizeSplitter, SplitOptions};
//! use prost_reflect::prost_types::FileDescriptorProto;
//!
//! let file = FileDescriptorProto { name: Some("n".repeat(5000)), ..Default::default() };
//! let folder = tempfile::tempdir()?;
//! let options = SplitOptions::new().max_chunk_size(1000);
//! SizeSplitter.write_with(&file, folder.path().join("file"), &options)?;
//!
//! let chunked = ChunkedFile::open(folder.path().join("file.cpb"))?;
//! let other = tempfile::tempfile()?;
//! replace(&chunked, &"1".parse()?, b"another name", &other, &ReadOptions::new(), &RewriteOptions::new())?;
//! let read: FileDescriptorProto = Merger::new().read_chunked_from_bytes(other)?;
//! assert_eq!(read.name(), "another name");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod changes;
mod edits;
mod files;
mod find;
mod options;
mod place;
mod rewrite;
mod salvage;
mod splice;
mod strip;
mod to_file;
mod trailer;

use std::fs::File;
use std::io::Write;
use std::path::Path;

use record_file::ReadAt;

use crate::container::ChunkKind;
use crate::merge::ChunkStore;
use crate::merge::ReadOptions;
use crate::message::ChunkedFile;
use crate::path::FieldPath;
use crate::split::{DonePart, LARGEST_MAX_CHUNK_SIZE};
use crate::view::MessageView;
use crate::{Error, ErrorKind, Result};
pub use changes::{Changed, Changes};
use edits::Edits;
pub use options::{RewriteOptions, Rewritten};
use place::{check_value, enclosing_tag, enclosing_value};
use rewrite::{Content, Rewrite};
pub use salvage::{Loss, Lost, Salvaged, salvage};

/// Writes the chunks of a file to `target`, with a different compression. The target must be empty.
/// The chunks and their order stay the same. Chunks that are in other files are written to
/// `target`, too.
///
/// # Errors
///
/// [`ErrorKind::Record`] or [`ErrorKind::ChecksumMismatch`] if a chunk is damaged;
/// [`ErrorKind::LimitExceeded`] if the trailer in one piece would be larger than readers accept;
/// [`ErrorKind::InvalidConfig`] if a maximum file size is set; [`ErrorKind::Io`] if writing fails;
/// [`ErrorKind::Cancelled`].
pub fn recompress<S: ReadAt>(
    file: &ChunkedFile<S>,
    target: &File,
    options: &RewriteOptions,
) -> Result<Rewritten> {
    Ok(recompressed(Rewrite::new(file, target, None, options), file)?.0)
}

/// Recompresses a file and writes the result to `target`, and to other files next to it if a
/// maximum file size requires several. Either all files appear, and are complete, or no file
/// appears.
///
/// ```
/// use proto_splitter_core::container::ChunkedFile;
/// use proto_splitter_core::merge::Merger;
/// use proto_splitter_core::edit::{RewriteOptions, recompress_to_file};
/// use proto_splitter_core::split::{SplitExt, Profile, SizeSplitter, SplitOptions};
/// use prost_reflect::prost_types::FileDescriptorProto;
///
/// let name: String = (0..3000).map(|number| number.to_string()).collect();
/// let file = FileDescriptorProto { name: Some(name), ..Default::default() };
/// let folder = tempfile::tempdir()?;
/// let options = SplitOptions::new().max_chunk_size(1000).profile(Profile::Extended);
/// let one = SizeSplitter.write_with(&file, folder.path().join("one"), &options)?;
///
/// let options = RewriteOptions::new().compression(record_file::Compression::None);
/// let options = options.max_file_size(Some(4 << 10));
/// let target = folder.path().join("several.cpb");
/// let written = recompress_to_file(&ChunkedFile::open(one.path)?, &target, &options)?;
/// assert!(written.files.len() > 1);
/// assert!(written.files.iter().all(|file| file.size <= 4 << 10));
/// let read: FileDescriptorProto = Merger::new().read(target)?;
/// assert_eq!(read, file);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The errors of [`recompress`]; [`ErrorKind::AlreadyExists`] if a file exists and may not be
/// overwritten; [`ErrorKind::InvalidConfig`] if the target is an input file, or if the chunks can't
/// be written to files of the [maximum file size](RewriteOptions::max_file_size);
/// [`ErrorKind::LimitExceeded`] if a chunk or the trailer doesn't fit in a file of that size.
pub fn recompress_to_file<S: ReadAt>(
    file: &ChunkedFile<S>,
    target: impl AsRef<Path>,
    options: &RewriteOptions,
) -> Result<Rewritten> {
    to_file::write(file, target.as_ref(), options, |rewrite| {
        recompressed(rewrite, file)
    })
}

fn recompressed<S: ReadAt>(
    rewrite: Rewrite<'_, S>,
    file: &ChunkedFile<S>,
) -> Result<(Rewritten, Vec<DonePart>)> {
    let contents: Vec<_> = (0..file.len()).map(Content::Recompressed).collect();
    let metadata = file.trailer().metadata().clone();
    rewrite.run(&contents, &vec![true; file.len()], metadata, None)
}

/// Replaces the value at `path` and writes the new file to `target`, which must be empty. Only the
/// chunk that contains the value is encoded again. Chunks that belong inside the old value are
/// dropped. Chunks that are in other files are written to `target`, too.
///
/// The value has the form that [`MessageView::get`](MessageView::get) returns: the fields of a
/// message, the bytes of a string or bytes value, or the wire encoding of a number. There must
/// already be a value at the path, since the new value takes the old value's position.
///
/// # Errors
///
/// [`ErrorKind::InvalidPath`] if the path matches no value or several values;
/// [`ErrorKind::InvalidMessage`] if the new value doesn't have the form of the old one;
/// [`ErrorKind::Uncuttable`] if the enclosing message would become too large for its chunk;
/// [`ErrorKind::UnsupportedVersion`] if the file has no placeholders, or its chunks are cut within
/// fields; [`ErrorKind::InvalidConfig`] if a maximum file size is set; damage in the chunks that
/// are read; [`ErrorKind::Io`] if writing fails.
pub fn replace<S: ReadAt, V: ReadAt + ?Sized>(
    file: &ChunkedFile<S>,
    path: &FieldPath,
    value: &V,
    target: &File,
    reading: &ReadOptions,
    options: &RewriteOptions,
) -> Result<Rewritten> {
    let rewrite = Rewrite::new(file, target, None, options);
    Ok(replaced(rewrite, file, path, value, reading)?.0)
}

/// Replaces a value and writes the new file to `target`, and to other files next to it if a maximum
/// file size requires several. Either all files appear, and are complete, or no file appears.
///
/// # Errors
///
/// The errors of [`replace`] and [`recompress_to_file`].
pub fn replace_to_file<S: ReadAt, V: ReadAt + ?Sized>(
    file: &ChunkedFile<S>,
    path: &FieldPath,
    value: &V,
    target: impl AsRef<Path>,
    reading: &ReadOptions,
    options: &RewriteOptions,
) -> Result<Rewritten> {
    to_file::write(file, target.as_ref(), options, |rewrite| {
        replaced(rewrite, file, path, value, reading)
    })
}

fn replaced<S: ReadAt, V: ReadAt + ?Sized>(
    rewrite: Rewrite<'_, S>,
    file: &ChunkedFile<S>,
    path: &FieldPath,
    value: &V,
    reading: &ReadOptions,
) -> Result<(Rewritten, Vec<DonePart>)> {
    if !file.trailer().is_marked() {
        let message =
            "can't replace a value: this file has no placeholders; merge it, and split it again";
        return Err(Error::new(ErrorKind::UnsupportedVersion, message));
    }
    if file.trailer().cuts_within_fields() {
        let message = "can't replace a value: this file's chunks are cut within fields; merge it, and split it again";
        return Err(Error::new(ErrorKind::UnsupportedVersion, message));
    }
    let view = file.view(reading.clone());
    let place = view.place(path)?;
    check_value(value, &place).map_err(|error| error.at_path(view.show(path)))?;
    let (holder, tag) = place.in_chunk()?;
    let chain = enclosing_tag(file, holder, tag).map_err(|e| e.in_chunk(holder))?;
    let size = value.size()?;
    let Some(field) = chain.last() else {
        return Err(Error::new(
            ErrorKind::InvalidPath,
            "there is no field at the path",
        ));
    };
    let mut metadata = file.trailer().metadata().clone();
    let filler = trailer::filler(file.trailer(), path).filter(|_| field.value.is_empty());
    let mut contents: Vec<Content<'_>> = (0..file.len()).map(Content::Stored).collect();
    let (changed, content) = match filler {
        Some(chunk) => (chunk, Content::Value(&value, size)),
        None => {
            let edits = Edits::replace(&chain, file.size(holder), size)?;
            let spliced = edits.size();
            (holder, Content::Spliced(holder, edits, &value, spliced))
        }
    };
    let new_size = content.size(file);
    // Only the size of messages is limited.
    let is_message = file.trailer().kinds()[changed] == ChunkKind::Message;
    if new_size > LARGEST_MAX_CHUNK_SIZE && is_message {
        let message = format!(
            "its chunk would have {new_size} bytes, but readers accept at most {LARGEST_MAX_CHUNK_SIZE}: merge the file, and split it again"
        );
        return Err(Error::new(ErrorKind::Uncuttable, message).at_path(view.show(path)));
    }
    contents[changed] = content;
    let kept = trailer::without_below(&mut metadata, path, filler)?;
    let contents: Vec<_> = contents
        .into_iter()
        .zip(&kept)
        .filter_map(|(content, kept)| kept.then_some(content))
        .collect();
    rewrite.run(&contents, &kept, metadata, Some(reading))
}

/// Copies a message that isn't split from `source` to `sink`, and replaces the value at `path`.
/// Returns the number of bytes written.
///
/// # Errors
///
/// [`ErrorKind::InvalidPath`] if the path matches no value or several values;
/// [`ErrorKind::InvalidMessage`] if the new value doesn't have the form of the old one, or the
/// message breaks the wire format along the path; [`ErrorKind::Io`] if reading or writing fails.
/// After an error, discard the bytes that `sink` received.
pub fn replace_plain<S: ReadAt, V: ReadAt + ?Sized>(
    source: &S,
    path: &FieldPath,
    value: &V,
    sink: &mut impl Write,
    reading: &ReadOptions,
) -> Result<u64> {
    let view = MessageView::of_plain(source, reading.clone())?;
    let place = view.place(path)?;
    check_value(value, &place).map_err(|error| error.at_path(view.show(path)))?;
    let size = source.size()?;
    let chain = enclosing_value(source, size, &place.value)?;
    let edits = Edits::replace(&chain, size, value.size()?)?;
    let mut reader = edits.reader(Box::new(edits::Sequence::new(source, size)), &value);
    let meter = reading.progress.meter(size);
    let written = std::io::copy(&mut reader, &mut meter.written_to(sink))?;
    meter.check()?;
    Ok(written)
}
