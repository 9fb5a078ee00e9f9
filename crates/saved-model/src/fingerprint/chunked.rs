//! The fingerprint of a `saved_model.cpb`, including TensorFlow's peculiarities.
//!
//! - Parts that differ between saves are not removed before hashing, unlike for a `.pb`.
//! - `saved_model_checksum` covers the bytes of the chunks to which the root's `chunked_fields`
//!   refer, in the order of that list. It doesn't cover the base, which is the root's own chunk.
//! - Each of the other hashes covers a message that is merged from a reduced file. This file has
//!   the base, and the chunks whose path leads to the graph, the signatures or the object graph. If
//!   the path of a chunk leads to several of these fields, the reduced file lists the chunk once
//!   for each of them. Each hash also covers the chunks below its own field.
//! - Paths in nested `ChunkedMessage`s are relative, but they are compared as if they were
//!   absolute.

use std::io::Read;

use proto_splitter_core::container::ChunkedFile;
use proto_splitter_core::merge::{ChunkStore, Limits};
use proto_splitter_core::progress::{Meter, Progress};
use proto_splitter_core::proto::field_index::Kind;
use proto_splitter_core::proto::{ChunkMetadata, ChunkedField, ChunkedMessage, FieldIndex};
use proto_splitter_core::{ChunkIndex, Error, ErrorKind, MergedMessage};
use record_file::ReadAt;

use super::plain::{
    GRAPH_DEF, META_GRAPHS, OBJECT_GRAPH_DEF, SIGNATURE_DEF, first_meta_graph, text,
};
use super::{
    CHUNKED_PRODUCER, FingerprintError, Hashes, descriptor, fingerprint_cat64, fingerprint64,
};
use crate::farmhash::fingerprint_stream;
use crate::hashed::{Canonical, Edits, Hashed as _};

type Result<T> = std::result::Result<T, FingerprintError>;

/// The chunks of a file, and a meter for the number of bytes hashed so far.
struct Chunks<'a, S> {
    file: &'a ChunkedFile<S>,
    meter: Meter,
}

/// Returns the hashes of the `SavedModel` in a chunked file.
pub(crate) fn hashes<S: ReadAt>(file: &ChunkedFile<S>, progress: &Progress) -> Result<Hashes> {
    let sizes = (0..file.len()).map(|chunk| file.size(chunk));
    let chunks = &Chunks {
        file,
        meter: progress.meter(sizes.fold(0, u64::saturating_add)),
    };
    let metadata = file.trailer().metadata();
    if metadata.extended_message.is_some() {
        let why = "it is of join version 1, which TensorFlow doesn't read";
        return Err(FingerprintError::refused(why));
    }
    let nothing = ChunkedMessage::default();
    let root = metadata.message.as_ref().unwrap_or(&nothing);
    // The hash of the chunks is combined with the hash of the merged message, which is empty for
    // this checksum.
    let checksum = fields_hash(chunks, root, &[], MergedInto::Other)?;
    let saved_model_checksum = fingerprint_cat64(checksum, fingerprint64(b""));

    let pruned = ChunkMetadata {
        chunks: metadata.chunks.clone(),
        message: Some(pruned(root)?.0),
        version: metadata.version.clone(),
        ..ChunkMetadata::default()
    };
    let source = file.record_file().get_ref();
    let part = ChunkedFile::with_metadata(source, pruned, &Limits::default())?;
    let part = MergedMessage::new(part, descriptor("tensorflow.SavedModel")?)?;
    let mut canonical = Canonical::new(&part, part.total_size());
    let whole = canonical.whole();
    let meta_graph = [first_meta_graph(&mut canonical, &whole)?];

    let mut message_hash = |field, name: &str, into| -> Result<u64> {
        let pieces = canonical.pieces(&meta_graph, field)?;
        let plan = canonical.message(&descriptor(name)?, &pieces, &Edits::none())?;
        let own = canonical.hash(&plan)?;
        Ok(fingerprint_cat64(
            own,
            fields_hash(chunks, root, &target(field), into)?,
        ))
    };
    let graph_def_program_hash =
        message_hash(GRAPH_DEF, "tensorflow.GraphDef", MergedInto::GraphDef)?;
    let saved_object_graph_hash = message_hash(
        OBJECT_GRAPH_DEF,
        "tensorflow.SavedObjectGraph",
        MergedInto::Other,
    )?;
    let signatures = canonical.map(
        &descriptor("tensorflow.MetaGraphDef")?,
        &meta_graph,
        SIGNATURE_DEF,
    )?;
    let mut signature_def_hash = 0;
    let mut of_chunks = None;
    for (name, signature) in &signatures {
        let own = fingerprint_cat64(fingerprint64(text(name)), canonical.hash(signature)?);
        signature_def_hash = fingerprint_cat64(signature_def_hash, own);
        // The hash of the chunks is the same for all signatures, so it is computed once.
        let of_chunks = match of_chunks {
            Some(hash) => hash,
            None => *of_chunks.insert(fields_hash(
                chunks,
                root,
                &target(SIGNATURE_DEF),
                MergedInto::Other,
            )?),
        };
        signature_def_hash = fingerprint_cat64(signature_def_hash, of_chunks);
    }
    Ok(Hashes {
        saved_model_checksum,
        graph_def_program_hash,
        signature_def_hash,
        saved_object_graph_hash,
        producer: CHUNKED_PRODUCER,
    })
}

