//! ONNX models of any size, read as one message or written with external data.
//!
//! An [`OnnxSource`] presents a model and its external data as one message, without copying the
//! data. [`OnnxSplitter`] splits this message, and [`external`] writes any model as a small `.onnx`
//! file with external data, which onnxruntime accepts. [`proto`] has the typed messages and their
//! descriptors.
//!
//! The format is that of ONNX 1.23, as defined by its `onnx.proto` and `ExternalData.md`.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod archive;
mod change;
mod checksum;
mod context;
mod cursor;
mod data_type;
mod elements;
mod embedded;
pub mod external;
mod external_data;
mod folder;
mod format;
mod info;
mod model_json;
mod names;
mod options;
pub mod proto;
mod reference;
mod rewrite;
mod source;
mod splitter;
mod tensor;
mod tensor_rule;
mod tensors;
mod walk;

use prost_reflect::{MessageDescriptor, ReflectMessage};

pub use data_type::{element_bits, raw_len};
pub use format::OnnxFormat;
pub use names::NAMES;
pub use options::{DEFAULT_MAX_FILES, OnnxOptions};
pub use reference::{ExternalReference, MAX_ENTRIES, MAX_ENTRY_LEN};
pub use source::OnnxSource;
pub use splitter::{MODEL_PROTO, OnnxSplitter};
pub use tensor::{MAX_RANK, MAX_TENSOR_NAME};
pub use tensor_rule::TENSOR;
pub use tensors::{ModelTensor, ModelTensorIter, ModelTensors};
pub use walk::{DEFAULT_MAX_DEPTH, TensorRole};

/// Returns the message type of a model.
pub fn model_descriptor() -> MessageDescriptor {
    proto::ModelProto::default().descriptor()
}
