//! Splitting in parts, each of which writes a separate file.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};

use prost::Message;
use prost_reflect::{MessageDescriptor, ReflectMessage};
use record_file::RecordsMetadata;

use super::chunked_input::invalid_plan;
use super::identity::{
    absolute_beside, check as check_unchanged, check_same, identify, identify_object,
};
use super::object_folder::{ObjectFolder, place_object};
use super::objects::{Objects, Stores, given, is_absolute, is_object, named};
use super::options::PartOptions;
use super::rereading::{WrittenPart, reread_files};
use super::shares::{check_ends, share_of_items, shares};
use super::split_message::{chunk_of, decoded};
use super::store::{FolderStore, PartStore, main_of};
use super::uploading::check_no_object;
use crate::proto::report::Result as Outcome;
use crate::proto::{Input, Plan, SplitPlan as PlanMessage, SplitReport};
use proto_splitter_core::atomic::{AtomicFile, FolderLock, MadeFrom, at_target, check_absent};
use proto_splitter_core::container::{CHUNKED_EXTENSION, PLAIN_EXTENSION};
use proto_splitter_core::container::{Limits, MerkleRoot, Profile, Trailer, TrailerUse};
use proto_splitter_core::part_work::written_through;
use proto_splitter_core::part_work::{
    Commit, Sibling, crc32c_of_runs, draft_trailer, most_of_trailer, most_stored, part_trailer,
    runs, stem_beside, write_main, write_part,
};
use proto_splitter_core::part_work::{check_hashing, describe_type};
use proto_splitter_core::proto::chunk_metadata::ExternalFile;
use proto_splitter_core::proto::{ChunkInfo, ChunkMetadata};
use proto_splitter_core::split::{
    ChunkCompression, ComposableSplitter, PlannedChunk, Source, SplitExt, SplitOptions, SplitPlan,
    WrittenFile,
};
use proto_splitter_core::threads;
use proto_splitter_core::{Error, ErrorKind, Result};

/// Maximum number of parts in a split. If a split has more than
/// [`DEFAULT_MAX_FILES`](proto_splitter_core::merge::DEFAULT_MAX_FILES) parts, readers must be
/// configured to open that many files.
const MOST_PARTS: usize = 100_000;

/// Maximum number of files that a commit checks at the same time.
const MOST_CHECKED_AT_ONCE: usize = 16;

/// A report on a split that was committed, or on shards that were committed.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CommittedSplit {
    /// Path of the main file, `PREFIX.cpb`.
    pub path: PathBuf,
    /// Files that the parts wrote, in the order of the parts.
    pub files: Vec<WrittenFile>,
    /// Number of chunks in all files.
    pub chunks: usize,
    /// Size of the message, in bytes.
    pub source_size: u64,
    /// Total size of all files, in bytes.
    pub output_size: u64,
    /// True if a merge reproduces the exact bytes of the source.
    pub byte_exact: bool,
    /// True if the split was already committed with the same result, so that this commit did
    /// nothing.
    pub was_there: bool,
    /// Merkle root of the chunks; `None` if the plan doesn't request one.
    pub merkle_root: Option<MerkleRoot>,
    /// Paths of removed files. They belonged to an earlier split, or to parts that were run more
    /// than once with different results.
    pub removed: Vec<PathBuf>,
}

