//! Writing a changed copy of a message: with values removed, inserted, replaced or stripped.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter_core::atomic::{AtomicFile, MadeFrom};
use proto_splitter_core::container::{CHUNKED_EXTENSION, PLAIN_EXTENSION, prefix_of};
use proto_splitter_core::edit::{Changed, Changes};
use proto_splitter_core::formats::{ConvertOptions, ConvertTarget, Opened};
use proto_splitter_core::progress::Progress;
use proto_splitter_core::split::{Profile, Source, SplitExt, SplitOptions};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use crate::error_place::at;
use crate::target_form::TargetForm;

/// Options for [`edit`] and [`strip`].
#[derive(Clone, Debug, Default)]
pub struct EditOptions {
    split: SplitOptions,
    form: Option<&'static ConvertTarget>,
    force: bool,
    threads: Option<NonZeroUsize>,
    progress: Progress,
}

impl EditOptions {
    /// Returns the defaults.
    #[must_use]
    pub fn new() -> Self {
        EditOptions::default()
    }

    proto_splitter_core::options! {
        /// Sets the chunk sizes and the compression, for an output in chunks. The output's profile
        /// and schema are those of the input; overwriting, threads and progress are those set by
        /// [`force`](Self::force), [`threads`](Self::threads) and [`progress`](Self::progress).
        /// Default: [`SplitOptions::new`].
        ref split, get_split: SplitOptions;

        /// Sets the form of the output, which must be one of the forms of the input's format.
        /// Default: `None`, the input's form if its message is made of several files, otherwise one
        /// file.
        into form, get_form: Option<&'static ConvertTarget>;

        /// Sets whether to overwrite existing output. Default: false.
        const force, get_force: bool;

        /// Sets the number of threads. Default: `None`, the number of cores.
        into threads, get_threads: Option<NonZeroUsize>;

        /// Sets progress reporting and cancellation, for writing. Default: none.
        ref progress, get_progress: Progress;
    }
}

/// The result of [`edit`] and [`strip`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct EditReport {
    /// Path of the written file, or of the main file if several were written.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub output: PathBuf,
    /// Path or URL of the input.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub input: PathBuf,
    /// Size of the changed message, in bytes.
    pub message_bytes: u64,
    /// Total size of the written files, in bytes.
    pub output_bytes: u64,
    /// Number of chunks; `None` if the output isn't in chunks.
    pub chunk_count: Option<usize>,
    /// Number of removed fields, list elements and map entries.
    pub removed: u64,
    /// Number of inserted fields, list elements and map entries.
    pub inserted: u64,
    /// Number of replaced values.
    pub replaced: u64,
    /// Number of values and tensors whose contents were removed.
    pub stripped: u64,
    /// Total size of the removed contents of values and tensors, in bytes.
    pub stripped_bytes: u64,
    /// Files that were removed because [`force`](EditOptions::force) is set. They are the files of
    /// an earlier split to the same output.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub removed_files: Vec<PathBuf>,
    /// Notes for the user, one line each.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub notes: Vec<String>,
}

/// The large values whose contents [`strip`] removes. The message's structure doesn't change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strip {
    over: Option<u64>,
    tensors: bool,
}

impl Strip {
    /// Returns the defaults, which don't remove any contents.
    #[must_use]
    pub fn new() -> Self {
        Strip::default()
    }

    /// Sets the size limit, in bytes, for strings, bytes, packed numbers and unknown values. Larger
    /// values are emptied. Default: `None`, which empties no values.
    #[must_use]
    pub fn values_over(mut self, bytes: impl Into<Option<u64>>) -> Self {
        self.over = bytes.into();
        self
    }

    /// Sets whether to remove the elements of all tensors that the input's formats recognize. The
    /// tensors' types, shapes and names are kept. Default: false.
    #[must_use]
    pub fn tensors(mut self, tensors: bool) -> Self {
        self.tensors = tensors;
        self
    }

    /// Returns `changes` plus the removals that strip `input`.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use proto_splitter_core::edit::Changes;
    /// use proto_splitter_core::formats::{OpenOptions, Opened};
    /// use proto_splitter_ops::Strip;
    ///
    /// let input = Opened::of_reader(Arc::new(b"\x08\x01".to_vec()), None, &OpenOptions::new())?;
    /// assert!(Strip::new().added_to(Changes::new(), &input).is_empty());
    /// assert!(!Strip::new().values_over(1000).added_to(Changes::new(), &input).is_empty());
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    pub fn added_to(self, changes: Changes, input: &Opened) -> Changes {
        let changes = match self.over {
            Some(bytes) => changes.strip_values(bytes.saturating_add(1)),
            None => changes,
        };
        if self.tensors {
            changes.strip_tensors(input.registry().tensor_rules())
        } else {
            changes
        }
    }
}

