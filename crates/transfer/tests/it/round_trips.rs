//! Tests that a received message equals the message that was sent, for any split and kind of
//! storage.

use prost::Message;
use prost_reflect::ReflectMessage;
use prost_reflect::prost_types::FileDescriptorProto;
use proto_splitter_core::merge::ReadOptions;
use proto_splitter_core::split::{Profile, SizeSplitter, SplitOptions};
use proto_splitter_core::{ErrorKind, Result};
use proto_splitter_transfer::proto::Frame;
use proto_splitter_transfer::{Frames, ReceiveOptions, Receiver, SendOptions};

use crate::support::{frames, message, small_chunks};

fn received(mut receiver: Receiver, frames: Vec<Frame>) -> Receiver {
    receiver.receive(frames.into_iter().map(Ok)).unwrap();
    receiver
}

fn in_memory(frames: Vec<Frame>) -> Receiver {
    received(Receiver::in_memory(&ReceiveOptions::new()), frames)
}

fn in_file(frames: Vec<Frame>) -> Receiver {
    let receiver = Receiver::in_file(None, &ReceiveOptions::new());
    received(receiver, frames)
}

#[test]
fn a_message_arrives_as_the_bytes_that_were_sent() {
    let message = message();
    let extended = SplitOptions::new()
        .max_chunk_size(5_000)
        .profile(Profile::Extended);
    for options in [
        SendOptions::new(),
        small_chunks(),
        small_chunks().max_frame_size(100_000),
        small_chunks().compression_level(Some(1)),
        SendOptions::new().split(extended).max_frame_size(4096),
    ] {
        let frames = frames(&message, &options);
        let expected = message.encode_to_vec();
        assert!(in_memory(frames.clone()).into_bytes().unwrap() == expected);
        assert!(in_file(frames.clone()).into_bytes().unwrap() == expected);
        let typed: FileDescriptorProto = in_file(frames).into_message().unwrap();
        assert!(typed == message);
    }
}

#[test]
fn a_frame_is_never_larger_than_asked_for() {
    let message = message();
    for size in [4096, 5000, 65_536, 1 << 20] {
        let options = small_chunks().max_frame_size(size);
        let frames = frames(&message, &options);
        let largest = frames.iter().map(Message::encoded_len).max().unwrap();
        assert!(largest <= size, "{largest} of {size}");
        // On average, frames must be at least half full, since a half-empty frame uses as much
        // memory as a full one.
        let sent: usize = frames.iter().map(Message::encoded_len).sum();
        assert!(
            frames.len() <= 2 * sent / size + 12,
            "{} frames",
            frames.len()
        );
    }
}

#[test]
fn a_short_message_is_one_frame() {
    let message = FileDescriptorProto {
        name: Some("a.proto".into()),
        ..Default::default()
    };
    let sent = frames(&message, &SendOptions::new());
    assert_eq!(sent.len(), 1);
    assert!(sent[0].encoded_len() < 256);
    let empty = FileDescriptorProto::default();
    for message in [message, empty] {
        let sent = frames(&message, &SendOptions::new());
        let typed: FileDescriptorProto = in_memory(sent).into_message().unwrap();
        assert_eq!(typed, message);
    }
}

#[test]
fn frames_that_compress_take_fewer_bytes() {
    let message = message();
    let size = |options: &SendOptions| -> usize {
        frames(&message, options)
            .iter()
            .map(Message::encoded_len)
            .sum()
    };
    let (plain, compressed) = (
        size(&small_chunks().max_frame_size(1 << 16)),
        size(
            &small_chunks()
                .max_frame_size(1 << 16)
                .compression_level(Some(3)),
        ),
    );
    assert!(compressed * 10 < plain * 7, "{compressed} of {plain}");
}

