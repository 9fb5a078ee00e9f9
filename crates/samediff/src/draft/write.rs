//! Writing a draft to an archive.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io::{Read, Seek, Write};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use proto_splitter_core::atomic::{AtomicFile, MadeFrom};
use proto_splitter_core::progress::{Meter, Progress};

use super::plan::{Entry, Plan};
use super::{Content, Draft, FileIndex};
use crate::array::{ArrayElements, header};
use crate::zip::{ArchiveWriter, Seen, ZipCompression};
use crate::{Array, Error, Result, layout, text};

/// Options for writing a draft.
#[derive(Clone, Debug, Default)]
pub struct SameDiffWriteOptions {
    pub(crate) force: bool,
    pub(crate) made_from: MadeFrom,
    compression: ZipCompression,
    pub(crate) progress: Progress,
}

impl SameDiffWriteOptions {
    /// Returns the defaults; each setter documents its default.
    #[must_use]
    pub const fn new() -> Self {
        SameDiffWriteOptions {
            force: false,
            made_from: MadeFrom::Nothing,
            compression: ZipCompression::Keep,
            progress: Progress::none(),
        }
    }

    proto_splitter_core::options! {
        /// Sets whether to replace the output file if it exists. Default: false.
        const force, get_force: bool;

        /// Sets the files from which the model was made. The output file doesn't get wider
        /// permissions than these files have. Default: none.
        ref made_from, get_made_from: MadeFrom;

        /// Sets the compression of the archive's entries. Default: [`ZipCompression::Keep`].
        const compression, get_compression: ZipCompression;

        /// Sets the progress listener, which can also cancel the operation. Default: none.
        ref progress, get_progress: Progress;
    }
}

/// A summary of a model that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenSameDiff {
    /// Size of the model's file, in bytes.
    pub size: u64,
    /// Number of array files written.
    pub arrays: u64,
    /// Number of new arrays that weren't written, since they share the file of an equal older
    /// array.
    pub shared: u64,
}

impl Draft {
    /// Writes the model to a file, atomically. If `force` is set, the target may be the file from
    /// which the draft was opened.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::AlreadyExists`](crate::ErrorKind::AlreadyExists) if the file exists and `force`
    /// isn't set; [`ErrorKind::InvalidConfig`](crate::ErrorKind::InvalidConfig) if there is no tag;
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if the file can't be written; any error in an
    /// archive from which unchanged content is copied.
    pub fn write(
        &self,
        path: impl AsRef<Path>,
        options: &SameDiffWriteOptions,
    ) -> Result<WrittenSameDiff> {
        let path = path.as_ref();
        let named = |error: Error| error.in_file(path.display());
        let plan = Plan::of(self).map_err(named)?;
        // The errors of the file itself begin with its path.
        let file = AtomicFile::create(path, &options.made_from, options.force)?;
        let written = self.execute(&plan, file.writer_at(0), options);
        let written = written.map_err(named)?;
        file.commit()?;
        Ok(written)
    }

    fn execute(
        &self,
        plan: &Plan<'_>,
        file: impl Write + Seek,
        options: &SameDiffWriteOptions,
    ) -> Result<WrittenSameDiff> {
        let mut run = Run {
            draft: self,
            writer: ArchiveWriter::new(file, options.compression),
            meter: options.progress.meter(self.total()),
            waiting: self.waiting(plan),
            instead: HashMap::new(),
            done: HashSet::new(),
            arrays: 0,
        };
        let tags = text::print_tags(self.tags());
        run.add(layout::TAGS, tags.as_bytes())?;
        for entry in &plan.entries {
            run.entry(plan, entry)?;
        }
        let Run {
            writer,
            instead,
            arrays,
            ..
        } = run;
        Ok(WrittenSameDiff {
            size: writer.finish()?,
            arrays,
            shared: instead.len() as u64,
        })
    }

    /// Returns an upper bound on the number of bytes of content to write.
    pub(crate) fn total(&self) -> u64 {
        let lens = self.files.iter().map(|file| match &file.content {
            Content::Entry(archive, index) => archive.record(*index).len,
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Array(array) => array.data_len(),
        });
        lens.sum()
    }

    /// Returns, for each file, the planned files that may turn out to equal it.
    fn waiting(&self, plan: &Plan<'_>) -> HashMap<FileIndex, Vec<FileIndex>> {
        let mut waiting: HashMap<_, Vec<_>> = HashMap::new();
        for entry in &plan.entries {
            if let Entry::Array(_, file) = entry {
                for candidate in &self.file(*file).candidates {
                    waiting.entry(*candidate).or_default().push(*file);
                }
            }
        }
        waiting
    }
}

/// A draft that is being written.
struct Run<'d, W: Write + Seek> {
    draft: &'d Draft,
    writer: ArchiveWriter<W>,
    meter: Meter,
    /// For each file, the later files that may turn out to equal it.
    waiting: HashMap<FileIndex, Vec<FileIndex>>,
    /// Files that turned out to equal older files, each with the older file that replaces it.
    instead: HashMap<FileIndex, FileIndex>,
    /// Files that have been written.
    done: HashSet<FileIndex>,
    arrays: u64,
}

