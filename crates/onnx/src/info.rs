//! What a model says of itself, and whether the files beside it are the ones that were written.

use proto_splitter_core::Result;
use proto_splitter_core::merge::ReadOptions;
use proto_splitter_core::progress::Progress;
use proto_splitter_core::view::MessageView;

use crate::model_descriptor;
use crate::proto::OperatorSetIdProto;
use crate::source::OnnxSource;
use crate::tensors::ModelTensors;

impl OnnxSource {
    /// Compares the `checksum`s in `external_data` with the files, and returns true if there were
    /// any. Reading all data of a file compares them, too.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ChecksumMismatch`] with the file and the tensor; [`ErrorKind::Io`] if a file
    /// can't be read; [`ErrorKind::Cancelled`].
    ///
    /// [`ErrorKind::ChecksumMismatch`]: proto_splitter_core::ErrorKind::ChecksumMismatch
    /// [`ErrorKind::Io`]: proto_splitter_core::ErrorKind::Io
    /// [`ErrorKind::Cancelled`]: proto_splitter_core::ErrorKind::Cancelled
    pub fn verify_checksums(&self, progress: &Progress) -> Result<bool> {
        Ok(self.spans().check_files(progress)? > 0)
    }
}

/// The most opsets that are listed.
const MAX_OPSETS: usize = 100;

/// The most missing files that are listed.
const MAX_MISSING: usize = 100;

/// What the model says of itself, as names and values.
pub(crate) fn properties(
    model: &OnnxSource,
    tensors: &ModelTensors,
) -> Result<Vec<(String, String)>> {
    let options = ReadOptions::new().descriptor(model_descriptor());
    let view = MessageView::of_plain(model.reader(), options)?;
    let mut properties = Vec::new();
    let mut put = |name: &str, value: String| properties.push((name.to_owned(), value));
    // Fields by their numbers: `ir_version`, `producer_name` and so on.
    for (name, path, is_number) in [
        ("IR version", "1", true),
        ("producer", "2", false),
        ("producer version", "3", false),
        ("domain", "4", false),
        ("model version", "5", true),
        ("graph", "7.2", false),
    ] {
        let path = path.parse()?;
        if view.size(&path)?.is_none_or(|size| size > 4096) {
            continue;
        }
        let value = view.get(&path)?;
        let text = if is_number {
            proto_splitter_core::wire::decode_varint(&value)
                .map(|(number, _)| number.cast_signed().to_string())
                .unwrap_or_default()
        } else {
            String::from_utf8_lossy(&value).into_owned()
        };
        if !text.is_empty() {
            put(name, text);
        }
    }
    for at in 0..MAX_OPSETS {
        let path = format!("8[{at}]").parse()?;
        if view.size(&path)?.is_none() {
            break;
        }
        let opset: OperatorSetIdProto = view.message(&path)?;
        let domain = match opset.domain() {
            "" => "ai.onnx",
            domain => domain,
        };
        put("opset", format!("{domain} {}", opset.version()));
    }
    let parameters = tensors.iter().filter_map(|tensor| tensor.element_count());
    let parameters = parameters.fold(0u64, u64::saturating_add);
    put("tensors", tensors.len().to_string());
    put("parameters", parameters.to_string());
    let external = model.external_tensors() + model.outside_tensors();
    put("external tensors", external.to_string());
    let outside = model.outside_files();
    let files = model.files().len() - 1 + outside.len();
    put("external files", files.to_string());
    for missing in outside.filter(|file| !file.exists()).take(MAX_MISSING) {
        put("missing file", missing.display().to_string());
    }
    Ok(properties)
}
