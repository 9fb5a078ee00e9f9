//! Recovering a message from the intact chunks of a damaged file.

use std::io::Write;
use std::path::{Path, PathBuf};

use prost_reflect::{DescriptorPool, MessageDescriptor};
use proto_splitter_core::Result;
use proto_splitter_core::atomic::{AtomicFile, MadeFrom};
use proto_splitter_core::edit::{self, Loss, Salvaged};
use proto_splitter_core::formats::Registry;
use proto_splitter_core::merge::ReadOptions;
use proto_splitter_core::progress::Progress;

use crate::error_place::at_path;

/// Options for [`salvage`].
#[derive(Clone, Debug, Default)]
pub struct SalvageOptions {
    reading: ReadOptions,
    schemas: Option<DescriptorPool>,
    formats: Option<Registry>,
    force: bool,
}

impl SalvageOptions {
    /// Returns the defaults: the message's type is looked up in the file's own schema, if there is
    /// one.
    #[must_use]
    pub fn new() -> Self {
        SalvageOptions::default()
    }

    proto_splitter_core::options! {
        /// Sets the options for reading. If they contain a message type, it is used instead of the
        /// type that the file specifies. Default: [`ReadOptions::new`].
        ref reading, get_reading: ReadOptions;

        /// Sets whether to overwrite existing output. Default: false.
        const force, get_force: bool;

        /// Sets the schemas in which to look up the message type that the file specifies. Default:
        /// none.
        optional schemas, get_schemas: DescriptorPool;

        /// Sets the formats in which to look up the message type that the file specifies. Default:
        /// none.
        optional formats, get_formats: Registry;
    }

    /// Sets progress reporting and cancellation. Default: the progress in the options for reading.
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.reading = self.reading.progress(progress);
        self
    }

    /// Returns the descriptor of the message type that a salvaged file specifies; `None` if it
    /// isn't found.
    fn type_of(&self, salvaged: &Salvaged) -> Option<MessageDescriptor> {
        let name = salvaged.file.trailer().message_type()?;
        let given = self.schemas.as_ref();
        let given = given.and_then(|schemas| schemas.get_message_by_name(name));
        given
            .or_else(|| self.formats?.message(name))
            .or_else(|| salvaged.file.descriptor().ok().flatten())
    }
}

/// The result of [`salvage`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SalvageReport {
    /// Path of the file that was written.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub output: PathBuf,
    /// Path of the damaged file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub input: PathBuf,
    /// Size of the merged message, in bytes.
    pub output_bytes: u64,
    /// Lost parts of the message. Empty if the file is undamaged.
    pub lost: Vec<LostPart>,
}

/// A part of a message that was lost because its chunk is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LostPart {
    /// Path of the lost part in the message.
    pub path: String,
    /// Description of the loss, for users.
    pub what: String,
    /// Index of the damaged chunk.
    pub chunk: u64,
    /// Message of the error that reading the chunk returned.
    pub why: String,
}

/// The intact chunks of a damaged file, which can be merged into a file or any other sink.
///
/// ```
/// use proto_splitter_core::split::{SizeSplitter, SplitExt, SplitOptions};
/// use proto_splitter_ops::{Salvage, SalvageOptions};
/// use prost_reflect::prost_types::FileDescriptorProto;
///
/// let message = FileDescriptorProto { name: Some("n".repeat(5000)), ..Default::default() };
/// let folder = tempfile::tempdir()?;
/// let options = SplitOptions::new().max_chunk_size(1000);
/// let path = SizeSplitter.write_with(&message, folder.path().join("message"), &options)?.path;
///
/// let intact = Salvage::open(&path, &SalvageOptions::new())?;
/// assert!(intact.lost().is_empty());
/// assert_eq!(intact.files().collect::<Vec<_>>(), [path.as_path()]);
/// let mut bytes = Vec::new();
/// assert_eq!(intact.write_to(&mut bytes)?, bytes.len() as u64);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Salvage {
    input: PathBuf,
    salvaged: Salvaged,
    reading: ReadOptions,
}