/// Returns the path, as field tags, to the field with number `field` of `meta_graphs[0]`.
fn target(field: u32) -> [FieldIndex; 3] {
    [Kind::Field(META_GRAPHS), Kind::Index(0), Kind::Field(field)]
        .map(|kind| FieldIndex { kind: Some(kind) })
}

/// Returns the number of leading field tags that are equal in both paths.
fn matches(tags: &[FieldIndex], target: &[FieldIndex]) -> usize {
    tags.iter().zip(target).take_while(|(a, b)| a == b).count()
}

/// Maximum number of fields in the reduced file. Since a path of fewer than three tags is listed
/// several times at each level, the number is exponential in the nesting of the file's fields.
const MAX_PRUNED_FIELDS: usize = 1 << 20;

/// Returns a copy of `message` that keeps only the fields on the paths to the graph, the signatures
/// and the object graph, and the number of fields in the copy.
fn pruned(message: &ChunkedMessage) -> Result<(ChunkedMessage, usize)> {
    let targets = [GRAPH_DEF, SIGNATURE_DEF, OBJECT_GRAPH_DEF].map(target);
    let mut fields = Vec::new();
    let mut count = 0;
    for field in &message.chunked_fields {
        let (mut below, mut count_below) = match &field.message {
            Some(message) => pruned(message)?,
            None => Default::default(),
        };
        if field.field_tag.is_empty() {
            // An empty path means that the chunk is a slice of the message itself. TensorFlow's
            // Merger ignores the fields below it. If no chunk is specified, it uses chunk 0.
            below.chunk_index.get_or_insert(0);
            below.chunked_fields.clear();
            count_below = 0;
        }
        if below.chunk_index.is_none() && below.chunked_fields.is_empty() {
            continue;
        }
        let leads_to = |target: &&[FieldIndex; 3]| {
            matches(&field.field_tag, &target[..]) == field.field_tag.len()
        };
        for _ in targets.iter().filter(leads_to) {
            count += 1 + count_below;
            if count > MAX_PRUNED_FIELDS {
                let message = format!(
                    "the fingerprint would be computed from more than {MAX_PRUNED_FIELDS} chunked fields"
                );
                return Err(Error::new(ErrorKind::LimitExceeded, message).into());
            }
            fields.push(ChunkedField {
                field_tag: field.field_tag.clone(),
                message: Some(below.clone()),
                ..Default::default()
            });
        }
    }
    let pruned = ChunkedMessage {
        chunk_index: message.chunk_index,
        chunked_fields: fields,
    };
    Ok((pruned, count))
}

/// Type of the message into which TensorFlow merges a chunk whose message contains the target
/// field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MergedInto {
    GraphDef,
    Other,
}

