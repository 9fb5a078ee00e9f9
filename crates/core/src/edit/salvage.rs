//! Recovering the intact parts of a damaged file.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io;
use std::path::Path;

use crate::container::{ChunkKind, ChunkRef, Limits, NodeId, Trailer};
use crate::error::ChunkIndex;
use crate::merge::{ChunkStore, ReadOptions, read_trailer};
use crate::message::ChunkedFile;
use crate::path::{FieldPath, PathQuery, Select, Step};
use crate::progress::Meter;
use crate::proto::{ChunkInfo, ChunkMetadata, ChunkedField, ChunkedMessage};
use crate::{Error, ErrorKind, Result};

use super::trailer::{real, retain, without_unused};

/// A file reduced to its intact parts.
#[derive(Debug)]
#[non_exhaustive]
pub struct Salvaged {
    /// The file without its damaged chunks.
    pub file: ChunkedFile,
    /// Missing parts of the message.
    pub lost: Vec<Loss>,
}

/// A missing part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// Path of the missing part.
    pub path: FieldPath,
    /// Kind of loss.
    pub what: Lost,
    /// Index, in the original file, of the chunk that contains the missing part.
    pub chunk: ChunkIndex,
    /// The error in the chunk, or the reason why an intact value's index is unknown.
    pub why: String,
}

/// The kind of loss at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lost {
    /// The value and everything below it. The value is now empty.
    Value,
    /// Some elements of a repeated field. Later elements move to lower indices.
    Elements,
    /// The index of an intact value. Since elements before the value are lost, the index is
    /// unknown, and the salvaged message has an empty value instead.
    Place,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Lost::Value => "the value",
            Lost::Elements => "some elements",
            Lost::Place => "the value, whose place is lost",
        })
    }
}

/// Opens a `.cpb` file without the chunks that are damaged or in missing files. Merging the result
/// leaves an empty value in place of each lost chunk.
///
/// Reads every chunk once to find the damage. The total size of all chunks must be within
/// [`max_merged_size`](Limits::max_merged_size).
///
/// ```
/// use proto_splitter_core::edit::salvage;
/// use proto_splitter_core::merge::ReadOptions;
/// use proto_splitter_core::split::{SplitExt, SizeSplitter, SplitOptions};
/// use prost::Message;
/// use prost_reflect::prost_types::FileDescriptorProto;
///
/// let [name, package] = ["n", "p"].map(|text| Some(text.repeat(5000)));
/// let file = FileDescriptorProto { name, package, ..Default::default() };
/// let folder = tempfile::tempdir()?;
/// let options = SplitOptions::new().max_chunk_size(1000).compression(record_file::Compression::None);
/// let path = SizeSplitter.write_with(&file, folder.path().join("file"), &options)?.path;
/// let mut bytes = std::fs::read(&path)?;
/// let at = bytes.windows(2).position(|pair| pair == b"pp").ok_or("there is a chunk of it")?;
/// bytes[at + 100] ^= 1;
/// std::fs::write(&path, bytes)?;
///
/// let salvaged = salvage(&path, &ReadOptions::new())?;
/// assert_eq!(salvaged.lost.len(), 1);
/// assert_eq!(salvaged.lost[0].path, "2".parse()?);
/// let mut merged = Vec::new();
/// salvaged.file.merge_to(&mut merged, &ReadOptions::new())?;
/// let merged = FileDescriptorProto::decode(&merged[..])?;
/// assert_eq!((merged.name, merged.package.as_deref()), (file.name, Some("")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Damage in the trailer, or in the root chunk, to which all other chunks belong (without these
/// two, nothing can be recovered); [`ErrorKind::LimitExceeded`] if all chunks together are too
/// large; [`ErrorKind::Cancelled`].
pub fn salvage(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Salvaged> {
    let path = path.as_ref();
    let trailer = read_trailer(path, &options.limits)?;
    let damaged = damaged(path, &trailer, options)?;
    let mut search = Search {
        path,
        trailer: &trailer,
        damaged: &damaged,
        options,
        gone: Gone::default(),
        lost: Vec::new(),
    };
    search.go()?;
    let Search { gone, lost, .. } = search;
    let metadata = gone.taken_from(&trailer)?;
    let file = ChunkedFile::open_with_metadata(path, metadata, &options.limits)?;
    Ok(Salvaged { file, lost })
}

/// Returns the indices of the unreadable chunks, with the error of each.
fn damaged(
    path: &Path,
    trailer: &Trailer,
    options: &ReadOptions,
) -> Result<BTreeMap<usize, Error>> {
    let chunks = &trailer.metadata().chunks;
    let sizes = chunks.iter().map(|chunk| chunk.size);
    let meter = options.progress.meter(sizes.fold(0, u64::saturating_add));
    // If the file can't be opened as a whole, the chunks of each file are checked separately.
    let whole = ChunkedFile::open_with(path, &options.limits).ok();
    match &whole {
        Some(file) => file.store().check_merged_size()?,
        None => check_merged_size(path, trailer, &options.limits)?,
    }
    let mut check = Check {
        path,
        trailer,
        options,
        meter,
        damaged: BTreeMap::new(),
    };
    match &whole {
        Some(file) => check.chunks(file, &(0..chunks.len()).collect::<Vec<_>>())?,
        None => {
            let mut by_file: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
            for (chunk, info) in chunks.iter().enumerate() {
                by_file.entry(info.file).or_default().push(chunk);
            }
            by_file.values().try_for_each(|of| check.of_one_file(of))?;
        }
    }
    Ok(check.damaged)
}

/// A pass over all chunks that finds the unreadable ones.
struct Check<'a> {
    path: &'a Path,
    trailer: &'a Trailer,
    options: &'a ReadOptions,
    meter: Meter,
    damaged: BTreeMap<usize, Error>,
}

