//! Storage for the files of a split's parts.

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

/// Storage for the files of a split's parts until the commit, and after it: a folder that all hosts
/// see ([`FolderStore`]), or a store of objects.
///
/// A part's file is written on the host that runs it, and then handed over under a name that
/// depends on its content. Therefore, handing over a file twice has no further effect, and a part
/// never replaces a file that another plan or an existing main file needs.
pub trait PartStore: Sync {
    /// Begins a part's file. The file gets no permissions that its inputs lack.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the file can't be created; [`ErrorKind::NoFolder`] if the folder
    /// doesn't exist.
    fn begin(&self, made_from: &MadeFrom) -> Result<AtomicFile>;

    /// Takes over a complete file. An existing file with that name has the same content.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the file can't be stored. After an error, the name either refers to the
    /// same file as before, if any, or to the whole new file.
    fn keep(&self, file: AtomicFile, name: &str) -> Result<()>;

    /// Opens a file that was handed over with this name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the file doesn't exist or can't be read.
    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>>;

    /// Fails unless the right file exists, judging by its size and its last record.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open); [`ErrorKind::ChecksumMismatch`] if the file with this
    /// name is a different one.
    fn check(&self, file: &ExternalFile) -> Result<()> {
        let checked = check_content(self.open(&file.path)?, file);
        checked.map_err(|error| error.context(file.path.escape_debug()))
    }
}

/// The folder of the main file, as a [`PartStore`].
#[derive(Clone, Debug)]
pub struct FolderStore {
    main: PathBuf,
}

impl FolderStore {
    /// Returns the folder of `main`, which need not exist yet.
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
        // The file's name depends on its content, which isn't known yet.
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

/// Fails unless this is the right file.
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

/// Returns the path of the main file with this prefix.
pub(super) fn main_of(prefix: impl AsRef<Path>) -> PathBuf {
    with_extension(prefix.as_ref(), CHUNKED_EXTENSION)
}
