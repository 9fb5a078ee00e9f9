//! A server that stores traces of any size, and a client that sends a trace and gets it back. This
//! example is in this crate rather than in the root package, whose examples are built without
//! tonic. Run it with:
//!
//! ```sh
//! cargo run --release -p proto-splitter-tonic --example grpc -- server 127.0.0.1:50051 &
//! cargo run --release -p proto-splitter-tonic --example grpc -- client 127.0.0.1:50051 256
//! ```
#![allow(clippy::print_stdout, reason = "an example")]

mod shelf;

use std::error::Error;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server", address] => server::run(address).await,
        ["client", address, mebibytes] => client::run(address, mebibytes.parse()?).await,
        _ => Err("usage: grpc server ADDRESS | grpc client ADDRESS MEBIBYTES".into()),
    }
}

mod server {
    use std::collections::HashMap;
    use std::sync::{Mutex, PoisonError};

    use proto_splitter_tonic::proto::{Frame, ResumeToken};
    use proto_splitter_tonic::{Inbox, Outgoing, OutgoingResults, Receive, SendOptions, status};
    use tonic::{Request, Response, Status, Streaming};

    use crate::shelf::shelf_server::{Shelf, ShelfServer};
    use crate::shelf::{Stored, Trace, Wanted};

    type Answer<T> = Result<Response<T>, Status>;

    struct Service {
        inbox: Inbox,
        traces: Mutex<HashMap<String, Trace>>,
    }

    #[tonic::async_trait]
    impl Shelf for Service {
        async fn put(&self, frames: Request<Streaming<Frame>>) -> Answer<Stored> {
            let trace: Trace = self.inbox.message(frames.into_inner()).await?;
            let size = trace.samples.iter().map(|sample| sample.len() as u64).sum();
            let mut traces = self.traces.lock().unwrap_or_else(PoisonError::into_inner);
            traces.insert(trace.name.clone(), trace);
            Ok(Response::new(Stored { size, crc32c: 0 }))
        }

        async fn resume(&self, asked: Request<ResumeToken>) -> Answer<ResumeToken> {
            Ok(Response::new(self.inbox.token(asked.get_ref())))
        }

        type GetStream = OutgoingResults;
        async fn get(&self, wanted: Request<Wanted>) -> Answer<OutgoingResults> {
            let traces = self.traces.lock().unwrap_or_else(PoisonError::into_inner);
            let trace = traces.get(&wanted.get_ref().name);
            let trace = trace.ok_or_else(|| Status::not_found("no such trace"))?;
            let frames =
                Outgoing::new(trace, &SendOptions::new()).map_err(|error| status(&error))?;
            Ok(Response::new(frames.results()))
        }

        type EchoStream = Streaming<Frame>;
        async fn echo(&self, frames: Request<Streaming<Frame>>) -> Answer<Streaming<Frame>> {
            Ok(Response::new(frames.into_inner()))
        }

        async fn plain(&self, _: Request<Trace>) -> Answer<Stored> {
            Err(Status::unimplemented("this server takes frames"))
        }
    }

    pub(crate) async fn run(address: &str) -> Result<(), Box<dyn std::error::Error>> {
        let (inbox, traces) = (Inbox::new(Receive::new()), Mutex::default());
        let service = ShelfServer::new(Service { inbox, traces });
        let server = proto_splitter_tonic::server().add_service(service);
        Ok(server.serve(address.parse()?).await?)
    }
}

mod client {
    use proto_splitter_tonic::{Receive, Retry, SendOptions, send, send_resuming};

    use crate::shelf::shelf_client::ShelfClient;
    use crate::shelf::{Trace, Wanted};

    pub(crate) async fn run(
        address: &str,
        mebibytes: usize,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let endpoint = proto_splitter_tonic::endpoint(format!("http://{address}"))?;
        let mut client = ShelfClient::new(endpoint.connect().await?);
        let sample = bytes::Bytes::from(vec![7; 1 << 20]);
        let trace = Trace {
            name: "example".into(),
            samples: vec![sample; mebibytes],
        };

        // Sends a message of any size in one call, although gRPC limits messages to 4 MiB by
        // default.
        let stored = send(|frames| client.put(frames), &trace)
            .await?
            .into_inner();
        println!("sent {} bytes of samples", stored.size);

        // `send_resuming` does the same, and resumes whenever the connection breaks.
        let put = |frames| {
            let mut client = client.clone();
            async move { client.put(frames).await }
        };
        let ask = |token| {
            let mut client = client.clone();
            async move { client.resume(token).await }
        };
        send_resuming(put, ask, &trace, &SendOptions::new(), Retry::new()).await?;

        // Receives the message back in one call.
        let name = trace.name.clone();
        let frames = client.get(Wanted { name, token: None }).await?.into_inner();
        let again: Trace = Receive::new().message(frames).await?;
        println!(
            "got back {} samples, equal: {}",
            again.samples.len(),
            again == trace
        );
        Ok(())
    }
}