/// Implements TensorFlow's `HashFields`: hashes the chunks at or below the path `target`, in the
/// order in which `message` lists them.
fn fields_hash<S: ReadAt>(
    chunks: &Chunks<'_, S>,
    message: &ChunkedMessage,
    target: &[FieldIndex],
    mut into: MergedInto,
) -> Result<u64> {
    let nothing = ChunkedMessage::default();
    let mut hash = 0;
    for field in &message.chunked_fields {
        let below = field.message.as_ref().unwrap_or(&nothing);
        let matches = matches(&field.field_tag, target);
        if matches == target.len() {
            let of_field = match below.chunk_index {
                // The hash covers the chunk, but no chunks below it.
                Some(chunk) => chunk_hash(chunks, chunk)?,
                None => fields_hash(chunks, below, target, into)?,
            };
            hash = fingerprint_cat64(hash, of_field);
        } else if matches == field.field_tag.len() {
            if below.chunk_index.is_some() {
                into = merged_into(&field.field_tag, into)?;
                hash = fingerprint_cat64(hash, fields_hash(chunks, below, target, into)?);
            } else {
                for child in &below.chunked_fields {
                    let child = child.message.as_ref().unwrap_or(&nothing);
                    hash = fingerprint_cat64(hash, fields_hash(chunks, child, target, into)?);
                }
            }
        }
    }
    Ok(hash)
}

/// Returns the type of the message at the path `tags`, which is the path of a chunk whose message
/// contains the target field. Like TensorFlow, resolves the path from the target's own message
/// instead of the root.
fn merged_into(tags: &[FieldIndex], into: MergedInto) -> Result<MergedInto> {
    match (tags.len(), into) {
        (0, _) => Ok(into),
        // The only step in `tags` is field 2, `meta_graphs`. Field 2 of a graph is its library,
        // which is a message.
        (1, MergedInto::GraphDef) => Ok(MergedInto::Other),
        _ => {
            let why = "a chunk is above the graph, at meta_graphs[0] itself or next to it";
            Err(FingerprintError::refused(why))
        }
    }
}

fn chunk_hash<S: ReadAt>(chunks: &Chunks<'_, S>, chunk: u64) -> Result<u64> {
    let index = usize::try_from(chunk).unwrap_or(usize::MAX);
    let bytes = chunks.file.size(index);
    let _span = tracing::trace_span!("hash", chunk, bytes).entered();
    let hash = || -> proto_splitter_core::Result<u64> {
        let mut stream = chunks.file.stream(index)?;
        let mut counted = stream.by_ref().take(chunks.file.size(index));
        let hash = fingerprint_stream(&mut counted)?;
        if counted.limit() > 0 {
            let message = "the chunk is shorter than the trailer says";
            return Err(Error::new(ErrorKind::InvalidTrailer, message));
        }
        chunks.meter.advance(chunks.file.size(index))?;
        Ok(hash)
    };
    Ok(hash().map_err(|error| error.in_chunk(ChunkIndex::new(chunk)))?)
}

#[cfg(test)]
mod tests {
    use proto_splitter_core::proto::ChunkInfo;
    use record_file::{Compression, RecordWriter, WriterOptions};

    use super::*;

    #[test]
    fn fields_that_multiply_at_every_level_are_refused() {
        let nested = (0..47).fold(
            ChunkedMessage {
                chunk_index: Some(1),
                ..Default::default()
            },
            |below, _| ChunkedMessage {
                chunk_index: None,
                chunked_fields: vec![ChunkedField {
                    field_tag: target(GRAPH_DEF)[..1].to_vec(),
                    message: Some(below),
                    ..Default::default()
                }],
            },
        );
        let mut metadata = ChunkMetadata {
            message: Some(ChunkedMessage {
                chunk_index: Some(0),
                ..nested
            }),
            splice_marker: true,
            ..Default::default()
        };
        let base = (0..47).fold(Vec::new(), |below: Vec<u8>, _| {
            [&[0x12, u8::try_from(below.len()).unwrap()][..], &below].concat()
        });
        let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
        for chunk in [&base[..], b""] {
            let position = writer.write_record_alone(chunk, Compression::None).unwrap();
            metadata.chunks.push(ChunkInfo {
                r#type: 1,
                size: chunk.len() as u64,
                offset: position.numeric(),
                ..Default::default()
            });
        }
        let records = writer.finish().unwrap();
        let file = ChunkedFile::with_metadata(records, metadata, &Limits::new()).unwrap();
        let error = hashes(&file, &Progress::none()).unwrap_err();
        let FingerprintError::Unreadable(error) = error else {
            panic!("{error}");
        };
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    }
}
