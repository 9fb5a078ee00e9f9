//! Formats and open inputs, independent of any particular format.
//!
//! A *format* is a way to store models or messages: GraphDef, SavedModel, ONNX, a checkpoint.
//! Everything specific to a format is in its implementation of the trait [`Format`]: how to
//! recognize an input, open its message, split the message, name list elements, and read a tensor.
//! Nothing else in the workspace refers to a format by name. A [`Registry`] is a list of formats;
//! the crate `proto-splitter` has one with all built-in formats.
//!
//! An open input is an [`Opened`]: a message, an [`Archive`] of named tensors, or both.
//!
//! # Implementing a format
//!
//! ```
//! use std::sync::Arc;
//!
//! use proto_splitter_core::Result;
//! use proto_splitter_core::formats::{Archive, Candidate, Confidence, Format, Opened, OpenOptions, Registry};
//! use proto_splitter_core::tensor::{DType, Location, TensorInfo, TensorReader};
//! use record_file::ReadAt;
//!
//! /// A file of one tensor of bytes: "TOY1", then the elements.
//! #[derive(Debug)]
//! struct Toy;
//!
//! impl Format for Toy {
//!     fn name(&self) -> &'static str {
//!         "toy"
//!     }
//!
//!     fn title(&self) -> &'static str {
//!         "toy file"
//!     }
//!
//!     fn recognize(&self, candidate: &Candidate<'_>) -> Option<Confidence> {
//!         candidate.head().starts_with(b"TOY1").then_some(Confidence::Certain)
//!     }
//!
//!     fn open(&self, input: &Candidate<'_>, _options: &OpenOptions) -> Result<Opened> {
//!         // Opened when its head was read, and not again.
//!         let (path, file) = (input.path(), input.source()?);
//!         let info = TensorInfo::new("only", DType::U8, vec![input.size().saturating_sub(4)])
//!             .located(Location::file(path, 4));
//!         Ok(Opened::of_archive(ToyArchive { file, info }).reading([path]))
//!     }
//! }
//!
//! struct ToyArchive {
//!     file: Arc<dyn ReadAt>,
//!     info: TensorInfo,
//! }
//! # impl std::fmt::Debug for ToyArchive {
//! #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
//! #         f.debug_struct("ToyArchive").field("info", &self.info).finish_non_exhaustive()
//! #     }
//! # }
//!
//! impl Archive for ToyArchive {
//!     fn tensors(&self) -> Result<Vec<TensorInfo>> {
//!         Ok(vec![self.info.clone()])
//!     }
//!
//!     fn read(&self, info: &TensorInfo) -> Result<TensorReader<'_>> {
//!         let range = 4..4 + info.bytes;
//!         Ok(TensorReader::of_range(info.clone(), self.file.clone(), range))
//!     }
//! }
//!
//! // One line in a list adds it to every command.
//! static FORMATS: Registry = Registry::new(&[&Toy]);
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("weights");
//! std::fs::write(&path, b"TOY1\x07\x08")?;
//!
//! let opened = FORMATS.open(&path, &OpenOptions::new())?;
//! assert_eq!(opened.format().map(|format| format.name()), Some("toy"));
//! assert_eq!(opened.tensors()?[0].to_string(), "only uint8[2]");
//! assert_eq!(opened.tensor("only")?.to_vec()?, [7, 8]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A format whose inputs are messages
//!
//! A format whose inputs are messages declares their types with
//! [`descriptor_pool`](Format::descriptor_pool) and [`message_types`](Format::message_types), and
//! opens an input with [`Opened::of_input`], for a message in one file, or [`Opened::of_reader`],
//! for a message composed of several files. Both read the bytes in place. The format's tensors are
//! located by [`tensor_rules`](Format::tensor_rules), without code. Files in chunks (`.cpb`) need
//! no code in a format: the registry opens them, and finds the format by the type that the file
//! names.
//!
//! # A format whose files are records
//!
//! A record file is opened as a message in chunks, unless a format is
//! [certain](Confidence::Certain) that the file belongs to it. To recognize its files, such a
//! format reads the first record through [`Candidate::source`] and checks for content that only its
//! files have.

