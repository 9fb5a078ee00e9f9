//! Writing a copy of a file with one value replaced, or with a different compression.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter_core::atomic::{AtomicFile, FileSink, MadeFrom};
use proto_splitter_core::container::is_named_chunked;
use proto_splitter_core::edit::{
    Changes, RewriteOptions, Rewritten, recompress_to_file, replace_plain, replace_to_file,
};
use proto_splitter_core::formats::{ConvertOptions, ConvertTarget, Opened};
use proto_splitter_core::path::PathQuery;
use proto_splitter_core::progress::Progress;
use proto_splitter_core::split::{ChunkCompression, WrittenFile};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use crate::error_place::at;
use crate::target_form::TargetForm;

/// Options for [`replace`].
#[derive(Clone, Debug, Default)]
pub struct ReplaceOptions {
    compression: ChunkCompression,
    max_file_size: Option<u64>,
    form: Option<&'static ConvertTarget>,
    force: bool,
    progress: Progress,
}

impl ReplaceOptions {
    /// Returns the defaults.
    #[must_use]
    pub fn new() -> Self {
        ReplaceOptions::default()
    }

    proto_splitter_core::options! {
        /// Sets the compression of the chunk that contains the value. Default:
        /// [`ChunkCompression::default`].
        into compression, get_compression: ChunkCompression;

        /// Sets the maximum size of each file, in bytes, for an output in chunks. Default:
        /// `None`, unlimited, so that there is one file.
        into max_file_size, get_max_file_size: Option<u64>;

        /// Sets the form of the output, which must be one of the forms of the input's format.
        /// Default: `None`, the input's form if its message is made of several files, otherwise one
        /// file.
        into form, get_form: Option<&'static ConvertTarget>;

        /// Sets whether to overwrite existing output. Default: false.
        const force, get_force: bool;

        /// Sets progress reporting and cancellation. Default: none.
        ref progress, get_progress: Progress;
    }

    /// Returns the options for writing a chunked file.
    fn rewriting(&self) -> RewriteOptions {
        RewriteOptions::new()
            .compression(self.compression)
            .max_file_size(self.max_file_size)
            .force(self.force)
            .progress(self.progress.clone())
    }
}

/// The result of [`replace`] and [`recompress`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RewriteReport {
    /// Path of the written file, or of the main file if several were written.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub output: PathBuf,
    /// Path or URL of the input.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub input: PathBuf,
    /// Total size of the written files, in bytes.
    pub output_bytes: u64,
    /// Number of chunks; `None` if the output isn't in chunks.
    pub chunk_count: Option<usize>,
    /// Number of chunks that were copied without recompressing them; `None` if the output isn't in
    /// chunks.
    pub copied_chunks: Option<usize>,
    /// Files that were removed because overwriting is allowed. They are the files of an earlier
    /// split to the same output.
    #[cfg_attr(
        feature = "serde",
        serde(
            skip_serializing_if = "Vec::is_empty",
            serialize_with = "crate::as_text::paths"
        )
    )]
    pub removed_files: Vec<PathBuf>,
    /// The written files that contain chunks, except the main file.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub files: Vec<RewrittenFile>,
    /// Notes for the user, one line each.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub notes: Vec<String>,
}

/// A written file that contains chunks, other than the main file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RewrittenFile {
    /// Path of the file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub file: PathBuf,
    /// Size of the file, in bytes.
    pub bytes: u64,
    /// Number of chunks in the file.
    pub chunks: usize,
}

/// Writes a copy of a chunked file, with the same chunks in a different compression. The copy is
/// then read once to verify the checksums of its chunks. The checksum of the whole message is
/// verified, too, unless merging depends on the message's type.
///
/// ```
/// use proto_splitter_core::edit::RewriteOptions;
/// use proto_splitter_core::formats::{OpenOptions, Opened, Registry};
/// use proto_splitter_core::split::{SizeSplitter, SplitExt, SplitOptions};
/// use proto_splitter_ops::recompress;
/// use prost_reflect::prost_types::FileDescriptorProto;
/// use record_file::Compression;
///
/// let folder = tempfile::tempdir()?;
/// let message = FileDescriptorProto { name: Some("n".repeat(5000)), ..Default::default() };
/// let options = SplitOptions::new().max_chunk_size(1000).compression(Compression::None);
/// let path = SizeSplitter.write_with(&message, folder.path().join("message"), &options)?.path;
/// let input = Registry::new(&[]).open(&path, &OpenOptions::new())?;
/// let options = RewriteOptions::new().compression(Compression::zstd(3));
/// let report = recompress(&input, folder.path().join("small.cpb"), &options)?;
/// assert_eq!(report.chunk_count, Some(2));
/// assert!(report.output_bytes < std::fs::metadata(&path)?.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`] if the input isn't in chunks. Also the errors of
/// [`recompress_to_file`].
pub fn recompress(
    input: &Opened,
    output: impl AsRef<Path>,
    options: &RewriteOptions,
) -> Result<RewriteReport> {
    let output = output.as_ref();
    let file = input.require_chunks().map_err(|error| at(input, error))?;
    let written = recompress_to_file(file, output, options).map_err(|error| at(input, error))?;
    Ok(RewriteReport::of(input, output).in_chunks(written))
}