#[test]
fn large_frames_that_compress_are_accepted() {
    let message = FileDescriptorProto {
        name: Some("a".repeat(65 << 20)),
        ..Default::default()
    };
    let split = SplitOptions::new().max_chunk_size(128 << 20);
    let options = SendOptions::new().split(split).max_frame_size(128 << 20);
    let sent = frames(&message, &options.compression_level(Some(1)));
    assert_eq!(sent.len(), 1);
    let typed: FileDescriptorProto = in_memory(sent).into_message().unwrap();
    assert!(typed == message);
}

#[test]
fn a_handle_reads_parts_and_a_file_appears_whole() {
    let message = message();
    let sent = frames(&message, &small_chunks());
    let descriptor = message.descriptor();
    for receiver in [in_memory(sent.clone()), in_file(sent.clone())] {
        let file = receiver.into_chunked_file().unwrap();
        let view = file.view(ReadOptions::new().descriptor(descriptor.clone()));
        let path = "4[3].1".parse().unwrap();
        assert_eq!(view.get(&path).unwrap(), message.message_type[3].name());
    }
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("message.pb");
    let size = in_file(sent.clone()).write_file(&target, false).unwrap();
    assert_eq!(size, message.encoded_len() as u64);
    assert!(std::fs::read(&target).unwrap() == message.encode_to_vec());
    let error = in_file(sent).write_file(&target, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
}

#[test]
fn a_handle_reads_what_has_come_and_waits_for_the_rest() {
    let message = message();
    let mut sent = frames(&message, &small_chunks()).into_iter();
    let mut receiver = Receiver::in_file(None, &ReceiveOptions::new());
    assert!(receiver.handle().unwrap().is_none());
    // Pushes the whole trailer, and a part of chunk 0.
    receiver.push(sent.next().unwrap()).unwrap();
    let file = receiver.handle().unwrap().unwrap();
    let options = ReadOptions::new().descriptor(message.descriptor());
    std::thread::scope(|scope| {
        let read = |path: &str| {
            let path = path.parse().unwrap();
            file.view(options.clone()).get(&path).unwrap()
        };
        let last = scope.spawn(move || read("4[9].1"));
        for frame in sent.by_ref().take(20) {
            receiver.push(frame).unwrap();
        }
        assert!(!last.is_finished());
        for frame in sent {
            receiver.push(frame).unwrap();
        }
        assert_eq!(last.join().unwrap(), message.message_type[9].name());
    });
    assert!(file.merge_to_bytes(&options).unwrap() == message.encode_to_vec());
    assert!(receiver.into_bytes().unwrap() == message.encode_to_vec());
}

#[test]
fn a_handle_says_that_the_transfer_broke_off_and_goes_on_when_it_does() {
    let message = message();
    let sent = frames(&message, &small_chunks());
    let mut receiver = Receiver::in_file(None, &ReceiveOptions::new());
    for frame in &sent[..30] {
        receiver.push(frame.clone()).unwrap();
    }
    let file = receiver.handle().unwrap().unwrap();
    assert_eq!(receiver.end().unwrap_err().kind(), ErrorKind::Io);
    let options = ReadOptions::new().descriptor(message.descriptor());
    let error = file.merge_to_bytes(&options).unwrap_err();
    assert!(error.to_string().contains("broke off"), "{error}");
    let rest = Frames::resume(&SizeSplitter, &message, &receiver.token(), &small_chunks());
    receiver.receive(rest.unwrap()).unwrap();
    assert!(file.merge_to_bytes(&options).unwrap() == message.encode_to_vec());
}

#[test]
fn an_error_of_the_frames_is_the_receivers_error() -> Result<()> {
    let sent = frames(&message(), &small_chunks());
    let broken = std::io::Error::new(std::io::ErrorKind::ConnectionReset, "the peer went away");
    let frames = sent.into_iter().take(3).map(Ok).chain([Err(broken.into())]);
    let mut receiver = Receiver::in_memory(&ReceiveOptions::new());
    let error = receiver.receive(frames).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("the peer went away"), "{error}");
    let error = receiver.into_bytes().unwrap_err();
    assert_eq!(error.to_string(), "the transfer isn't complete");
    Ok(())
}
