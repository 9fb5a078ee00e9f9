//! The fuzz target of this crate. The workspace in `/fuzz` runs it with libFuzzer, and `fuzzed.rs`
//! runs it with the same bytes each time.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "code of tests"
)]

use bytes::Bytes;
use prost::Message;
use prost_reflect::prost_types::FileDescriptorProto;
use proto_splitter_core::container::Limits;
use proto_splitter_core::merge::ReadOptions;
use proto_splitter_core::split::{Profile, SizeSplitter, SplitOptions};
use proto_splitter_transfer::{Frames, ReceiveOptions, Receiver, SendOptions, decode_frame};

/// Returns options with low limits, so that inputs of the fuzzer can exceed them.
fn options() -> ReceiveOptions {
    let limits = Limits::new()
        .max_message_size(1 << 20)
        .max_merged_size(1 << 20)
        .max_trailer_memory(4 << 20);
    let reading = ReadOptions::new()
        .limits(limits)
        .threads(std::num::NonZeroUsize::MIN);
    ReceiveOptions::new()
        .max_message_size(1 << 20)
        .max_chunks(1000)
        .reading(reading)
}

/// Pushes frames to a receiver in memory and to a receiver in a file, which must have the same
/// result. Each frame in `data` is preceded by its length, in two bytes. A length of 65,535
/// represents a broken connection. A complete message must not be larger than announced.
pub fn receiver(mut data: &[u8]) {
    let mut in_memory = Receiver::in_memory(&options());
    let mut in_file = Receiver::in_file(None, &options());
    while let Some((len, rest)) = data.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes(*len));
        if len == usize::from(u16::MAX) {
            data = rest;
            let ends = [&mut in_memory, &mut in_file].map(|one| one.end().is_ok());
            assert_eq!(ends[0], ends[1]);
            continue;
        }
        let (frame, rest) = rest.split_at(len.min(rest.len()));
        data = rest;
        let Ok(frame) = decode_frame(Bytes::copy_from_slice(frame)) else {
            return;
        };
        let pushed = [in_memory.push(frame.clone()), in_file.push(frame)];
        let said = pushed.map(|pushed| pushed.err().map(|error| error.to_string()));
        assert_eq!(said[0], said[1]);
        assert_eq!(in_memory.token(), in_file.token());
    }
    let complete = in_memory.is_complete();
    assert_eq!(complete, in_file.is_complete());
    let size = in_memory.begin().message_size;
    let (bytes, merged) = (in_memory.into_bytes(), in_file.into_bytes());
    assert_eq!(bytes.is_ok(), merged.is_ok(), "{bytes:?}, {merged:?}");
    if let (Ok(bytes), Ok(merged)) = (bytes, merged) {
        assert!(complete && bytes == merged);
        assert!(bytes.len() as u64 <= size);
    }
}

/// Returns inputs for the fuzzer, which are transfers of a small message: whole, in small frames
/// and chunks, compressed, and broken off and resumed.
pub fn seeds() -> Vec<Vec<u8>> {
    let names = (0..12).map(|at| format!("{at} {}", "name".repeat(at * 9)));
    let message = FileDescriptorProto {
        name: Some("n".repeat(6000)),
        dependency: names.collect(),
        ..Default::default()
    };
    let split = SplitOptions::new()
        .profile(Profile::Extended)
        .max_chunk_size(300)
        .value_chunk_size(Some(100));
    let small = SendOptions::new().split(split).max_frame_size(4096);
    let seed = |options: &SendOptions| {
        let frames = Frames::new(&SizeSplitter, &message, options).unwrap();
        frames
            .map(|frame| with_length(&frame.unwrap().encode_to_vec()))
            .collect::<Vec<_>>()
    };
    let whole = seed(&SendOptions::new());
    let chunks = seed(&small);
    let compressed = seed(&small.clone().compression_level(Some(1)));
    let mut broken = chunks[..1].to_vec();
    broken.push(u16::MAX.to_le_bytes().to_vec());
    broken.extend(chunks.clone());
    [whole, chunks, compressed, broken]
        .map(|frames| frames.concat())
        .to_vec()
}

fn with_length(frame: &[u8]) -> Vec<u8> {
    let len = u16::try_from(frame.len()).unwrap();
    [&len.to_le_bytes()[..], frame].concat()
}
