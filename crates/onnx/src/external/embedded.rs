//! A whole model in one safetensors file, as the Python package `onnx-safetensors` embeds it.
//!
//! ```text
//! | length | {"__metadata__": {"onnx": "the model as JSON"}, "conv1.weight": ...} | tensors ... |
//! ```
//!
//! The model is in the header, and the data of its initializers is in the tensors with the same
//! names.

use std::collections::HashMap;
use std::path::PathBuf;

use prost_reflect::{DynamicMessage, SerializeOptions};
use proto_splitter_core::atomic::{AtomicFile, MadeFrom};
use proto_splitter_core::tensor::safetensors::{MAX_HEADER_LEN, METADATA};
use proto_splitter_core::wire::Field;
use proto_splitter_core::{Error, ErrorKind, MessageReader, Result};
use record_file::ReadAt;

use super::contexts::Contexts;
use super::leaving::{DataFile, Leaving};
use super::place::replace;
use super::plan::{ExternalPlan, check, choose, file_name, left_in, skeleton};
use super::safetensors::{header, stored_as};
use super::written::WrittenOnnx;
use super::{DataFormat, ExternalOptions};
use crate::model_descriptor;
use crate::model_json::model_of;
use crate::proto::tensor_proto::DataType;
use crate::tensor::Tensor;
use crate::walk::{Cursor, Place, Visitor, walk};

/// Key of the model in the metadata of a safetensors header.
pub(crate) const KEY: &str = "onnx";

/// Value of `location` in references to data in the same safetensors file.
const HERE: &str = ".";

/// A plan to write a model to one safetensors file, with the model itself in the file's header.
///
/// ```
/// use std::sync::Arc;
///
/// use prost::Message;
/// use proto_splitter_core::MessageReader;
/// use proto_splitter_core::atomic::MadeFrom;
/// use proto_splitter_onnx::external::{EmbeddedPlan, ExternalOptions};
/// use proto_splitter_onnx::proto::{GraphProto, ModelProto, TensorProto};
/// use proto_splitter_onnx::{OnnxOptions, OnnxSource};
///
/// let w = TensorProto {
///     dims: vec![1000],
///     data_type: Some(1),
///     name: Some("w".into()),
///     raw_data: Some(vec![7; 4000].into()),
///     ..Default::default()
/// };
/// let graph = GraphProto { initializer: vec![w], ..Default::default() };
/// let model = ModelProto { ir_version: Some(10), graph: Some(graph), ..Default::default() };
/// let bytes = model.encode_to_vec();
/// let size = bytes.len() as u64;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("model.safetensors");
/// let model = MessageReader::new(Arc::new(bytes), size);
/// let plan = EmbeddedPlan::new(model, &path, &ExternalOptions::new())?;
/// assert_eq!(plan.tensor_count(), 1);
/// plan.write(&MadeFrom::Nothing)?;
///
/// let read = OnnxSource::open_embedded(&path, &OnnxOptions::new())?;
/// assert_eq!(read.size(), size);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct EmbeddedPlan {
    plan: ExternalPlan,
    /// Size of the model as JSON text in the header, in bytes.
    model_size: u64,
    /// Total size of the model's fields that aren't in ONNX's schema, in bytes.
    unknown: u64,
}

impl EmbeddedPlan {
    /// Plans how to write the model to `target`. Reads only headers.
    ///
    /// # Errors
    ///
    /// Any error due to damage in the parts of the model that are read;
    /// [`ErrorKind::InvalidMessage`] if the model breaks the wire format, the size of a tensor's
    /// data doesn't match its type and shape, the data of a tensor is in another file, or an
    /// initializer has the name of another one that is moved out, which a safetensors file can't
    /// represent; [`ErrorKind::Uncuttable`] if the model without its initializers exceeds the
    /// 100 MB that readers accept as a header; [`ErrorKind::LimitExceeded`] if only the header, with
    /// the model as JSON, exceeds them.
    pub fn new(
        model: MessageReader,
        target: impl Into<PathBuf>,
        options: &ExternalOptions,
    ) -> Result<EmbeddedPlan> {
        let options = &options.clone().data_format(DataFormat::Safetensors);
        check(options)?;
        let target = target.into();
        let name = file_name(&target)?;
        // The content of compiled nodes stays in the header.
        let (mut leaving, _) = choose(&model, options, leaves)?;
        let contexts = Contexts::default();
        check_tensors(&model, &leaving, options)?;
        // Offsets are relative to the end of the header, since the header's size isn't known yet.
        let mut file = DataFile {
            name,
            head: Vec::new(),
            size: 0,
        };
        let (head, _) = header(leaving.iter_mut(), None)?;
        for one in &mut leaving {
            one.offset = one.offset.saturating_sub(head.len() as u64);
        }
        let names = [HERE.to_owned()];
        let skeleton = skeleton(&model, options, &leaving, &contexts, (&names, &[]))?;
        let (text, unknown) = json_of(&skeleton)?;
        let model_size = text.len() as u64;
        (file.head, file.size) = header(leaving.iter_mut(), Some((KEY, text)))?;
        let plan = ExternalPlan {
            model,
            target,
            options: options.clone(),
            skeleton,
            leaving,
            files: vec![file],
            contexts,
        };
        Ok(EmbeddedPlan {
            plan,
            model_size,
            unknown,
        })
    }

