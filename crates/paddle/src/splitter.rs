//! Splitters that determine which parts of a program or model become chunks.

use proto_splitter_core::Result;
use proto_splitter_core::prost_reflect::MessageDescriptor;
use proto_splitter_core::split::{ComposableSplitter, SizeRules, SplitContext};

use crate::model::MODEL;
use crate::proto::descriptor_pool;

/// Full name of the message type that [`ProgramDescSplitter`] splits.
pub const PROGRAM_DESC: &str = "paddle.framework.proto.ProgramDesc";

/// A splitter for `ProgramDesc`, which moves large parts to separate chunks.
///
/// Such a part may be the value of an op's attribute (such as a constant, the engine of a subgraph,
/// or the op's call stack), or a series of consecutive variables, ops or blocks. The largest parts
/// are moved first. The bytes of all parts are unchanged.
///
/// ```
/// use proto_splitter_core::split::{SplitExt, SplitOptions};
/// use proto_splitter_paddle::ProgramDescSplitter;
/// use proto_splitter_paddle::proto::framework::op_desc::Attr;
/// use proto_splitter_paddle::proto::framework::{AttrType, BlockDesc, OpDesc, ProgramDesc};
///
/// let engine = Attr { name: "engine_serialized_data".into(), r#type: AttrType::String.into(), s: Some("e".repeat(5000)), ..Default::default() };
/// let op = OpDesc { r#type: "tensorrt_engine".into(), attrs: vec![engine], ..Default::default() };
/// let program = ProgramDesc { blocks: vec![BlockDesc { ops: vec![op], ..Default::default() }], ..Default::default() };
///
/// let plan = ProgramDescSplitter.plan(&program, &SplitOptions::new().max_chunk_size(1000))?;
/// assert_eq!(plan.chunks()[1].path().display(Some(plan.descriptor())), "blocks[0].ops[0].attrs[0].s");
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgramDescSplitter;

impl ComposableSplitter for ProgramDescSplitter {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
        cx.fit_with(&SizeRules::new())
    }

    fn message_type(&self) -> Option<MessageDescriptor> {
        descriptor_pool().get_message_by_name(PROGRAM_DESC)
    }
}

/// A splitter for a message with a whole model, which
/// [`PaddleModel::source`](crate::PaddleModel::source) returns. The splitter moves the data of
/// parameters to separate chunks, and splits the program as [`ProgramDescSplitter`] does.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelSplitter;

impl ComposableSplitter for ModelSplitter {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
        cx.fit_with(&SizeRules::new())
    }

    fn message_type(&self) -> Option<MessageDescriptor> {
        descriptor_pool().get_message_by_name(MODEL)
    }
}
