//! A service on a real port, its clients, and a proxy that cuts connections.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use proto_splitter_core::split::{SizeSplitter, SplitOptions};
use proto_splitter_tonic::proto::{Frame, ResumeToken};
use proto_splitter_tonic::{
    Inbox, Outgoing, OutgoingResults, Receive, ReceiveOptions, SendOptions, status,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::server::Router;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status, Streaming};

use crate::shelf::shelf_client::ShelfClient;
use crate::shelf::shelf_server::{Shelf, ShelfServer};
use crate::shelf::{Stored, Trace, Wanted};

/// Idle timeout of a service that [`Service::impatient`] returns.
pub(crate) const IDLE: Duration = Duration::from_millis(300);

#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) inbox: Inbox,
    pub(crate) receive: Receive,
    pub(crate) traces: Arc<Mutex<HashMap<String, Trace>>>,
    /// Folder for received files and temporary files.
    pub(crate) folder: PathBuf,
}

impl Service {
    pub(crate) fn new(folder: &Path) -> Service {
        let options = ReceiveOptions::new()
            .message_type("shelf.Trace")
            .max_message_size(64 << 20);
        let receive = Receive::new().options(options).folder(folder.to_owned());
        Service {
            inbox: Inbox::new(receive.clone()),
            receive,
            traces: Arc::default(),
            folder: folder.to_owned(),
        }
    }

    /// Returns the service with an idle timeout of [`IDLE`].
    pub(crate) fn impatient(self) -> Service {
        let receive = self.receive.idle_timeout(IDLE);
        Service {
            inbox: Inbox::new(receive.clone()),
            receive,
            ..self
        }
    }

    pub(crate) fn trace(&self, name: &str) -> Option<Trace> {
        self.traces.lock().unwrap().get(name).cloned()
    }
}

#[tonic::async_trait]
impl Shelf for Service {
    async fn put(&self, request: Request<Streaming<Frame>>) -> Result<Response<Stored>, Status> {
        let to = request.metadata().get("to").cloned();
        let frames = request.into_inner();
        let size = match to.as_ref().map(|to| to.as_bytes()) {
            Some(b"file") => {
                self.receive
                    .file(frames, self.folder.join("put.pb"))
                    .await?
            }
            Some(b"memory") => {
                let trace: Trace = self.receive.message(frames).await?;
                trace.samples.len() as u64
            }
            Some(b"never") => {
                tokio::time::sleep(Duration::from_secs(600)).await;
                0
            }
            _ => {
                let trace: Trace = self.inbox.message(frames).await?;
                let size = trace.samples.len() as u64;
                self.traces
                    .lock()
                    .unwrap()
                    .insert(trace.name.clone(), trace);
                size
            }
        };
        Ok(Response::new(Stored { size, crc32c: 0 }))
    }

    async fn resume(&self, asked: Request<ResumeToken>) -> Result<Response<ResumeToken>, Status> {
        Ok(Response::new(self.inbox.token(asked.get_ref())))
    }

    type GetStream = OutgoingResults;
    async fn get(&self, request: Request<Wanted>) -> Result<Response<OutgoingResults>, Status> {
        let wanted = request.into_inner();
        let trace = self.trace(&wanted.name);
        let trace = trace.ok_or_else(|| Status::not_found("no such trace"))?;
        let token = wanted.token.unwrap_or_default();
        let frames = Outgoing::resume(SizeSplitter, &trace, token, &small_chunks());
        Ok(Response::new(
            frames.map_err(|error| status(&error))?.results(),
        ))
    }

    type EchoStream = Streaming<Frame>;
    async fn echo(
        &self,
        request: Request<Streaming<Frame>>,
    ) -> Result<Response<Streaming<Frame>>, Status> {
        Ok(Response::new(request.into_inner()))
    }

    async fn plain(&self, _: Request<Trace>) -> Result<Response<Stored>, Status> {
        Err(Status::unimplemented("only frames"))
    }
}