/// Plans a split of the message in `source` to the main file `PREFIX.cpb`.
pub(super) fn plan<P: ComposableSplitter + ?Sized>(
    splitter: &P,
    (source, input): (&Source, Input),
    prefix: &Path,
    options: &SplitOptions,
    (parts, stores): (NonZeroUsize, Stores<'_>),
) -> Result<PlanMessage> {
    if options.get_merkle_root() {
        check_hashing()?;
    }
    if options.get_profile() != Profile::Extended {
        let message = "a split in parts writes several files, which require the profile `extended`";
        return Err(Error::new(ErrorKind::InvalidConfig, message));
    }
    let (main, prefix) = place_of(prefix, options.get_force(), stores)?;
    stem_beside(&main)?;
    let plan = splitter.plan(source, options)?;
    source.check_unchanged()?;
    let stored = |size: &u64| most_stored(*size);
    let sizes: Vec<u64> = plan.chunks().iter().map(PlannedChunk::size).collect();
    let mut before = vec![0u64];
    for size in sizes.iter().map(stored) {
        before.push(before[before.len() - 1].saturating_add(size));
    }
    let most = options.get_max_file_size().unwrap_or(u64::MAX);
    let has_room = |range: Range<usize>| {
        let chunks = before[range.end] - before[range.start];
        let rest = most_stored(0) + most_of_trailer(range.len());
        chunks.saturating_add(rest) <= most
    };
    let part_ends = shares(&sizes, parts, has_room);
    check_count(part_ends.len())?;
    let mut literals = Vec::new();
    let chunks = plan.chunks().iter();
    let chunks = chunks.map(|chunk| chunk_of(chunk, &mut literals)).collect();
    Ok(PlanMessage {
        source: Some(input),
        prefix,
        force: options.get_force(),
        compression: options.get_compression().to_string(),
        max_chunk_size: options.effective_max_chunk_size(),
        max_file_size: options.get_max_file_size(),
        trailer: draft_trailer(&plan).encode_to_vec().into(),
        records_metadata: describe_type(plan.descriptor(), options.get_embed_schema())
            .serialize()
            .into(),
        chunks,
        literals: literals.into(),
        part_ends,
        merkle_root: options.get_merkle_root(),
    })
}

/// Returns the current identity of the file that contains the message.
pub(super) fn of_file(source: &Source) -> Result<Input> {
    match source.path() {
        Some(path) => identify(path),
        None => {
            let message = "only a message in a file can be split in parts";
            Err(Error::new(ErrorKind::InvalidConfig, message))
        }
    }
}

/// Opens a message in an object. Returns the message, and the current identity of the object.
pub(super) fn of_object(
    name: &str,
    objects: &dyn Objects,
    descriptor: MessageDescriptor,
) -> Result<(Source, Input)> {
    let object = objects.open(name)?;
    let now = identify_object(name, &object)?;
    Ok((
        Source::from_reader(object.source, now.size, descriptor),
        now,
    ))
}

/// Returns the path of the main file, and its absolute prefix, which is the same on every host.
/// Fails if the main file exists and must not be replaced.
fn place_of(prefix: &Path, force: bool, stores: Stores<'_>) -> Result<(PathBuf, String)> {
    let main = main_of(prefix);
    if let Some((name, objects)) = named(&main, stores)? {
        check_no_object(name, &**objects, force)?;
        let prefix = prefix.to_string_lossy().into_owned();
        return Ok((main, prefix));
    }
    let main = written_through(&main)?;
    check_absent(&main, force)?;
    let prefix = absolute_beside(&main, stem_beside(&main)?)?;
    Ok((main, prefix))
}

/// Fails if the number of parts exceeds [`MOST_PARTS`].
pub(super) fn check_count(parts: usize) -> Result<()> {
    if parts <= MOST_PARTS {
        return Ok(());
    }
    let message = format!("{parts} parts are too many: a split has at most {MOST_PARTS}");
    Err(Error::new(ErrorKind::LimitExceeded, message))
}

/// A checked plan for a split.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    message: PlanMessage,
    plan: SplitPlan,
    trailer: ChunkMetadata,
    compression: ChunkCompression,
}

impl Planned {
    /// Checks a decoded plan for a split.
    pub(super) fn checked(mut message: PlanMessage) -> Result<Planned> {
        let invalid = |why: &str| invalid_plan("split", why);
        let trailer = std::mem::take(&mut message.trailer);
        let metadata = ChunkMetadata::decode(trailer).map_err(|_| invalid("has no trailer"))?;
        let limits = Limits::new();
        let trailer = Trailer::from_metadata(metadata, TrailerUse::Whole, &limits)?;
        let trailer = trailer.metadata().clone();
        if trailer.chunks.is_empty() || trailer.chunks.len() != message.chunks.len() {
            return Err(invalid("and its trailer have different chunks"));
        }
        let source = message.source.as_ref();
        let source = source.ok_or_else(|| invalid("has no source"))?;
        if !is_absolute(&message.prefix) || !is_absolute(&source.path) {
            return Err(invalid("has paths that aren't absolute"));
        }
        check_ends(&message.part_ends, message.chunks.len() as u64)?;
        check_count(message.part_ends.len())?;
        let literals = std::mem::take(&mut message.literals);
        let chunks = std::mem::take(&mut message.chunks);
        let plan = decoded(chunks, &trailer.chunks, literals, source.size, descriptor())?;
        Ok(Planned {
            compression: message.compression.parse()?,
            message,
            plan,
            trailer,
        })
    }

    pub(super) fn parts(&self) -> usize {
        self.message.part_ends.len()
    }

    pub(super) fn source(&self) -> &Path {
        let source = self.message.source.as_ref();
        Path::new(source.map_or("", |source| &source.path))
    }

    pub(super) fn prefix(&self) -> &str {
        &self.message.prefix
    }

