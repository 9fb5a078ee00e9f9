//! The SameDiff formats, for the format registry.

mod properties;
mod tensors;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use proto_splitter_core::atomic::MadeFrom;
use proto_splitter_core::formats::{
    Candidate, CandidateKind, Confidence, ConvertOptions, ConvertSetting, ConvertTarget, Converted,
    Format, OpenOptions, Opened,
};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use crate::bridge::import_open;
use crate::limits::SameDiffLimits;
use crate::{
    Draft, Model, ModelOptions, SameDiffWriteOptions, TagContent, TagView, bridge, layout,
    left_out_of_classic, write_classic, write_safetensors, zip,
};
use tensors::Tensors;

/// Default name of the tag that an import creates.
pub const IMPORTED_TAG: &str = "model";

/// The conversion setting that names a tag.
const TAG: &str = "tag";

const SETTINGS: &[ConvertSetting] = &[ConvertSetting {
    name: TAG,
    title: "tag to write; for an import, the tag to create",
    is_size: false,
    forms: &["samediff", "fb", "safetensors"],
}];

const SAMEDIFF: ConvertTarget = ConvertTarget {
    name: "samediff",
    title: "SameDiff zip model",
};
const CLASSIC: ConvertTarget = ConvertTarget {
    name: "fb",
    title: "classic SameDiff file",
};
const SAFETENSORS: ConvertTarget = ConvertTarget {
    name: "safetensors",
    title: "safetensors file of a tag's parameters",
};

/// SameDiff models: the zip format, and the older classic, SDNB and SDZ files.
///
/// Tensors are called `TAG/NAME`, and the states of updaters `TAG/updater/NAME#0`, `#1` and so on.
/// A name without a tag refers to the newest tag. An input that isn't in the zip format has one
/// tag, [`IMPORTED_TAG`]. The conversion setting `tag` names the tag to write or, for an import,
/// the tag to create.
///
/// ```
/// use proto_splitter_core::formats::{ConvertOptions, Format, OpenOptions, Registry};
/// use proto_splitter_samediff::{SafetensorsFormat, SameDiffFormat};
///
/// static FORMATS: Registry = Registry::new(&[&SameDiffFormat, &SafetensorsFormat]);
///
/// // One tensor "w" of two bytes.
/// let header = br#"{"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}"#;
/// let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
/// bytes.extend(header);
/// bytes.extend([7, 9]);
/// let folder = tempfile::tempdir()?;
/// let [tensors, model] = ["w.safetensors", "model.zip"].map(|name| folder.path().join(name));
/// std::fs::write(&tensors, bytes)?;
///
/// let opened = FORMATS.open(&tensors, &OpenOptions::new())?;
/// let options = ConvertOptions::new().setting("tag", "first");
/// let to = &SafetensorsFormat.targets()[0];
/// SafetensorsFormat.convert(&opened, to, &model, &options)?;
///
/// let opened = FORMATS.open(&model, &OpenOptions::new())?;
/// assert_eq!(opened.format().map(|format| format.name()), Some("samediff"));
/// assert_eq!(opened.tensor("first/w")?.info().shape, [2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SameDiffFormat;

