//! Verifying a file without keeping its content.

use std::collections::{HashMap, HashSet};
use std::io;

use record_file::{Chunk, ChunkOffset, ChunkType, ReadAt, RecordFile, RecordPosition};

use super::against_root::check_against_root;
use super::read::chunk_store::ChunkStore;
use crate::container::Trailer;
use crate::merge::plan::merge_plan::MergePlan;
use crate::merge::read::first_field::first_field;
use crate::merge::read::record_store::RecordStore;
use crate::merge::read_options::ReadOptions;
use crate::merge::write::checksum_pass::{ChecksumPass, ChecksumRequest, read_all};
use crate::merge::write::chunk_cache::with_walked;
use crate::merge::write::execute::{check_size, compared};
use crate::merge::write::parallel::combined;
use crate::path::Step;
use crate::wire::FieldNumber;
use crate::{Error, ErrorKind, Result};

/// The result of verifying all files of a message.
#[derive(Debug)]
pub struct Verification {
    records: u64,
    bytes: u64,
    problems: Vec<Error>,
    merge: MergeCheck,
}

/// The result of checking that a file's chunks form the original message.
#[derive(Debug)]
#[non_exhaustive]
pub enum MergeCheck {
    /// The chunks form a message.
    Merged {
        /// Size of the message, in bytes.
        size: u64,
        /// crc32c of the message.
        crc32c: u32,
        /// The comparison with the original message; `None` if the file doesn't describe that
        /// message.
        source: Option<SourceCheck>,
    },
    /// The check needs the message's type, which is unknown. The error explains why.
    NeedsType(Error),
    /// The chunks don't form a message; the reason is among the problems.
    Failed,
}

/// The comparison of a merged message with the original message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceCheck {
    /// The same bytes: size and crc32c are equal.
    Same,
    /// An equal message, but not necessarily the same bytes: according to the file, a merge can't
    /// reproduce the original bytes.
    EqualAsMessage,
}

impl Verification {
    /// Returns the number of records in the message's files, including records without a chunk.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns the total size of the chunks that could be read, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns all problems found. A problem can prevent others from being found.
    pub fn problems(&self) -> &[Error] {
        &self.problems
    }

    /// Returns all problems found. If the merge can't be checked because the message's type is
    /// unknown, the last error explains why the type is needed.
    pub fn into_problems(mut self) -> Vec<Error> {
        if let MergeCheck::NeedsType(error) = self.merge {
            self.problems.push(error);
        }
        self.problems
    }

    /// Returns the result of checking that the chunks form the original message.
    pub fn merge(&self) -> &MergeCheck {
        &self.merge
    }
}

/// Reads and checks all files of a message; see
/// [`ChunkedFile::verify`](crate::ChunkedFile::verify).
pub(crate) fn verify<S: ReadAt>(store: &RecordStore<S>, options: &ReadOptions) -> Verification {
    let mut report = Verification {
        records: 0,
        bytes: 0,
        problems: Vec::new(),
        merge: MergeCheck::Failed,
    };
    // The time to read all chunks depends on their declared sizes, which may exceed the size of the
    // file, so their sum is checked first.
    if let Err(error) = store.check_merged_size() {
        report.problems.push(error);
        return report;
    }
    // Errors are ignored here, since a missing record is reported when its chunk is read.
    let threads = options.thread_count();
    store.find_records(threads);
    let is_late = store.is_prefetched();
    if !is_late {
        check_others(store, |_| true, &mut report.records, &mut report.problems);
    }
    let sizes = (0..store.len()).map(|chunk| store.size(chunk));
    let bytes = sizes.fold(0, u64::saturating_add);
    let meter = options.progress.meter(bytes);
    let slices = counted_slices(store.trailer());
    let read = with_walked(store.trailer(), store, |chunks| {
        // Planning checks the places in the trailer, even if a chunk along their paths is damaged.
        // The damage is reported separately.
        let plan = chunks.plan(store.trailer(), options);
        let _span = tracing::debug_span!("read", chunks = store.len(), bytes).entered();
        let asked = ChecksumRequest {
            plan: plan.as_ref().ok(),
            slices: &slices,
        };
        let pass = read_all(chunks, store.groups(), asked, threads, &meter);
        Ok((plan, pass))
    });
    let (plan, pass) = read.unwrap_or_else(|error| (Err(error), ChecksumPass::default()));
    report.bytes = pass.bytes;
    report.problems.extend(pass.problems);
    report.check_tree(store, options);
    if is_late {
        // The headers of the chunks are already known, and need no more reads.
        check_others(store, |_| true, &mut report.records, &mut report.problems);
    }
    let plan = match plan {
        Ok(plan) => plan,
        Err(error) if error.kind() == ErrorKind::SchemaNeeded => {
            report.merge = MergeCheck::NeedsType(error);
            say_places(&mut report.problems, store.trailer(), options);
            return report;
        }
        Err(error) => {
            report.add(error);
            say_places(&mut report.problems, store.trailer(), options);
            return report;
        }
    };
    let checked = if report.problems.is_empty() {
        check_merge(store.trailer(), &plan, &pass.crcs, options)
    } else {
        check_size(store.trailer(), plan.total_len()).map(|()| MergeCheck::Failed)
    };
    match checked {
        Ok(merge) => report.merge = merge,
        Err(error) => report.add(error),
    }
    let slices = check_slices(store, |_| true, &pass.first_fields);
    report.problems.extend(slices);
    let counts = check_counts(store.trailer(), &pass.elements, &report.problems);
    report.problems.extend(counts);
    say_places(&mut report.problems, store.trailer(), options);
    report
}

