//! Messages of any size, sent as a sequence of small frames.
//!
//! gRPC, message brokers and queues limit the size of a single message, and protobuf itself is
//! limited to 2 GiB. A transfer splits a message into chunks, and each chunk into
//! [`Frame`](proto::Frame)s of at most 1 MiB, which any peer with default limits accepts.
//! [`Frames`] makes the frames of a message, and a [`Receiver`] reassembles the message: in memory,
//! as a generated type, or in a file. Neither of them does network I/O; the crate
//! `proto-splitter-tonic` connects both to gRPC.
//!
//! ```
//! use prost_reflect::prost_types::FileDescriptorProto;
//! use proto_splitter_core::split::SizeSplitter;
//! use proto_splitter_transfer::{Frames, ReceiveOptions, Receiver, SendOptions};
//!
//! let message = FileDescriptorProto { name: Some("n".repeat(3 << 20)), ..Default::default() };
//! let frames = Frames::new(&SizeSplitter, &message, &SendOptions::new())?;
//!
//! let mut receiver = Receiver::in_memory(&ReceiveOptions::new());
//! receiver.receive(frames)?;
//! assert!(receiver.into_message::<FileDescriptorProto>()? == message);
//! # Ok::<(), proto_splitter_core::Error>(())
//! ```
//!
//! # Resuming a transfer that broke off
//!
//! A receiver keeps the chunks that have arrived completely. If the sender gets the receiver's
//! [`token`](Receiver::token), it can skip these chunks with [`Frames::resume`]:
//!
//! ```
//! use prost_reflect::prost_types::FileDescriptorProto;
//! use proto_splitter_core::split::{SizeSplitter, SplitOptions};
//! use proto_splitter_transfer::{Frames, ReceiveOptions, Receiver, SendOptions};
//!
//! let message = FileDescriptorProto { name: Some("n".repeat(3 << 20)), ..Default::default() };
//! let options = SendOptions::new().split(SplitOptions::new().max_chunk_size(1 << 20));
//! let mut receiver = Receiver::in_memory(&ReceiveOptions::new());
//!
//! let broken = Frames::new(&SizeSplitter, &message, &options)?.take(2);
//! assert!(receiver.receive(broken).is_err());
//!
//! let rest = Frames::resume(&SizeSplitter, &message, &receiver.token(), &options)?;
//! receiver.receive(rest)?;
//! assert!(receiver.into_message::<FileDescriptorProto>()? == message);
//! # Ok::<(), proto_splitter_core::Error>(())
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod arriving;
mod checks;
mod options;
pub mod proto;
mod receive;
mod received;
mod send;
pub mod status;
mod store;

pub use options::{DEFAULT_MAX_CHUNKS, ReceiveOptions};
pub use receive::{Receiver, decode_frame};
pub use send::{Frames, SendOptions};

/// Version of the transfer format, for [`Begin::version`](proto::Begin::version).
pub const VERSION: u32 = 1;

/// Maximum size of a session's name, in bytes.
pub const MAX_SESSION_SIZE: usize = 64;

/// Default maximum size of a chunk, in bytes: 32 MiB. A transfer that breaks off resumes at the
/// beginning of a chunk.
pub const DEFAULT_MAX_CHUNK_SIZE: u64 = 32 << 20;

/// Default maximum size of a frame, in bytes: 1 MiB. The default limit of gRPC is 4 MiB.
pub const DEFAULT_MAX_FRAME_SIZE: usize = 1 << 20;

/// Smallest allowed value for the maximum size of a frame, in bytes: 4 KiB.
pub const LEAST_MAX_FRAME_SIZE: usize = 4 << 10;
