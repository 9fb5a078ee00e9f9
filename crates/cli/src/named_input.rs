//! Opening inputs by name, for programs that call the library's operations instead of the command.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use proto_splitter::merge::Limits;
use proto_splitter::ops::{
    self, ConversionOptions, ConvertReport, ConvertSavedModelReport, LeastSize, MeasuredTree,
    TreeOptions, TreeReport, VerifyOptions, VerifyReport,
};
use proto_splitter::progress::Progress;
use proto_splitter::{Error, Opened, SaveOptions};

use crate::args::SchemaArgs;
use crate::convert;
use crate::failure::{Failed, Failure};
use crate::input::Input;
use crate::open_objects::OpenObjects;
use crate::opening::Opening;
use crate::place::{self, name_file};
use crate::tree::{self, AskedLimits};
use crate::verify;

/// Options for [`open_named`].
///
/// ```
/// use protosplit_cli::NameOptions;
///
/// let options = NameOptions::new().message(Some("tensorflow.GraphDef".into()));
/// assert_eq!(options.get_message(), Some("tensorflow.GraphDef"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct NameOptions {
    message: Option<String>,
    descriptor_set: Option<Vec<u8>>,
    allow_missing_files: bool,
    progress: Progress,
}

impl NameOptions {
    /// Creates the default options.
    #[must_use]
    pub fn new() -> Self {
        NameOptions::default()
    }

    /// Sets the full name of the message's type. Default: the type that the input, its format, or
    /// the schema next to the input specifies.
    #[must_use]
    pub fn message(mut self, name: Option<String>) -> Self {
        self.message = name;
        self
    }

    /// Sets a compiled schema that defines the message's type, as a serialized `FileDescriptorSet`.
    /// Default: none.
    #[must_use]
    pub fn descriptor_set(mut self, set: Option<Vec<u8>>) -> Self {
        self.descriptor_set = set;
        self
    }

    proto_splitter::record_file::options! {
        /// Sets whether external files that the input refers to may be missing. Default: false.
        const allow_missing_files, get_allow_missing_files: bool;

        /// Sets progress reporting and cancellation. Default: none.
        ref progress, get_progress: Progress;
    }

    pub(crate) fn schema(&self) -> SchemaArgs {
        SchemaArgs {
            message: self.message.clone(),
            given: self.descriptor_set.clone(),
            ..SchemaArgs::default()
        }
    }

    pub(crate) fn opening<'a>(&self, schema: &'a SchemaArgs, objects: &OpenObjects) -> Opening<'a> {
        Opening::new(schema, Limits::new(), objects)
            .looked_at(self.allow_missing_files)
            .progress(self.progress.clone())
    }

    /// Returns the full name of the message's type, if it was set.
    pub fn get_message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// Returns the compiled schema that defines the message's type, if it was set.
    pub fn get_descriptor_set(&self) -> Option<&[u8]> {
        self.descriptor_set.as_deref()
    }
}

/// An input that [`open_named`] has opened.
#[derive(Debug)]
pub struct NamedInput(Input);

impl NamedInput {
    /// Returns the path of the file that contains the message or, if the message is assembled from
    /// several files, the name of the input.
    pub fn file(&self) -> &Path {
        self.0.file()
    }

    /// Returns the path of the folder if the input was named by its folder, otherwise the path of
    /// the file.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Deref for NamedInput {
    type Target = Opened;

    fn deref(&self) -> &Opened {
        &self.0
    }
}

/// Opens the input with the given name, as the command does. The name is the path of a file, with or
/// without its extension, or of a folder in a known format. If nothing else specifies the message's
/// type, the schema next to the input does.
///
/// ```
/// use protosplit_cli::{NameOptions, open_named};
///
/// let folder = tempfile::tempdir()?;
/// std::fs::write(folder.path().join("numbers.pb"), [0x08, 0x07])?;
/// let input = open_named(&folder.path().join("numbers"), &NameOptions::new()).unwrap();
/// assert!(input.file().ends_with("numbers.pb"));
/// assert_eq!(input.bytes()?[..], [0x08, 0x07]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Fails, like the command, if the input doesn't exist, has an unknown type, or is damaged.
pub fn open_named(name: &Path, options: &NameOptions) -> Result<NamedInput, Failed> {
    let schema = options.schema();
    let opening = options.opening(&schema, &OpenObjects::default());
    Ok(NamedInput(opening.open(&file_of(name))?))
}

/// Opens the named input, and verifies it with [`ops::verify`](proto_splitter::ops::verify) and the
/// given options. If `original` names a message in one piece, the input is compared with that
/// message.
///
/// # Errors
///
/// The errors of [`open_named`]. A chunked file that is too damaged to be opened isn't an error,
/// but is reported as a problem. Also fails, like the command, if the message can't be parsed or
/// compared.
pub fn verify_named(
    name: &Path,
    options: &NameOptions,
    original: Option<&Path>,
    asked: VerifyOptions<'_>,
) -> Result<VerifyReport, Failed> {
    let schema = options.schema();
    let opening = options.opening(&schema, &OpenObjects::default());
    let original = original.map(|original| verify::open_original(original, opening.clone()));
    let original = original.transpose()?;
    let place = place::locate(&file_of(name), &schema.companion)?;
    let file = place.file.clone();
    let input = match opening.open_at(place) {
        Ok(input) => input,
        Err(failure) => {
            return verify::unreadable(&file, &failure).ok_or_else(|| failure.into());
        }
    };
    let asked = asked
        .against(original.as_deref())
        .folder(input.folder().map(Path::to_owned));
    let report = ops::verify(&input, &asked);
    let mut report = report.map_err(|error| failed(input.path(), &error))?;
    report.file = verify::file_of(&report, &input).to_owned();
    Ok(report)
}

