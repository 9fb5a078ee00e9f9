//! The files that chunks go to: one, or a main file with the trailer and others that have at most
//! this many bytes.

use std::collections::HashSet;
use std::fs::File;

use record_file::{ReadAt, RecordWriter, WriterOptions};

use crate::chunked_file::ChunkedFile;
use crate::io::AtomicFile;
use crate::proto::ChunkInfo;
use crate::proto::chunk_metadata::ExternalFile;
use crate::split::{
    DonePart, check_file_count, check_max_file_size, complete_part, most_of_trailer, stem_beside,
};
use crate::{Error, ErrorKind, Result};

/// Fails if chunks of this file can't go to several of this many bytes.
pub(super) fn check_max_size<S: ReadAt>(
    file: &ChunkedFile<S>,
    main: Option<&AtomicFile>,
    max: u64,
) -> Result<()> {
    let version = file.trailer().metadata().version.as_ref();
    check_max_file_size(max)?;
    if let Some(main) = main {
        stem_beside(main.target())?;
    }
    let message = if main.is_none() {
        "a maximum file size needs a named output file"
    } else if version.is_none_or(|version| version.join_version < 1) {
        "a maximum file size: the file is for TensorFlow, which reads a single one: several are only for what was split with the profile `extended`"
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::InvalidConfig, message))
}

/// Writes the records of all files.
pub(super) struct Files<'a> {
    target: &'a File,
    main: RecordWriter<File>,
    /// The main file, which the others are like, and the most bytes of one, if chunks go to
    /// others.
    several: Option<(&'a AtomicFile, u64)>,
    open: Option<OpenPart>,
    done: Vec<DonePart>,
}

/// A file that isn't complete.
struct OpenPart {
    file: AtomicFile,
    writer: RecordWriter<File>,
    chunks: Vec<ChunkInfo>,
    offsets: HashSet<u64>,
}

impl<'a> Files<'a> {
    /// Begins the main file, which is empty.
    pub(super) fn begin(target: &'a File, options: WriterOptions) -> Result<Self> {
        Ok(Files {
            target,
            main: RecordWriter::new(target.try_clone()?, options)?.seekable(),
            several: None,
            open: None,
            done: Vec::new(),
        })
    }

    /// From here on, chunks go to files of at most `max` bytes beside this one.
    pub(super) fn go_beside(&mut self, main: &'a AtomicFile, max: u64) {
        self.several = Some((main, max));
    }

    /// The main file's writer.
    pub(super) fn main(&mut self) -> &mut RecordWriter<File> {
        &mut self.main
    }

    /// The writer of the file that the next chunk goes to, and its number.
    pub(super) fn current(&mut self) -> Result<(u32, &mut RecordWriter<File>)> {
        let Some((main, _)) = self.several else {
            return Ok((0, &mut self.main));
        };
        check_file_count(self.done.len() + 1)?;
        let number = u32::try_from(self.done.len() + 1);
        let number = number.map_err(|_| Error::new(ErrorKind::LimitExceeded, "too many files"))?;
        let part = match self.open.take() {
            Some(part) => part,
            None => OpenPart::begin(main)?,
        };
        Ok((number, &mut self.open.insert(part).writer))
    }

    /// Goes on to another file if this one may have no room for this many bytes more.
    pub(super) fn make_room(&mut self, bytes: u64) -> Result<()> {
        if let (Some((_, max)), Some(part)) = (self.several, &mut self.open) {
            let used = part.writer.position().numeric().saturating_add(bytes);
            let end = used.saturating_add(most_of_trailer(part.chunks.len() + 1));
            if end > max && !part.chunks.is_empty() {
                self.complete()?;
            }
        }
        Ok(())
    }

    /// Takes note of a chunk in the file that is being written.
    pub(super) fn wrote(&mut self, info: &ChunkInfo) {
        if let Some(part) = &mut self.open
            && info.file as usize == self.done.len() + 1
            && part.offsets.insert(info.offset)
        {
            part.chunks.push(ChunkInfo { file: 0, ..*info });
        }
    }

    /// Completes the file that is being written, if that is one of the others.
    pub(super) fn complete(&mut self) -> Result<()> {
        let (Some(mut part), Some((main, max))) = (self.open.take(), self.several) else {
            return Ok(());
        };
        part.writer.flush()?;
        let end = part.writer.position().numeric();
        let count = self.done.len();
        let done = complete_part(main.target(), count, part.file, end, part.chunks)?;
        let size = done.named.size;
        if size > max {
            let message = format!(
                "a chunk doesn't fit: its file would have {size} bytes, over the maximum file size of {max} bytes: merge the file, and split the merge"
            );
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        self.done.push(done);
        Ok(())
    }

    /// What the trailer says of the others.
    pub(super) fn named(&self) -> Vec<ExternalFile> {
        self.done.iter().map(|part| part.named.clone()).collect()
    }

    /// The main file.
    pub(super) fn target(&self) -> &'a File {
        self.target
    }

    /// One of those that are complete, to be read.
    pub(super) fn open(&self, named: &ExternalFile) -> Result<&File> {
        let part = self.done.iter().find(|part| part.named == *named);
        part.map(|part| part.file.as_file())
            .ok_or_else(|| Error::new(ErrorKind::InvalidTrailer, "there is no such file"))
    }

    pub(super) fn into_parts(self) -> Vec<DonePart> {
        self.done
    }
}

impl OpenPart {
    fn begin(main: &AtomicFile) -> Result<Self> {
        let file = main.create_beside()?;
        let mut writer = RecordWriter::new(file.as_file().try_clone()?, WriterOptions::new())?;
        // The signature is in front.
        writer.flush()?;
        Ok(OpenPart {
            file,
            writer,
            chunks: Vec::new(),
            offsets: HashSet::new(),
        })
    }
}
