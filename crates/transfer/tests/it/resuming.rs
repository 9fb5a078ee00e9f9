//! Tests of resuming transfers that break off.

use std::sync::{Arc, Mutex};

use prost::Message;
use proto_splitter_core::Result;
use proto_splitter_core::progress::Progress;
use proto_splitter_core::split::SizeSplitter;
use proto_splitter_transfer::proto::{Frame, ResumeToken};
use proto_splitter_transfer::{Frames, ReceiveOptions, Receiver, SendOptions};

use crate::support::{message, small_chunks};

fn resumed(token: &ResumeToken, options: &SendOptions) -> Vec<Frame> {
    let frames = Frames::resume(&SizeSplitter, &message(), token, options).unwrap();
    frames.collect::<Result<_>>().unwrap()
}

#[test]
fn a_transfer_that_breaks_at_every_frame_sends_no_whole_chunk_twice() {
    let expected = message().encode_to_vec();
    let options = ReceiveOptions::new();
    let whole = resumed(&ResumeToken::default(), &small_chunks());
    for mut receiver in [
        Receiver::in_memory(&options),
        Receiver::in_file(None, &options),
    ] {
        let mut sent = 0;
        // Each attempt sends at most twenty frames. A chunk of 20,000 bytes takes about five.
        let mut tries = 0;
        loop {
            let rest = resumed(&receiver.token(), &small_chunks());
            assert!(rest.len() <= whole.len());
            let is_last = rest.len() <= 20;
            let few = rest.into_iter().take(20);
            sent += few.len();
            let result = receiver.receive(few.map(Ok));
            assert_eq!(result.is_ok(), is_last, "{result:?}");
            if is_last {
                break;
            }
            tries += 1;
            assert!(tries < 100, "no progress");
        }
        assert!(tries > 2);
        // Each attempt may repeat some frames, but fewer than those of a whole chunk.
        assert!(sent < whole.len() + (tries + 1) * 20, "{sent}");
        assert!(receiver.into_bytes().unwrap() == expected);
    }
}

/// Returns a listener, and the last numbers that it was told.
fn listener() -> (Progress, Arc<Mutex<(u64, u64)>>) {
    let last = Arc::new(Mutex::new((0, 0)));
    let told = Arc::clone(&last);
    let progress = Progress::new(move |done, total| *told.lock().unwrap() = (done, total));
    (progress, last)
}

#[test]
fn the_bytes_of_a_transfer_that_broke_off_reach_the_total() {
    for options in [
        small_chunks(),
        small_chunks().compression_level(Some(1)),
        small_chunks().max_frame_size(1 << 20),
    ] {
        let first = resumed(&ResumeToken::default(), &options).into_iter();
        let mut first: Vec<Frame> = first.take(12).collect();
        if let [only] = &mut first[..] {
            // Complete chunks precede the damaged piece in the frame.
            only.data.last_mut().unwrap().offset += 1;
        }
        let (receiving, received) = listener();
        let mut receiver = Receiver::in_memory(&ReceiveOptions::new().progress(receiving));
        assert!(receiver.receive(first.into_iter().map(Ok)).is_err());

        let (sending, sent) = listener();
        let options = options.progress(sending);
        let token = receiver.token();
        let mut rest = Frames::resume(&SizeSplitter, &message(), &token, &options).unwrap();
        let (kept, total) = rest.bytes();
        assert!(kept > 0 && kept < total, "{kept} of {total}");
        assert_eq!(receiver.bytes(), (kept, total));
        while let Some(frame) = rest.next() {
            receiver.push(frame.unwrap()).unwrap();
            assert_eq!(receiver.bytes(), rest.bytes());
        }
        assert_eq!(rest.bytes(), (total, total));
        for last in [received, sent] {
            assert_eq!(*last.lock().unwrap(), (total, total));
        }
    }
}

#[test]
fn a_token_of_another_message_starts_from_the_beginning() {
    let mut receiver = Receiver::in_memory(&ReceiveOptions::new());
    let first = resumed(&ResumeToken::default(), &small_chunks());
    let some = first.into_iter().take(30);
    assert!(receiver.receive(some.map(Ok)).is_err());
    let token = receiver.token();
    assert!(token.chunks > 0);

    // If the message is split differently, it has other chunks.
    let other = resumed(&token, &SendOptions::new());
    assert_eq!(other[0].begin.as_ref().unwrap().first_chunk, 0);
    receiver.receive(other.into_iter().map(Ok)).unwrap();
    assert!(receiver.into_bytes().unwrap() == message().encode_to_vec());
}

#[test]
fn a_transfer_that_resumes_where_nothing_is_is_refused() {
    let mut first = Receiver::in_memory(&ReceiveOptions::new());
    let some = resumed(&ResumeToken::default(), &small_chunks());
    assert!(first.receive(some.into_iter().take(30).map(Ok)).is_err());
    let rest = resumed(&first.token(), &small_chunks());
    let mut other = Receiver::in_memory(&ReceiveOptions::new());
    let error = other.receive(rest.into_iter().map(Ok)).unwrap_err();
    assert!(error.to_string().contains("resume at chunk"), "{error}");
}

#[test]
fn what_changed_since_the_transfer_broke_off_is_found_at_the_end() {
    let mut receiver = Receiver::in_memory(&ReceiveOptions::new());
    let some = resumed(&ResumeToken::default(), &small_chunks());
    assert!(receiver.receive(some.into_iter().take(30).map(Ok)).is_err());
    let token = receiver.token();
    assert!(token.chunks > 1);
    // A message whose parts have the same sizes and paths, but in which a value that was already
    // sent differs.
    let mut changed = message();
    let name = changed.name.as_mut().unwrap();
    name.replace_range(..1, "x");
    let rest = Frames::resume(&SizeSplitter, &changed, &token, &small_chunks()).unwrap();
    let error = receiver.receive(rest).unwrap_err();
    let expected = "the chunks together have crc32c";
    assert!(error.to_string().contains(expected), "{error}");
}