    pub(super) fn main(&self) -> PathBuf {
        main_of(&self.message.prefix)
    }

    /// Returns the main file's path, or its full name in a store. In both cases, the names of the
    /// parts' files are made from the last component.
    fn full_name(&self, options: &PartOptions) -> Result<PathBuf> {
        match &options.objects {
            Some(objects) if is_object(&self.message.prefix) => {
                Ok(objects.full_name(&self.main_object())?.into())
            }
            _ => Ok(self.main()),
        }
    }

    fn options(&self, options: &PartOptions) -> SplitOptions {
        SplitOptions::new()
            .profile(Profile::Extended)
            .compression(self.compression)
            .max_chunk_size(self.message.max_chunk_size)
            .max_file_size(self.message.max_file_size)
            .force(self.message.force)
            .merkle_root(self.message.merkle_root)
            .threads(options.threads)
            .progress(options.progress.clone())
    }

    /// Opens the source. Fails if it has changed since the plan was made.
    fn open(&self, options: &PartOptions) -> Result<Source> {
        let planned = self.message.source.as_ref();
        if let Some(planned) = planned.filter(|planned| is_object(&planned.path)) {
            let objects = given(options.objects.as_ref(), &planned.path)?;
            let (source, now) = of_object(&planned.path, &**objects, descriptor())?;
            check_same(planned, &now)?;
            return Ok(source);
        }
        let source = Source::open(self.source(), descriptor())?;
        planned.map_or(Ok(()), check_unchanged)?;
        Ok(source)
    }

    /// Returns the store for the files of the parts, which is the folder of the main file.
    pub(super) fn store(&self, options: &PartOptions) -> Result<Box<dyn PartStore>> {
        if !is_object(&self.message.prefix) {
            return Ok(Box::new(FolderStore::beside(self.main())));
        }
        let objects = given(options.objects.as_ref(), &self.message.prefix)?;
        Ok(Box::new(ObjectFolder::beside(self.main_object(), objects)?))
    }

    /// Returns the URL of the main file, which must be an object.
    fn main_object(&self) -> String {
        format!("{}.{CHUNKED_EXTENSION}", self.message.prefix)
    }

    /// Returns the indices of the chunks that a part writes.
    fn chunks(&self, part: usize) -> Result<Range<usize>> {
        share_of_items(&self.message.part_ends, part)
    }

    /// Returns a split plan with only the chunks of a part.
    fn part(&self, part: usize) -> Result<SplitPlan> {
        let chunks = self.plan.chunks().get(self.chunks(part)?);
        Ok(self.plan.with_chunks(chunks.unwrap_or_default().to_vec()))
    }

    /// Runs a part: writes its file to `store`, and returns its outcome.
    pub(super) fn run(
        &self,
        part: usize,
        store: &dyn PartStore,
        options: &PartOptions,
    ) -> Result<Outcome> {
        let chunks = self.part(part)?;
        let source = self.open(options)?;
        let file = store.begin(&source.made_from())?;
        let main = self.full_name(options)?;
        let options = self.options(options);
        let written = write_part(&chunks, &source, file, (&main, part), &options)
            .map_err(|error| at_target(error, &self.main()))?;
        source.check_unchanged()?;
        options.get_progress().check()?;
        store.keep(written.file, &written.named.path)?;
        Ok(Outcome::Split(SplitReport {
            file: written.named.path,
            size: written.named.size,
            trailer_crc32c: written.named.trailer_crc32c,
            offsets: written.infos.iter().map(|info| info.offset).collect(),
            crc32cs: crc32cs(&written.infos).collect(),
            run_crc32cs: written.run_crc32cs,
            leaves: written.leaves.concat().into(),
            ..Default::default()
        }))
    }