    /// Returns the number of tensors in the file.
    pub fn tensor_count(&self) -> usize {
        self.plan.tensor_count()
    }

    /// Returns the total size of the model's fields that aren't in ONNX's schema, in bytes. The
    /// JSON omits these fields.
    pub fn unknown_bytes(&self) -> u64 {
        self.unknown
    }

    /// Writes the file atomically.
    ///
    /// # Errors
    ///
    /// The errors of [`ExternalPlan::write`].
    pub fn write(&self, made_from: &MadeFrom) -> Result<WrittenOnnx> {
        let plan = &self.plan;
        let size = plan.data_size();
        let file = AtomicFile::create(&plan.target, made_from, plan.options.force)?;
        file.check_space(size)?;
        plan.copy(&[&file])?;
        plan.options.progress.check()?;
        let progress = &plan.options.progress;
        let removed_files = replace(&plan.target, made_from, progress, || file.commit())?;
        Ok(WrittenOnnx {
            path: plan.target.clone(),
            data_files: Vec::new(),
            removed_files,
            tensors: plan.tensor_count(),
            contexts: 0,
            model_size: self.model_size,
            data_size: size.saturating_sub(self.model_size),
        })
    }
}

/// Returns true if a tensor is an initializer that `onnx-safetensors` can move out of the model.
fn leaves(_: &ExternalOptions, tensor: &Tensor, place: &Place<'_>, len: u64) -> bool {
    let data_type = tensor.data_type();
    // The reader of `onnx-safetensors` doesn't support these types.
    let unknown = [
        DataType::Complex128,
        DataType::Float6e2m3,
        DataType::Float6e3m2,
    ];
    let has_type = data_type.filter(|data_type| !unknown.contains(data_type));
    place.is_embedded()
        && !tensor.name.is_empty()
        && tensor.name != METADATA
        && has_type.is_some_and(|data_type| stored_as(data_type, &tensor.dims, len).is_some())
}

/// Fails if an initializer has the name of another one that is moved out. Readers take the data of
/// both from the file's tensor with this name, even if the header has data for one of them. Also
/// fails if the data of a tensor is in another file, since readers look for it in this file.
fn check_tensors(
    model: &MessageReader,
    leaving: &[Leaving],
    options: &ExternalOptions,
) -> Result<()> {
    let starts = leaving.iter().map(|one| (one.name.as_str(), one.start));
    let mut names = Names {
        starts: starts.collect(),
    };
    walk(model, model.total_size(), options.max_depth, &mut names)
}

/// A visitor for [`check_tensors`].
struct Names<'a> {
    /// Offsets in the model of the tensors that are moved out, by name.
    starts: HashMap<&'a str, u64>,
}

impl Visitor for Names<'_> {
    fn tensor(
        &mut self,
        _: &Field,
        tensor: &Tensor,
        place: &Place<'_>,
        _: &mut Cursor<'_>,
    ) -> Result<()> {
        if tensor.is_external {
            let error = tensor.invalid("its data is in another file, but all must be in one file");
            return Err(error.at_path(place.path()));
        }
        let moved = self.starts.get(tensor.name.as_str());
        if moved.is_none_or(|&start| start == tensor.range.start) || !place.is_embedded() {
            return Ok(());
        }
        let message = format!(
            "two initializers are called {:?}, but names in a safetensors file must be unique",
            tensor.name
        );
        Err(Error::new(ErrorKind::InvalidMessage, message).at_path(place.path()))
    }
}

/// Returns the model as JSON, with the field names from its schema, and the size in bytes of the
/// fields that the JSON omits since they aren't in the schema.
fn json_of(skeleton: &dyn ReadAt) -> Result<(String, u64)> {
    let size = skeleton.size()?;
    // As JSON, the model is even larger, so it isn't converted if it is already too large.
    if size > MAX_HEADER_LEN {
        let message = format!(
            "the model has {size} bytes without its initializers, over the \
             {MAX_HEADER_LEN} that readers of safetensors accept: move out constants of nodes with \
             --to external"
        );
        return Err(left_in(&skeleton, message));
    }
    let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
    skeleton.read_exact_at(0, &mut bytes)?;
    let message = DynamicMessage::decode(model_descriptor(), bytes.as_slice())
        .map_err(|error| Error::new(ErrorKind::InvalidMessage, error.to_string()))?;
    let options = SerializeOptions::new().use_proto_field_name(true);
    let mut text = Vec::new();
    let mut serializer = serde_json::Serializer::new(&mut text);
    let json = |error: serde_json::Error| Error::from(std::io::Error::from(error));
    message
        .serialize_with_options(&mut serializer, &options)
        .map_err(json)?;
    let text = String::from_utf8(text)
        .map_err(|error| Error::new(ErrorKind::InvalidMessage, error.to_string()))?;
    let back = model_of(&text)?;
    Ok((text, size.saturating_sub(back.len() as u64)))
}
