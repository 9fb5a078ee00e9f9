//! XLA's split protos and profiles: reading each as one message of any size, and writing them.
//!
//! XLA stores messages that may become too large for protobuf as *split protos*. A split proto is a
//! Riegeli file whose first record is a manifest, and whose other records are parts of the message.
//! GPU executables, entries of compilation caches and dumps of HLO modules are stored like this.
//! [`SplitProto`] reads a split proto without decoding its message. The message's type needn't be
//! known.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod executable;
mod format;
mod layers;
mod literals;
mod manifest;
mod profile;
mod schema;
mod split_proto;
mod write;

pub use executable::HUMAN_READABLE_EXECUTABLE;
pub use format::XlaFormat;
pub use layers::Layer;
pub use manifest::{Manifest, RecordKind};
pub use profile::{ProfileDraft, ProfileFormat, XSPACE};
pub use schema::descriptor_pool;
pub use split_proto::{Finding, SplitProto};
pub use write::{Draft, MAX_MERGE_RECORD, WriteOptions};

/// Full name of the message type for HLO modules and related data.
pub const HLO_PROTO: &str = "xla.HloProto";

/// Full name of the message type for GPU executables.
pub const GPU_EXECUTABLE: &str = "xla.gpu.GpuExecutableProto";

/// Full name of the message type for executables with their compile options.
pub const EXECUTABLE_AND_OPTIONS: &str = "xla.ExecutableAndOptionsProto";

/// Full name of the message type for CPU executables.
pub const CPU_EXECUTABLE: &str = "xla.cpu.CompilationResultProto";