impl Check<'_> {
    /// Reads every chunk in `file`. `chunks` contains their indices in the original trailer.
    fn chunks(&mut self, file: &ChunkedFile, chunks: &[usize]) -> Result<()> {
        for (at, &chunk) in chunks.iter().enumerate() {
            let read = read(file, at);
            self.found(chunk, read)?;
        }
        Ok(())
    }

    fn found(&mut self, chunk: usize, read: Result<()>) -> Result<()> {
        self.meter
            .advance(self.trailer.metadata().chunks[chunk].size)?;
        if let Err(error) = read {
            self.damaged.insert(chunk, error);
        }
        Ok(())
    }

    /// Reads these chunks, which are in one file. Opening the file checks all chunks in its
    /// metadata. If opening fails, reads each half of the chunks separately.
    fn of_one_file(&mut self, chunks: &[usize]) -> Result<()> {
        let some = of_these(self.trailer, chunks);
        match ChunkedFile::open_with_metadata(self.path, some, &self.options.limits) {
            Ok(file) => self.chunks(&file, chunks),
            Err(error) => match chunks {
                [chunk] => self.found(*chunk, Err(error)),
                _ => {
                    let (front, back) = chunks.split_at(chunks.len() / 2);
                    self.of_one_file(front)?;
                    self.of_one_file(back)
                }
            },
        }
    }
}

/// Fails if the chunks exceed the limit for a merge. Uses the sizes in the trailer, since a file
/// that can't be opened as a whole provides no other sizes.
fn check_merged_size(path: &Path, trailer: &Trailer, limits: &Limits) -> Result<()> {
    let metadata = trailer.metadata();
    let sum = |sizes: &mut dyn Iterator<Item = u64>| sizes.fold(0, u64::saturating_add);
    let claimed = sum(&mut metadata.chunks.iter().map(|chunk| chunk.size));
    let files = sum(&mut metadata.files.iter().map(|file| file.size));
    let main = std::fs::metadata(path).map_err(|error| Error::from(error).in_file(path))?;
    limits.check_merged_size(claimed, files.saturating_add(main.len()))
}

fn read(file: &ChunkedFile, chunk: usize) -> Result<()> {
    io::copy(&mut file.stream(chunk)?, &mut io::sink())?;
    Ok(())
}