impl<W: Write + Seek> Run<'_, W> {
    fn entry(&mut self, plan: &Plan<'_>, entry: &Entry<'_>) -> Result<()> {
        match entry {
            Entry::Content(name, content) => self.content(name, content, None),
            Entry::List(name, tag, role) => {
                let lines = plan.lines(*tag, *role, &self.instead);
                let text = text::print_lines(&lines).map_err(|error| error.in_entry(name))?;
                self.add(name, text.as_bytes())
            }
            Entry::Array(name, file) if !self.instead.contains_key(file) => self.array(name, *file),
            Entry::Array(..) => Ok(()),
        }
    }

    fn add(&mut self, name: &str, content: impl Read) -> Result<()> {
        let added = self.writer.add(name, content, |_| Ok(()));
        added.map_err(|error| error.in_entry(name))
    }

    fn content(&mut self, name: &str, content: &Content, mut seen: Option<Seen>) -> Result<()> {
        let meter = &self.meter;
        let writer = &mut self.writer;
        if let Content::Entry(archive, index) = content
            && writer.keeps_deflated(archive, *index)
        {
            let copied = writer.copy_deflated(name, archive, *index, seen);
            copied.map_err(|error| error.in_entry(name))?;
            return Ok(meter.advance(archive.record(*index).len)?);
        }
        let written = |bytes: &[u8]| {
            meter.advance(bytes.len() as u64)?;
            seen.as_mut().map_or(Ok(()), |seen| seen(bytes))
        };
        let added = match content {
            // Entries aren't copied with the crate `zip`, since it doesn't keep their alignment.
            // Streaming the entry also verifies its checksum.
            Content::Entry(archive, index) => archive
                .stream(*index)
                .and_then(|stream| writer.add(name, stream, written)),
            Content::Bytes(bytes) => writer.add(name, &bytes[..], written),
            Content::Array(array) => {
                let header = header(&array.written_info(), array.data_len())?;
                let data = array.little_endian()?;
                writer.add(name, (&header[..]).chain(data), written)
            }
        };
        added.map_err(|error| error.in_entry(name))
    }

    /// Writes an array's file. Later files that turn out to equal the written file are added to
    /// `instead`.
    fn array(&mut self, name: &str, file: FileIndex) -> Result<()> {
        self.arrays += 1;
        self.done.insert(file);
        let content = &self.draft.file(file).content;
        let waiting = self.waiting.remove(&file).unwrap_or_default();
        let mut waiting: Vec<FileIndex> = waiting
            .into_iter()
            .filter(|later| !self.instead.contains_key(later) && !self.done.contains(later))
            .collect();
        waiting.dedup();
        if waiting.is_empty() {
            return self.content(name, content, None);
        }
        let older = self.draft.file(file).array()?;
        let (starts, swapped) = match content {
            // An entry is copied with its stored byte order, so later arrays are compared in that
            // order.
            Content::Entry(..) => (older.offset_in_entry(), older.swapped_width()),
            _ => (
                header(&older.written_info(), older.data_len())?.len() as u64,
                None,
            ),
        };
        let mut rivals = Vec::new();
        for later in waiting {
            let array = self.draft.file(later).array()?;
            // Arrays of strings can have data of different lengths, even if their shapes are the
            // same.
            if array.data_len() == older.data_len() {
                rivals.push(Rival::new(later, array, swapped)?);
            }
        }
        let compared = Rc::new(RefCell::new(Compared {
            data: starts..starts + older.data_len(),
            at: 0,
            rivals,
            buf: Vec::new(),
        }));
        let seen = Rc::clone(&compared);
        let seen: Seen = Box::new(move |bytes| seen.borrow_mut().see(bytes));
        self.content(name, content, Some(seen))?;
        let compared = compared.borrow();
        // An array whose comparison is incomplete may still differ.
        let whole = compared.at >= compared.data.end;
        let same = compared.rivals.iter().filter(|rival| whole && rival.same);
        self.instead.extend(same.map(|rival| (rival.file, file)));
        Ok(())
    }
}

/// A comparison of the array being written with arrays whose files would be written later.
struct Compared {
    /// Range of the array's data in the file.
    data: Range<u64>,
    /// Number of bytes written to the file so far.
    at: u64,
    rivals: Vec<Rival>,
    /// Memory for bytes of one rival after the other.
    buf: Vec<u8>,
}

impl Compared {
    fn see(&mut self, bytes: &[u8]) -> Result<()> {
        let before = self.at;
        self.at += bytes.len() as u64;
        let from = self.data.start.clamp(before, self.at) - before;
        let to = self.data.end.clamp(before, self.at) - before;
        // Both offsets are at most the length of `bytes`.
        let part = usize::try_from(from).ok().zip(usize::try_from(to).ok());
        let part = part
            .and_then(|(from, to)| bytes.get(from..to))
            .unwrap_or_default();
        let Compared { rivals, buf, .. } = self;
        buf.resize(part.len(), 0);
        rivals.iter_mut().try_for_each(|rival| rival.see(part, buf))
    }
}

/// An array whose file would be written later, and that may equal the array being written.
struct Rival {
    file: FileIndex,
    data: ArrayElements,
    /// True if all bytes compared so far were equal.
    same: bool,
}

impl Rival {
    /// Opens an array for the comparison. If the file being written is big-endian, `swapped` is the
    /// width of an element in bytes, and the bytes of each element are swapped.
    fn new(file: FileIndex, array: &Array, swapped: Option<usize>) -> Result<Rival> {
        let data = array.little_endian()?;
        Ok(Rival {
            file,
            data: match swapped {
                Some(width) => data.swapped(width),
                None => data,
            },
            same: true,
        })
    }

    /// Compares the array's next bytes, read into `buf`, with `bytes`, which are as many.
    fn see(&mut self, bytes: &[u8], buf: &mut [u8]) -> Result<()> {
        if self.same {
            self.data.read_exact(buf)?;
            self.same = buf == bytes;
        }
        Ok(())
    }
}
