//! Writing chunks as records in one or several files.

use record_file::{Compression, RecordsMetadata, WriterOptions};

use super::beside::DonePart;
use super::chunk_file::ChunkFile;
use super::merkle::{most_of_tree, root_of};
use super::multi_file::{ChunkFiles, fit_in_one, most_files};
use super::sink::{ChunkSink, Chunks, Taken, write_chunks};
use super::written::WrittenChunk;
use crate::Result;
use crate::container::{MerkleRoot, describe_type};
use crate::io::AtomicFile;
use crate::split::options::SplitOptions;
use crate::split::plan::metadata::most_of_trailer;
use crate::split::plan::reader_limits::check_file_count;
use crate::split::plan::split_plan::SplitPlan;
use crate::split::read::source::Source;

/// Writes the plan's chunks and the trailer to the file `main`. If they don't fit in one file,
/// writes the chunks to other files, which get the file mode of `main`. Temporary files are next to
/// `main`.
pub(in crate::split) fn write_records(
    plan: &SplitPlan,
    source: &Source,
    main: &AtomicFile,
    options: &SplitOptions,
) -> Result<(Vec<WrittenChunk>, Vec<DonePart>, Option<MerkleRoot>)> {
    let described = describe_type(&plan.descriptor, options.embed_schema);
    let mut sink = FileSink {
        files: ChunkFiles::new(ChunkFile::begin(main, front(&described, options))?),
        main,
        described: &described,
        max: options.max_file_size,
        tree: if options.merkle_root {
            most_of_tree(plan.chunks.len())
        } else {
            0
        },
    };
    let mut ledger = write_chunks(plan, source, options, &mut sink)?;
    let mut trailer = ledger.trailer()?;
    let (mut file, parts) = sink.files.into_parts();
    trailer.files = parts.iter().map(|part| part.named.clone()).collect();
    if let Some(leaves) = ledger.leaves() {
        trailer.merkle_tree = Some(file.add_tree(&leaves, &described.serialize())?);
    }
    let root = root_of(&trailer)?;
    file.finish(trailer, options)?;
    Ok((ledger.describe(), parts, root))
}

/// Returns the options for the writer of a chunked file: metadata with the type of the message,
/// which is written at the beginning of the file, and the compression for the trailer.
pub(in crate::split) fn front(
    described: &RecordsMetadata,
    options: &SplitOptions,
) -> WriterOptions {
    let records = options.records.clone().unwrap_or_default();
    records
        .compression(options.compression.for_trailer())
        .padding(1)
        .threads(0)
        .metadata(described)
}

/// A sink that writes a main file, and other files next to it if the chunks exceed the maximum size
/// of one file.
struct FileSink<'a> {
    files: ChunkFiles<'a>,
    main: &'a AtomicFile,
    described: &'a RecordsMetadata,
    max: Option<u64>,
    /// Maximum size of the Merkle tree's nodes and of the trailer's field for them, in bytes.
    tree: u64,
}

impl ChunkSink for FileSink<'_> {
    fn take(&mut self, chunks: Chunks<'_>) -> Result<Taken> {
        let Chunks { plan, indices, .. } = chunks;
        // Only without compression is it known what the chunks will take.
        let is_plain = chunks.compression == Compression::None.into();
        if is_plain {
            let sizes = indices.iter().map(|&chunk| plan.chunks[chunk].size);
            self.main.check_space(sizes.sum())?;
        }
        if let Some(max) = self.max {
            let beside =
                most_of_trailer(plan) + self.described.serialize().len() as u64 + self.tree;
            if !fit_in_one(plan, indices, beside, max) {
                if is_plain {
                    check_file_count(most_files(plan, indices, max))?;
                }
                self.files.go_beside(self.main, max);
            }
        }
        self.files.take(chunks)
    }
}