impl Format for SameDiffFormat {
    fn name(&self) -> &'static str {
        "samediff"
    }

    fn title(&self) -> &'static str {
        "SameDiff model"
    }

    fn recognize(&self, candidate: &Candidate<'_>) -> Option<Confidence> {
        if candidate.kind() != CandidateKind::File {
            return None;
        }
        let head = candidate.head();
        let is_zip = head.starts_with(bridge::ZIP_MAGIC);
        // The name of an archive's first entry is at offset 30.
        let first = head.get(30..).unwrap_or_default();
        let extension = candidate.extension();
        match extension.as_deref() {
            _ if is_zip && first.starts_with(layout::TAGS.as_bytes()) => Some(Confidence::Certain),
            _ if head.starts_with(bridge::SDNB_MAGIC) => Some(Confidence::Certain),
            Some("sdz") if is_zip => Some(Confidence::Likely),
            _ if is_zip => recognize_archive(candidate, first),
            // A FlatBuffer begins with no distinguishing bytes, and other formats also use this
            // extension.
            Some("fb" | "sd") => Some(Confidence::Possible),
            _ => None,
        }
    }

    fn open(&self, input: &Candidate<'_>, _options: &OpenOptions) -> Result<Opened> {
        let path = input.local_path()?;
        let file = input.source()?;
        let tensors = match Any::of_file(Arc::clone(&file), path)? {
            Any::Model(model) => Tensors::of_model(model)?,
            Any::Imported(content) => Tensors::of_import(&content, Some(IMPORTED_TAG)),
        };
        Ok(Opened::of_archive(tensors.of_file(file)).reading([path]))
    }

    fn targets(&self) -> &'static [ConvertTarget] {
        &[SAMEDIFF, CLASSIC, SAFETENSORS]
    }

    fn convert_settings(&self) -> &'static [ConvertSetting] {
        SETTINGS
    }

    fn convert(
        &self,
        opened: &Opened,
        target: &ConvertTarget,
        output: &Path,
        options: &ConvertOptions,
    ) -> Result<Converted> {
        convert(opened, target, output, options)
    }
}

/// Safetensors files, which contain named tensors. They can be converted to SameDiff models.
///
/// [`SameDiffFormat`] has an example.
#[derive(Clone, Copy, Debug, Default)]
pub struct SafetensorsFormat;

impl Format for SafetensorsFormat {
    fn name(&self) -> &'static str {
        "safetensors"
    }

    fn title(&self) -> &'static str {
        "safetensors file"
    }

    fn recognize(&self, candidate: &Candidate<'_>) -> Option<Confidence> {
        let named = candidate.extension().as_deref() == Some("safetensors");
        let known = bridge::safetensors_header(candidate.head(), candidate.size()).is_some();
        // Other formats that store models in safetensors files recognize these with more
        // confidence.
        (named && known).then_some(Confidence::Likely)
    }

    fn open(&self, input: &Candidate<'_>, _options: &OpenOptions) -> Result<Opened> {
        let path = input.local_path()?;
        let file = input.source()?;
        let content = import_open(Arc::clone(&file), path)?;
        let tensors = Tensors::of_import(&content, None).of_file(file);
        Ok(Opened::of_archive(tensors).reading([path]))
    }

    fn targets(&self) -> &'static [ConvertTarget] {
        &[SAMEDIFF, CLASSIC]
    }

    fn convert_settings(&self) -> &'static [ConvertSetting] {
        SETTINGS
    }

    fn convert(
        &self,
        opened: &Opened,
        target: &ConvertTarget,
        output: &Path,
        options: &ConvertOptions,
    ) -> Result<Converted> {
        convert(opened, target, output, options)
    }
}

/// Looks for a model in a zip archive whose first entry is called `first`. Other writers may put
/// the list of tags after other entries. If the archive is truncated or lacks the list, any other
/// file of a model suffices, so that opening the archive reports the problem.
fn recognize_archive(candidate: &Candidate<'_>, first: &[u8]) -> Option<Confidence> {
    let file = candidate.source().ok()?;
    let Ok(archive) = zip::Archive::open(file, &SameDiffLimits::new()) else {
        let first = first.split(|byte| !byte.is_ascii_graphic()).next();
        let begins = layout::is_of_model(&String::from_utf8_lossy(first.unwrap_or_default()));
        return begins.then_some(Confidence::Possible);
    };
    let directory = archive.directory();
    if directory.find(layout::TAGS).is_some() {
        return Some(Confidence::Certain);
    }
    let mut files = directory.files();
    let almost = files.any(|(_, record)| layout::is_of_model(&record.name));
    almost.then_some(Confidence::Possible)
}

