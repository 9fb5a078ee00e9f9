//! The splitter for SavedModels.

use proto_splitter_core::Result;
use proto_splitter_core::prost_reflect::MessageDescriptor;
use proto_splitter_core::split::{ComposableSplitter, SizeRules, SplitContext};
use proto_splitter_graph_def::GraphDefSplitter;

use crate::proto::descriptor_pool;

/// Full name of the message type that [`SavedModelSplitter`] splits.
pub const SAVED_MODEL: &str = "tensorflow.SavedModel";

/// A splitter for `tensorflow.SavedModel`. It can cut every part of a meta graph: graph, object
/// graph, collections, signatures and assets.
///
/// A meta graph never becomes a chunk as a whole. TensorFlow's Merger could read a file with such a
/// chunk, but TensorFlow's code for fingerprints couldn't. Instead, messages inside the meta graph
/// become chunks.
///
/// ```
/// use proto_splitter_core::split::{ComposableSplitter, SplitExt, SplitOptions};
/// use proto_splitter_graph_def::proto::{GraphDef, NodeDef};
/// use proto_splitter_saved_model::proto::{MetaGraphDef, SavedModel};
/// use proto_splitter_saved_model::SavedModelSplitter;
///
/// let node = NodeDef { name: "n".repeat(90), ..Default::default() };
/// let graph_def = Some(GraphDef { node: vec![node], ..Default::default() });
/// let meta_graphs = vec![MetaGraphDef { graph_def, ..Default::default() }];
/// let model = SavedModel { saved_model_schema_version: 1, meta_graphs };
///
/// let options = SplitOptions::new().max_chunk_size(95);
/// let plan = SavedModelSplitter.plan(&model, &options)?;
/// assert_eq!(plan.to_string(), "0 MESSAGE 6 B\n1 MESSAGE 94 B meta_graphs[0].graph_def\n");
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SavedModelSplitter;

impl SavedModelSplitter {
    /// Returns the rules for the splitter: a meta graph never becomes a chunk as a whole, but the
    /// messages inside it may become chunks.
    pub fn rules() -> SizeRules {
        GraphDefSplitter::rules().keep_whole("tensorflow.MetaGraphDef")
    }
}

impl ComposableSplitter for SavedModelSplitter {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
        cx.fit_with(&Self::rules())
    }

    fn message_type(&self) -> Option<MessageDescriptor> {
        descriptor_pool().get_message_by_name(SAVED_MODEL)
    }
}
