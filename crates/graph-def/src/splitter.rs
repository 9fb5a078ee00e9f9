//! The splitter for graphs.

use proto_splitter_core::Result;
use proto_splitter_core::prost_reflect::MessageDescriptor;
use proto_splitter_core::split::{ComposableSplitter, SizeRules, SplitContext};

use crate::proto::descriptor_pool;

/// Full name of the message type that [`GraphDefSplitter`] splits.
pub const GRAPH_DEF: &str = "tensorflow.GraphDef";

/// A splitter for `tensorflow.GraphDef`. It can cut out nodes of every kind, functions, constants
/// in every form, and debug info.
///
/// The largest parts are cut first. A constant's `tensor_content` becomes a BYTES chunk, and its
/// `*_val` list is sliced; functions become chunks as a whole, and consecutive nodes share a chunk.
/// The bytes of the parts are unchanged.
///
/// ```
/// use proto_splitter_core::split::{ComposableSplitter, SplitExt, Source, SplitOptions};
/// use proto_splitter_graph_def::proto::{GraphDef, NodeDef};
/// use proto_splitter_graph_def::GraphDefSplitter;
///
/// let node = |name: String| NodeDef { name, op: "NoOp".into(), ..Default::default() };
/// let graph = GraphDef { node: (0..10).map(|i| node(format!("n{i}"))).collect(), ..Default::default() };
///
/// let options = SplitOptions::new().max_chunk_size(60);
/// let plan = GraphDefSplitter.plan(&graph, &options)?;
/// assert_eq!(plan.to_string(), "0 MESSAGE 60 B\n1 MESSAGE 60 B\n");
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct GraphDefSplitter;

impl GraphDefSplitter {
    /// Returns the rules that forbid cuts. A graph has no such rules.
    pub fn rules() -> SizeRules {
        SizeRules::new()
    }
}

impl ComposableSplitter for GraphDefSplitter {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
        cx.fit_with(&Self::rules())
    }

    fn message_type(&self) -> Option<MessageDescriptor> {
        descriptor_pool().get_message_by_name(GRAPH_DEF)
    }
}
