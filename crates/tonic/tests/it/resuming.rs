//! Tests of transfers over connections that break.

use std::time::Duration;

use bytes::Bytes;
use proto_splitter_core::split::SizeSplitter;
use proto_splitter_tonic::proto::{Frame, ResumeToken};
use proto_splitter_tonic::{Inbox, Outgoing, Receive, Retry, is_broken, send_resuming};
use tempfile::tempdir;
use tokio::sync::mpsc::unbounded_channel;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Response, Status};

use crate::shelf::Trace;
use crate::support::{Cutter, Service, client, files, served, small_chunks, trace};

#[tokio::test]
async fn a_connection_that_is_cut_ten_times_resumes() {
    let folder = tempdir().unwrap();
    let service = Service::new(folder.path());
    let server = served(service.clone()).await;
    let sent = trace(60);
    // The connections for the 6 MB of the message are cut after different numbers of bytes.
    let after = (0..10).map(|at| 350_000 + at * 37_411 % 300_000).collect();
    let cutter = Cutter::new(server, after).await;
    let client = client(cutter.address).await;
    let put = |frames| {
        let mut client = client.clone();
        async move { client.put(frames).await }
    };
    let ask = |token: ResumeToken| {
        let mut client = client.clone();
        async move { client.resume(token).await }
    };
    // On a busy machine, several consecutive connections may break before the receiver makes
    // progress.
    let retry = Retry::new().attempts(20).pause(Duration::from_millis(10));
    let stored = send_resuming(put, ask, &sent, &small_chunks(), retry).await;
    assert_eq!(stored.unwrap().into_inner().size, 60);
    assert_eq!(cutter.cuts(), 10);
    assert!(service.trace(&sent.name).unwrap() == sent);
    assert_eq!(files(folder.path()), 0);
}

#[tokio::test]
async fn a_transfer_that_hangs_is_taken_over_and_adds_no_more() {
    let inbox = Inbox::new(Receive::new());
    let (sent, options) = (trace(3), small_chunks().session(&b"one"[..]));
    let frames: Vec<Frame> = Outgoing::new(&sent, &options).unwrap().collect().await;
    let (sender, hanging) = unbounded_channel();
    let early = frames.len() * 2 / 3;
    for frame in &frames[..early] {
        sender.send(Ok(frame.clone())).unwrap();
    }
    let old = tokio::spawn({
        let inbox = inbox.clone();
        async move {
            inbox
                .message::<Trace>(UnboundedReceiverStream::new(hanging))
                .await
        }
    });
    // The token must include the chunks that have arrived so far.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let question = ResumeToken {
        session: Bytes::from_static(b"one"),
        ..ResumeToken::default()
    };
    let token = inbox.token(&question);
    assert!(token.chunks > 0 && token == inbox.token(&question));
    let rest = Outgoing::resume(SizeSplitter, &sent, token, &options).unwrap();
    assert!(inbox.message::<Trace>(rest.results()).await.unwrap() == sent);
    // The old connection broke unnoticed, and one of its frames arrives only now.
    sender.send(Ok(frames[early].clone())).unwrap();
    assert_eq!(old.await.unwrap().unwrap_err().code(), Code::Aborted);
}

#[tokio::test]
async fn a_connection_that_never_gets_further_is_given_up() {
    let folder = tempdir().unwrap();
    let server = served(Service::new(folder.path())).await;
    let cutter = Cutter::new(server, vec![20_000; 1000]).await;
    let client = client(cutter.address).await;
    let put = |frames| {
        let mut client = client.clone();
        async move { client.put(frames).await }
    };
    let ask = |token: ResumeToken| {
        let mut client = client.clone();
        async move { client.resume(token).await }
    };
    let retry = Retry::new().attempts(3).pause(Duration::from_millis(1));
    let status = send_resuming(put, ask, &trace(60), &small_chunks(), retry).await;
    assert!(is_broken(&status.unwrap_err()));
    assert!(cutter.cuts() <= 6);
}

#[tokio::test]
async fn a_receiver_that_always_claims_more_is_given_up_in_time() {
    let put = |_| async { Err::<(), _>(Status::unavailable("try again")) };
    let mut chunks = 0;
    let ask = |token: ResumeToken| {
        chunks += 1;
        let answer = ResumeToken { chunks, ..token };
        async move { Ok(Response::new(answer)) }
    };
    let retry = Retry::new()
        .pause(Duration::from_millis(1))
        .timeout(Duration::from_millis(200));
    let status = send_resuming(put, ask, &trace(1), &small_chunks(), retry)
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    assert!(status.message().contains("all attempts together"));
}
