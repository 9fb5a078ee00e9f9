//! Generated code for `tensorflow.SavedModel`, and for the types that it uses but `GraphDef`
//! doesn't use, from `proto/tensorflow/core/protobuf`.
//!
//! Includes `FingerprintDef`, and the messages that collections store in serialized form
//! (`VariableDef`, `QueueRunnerDef`, `CondContextDef`, ...). The types for graphs are in
//! [`proto_splitter_graph_def::proto`].

#![allow(missing_docs, clippy::large_enum_variant, reason = "generated")]
#![allow(
    clippy::expect_used,
    reason = "derived: each message's own name is in the pool"
)]

use std::sync::LazyLock;

use prost_reflect::DescriptorPool;

include!("proto/tensorflow.rs");

/// `tensorflow.error`: the status codes to which a `QueueRunnerDef` refers.
pub mod error {
    include!("proto/tensorflow.error.rs");
}

/// Serialized file descriptor set of this module, without the files that are in the set of
/// [`proto_splitter_graph_def::proto`].
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("proto/descriptors.binpb");

static DESCRIPTOR_POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let mut pool = proto_splitter_graph_def::proto::descriptor_pool().clone();
    pool.decode_file_descriptor_set(FILE_DESCRIPTOR_SET)
        .expect("a test keeps the descriptors valid");
    pool
});

/// Returns the descriptors of `tensorflow.SavedModel` and all types that it uses, including
/// `GraphDef`. The pool is built on the first call; cloning it is cheap.
pub fn descriptor_pool() -> &'static DescriptorPool {
    &DESCRIPTOR_POOL
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use prost_reflect::{DynamicMessage, ReflectMessage};
    use proto_splitter_graph_def::proto::{GraphDef, NodeDef};

    use super::*;

    #[test]
    fn the_pool_holds_both_crates_types() {
        for name in [
            "tensorflow.SavedModel",
            "tensorflow.GraphDef",
            "google.protobuf.Any",
        ] {
            assert!(
                descriptor_pool().get_message_by_name(name).is_some(),
                "{name}"
            );
        }
    }

    #[test]
    fn types_of_both_crates_share_one_wire_format() {
        let model = SavedModel {
            meta_graphs: vec![MetaGraphDef {
                graph_def: Some(GraphDef {
                    node: vec![NodeDef {
                        name: "n".into(),
                        ..NodeDef::default()
                    }],
                    ..GraphDef::default()
                }),
                ..MetaGraphDef::default()
            }],
            ..SavedModel::default()
        };
        let dynamic = model.transcode_to_dynamic();
        assert_eq!(dynamic.descriptor().full_name(), "tensorflow.SavedModel");
        let bytes = model.encode_to_vec();
        assert_eq!(dynamic.encode_to_vec(), bytes);
        assert_eq!(
            DynamicMessage::decode(model.descriptor(), bytes.as_slice()).unwrap(),
            dynamic
        );
        assert_eq!(SavedModel::decode(bytes.as_slice()).unwrap(), model);
    }
}
