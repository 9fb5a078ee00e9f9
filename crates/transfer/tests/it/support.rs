//! A message and options that the tests share.

use prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto};
use proto_splitter_core::Result;
use proto_splitter_core::split::{SizeSplitter, SplitOptions};
use proto_splitter_transfer::proto::Frame;
use proto_splitter_transfer::{Frames, SendOptions};

/// Returns text of `len` hexadecimal digits, which never repeats, and compresses to about half its
/// size.
pub(crate) fn text(seed: u32, len: usize) -> String {
    let mut state = seed;
    let mut digit = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from_digit(state >> 28, 16).unwrap()
    };
    (0..len).map(|_| digit()).collect()
}

/// Returns a message that is split into a dozen chunks with the options from [`small_chunks`].
pub(crate) fn message() -> FileDescriptorProto {
    let name = |at: u32| DescriptorProto {
        name: Some(text(at, 20_000)),
        ..Default::default()
    };
    FileDescriptorProto {
        name: Some(text(100, 70_000)),
        package: Some(String::new()),
        message_type: (0..10).map(name).collect(),
        ..Default::default()
    }
}

/// Returns options that split [`message`] into a dozen chunks, and the chunks into frames of 4 KiB.
pub(crate) fn small_chunks() -> SendOptions {
    let split = SplitOptions::new()
        .max_chunk_size(40_000)
        .value_chunk_size(Some(10_000));
    SendOptions::new().split(split).max_frame_size(4096)
}

pub(crate) fn frames(message: &FileDescriptorProto, options: &SendOptions) -> Vec<Frame> {
    let frames = Frames::new(&SizeSplitter, message, options).unwrap();
    frames.collect::<Result<_>>().unwrap()
}
