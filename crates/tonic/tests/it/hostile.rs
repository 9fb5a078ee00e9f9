//! Tests with peers that send false frames, stall, or never end. Each call must end with one status
//! that has a clear message.

use std::time::Duration;

use proto_splitter_core::Result;
use proto_splitter_core::split::SizeSplitter;
use proto_splitter_tonic::proto::{Begin, Data, Frame};
use proto_splitter_tonic::{Receive, ReceiveOptions, detail};
use proto_splitter_transfer::Frames;
use tempfile::tempdir;
use tokio_stream::{Stream, StreamExt};
use tonic::{Code, Request, Status};

use crate::support::{Service, client, files, served, small_chunks, trace};

fn begin(frames: &mut [Frame]) -> &mut Begin {
    frames[0].begin.as_mut().unwrap()
}

fn sent() -> Vec<Frame> {
    let frames = Frames::new(&SizeSplitter, &trace(6), &small_chunks()).unwrap();
    frames.collect::<Result<_>>().unwrap()
}

/// Sends these frames to each kind of receiver, and returns the statuses of the calls. Checks that
/// the receivers leave no files. If `ends` is false, the stream stays open after the frames.
async fn refused(make: impl Fn() -> Vec<Frame>, ends: bool) -> Vec<Status> {
    let folder = tempdir().unwrap();
    let mut service = Service::new(folder.path());
    if !ends {
        service = service.impatient();
    }
    let mut client = client(served(service.clone()).await).await;
    let mut said = Vec::new();
    for to in ["memory", "file", "inbox"] {
        let frames = tokio_stream::iter(make());
        let frames = frames.chain(rest(ends));
        let mut request = Request::new(frames);
        request.metadata_mut().insert("to", to.parse().unwrap());
        said.push(client.put(request).await.unwrap_err());
        assert_eq!(files(folder.path()), 0);
        assert!(service.traces.lock().unwrap().is_empty());
    }
    said
}

/// Returns the remainder of a stream after its frames: a stream that ends, or one that stays open
/// without any frames.
fn rest(ends: bool) -> Box<dyn Stream<Item = Frame> + Send + Unpin> {
    if ends {
        Box::new(tokio_stream::empty())
    } else {
        Box::new(tokio_stream::pending())
    }
}

#[tokio::test]
async fn each_lie_ends_in_one_status_with_a_clear_line() {
    type Lie = fn(&mut Vec<Frame>);
    let lies: &[(Code, &str, Lie)] = &[
        (Code::Unavailable, "no frame came", |sent| sent.clear()),
        (Code::Unavailable, "broke off in chunk", |sent| {
            sent.truncate(9)
        }),
        (Code::InvalidArgument, "has no `begin`", |sent| {
            sent.remove(0);
        }),
        (Code::InvalidArgument, "a second `begin`", |sent| {
            sent[1].begin = sent[0].begin.clone();
        }),
        (
            Code::InvalidArgument,
            "but shelf.Trace is expected",
            |sent| {
                begin(sent).message_type = "shelf.Other".into();
            },
        ),
        (Code::Unimplemented, "version 7", |sent| {
            begin(sent).version = 7
        }),
        (
            Code::ResourceExhausted,
            "bytes, but at most 67108864 are allowed",
            |sent| {
                begin(sent).message_size = 1 << 40;
            },
        ),
        (
            Code::ResourceExhausted,
            "but at most 1000000 are allowed",
            |sent| {
                begin(sent).chunk_count = u64::MAX;
            },
        ),
        (Code::InvalidArgument, "were announced", |sent| {
            begin(sent).chunk_bytes = 77;
        }),
        (Code::InvalidArgument, "was expected", |sent| {
            sent.swap(3, 4)
        }),
        (Code::InvalidArgument, "was expected", |sent| {
            let twice = sent[3].clone();
            sent.insert(3, twice);
        }),
        (Code::InvalidArgument, "a piece claims", |sent| {
            sent[3].data[0].zstd_size = Some(u64::MAX);
        }),
        (Code::DataLoss, "the chunk has crc32c", |sent| {
            let content = sent[2].data[0].content.to_vec();
            let changed: Vec<u8> = content.iter().map(|byte| byte ^ 1).collect();
            sent[2].data[0].content = changed.into();
        }),
        (Code::DataLoss, "the trailer has crc32c", |sent| {
            begin(sent).trailer_crc32c ^= 1;
        }),
        (Code::DataLoss, "the chunks together have crc32c", |sent| {
            sent.last_mut().unwrap().end.as_mut().unwrap().chunks_crc32c ^= 1;
        }),
        (Code::DataLoss, "but the original had", |sent| {
            let end = sent.last_mut().unwrap().end.as_mut().unwrap();
            end.source_crc32c = end.source_crc32c.map(|sum| sum ^ 1);
        }),
        (Code::InvalidArgument, "after the last", |sent| {
            let data = vec![Data::default()];
            sent.push(Frame {
                data,
                ..Frame::default()
            });
        }),
    ];
    for (code, line, lie) in lies {
        let make = || {
            let mut frames = sent();
            lie(&mut frames);
            frames
        };
        for status in refused(make, true).await {
            assert_eq!(status.code(), *code, "{line}: {status}");
            assert!(status.message().contains(line), "{line}: {status}");
            assert_eq!(status.message().lines().count(), 1);
            let detail = detail(&status).unwrap();
            assert!(!detail.kind.is_empty());
            if line.starts_with("the chunk has") {
                assert!(detail.chunk.is_some() && detail.offset.is_some());
            }
        }
    }
}

