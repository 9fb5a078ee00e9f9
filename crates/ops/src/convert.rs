//! Writing an input in another form of its format, or in chunks.

mod folders;
mod forms;

use std::path::{Path, PathBuf};

use proto_splitter_core::atomic::MadeFrom;
use proto_splitter_core::container::prefix_of;
use proto_splitter_core::formats::{ConvertOptions, ConvertTarget, Opened};
use proto_splitter_core::split::{Source, SplitExt, SplitOptions};
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::error_place::at;
use folders::MadeFolders;
pub use forms::{CHUNKS, FormInfo, FormSetting, FormsReport, forms, targets};

/// Name of an input without a format, in reports.
const MESSAGE: &str = "message";

/// The result of [`convert`] and [`convert_to_chunks`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ConvertReport {
    /// Name of the input's format; `message` if it has none.
    pub format: &'static str,
    /// Name of the form that was written.
    pub to: &'static str,
    /// Files written, the main one first.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::paths"))]
    pub files: Vec<PathBuf>,
    /// Size of all files, in bytes.
    pub output_bytes: u64,
    /// Notes for the user, one line each.
    pub notes: Vec<String>,
    /// Files of an earlier split that were removed because overwriting is allowed.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub removed_files: Vec<PathBuf>,
}

/// Writes an input in a form of its format, and creates the missing folders that lead to the output. [`forms`] lists the forms.
///
/// ```
/// use proto_splitter_core::ErrorKind;
/// use proto_splitter_core::formats::{ConvertOptions, ConvertTarget, OpenOptions, Opened};
/// use proto_splitter_ops::convert;
///
/// static EXTERNAL: ConvertTarget = ConvertTarget { name: "external", title: "model with its tensors beside it" };
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("message.pb");
/// std::fs::write(&path, b"\x08\x01")?;
/// let input = Opened::of_file(&path, None, &OpenOptions::new())?;
/// // No format is known for these bytes, or writes any message.
/// let refused = convert(&input, &EXTERNAL, folder.path().join("new/model"), &ConvertOptions::new());
/// assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidConfig);
/// assert!(!folder.path().join("new").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// - [`ErrorKind::InvalidConfig`] if the input's format doesn't have the form, or doesn't know a setting.
/// - [`ErrorKind::AlreadyExists`] if the output exists and isn't to be overwritten.
/// - Any error if the input is damaged, or something can't be read or written. Then the created folders are removed again.
pub fn convert(
    input: &Opened,
    form: &ConvertTarget,
    output: impl AsRef<Path>,
    options: &ConvertOptions,
) -> Result<ConvertReport> {
    let output = output.as_ref();
    let Some((writer, known)) = targets(input).find(|(_, known)| known.name == form.name) else {
        let kind = input.format().map_or("message", |format| format.title());
        let message = format!(
            "there is no form {:?} for a file of the kind {kind}",
            form.name
        );
        return Err(Error::new(ErrorKind::InvalidConfig, message));
    };
    let folders = MadeFolders::around(output)?;
    let converted = writer
        .convert(input, form, output, options)
        .map_err(|error| at(input, error))?;
    folders.keep();
    Ok(ConvertReport {
        format: input.format().map_or(MESSAGE, |format| format.name()),
        to: known.name,
        files: converted.files,
        output_bytes: converted.bytes,
        notes: converted.notes,
        removed_files: Vec::new(),
    })
}

/// Writes an input of any format that is a message as a file in chunks, and creates the missing folders that lead to it.
///
/// The output is in chunks even if the message is small: [`always_chunked`](SplitOptions::always_chunked) is set.
///
/// ```
/// use proto_splitter_core::formats::{OpenOptions, Opened};
/// use proto_splitter_core::split::SplitOptions;
/// use proto_splitter_ops::convert_to_chunks;
/// use prost_reflect::{ReflectMessage, prost_types::FileDescriptorProto};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("message.pb");
/// std::fs::write(&path, b"\x0a\x01n")?;
/// let root = FileDescriptorProto::default().descriptor();
/// let input = Opened::of_file(&path, Some(root), &OpenOptions::new())?;
/// let report = convert_to_chunks(&input, folder.path().join("new/message.cpb"), &SplitOptions::new())?;
/// assert_eq!(report.files, [folder.path().join("new/message.cpb")]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// - [`ErrorKind::InvalidConfig`] if the input is in chunks already or isn't a message of a known type, or the output is one of its files.
/// - [`ErrorKind::AlreadyExists`] if the output exists and isn't to be overwritten.
/// - Any error if the input is damaged or incomplete, or something can't be read or written. Then the created folders are removed again.
pub fn convert_to_chunks(
    input: &Opened,
    output: impl AsRef<Path>,
    options: &SplitOptions,
) -> Result<ConvertReport> {
    let output = output.as_ref();
    let (Some((bytes, size)), Some(descriptor)) = (input.plain(), input.descriptor()) else {
        let why = if input.chunked().is_some() {
            "it is in chunks already"
        } else {
            "it has tensors and isn't a message, so it can't be cut into chunks"
        };
        let message = format!("{}: {why}", input.input().display());
        return Err(Error::new(ErrorKind::InvalidConfig, message));
    };
    let failed = |error| at(input, error);
    input.check_complete().map_err(failed)?;
    MadeFrom::files(input.files()).check_apart(output)?;
    let message =
        Source::from_reader(bytes.clone(), size, descriptor.clone()).read_from(input.files());
    let splitter = input.registry().splitter(descriptor.full_name());
    let folders = MadeFolders::around(output)?;
    let options = options.clone().always_chunked(true);
    let written = splitter
        .write_with(message, prefix_of(output), &options)
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
