//! Storage for the files that the parts of a split write.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use record_file::{ReadAt, ReaderOptions, RecordFile};

use proto_splitter_core::atomic::warn_unless_synced;
use proto_splitter_core::atomic::{AtomicFile, MadeFrom};
use proto_splitter_core::container::DEFAULT_MAX_TRAILER_SIZE;
use proto_splitter_core::container::{CHUNKED_EXTENSION, with_extension};
use proto_splitter_core::part_work::folder;
use proto_splitter_core::proto::chunk_metadata::ExternalFile;
use proto_splitter_core::{Error, ErrorKind, Result};

/// A store of the files that the parts of a split write. It is a folder that all hosts see
/// ([`FolderStore`]), or an object store. It holds the files both before and after the commit.
///
/// The file of a part is written on the host that runs the part. Once the file is complete, it is
/// stored under a name that depends on its content. Therefore, storing a file twice has no further
/// effect, and a part never replaces a file that another plan or an existing main file needs.
pub trait PartStore: Sync {
    /// Creates the file that a part writes, without storing it yet. The file gets no permissions
    /// that the input files don't have.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the file can't be created; [`ErrorKind::NoFolder`] if the folder
    /// doesn't exist.
    fn begin(&self, made_from: &MadeFrom) -> Result<AtomicFile>;

    /// Stores a complete file as `name`. An existing file with this name has the same content.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the file can't be stored. After an error, `name` still refers to the
    /// file that existed before, if any, or to the complete new file.
    fn keep(&self, file: AtomicFile, name: &str) -> Result<()>;

    /// Opens the file that was stored as `name`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the file doesn't exist or can't be read.
    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>>;

    /// Fails unless the store contains this file. Compares only the file's size and its last
    /// record.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open); [`ErrorKind::ChecksumMismatch`] if the stored file
    /// doesn't have the size and the last record of `file`.
    fn check(&self, file: &ExternalFile) -> Result<()> {
        let checked = check_content(self.open(&file.path)?, file);
        checked.map_err(|error| error.context(file.path.escape_debug()))
    }
}

/// A [`PartStore`] that stores files in the folder of the main file.
#[derive(Clone, Debug)]
pub struct FolderStore {
    main: PathBuf,
}

impl FolderStore {
    /// Creates a store in the folder of the file `main`, which doesn't have to exist yet.
    ///
    /// ```
    /// use proto_splitter_core::atomic::MadeFrom;
    /// use proto_splitter_parts::{FolderStore, PartStore};
    /// let folder = tempfile::tempdir()?;
    /// let store = FolderStore::beside(folder.path().join("model.cpb"));
    /// store.keep(store.begin(&MadeFrom::Nothing)?, "model.00001-89abcdef.cpb")?;
    /// assert!(folder.path().join("model.00001-89abcdef.cpb").is_file());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn beside(main: impl Into<PathBuf>) -> FolderStore {
        FolderStore { main: main.into() }
    }
}

impl PartStore for FolderStore {
    fn begin(&self, made_from: &MadeFrom) -> Result<AtomicFile> {
        // The final name depends on the file's content, which isn't known yet.
        AtomicFile::create(self.main.with_extension("protosplit-part"), made_from, true)
    }

    fn keep(&self, file: AtomicFile, name: &str) -> Result<()> {
        file.sync()?;
        let path = file.folder().join(name);
        file.place_as(path.clone())?;
        warn_unless_synced(&path);
        Ok(())
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        let path = folder(&self.main).join(name);
        let open = || -> io::Result<File> {
            let metadata = fs::symlink_metadata(&path)?;
            if !metadata.is_file() {
                return Err(io::Error::other("not a regular file"));
            }
            File::open(&path)
        };
        match open() {
            Ok(file) => Ok(Arc::new(file)),
            Err(error) => Err(Error::from(error).in_file(&path)),
        }
    }
}

/// Fails unless the content has the size and the last record of the file `meant`.
fn check_content<S: ReadAt>(content: S, meant: &ExternalFile) -> Result<()> {
    let other = |message: String| Err(Error::new(ErrorKind::ChecksumMismatch, message));
    let size = content.size()?;
    if size != meant.size {
        return other(format!(
            "it has {size} bytes, but its part wrote {}",
            meant.size
        ));
    }
    let file = RecordFile::open(content, ReaderOptions::new())?;
    let Some(end) = file.last_record()? else {
        return other("it has no records".into());
    };
    let length = file.record_len(end)?;
    if length > DEFAULT_MAX_TRAILER_SIZE {
        let message = format!("its last record has {length} bytes");
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    let crc32c = crc32c::crc32c(&file.read_record(end)?);
    if crc32c != meant.trailer_crc32c {
        let expected = meant.trailer_crc32c;
        return other(format!(
            "crc32c of its last record is {crc32c:08x}, but its part wrote {expected:08x}"
        ));
    }
    Ok(())
}

/// Returns the path of the main file, `PREFIX.cpb`.
pub(super) fn main_of(prefix: impl AsRef<Path>) -> PathBuf {
    with_extension(prefix.as_ref(), CHUNKED_EXTENSION)
}