/// The result of [`convert_named`].
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum ConvertedNamed {
    /// Result for an input of any format except a SavedModel folder.
    Files(ConvertReport),
    /// Result for a SavedModel folder.
    SavedModel(ConvertSavedModelReport),
}

/// Writes the named input in another form, with [`ops::convert`](proto_splitter::ops::convert) or,
/// for a SavedModel folder, [`ops::convert_saved_model`](proto_splitter::ops::convert_saved_model).
/// `saving` determines whether a SavedModel's fingerprint is updated.
///
/// ```
/// use proto_splitter::SaveOptions;
/// use proto_splitter::ops::ConversionOptions;
/// use protosplit_cli::{Exit, convert_named};
///
/// let folder = tempfile::tempdir()?;
/// let [input, output] = ["numbers.pb", "new.onnx"].map(|name| folder.path().join(name));
/// std::fs::write(&input, [0x08, 0x07])?;
/// let options = ConversionOptions::new();
/// let failed = convert_named(&input, &output, &options, &SaveOptions::new()).unwrap_err();
/// assert_eq!(failed.exit, Exit::Usage);
/// assert!(!output.exists());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// Fails, like the command, if the input doesn't exist, is damaged, or can't be converted to the
/// form, or if writing fails.
pub fn convert_named(
    name: &Path,
    output: &Path,
    options: &ConversionOptions,
    saving: &SaveOptions,
) -> Result<ConvertedNamed, Failed> {
    place::check_named(output)?;
    let name = file_of(name);
    let opened = convert::open(
        &name,
        &SchemaArgs::default(),
        options,
        &OpenObjects::default(),
    )?;
    if let Some(input) = opened {
        let report = convert::to_form(&input, output, options)?;
        return Ok(ConvertedNamed::Files(report));
    }
    let report = convert::saved_model(&name, Some(output), options, saving)?;
    Ok(ConvertedNamed::SavedModel(report))
}

/// Returns the path of the folder's main file if `name` is a folder in a known format. Any other
/// name is returned unchanged.
pub(crate) fn file_of(name: &Path) -> PathBuf {
    let mut name = name.to_owned();
    name_file(&mut name);
    name
}

/// Returns the error that the command would print for a library error about a file.
pub fn failed(file: &Path, error: &Error) -> Failed {
    Failure::of(file, error).into()
}

/// Limits on the parts that a tree lists. The defaults are those of `protosplit tree`.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamedTreeOptions {
    depth: Option<usize>,
    top: Option<usize>,
    min_size: Option<u64>,
}

impl NamedTreeOptions {
    /// Creates the default options.
    #[must_use]
    pub const fn new() -> Self {
        NamedTreeOptions {
            depth: None,
            top: None,
            min_size: None,
        }
    }

    proto_splitter::record_file::options! {
        /// Sets the maximum depth of listed fields below the root. Default: `None`, which means
        /// unlimited.
        const depth, get_depth: Option<usize>;

        /// Sets the maximum number of elements to list for each repeated field, and of fields to
        /// list for each message. Default: 10 in a report, 5,000 on a page.
        const top, get_top: Option<usize>;

        /// Sets the minimum size of listed parts, in bytes. Default: 1% of the total size in a
        /// report; 0 on a page, or if [`top`](Self::top) is set.
        const min_size, get_min_size: Option<u64>;
    }

    fn asked(&self) -> AskedLimits {
        AskedLimits {
            depth: self.depth,
            top: self.top,
            min_size: self.min_size.map(LeastSize::Bytes),
            ..AskedLimits::default()
        }
    }
}

impl NamedInput {
    /// Measures the input, and returns the sizes of its parts as a report.
    ///
    /// # Errors
    ///
    /// Fails if the input is damaged or can't be read.
    pub fn tree(&self, options: &NamedTreeOptions) -> Result<TreeReport, Failed> {
        let limits = options.asked().of_table();
        let mut report = self
            .measure(&TreeOptions::new().limits(limits))?
            .report(&limits);
        if !self.has_message() {
            report.file = self.path().to_owned();
        }
        Ok(report)
    }

    /// Measures the input, and returns the HTML page that `protosplit tree --html` writes. The page
    /// shows as many parts as fit.
    ///
    /// # Errors
    ///
    /// Fails if the input is damaged or can't be read.
    pub fn tree_page(&self, options: &NamedTreeOptions) -> Result<String, Failed> {
        let limits = options.asked().of_page();
        let enters = options.depth.is_none();
        let measuring = TreeOptions::new().limits(limits).enter_members(enters);
        Ok(tree::page(&self.measure(&measuring)?, limits)?)
    }

    fn measure(&self, options: &TreeOptions) -> Result<MeasuredTree, Failed> {
        let place = if self.has_message() {
            self.file()
        } else {
            self.path()
        };
        MeasuredTree::of(self, options).map_err(|error| failed(place, &error))
    }
}

/// Formats a tree report as the table that `protosplit tree` prints.
pub fn tree_text(report: &TreeReport) -> String {
    tree::plain_text(report)
}