fn convert(
    opened: &Opened,
    target: &ConvertTarget,
    output: &Path,
    options: &ConvertOptions,
) -> Result<Converted> {
    let [path, ..] = opened.files() else {
        let message = "the model is not in a file";
        return Err(Error::new(ErrorKind::InvalidConfig, message));
    };
    if let Some(setting) = options.get_settings().keys().find(|name| *name != TAG) {
        let message = format!("a conversion of a SameDiff model has no setting {setting:?}");
        return Err(Error::new(ErrorKind::InvalidConfig, message));
    }
    let tag = options.get_settings().get(TAG).map(String::as_str);
    let writing = SameDiffWriteOptions::new()
        .made_from(MadeFrom::Edited(opened.files().to_vec()))
        .force(options.get_force())
        .progress(options.get_progress().clone());
    let any = match opened.archive().and_then(Tensors::file_of) {
        Some(file) => Any::of_file(file, path)?,
        None => Any::open(path)?,
    };
    let (bytes, left_out) = write(any, target, tag, output, &writing)?;
    let converted = Converted::new(vec![output.to_owned()], bytes);
    Ok(left_out.into_iter().fold(converted, Converted::note))
}

/// Converts a file. Returns the number of bytes written, and a line that describes the content that
/// was left out.
fn write(
    any: Any,
    target: &ConvertTarget,
    tag: Option<&str>,
    output: &Path,
    options: &SameDiffWriteOptions,
) -> Result<(u64, Option<String>)> {
    if *target == SAMEDIFF {
        let draft = match (any, tag) {
            (Any::Model(model), None) => Draft::open(&model)?,
            (Any::Model(model), Some(tag)) => {
                let mut draft = Draft::open(&model)?;
                draft.extract_tag(tag)?;
                draft
            }
            (Any::Imported(content), tag) => imported(content, tag)?,
        };
        return Ok((draft.write(output, options)?.size, None));
    }
    // Other formats are written from a model, so an import is first converted to one.
    let folder = tempfile::tempdir()?;
    let model = match any {
        Any::Model(model) => model,
        Any::Imported(content) => {
            let between = folder.path().join("model.zip");
            imported(content, tag)?.write(&between, &SameDiffWriteOptions::new())?;
            Model::open(&between)?
        }
    };
    let tag: TagView<'_> = match tag {
        Some(tag) => model.tag(tag)?,
        None => model.default_tag(),
    };
    Ok(match target.name {
        "fb" => {
            let bytes = write_classic(&tag, output, options)?;
            (bytes, left_out_of_classic(&tag)?)
        }
        "safetensors" => (write_safetensors(&tag, output, options)?, None),
        other => {
            let message = format!("there is no form {other:?} for a SameDiff model");
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
    })
}

fn imported(content: TagContent, tag: Option<&str>) -> Result<Draft> {
    let mut draft = Draft::new();
    draft.add_tag(tag.unwrap_or(IMPORTED_TAG).parse()?, content)?;
    Ok(draft)
}

/// A model, or the content of another format.
enum Any {
    Model(Model),
    Imported(TagContent),
}

impl Any {
    fn open(path: &Path) -> Result<Any> {
        let file = File::open(path);
        let file = file.map_err(|error| Error::from(error).in_file(path))?;
        Any::of_file(Arc::new(file), path)
    }

    /// Reads a model from an open file.
    fn of_file(file: Arc<dyn ReadAt>, path: &Path) -> Result<Any> {
        let content = match import_open(Arc::clone(&file), path) {
            Ok(content) => content,
            // The file already has tags, or content that this format can't represent.
            Err(error) if error.kind() == crate::ErrorKind::NotConvertible => {
                return match Model::of_file(file, path, &ModelOptions::new()) {
                    Err(other) if other.kind() == crate::ErrorKind::NotAnArchive => {
                        Err(error.into())
                    }
                    opened => Ok(Any::Model(opened?)),
                };
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Any::Imported(content))
    }
}
