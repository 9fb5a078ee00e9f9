//! Creating the trailer, a `ChunkMetadata`, from a plan.

use std::collections::BTreeSet;

use prost::Message;

use super::split_plan::{PlannedChunk, SplitPlan};
use crate::container::{ChunkKind, Profile, check_version};
use crate::path::{FieldPath, Step};
use crate::proto::chunk_info::Type;
use crate::proto::{ChunkInfo, ChunkMetadata, ChunkedField, ChunkedMessage, VersionDef};
use crate::{Error, ErrorKind, Result};

/// A field number that no type uses: the largest number that protobuf allows. TensorFlow's Merger,
/// which doesn't check versions, refuses chunks in this field.
const NO_FIELD: u32 = 536_870_911;

/// Returns the join version for files in this profile.
fn join_version(profile: Profile) -> i32 {
    match profile {
        Profile::TensorFlow => 0,
        Profile::Extended => 1,
    }
}

/// Returns the versions for a file, based on the splitter's `given` versions.
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`] if readers of this profile would refuse a file with these versions.
pub(in crate::split) fn version_def(given: VersionDef, profile: Profile) -> Result<VersionDef> {
    let of_profile = join_version(profile);
    let refuse = |message: String| Err(Error::new(ErrorKind::InvalidConfig, message));
    if ![0, of_profile].contains(&given.join_version) {
        return refuse(format!(
            "the splitter asks for join version {}, where the profile {profile} has {of_profile}",
            given.join_version
        ));
    }
    let version = VersionDef {
        join_version: of_profile,
        ..given
    };
    match check_version(&version) {
        Ok(_) => Ok(version),
        Err(error) => refuse(format!("the versions of the splitter: {error}")),
    }
}

/// Returns the value of the trailer's field `message` in an extended file. This value makes
/// TensorFlow's reader refuse the file.
pub(in crate::split) fn refused_message() -> ChunkedMessage {
    ChunkedMessage {
        chunk_index: None,
        chunked_fields: vec![ChunkedField {
            field_tag: FieldPath::from_iter([Step::field(NO_FIELD)]).to_tags(),
            message: Some(ChunkedMessage {
                chunk_index: Some(0),
                chunked_fields: Vec::new(),
            }),
            ..Default::default()
        }],
    }
}

/// Data about a chunk that is known once the chunk is written.
#[derive(Clone, Copy, Debug)]
pub(in crate::split) struct WrittenInfo {
    /// Number of the file that contains the chunk; 0 is the main file.
    pub(in crate::split) file: u32,
    pub(in crate::split) offset: u64,
    pub(in crate::split) crc32c: u32,
}

pub(in crate::split) fn chunked_message(plan: &SplitPlan) -> ChunkedMessage {
    let chunks = plan.chunks.iter().enumerate();
    let mut fields: Vec<_> = chunks.skip(usize::from(plan.has_base)).collect();
    // Chunks with the same path stay in the order of their indexes.
    fields.sort_by_key(|(_, chunk)| chunk.path());
    let chunked_fields = nest(&FieldPath::root(), &fields, &plan.nested);
    ChunkedMessage {
        chunk_index: plan.has_base.then_some(0),
        chunked_fields,
    }
}

/// Returns the fields of a ChunkedMessage at the path `base`. `chunks` are in merge order, each
/// with its index. If several fields share a map key, the first of them is the value at that key
/// and contains the other fields.
fn nest(
    base: &FieldPath,
    chunks: &[(usize, &PlannedChunk)],
    nested: &BTreeSet<FieldPath>,
) -> Vec<ChunkedField> {
    let mut fields = Vec::new();
    let mut rest = chunks;
    while let Some(((index, chunk), others)) = rest.split_first() {
        let first = &chunk.decided;
        let relative = first.path.strip_prefix(base).unwrap_or_default();
        let holder = first.path != *base && nested.contains(&first.path);
        let held = if holder {
            others
                .iter()
                .take_while(|(_, other)| other.path().strip_prefix(&first.path).is_some())
                .count()
        } else {
            0
        };
        let chunked_fields = nest(&first.path, &others[..held], nested);
        fields.push(ChunkedField {
            field_tag: relative.to_tags(),
            message: Some(ChunkedMessage {
                chunk_index: Some(*index as u64),
                chunked_fields,
            }),
            packed: first.packed,
            slice_of: first.slice_of.map_or(0, |number| number.0),
            elements: first.elements,
            tail: first.tail,
            within: first.within,
        });
        rest = &others[held..];
    }
    fields
}

pub(in crate::split) fn metadata(
    plan: &SplitPlan,
    written: &[WrittenInfo],
    source_crc32c: u32,
) -> ChunkMetadata {
    let marked = plan.is_marked();
    let message = chunked_message(plan);
    let (message, extended_message) = match plan.profile {
        Profile::TensorFlow => (message, None),
        Profile::Extended => (refused_message(), Some(message)),
    };
    ChunkMetadata {
        version: Some(VersionDef {
            join_version: join_version(plan.profile),
            ..plan.version.clone()
        }),
        chunks: plan
            .chunks
            .iter()
            .zip(written)
            .map(|(chunk, written)| chunk_info(chunk, written))
            .collect(),
        message: Some(message),
        extended_message,
        source_size: marked.then_some(plan.source_size),
        source_crc32c: marked.then_some(source_crc32c),
        splice_marker: marked,
        byte_exact: marked && plan.byte_exact && plan.source_layout.is_empty(),
        message_type: plan.descriptor.full_name().to_owned(),
        source_layout: if marked {
            plan.source_layout.clone().into()
        } else {
            bytes::Bytes::new()
        },
        ..Default::default()
    }
}

/// Returns the planned trailer, with 0 for all values that are only known after writing.
pub fn draft_trailer(plan: &SplitPlan) -> ChunkMetadata {
    let unknown = WrittenInfo {
        file: 0,
        offset: 0,
        crc32c: 0,
    };
    metadata(plan, &vec![unknown; plan.chunks.len()], 0)
}

/// Returns the planned trailer, with the largest possible values in place of those that are only
/// known after writing.
pub(in crate::split) fn largest_trailer(plan: &SplitPlan) -> ChunkMetadata {
    let largest = WrittenInfo {
        file: u32::MAX,
        offset: u64::MAX,
        crc32c: u32::MAX,
    };
    metadata(plan, &vec![largest; plan.chunks.len()], 0)
}

/// Returns the maximum size of the trailer in bytes, excluding its list of other files.
pub(in crate::split) fn most_of_trailer(plan: &SplitPlan) -> u64 {
    largest_trailer(plan).encoded_len() as u64
}

pub(in crate::split) fn chunk_info(chunk: &PlannedChunk, written: &WrittenInfo) -> ChunkInfo {
    ChunkInfo {
        r#type: match chunk.kind() {
            ChunkKind::Message => Type::Message.into(),
            ChunkKind::Bytes => Type::Bytes.into(),
        },
        size: chunk.size,
        offset: written.offset,
        crc32c: Some(written.crc32c),
        file: written.file,
    }
}

/// Converts a trailer from TensorFlow's profile to the extended profile.
pub fn extended_trailer(trailer: ChunkMetadata) -> ChunkMetadata {
    ChunkMetadata {
        version: Some(VersionDef {
            join_version: join_version(Profile::Extended),
            ..Default::default()
        }),
        message: Some(refused_message()),
        extended_message: trailer.message,
        ..trailer
    }
}

/// Returns the last record for a file that contains chunks of a message, but not the message's
/// trailer.
pub fn part_trailer(chunks: Vec<ChunkInfo>) -> ChunkMetadata {
    ChunkMetadata {
        version: Some(VersionDef {
            join_version: join_version(Profile::Extended),
            ..Default::default()
        }),
        chunks,
        message: Some(refused_message()),
        is_part: true,
        ..Default::default()
    }
}
