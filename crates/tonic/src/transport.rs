//! Servers and endpoints with HTTP/2 settings for large messages.

use tonic::transport::{Endpoint, Error, Server};

/// Size of HTTP/2's flow control windows in a [`server`] or [`endpoint`]: 4 MiB. A peer may send
/// this number of bytes before this side has read them. HTTP/2's own default is 64 KiB.
pub const WINDOW_SIZE: u32 = 4 << 20;

/// Maximum size of an HTTP/2 frame from a peer, in bytes: 128 KiB. With HTTP/2's default of 16 KiB,
/// every 16 KiB requires a separate system call.
const HTTP2_FRAME_SIZE: u32 = 128 << 10;

/// Returns a builder for a server that receives large messages quickly. With the default windows of
/// HTTP/2, a sender would have to wait after every 64 KiB.
///
/// The builder is tonic's own, and can be configured further as usual. If the server uses its own
/// listener, set `TCP_NODELAY` as `serve` does, for instance with
/// [`TcpIncoming::with_nodelay`](tonic::transport::server::TcpIncoming::with_nodelay). Otherwise, a
/// large message takes many times as long.
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// # let shelf = tonic::service::Routes::default();
/// let server = proto_splitter_tonic::server().add_routes(shelf);
/// server.serve("127.0.0.1:50051".parse()?).await?;
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn server() -> Server {
    Server::builder()
        .initial_stream_window_size(WINDOW_SIZE)
        .initial_connection_window_size(WINDOW_SIZE)
        .max_frame_size(HTTP2_FRAME_SIZE)
}

/// Returns an endpoint for a client that receives large messages quickly, with the same settings as
/// a [`server`].
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let channel = proto_splitter_tonic::endpoint("http://127.0.0.1:50051")?.connect().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Returns an error if `uri` is invalid.
pub fn endpoint<U>(uri: U) -> Result<Endpoint, Error>
where
    U: TryInto<Endpoint>,
    U::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    Ok(Endpoint::new(uri)?
        .initial_stream_window_size(WINDOW_SIZE)
        .initial_connection_window_size(WINDOW_SIZE)
        .max_frame_size(HTTP2_FRAME_SIZE))
}