/// Returns metadata for opening a file with only `chunks`, which are all in that file. The metadata
/// doesn't contain the chunks' places in the message.
fn of_these(trailer: &Trailer, chunks: &[usize]) -> ChunkMetadata {
    let all = trailer.metadata();
    let infos = chunks.iter().filter_map(|&chunk| all.chunks.get(chunk));
    let file = infos.clone().next().map_or(0, |info| info.file as usize);
    let files = file.checked_sub(1).and_then(|at| all.files.get(at));
    // BYTES chunks are declared as MESSAGE chunks, too. This has no effect, since nothing parses
    // them.
    let chunks: Vec<ChunkInfo> = infos
        .map(|info| ChunkInfo {
            r#type: crate::proto::chunk_info::Type::Message.into(),
            file: info.file.min(1),
            ..*info
        })
        .collect();
    let at = |chunk: usize| ChunkedMessage {
        chunk_index: Some(chunk as u64),
        chunked_fields: Vec::new(),
    };
    let slices = (1..chunks.len()).map(|chunk| ChunkedField {
        message: Some(at(chunk)),
        ..ChunkedField::default()
    });
    let message = Some(ChunkedMessage {
        chunked_fields: slices.collect(),
        ..at(0)
    });
    let (message, extended_message) = match all.extended_message {
        Some(_) => (all.message.clone(), message),
        None => (message, None),
    };
    ChunkMetadata {
        version: all.version.clone(),
        chunks,
        message,
        extended_message,
        splice_marker: all.splice_marker,
        files: files.cloned().into_iter().collect(),
        ..ChunkMetadata::default()
    }
}

/// The parts of a message to omit from the trailer.
#[derive(Clone, Default)]
struct Gone {
    /// Places to omit, with all chunks at and below them.
    places: HashSet<FieldPath>,
    /// Slices to omit: for each, the path of its message and the index of its chunk.
    slices: HashSet<(FieldPath, usize)>,
}

impl Gone {
    /// Returns the trailer's metadata without the parts to omit.
    fn taken_from(&self, trailer: &Trailer) -> Result<ChunkMetadata> {
        let mut metadata = trailer.metadata().clone();
        metadata.source_layout.clear();
        metadata.byte_exact = false;
        metadata.merkle_tree = None;
        if let Some(message) = real(&mut metadata) {
            retain(message, &FieldPath::root(), &|place, below| {
                let chunk = below.chunk_index.and_then(|at| usize::try_from(at).ok());
                if chunk.is_some_and(|chunk| self.slices.contains(&(place.clone(), chunk))) {
                    below.chunk_index = None;
                }
                !self.has(place)
            })?;
        }
        without_unused(&mut metadata);
        Ok(metadata)
    }

    /// Returns true if a place or one of its ancestors is omitted.
    fn has(&self, place: &FieldPath) -> bool {
        let mut above = FieldPath::root();
        place.steps().iter().any(|step| {
            above.push(step.clone());
            self.places.contains(&above)
        })
    }
}

struct Search<'a> {
    path: &'a Path,
    trailer: &'a Trailer,
    damaged: &'a BTreeMap<usize, Error>,
    options: &'a ReadOptions,
    gone: Gone,
    lost: Vec<Loss>,
}

