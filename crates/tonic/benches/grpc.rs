//! A benchmark that compares transfers with raw TCP, and with one large gRPC message.
//!
//! Run the benchmark with `cargo bench -p proto-splitter-tonic --bench grpc`. The option
//! `-- --quick` transfers fewer bytes, and `-- --default-windows` uses HTTP/2's default windows. The
//! output consists of the tables in `benches/tables/grpc.md`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    missing_docs,
    reason = "a benchmark"
)]

use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;
use peak_alloc::PeakAlloc;
use proto_splitter_tonic::proto::{Frame, ResumeToken};
use proto_splitter_tonic::{OutgoingResults, Receive, send};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status, Streaming};

#[path = "../examples/shelf/mod.rs"]
mod shelf;

use shelf::shelf_client::ShelfClient;
use shelf::shelf_server::{Shelf, ShelfServer};
use shelf::{Stored, Trace, Wanted};

#[global_allocator]
static PEAK: PeakAlloc = PeakAlloc;

const MIB: usize = 1 << 20;
const NO_LIMIT: usize = usize::MAX;

/// A service that receives a transfer as a typed message or as a handle, and a plain gRPC message.
struct Service;

#[tonic::async_trait]
impl Shelf for Service {
    async fn put(&self, request: Request<Streaming<Frame>>) -> Result<Response<Stored>, Status> {
        let trace: Trace = Receive::new().message(request.into_inner()).await?;
        let size = trace.samples.iter().map(|sample| sample.len() as u64).sum();
        Ok(Response::new(Stored { size, crc32c: 0 }))
    }

    async fn resume(&self, _: Request<ResumeToken>) -> Result<Response<ResumeToken>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    type GetStream = OutgoingResults;
    async fn get(&self, _: Request<Wanted>) -> Result<Response<OutgoingResults>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    type EchoStream = Streaming<Frame>;
    /// Receives a transfer as a handle, which holds one frame in memory at a time.
    async fn echo(
        &self,
        request: Request<Streaming<Frame>>,
    ) -> Result<Response<Streaming<Frame>>, Status> {
        let handle = Receive::new().handle(request.into_inner()).await?;
        handle.complete().await?;
        Err(Status::ok("taken"))
    }

    async fn plain(&self, request: Request<Trace>) -> Result<Response<Stored>, Status> {
        let samples = &request.get_ref().samples;
        let size = samples.iter().map(|sample| sample.len() as u64).sum();
        Ok(Response::new(Stored { size, crc32c: 0 }))
    }
}

async fn served(mut server: Server) -> SocketAddr {
    // These settings are the same as those of `Server::serve`.
    let incoming = TcpIncoming::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let incoming = incoming.with_nodelay(Some(true));
    let address = incoming.local_addr().unwrap();
    let service = ShelfServer::new(Service).max_decoding_message_size(NO_LIMIT);
    tokio::spawn(server.add_service(service).serve_with_incoming(incoming));
    address
}

/// Returns a message of about `size` bytes. Its samples share memory, so the sender uses little.
fn trace(size: usize) -> Trace {
    let sample = Bytes::from(
        (0..=250_u8)
            .cycle()
            .step_by(7)
            .take(MIB)
            .collect::<Vec<_>>(),
    );
    let sample = sample.slice(..size.min(MIB));
    Trace {
        name: "bench".into(),
        samples: vec![sample; (size / MIB).max(1)],
    }
}

/// Sends the samples over TCP, in buffers of 1 MiB, and returns the duration in seconds. The
/// receiver keeps all bytes in memory.
async fn raw_tcp(trace: &Trace) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = trace.samples.len();
    let receiver = tokio::spawn(async move {
        let (mut from, _) = listener.accept().await.unwrap();
        let mut kept = Vec::with_capacity(count);
        for _ in 0..count {
            let mut buffer = vec![0; MIB];
            from.read_exact(&mut buffer).await.unwrap();
            kept.push(buffer);
        }
        from.write_all(&[1]).await.unwrap();
        kept.len()
    });
    let begun = Instant::now();
    let mut to = TcpStream::connect(address).await.unwrap();
    for sample in &trace.samples {
        to.write_all(sample).await.unwrap();
    }
    to.read_exact(&mut [0]).await.unwrap();
    let took = begun.elapsed().as_secs_f64();
    assert_eq!(receiver.await.unwrap(), count);
    took
}