impl Verification {
    /// Compares the chunks with the file's Merkle tree, if the file has one and this build includes
    /// hashing.
    fn check_tree<S: ReadAt>(&mut self, store: &RecordStore<S>, options: &ReadOptions) {
        let found = match store.trailer().merkle_root() {
            Ok(Some(root)) => check_against_root(store, &root, options),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        let found = found.unwrap_or_else(|error| match error.kind() {
            ErrorKind::InvalidConfig => Vec::new(),
            _ => vec![error],
        });
        // Damage that the checksums have shown isn't reported again.
        let damage = |problem: &Error| Some((problem.chunk()?, problem.kind()));
        let mut known: HashSet<_> = self.problems.iter().filter_map(damage).collect();
        let is_new = |problem: &Error| damage(problem).is_none_or(|damage| known.insert(damage));
        self.problems.extend(found.into_iter().filter(is_new));
    }
}

/// Returns the slices whose number of elements is in the trailer, as a map from the index of each
/// slice's chunk to the field number of the slice's elements.
fn counted_slices(trailer: &Trailer) -> HashMap<usize, FieldNumber> {
    let said = trailer.slices().filter(|&(_, _, said)| said > 0);
    said.map(|(chunk, number, _)| (chunk, number)).collect()
}

/// Returns an error for each slice whose number of elements differs from the number in the trailer,
/// since views rely on that number. Skips damaged slices, since their damage is reported
/// separately.
fn check_counts(
    trailer: &Trailer,
    elements: &HashMap<usize, u64>,
    problems: &[Error],
) -> Vec<Error> {
    let damaged: HashSet<_> = problems.iter().filter_map(Error::chunk).collect();
    let slices = trailer.slices().filter(|&(_, _, said)| said > 0);
    let wrong = slices.filter_map(|(chunk, number, said)| {
        let found = *elements.get(&chunk)?;
        if found == said || damaged.contains(&chunk.into()) {
            return None;
        }
        let message = format!(
            "the trailer says that the slice has {said} elements of field {number}, but it has {found}"
        );
        Some(Error::new(ErrorKind::InvalidTrailer, message).in_chunk(chunk))
    });
    wrong.collect()
}

/// The result of verifying some of the chunks.
#[derive(Debug, Default)]
pub struct PartVerification {
    /// Number of records read.
    pub records: u64,
    /// Number of bytes read.
    pub bytes: u64,
    /// Problems found.
    pub problems: Vec<Error>,
    /// crc32c of each byte range that a merge copies from the verified chunks, in the order of the
    /// chunks and their bytes; empty if the merge can't be planned.
    pub crcs: Vec<u32>,
}

/// Reads and checks the chunks in `groups` and, in each file for which `has_file` returns true,
/// everything that is not a chunk.
pub fn verify_part<S: ReadAt>(
    store: &RecordStore<S>,
    groups: &[Vec<usize>],
    has_file: impl Fn(usize) -> bool,
    options: &ReadOptions,
) -> PartVerification {
    let mut report = PartVerification::default();
    if let Err(error) = store.check_merged_size() {
        report.problems.push(error);
        return report;
    }
    let threads = options.thread_count();
    store.find_records(threads);
    check_others(store, has_file, &mut report.records, &mut report.problems);
    let chunks = groups.iter().flatten();
    let sizes = chunks.clone().map(|&chunk| store.size(chunk));
    let meter = options.progress.meter(sizes.fold(0, u64::saturating_add));
    let slices = counted_slices(store.trailer());
    let read = with_walked(store.trailer(), store, |walked| {
        let plan = walked.plan(store.trailer(), options);
        let plan = plan.as_ref().ok();
        let asked = ChecksumRequest {
            plan,
            slices: &slices,
        };
        let pass = read_all(walked, groups.to_vec(), asked, threads, &meter);
        let segments = plan.map(|plan| chunks.flat_map(|&chunk| plan.spans_of_chunk(chunk)));
        let crcs = segments.into_iter().flatten().map(|&at| pass.crcs[at]);
        Ok((crcs.collect(), pass))
    });
    match read {
        Ok((crcs, pass)) => {
            report.crcs = crcs;
            report.bytes = pass.bytes;
            report.problems.extend(pass.problems);
            let own: HashSet<usize> = groups.iter().flatten().copied().collect();
            let slices = check_slices(store, |chunk| own.contains(&chunk), &pass.first_fields);
            report.problems.extend(slices);
            let counts = check_counts(store.trailer(), &pass.elements, &report.problems);
            report.problems.extend(counts);
        }
        Err(error) => report.problems.push(error),
    }
    say_places(&mut report.problems, store.trailer(), options);
    report
}

/// Adds the field paths of damaged chunks to the problems with these chunks.
fn say_places(problems: &mut Vec<Error>, trailer: &Trailer, options: &ReadOptions) {
    let is_unsaid = |error: &Error| error.chunk().is_some() && error.path().is_none();
    if !problems.iter().any(is_unsaid) {
        return;
    }
    let places = trailer.places();
    // The path of a slice is the path of its message. A path with the field of the slice's elements
    // is more specific.
    let slices: HashMap<usize, FieldNumber> = trailer
        .slices()
        .map(|(chunk, field, _)| (chunk, field))
        .collect();
    let said = problems.drain(..).map(|error| {
        let Some(chunk) = error.chunk().map(|chunk| chunk.to_usize()) else {
            return error;
        };
        let Some(place) = places.get(chunk).and_then(|places| places.first()) else {
            return error;
        };
        let path = match slices.get(&chunk) {
            // If the trailer is invalid, its field number for the slice may be wrong.
            Some(field) if error.kind() != ErrorKind::InvalidTrailer => {
                place.path.join(Step::field(field.0))
            }
            _ => place.path.clone(),
        };
        error.at_path(path.display(options.descriptor.as_ref()))
    });
    *problems = said.collect();
}

/// Compares the merged message with the original message, given the results of [`verify_part`] for
/// all parts. `crcs` are the concatenated [`PartVerification::crcs`] of all parts, in the order of
/// `groups`.
///
/// # Errors
///
/// Any error from planning the merge, except that a missing message type is returned as
/// [`MergeCheck::NeedsType`]; [`ErrorKind::ChecksumMismatch`](crate::ErrorKind::ChecksumMismatch)
/// if the size or the checksum of the merged message isn't the one that the file records;
/// [`ErrorKind::InvalidMessage`](crate::ErrorKind::InvalidMessage) if the number of checksums is
/// wrong.
pub fn verify_parts_together<S: ReadAt>(
    store: &RecordStore<S>,
    groups: &[Vec<usize>],
    crcs: &[u32],
    options: &ReadOptions,
) -> Result<MergeCheck> {
    let trailer = store.trailer();
    let plan = with_walked(trailer, store, |walked| walked.plan(trailer, options));
    let plan = match plan {
        Err(error) if error.kind() == ErrorKind::SchemaNeeded => {
            return Ok(MergeCheck::NeedsType(error));
        }
        plan => plan?,
    };
    let mut of_segments = vec![0; plan.spans().span_count()];
    let chunks = groups.iter().flatten();
    let segments: Vec<usize> = chunks
        .flat_map(|&chunk| plan.spans_of_chunk(chunk).iter().copied())
        .collect();
    if segments.len() != crcs.len() {
        let (given, expected) = (crcs.len(), segments.len());
        let message = format!("the parts have {given} checksums for {expected} spans of chunks");
        return Err(Error::new(ErrorKind::InvalidMessage, message));
    }
    for (segment, crc) in segments.into_iter().zip(crcs) {
        of_segments[segment] = *crc;
    }
    check_merge(trailer, &plan, &of_segments, options)
}

/// In each file for which `has_file` returns true, reads the record chunks that contain no chunk of
/// the message. Adds the number of all records in the file to `records`, and errors to `problems`.
fn check_others<S: ReadAt>(
    store: &RecordStore<S>,
    has_file: impl Fn(usize) -> bool,
    records: &mut u64,
    problems: &mut Vec<Error>,
) {
    let known: HashMap<_, _> = (0..store.len())
        .filter_map(|chunk| store.record_chunk(chunk))
        .map(|(file, chunk)| ((file, chunk.begin()), chunk))
        .collect();
    let files = store.record_files().enumerate();
    for (number, file) in files.filter(|(number, _)| has_file(*number)) {
        let mut at = ChunkOffset(0);
        while at.0 < file.size() {
            let checked = match known.get(&(number, at)) {
                // This record chunk is read when the chunks in it are read.
                Some(chunk) => Ok(*chunk),
                None => file
                    .chunk_header_at(at)
                    .inspect(|chunk| problems.extend(check_unnamed(file, chunk).err()))
                    .map_err(Error::from),
            };
            match checked {
                Ok(chunk) => {
                    *records += chunk.header.num_records;
                    at = chunk.end();
                }
                Err(error) => {
                    problems.push(error);
                    break;
                }
            }
        }
    }
}

/// Returns an error for each slice whose first field differs from the one that the trailer gives
/// for the slice, since a merge relies on the trailer. Checks the chunks for which `is_asked`
/// returns true. `known` contains the first fields that were read before, by chunk.
fn check_slices<S: ReadAt>(
    store: &RecordStore<S>,
    is_asked: impl Fn(usize) -> bool,
    known: &[Option<FieldNumber>],
) -> impl Iterator<Item = Error> {
    store.trailer().slices().filter_map(move |(chunk, number, _)| {
        if !is_asked(chunk) {
            return None;
        }
        let known = known.get(chunk).copied().flatten();
        // A chunk that can't be read was reported already.
        let read = || Some(first_field(store, chunk).ok()?.0.number);
        let first = known.or_else(read)?;
        let message = format!(
            "the trailer says that the slice holds field {number}, but it begins with field {first}"
        );
        (first != number)
            .then(|| Error::new(ErrorKind::InvalidTrailer, message).in_chunk(chunk))
    })
}

/// Combines the checksums of the plan's segments into the checksum of the merged message, and
/// compares it with the checksum of the original message.
fn check_merge(
    trailer: &Trailer,
    plan: &MergePlan,
    crcs: &[u32],
    options: &ReadOptions,
) -> Result<MergeCheck, Error> {
    check_size(trailer, plan.total_len())?;
    let crc32c = combined(plan, crcs, options.thread_count())?;
    let merged = compared(trailer, plan.total_len(), crc32c)?;
    let source = merged.byte_exact.map(|exact| {
        if exact {
            SourceCheck::Same
        } else {
            SourceCheck::EqualAsMessage
        }
    });
    Ok(MergeCheck::Merged {
        size: merged.size,
        crc32c: merged.crc32c,
        source,
    })
}

impl Verification {
    /// Adds an error, unless it repeats an earlier error. Planning can repeat an error, since it
    /// reads some damaged data a second time.
    fn add(&mut self, error: Error) {
        let known = self
            .problems
            .iter()
            .any(|problem| problem.chunk() == error.chunk() && problem.kind() == error.kind());
        if !known {
            self.problems.push(error);
        }
    }
}

/// Size of the signature at the beginning of a record file, in bytes.
const SIGNATURE_LEN: u64 = 64;

/// Reads a record chunk that contains no chunk of the message: the trailer, file metadata, padding,
/// or records that the trailer doesn't name. Fails if it is damaged.
fn check_unnamed<S: ReadAt>(file: &RecordFile<S>, chunk: &Chunk) -> Result<(), Error> {
    match (chunk.header.kind, chunk.header.num_records) {
        // The signature's bytes were compared when the file was opened.
        (ChunkType::Signature, _) => {}
        (ChunkType::Metadata, _) if chunk.begin().0 == SIGNATURE_LEN => drop(file.metadata()?),
        (ChunkType::Metadata, _) => {
            // Readers ignore metadata that doesn't follow the signature, so only its hash is
            // compared.
            let mut ignored = *chunk;
            ignored.header.kind = ChunkType::Unknown(b'm');
            drop(file.read_known_chunk(&ignored)?);
        }
        (ChunkType::Simple, 1) => {
            let record = RecordPosition::new(chunk.begin().0, 0);
            io::copy(&mut file.record_stream(record)?, &mut io::sink())?;
        }
        _ => drop(file.read_chunk(chunk.begin())?),
    }
    Ok(())
}
