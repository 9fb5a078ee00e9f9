//! Transfers beside raw TCP and beside one large gRPC message.
//!
//! `cargo bench -p proto-splitter-tonic --bench grpc`; `-- small` with less. Prints the tables of `benches/tables/grpc.md`.

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
use tokio_stream::wrappers::TcpListenerStream;
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

/// Takes messages typed, and puts frames together or only checks them.
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
    /// Takes a transfer to a handle, in the memory of a frame.
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

async fn served() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = ShelfServer::new(Service).max_decoding_message_size(NO_LIMIT);
    let server = Server::builder().add_service(service);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    address
}

/// A message that shares one sample, so that the sender holds next to nothing.
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

/// The same bytes over TCP, in buffers of 1 MiB, kept by the receiver.
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

struct Measured {
    best: f64,
    median: f64,
    peak: f64,
}

/// Runs a job so often; its peak is what is allocated at most beside what was before.
async fn measured<F: Future<Output = f64>>(runs: usize, mut job: impl FnMut() -> F) -> Measured {
    let (mut times, mut peak) = (Vec::new(), 0.0_f64);
    for _ in 0..runs {
        let before = PEAK.current_usage_as_mb();
        PEAK.reset_peak_usage();
        times.push(job().await);
        peak = peak.max(f64::from(PEAK.peak_usage_as_mb() - before));
    }
    times.sort_by(f64::total_cmp);
    Measured {
        best: times[0],
        median: times[times.len() / 2],
        peak,
    }
}

#[tokio::main]
async fn main() {
    let small = std::env::args().any(|argument| argument == "small");
    let (large, runs) = if small {
        (64 * MIB, 1)
    } else {
        (1900 * MIB, 5)
    };
    let address = served().await;
    let channel = Channel::from_shared(format!("http://{address}")).unwrap();
    let channel = channel.connect().await.unwrap();
    let client = ShelfClient::new(channel).max_encoding_message_size(NO_LIMIT);
    let sent = trace(large);

    let tcp = measured(runs, || raw_tcp(&sent)).await;
    let typed = measured(runs, || async {
        let mut client = client.clone();
        let begun = Instant::now();
        send(|frames| client.put(frames), &sent).await.unwrap();
        begun.elapsed().as_secs_f64()
    });
    let typed = typed.await;
    let handle = measured(runs, || async {
        let mut client = client.clone();
        let begun = Instant::now();
        // It ends with a status that says that all of it was taken.
        let _ = send(|frames| client.echo(frames), &sent).await;
        begun.elapsed().as_secs_f64()
    });
    let handle = handle.await;
    let plain = measured(runs, || async {
        let mut client = client.clone();
        let message = sent.clone();
        let begun = Instant::now();
        client.plain(message).await.unwrap();
        begun.elapsed().as_secs_f64()
    });
    let plain = plain.await;
    println!(
        "| {} MiB | best s | median s | times raw TCP | peak MiB |",
        large / MIB
    );
    println!("| --- | --- | --- | --- | --- |");
    for (name, one) in [
        ("raw TCP, kept in buffers of 1 MiB", &tcp),
        ("frames, to a typed message", &typed),
        ("frames, to a handle", &handle),
        ("one gRPC message", &plain),
    ] {
        let (best, median, peak) = (one.best, one.median, one.peak);
        println!(
            "| {name} | {best:.2} | {median:.2} | {:.2} | {peak:.0} |",
            median / tcp.median
        );
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
