//! Writing an input in another of its format's forms, or as a file in chunks.

mod folders;
mod forms;
mod options;
#[cfg(feature = "tensorflow")]
mod saved_model;

use std::path::{Path, PathBuf};

use proto_splitter_core::atomic::MadeFrom;
use proto_splitter_core::container::{is_named_chunked, prefix_of};
use proto_splitter_core::formats::{ConvertOptions, ConvertTarget, Format, Opened};
use proto_splitter_core::split::SplitExt;
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::error_place::at;
use crate::size::parse_size;
use folders::MadeFolders;
pub use forms::{CHUNKS, FormInfo, FormSetting, FormsReport, form, forms, targets};
pub use options::ConversionOptions;
use options::USUAL;
#[cfg(feature = "tensorflow")]
pub use saved_model::{ConvertSavedModelReport, convert_saved_model};

/// Name that reports use as the format's name for an input without a format.
const MESSAGE: &str = "message";

/// The result of [`convert`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ConvertReport {
    /// Name of the input's format; `message` if it has none.
    pub format: &'static str,
    /// Name of the form that was written.
    pub to: &'static str,
    /// Paths of the files that were written, the main file first.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::paths"))]
    pub files: Vec<PathBuf>,
    /// Total size of the written files, in bytes.
    pub output_bytes: u64,
    /// Notes for the user, one line each.
    pub notes: Vec<String>,
    /// Paths of the files that an earlier split to the same output had written, and that were
    /// removed because overwriting is allowed.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub removed_files: Vec<PathBuf>,
}

/// Writes an input in another form, and creates the missing parent folders of the output. [`forms`]
/// lists the forms.
///
/// Any message can be written in chunks, even a small one: with the form [`CHUNKS`], or with an
/// output name that ends in `.cpb`.
///
/// ```
/// use proto_splitter_core::ErrorKind;
/// use proto_splitter_core::formats::{OpenOptions, Opened};
/// use proto_splitter_ops::{ConversionOptions, convert};
/// use prost_reflect::{ReflectMessage, prost_types::FileDescriptorProto};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("message.pb");
/// std::fs::write(&path, b"\x0a\x01n")?;
/// let root = FileDescriptorProto::default().descriptor();
/// let input = Opened::of_file(&path, Some(root), &OpenOptions::new())?;
/// let report = convert(&input, folder.path().join("new/message.cpb"), &ConversionOptions::new())?;
/// assert_eq!(report.files, [folder.path().join("new/message.cpb")]);
///
/// // The format of these bytes is unknown, and no format here writes any message.
/// let options = ConversionOptions::new().to("external");
/// let refused = convert(&input, folder.path().join("other/model"), &options);
/// assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidConfig);
/// assert!(!folder.path().join("other").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// - [`ErrorKind::InvalidConfig`] if the input can't be written in the form, the form doesn't have
///   one of the settings, or the output is one of the input's files.
/// - [`ErrorKind::AlreadyExists`] if the output exists and overwriting isn't allowed.
/// - Any error if the input is damaged or incomplete, or reading or writing fails. In that case,
///   the created folders are removed again.
pub fn convert(
    input: &Opened,
    output: impl AsRef<Path>,
    options: &ConversionOptions,
) -> Result<ConvertReport> {
    let output = output.as_ref();
    if is_in_chunks(output, options.get_to())? {
        to_chunks(input, output, options)
    } else {
        to_form(input, output, options)
    }
}

/// Returns true if a chunked file is requested by `to` or, if `to` is [`USUAL`], by the extension
/// of `output`.
fn is_in_chunks(output: &Path, to: &str) -> Result<bool> {
    let is_named = is_named_chunked(output);
    match to {
        CHUNKS => Ok(true),
        USUAL => Ok(is_named),
        other if is_named => Err(invalid(format!(
            "{}: a .cpb is a file in chunks, but the form {other} isn't",
            output.display()
        ))),
        _ => Ok(false),
    }
}

/// Returns the settings for writing the output, without those that affect only how the input is
/// opened.
fn written_settings<'a>(
    input: &'a Opened,
    options: &'a ConversionOptions,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let format = input.format().filter(|_| input.chunked().is_none());
    let opening = format.map_or(&[][..], |format| format.open_settings());
    let settings = options.get_settings().iter();
    let settings = settings.map(|(name, value)| (name.as_str(), value.as_str()));
    settings.filter(move |(name, _)| !opening.contains(name))
}

/// Writes an input in the form that the options name.
fn to_form(input: &Opened, output: &Path, options: &ConversionOptions) -> Result<ConvertReport> {
    let (writer, form) = form(input, options.get_to())?;
    let split = options.get_split();
    let mut converting = ConvertOptions::new()
        .force(split.get_force())
        .threads(split.get_threads())
        .progress(split.get_progress().clone());
    for (name, value) in written_settings(input, options) {
        converting = converting.setting(name, setting(writer, form, name, value)?);
    }
    if let Some(bytes) = options.get_max_file_size() {
        let name = "max-file-size";
        converting = converting.setting(name, setting(writer, form, name, &bytes.to_string())?);
    }
    let folders = MadeFolders::around(output)?;
    let converted = writer
        .convert(input, form, output, &converting)
        .map_err(|error| at(input, error))?;
    folders.keep();
    Ok(ConvertReport {
        format: input.format().map_or(MESSAGE, |format| format.name()),
        to: form.name,
        files: converted.files,
        output_bytes: converted.bytes,
        notes: converted.notes,
        removed_files: Vec::new(),
    })
}

/// Returns the value of a setting as text for the format, with a size converted to a number of
/// bytes.
fn setting(writer: &dyn Format, form: &ConvertTarget, name: &str, value: &str) -> Result<String> {
    let known = writer.convert_settings();
    let Some(known) = known.iter().find(|known| known.name == name) else {
        // The format rejects an unknown setting with an error that lists the known ones.
        return Ok(value.to_owned());
    };
    if !known.forms.contains(&form.name) {
        let forms = known.forms.join(", ");
        let message = format!(
            "{name}: doesn't apply to the form {}, only to {forms}",
            form.name
        );
        return Err(invalid(message));
    }
    if !known.is_size {
        return Ok(value.to_owned());
    }
    parse_size(value)
        .map(|bytes| bytes.to_string())
        .map_err(|why| invalid(format!("{name} must be a number of bytes: {why}")))
}

/// Writes the message of an input of any format as a chunked file.
fn to_chunks(input: &Opened, output: &Path, options: &ConversionOptions) -> Result<ConvertReport> {
    if options.get_max_file_size().is_some() {
        let message = "max-file-size: a conversion writes one file of chunks; use a split instead";
        return Err(invalid(message));
    }
    if let Some((name, _)) = written_settings(input, options).next() {
        return Err(invalid(format!("{name}: a chunked file has no settings")));
    }
    let failed = |error| at(input, error);
    let message = input.source().map_err(failed)?;
    MadeFrom::files(input.files()).check_apart(output)?;
    let splitter = input.registry().splitter(message.descriptor().full_name());
    let folders = MadeFolders::around(output)?;
    let splitting = options.get_split().clone().always_chunked(true);
    let written = splitter
        .write_with(message, prefix_of(output), &splitting)
        .map_err(failed)?;
    folders.keep();
    Ok(ConvertReport {
        format: input.format().map_or(MESSAGE, |format| format.name()),
        to: CHUNKS,
        files: vec![written.path],
        output_bytes: written.output_size,
        notes: Vec::new(),
        removed_files: written.removed_files,
    })
}

/// Creates an error about a form or a setting.
fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}
