//! What a model says of itself, and whether the files beside it are the ones that were written.

use std::fmt::Write as _;

use proto_splitter_core::merge::ReadOptions;
use proto_splitter_core::progress::Progress;
use proto_splitter_core::view::MessageView;
use proto_splitter_core::{Error, ErrorKind, Result};
use sha1::{Digest, Sha1};

use crate::elements::COPY_LEN;
use crate::model_descriptor;
use crate::proto::OperatorSetIdProto;
use crate::source::OnnxSource;
use crate::tensors::ModelTensors;

impl OnnxSource {
    /// Compares the `checksum`s in `external_data` with the files, and says whether there were any.
    /// No other reader does.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ChecksumMismatch`] with the file and the tensor; [`ErrorKind::Io`] if a file
    /// can't be read; [`ErrorKind::Cancelled`].
    pub fn verify_checksums(&self, progress: &Progress) -> Result<bool> {
        for said in self.checksums() {
            let mut sha1 = Sha1::new();
            let (size, mut at) = (self.rope().file_size(said.file)?, 0);
            let mut buffer = Vec::new();
            while at < size {
                progress.check()?;
                let left = usize::try_from(size - at).unwrap_or(usize::MAX);
                buffer.resize(left.min(COPY_LEN), 0);
                self.rope().read_file(said.file, at, &mut buffer)?;
                sha1.update(&buffer);
                at += buffer.len() as u64;
            }
            let mut found = String::new();
            for byte in sha1.finalize() {
                // Writing to a string doesn't fail.
                let _ = write!(found, "{byte:02x}");
            }
            if !said.sha1.eq_ignore_ascii_case(&found) {
                let message = format!(
                    "{}: its SHA-1 is {found}, where tensor \"{}\" says {}",
                    self.rope().file(said.file).display(),
                    said.tensor,
                    said.sha1.escape_debug()
                );
                return Err(Error::new(ErrorKind::ChecksumMismatch, message));
            }
        }
        Ok(!self.checksums().is_empty())
    }
}

/// The most opsets that are listed.
const MAX_OPSETS: usize = 100;

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
    put("external tensors", model.external_tensors().to_string());
    put("external files", (model.files().len() - 1).to_string());
    Ok(properties)
}