impl Search<'_> {
    fn go(&mut self) -> Result<()> {
        let tree = self.trailer.chunk_tree();
        let mut below_gone = vec![false; tree.len()];
        for id in tree.ids_in_depth() {
            let above = tree.above(id).map(|(above, _)| above.index());
            let path = tree.path(id);
            if above.is_some_and(|above| below_gone[above]) || self.gone.places.contains(&path) {
                below_gone[id.index()] = true;
                continue;
            }
            let is_damaged = |c: &&ChunkRef| self.damaged.contains_key(&c.chunk);
            let chunks = tree.chunks(id);
            let Some(bad) = chunks.iter().find(is_damaged).copied() else {
                continue;
            };
            let is_value = self.trailer.kinds().get(bad.chunk) == Some(&ChunkKind::Bytes);
            let is_first = chunks.first() == Some(&bad) && bad.slice_of.is_none() && !bad.packed;
            if !is_value && !is_first {
                self.slices(id, &path)?;
                continue;
            }
            if path.is_root() {
                return Err(self.nothing_left(bad.chunk));
            }
            below_gone[id.index()] = true;
            self.lose(path.clone(), Lost::Value, bad.chunk);
            self.gone.places.insert(path);
        }
        Ok(())
    }

    /// Omits the unusable slices of the message at a node. Also omits the chunks that belong in
    /// elements whose index becomes unknown.
    fn slices(&mut self, id: NodeId, path: &FieldPath) -> Result<()> {
        let tree = self.trailer.chunk_tree();
        let chunks = tree.chunks(id);
        let lost = self.broken(chunks);
        // All of them are omitted before elements are counted, since counting reads the message.
        let slices = chunks.iter().zip(&lost).filter(|(_, lost)| **lost);
        let slices = slices.map(|(c, _)| (path.clone(), c.chunk));
        self.gone.slices.extend(slices);
        let mut seen = HashSet::new();
        for (at, c) in chunks.iter().enumerate() {
            if !lost[at] {
                continue;
            }
            if self.damaged.contains_key(&c.chunk) {
                let place = match c.slice_of {
                    Some(field) => path.join(Step::field(field.0)),
                    None => path.clone(),
                };
                self.lose(place, Lost::Elements, c.chunk);
            }
            if seen.insert(c.slice_of) {
                let left = self.elements_in_front(path, &chunks[at..], c)?;
                self.unplace(id, c, left);
            }
        }
        Ok(())
    }

    /// Returns a flag for each chunk at a node: true if the chunk is damaged, or contains a part of
    /// a field of which another part is damaged.
    fn broken(&self, chunks: &[ChunkRef]) -> Vec<bool> {
        let mut lost = Vec::with_capacity(chunks.len());
        for parts in chunks.chunk_by(|_, next| next.within) {
            let any = parts.iter().any(|c| self.damaged.contains_key(&c.chunk));
            lost.extend(parts.iter().map(|_| any));
        }
        lost
    }

    /// Returns the number of elements that a field has before a slice; `None` if unknown.
    fn elements_in_front(
        &self,
        path: &FieldPath,
        from: &[ChunkRef],
        slice: &ChunkRef,
    ) -> Result<Option<u64>> {
        let Some(field) = slice.slice_of.filter(|_| self.trailer.is_marked()) else {
            return Ok(None);
        };
        let tree = self.trailer.chunk_tree();
        let mut gone = self.gone.clone();
        let same = from.iter().filter(|c| c.slice_of == slice.slice_of);
        gone.slices.extend(same.map(|c| (path.clone(), c.chunk)));
        let field = path.join(Step::field(field.0));
        // Only the message and those that enclose it are needed. Other places may be damaged, or in
        // missing files.
        let places = tree.ids().map(|id| tree.path(id));
        let others = places.filter(|place| path.strip_prefix(place).is_none());
        gone.places.extend(others);
        let metadata = gone.taken_from(self.trailer)?;
        let limits: &Limits = &self.options.limits;
        let file = ChunkedFile::open_with_metadata(self.path, metadata, limits)?;
        let view = file.view(self.options.clone());
        let mut elements = view.select(&PathQuery::all_of(&field), &[])?;
        let mut count = 0;
        while elements.next().transpose()?.is_some() {
            count += 1;
        }
        Ok(Some(count))
    }

    /// Omits the chunks that belong in elements of a slice's field: in the elements from the index
    /// `from` on, or in all elements if `from` is `None`.
    fn unplace(&mut self, id: NodeId, slice: &ChunkRef, from: Option<u64>) {
        let tree = self.trailer.chunk_tree();
        for &child in tree.children(id) {
            let step = tree.step(child);
            let is_of_slice = slice.slice_of.is_none_or(|field| field == step.field);
            let stays = match (&step.select, from) {
                (Select::Index(index), Some(from)) => *index < from,
                _ => false,
            };
            if !is_of_slice || stays {
                continue;
            }
            let mut open = vec![child];
            while let Some(at) = open.pop() {
                if let Some(c) = tree.chunks(at).first() {
                    let path = tree.path(at);
                    if self.damaged.contains_key(&c.chunk) {
                        self.lose(path, Lost::Value, c.chunk);
                    } else {
                        self.lost.push(Loss {
                            path,
                            what: Lost::Place,
                            chunk: c.chunk.into(),
                            why: format!("elements before it were in chunk {}", slice.chunk),
                        });
                    }
                } else {
                    open.extend(tree.children(at).iter().rev());
                }
            }
            self.gone.places.insert(tree.path(child));
        }
    }

    fn lose(&mut self, path: FieldPath, what: Lost, chunk: usize) {
        let why = self.damaged.get(&chunk).map(ToString::to_string);
        self.lost.push(Loss {
            path,
            what,
            chunk: chunk.into(),
            why: why.unwrap_or_default(),
        });
    }

    fn nothing_left(&self, chunk: usize) -> Error {
        let why = self.damaged.get(&chunk);
        let kind = why.map_or(ErrorKind::Record, Error::kind);
        let why = why.map_or(String::new(), |why| format!(": {why}"));
        let message = format!(
            "the chunk that all others belong to is damaged, so nothing can be merged{why}"
        );
        Error::new(kind, message)
    }
}
