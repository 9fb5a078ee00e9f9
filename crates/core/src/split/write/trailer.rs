//! Writing the trailer as the last record of a file. If the trailer is too large for one record,
//! chunks of the trailer precede the last record.

use std::io::{Read, Write};

use prost::Message;
use prost_reflect::ReflectMessage;
use record_file::RecordWriter;

use super::chunk_reader::{ChunkReader, source_crc32c};
use crate::container::{DEFAULT_MAX_TRAILER_LEVELS, Profile};
use crate::proto::ChunkMetadata;
use crate::split::options::{LARGEST_MAX_CHUNK_SIZE, SplitOptions};
use crate::split::plan::metadata::{WrittenInfo, metadata};
use crate::split::plan::planner::plan;
use crate::split::plan::size_splitter::SizeSplitter;
use crate::split::read::source::Source;
use crate::{Error, ErrorKind, Result};

/// Trailers of at most this size, in bytes, are never cut. An entry for a chunk takes about thirty
/// bytes, so when a trailer is cut into chunks of at least this size, the new trailer that lists
/// these chunks is many times smaller.
const LEAST_CUT: u64 = 1 << 10;

/// Writes the trailer. A trailer that exceeds the maximum is split like any message, and the list
/// of its chunks becomes the new trailer, repeatedly if necessary.
pub(in crate::split) fn write_trailer<W: Write>(
    writer: &mut RecordWriter<W>,
    mut trailer: ChunkMetadata,
    options: &SplitOptions,
) -> Result<()> {
    let compression = options.compression.for_trailer();
    loop {
        let bytes = trailer.encode_to_vec();
        let max = largest(options);
        let level = trailer.trailer_level;
        if bytes.len() as u64 <= max {
            writer.write_record_alone(&bytes, compression)?;
            return Ok(());
        }
        check_cuttable(bytes.len() as u64, level, options)?;
        let source = Source::from_bytes(bytes, trailer.descriptor());
        let cutting = SplitOptions::new()
            .max_chunk_size(max)
            .value_chunk_size(None)
            .profile(Profile::Extended);
        let plan =
            plan(&SizeSplitter, &source, &cutting).map_err(|error| error.context("the trailer"))?;
        let mut written = Vec::with_capacity(plan.chunks.len());
        let (mut spans, mut record) = (Vec::new(), Vec::new());
        for chunk in &plan.chunks {
            let mut reader = ChunkReader::new(chunk, &source);
            // The record is held in memory, which is acceptable, since the whole trailer is in
            // memory already.
            record.clear();
            reader.read_to_end(&mut record)?;
            let position = writer.write_record_alone(&record, compression)?;
            written.push(WrittenInfo {
                file: 0,
                offset: position.numeric(),
                crc32c: reader.crc32c(),
            });
            spans.append(&mut reader.spans);
        }
        trailer = metadata(&plan, &written, source_crc32c(&source, spans)?);
        trailer.trailer_level = level + 1;
    }
}

fn largest(options: &SplitOptions) -> u64 {
    match options.profile {
        Profile::TensorFlow => LARGEST_MAX_CHUNK_SIZE,
        Profile::Extended => options.effective_max_chunk_size().max(LEAST_CUT),
    }
}

fn check_cuttable(size: u64, level: u32, options: &SplitOptions) -> Result<()> {
    let message = match options.profile {
        Profile::TensorFlow => format!(
            "the trailer has {size} bytes, over the {LARGEST_MAX_CHUNK_SIZE} that TensorFlow reads{}",
            options.hint()
        ),
        Profile::Extended if level >= DEFAULT_MAX_TRAILER_LEVELS => {
            format!("the trailer has {size} bytes after it was cut {level} times")
        }
        Profile::Extended => return Ok(()),
    };
    Err(Error::new(ErrorKind::LimitExceeded, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailer_that_tensorflow_cannot_read_is_an_error_that_names_the_way_out() {
        let error = check_cuttable(3 << 30, 0, &SplitOptions::new()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the trailer has 3221225472 bytes, over the 2147483147 that TensorFlow reads; \
             the profile `extended` may cut it"
        );
        let extended = SplitOptions::new().profile(Profile::Extended);
        assert!(check_cuttable(3 << 30, DEFAULT_MAX_TRAILER_LEVELS - 1, &extended).is_ok());
        assert!(check_cuttable(3 << 30, DEFAULT_MAX_TRAILER_LEVELS, &extended).is_err());
    }
}
