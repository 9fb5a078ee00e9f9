//! Tests with senders of false frames. Each transfer must be refused with a one-line error,
//! whichever part of a frame is false.

use std::cell::Cell;

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;
use proto_splitter_core::proto::ChunkMetadata;
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_transfer::proto::{Begin, Data, End, Frame};
use proto_splitter_transfer::status::{details, parse_details};
use proto_splitter_transfer::{ReceiveOptions, Receiver};

use crate::support::{frames, message, small_chunks};

fn refused(frames: impl IntoIterator<Item = Frame>) -> Error {
    let options = ReceiveOptions::new();
    let frames: Vec<Frame> = frames.into_iter().collect();
    let mut in_file = Receiver::in_file(None, &options);
    let from_file = in_file
        .receive(frames.clone().into_iter().map(Ok))
        .unwrap_err();
    let mut receiver = Receiver::in_memory(&options);
    let error = receiver.receive(frames.into_iter().map(Ok)).unwrap_err();
    assert_eq!(from_file.to_string(), error.to_string());
    assert_eq!(error.to_string().lines().count(), 1);
    error
}

fn end(sent: &mut [Frame]) -> &mut End {
    sent.last_mut().unwrap().end.as_mut().unwrap()
}

/// Changes the first frame so that it announces and contains this trailer.
fn announced(sent: &mut [Frame], trailer: Vec<u8>) {
    begin(&mut sent[0]).trailer_size = trailer.len() as u64;
    begin(&mut sent[0]).trailer_crc32c = crc32c::crc32c(&trailer);
    sent[0].trailer = trailer.into();
}

fn begin(frame: &mut Frame) -> &mut Begin {
    frame.begin.as_mut().unwrap()
}

#[test]
fn lies_are_refused_by_name() {
    type Lie = fn(&mut Vec<Frame>);
    let lies: &[(&str, Lie)] = &[
        ("no frame came", |sent| sent.clear()),
        ("the first frame has no `begin`", |sent| {
            sent[0].begin = None;
        }),
        ("a second `begin` came", |sent| {
            sent[1].begin = sent[0].begin.clone();
        }),
        ("the transfer has version 9, but only 1 is known", |sent| {
            begin(&mut sent[0]).version = 9;
        }),
        ("the transfer has no chunks", |sent| {
            begin(&mut sent[0]).chunk_count = 0;
        }),
        ("chunks, but at most 1000000 are allowed", |sent| {
            begin(&mut sent[0]).chunk_count = u64::MAX;
        }),
        ("bytes, but at most 68719476736 are allowed", |sent| {
            begin(&mut sent[0]).message_size = u64::MAX;
        }),
        ("bytes, but at most 68719476736 are allowed", |sent| {
            begin(&mut sent[0]).chunk_bytes = u64::MAX;
        }),
        ("bytes of chunks, but 10 were announced", |sent| {
            begin(&mut sent[0]).chunk_bytes = 10;
        }),
        ("bytes of the message, but 10 were announced", |sent| {
            begin(&mut sent[0]).message_size = 10;
        }),
        ("chunks, but 3 were announced", |sent| {
            begin(&mut sent[0]).chunk_count = 3;
        }),
        ("the session has 65 bytes", |sent| {
            begin(&mut sent[0]).session = vec![7; 65].into();
        }),
        ("the transfer starts at chunk 100", |sent| {
            begin(&mut sent[0]).first_chunk = 100;
        }),
        ("the transfer can't resume at chunk 1", |sent| {
            begin(&mut sent[0]).first_chunk = 1;
        }),
        ("was expected", |sent| {
            sent.swap(2, 3);
        }),
        ("was expected", |sent| {
            let twice = sent[2].clone();
            sent.insert(2, twice);
        }),
        ("was expected", |sent| {
            sent[3].data[0].chunk = 77;
        }),
        ("broke off in chunk", |sent| sent.truncate(5)),
        ("broke off in chunk", |sent| {
            sent.pop();
        }),
        ("a frame came after the last", |sent| {
            let data = vec![Data::default()];
            sent.push(Frame {
                data,
                ..Frame::default()
            });
        }),
        ("an empty frame came", |sent| {
            sent.insert(1, Frame::default());
        }),
        ("the last record is not a trailer", |sent| {
            announced(sent, vec![0xff; 4]);
        }),
        ("bytes, but at most 67108864 are allowed", |sent| {
            begin(&mut sent[0]).trailer_size = u64::MAX;
        }),
        ("bytes, but 5 were announced", |sent| {
            begin(&mut sent[0]).trailer_size = 5;
        }),
        ("the trailer has crc32c", |sent| {
            begin(&mut sent[0]).trailer_crc32c ^= 1;
        }),
        ("bytes of the trailer came twice", |sent| {
            sent[2].trailer = vec![1].into();
        }),
        ("came before the trailer ended", |sent| {
            sent[0].trailer = Bytes::new();
        }),
        ("other files", |sent| {
            let mut trailer = ChunkMetadata::decode(&sent[0].trailer[..]).unwrap();
            trailer.files.push(Default::default());
            announced(sent, trailer.encode_to_vec());
        }),
        ("the chunk has crc32c", |sent| {
            let last = sent[1..].iter_mut().flat_map(|frame| &mut frame.data);
            let crc32c = last.filter_map(|data| data.crc32c.as_mut()).next();
            *crc32c.unwrap() ^= 1;
        }),
        ("the end came in chunk", |sent| {
            sent[1].end = sent.last().unwrap().end;
        }),
        ("the chunks together have crc32c", |sent| {
            end(sent).chunks_crc32c ^= 1;
        }),
        ("the end has no checksum of the message", |sent| {
            end(sent).source_crc32c = None;
        }),
    ];
    let sent = frames(&message(), &small_chunks());
    for (expected, lie) in lies {
        let mut lying = sent.clone();
        lie(&mut lying);
        let error = refused(lying);
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    }
}

