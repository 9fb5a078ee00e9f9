//! Messages of any size over gRPC, with tonic.
//!
//! By default, gRPC refuses messages over 4 MiB. Even without this limit, it refuses messages over
//! 2 GiB. This crate sends a message as a stream of [`Frame`](proto::Frame)s of at most 1 MiB,
//! which any peer with default limits accepts. A service needs a method whose argument is a stream
//! of frames, such as `rpc Put(stream proto_splitter.transfer.Frame) returns (...)`. Generate its
//! code with `extern_path(".proto_splitter.transfer", "::proto_splitter_tonic::proto")`.
//!
//! - A client sends a message with [`send`], and a server responds with a message by returning
//!   [`Outgoing::results`].
//! - Either side receives a message with [`Receive`]: as a generated type, in a file that is written
//!   atomically, or as a handle that can be read before the whole message has arrived.
//! - [`server`] and [`endpoint`] are tonic's builders with larger HTTP/2 windows, for large
//!   messages.
//! - [`Inbox`] keeps the received chunks of a transfer that broke off, and [`send_resuming`] sends
//!   the remaining chunks.
//!
//! ```no_run
//! # use proto_splitter_tonic::{Receive, proto::Frame, send};
//! # use tonic::{Request, Response, Status, Streaming};
//! # use tonic::codegen::tokio_stream::Stream;
//! # type Trace = proto_splitter_core::prost_reflect::prost_types::FileDescriptorProto;
//! # struct Client;
//! # impl Client {
//! #     async fn put(&mut self, _: impl Stream<Item = Frame>) -> Result<Response<()>, Status> {
//! #         Ok(Response::new(()))
//! #     }
//! # }
//! // The client.
//! # async fn client(mut client: Client, trace: Trace) -> Result<(), Status> {
//! let response = send(|frames| client.put(frames), &trace).await?;
//! # Ok(())
//! # }
//! // The server.
//! # async fn server(request: Request<Streaming<Frame>>) -> Result<(), Status> {
//! let trace: Trace = Receive::new().message(request.into_inner()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Deadlines, interceptors, metadata and TLS work as usual in tonic. Dropping a future cancels its
//! transfer. HTTP/2 applies back-pressure: a sender prepares at most 4 MiB of frames in advance,
//! and a receiver that writes to a file holds at most 16 frames that haven't been written. Errors
//! are [`Status`](tonic::Status)es. Their details have the location of the error, which [`detail`]
//! returns.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(doctest)]
pub mod documentation;
mod handle;
mod inbox;
mod outgoing;
mod pushing;
mod receive;
mod resume;
mod slot;
mod status;
#[cfg(feature = "transport")]
mod transport;

pub use handle::Handle;
pub use inbox::Inbox;
pub use outgoing::{Failure, Outgoing, OutgoingResults, send, send_with};
pub use proto_splitter_transfer::{ReceiveOptions, Receiver, SendOptions, proto};
pub use receive::{DEFAULT_IDLE_TIMEOUT, Receive};
pub use resume::{DEFAULT_ATTEMPTS, Retry, is_broken, send_resuming};
pub use status::{detail, status};
#[cfg(feature = "transport")]
pub use transport::{WINDOW_SIZE, endpoint, server};
