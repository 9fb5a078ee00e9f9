//! The Rust programs for the interoperability tests in `tests/interop/grpc`: a server that stores
//! messages in files, and a client that sends and receives messages.
#![allow(clippy::print_stdout, reason = "an example")]

mod shelf;

use std::error::Error;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use proto_splitter_core::prost_reflect::{DescriptorPool, MessageDescriptor};
use proto_splitter_core::split::{Profile, Source, SplitInput, SplitOptions};
use proto_splitter_tonic::proto::{Frame, ResumeToken};
use proto_splitter_tonic::{
    Inbox, Outgoing, OutgoingResults, Receive, Retry, SendOptions, send_resuming, status,
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, Streaming};

use shelf::shelf_client::ShelfClient;
use shelf::shelf_server::{Shelf, ShelfServer};
use shelf::{Stored, Trace, Wanted};

type Done<T = ()> = Result<T, Box<dyn Error>>;

const USAGE: &str = "usage: interop serve FOLDER SCHEMA TYPE | send ADDRESS FILE SCHEMA TYPE CHUNK | typed ADDRESS MEBIBYTES \
| get ADDRESS NAME TARGET | idle";

#[tokio::main]
async fn main() -> Done {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", folder, schema, name] => serve(folder, message_type(schema, name)?).await,
        ["send", address, file, schema, name, chunk] => {
            let source = Source::open(file, message_type(schema, name)?)?;
            let split = SplitOptions::new()
                .profile(Profile::Extended)
                .max_chunk_size(chunk.parse()?);
            put(address, source.into(), &SendOptions::new().split(split)).await
        }
        ["typed", address, mebibytes] => {
            // All samples share the same memory, so they aren't copied.
            let sample = Bytes::from(vec![7; 16 << 20]);
            let samples = vec![sample; mebibytes.parse::<usize>()?.div_ceil(16)];
            let name = "typed".to_owned();
            let source = (&Trace { name, samples }).into();
            put(address, source, &SendOptions::new()).await
        }
        // Does nothing, in order to measure the memory that the process uses without a transfer.
        ["idle"] => Ok(()),
        ["get", address, name, target] => get(address, name, target).await,
        _ => Err(USAGE.into()),
    }?;
    println!("{}", peak()?);
    Ok(())
}

/// Returns the peak memory use of this process, in MiB.
fn peak() -> Done<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("no VmHWM")?.parse::<u64>()? >> 10)
}

fn message_type(schema: &str, name: &str) -> Done<MessageDescriptor> {
    let pool = DescriptorPool::decode(&std::fs::read(schema)?[..])?;
    Ok(pool.get_message_by_name(name).ok_or("no such type")?)
}

struct Service {
    inbox: Inbox,
    folder: PathBuf,
    descriptor: MessageDescriptor,
}

#[tonic::async_trait]
impl Shelf for Service {
    async fn put(&self, request: Request<Streaming<Frame>>) -> Result<Response<Stored>, Status> {
        let target = self.folder.join("put.pb");
        let size = self.inbox.file(request.into_inner(), target).await?;
        Ok(Response::new(Stored { size, crc32c: 0 }))
    }

    async fn resume(&self, asked: Request<ResumeToken>) -> Result<Response<ResumeToken>, Status> {
        Ok(Response::new(self.inbox.token(asked.get_ref())))
    }

    type GetStream = OutgoingResults;
    async fn get(&self, wanted: Request<Wanted>) -> Result<Response<OutgoingResults>, Status> {
        let path = self.folder.join(&wanted.get_ref().name);
        let failed = |error| status(&error);
        let source = Source::open(path, self.descriptor.clone()).map_err(failed)?;
        let frames = Outgoing::new(source, &SendOptions::new()).map_err(failed)?;
        Ok(Response::new(frames.results()))
    }

    type EchoStream = Streaming<Frame>;
    async fn echo(
        &self,
        frames: Request<Streaming<Frame>>,
    ) -> Result<Response<Streaming<Frame>>, Status> {
        Ok(Response::new(frames.into_inner()))
    }

    async fn plain(&self, _: Request<Trace>) -> Result<Response<Stored>, Status> {
        Err(Status::unimplemented("only frames"))
    }
}

async fn serve(folder: &str, descriptor: MessageDescriptor) -> Done {
    let folder = PathBuf::from(folder);
    let receive = Receive::new().folder(folder.clone()).force(true);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let service = ShelfServer::new(Service {
        inbox: Inbox::new(receive),
        folder,
        descriptor,
    });
    let server = tonic::transport::Server::builder().add_service(service);
    let incoming = TcpListenerStream::new(listener);
    Ok(server.serve_with_incoming(incoming).await?)
}

async fn put(address: &str, source: SplitInput, options: &SendOptions) -> Done {
    let client = ShelfClient::connect(format!("http://{address}")).await?;
    let put = |frames| {
        let mut client = client.clone();
        async move { client.put(frames).await }
    };
    let ask = |token| {
        let mut client = client.clone();
        async move { client.resume(token).await }
    };
    let stored = send_resuming(put, ask, source, options, Retry::new()).await?;
    println!("{}", stored.into_inner().size);
    Ok(())
}

async fn get(address: &str, name: &str, target: impl AsRef<Path>) -> Done {
    let mut client = ShelfClient::connect(format!("http://{address}")).await?;
    let name = name.to_owned();
    let frames = client.get(Wanted { name, token: None }).await?.into_inner();
    println!("{}", Receive::new().file(frames, target).await?);
    Ok(())
}
