//! The parts of a model that become chunks.

use proto_splitter_core::Result;
use proto_splitter_core::prost_reflect::MessageDescriptor;
use proto_splitter_core::split::{ComposableSplitter, SizeRules, SplitContext};

use crate::model_descriptor;

/// Full name of the type that [`OnnxSplitter`] splits.
pub const MODEL_PROTO: &str = "onnx.ModelProto";

/// A splitter for `onnx.ModelProto`. It cuts tensors in initializers (including sparse ones) and in
/// attributes, including those in subgraphs, functions and training information.
///
/// The largest parts are cut first. The `raw_data` of a tensor becomes a BYTES chunk, typed data is
/// sliced, and consecutive nodes share a chunk. Equal tensors are stored once, and a single tensor
/// can be read without the others. The bytes of the parts are unchanged.
///
/// ```
/// use proto_splitter_core::split::{SplitExt, SplitOptions};
/// use proto_splitter_onnx::proto::{GraphProto, ModelProto, TensorProto};
/// use proto_splitter_onnx::OnnxSplitter;
///
/// let tensor = |name: &str| TensorProto {
///     name: Some(name.into()),
///     raw_data: Some(vec![0; 3000].into()),
///     ..Default::default()
/// };
/// let graph = GraphProto { initializer: vec![tensor("a"), tensor("b")], ..Default::default() };
/// let model = ModelProto { graph: Some(graph), ..Default::default() };
///
/// let options = SplitOptions::new().max_chunk_size(1000);
/// let plan = OnnxSplitter.plan(&model, &options)?.to_string();
/// let cut: Vec<&str> = plan.lines().skip(1).collect();
/// assert_eq!(cut, [
///     "1 BYTES 3000 B graph.initializer[0].raw_data",
///     "2 BYTES 3000 B graph.initializer[1].raw_data",
/// ]);
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct OnnxSplitter;

impl OnnxSplitter {
    /// Returns the rules that forbid cuts. A model has no such rules.
    pub fn rules() -> SizeRules {
        SizeRules::new()
    }
}

impl ComposableSplitter for OnnxSplitter {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
        cx.fit_with(&Self::rules())
    }

    fn message_type(&self) -> Option<MessageDescriptor> {
        Some(model_descriptor())
    }
}
