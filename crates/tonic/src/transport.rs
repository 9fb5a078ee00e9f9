//! Connections for large messages.

use tonic::transport::{Endpoint, Error, Server};

/// Number of bytes that a peer may send before this side has taken them, for connections made with
/// [`server`] and [`endpoint`]: 4 MiB. HTTP/2's own default is 64 KiB.
pub const WINDOW_SIZE: u32 = 4 << 20;

/// Maximum size of an HTTP/2 frame from a peer, in bytes. With the default of 16 KiB, every 16 KiB
/// requires a separate system call.
const HTTP2_FRAME_SIZE: u32 = 128 << 10;

/// Returns a builder for a server that receives large messages quickly. With the defaults of
/// HTTP/2, a sender waits after every 64 KiB.
///
/// The result is tonic's own builder, so configure everything else as usual. If the server uses
/// your own listener, set `TCP_NODELAY` as `serve` does, for instance with
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

/// Returns an endpoint for a client that receives large messages as fast as a [`server`].
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
/// Fails if `uri` is invalid.
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
