//! The SameDiff and safetensors formats as implementations of the trait [`Format`].

mod properties;
mod tensors;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use proto_splitter_core::atomic::{MadeFrom, check_space};
use proto_splitter_core::formats::{
    Candidate, CandidateKind, Confidence, ConvertOptions, ConvertSetting, ConvertTarget, Converted,
    Format, OpenOptions, Opened,
};
use proto_splitter_core::spans::first_bytes;
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use crate::bridge::import_open;
use crate::limits::SameDiffLimits;
use crate::{
    Draft, Model, ModelOptions, SameDiffWriteOptions, TagContent, TagView, bridge, layout,
    left_out_of_classic, write_classic, write_safetensors, zip,
};
use tensors::Tensors;

/// Default name of the tag that the import of another format creates.
pub const IMPORTED_TAG: &str = "model";

/// Name of the conversion setting that specifies a tag.
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

/// SameDiff models: zip archives with one or more versions of a model, each with a tag, and files
/// in three older formats: classic, SDNB and SDZ.
///
/// The tensor of a parameter is called `TAG/NAME`. The tensors of an updater's states are called
/// `TAG/updater/NAME#0`, `#1` and so on. A name without a tag refers to the newest tag. A file in
/// one of the older formats is read as a model with a single tag, [`IMPORTED_TAG`]. The conversion
/// setting `tag` specifies the tag to write or, for a file in another format, the tag to create.
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
        // The local header of an archive's first entry stores the entry's name at offset 30.
        let first = head.get(30..).unwrap_or_default();
        let extension = candidate.extension();
        match extension.as_deref() {
            _ if is_zip && first.starts_with(layout::TAGS.as_bytes()) => Some(Confidence::Certain),
            _ if head.starts_with(bridge::SDNB_MAGIC) => Some(Confidence::Certain),
            Some("sdz") if is_zip => Some(Confidence::Likely),
            _ if is_zip => recognize_archive(candidate, first),
            // A FlatBuffer has no magic bytes at its beginning, and other formats also use this
            // extension.
            Some("fb" | "sd") => Some(Confidence::Possible),
            _ => None,
        }
    }

    fn open(&self, input: &Candidate<'_>, _options: &OpenOptions) -> Result<Opened> {
        let path = input.local_path()?;
        let file = input.source()?;
        let any = Any::of_file(Arc::clone(&file), path)?;
        let files = match &any {
            Any::Model(_) => vec![path.to_owned()],
            Any::Imported(content) => content.files().to_vec(),
        };
        let tensors = match any {
            Any::Model(model) => Tensors::of_model(model)?,
            Any::Imported(content) => Tensors::of_import(&content, Some(IMPORTED_TAG))?,
        };
        Ok(Opened::of_archive(tensors.of_file(file)).reading(files))
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
        // Formats whose models are safetensors files recognize these files with more confidence.
        (named && known).then_some(Confidence::Likely)
    }

    fn open(&self, input: &Candidate<'_>, _options: &OpenOptions) -> Result<Opened> {
        let path = input.local_path()?;
        let file = input.source()?;
        let content = import_open(Arc::clone(&file), path)?;
        let tensors = Tensors::of_import(&content, None)?.of_file(file);
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

/// Recognizes a model in a zip archive whose first entry's name begins with `first`. The list of
/// tags may be any entry, since other writers don't put it first. If the archive is truncated or
/// has no list of tags, another entry of a model suffices, so that the file is opened and the
/// problem is reported.
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
    // If the model is in shards, the file that was opened is the first.
    let [path, ..] = opened.files() else {
        let message = "the model is not in a file";
        return Err(Error::new(ErrorKind::InvalidConfig, message));
    };
    options.check_settings(&[TAG])?;
    let tag = options.get_settings().get(TAG).map(String::as_str);
    let writing = SameDiffWriteOptions::new()
        .made_from(MadeFrom::files(opened.files()))
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

/// Converts a model to the target format. Returns the number of bytes written, and a description of
/// the content that the target format can't contain, if any.
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
    // The other target formats are written from a model, so first converts imported content to a
    // model.
    let folder = tempfile::tempdir()?;
    let model = match any {
        Any::Model(model) => model,
        Any::Imported(content) => {
            let between = folder.path().join("model.zip");
            let draft = imported(content, tag)?;
            check_space(&between, draft.total())?;
            let writing = SameDiffWriteOptions::new().progress(options.progress.clone());
            draft.write(&between, &writing)?;
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

/// A model, or content that was imported from another format.
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

    /// Reads a model or a file in another format.
    fn of_file(file: Arc<dyn ReadAt>, path: &Path) -> Result<Any> {
        Ok(if has_tags(&file) {
            Any::Model(Model::of_file(file, path, &ModelOptions::new())?)
        } else {
            Any::Imported(import_open(file, path)?)
        })
    }
}

/// Returns true for an archive with a list of tags, which only models have. What is wrong with
/// another file is reported when it is imported.
fn has_tags(file: &Arc<dyn ReadAt>) -> bool {
    let head = first_bytes(file, bridge::ZIP_MAGIC.len() as u64);
    if !head.is_ok_and(|head| head == bridge::ZIP_MAGIC) {
        return false;
    }
    let archive = zip::Archive::open(Arc::clone(file), &SameDiffLimits::new());
    archive.is_ok_and(|archive| archive.directory().find(layout::TAGS).is_some())
}
