//! Tests of sending and receiving messages in gRPC calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prost::Message;
use prost_reflect::ReflectMessage;
use proto_splitter_core::formats::{OpenOptions, Registry};
use proto_splitter_core::merge::ReadOptions;
use proto_splitter_core::progress::{CancelToken, Progress};
use proto_splitter_core::split::{SizeSplitter, Source, SplitExt, SplitOptions};
use proto_splitter_tonic::{Inbox, Outgoing, Receive, ReceiveOptions};
use proto_splitter_tonic::{SendOptions, send, send_with};
use tempfile::tempdir;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request};

use crate::shelf::shelf_client::ShelfClient;
use crate::shelf::shelf_server::ShelfServer;
use crate::shelf::{Trace, Wanted};
use crate::support::{
    Service, channel, client, files, run, served, served_for, small_chunks, trace,
};

#[tokio::test]
async fn messages_of_all_sizes_arrive_with_default_limits() {
    let folder = tempdir().unwrap();
    let service = Service::new(folder.path());
    let mut client = client(served(service.clone()).await).await;
    for samples in [0, 1, 9, 60, 300] {
        let sent = trace(samples);
        for options in [
            SendOptions::new(),
            small_chunks().compression_level(Some(1)),
        ] {
            let stored = send_with(|frames| client.put(frames), &sent, &options)
                .await
                .unwrap();
            assert_eq!(stored.into_inner().size, samples as u64);
            assert!(service.trace(&sent.name).unwrap() == sent);
            service.traces.lock().unwrap().clear();
        }
        let stored = send(|frames| client.put(put_to("memory", frames)), &sent).await;
        let stored = stored.unwrap();
        assert_eq!(stored.into_inner().size, samples as u64);
    }
    assert_eq!(files(folder.path()), 0);
}

/// Returns a request to store the message in the kind of storage `to`, such as a file.
fn put_to(to: &str, frames: Outgoing) -> Request<Outgoing> {
    let mut request = Request::new(frames);
    request.metadata_mut().insert("to", to.parse().unwrap());
    request
}

#[tokio::test]
async fn a_file_is_sent_and_received_as_a_file() {
    let folder = tempdir().unwrap();
    let service = Service::new(folder.path());
    let mut client = client(served(service.clone()).await).await;
    let sent = trace(80);
    let source = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(source.path(), sent.encode_to_vec()).unwrap();
    let source = Source::open_as::<Trace>(source.path()).unwrap();
    let stored = send(|frames| client.put(put_to("file", frames)), &source).await;
    let stored = stored.unwrap().into_inner();
    assert_eq!(stored.size, sent.encoded_len() as u64);
    let written = std::fs::read(folder.path().join("put.pb")).unwrap();
    assert!(written == sent.encode_to_vec());

    // An existing file is not replaced. The sender gets the error before it has sent the whole
    // message.
    let again = send(|frames| client.put(put_to("file", frames)), &source).await;
    let status = again.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists, "{status}");
    assert_eq!(files(folder.path()), 1);
}

#[tokio::test]
async fn a_target_that_cannot_be_written_is_refused_before_the_first_frame() {
    let folder = tempdir().unwrap();
    let there = folder.path().join("there.pb");
    std::fs::write(&there, "").unwrap();
    let targets = [
        (there, false, Code::AlreadyExists),
        (folder.path().join("missing/put.pb"), false, Code::NotFound),
        (folder.path().to_owned(), true, Code::FailedPrecondition),
    ];
    for (target, force, code) in targets {
        let receive = Receive::new().idle_timeout(Duration::from_millis(10));
        let receive = receive.force(force);
        let inbox = Inbox::new(receive.clone());
        // A receiver that waits for a frame would time out.
        let status = receive
            .file(tokio_stream::pending(), &target)
            .await
            .unwrap_err();
        assert_eq!(status.code(), code, "{status}");
        let status = inbox
            .file(tokio_stream::pending(), &target)
            .await
            .unwrap_err();
        assert_eq!(status.code(), code, "{status}");
    }
}