#[test]
fn an_error_says_where_in_the_message_it_is() {
    let sent = frames(&message(), &small_chunks());
    for (chunk, path) in [(1, "1"), (2, "4[0].1"), (3, "4[1].1")] {
        let mut lying = sent.clone();
        let mut pieces = lying.iter_mut().flat_map(|frame| &mut frame.data);
        let piece = pieces.find(|piece| piece.chunk == chunk && piece.offset > 0);
        let piece = piece.unwrap();
        let offset = std::mem::take(&mut piece.offset);
        let error = refused(lying);
        assert_eq!(error.path(), Some(path), "{error}");
        assert_eq!(error.chunk().map(|chunk| chunk.get()), Some(chunk));
        assert_eq!(error.offset(), Some(offset));
        let detail = parse_details(&details(&error)).unwrap();
        assert_eq!((&*detail.path, detail.offset), (path, Some(offset)));
    }
}

#[test]
fn another_type_or_size_than_the_options_allow_is_refused() {
    let sent = frames(&message(), &small_chunks());
    for (options, expected) in [
        (
            ReceiveOptions::new().message_type("perf.Trace"),
            "but perf.Trace is expected",
        ),
        (
            ReceiveOptions::new().max_message_size(1000),
            "but at most 1000 are allowed",
        ),
        (
            ReceiveOptions::new().max_chunks(2),
            "chunks, but at most 2 are allowed",
        ),
    ] {
        let mut receiver = Receiver::in_memory(&options);
        let error = receiver
            .receive(sent.clone().into_iter().map(Ok))
            .unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn an_endless_sender_is_stopped_by_what_it_announced() {
    let sent = frames(&message(), &small_chunks());
    let taken = Cell::new(0);
    let data = Frame {
        data: vec![sent[1].data[0].clone()],
        ..Frame::default()
    };
    let endless = std::iter::repeat_with(|| {
        taken.set(taken.get() + 1);
        Ok(data.clone())
    });
    let frames = [Ok(sent[0].clone())].into_iter().chain(endless);
    let mut receiver = Receiver::in_memory(&ReceiveOptions::new());
    assert!(receiver.receive(frames).is_err());
    assert!(taken.get() < 100);

    // A sender that never stops sending bytes of the trailer.
    let mut first = sent[0].clone();
    begin(&mut first).trailer_size = 64 << 20;
    first.data.clear();
    let more = Frame {
        trailer: vec![0; 1 << 20].into(),
        ..Frame::default()
    };
    let taken = Cell::new(0_u64);
    let endless = std::iter::repeat_with(|| {
        taken.set(taken.get() + 1);
        Ok(more.clone())
    });
    let error = (receiver.receive([Ok(first)].into_iter().chain(endless))).unwrap_err();
    assert!(error.to_string().contains("were announced"), "{error}");
    assert!(taken.get() <= 65);
}

#[test]
fn a_message_that_is_not_the_one_that_was_sent_is_refused_at_the_end() {
    let mut sent = frames(&message(), &small_chunks());
    let source_crc32c = end(&mut sent).source_crc32c.as_mut().unwrap();
    *source_crc32c ^= 1;
    for mut receiver in [
        Receiver::in_memory(&ReceiveOptions::new()),
        Receiver::in_file(None, &ReceiveOptions::new()),
    ] {
        receiver.receive(sent.clone().into_iter().map(Ok)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let error = receiver.write_file(folder.path().join("m.pb"), false);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::ChecksumMismatch);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}

#[test]
fn a_bomb_is_refused_before_it_is_inflated() {
    let mut sent = frames(&message(), &small_chunks().compression_level(Some(3)));
    let compressed = sent
        .iter_mut()
        .flat_map(|frame| &mut frame.data)
        .find(|data| data.zstd_size.is_some());
    compressed.unwrap().zstd_size = Some(u64::MAX);
    let error = refused(sent);
    assert!(error.to_string().contains("a piece claims"), "{error}");
}

proptest! {
    #[test]
    fn a_flipped_bit_is_never_taken(frame in 0_usize..1000, at in 0_usize..4096, bit in 0_u8..8) {
        let message = message();
        let sent = frames(&message, &small_chunks());
        let mut bytes: Vec<Vec<u8>> = sent.iter().map(Message::encode_to_vec).collect();
        let frame = frame % bytes.len();
        let at = at % bytes[frame].len();
        bytes[frame][at] ^= 1 << bit;
        let frames = bytes.iter().map(|bytes| -> Result<Frame> {
            Frame::decode(&bytes[..])
                .map_err(|error| Error::new(ErrorKind::InvalidMessage, error.to_string()))
        });
        let mut receiver = Receiver::in_memory(&ReceiveOptions::new());
        // A flipped bit in the announcement may be accepted, but the merged message must be the
        // same.
        if receiver.receive(frames).is_ok() && let Ok(received) = receiver.into_bytes() {
            prop_assert!(received == message.encode_to_vec());
        }
    }
}