/// Merges the intact chunks of a damaged file into one message. The message has an empty value in
/// place of each lost chunk, and the report lists the lost chunks.
///
/// ```
/// use proto_splitter_core::split::{SizeSplitter, SplitExt, SplitOptions};
/// use proto_splitter_ops::{SalvageOptions, salvage};
/// use prost_reflect::{ReflectMessage, prost_types::FileDescriptorProto};
/// use record_file::Compression;
///
/// let [name, package] = ["n", "p"].map(|text| Some(text.repeat(5000)));
/// let message = FileDescriptorProto { name, package, ..Default::default() };
/// let folder = tempfile::tempdir()?;
/// let options = SplitOptions::new().max_chunk_size(1000).compression(Compression::None);
/// let path = SizeSplitter.write_with(&message, folder.path().join("message"), &options)?.path;
/// let mut bytes = std::fs::read(&path)?;
/// let at = bytes.windows(2).position(|pair| pair == b"pp").ok_or("there is a chunk of it")?;
/// bytes[at + 100] ^= 1;
/// std::fs::write(&path, bytes)?;
///
/// let schemas = message.descriptor().parent_pool().clone();
/// let options = SalvageOptions::new().schemas(schemas);
/// let report = salvage(&path, folder.path().join("intact.pb"), &options)?;
/// assert_eq!((report.lost.len(), report.lost[0].path.as_str()), (1, "package"));
/// assert!(report.output_bytes > 5000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The errors of [`Salvage::open`] and [`Salvage::write_file`].
pub fn salvage(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    options: &SalvageOptions,
) -> Result<SalvageReport> {
    Salvage::open(input, options)?.write_file(output, options.force)
}

impl Salvage {
    /// Reads all chunks of a file, and excludes the damaged ones.
    ///
    /// # Errors
    ///
    /// The errors of [`edit::salvage`], for example if the trailer or the root chunk, without which
    /// nothing can be recovered, is damaged.
    pub fn open(input: impl AsRef<Path>, options: &SalvageOptions) -> Result<Salvage> {
        let input = input.as_ref();
        let salvaged = edit::salvage(input, &options.reading);
        let salvaged = salvaged.map_err(|error| at_path(input, error))?;
        let given = options.reading.get_descriptor().cloned();
        let known = given.or_else(|| options.type_of(&salvaged));
        Ok(Salvage {
            input: input.to_owned(),
            salvaged,
            reading: options.reading.clone().descriptor(known),
        })
    }

    /// Returns the lost parts of the message.
    pub fn lost(&self) -> Vec<LostPart> {
        let known = self.reading.get_descriptor();
        let lost = |loss: &Loss| LostPart {
            path: loss.path.display(known),
            what: loss.what.to_string(),
            chunk: loss.chunk.get(),
            why: loss.why.clone(),
        };
        self.salvaged.lost.iter().map(lost).collect()
    }

    /// Returns the paths of the files that contain the message's chunks.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.salvaged.file.paths().iter().map(PathBuf::as_path)
    }

    /// Writes the message to a sink, and returns its size in bytes.
    ///
    /// # Errors
    ///
    /// Any error from merging or writing. In that case, discard the bytes already written to the
    /// sink.
    pub fn write_to(&self, mut sink: impl Write) -> Result<u64> {
        let merged = self.salvaged.file.merge_to(&mut sink, &self.reading);
        let merged = merged.map_err(|error| at_path(&self.input, error))?;
        Ok(merged.size)
    }

    /// Writes the message to a file, which appears complete or not at all. An existing file is
    /// overwritten only if `force` is true.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::AlreadyExists`](proto_splitter_core::ErrorKind) if the file exists and
    /// overwriting isn't allowed; any error from merging or writing.
    pub fn write_file(&self, output: impl AsRef<Path>, force: bool) -> Result<SalvageReport> {
        let output = output.as_ref();
        let made_from = MadeFrom::files(self.files());
        let written = AtomicFile::create(output, &made_from, force)
            .and_then(|out| out.write(|sink| self.write_to(sink)));
        Ok(SalvageReport {
            output: output.to_owned(),
            input: self.input.clone(),
            output_bytes: written.map_err(|error| at_path(&self.input, error))?,
            lost: self.lost(),
        })
    }
}