mod archive;
mod candidate;
mod convert;
mod lod_table;
mod open;
mod opened;
mod options;
mod other_files;
mod read_tensors;
mod registry;
mod tensor_table;

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost_reflect::DescriptorPool;
use record_file::ReadAt;

pub use archive::{Archive, Checks, Entry, TensorIter, Verified};
pub use candidate::{Candidate, CandidateKind, Confidence};
pub use convert::{ConvertOptions, ConvertSetting, ConvertTarget, Converted};
pub use opened::{FileOffsets, Opened};
pub use options::OpenOptions;
pub use other_files::what_else;
pub use registry::Registry;

use crate::split::ComposableSplitter;
use crate::tensor::{LodRule, PlacedTensor, TensorRule};
use crate::view::size_tree::NameRule;
use crate::{Error, ErrorKind, Result};

/// The implementation of one format.
///
/// A format is a stateless value, listed in a [`Registry`]. Methods with a default implementation
/// are for features that only some formats have. See the [module](self) for a complete example.
pub trait Format: Debug + Send + Sync {
    /// Returns the format's name in options and reports: one lower-case word, such as `onnx`.
    fn name(&self) -> &'static str;

    /// Returns the term for an input in a sentence, without an article, such as `ONNX model`.
    fn title(&self) -> &'static str;

    /// Returns the format's confidence that an input is of this format; `None` if it isn't. The
    /// registry chooses the most confident format, and the first of equally confident formats.
    ///
    /// A record file belongs to the format only if the format is [certain](Confidence::Certain).
    /// Otherwise the file is a message in chunks, and the file's name only hints at the message's
    /// type.
    fn recognize(&self, candidate: &Candidate<'_>) -> Option<Confidence>;

    /// Opens an input that the format recognized, or that the user declared to be of this format.
    /// Reads and checks headers, but no data.
    ///
    /// The input may be an object in a store. A format that reads only local files uses
    /// [`Candidate::local_path`]; a format that uses [`Candidate::source`] shares the file that is
    /// already open.
    ///
    /// # Errors
    ///
    /// If the input can't be read or isn't of this format; [`ErrorKind::NeedsFile`] if it isn't a
    /// local file and the format requires one.
    fn open(&self, input: &Candidate<'_>, options: &OpenOptions) -> Result<Opened>;

    /// Returns the names of the settings that [`open`](Self::open) supports; see
    /// [`OpenOptions::setting`]. Default: none.
    fn open_settings(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the main file of a folder, for formats in which the main file contains the message
    /// and other files accompany it. Default: `None`. Commands that rewrite such a folder replace
    /// its main file.
    fn main_file(&self, folder: &Path) -> Option<PathBuf> {
        let _ = folder;
        None
    }

    /// Returns the variables of the model in a folder, for formats that store them in separate
    /// files. Default: `None`. Verifying the folder verifies the variables, too.
    ///
    /// # Errors
    ///
    /// If the variables' index can't be read or is damaged.
    fn variables(&self, folder: &Path) -> Result<Option<Box<dyn Archive>>> {
        let _ = folder;
        Ok(None)
    }

    /// Returns true if any file of records can be opened as this format, even a file that the
    /// format doesn't recognize. Default: false.
    fn reads_any_records(&self) -> bool {
        false
    }

    /// Returns the path of the input file in a folder, for formats whose input is a single file.
    /// Default: `None`. Commands that accept the file also accept the folder that contains it.
    fn file_in(&self, folder: &Path) -> Option<PathBuf> {
        let _ = folder;
        None
    }

    /// Returns the types of the format's messages, and all types they refer to; `None` for formats
    /// without messages.
    fn descriptor_pool(&self) -> Option<&'static DescriptorPool> {
        None
    }

    /// Returns the full names of an input's possible root types, such as `onnx.ModelProto`. Any
    /// message of one of these types belongs to this format.
    fn message_types(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the type of the input at a path. It is one of
    /// [`message_types`](Self::message_types), and may depend on the input's files. Default: the
    /// first of these types.
    fn message_type(&self, path: &Path) -> Option<&'static str> {
        let _ = path;
        self.message_types().first().copied()
    }

    /// Returns the role of the file that accompanies an input, such as `program`.
    /// [`OpenOptions::companion`] sets the file. Default: `None`, for inputs without such a file.
    fn companion(&self) -> Option<&'static str> {
        None
    }

    /// Returns true if messages of this type are assembled from several files, and are not files
    /// themselves. Default: false. If such a message is written to a chunked file, the file
    /// contains the name of the message's type.
    fn is_made_of_files(&self, message_type: &str) -> bool {
        let _ = message_type;
        false
    }

    /// Returns the splitter for messages of this type. Default: `None`, meaning that sizes alone
    /// determine where a message is split.
    fn splitter(&self, message_type: &str) -> Option<&'static (dyn ComposableSplitter + Sync)> {
        let _ = message_type;
        None
    }

