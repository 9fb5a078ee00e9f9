//! Senders that lie: each is refused with one line, whatever came before.

use std::cell::Cell;

use proptest::prelude::*;
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_transfer::proto::{Begin, Data, End, Frame};
use proto_splitter_transfer::{ReceiveOptions, Receiver};

use crate::support::{frames, message, small_chunks};

fn refused(frames: impl IntoIterator<Item = Frame>) -> Error {
    let options = ReceiveOptions::new();
    let frames: Vec<Frame> = frames.into_iter().collect();
    let mut in_file = Receiver::in_file(None, &options).unwrap();
    let from_file = in_file
        .receive(frames.clone().into_iter().map(Ok))
        .unwrap_err();
    let mut receiver = Receiver::in_memory(&options);
    let error = receiver.receive(frames.into_iter().map(Ok)).unwrap_err();
    assert_eq!(from_file.to_string(), error.to_string());
    assert_eq!(error.to_string().lines().count(), 1);
    error
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
        ("the transfer has version 9, where 1 is known", |sent| {
            begin(&mut sent[0]).version = 9;
        }),
        ("a transfer without chunks", |sent| {
            begin(&mut sent[0]).chunk_count = 0;
        }),
        ("chunks, where 1000000 are allowed", |sent| {
            begin(&mut sent[0]).chunk_count = u64::MAX;
        }),
        ("bytes, where 68719476736 are allowed", |sent| {
            begin(&mut sent[0]).message_size = u64::MAX;
        }),
        ("bytes, where 68719476736 are allowed", |sent| {
            begin(&mut sent[0]).chunk_bytes = u64::MAX;
        }),
        ("were left of those announced", |sent| {
            begin(&mut sent[0]).chunk_bytes = 10;
        }),
        ("were left of those announced", |sent| {
            sent[0].data[0].chunk_size = u64::MAX;
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
        ("the trailer can't be decoded", |sent| {
            let last = sent.last_mut().unwrap();
            last.trailer = vec![0xff; 4].into();
            last.end = Some(End {
                trailer_size: 4,
                trailer_crc32c: crc32c::crc32c(&[0xff; 4]),
            });
        }),
        ("where 5 were announced", |sent| {
            sent.last_mut().unwrap().end.as_mut().unwrap().trailer_size = 5;
        }),
        ("the trailer has crc32c", |sent| {
            sent.last_mut()
                .unwrap()
                .end
                .as_mut()
                .unwrap()
                .trailer_crc32c ^= 1;
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
fn another_type_or_size_than_the_options_allow_is_refused() {
    let sent = frames(&message(), &small_chunks());
    for (options, expected) in [
        (
            ReceiveOptions::new().message_type("perf.Trace"),
            "where perf.Trace is expected",
        ),
        (
            ReceiveOptions::new().max_message_size(1000),
            "where 1000 are allowed",
        ),
        (
            ReceiveOptions::new().max_chunks(2),
            "chunks, where 2 are allowed",
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

    // A trailer that never ends.
    let mut last = sent.last().unwrap().clone();
    last.end = None;
    last.trailer = vec![0; 1 << 20].into();
    last.data.clear();
    let taken = Cell::new(0_u64);
    let endless = std::iter::repeat_with(|| {
        taken.set(taken.get() + 1);
        Ok(last.clone())
    });
    let start = sent[..sent.len() - 1].iter().cloned().map(Ok);
    let error = receiver.receive(start.chain(endless)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert!(taken.get() <= 65);
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
        use prost::Message;

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
        // A flip in the announcement may concern nothing that is merged.
        if receiver.receive(frames).is_ok() && let Ok(received) = receiver.into_bytes() {
            prop_assert!(received == message.encode_to_vec());
        }
    }
}