    /// Returns the main file, which doesn't have its final name yet; the files of the parts; and
    /// the Merkle root if the plan requests one. Fails unless the files of all parts exist.
    pub(super) fn main_file(
        &self,
        outcomes: &[&Outcome],
        store: &dyn PartStore,
        options: &PartOptions,
    ) -> Result<(AtomicFile, Vec<ExternalFile>, Option<MerkleRoot>)> {
        let source = self.open(options)?;
        let mut trailer = self.trailer.clone();
        let (mut spans, mut leaves) = (Vec::new(), Vec::new());
        let mut written = Vec::with_capacity(outcomes.len());
        trailer.files = Vec::with_capacity(outcomes.len());
        for (part, outcome) in outcomes.iter().enumerate() {
            let chunks = self.chunks(part)?;
            let runs = runs(self.plan.chunks().get(chunks.clone()).unwrap_or_default());
            let infos = trailer.chunks.get_mut(chunks);
            let added = self.add(part, outcome, infos.unwrap_or_default(), &runs);
            let (file, done) = added.map_err(|error| error.context(format_args!("part {part}")))?;
            trailer.files.push(file.file.clone());
            written.push(file);
            spans.extend(runs.into_iter().zip(done.run_crc32cs.iter().copied()));
            leaves.extend_from_slice(done.leaves.as_chunks().0);
        }
        check_all(&trailer.files, store, options)?;
        if options.reread {
            reread_files(&written, store, options)?;
        }
        if trailer.source_crc32c.is_some() {
            trailer.source_crc32c = Some(crc32c_of_runs(&source, spans)?);
        }
        source.check_unchanged()?;
        let files = trailer.files.clone();
        let file = if is_object(&self.message.prefix) {
            store.begin(&source.made_from())?
        } else {
            AtomicFile::create(self.main(), &source.made_from(), true)?
        };
        let described = RecordsMetadata::parse(&self.message.records_metadata)?;
        let root = write_main(&file, &described, trailer, &leaves, &self.options(options))
            .map_err(|error| at_target(error, &self.main()))?;
        Ok((file, files, root))
    }

    /// Completes `infos`, the trailer entries of a part's chunks, with the offsets and checksums
    /// that the part reported. Returns the part's file and report.
    fn add<'a>(
        &self,
        part: usize,
        outcome: &'a Outcome,
        infos: &mut [ChunkInfo],
        runs: &[Range<u64>],
    ) -> Result<(WrittenPart, &'a SplitReport)> {
        let invalid = |why: &str| {
            let message = format!("its report {why}");
            Err(Error::new(ErrorKind::InvalidMessage, message))
        };
        let Outcome::Split(done) = outcome else {
            return invalid("doesn't describe a split");
        };
        let is_name = Path::new(&done.file).file_name() == Some(done.file.as_ref());
        if !is_name {
            return invalid("names a file in another folder");
        }
        let count = infos.len();
        if done.offsets.len() != count || done.crc32cs.len() != count {
            return invalid("has other chunks than the plan");
        }
        if done.run_crc32cs.len() != runs.len() {
            return invalid("has other bytes of the source than the plan");
        }
        let (leaves, rest) = done.leaves.as_chunks();
        let expected = if self.message.merkle_root { count } else { 0 };
        if leaves.len() != expected || !rest.is_empty() {
            return invalid("has other hashes than the plan");
        }
        let mut distinct: Vec<ChunkInfo> = Vec::with_capacity(count);
        let mut distinct_leaves: Vec<[u8; 32]> = Vec::with_capacity(expected);
        let chunks = infos.iter_mut().zip(&done.offsets).zip(&done.crc32cs);
        for (at, ((info, offset), crc32c)) in chunks.enumerate() {
            info.offset = *offset;
            info.crc32c = Some(*crc32c);
            info.file = 0;
            // A chunk that shares the record of an equal chunk follows the chunk that owns the
            // record.
            if distinct.last().is_none_or(|last| last.offset < *offset) {
                distinct.push(*info);
                distinct_leaves.extend(leaves.get(at));
            } else if let Some(leaf) = leaves.get(at) {
                let owner = distinct.binary_search_by_key(offset, |info| info.offset);
                if owner.ok().and_then(|owner| distinct_leaves.get(owner)) != Some(leaf) {
                    return invalid("has two hashes of one record");
                }
            }
            info.file = u32::try_from(part + 1).unwrap_or(u32::MAX);
        }
        let last = part_trailer(distinct.clone()).encode_to_vec();
        if crc32c::crc32c(&last) != done.trailer_crc32c {
            return invalid("contradicts the end of its file");
        }
        let file = ExternalFile {
            path: done.file.clone(),
            size: done.size,
            trailer_crc32c: done.trailer_crc32c,
        };
        let written = WrittenPart {
            file,
            chunks: distinct,
            leaves: distinct_leaves,
        };
        Ok((written, done))
    }

    /// Commits the split: checks the parts, and writes the main file.
    pub(super) fn commit(
        &self,
        outcomes: &[&Outcome],
        store: &dyn PartStore,
        options: &PartOptions,
    ) -> Result<CommittedSplit> {
        let (file, files, merkle_root) = self.main_file(outcomes, store, options)?;
        let counts =
            (0..files.len()).map(|part| self.chunks(part).map_or(0, |chunks| chunks.len()));
        let mut done = CommittedSplit {
            chunks: self.trailer.chunks.len(),
            source_size: self.plan.source_size(),
            byte_exact: self.trailer.byte_exact || !self.trailer.source_layout.is_empty(),
            merkle_root,
            ..CommittedSplit::over(&self.main(), &files, &counts.collect::<Vec<_>>())
        };
        if is_object(&self.message.prefix) {
            let objects = given(options.objects.as_ref(), &self.message.prefix)?;
            let name = self.main_object();
            let (size, was_there) = place_object(&**objects, &name, file, self.message.force)?;
            done.output_size = done.output_size.saturating_add(size);
            done.was_there = was_there;
            return Ok(done);
        }
        let options = self.options(options);
        let made_from = MadeFrom::files([self.source()]);
        place_main(file, &files, done, (store, &made_from), &options)
    }
}

