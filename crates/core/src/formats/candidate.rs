//! What a format sees of an input to recognise it.

use std::cell::OnceCell;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use record_file::ReadAt;

use crate::{Error, Result};

/// How many bytes of a file's two ends a format can look at: 4 KiB of each.
const END_LEN: u64 = 4 << 10;

/// How sure a format is that an input is of it. The order is that of sureness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confidence {
    /// The name allows it, and other formats share the name.
    Possible,
    /// The name is used by this format alone, or the content looks like it.
    Likely,
    /// The content proves it: a signature, or files that only this format has.
    Certain,
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CandidateKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// Nothing: the path may be the common beginning of several files' names.
    Prefix,
}

/// An input that formats are asked about: its path, what is there, and both ends of a file. A file
/// is read when a format first looks into it.
///
/// ```
/// use proto_splitter_core::formats::{Candidate, CandidateKind};
///
/// let folder = tempfile::tempdir()?;
/// std::fs::write(folder.path().join("Model.ONNX"), b"\x08\x07")?;
///
/// let path = folder.path().join("Model.ONNX");
/// let candidate = Candidate::new(&path)?;
/// assert_eq!(candidate.kind(), CandidateKind::File);
/// assert_eq!(candidate.extension().as_deref(), Some("onnx"));
/// assert_eq!(candidate.head(), b"\x08\x07");
///
/// assert!(Candidate::new(folder.path())?.has("Model.ONNX"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Candidate<'a> {
    path: &'a Path,
    kind: CandidateKind,
    size: u64,
    ends: OnceCell<Ends>,
}

/// Both ends of a file; nothing of one that can't be read.
#[derive(Debug, Default)]
struct Ends {
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl<'a> Candidate<'a> {
    /// Looks at what a path leads to.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if the path can't be looked at, or leads to neither
    /// a file nor a folder. A path that leads to nothing is a
    /// [`Prefix`](CandidateKind::Prefix).
    pub fn new(path: &'a Path) -> Result<Candidate<'a>> {
        let failed = |error: io::Error| Error::from(error).context(path.display());
        let (kind, size) = match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => (CandidateKind::File, metadata.len()),
            Ok(metadata) if metadata.is_dir() => (CandidateKind::Folder, 0),
            // Reading a pipe waits for its other end.
            Ok(_) => return Err(failed(io::Error::other("neither a file nor a folder"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (CandidateKind::Prefix, 0),
            Err(error) => return Err(failed(error)),
        };
        Ok(Candidate {
            path,
            kind,
            size,
            ends: OnceCell::new(),
        })
    }

    /// A file that isn't at the path that it is called by, such as an object in a store: only
    /// `source` reads it, and both its ends are read now.
    ///
    /// ```
    /// use proto_splitter_core::formats::{Candidate, CandidateKind};
    ///
    /// let bytes = b"\x08\x07".to_vec();
    /// let candidate = Candidate::of_source("s3://bucket/model.onnx".as_ref(), &bytes)?;
    /// assert_eq!(candidate.kind(), CandidateKind::File);
    /// assert_eq!((candidate.file_name(), candidate.head()), ("model.onnx", &bytes[..]));
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if it can't be read.
    pub fn of_source<S: ReadAt + ?Sized>(path: &'a Path, source: &S) -> Result<Candidate<'a>> {
        let failed = |error: io::Error| Error::from(error).context(path.display());
        let size = source.size().map_err(failed)?;
        let ends = read_ends(source, size).map_err(failed)?;
        Ok(Candidate {
            path,
            kind: CandidateKind::File,
            size,
            ends: OnceCell::from(ends),
        })
    }

    /// The path, as it was given.
    pub fn path(&self) -> &'a Path {
        self.path
    }

    /// What is there.
    pub fn kind(&self) -> CandidateKind {
        self.kind
    }

    /// Bytes of the file; 0 if it is none.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The name without its folder; empty if the path ends in none.
    pub fn file_name(&self) -> &'a str {
        let name = self.path.file_name().and_then(|name| name.to_str());
        name.unwrap_or_default()
    }

    /// What stands behind the last dot of the name, in lower case.
    pub fn extension(&self) -> Option<String> {
        let extension = self.path.extension()?.to_str()?;
        Some(extension.to_ascii_lowercase())
    }

    /// Whether a file of this name is in the folder.
    pub fn has(&self, name: &str) -> bool {
        self.kind == CandidateKind::Folder && self.path.join(name).is_file()
    }

    /// The file that the path is the beginning of: the path, then `ending`; none if no such file is
    /// there.
    pub fn continued(&self, ending: &str) -> Option<PathBuf> {
        let mut path = self.path.as_os_str().to_owned();
        path.push(ending);
        let path = PathBuf::from(path);
        path.is_file().then_some(path)
    }

    /// The first bytes of the file: all of them, up to 4 KiB. Empty if it is not a file, or can't be
    /// read.
    pub fn head(&self) -> &[u8] {
        &self.ends().head
    }

    /// The last bytes of the file, as [`head`](Self::head) the first.
    pub fn tail(&self) -> &[u8] {
        &self.ends().tail
    }

    fn ends(&self) -> &Ends {
        self.ends
            .get_or_init(|| self.read_ends().unwrap_or_default())
    }

    fn read_ends(&self) -> io::Result<Ends> {
        if self.kind != CandidateKind::File {
            return Ok(Ends::default());
        }
        read_ends(&File::open(self.path)?, self.size)
    }
}

fn read_ends<S: ReadAt + ?Sized>(file: &S, size: u64) -> io::Result<Ends> {
    let len = size.min(END_LEN);
    let read = |offset| {
        // At most END_LEN, so it fits.
        let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
        file.read_exact_at(offset, &mut bytes).map(|()| bytes)
    };
    Ok(Ends {
        head: read(0)?,
        tail: read(size - len)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_file_are_seen_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long");
        let bytes: Vec<u8> = (0..=250).cycle().take(10_000).collect();
        fs::write(&path, &bytes).unwrap();
        let candidate = Candidate::new(&path).unwrap();
        assert_eq!(candidate.head(), &bytes[..4096]);
        assert_eq!(candidate.tail(), &bytes[10_000 - 4096..]);
        assert_eq!(candidate.extension(), None);
    }

    #[test]
    fn a_prefix_leads_to_the_files_that_begin_with_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ckpt.v1.index"), b"").unwrap();
        let path = folder.path().join("ckpt.v1");
        let candidate = Candidate::new(&path).unwrap();
        assert_eq!(candidate.kind(), CandidateKind::Prefix);
        assert_eq!(
            candidate.continued(".index"),
            Some(folder.path().join("ckpt.v1.index"))
        );
        assert_eq!(candidate.continued(".data"), None);
        assert_eq!(candidate.head(), b"");
    }
}
