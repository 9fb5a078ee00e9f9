//! A safetensors file with an ONNX model in its header, read as one message.
//!
//! The package `onnx-safetensors` and [`EmbeddedPlan`](crate::external::EmbeddedPlan) write such
//! files. Each initializer gets its data from the tensor with the same name, which overrides any
//! data in the header.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

#[cfg(doc)]
use proto_splitter_core::ErrorKind;
use proto_splitter_core::formats::Candidate;
use proto_splitter_core::spans::{SourceId, SpansBuilder};
use proto_splitter_core::tensor::safetensors::{LEN_LEN, MAX_HEADER_LEN};
use proto_splitter_core::{Error, Result};
use record_file::ReadAt;
use safetensors::tensor::Metadata;

use crate::change::Change;
use crate::external::EMBEDDED_KEY;
use crate::model_json::model_of;
use crate::options::OnnxOptions;
use crate::rewrite::{Decide, Rewriter};
use crate::source::{OnnxSource, named};
use crate::tensor::Tensor;
use crate::walk::{Place, walk};

/// First bytes of the JSON header of a safetensors file with a model in its header.
const METADATA: &[u8] = b"{\"__metadata__\":{";

/// Returns true if a file begins like a safetensors file with a model in its header.
pub(crate) fn begins_as_embedded(head: &[u8]) -> bool {
    let Some((len, header)) = head.split_first_chunk() else {
        return false;
    };
    let model = format!("\"{EMBEDDED_KEY}\":\"{{");
    u64::from_le_bytes(*len) <= MAX_HEADER_LEN
        && header.starts_with(METADATA)
        && header
            .windows(model.len())
            .any(|window| window == model.as_bytes())
}

impl OnnxSource {
    /// Opens the model in the header of the safetensors file at `path`. The tensors in the file
    /// become the data of the model's initializers.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the file can't be read; [`ErrorKind::InvalidMessage`] if it isn't a
    /// safetensors file, has no model in its header, or the size of a tensor doesn't match its
    /// initializer; [`ErrorKind::LimitExceeded`].
    pub fn open_embedded(path: impl AsRef<Path>, options: &OnnxOptions) -> Result<OnnxSource> {
        let path = path.as_ref();
        let input = Candidate::new(path).map_err(|error| named(error, path))?;
        OnnxSource::of_embedded(&input, options)
    }

    /// Opens the model in the header of `input`, a safetensors file.
    pub(crate) fn of_embedded(input: &Candidate<'_>, options: &OnnxOptions) -> Result<OnnxSource> {
        let mut builder = SpansBuilder::new();
        let open = |builder: &mut SpansBuilder| {
            let file = input.add_to(builder)?;
            open(builder, file, options)
        };
        let opened = open(&mut builder).map_err(|error| named(error, input.path()));
        let (warnings, tensors) = opened?;
        OnnxSource::of_header(builder.finish()?, tensors, warnings)
    }
}

/// Assembles the message from the model in the header and the tensors in the file. Returns
/// warnings, and the number of tensors that the model uses.
fn open(
    builder: &mut SpansBuilder,
    file: SourceId,
    options: &OnnxOptions,
) -> Result<(Vec<String>, usize)> {
    let size = builder.file_size(file)?;
    let source = builder.handle(file)?;
    let mut len = [0; 8];
    source.read_exact_at(0, &mut len)?;
    let len = u64::from_le_bytes(len);
    if len > MAX_HEADER_LEN || len > size.saturating_sub(LEN_LEN) {
        return Err(Error::invalid(format!(
            "not a safetensors file: a header of {len} bytes in a file of {size}"
        )));
    }
    let mut header = vec![0; usize::try_from(len).unwrap_or_default()];
    source.read_exact_at(LEN_LEN, &mut header)?;
    let metadata: Metadata = serde_json::from_slice(&header)
        .map_err(|error| Error::invalid(format!("the header is damaged: {error}")))?;
    drop(header);
    let start = LEN_LEN + len;
    let expected = start.saturating_add(metadata.data_len() as u64);
    if expected != size {
        return Err(Error::invalid(format!(
            "the file has {size} bytes, but its header requires {expected}"
        )));
    }
    let said = metadata.metadata().as_ref();
    let Some(text) = said.and_then(|said| said.get(EMBEDDED_KEY)) else {
        return Err(Error::invalid(
            "the safetensors file has no ONNX model in its header",
        ));
    };
    let bytes = Arc::new(model_of(text)?);
    let model_size = bytes.len() as u64;
    let model = builder.reader("the model in the header", Arc::clone(&bytes) as Arc<_>)?;
    let mut tensors = Tensors {
        metadata: &metadata,
        start,
        file,
        used: HashSet::new(),
    };
    let mut rewriter = Rewriter::new(builder, model, &mut tensors);
    walk(&*bytes, model_size, options.get_max_depth(), &mut rewriter)?;
    rewriter.finish(model_size)?;
    let count = tensors.used.len();
    let unused = metadata.offset_keys().len().saturating_sub(count);
    let warnings = match unused {
        0 => Vec::new(),
        unused => vec![format!(
            "{unused} tensors of the file are not initializers of the model, and are left out"
        )],
    };
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    Ok((warnings, count))
}

/// The tensors in the file, each of which is the data of the initializer with the same name.
struct Tensors<'a> {
    metadata: &'a Metadata,
    /// Offset in the file at which the tensors begin, in bytes.
    start: u64,
    file: SourceId,
    /// Names of the file's tensors that the model uses.
    used: HashSet<String>,
}

// The whole model is in this file, so a compiled node's content is not moved into it.
impl Decide for Tensors<'_> {
    fn tensor(
        &mut self,
        tensor: &Tensor,
        place: &Place<'_>,
        _: &mut SpansBuilder,
    ) -> Result<Change> {
        let found = self.metadata.info(&tensor.name);
        let Some(found) = found.filter(|_| place.is_embedded()) else {
            if tensor.is_external {
                let error = tensor.invalid("its data is not in the file");
                return Err(error.at_path(place.path()));
            }
            return Ok(Change::None);
        };
        let (from, to) = found.data_offsets;
        let (from, to) = (self.start + from as u64, self.start + to as u64);
        if tensor.raw_len() != Some(to - from) {
            let needed = tensor.raw_len();
            let needed = needed.map_or("no raw data".to_owned(), |len| format!("{len} bytes"));
            let message = format!(
                "{} bytes in the file, but its type and shape require {needed}",
                to - from
            );
            return Err(tensor.invalid(&message).at_path(place.path()));
        }
        self.used.insert(tensor.name.clone());
        Ok(Change::raw_data(self.file, from..to))
    }
}