impl CommittedSplit {
    /// Creates a report on a main file and on `files`. `counts` has the number of chunks in each of
    /// these files.
    pub(super) fn over(main: &Path, files: &[ExternalFile], counts: &[usize]) -> CommittedSplit {
        let written = files.iter().zip(counts).map(|(file, &chunks)| {
            WrittenFile::new(main.with_file_name(&file.path), file.size, chunks)
        });
        let bytes = files.iter().map(|file| file.size);
        CommittedSplit {
            path: main.to_owned(),
            files: written.collect(),
            output_size: bytes.fold(0, u64::saturating_add),
            ..CommittedSplit::default()
        }
    }
}

/// Renames a main file to its final name if all files to which it refers exist. Removes files of an
/// earlier split only if the options allow replacing files. Never removes the source's files, which
/// `made_from` contains.
pub(super) fn place_main(
    mut file: AtomicFile,
    files: &[ExternalFile],
    mut done: CommittedSplit,
    (store, made_from): (&dyn PartStore, &MadeFrom),
    options: &SplitOptions,
) -> Result<CommittedSplit> {
    let main = file.target().to_owned();
    let mut content = Vec::new();
    let handle = file.as_file_mut();
    handle.seek(SeekFrom::Start(0))?;
    handle.read_to_end(&mut content)?;
    done.output_size = done.output_size.saturating_add(content.len() as u64);
    let is_there = || fs::read(&main).is_ok_and(|there| there == content);
    let is_source = |path: &Path| made_from.contains(path);
    let is_needed = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        files.iter().any(|file| Some(file.path.as_str()) == name)
    };
    if is_there() {
        done.was_there = true;
        // If an earlier run of this commit was killed before it had removed the files of an earlier
        // split, they are removed now.
        let lock = FolderLock::take(&main, options.get_progress())?;
        let replaced = lock.replaced().iter();
        let replaced = replaced.filter(|path| !is_needed(path) && !is_source(path));
        done.removed = replaced
            .filter(|path| is_there() && fs::remove_file(path).is_ok())
            .cloned()
            .collect();
        return Ok(done);
    }
    let sibling = main.with_extension(PLAIN_EXTENSION);
    let force = options.get_force();
    let commit = Commit {
        main: file.forced(force),
        parts: Vec::new(),
        chunked: &main,
        sibling: Some(Sibling {
            path: &sibling,
            is_preferred: false,
        })
        .filter(|_| !is_source(&sibling)),
        force,
        progress: options.get_progress(),
    };
    let check = || files.iter().try_for_each(|file| store.check(file));
    match commit.run_if(check, |path| !force || is_needed(path) || is_source(path)) {
        Ok(removed) => {
            done.removed = removed.parts;
            done.removed.extend(removed.sibling);
        }
        // Another commit of the same plan has written the main file in the meantime.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && is_there() => {
            done.was_there = true;
        }
        Err(error) => return Err(error),
    }
    Ok(done)
}

/// Fails unless all these files exist. Checks several files at once, since a store may respond
/// slowly.
fn check_all(files: &[ExternalFile], store: &dyn PartStore, options: &PartOptions) -> Result<()> {
    let at_once = NonZeroUsize::MIN.saturating_add(MOST_CHECKED_AT_ONCE - 1);
    threads::map(at_once, files.len(), |at| {
        options.progress.check()?;
        files.get(at).map_or(Ok(()), |file| store.check(file))
    })
    .map(drop)
}

fn crc32cs(infos: &[ChunkInfo]) -> impl Iterator<Item = u32> {
    infos.iter().map(|info| info.crc32c.unwrap_or_default())
}

/// Returns a placeholder for the descriptor of the message. A part only copies byte ranges of the
/// message, so the type is irrelevant.
fn descriptor() -> MessageDescriptor {
    Plan::default().descriptor()
}
