//! Connections for large messages.

use tonic::transport::{Endpoint, Error, Server};

/// Number of bytes that a peer may send before this side has taken them, for connections of
/// [`server`] and [`endpoint`]: 4 MiB. HTTP/2's own default is 64 KiB.
pub const WINDOW_SIZE: u32 = 4 << 20;

/// Maximum size of an HTTP/2 frame from a peer, in bytes. The default of 16 KiB takes one system call for
/// each 16 KiB.
const HTTP2_FRAME_SIZE: u32 = 128 << 10;

/// Returns the builder of a server that receives large messages faster than with the defaults of
/// HTTP/2, with which a sender waits after every 64 KiB.
///
/// It is tonic's own builder, so everything else is set on it as usual. If it serves from a listener
/// of your own, set `TCP_NODELAY`, for instance with
/// [`TcpIncoming::with_nodelay`](tonic::transport::server::TcpIncoming::with_nodelay), as `serve`
/// does: otherwise a large message takes many times as long.
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

/// Returns the endpoint of a client that receives large messages as fast as a [`server`].
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
/// If `uri` is invalid.
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