    /// Returns the rules for naming elements of repeated fields and entries of maps in reports.
    fn member_names(&self) -> &'static [NameRule] {
        &[]
    }

    /// Returns the rules that describe how tensors are stored in the format's messages.
    fn tensor_rules(&self) -> &'static [TensorRule] {
        &[]
    }

    /// Returns the rule that locates the LoD (level of detail) of tensors in the format's messages.
    /// Default: `None`, meaning that the messages contain no LoD.
    fn lod_rule(&self) -> Option<&'static LodRule> {
        None
    }

    /// Returns the tensors in a message, if [`tensor_rules`](Self::tensor_rules) can't determine
    /// their names. Called for messages in chunks, and for messages [read by
    /// position](Registry::open_reader). Each tensor is
    /// [located](crate::tensor::TensorInfo::located) at its path. Default: `None`, meaning that the
    /// rules locate and name the tensors.
    ///
    /// # Errors
    ///
    /// If the tensors' headers can't be read.
    fn tensors_in_message(&self, message: Arc<dyn ReadAt>) -> Result<Option<Vec<PlacedTensor>>> {
        drop(message);
        Ok(None)
    }

    /// Returns an input's properties, as names and values, for reports. Default: the properties of
    /// its archive.
    ///
    /// # Errors
    ///
    /// If the properties can't be read.
    fn properties(&self, opened: &Opened) -> Result<Vec<(String, String)>> {
        let archive = opened.archive();
        archive.map_or_else(|| Ok(Vec::new()), Archive::properties)
    }

    /// Returns the forms that an input can be converted to, the most common first. Default: none.
    fn targets(&self) -> &'static [ConvertTarget] {
        &[]
    }

    /// Returns the forms in which the format can write suitable messages of any other format, for
    /// example messages with a repeated field. Default: none.
    fn targets_of_any(&self) -> &'static [ConvertTarget] {
        &[]
    }

    /// Returns the settings for [`convert`](Self::convert). Default: none.
    fn convert_settings(&self) -> &'static [ConvertSetting] {
        &[]
    }

    /// Returns the form, one of [`targets`](Self::targets), in which to write a changed message if
    /// the opened input is composed of several files. Default: `None`, meaning that a changed
    /// message is written to one file.
    fn form_of(&self, opened: &Opened) -> Option<&'static ConvertTarget> {
        let _ = opened;
        None
    }

    /// Converts an input to one of [`targets`](Self::targets). Outputs appear complete or not at
    /// all, and existing files are overwritten only if the options allow it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the format has no such target (the default implementation
    /// supports no targets); any error from reading or writing.
    fn convert(
        &self,
        opened: &Opened,
        target: &ConvertTarget,
        output: &Path,
        options: &ConvertOptions,
    ) -> Result<Converted> {
        let _ = (opened, output, options);
        Err(no_target(self.title(), target.name))
    }
}

/// Returns the error for a format that can't write the requested form.
#[cold]
fn no_target(title: &str, target: &str) -> Error {
    let message = format!("there is no form {target:?} for a file of the kind {title}");
    Error::new(ErrorKind::InvalidConfig, message)
}