#[tokio::test]
async fn a_server_answers_with_a_message_of_any_size() {
    let folder = tempdir().unwrap();
    let service = Service::new(folder.path());
    let sent = trace(120);
    let name = sent.name.clone();
    (service.traces.lock().unwrap()).insert(name.clone(), sent.clone());
    let mut client = client(served(service).await).await;
    let wanted = || Wanted {
        name: name.clone(),
        token: None,
    };

    let frames = client.get(wanted()).await.unwrap().into_inner();
    let got: Trace = Receive::new().message(frames).await.unwrap();
    assert!(got == sent);

    // Receives the message as a handle, and reads parts of it before the whole message has arrived.
    let frames = client.get(wanted()).await.unwrap().into_inner();
    let handle = Receive::new().handle(frames).await.unwrap();
    let (file, descriptor) = (handle.file(), sent.descriptor());
    let read = move || {
        let view = file.view(ReadOptions::new().descriptor(descriptor));
        view.get(&"2[50]".parse().unwrap())
    };
    let sample = tokio::task::spawn_blocking(read).await.unwrap().unwrap();
    assert!(sample == sent.samples[50]);
    let file = handle.complete().await.unwrap();
    assert!(file.merge_to_bytes(&ReadOptions::new()).unwrap() == sent.encode_to_vec());

    let status = client.get(Wanted::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}

#[tokio::test]
async fn a_transfer_ends_if_its_handle_is_no_longer_waited_for() {
    let (sender, frames) = tokio::sync::mpsc::channel(1);
    let receive = Receive::new().idle_timeout(None);
    let opening = receive.handle(ReceiverStream::new(frames));
    // Drops the future after polling it once.
    let opened = tokio::time::timeout(Duration::ZERO, opening).await;
    assert!(opened.is_err());
    // The frames are dropped together with the transfer.
    let closed = tokio::time::timeout(Duration::from_secs(60), sender.closed());
    closed.await.unwrap();
}

#[tokio::test]
async fn a_message_comes_back_while_it_is_sent() {
    let folder = tempdir().unwrap();
    let mut client = client(served(Service::new(folder.path())).await).await;
    let sent = trace(200);
    let frames = Outgoing::new(&sent, &small_chunks()).unwrap();
    let back = client.echo(frames).await.unwrap().into_inner();
    let got: Trace = Receive::new().message(back).await.unwrap();
    assert!(got == sent);
}

#[tokio::test]
async fn frames_have_128_kib_unless_the_options_say_otherwise() {
    let sent = trace(30);
    for (options, most) in [
        (SendOptions::new(), 128 << 10),
        (SendOptions::new().compression_level(None), 128 << 10),
        (SendOptions::new().max_frame_size(1 << 20), 1 << 20),
        (SendOptions::new().max_frame_size(64 << 10), 64 << 10),
    ] {
        let frames = Outgoing::new(&sent, &options).unwrap();
        let sizes = frames.map(|frame| frame.encoded_len());
        let largest = sizes.fold(0, usize::max).await;
        assert!(largest <= most && largest > most / 2, "{largest} of {most}");
    }
}

#[tokio::test]
async fn large_windows_change_nothing_but_the_time() {
    let folder = tempdir().unwrap();
    let service = Service::new(folder.path());
    let router = proto_splitter_tonic::server().add_service(ShelfServer::new(service));
    let address = run(router).await;
    let endpoint = proto_splitter_tonic::endpoint(format!("http://{address}")).unwrap();
    let mut client = ShelfClient::new(endpoint.connect().await.unwrap());
    let sent = trace(300);
    send(|frames| client.put(frames), &sent).await.unwrap();
    let wanted = Wanted {
        name: sent.name.clone(),
        token: None,
    };
    let frames = client.get(wanted).await.unwrap().into_inner();
    let got: Trace = Receive::new().message(frames).await.unwrap();
    assert!(got == sent);
    assert!(proto_splitter_tonic::endpoint("not a URI").is_err());
}

#[tokio::test]
async fn an_error_of_the_source_is_the_senders_and_nothing_is_left() {
    let folder = tempdir().unwrap();
    let service = Service::new(folder.path());
    let mut client = client(served(service.clone()).await).await;
    let missing = std::path::PathBuf::from("no such file");
    let status = send(|frames| client.put(frames), missing)
        .await
        .unwrap_err();
    assert!(status.message().contains("no such file"), "{status}");

    // The source is a file that is truncated after it was opened, so reading it fails.
    let source = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(source.path(), trace(300).encode_to_vec()).unwrap();
    let opened = Source::open_as::<Trace>(source.path()).unwrap();
    source.as_file().set_len(10_000_000).unwrap();
    let status = send(|frames| client.put(frames), &opened)
        .await
        .unwrap_err();
    assert_ne!(status.code(), Code::Ok);
    assert!(service.traces.lock().unwrap().is_empty());
    assert_eq!(files(folder.path()), 0);
}

#[tokio::test]
async fn a_server_that_takes_nothing_is_sent_little_and_a_deadline_ends_it() {
    let folder = tempdir().unwrap();
    let mut client = client(served(Service::new(folder.path())).await).await;
    let made = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&made);
    let progress = Progress::new(move |done, _| {
        seen.fetch_max(done, Ordering::Relaxed);
    });
    let never = |frames| {
        let mut request = put_to("never", frames);
        request.set_timeout(Duration::from_millis(700));
        request
    };
    // All samples share the same memory.
    let sample = trace(1).samples.remove(0);
    let large = Trace {
        name: "large".into(),
        samples: vec![sample; 2000],
    };
    let options = SendOptions::new().progress(progress);
    let status = send_with(|frames| client.put(never(frames)), &large, &options)
        .await
        .unwrap_err();
    let codes = [Code::DeadlineExceeded, Code::Cancelled];
    assert!(codes.contains(&status.code()), "{status}");
    let made = made.load(Ordering::Relaxed);
    assert!(made < 16 << 20, "{made} bytes were made for nobody");
}