/// Runs a service on a free port until the runtime of the test ends, and returns its address.
pub(crate) async fn served(service: Service) -> SocketAddr {
    run(Server::builder().add_service(ShelfServer::new(service))).await
}

/// Runs a service like [`served`]. The service only accepts calls with this authorization.
pub(crate) async fn served_for(service: Service, authorization: &'static str) -> SocketAddr {
    let check = move |request: Request<()>| match request.metadata().get("authorization") {
        Some(said) if said == authorization => Ok(request),
        _ => Err(Status::unauthenticated("who are you?")),
    };
    let service = ShelfServer::with_interceptor(service, check);
    run(Server::builder().add_service(service)).await
}

pub(crate) async fn run(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let incoming = TcpListenerStream::new(listener);
    tokio::spawn(async move { router.serve_with_incoming(incoming).await.unwrap() });
    address
}

pub(crate) fn channel(address: SocketAddr) -> Channel {
    let address = format!("http://{address}");
    Channel::from_shared(address).unwrap().connect_lazy()
}

pub(crate) async fn client(address: SocketAddr) -> ShelfClient<Channel> {
    ShelfClient::new(channel(address))
}

/// Returns a trace that consists of `samples` samples with 100,000 bytes each. All samples differ.
pub(crate) fn trace(samples: usize) -> Trace {
    let sample = |at: usize| {
        let numbers = (0..12_500).map(|number| (number * (at as u64 + 3)).to_le_bytes());
        Bytes::from(numbers.flatten().collect::<Vec<u8>>())
    };
    Trace {
        name: format!("{samples} samples"),
        samples: (0..samples).map(sample).collect(),
    }
}

/// Returns options with a maximum chunk size of about one sample, so that a transfer has many
/// chunks.
pub(crate) fn small_chunks() -> SendOptions {
    let split = SplitOptions::new()
        .max_chunk_size(150_000)
        .value_chunk_size(Some(50_000));
    SendOptions::new().split(split).max_frame_size(40_000)
}

/// Returns the number of files in a folder. Files with chunks don't count, since they have no name.
pub(crate) fn files(folder: &Path) -> usize {
    folder.read_dir().unwrap().count()
}

/// A proxy that forwards connections to a server, and cuts some of them.
pub(crate) struct Cutter {
    pub(crate) address: SocketAddr,
    cuts: Arc<AtomicU64>,
}

impl Cutter {
    /// Creates a proxy for the server at `to`. It cuts one connection for each element of `after`,
    /// once the client has sent this number of bytes. Later connections aren't cut.
    pub(crate) async fn new(to: SocketAddr, after: Vec<usize>) -> Cutter {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cuts = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&cuts);
        tokio::spawn(async move {
            let mut after = after.into_iter();
            loop {
                let (from, _) = listener.accept().await.unwrap();
                let to = TcpStream::connect(to).await.unwrap();
                let counted = Arc::clone(&counted);
                let budget = after.next();
                tokio::spawn(async move {
                    if forward(from, to, budget).await.is_none() {
                        counted.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        Cutter { address, cuts }
    }

    pub(crate) fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::Relaxed)
    }
}

/// Forwards bytes in both directions until a side closes the connection. Returns `None` once the
/// client has sent more than `budget` bytes; the connection is cut then.
async fn forward(mut from: TcpStream, mut to: TcpStream, budget: Option<usize>) -> Option<()> {
    let (mut left, mut there, mut back) = (budget, vec![0; 16 << 10], vec![0; 16 << 10]);
    loop {
        tokio::select! {
            read = from.read(&mut there) => {
                let len = read.ok().filter(|len| *len > 0);
                let Some(len) = len else { return Some(()) };
                if let Some(left) = &mut left {
                    *left = left.checked_sub(len)?;
                }
                to.write_all(&there[..len]).await.ok();
            }
            read = to.read(&mut back) => {
                let len = read.ok().filter(|len| *len > 0);
                let Some(len) = len else { return Some(()) };
                from.write_all(&back[..len]).await.ok();
            }
        }
    }
}
