//! Properties of a SavedModel: its meta graphs, and the inputs and outputs of its signatures.

use std::collections::BTreeMap;

use proto_splitter_core::path::{FieldPath, MapKey, Select, Step};
use proto_splitter_core::view::MessageView;
use proto_splitter_core::{ErrorKind, Result};
use proto_splitter_graph_def::proto::DataType;
use proto_splitter_graph_def::{shape_text, type_name};

use crate::proto::tensor_info::Encoding;
use crate::proto::{SignatureDef, TensorInfo};

/// Maximum number of meta graphs to list, and of tags and signatures for each meta graph.
const MOST: u64 = 100;

/// Maximum size of a name or signature, in bytes. Anything larger isn't read.
const MAX_SIZE: u64 = 64 << 10;

/// Numbers of the fields on the paths to a model's properties.
mod field {
    pub(super) const META_GRAPHS: u32 = 2;
    pub(super) const META_INFO: u32 = 1;
    pub(super) const SIGNATURES: u32 = 5;
    pub(super) const TAGS: u32 = 4;
    pub(super) const TENSORFLOW_VERSION: u32 = 5;
}

/// Returns the names and values of the model's properties.
pub(crate) fn properties(view: &MessageView<'_>) -> Result<Vec<(String, String)>> {
    let mut properties = Vec::new();
    let mut put = |name: &str, value: String| properties.push((name.to_owned(), value));
    for at in 0..MOST {
        let graph = FieldPath::root().join(Step::index(field::META_GRAPHS, at));
        if view.size(&graph)?.is_none() {
            break;
        }
        let info = graph.join(Step::field(field::META_INFO));
        let mut tags = Vec::new();
        for tag in 0..MOST {
            match text(view, &info.join(Step::index(field::TAGS, tag)))? {
                Some(tag) => tags.push(tag),
                None => break,
            }
        }
        put("meta graph", tags.join(", "));
        let version = info.join(Step::field(field::TENSORFLOW_VERSION));
        if let Some(version) = text(view, &version)? {
            put("TensorFlow", version);
        }
        let mut signatures = BTreeMap::new();
        let mut more = 0_u64;
        for entry in view.fields(&graph)? {
            let step = entry?.step;
            let Select::Key(MapKey::String(name)) = step.select.clone() else {
                continue;
            };
            if step.field.0 != field::SIGNATURES {
                continue;
            }
            if signatures.len() as u64 == MOST {
                more += 1;
                continue;
            }
            signatures.insert(name, signature(view, &graph.join(step))?);
        }
        for (name, signature) in signatures {
            put("signature", format!("{name}: {signature}"));
        }
        if more > 0 {
            put("signature", format!("and {more} more"));
        }
    }
    Ok(properties)
}

/// Returns the string at `path`; `None` if it is missing or larger than [`MAX_SIZE`].
fn text(view: &MessageView<'_>, path: &FieldPath) -> Result<Option<String>> {
    match view.size(path)? {
        Some(size) if size <= MAX_SIZE => view.get_as(path).map(Some),
        Some(_) | None => Ok(None),
    }
}

/// Formats the signature at `path`, such as `serve(x float[?, 4]) -> y float[?, 2]`.
fn signature(view: &MessageView<'_>, path: &FieldPath) -> Result<String> {
    let size = view.size(path)?.unwrap_or_default();
    if size > MAX_SIZE {
        return Ok(format!("{size} bytes"));
    }
    let signature: SignatureDef = match view.message(path) {
        Err(error) if error.kind() == ErrorKind::InvalidPath => SignatureDef::default(),
        read => read?,
    };
    let tensors = |all: &BTreeMap<String, TensorInfo>| {
        let all = all
            .iter()
            .map(|(name, info)| format!("{name} {}", typed(info)));
        all.collect::<Vec<_>>().join(", ")
    };
    let (inputs, outputs) = (tensors(&signature.inputs), tensors(&signature.outputs));
    let method = signature.method_name;
    Ok(format!("{method}({inputs}) -> {outputs}"))
}

/// Formats the type and shape of a tensor.
fn typed(info: &TensorInfo) -> String {
    if let Some(Encoding::CompositeTensor(composite)) = &info.encoding {
        let parts: Vec<String> = composite.components.iter().map(typed).collect();
        return format!("composite({})", parts.join(", "));
    }
    let dtype = match DataType::try_from(info.dtype) {
        Ok(dtype) => type_name(dtype),
        Err(_) => info.dtype.to_string(),
    };
    let shape = info
        .tensor_shape
        .as_ref()
        .map_or("[...]".to_owned(), shape_text);
    match &info.encoding {
        Some(Encoding::CooSparse(_)) => format!("sparse {dtype}{shape}"),
        _ => format!("{dtype}{shape}"),
    }
}