#[tokio::test]
async fn a_peer_that_stalls_is_waited_for_no_longer_than_allowed() {
    for frames in [0, 1, 9] {
        let make = || sent().into_iter().take(frames).collect();
        for status in refused(make, false).await {
            assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
            assert!(
                status.message().contains("no frame came for 300ms"),
                "{status}"
            );
        }
    }
}

#[tokio::test]
async fn a_lie_ends_the_call_although_the_peer_then_stalls() {
    let folder = tempdir().unwrap();
    let mut frames = sent();
    frames.swap(3, 4);
    let frames = tokio_stream::iter(frames.into_iter().map(Ok::<_, Status>));
    let frames = frames.chain(tokio_stream::pending());
    // Without an idle timeout, the receiver waits for the next frame indefinitely.
    let receive = Receive::new()
        .idle_timeout(None)
        .folder(folder.path().to_owned());
    let target = folder.path().join("m.pb");
    let status = receive.file(frames, target).await.unwrap_err();
    assert!(status.message().contains("was expected"), "{status}");
    assert_eq!(files(folder.path()), 0);
}

#[tokio::test]
async fn an_endless_peer_is_stopped_by_what_it_announced_and_by_time() {
    let folder = tempdir().unwrap();
    let service = Service::new(folder.path());
    let mut client = client(served(service).await).await;
    let frames = sent();
    let again = frames[2].clone();
    let endless = tokio_stream::iter(frames).chain(tokio_stream::iter(std::iter::repeat(again)));
    let status = client.put(endless).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");

    // The limit on the total time also ends a transfer whose frames arrive slowly, but regularly.
    let slow = tokio_stream::iter(sent()).then(|frame| async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok::<_, Status>(frame)
    });
    let slow = std::pin::pin!(slow);
    let receive = Receive::new().timeout(Duration::from_millis(350));
    let status = receive.bytes(slow).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    let line = "the transfer took longer than 350ms, in chunk";
    assert!(status.message().contains(line), "{status}");
}

#[tokio::test]
async fn a_size_that_is_announced_and_allowed_takes_no_memory_before_it_comes() {
    let mut frames = sent();
    frames.truncate(3);
    let options = ReceiveOptions::new().max_message_size(u64::MAX);
    let frames = tokio_stream::iter(frames.into_iter().map(Ok::<_, Status>));
    let status = Receive::new()
        .options(options)
        .bytes(frames)
        .await
        .unwrap_err();
    assert!(status.message().contains("broke off"), "{status}");
}