#[tokio::test]
async fn dropping_a_call_ends_the_transfer_on_both_sides() {
    let folder = tempdir().unwrap();
    let service = Service::new(folder.path());
    let mut client = client(served(service.clone()).await).await;
    let sent = trace(600);
    let sending = send(|frames| client.put(frames), &sent);
    let cut = tokio::time::timeout(Duration::from_millis(5), sending).await;
    assert!(cut.is_err());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(service.traces.lock().unwrap().is_empty());
    assert_eq!(files(folder.path()), 0);
    let stored = send(|frames| client.put(frames), &trace(2)).await.unwrap();
    assert_eq!(stored.into_inner().size, 2);
}

#[tokio::test]
async fn a_handle_and_a_reader_are_sent_as_the_message_that_they_are() {
    let folder = tempdir().unwrap();
    let service = Service::new(folder.path());
    let mut client = client(served(service.clone()).await).await;
    let sent = trace(40);
    let split = SplitOptions::new().max_chunk_size(150_000);
    let chunks = tempdir().unwrap();
    let written = SizeSplitter.write_with(&sent, chunks.path().join("trace"), &split);
    let options = OpenOptions::new().descriptor(sent.descriptor());
    let handle = Registry::new(&[]).open(written.unwrap().path, &options);
    let handle = handle.unwrap().merged_source().unwrap();

    let bytes = sent.encode_to_vec();
    let size = bytes.len() as u64;
    let reader = Source::from_reader(Arc::new(bytes), size, sent.descriptor());
    for source in [handle, reader] {
        send(|frames| client.put(frames), source).await.unwrap();
        assert!(service.trace(&sent.name).unwrap() == sent);
        service.traces.lock().unwrap().clear();
    }
}

#[tokio::test]
async fn an_interceptor_sees_the_call_and_can_refuse_it() {
    let folder = tempdir().unwrap();
    let service = Service::new(folder.path());
    let channel = channel(served_for(service.clone(), "a secret").await);
    let mut without = ShelfClient::new(channel.clone());
    let status = send(|frames| without.put(frames), &trace(300)).await;
    assert_eq!(status.unwrap_err().code(), Code::Unauthenticated);
    assert!(service.traces.lock().unwrap().is_empty());

    let authorized = |mut request: Request<()>| {
        let metadata = request.metadata_mut();
        metadata.insert("authorization", "a secret".parse().unwrap());
        Ok(request)
    };
    let mut client = ShelfClient::with_interceptor(channel, authorized);
    let sent = trace(60);
    send(|frames| client.put(frames), &sent).await.unwrap();
    assert!(service.trace(&sent.name).unwrap() == sent);
}

#[tokio::test]
async fn a_receiver_that_has_enough_ends_the_transfer() {
    let folder = tempdir().unwrap();
    let mut service = Service::new(folder.path());
    let (token, most) = (CancelToken::new(), Arc::new(AtomicU64::new(0)));
    let progress = Progress::new({
        let (token, most) = (token.clone(), Arc::clone(&most));
        move |done, total| {
            assert!(done <= total);
            most.fetch_max(done, Ordering::Relaxed);
            if done > 3_000_000 {
                token.cancel();
            }
        }
    });
    let progress = progress.cancelled_by(&token);
    service.receive = service
        .receive
        .options(ReceiveOptions::new().progress(progress));
    let mut client = client(served(service).await).await;
    let sent = trace(300);
    let status = send(|frames| client.put(put_to("memory", frames)), &sent).await;
    assert_eq!(status.unwrap_err().code(), Code::Cancelled);
    assert!((3_000_000..6_000_000).contains(&most.load(Ordering::Relaxed)));
}
