//! A room for every format: what a format is, and what an input is once it is open.
//!
//! A *format* is how some program stores its models or messages: GraphDef, SavedModel, ONNX, a
//! checkpoint. All that is particular to one is behind the trait [`Format`]: how an input is
//! recognised, which message it is, how that is split, what its members are called, and how a
//! tensor in it is read. Nothing else in the workspace knows a format by name. A [`Registry`] is a
//! list of formats; the crate `proto-splitter` has one of all that ship.
//!
//! An input that is open is an [`Opened`]: a message, wherever its bytes are, or an [`Archive`] of
//! named tensors, or both.
//!
//! # A format of your own
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
//! // One line in a list, and every command knows it.
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
//! Such a format says its types with [`descriptor_pool`](Format::descriptor_pool) and
//! [`message_types`](Format::message_types), and opens an input by
//! [`Opened::of_input`], for a message that is a file, or [`Opened::of_reader`], for one that is
//! put together from several. Both are read in place. Tensors in it are found by
//! [`tensor_rules`](Format::tensor_rules), without code. Files in chunks (`.cpb`) need nothing of a
//! format: the registry opens them, and knows the format by the type that the file says.
//!
//! # A format whose files are records
//!
//! A file that begins as one of records is a message in chunks, unless a format is
//! [certain](Confidence::Certain) that it is its own: one that reads the first record by
//! [`Candidate::source`], and finds there what only its files have.

mod archive;
mod candidate;
mod convert;
mod foreign;
mod open;
mod opened;
mod options;
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
pub use foreign::what_else;
pub use opened::Opened;
pub use options::OpenOptions;
pub use registry::Registry;

use crate::size_tree::NameRule;
use crate::split::ComposableSplitter;
use crate::tensor::{PlacedTensor, TensorRule};
use crate::{Error, ErrorKind, Result};

/// What is particular to one format.
///
/// A format is a value without state, listed in a [`Registry`]. Methods with a default are for what
/// only some formats have. See the [module](self) for a whole one.
pub trait Format: Debug + Send + Sync {
    /// What it is called in options and reports: one lower-case word, as `onnx`.
    fn name(&self) -> &'static str;

    /// What an input of it is called in a sentence, without an article, as `ONNX model`.
    fn title(&self) -> &'static str;

    /// Whether an input is of this format, and how sure that is. Of several formats the surest is
    /// taken, and of equals the first in the list.
    ///
    /// A file of records is the format's only if this is [certain](Confidence::Certain). Else it is a
    /// message in chunks, and the name tells at most its type.
    fn recognize(&self, candidate: &Candidate<'_>) -> Option<Confidence>;

    /// Opens an input that was recognised, or that the user says is of this format. Headers are
    /// read and checked, no data is.
    ///
    /// The input may be an object in a store. A format that reads local files only takes
    /// [`Candidate::local_path`]; one that reads [`Candidate::source`] opens no file again.
    ///
    /// # Errors
    ///
    /// If the input can't be read or isn't of this format; [`ErrorKind::NeedsFile`] if it isn't a
    /// local file, and has to be.
    fn open(&self, input: &Candidate<'_>, options: &OpenOptions) -> Result<Opened>;

    /// What [`OpenOptions::settings`] there are for an input of it; none by default.
    fn open_settings(&self) -> &'static [&'static str] {
        &[]
    }

    /// The one file that the message of a folder is in, where a folder is a message and other files
    /// around it; by default none. Commands that write such a folder anew replace that file.
    fn main_file(&self, folder: &Path) -> Option<PathBuf> {
        let _ = folder;
        None
    }

    /// The file that a folder stands for, where an input is a file and its folder is just where it
    /// lies; by default none. Commands that take the file take such a folder.
    fn file_in(&self, folder: &Path) -> Option<PathBuf> {
        let _ = folder;
        None
    }

    /// The types of the messages that inputs are, and of all they reach; none for formats without
    /// messages.
    fn descriptor_pool(&self) -> Option<&'static DescriptorPool> {
        None
    }

    /// The full names of the types that an input may be as a whole, as `onnx.ModelProto`. A message
    /// of one of these types is of this format, wherever it was found.
    fn message_types(&self) -> &'static [&'static str] {
        &[]
    }

    /// Which of [`message_types`](Self::message_types) the input at a path is, as far as its files
    /// tell; by default the first.
    fn message_type(&self, path: &Path) -> Option<&'static str> {
        let _ = path;
        self.message_types().first().copied()
    }

    /// What the file is that goes with an input and may be named by
    /// [`OpenOptions::companion`], as `program`; none if inputs go with no other file, as by
    /// default.
    fn companion(&self) -> Option<&'static str> {
        None
    }

    /// Whether messages of this type are what several files are seen as, and no file by themselves; by
    /// default not. In chunks, such a message says its type.
    fn is_made_of_files(&self, message_type: &str) -> bool {
        let _ = message_type;
        false
    }

    /// The splitter for messages of this type; none if sizes alone are the guide.
    fn splitter(&self, message_type: &str) -> Option<&'static (dyn ComposableSplitter + Sync)> {
        let _ = message_type;
        None
    }

    /// What the members of repeated fields and maps are called, for reports.
    fn member_names(&self) -> &'static [NameRule] {
        &[]
    }

    /// How tensors are stored in its messages.
    fn tensor_rules(&self) -> &'static [TensorRule] {
        &[]
    }

    /// The tensors of a message that is in chunks, or that is [read by
    /// position](Registry::open_reader), where what they are called doesn't follow from
    /// [`tensor_rules`](Self::tensor_rules). Each is [located](crate::tensor::TensorInfo::located) at its path.
    /// `None`, as by default: the rules find them and name them.
    ///
    /// # Errors
    ///
    /// If what they say of themselves can't be read.
    fn tensors_in_message(&self, message: Arc<dyn ReadAt>) -> Result<Option<Vec<PlacedTensor>>> {
        drop(message);
        Ok(None)
    }

    /// What an input says of itself, as names and values, for reports; by default what its archive says.
    ///
    /// # Errors
    ///
    /// If it can't be read.
    fn properties(&self, opened: &Opened) -> Result<Vec<(String, String)>> {
        let archive = opened.archive();
        archive.map_or_else(|| Ok(Vec::new()), Archive::properties)
    }

    /// The forms that an input can be converted to, the usual one first.
    fn targets(&self) -> &'static [ConvertTarget] {
        &[]
    }

    /// The settings that [`convert`](Self::convert) knows; none by default.
    fn convert_settings(&self) -> &'static [ConvertSetting] {
        &[]
    }

    /// The form, one of [`targets`](Self::targets), that an opened input keeps when its message is
    /// changed: where several files make the message. `None`, as by default, if a changed message is
    /// written to one file.
    fn form_of(&self, opened: &Opened) -> Option<&'static ConvertTarget> {
        let _ = opened;
        None
    }

    /// Writes an input in another form: one of [`targets`](Self::targets). Outputs appear complete
    /// or not at all, and nothing is overwritten unless the options say so.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the format has no such target, as by default; what stands in
    /// the way of reading and writing.
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

/// The error of a format that can't write a form.
#[cold]
fn no_target(title: &str, target: &str) -> Error {
    let message = format!("there is no form {target:?} for a file of the kind {title}");
    Error::new(ErrorKind::InvalidConfig, message)
}
