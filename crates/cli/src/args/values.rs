//! Option values: sizes and compressions.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use proto_splitter::record_file::WriterOptions;
use proto_splitter::split::{
    ChunkCompression, LARGEST_MAX_CHUNK_SIZE, LEAST_MAX_FILE_SIZE, Profile,
};

use crate::size;

/// Argument of an option that limits the size of bytes and string values, in bytes; `None` for
/// `none`. The `Option` is wrapped, since clap would treat a plain `Option` as an optional
/// argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueSize(pub(crate) Option<u64>);

/// Size, in bytes, that is commonly quoted as the limit of protobuf readers. A chunk must be
/// slightly smaller.
const TWO_GIB: u64 = 2 << 30;

/// Parses the size of `what`, which isn't 0.
fn some(what: &str, text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        0 => Err(format!("0 bytes are too few: a {what} has at least 1")),
        bytes => Ok(bytes),
    }
}

pub(super) fn chunk_size(text: &str) -> Result<u64, String> {
    match some("chunk", text)? {
        // 2 GiB means the largest possible chunk.
        TWO_GIB => Ok(LARGEST_MAX_CHUNK_SIZE),
        bytes if bytes > LARGEST_MAX_CHUNK_SIZE => Err(format!(
            "must be at most {LARGEST_MAX_CHUNK_SIZE} bytes: no reader accepts a larger chunk"
        )),
        bytes => Ok(bytes),
    }
}

pub(super) fn slice_size(text: &str) -> Result<u64, String> {
    some("slice", text)
}

pub(super) fn file_size(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        bytes if bytes < LEAST_MAX_FILE_SIZE => {
            Err(format!("at least {}", size::show(LEAST_MAX_FILE_SIZE)))
        }
        bytes => Ok(bytes),
    }
}

/// Returns a parser for profile names, which a shell can complete.
pub(super) fn profile() -> impl TypedValueParser<Value = Profile> {
    PossibleValuesParser::new(["tensorflow", "extended"]).try_map(|name| name.parse::<Profile>())
}

pub(super) fn largest_value(text: &str) -> Result<u64, String> {
    some("value", text)
}

pub(super) fn value_size(text: &str) -> Result<ValueSize, String> {
    match text {
        "none" => Ok(ValueSize(None)),
        _ => Ok(ValueSize(Some(some("value", text)?))),
    }
}

pub(super) fn compression(text: &str) -> Result<ChunkCompression, String> {
    text.parse()
        .map_err(|error: proto_splitter::Error| error.to_string())
}

pub(super) fn records(text: &str) -> Result<WriterOptions, String> {
    text.parse()
        .map_err(|error: proto_splitter::record_file::Error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_gib_is_the_largest_chunk_there_can_be() {
        for text in ["2GiB", "2G", "2147483648"] {
            assert_eq!(chunk_size(text), Ok(LARGEST_MAX_CHUNK_SIZE), "{text}");
        }
        assert_eq!(chunk_size("2GB"), Ok(2_000_000_000));
        assert!(chunk_size("2.1GiB").is_err() && chunk_size("0").is_err());
    }
}