/// The methods of transferring a message that are compared.
#[derive(Clone, Copy)]
enum Way {
    Tcp,
    Typed,
    Handle,
    Plain,
}

impl Way {
    const ALL: [Way; 4] = [Way::Tcp, Way::Typed, Way::Handle, Way::Plain];

    fn title(self) -> &'static str {
        match self {
            Way::Tcp => "raw TCP, kept in buffers of 1 MiB",
            Way::Typed => "frames, to a typed message",
            Way::Handle => "frames, to a handle",
            Way::Plain => "one gRPC message, limits raised",
        }
    }

    /// Transfers the message with this method, and returns the duration in seconds.
    async fn run(self, client: &ShelfClient<Channel>, sent: &Trace) -> f64 {
        let mut client = client.clone();
        let message = sent.clone();
        let begun = Instant::now();
        match self {
            Way::Tcp => return raw_tcp(sent).await,
            Way::Typed => drop(send(|frames| client.put(frames), sent).await.unwrap()),
            // The service ends the call with an error status once it has received everything.
            Way::Handle => drop(send(|frames| client.echo(frames), sent).await),
            Way::Plain => drop(client.plain(message).await.unwrap()),
        }
        begun.elapsed().as_secs_f64()
    }
}

#[derive(Clone, Default)]
struct Measured {
    times: Vec<f64>,
    /// Peak of the memory that both sides allocated during a transfer, in MiB, in addition to the
    /// memory in use before it.
    peak: f64,
}

impl Measured {
    fn best(&self) -> f64 {
        self.times.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn median(&self) -> f64 {
        let mut times = self.times.clone();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }
}

/// Measures each method in turn, several times. The first time is a warm-up, and isn't counted.
async fn measured(turns: usize, client: &ShelfClient<Channel>, sent: &Trace) -> Vec<Measured> {
    let mut measured = vec![Measured::default(); Way::ALL.len()];
    for turn in 0..=turns {
        for (way, measured) in Way::ALL.into_iter().zip(&mut measured) {
            let before = PEAK.current_usage_as_mb();
            PEAK.reset_peak_usage();
            let took = way.run(client, sent).await;
            if turn > 0 {
                measured.times.push(took);
                let peak = f64::from(PEAK.peak_usage_as_mb() - before);
                measured.peak = measured.peak.max(peak);
            }
        }
    }
    measured
}

#[tokio::main]
async fn main() {
    let asked = |option: &str| std::env::args().any(|argument| argument == option);
    let small = asked("--quick");
    let (large, turns) = if small {
        (64 * MIB, 1)
    } else {
        (1900 * MIB, 5)
    };
    let server = if asked("--default-windows") {
        Server::builder()
    } else {
        proto_splitter_tonic::server()
    };
    let address = served(server).await;
    let channel = Channel::from_shared(format!("http://{address}")).unwrap();
    let channel = channel.connect().await.unwrap();
    let client = ShelfClient::new(channel).max_encoding_message_size(NO_LIMIT);
    let sent = trace(large);

    let measured = measured(turns, &client, &sent).await;
    println!(
        "| {} MiB | best s | median s | times raw TCP | peak MiB, both sides |",
        large / MIB
    );
    println!("| --- | --- | --- | --- | --- |");
    for (way, one) in Way::ALL.into_iter().zip(&measured) {
        let (best, median, peak) = (one.best(), one.median(), one.peak);
        let times = median / measured[0].median();
        let title = way.title();
        println!("| {title} | {best:.2} | {median:.2} | {times:.2} | {peak:.0} |");
    }

    println!(
        "\n| message | one gRPC message, µs | frames, µs | overhead, µs |\n| --- | --- | --- | --- |"
    );
    let calls = if small { 20 } else { 2000 };
    for (name, size) in [("1 KiB", 1 << 10), ("1 MiB", MIB)] {
        let message = trace(size);
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..calls {
            let mut client = client.clone();
            let begun = Instant::now();
            client.plain(message.clone()).await.unwrap();
            times[0].push(begun.elapsed().as_secs_f64() * 1e6);
            let begun = Instant::now();
            send(|frames| client.put(frames), &message).await.unwrap();
            times[1].push(begun.elapsed().as_secs_f64() * 1e6);
        }
        let [plain, frames] = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        });
        println!(
            "| {name} | {plain:.0} | {frames:.0} | {:.0} |",
            frames - plain
        );
    }
}