/// Writes a copy of a message without the contents of its large values.
///
/// ```
/// use proto_splitter_core::formats::{OpenOptions, Opened};
/// use proto_splitter_ops::{EditOptions, Strip, strip};
/// use prost_reflect::{ReflectMessage, prost_types::FileDescriptorProto};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("message.pb");
/// // A name and a package.
/// std::fs::write(&path, b"\x0a\x01n\x12\x07package")?;
/// let root = FileDescriptorProto::default().descriptor();
/// let input = Opened::of_file(&path, Some(root), &OpenOptions::new())?;
/// let output = folder.path().join("small.pb");
/// let report = strip(&input, Strip::new().values_over(4), &output, &EditOptions::new())?;
/// assert_eq!(report.stripped, 1);
/// assert_eq!(std::fs::read(&output)?, b"\x0a\x01n\x12\x00");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The errors of [`edit`]; [`ErrorKind::SchemaNeeded`] if the message's type is unknown.
pub fn strip(
    input: &Opened,
    what: Strip,
    output: impl AsRef<Path>,
    options: &EditOptions,
) -> Result<EditReport> {
    edit(input, what.added_to(Changes::new(), input), output, options)
}

/// Writes a copy of a message with changes, in one pass. The output is in chunks if its name ends
/// in `.cpb`, and in one piece if it ends in `.pb`. With any other name, the output has the input's
/// form.
///
/// List elements may be selected by the names that the input's formats define.
///
/// ```
/// use proto_splitter_core::edit::Changes;
/// use proto_splitter_core::formats::{OpenOptions, Opened};
/// use proto_splitter_core::path::PathQuery;
/// use proto_splitter_ops::{EditOptions, edit};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("message.pb");
/// std::fs::write(&path, b"\x08\x01\x12\x01a\x12\x01b")?;
/// let input = Opened::of_file(&path, None, &OpenOptions::new())?;
/// let changes = Changes::new().remove(PathQuery::parse("2[0]", None)?);
/// let output = folder.path().join("changed.pb");
/// let report = edit(&input, changes, &output, &EditOptions::new())?;
/// assert_eq!((report.removed, report.message_bytes), (1, 5));
/// assert_eq!(std::fs::read(&output)?, b"\x08\x01\x12\x01b");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// - The errors of [`Changes::apply`].
/// - [`ErrorKind::InvalidConfig`] if the input has no message, the output is one of the input's
///   files, or the form that was set doesn't suit the input or output.
/// - [`ErrorKind::SchemaNeeded`] if the output is in chunks and the message's type is unknown.
/// - [`ErrorKind::AlreadyExists`] if the output exists and overwriting isn't allowed.
/// - Any error if the input is damaged, or something can't be read or written.
pub fn edit(
    input: &Opened,
    changes: Changes,
    output: impl AsRef<Path>,
    options: &EditOptions,
) -> Result<EditReport> {
    let output = output.as_ref();
    let failed = |error| at(input, error);
    let read = Read::of(input).map_err(failed)?;
    let in_form = TargetForm::of(input, options.form, output)?;
    MadeFrom::files(input.files()).check_apart(output)?;
    let changed = changes
        .names(input.registry().member_names())
        .apply(read.message, &input.reading_options())
        .map_err(failed)?;
    let mut report = EditReport {
        output: output.to_owned(),
        input: input.input().to_owned(),
        message_bytes: changed.message.total_size(),
        removed: changed.removed,
        inserted: changed.inserted,
        replaced: changed.replaced,
        stripped: changed.stripped,
        stripped_bytes: changed.stripped_bytes,
        ..EditReport::default()
    };
    let written = if let Some(in_form) = in_form {
        report.write_form(&in_form, &changed, input, options)
    } else if is_edited_in_chunks(input, output) {
        let splitting = options.split.clone().profile(read.profile);
        let splitting = splitting.embed_schema(read.has_schema);
        let has_root = read.has_root || splitting.get_merkle_root();
        let splitting = splitting.merkle_root(has_root);
        report.write_chunks(&changed, input, splitting, options)
    } else {
        report.write_plain(&changed, input, options)
    };
    written.map_err(failed)?;
    Ok(report)
}