/// Writes a copy of a message with one value replaced. In a chunked file, only one chunk is
/// rewritten: the one that contains the value or the value's enclosing message.
///
/// `value` is encoded like the result of
/// [`MessageView::get`](proto_splitter_core::view::MessageView::get).
///
/// ```
/// use std::sync::Arc;
///
/// use proto_splitter_core::formats::{OpenOptions, Opened};
/// use proto_splitter_core::path::PathQuery;
/// use proto_splitter_ops::{ReplaceOptions, replace};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("message.pb");
/// std::fs::write(&path, b"\x08\x01\x12\x01a")?;
/// let input = Opened::of_file(&path, None, &OpenOptions::new())?;
/// let output = folder.path().join("new.pb");
/// let value = Arc::new(b"relu".to_vec());
/// let report = replace(&input, &PathQuery::parse("2", None)?, value, &output, &ReplaceOptions::new())?;
/// assert_eq!(report.output_bytes, 8);
/// assert_eq!(std::fs::read(&output)?, b"\x08\x01\x12\x04relu");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// - [`ErrorKind::InvalidPath`] if the query doesn't select exactly one value.
/// - [`ErrorKind::InvalidConfig`] if the input has no message, the output is one of the input's
///   files, the output's name ends in `.cpb` but the input isn't in chunks, or the form that was set
///   doesn't suit the input or output.
/// - [`ErrorKind::AlreadyExists`] if the output exists and overwriting isn't allowed.
/// - Any error if the input is damaged, or something can't be read or written.
pub fn replace(
    input: &Opened,
    query: &PathQuery,
    value: Arc<dyn ReadAt>,
    output: impl AsRef<Path>,
    options: &ReplaceOptions,
) -> Result<RewriteReport> {
    let output = output.as_ref();
    let report = RewriteReport::of(input, output);
    let replaced = match TargetForm::of(input, options.form, output)? {
        Some(form) => report.replace_in_form(&form, input, query, value, options),
        None => report.replace_at(input, query, &*value, options),
    };
    replaced.map_err(|error| at(input, error))
}

impl RewriteReport {
    fn of(input: &Opened, output: &Path) -> RewriteReport {
        RewriteReport {
            output: output.to_owned(),
            input: input.input().to_owned(),
            ..RewriteReport::default()
        }
    }

    fn in_chunks(self, written: Rewritten) -> RewriteReport {
        RewriteReport {
            output_bytes: written.size,
            chunk_count: Some(written.chunks),
            copied_chunks: Some(written.copied),
            removed_files: written.removed_files,
            files: written.files.iter().map(RewrittenFile::of).collect(),
            ..self
        }
    }

    /// Writes the message, with one value replaced, in the form `form`.
    fn replace_in_form(
        mut self,
        form: &TargetForm,
        input: &Opened,
        query: &PathQuery,
        value: Arc<dyn ReadAt>,
        options: &ReplaceOptions,
    ) -> Result<RewriteReport> {
        let changed = Changes::new()
            .names(input.registry().member_names())
            .replace(query.clone(), value)
            .apply(input.reader()?.into(), &input.reading_options())?;
        let writing = ConvertOptions::new()
            .force(options.force)
            .progress(options.progress.clone());
        let converted = form.write(&changed, input, &self.output, &writing)?;
        self.output_bytes = converted.bytes;
        self.notes = converted.notes;
        Ok(self)
    }

    /// Writes the message with one value replaced. The output is in chunks if the input is in
    /// chunks, and otherwise in one piece.
    fn replace_at(
        mut self,
        input: &Opened,
        query: &PathQuery,
        value: &dyn ReadAt,
        options: &ReplaceOptions,
    ) -> Result<RewriteReport> {
        let view = input.view()?;
        view.check_type()?;
        let path = view.select_one(query, &input.registry().member_names())?;
        let reading = input.reading_options();
        match (input.chunked(), input.plain()) {
            (Some(file), _) => {
                let options = options.rewriting().read_from(input.files());
                let output = &self.output;
                let written = replace_to_file(file, &path, value, output, &reading, &options)?;
                Ok(self.in_chunks(written))
            }
            (None, Some(_)) if input.is_single() && is_named_chunked(&self.output) => {
                let message = format!(
                    "{}: a .cpb is a file in chunks, and the input isn't: use `protosplit edit --replace` to write chunks",
                    self.output.display()
                );
                Err(Error::new(ErrorKind::InvalidConfig, message))
            }
            (None, Some((bytes, _))) if input.is_single() => {
                let reading = reading.progress(options.progress.clone());
                let made_from = MadeFrom::files(input.files());
                let out = AtomicFile::create(&self.output, &made_from, options.force)?;
                self.output_bytes = out.write(|mut sink: &mut dyn FileSink| {
                    replace_plain(bytes, &path, value, &mut sink, &reading)
                })?;
                Ok(self)
            }
            _ => {
                let message = "this message is assembled from several files: use `protosplit convert` to make one .cpb, in which a value can be replaced";
                Err(Error::new(ErrorKind::InvalidConfig, message))
            }
        }
    }
}

impl RewrittenFile {
    fn of(file: &WrittenFile) -> RewrittenFile {
        RewrittenFile {
            file: file.path.clone(),
            bytes: file.size,
            chunks: file.chunks,
        }
    }
}