/// Returns true if [`edit`] writes this output in chunks. This is the case if the output's
/// extension is `.cpb`. With any other extension except `.pb`, it is the case if the input is in
/// chunks, or if its message is made of several files, since a plain file wouldn't record the
/// message's type.
///
/// ```
/// use proto_splitter_core::formats::{OpenOptions, Opened};
/// use proto_splitter_ops::is_edited_in_chunks;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("message.pb");
/// std::fs::write(&path, b"\x08\x01")?;
/// let input = Opened::of_file(&path, None, &OpenOptions::new())?;
/// assert!(is_edited_in_chunks(&input, "new.cpb"));
/// assert!(!is_edited_in_chunks(&input, "new"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn is_edited_in_chunks(input: &Opened, output: impl AsRef<Path>) -> bool {
    let extension = output.as_ref().extension();
    match extension.and_then(|extension| extension.to_str()) {
        Some(CHUNKED_EXTENSION) => true,
        Some(PLAIN_EXTENSION) => false,
        _ => input.chunked().is_some() || is_made_of_files(input),
    }
}

/// Returns true if the input's message is assembled from several files. A copy of such a message in
/// one piece doesn't record the message's type.
fn is_made_of_files(input: &Opened) -> bool {
    input.descriptor().is_some_and(|descriptor| {
        let name = descriptor.full_name();
        let format = input.registry().of_type(name);
        format.is_some_and(|format| format.is_made_of_files(name))
    })
}

/// The message of an input, and the properties of the input to keep in chunked output.
struct Read {
    message: Arc<dyn ReadAt>,
    /// Profile of the chunked file to write.
    profile: Profile,
    /// True if the input embeds its schema. Chunked output then embeds the schema, too.
    has_schema: bool,
    /// True if the input has a Merkle root. Chunked output then needs one, too.
    has_root: bool,
}

impl Read {
    fn of(input: &Opened) -> Result<Read> {
        if !input.has_message() {
            let message = "has tensors but no message to change";
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        let message = input.reader()?;
        let mut read = Read {
            message: message.clone().into(),
            profile: Profile::default(),
            has_schema: false,
            has_root: false,
        };
        if let Some(file) = message.chunked_file() {
            read.profile = match file.trailer().metadata().extended_message {
                Some(_) => Profile::Extended,
                None => Profile::TensorFlow,
            };
            read.has_schema = file.descriptor()?.is_some();
            read.has_root = file.trailer().metadata().merkle_tree.is_some();
        }
        Ok(read)
    }
}

impl EditReport {
    /// Writes the message in the form `form`.
    fn write_form(
        &mut self,
        form: &TargetForm,
        changed: &Changed,
        input: &Opened,
        options: &EditOptions,
    ) -> Result<()> {
        let writing = ConvertOptions::new()
            .force(options.force)
            .threads(options.threads)
            .progress(options.progress.clone());
        let converted = form.write(changed, input, &self.output, &writing)?;
        self.output_bytes = converted.bytes;
        self.notes = converted.notes;
        Ok(())
    }

    /// Writes the message in one piece, with permissions no wider than those of the input.
    fn write_plain(
        &mut self,
        changed: &Changed,
        input: &Opened,
        options: &EditOptions,
    ) -> Result<()> {
        let made_from = MadeFrom::files(input.files());
        let out = AtomicFile::create(&self.output, &made_from, options.force)?;
        out.check_space(changed.message.total_size())?;
        self.output_bytes = out.write(|mut sink| changed.write_to(&mut sink, &options.progress))?;
        Ok(())
    }

    /// Writes the message in chunks, with the splitter for its type. Fails if the type is unknown.
    fn write_chunks(
        &mut self,
        changed: &Changed,
        input: &Opened,
        splitting: SplitOptions,
        options: &EditOptions,
    ) -> Result<()> {
        let Some(descriptor) = input.descriptor() else {
            let message = "the message's type is needed to cut it into chunks";
            return Err(Error::new(ErrorKind::SchemaNeeded, message));
        };
        let splitting = splitting
            .always_chunked(true)
            .force(options.force)
            .threads(options.threads)
            .progress(options.progress.clone());
        let message = Source::from_spans(Arc::clone(&changed.message), descriptor.clone());
        let message = message.read_from(input.files());
        let splitter = input.registry().splitter(descriptor.full_name());
        let written = splitter.write_with(message, prefix_of(&self.output), &splitting)?;
        self.output = written.path;
        self.output_bytes = written.output_size;
        self.chunk_count = Some(written.chunks.len());
        self.removed_files = written.removed_files;
        Ok(())
    }
}
