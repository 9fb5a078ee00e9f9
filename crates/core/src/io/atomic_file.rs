//! Files that appear complete or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

pub use super::fails_once::FailsOnce;
use super::file_at::FileAt;
#[doc(hidden)]
pub use super::file_at::WRITE_LEN;
#[doc(hidden)]
pub use super::folder_lock::FolderLock;
#[doc(hidden)]
pub use super::open::open_regular;
pub use super::synced::{sync_folder, warn_unless_synced};
use super::target::{already_exists, check_name, written_through};
pub use super::target::{
    at_target, check_folder, check_replaceable, check_space, names_folder, same_file,
};
#[doc(hidden)]
pub use super::target::{check_absent, folder};
pub use super::temporary::TemporaryFolder;
use super::temporary::file_beside;
#[doc(hidden)]
pub use super::temporary::{
    discard, discard_detached, has_detached, hold_shared, remove_abandoned,
};
use crate::{Error, ErrorKind, Result};

/// Number of bytes to gather before a sequential write: 256 KiB. Larger writes bypass the buffer.
pub(crate) const GATHER: usize = 256 << 10;

/// The inputs that an output file is made from. A new file gets no permissions that its inputs
/// lack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MadeFrom {
    /// Input files, which the output must not replace.
    Files(Vec<PathBuf>),
    /// Input files, one of which the output may replace, as in an edit in place.
    Edited(Vec<PathBuf>),
    /// A secret input that is not a file: only the owner may read the output.
    Private,
    /// No input file: the umask decides who may read the output.
    #[default]
    Nothing,
}

impl MadeFrom {
    /// Returns [`MadeFrom::Files`] with these paths. Omit inputs that are not files, such as
    /// streams.
    ///
    /// ```
    /// use proto_splitter_core::atomic::MadeFrom;
    ///
    /// let made_from = MadeFrom::files(["model.onnx"]);
    /// assert_eq!(made_from, MadeFrom::Files(vec!["model.onnx".into()]));
    /// ```
    pub fn files<P: AsRef<Path>>(files: impl IntoIterator<Item = P>) -> MadeFrom {
        MadeFrom::Files(
            files
                .into_iter()
                .map(|file| file.as_ref().to_owned())
                .collect(),
        )
    }

    /// Fails if the output would replace one of its inputs.
    ///
    /// ```
    /// use proto_splitter_core::atomic::MadeFrom;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let model = folder.path().join("model.onnx");
    /// std::fs::write(&model, b"")?;
    /// let error = MadeFrom::files([&model]).check_apart(&model).unwrap_err();
    /// assert!(error.to_string().starts_with("refusing to overwrite the input "));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`], naming the file.
    pub fn check_apart(&self, target: &Path) -> Result<()> {
        if !matches!(self, MadeFrom::Files(_)) || !self.contains(target) {
            return Ok(());
        }
        let message = format!("refusing to overwrite the input {}", target.display());
        Err(Error::new(ErrorKind::InvalidConfig, message))
    }

    /// Returns true if a path refers to one of the input files.
    pub fn contains(&self, path: &Path) -> bool {
        let (MadeFrom::Files(files) | MadeFrom::Edited(files)) = self else {
            return false;
        };
        files.iter().any(|file| same_file(file, path))
    }

    /// Returns the most permissive Unix mode that a new file may have.
    #[cfg(unix)]
    fn mode(&self) -> Result<u32> {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let files = match self {
            MadeFrom::Private => return Ok(0o600),
            MadeFrom::Nothing => return Ok(0o777),
            MadeFrom::Files(files) | MadeFrom::Edited(files) => files,
        };
        let mut mode = 0o777;
        for file in files {
            let metadata = match fs::metadata(file) {
                Ok(metadata) => metadata,
                // An input in an object store has a name, but no file with a mode.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Error::from(error).in_file(file)),
            };
            // An unnamed file is a copy of data from a pipe, which has no permissions to preserve.
            if metadata.nlink() > 0 {
                mode &= metadata.permissions().mode();
            }
        }
        Ok(mode)
    }
}

/// Creates a file in a folder. The folder is renamed once all its files are complete, like a
/// [`TemporaryFolder`]. The file gets no permissions that its inputs lack.
///
/// ```
/// use proto_splitter_core::atomic::{MadeFrom, create_new};
///
/// let folder = tempfile::tempdir()?;
/// let file = create_new(&folder.path().join("00001.pb"), &MadeFrom::Private)?;
/// # #[cfg(unix)]
/// # {
/// use std::os::unix::fs::PermissionsExt;
/// assert_eq!(file.metadata()?.permissions().mode() & 0o777, 0o600);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If the file exists or can't be created.
pub fn create_new(path: &Path, made_from: &MadeFrom) -> io::Result<File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o666 & made_from.mode()?);
    #[cfg(not(unix))]
    let _ = made_from;
    options.open(path)
}

/// A file that is written next to its target path, and renamed to that path once complete.
///
/// Dropping this value without [`commit`](Self::commit) removes the unfinished file.
///
/// ```
/// use std::io::Write;
///
/// use proto_splitter_core::atomic::{AtomicFile, MadeFrom};
///
/// let folder = tempfile::tempdir()?;
/// let target = folder.path().join("model.pb");
/// let mut file = AtomicFile::create(&target, &MadeFrom::Nothing, false)?;
/// file.as_file_mut().write_all(b"all of it")?;
/// assert!(!target.exists());
/// file.commit()?;
/// assert_eq!(std::fs::read(&target)?, b"all of it");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AtomicFile {
    temporary: NamedTempFile,
    target: PathBuf,
    force: bool,
}

/// The seekable sink that [`AtomicFile::write`] passes to its callback. The callback writes bytes
/// in order, and seeks back only to patch earlier bytes if the file format requires that.
pub trait FileSink: Write + Seek {}

impl<W: Write + Seek> FileSink for W {}

/// Source of the Unix mode of a new file.
enum NewMode<'a> {
    /// The mode of this file, even if the target exists and has another mode.
    Of(&'a File),
    /// The mode of the replaced file, if there is one; otherwise a mode no more permissive than the
    /// inputs'.
    #[cfg_attr(not(unix), allow(dead_code, reason = "other systems have no modes"))]
    AtMost(&'a MadeFrom),
}

/// Returns a writer that starts at `offset` and doesn't move the file's own position, so that
/// several threads can write at once.
#[doc(hidden)]
pub fn writer_at(file: &File, offset: u64) -> impl Write + Seek + '_ {
    FileAt::new(file, offset)
}

impl AtomicFile {
    /// Starts a file that [`commit`](Self::commit) moves to `target`. If `target` is a symlink, the
    /// file that it points to is replaced, and the symlink is kept.
    ///
    /// A new file gets no permissions that its inputs lack; an existing file keeps its mode.
    ///
    /// # Errors
    ///
    /// The same errors as [`MadeFrom::check_apart`]; [`ErrorKind::AlreadyExists`] if the target
    /// exists and `force` isn't set; [`ErrorKind::NoFolder`] if the target's folder doesn't exist;
    /// [`ErrorKind::InvalidConfig`] if the target exists but isn't a regular file (for example, if
    /// it is a device or a pipe); [`ErrorKind::Io`] if the target's folder isn't writable.
    pub fn create(
        target: impl AsRef<Path>,
        made_from: &MadeFrom,
        force: bool,
    ) -> Result<AtomicFile> {
        let target = target.as_ref();
        made_from.check_apart(target)?;
        AtomicFile::create_with(target, force, &NewMode::AtMost(made_from))
    }

    fn create_with(target: &Path, force: bool, mode: &NewMode<'_>) -> Result<AtomicFile> {
        let create = || -> io::Result<AtomicFile> {
            let target = written_through(target)?;
            check_folder(&target)?;
            check_name(&target)?;
            let existing = match fs::metadata(&target) {
                Ok(metadata) => {
                    check_replaceable(&metadata)?;
                    Some(metadata.permissions())
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
            if existing.is_some() && !force {
                return Err(already_exists(&target).into());
            }
            let like = match mode {
                NewMode::Of(file) => Some(file.metadata()?.permissions()),
                NewMode::AtMost(_) => existing,
            };
            #[cfg(unix)]
            let permissions = {
                use std::os::unix::fs::PermissionsExt;
                Some(match (&like, mode) {
                    (None, NewMode::AtMost(made_from)) => {
                        // The umask applies to the new file.
                        fs::Permissions::from_mode(0o666 & made_from.mode()?)
                    }
                    (like, _) => like.clone().unwrap_or(fs::Permissions::from_mode(0o600)),
                })
            };
            #[cfg(not(unix))]
            let permissions = None;
            let temporary = file_beside(&target, permissions)?;
            #[cfg(unix)]
            if let Some(permissions) = like {
                temporary.as_file().set_permissions(permissions)?;
            }
            #[cfg(not(unix))]
            let _ = like;
            Ok(AtomicFile {
                temporary,
                target,
                force,
            })
        };
        create().map_err(|error| {
            let error = Error::from(error);
            match error.kind() {
                ErrorKind::AlreadyExists | ErrorKind::NoFolder => error,
                _ => error.in_file(target),
            }
        })
    }

    /// Starts another file in the same folder as this file, with the same mode.
    /// [`commit_as`](Self::commit_as) sets its name.
    pub(crate) fn create_beside(&self) -> Result<AtomicFile> {
        let target = self.target.with_extension("protosplit-part");
        AtomicFile::create_with(&target, true, &NewMode::Of(self.as_file()))
    }

    /// Returns the unfinished file.
    pub fn as_file(&self) -> &File {
        self.temporary.as_file()
    }

    /// Returns the unfinished file for writing.
    pub fn as_file_mut(&mut self) -> &mut File {
        self.temporary.as_file_mut()
    }

    /// Returns a writer that starts at an offset in the file, and makes the system write data to
    /// the disk early. Several threads may each write a part of the file at the same time.
    ///
    /// ```
    /// use std::io::Write;
    ///
    /// use proto_splitter_core::atomic::{AtomicFile, MadeFrom};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let target = folder.path().join("two");
    /// let file = AtomicFile::create(&target, &MadeFrom::Nothing, false)?;
    /// file.writer_at(4).write_all(b"last")?;
    /// file.writer_at(0).write_all(b"1st ")?;
    /// file.commit()?;
    /// assert_eq!(std::fs::read(&target)?, b"1st last");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn writer_at(&self, offset: u64) -> impl Write + Seek + '_ {
        writer_at(self.as_file(), offset)
    }

    /// Fails if the file system has fewer than `bytes` bytes free. Call this before a long write.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`], naming the file, the space it needs and the free space.
    pub fn check_space(&self, bytes: u64) -> Result<()> {
        check_space(&self.target, bytes)
    }

    /// Calls `write` with a buffered sink for the file's content, commits the file, and returns the
    /// result of `write`.
    ///
    /// ```
    /// use proto_splitter_core::atomic::{AtomicFile, MadeFrom};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let target = folder.path().join("model.pb");
    /// let file = AtomicFile::create(&target, &MadeFrom::Nothing, false)?;
    /// file.write(|sink| Ok(sink.write_all(b"all of it")?))?;
    /// assert_eq!(std::fs::read(&target)?, b"all of it");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Any error from `write`, with the target's path if the disk is full; the same errors as
    /// [`commit`](Self::commit). After an error, the file is removed.
    pub fn write<T>(self, write: impl FnOnce(&mut dyn FileSink) -> Result<T>) -> Result<T> {
        let mut sink = BufWriter::with_capacity(GATHER, self.writer_at(0));
        let written = write(&mut sink)
            .and_then(|made| Ok(sink.flush().map(|()| made)?))
            .map_err(|error| at_target(error, &self.target))?;
        drop(sink);
        self.commit()?;
        Ok(written)
    }

    /// Returns the path of the target.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Returns the folder of the target.
    pub fn folder(&self) -> &Path {
        folder(&self.target)
    }

    /// Syncs the file to the disk, and moves it to its target.
    ///
    /// Succeeds once the file is at its target. If syncing the folder fails afterwards, logs a
    /// warning (with `tracing`).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::AlreadyExists`] if the target has appeared in the meantime and may not be
    /// replaced; [`ErrorKind::Io`] if the file can't be synced or renamed. After an error, the file
    /// is removed, and an existing target is unchanged.
    pub fn commit(self) -> Result<()> {
        self.sync()?;
        let target = self.target.clone();
        self.place()?;
        warn_unless_synced(&target);
        Ok(())
    }

    /// Syncs the file's content to the disk.
    #[doc(hidden)]
    pub fn sync(&self) -> Result<()> {
        let synced = self.as_file().sync_all();
        synced.map_err(|error| Error::from(error).in_file(&self.target))
    }

    /// Moves the file to its target, without [syncing](Self::sync) the file or its folder.
    pub(crate) fn place(self) -> Result<()> {
        let AtomicFile {
            temporary,
            target,
            force,
        } = self;
        let placed = if force {
            temporary.persist(&target)
        } else {
            temporary.persist_noclobber(&target)
        };
        match placed {
            Ok(_) => Ok(()),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                Err(already_exists(&target))
            }
            Err(error) => Err(Error::from(error.error).in_file(&target)),
        }
    }

    /// Sets whether the file may replace an existing target.
    #[doc(hidden)]
    #[must_use]
    pub fn forced(mut self, force: bool) -> AtomicFile {
        self.force = force;
        self
    }

    /// Syncs the file and moves it to `target`, a path in the same folder, instead of to the path
    /// given at creation. Replaces any file there. Doesn't sync the folder.
    #[doc(hidden)]
    pub fn commit_as(self, target: PathBuf) -> Result<()> {
        self.sync()?;
        self.place_as(target)
    }

    /// Moves the file like [`place`](Self::place), but to the path `target` in the same folder, and
    /// replaces any file there.
    #[doc(hidden)]
    pub fn place_as(mut self, target: PathBuf) -> Result<()> {
        self.target = target;
        self.force = true;
        self.place()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(target: &Path, force: bool, bytes: &[u8]) -> Result<()> {
        let mut file = AtomicFile::create(target, &MadeFrom::Nothing, force)?;
        file.as_file_mut().write_all(bytes)?;
        file.commit()
    }

    #[test]
    fn a_file_appears_only_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a");
        let mut file = AtomicFile::create(&target, &MadeFrom::Nothing, false).unwrap();
        file.as_file_mut().write_all(b"half").unwrap();
        assert!(!target.exists());
        drop(file);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            0,
            "nothing is left"
        );
        write(&target, false, b"whole").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"whole");
    }

    #[test]
    fn a_file_that_is_there_is_replaced_only_by_force() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a");
        fs::write(&target, b"old").unwrap();
        // `create` fails immediately, not only after everything is written.
        let error = AtomicFile::create(&target, &MadeFrom::Nothing, false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&target).unwrap(), b"old");
        write(&target, true, b"new").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), b"").unwrap();
        for (target, named, why) in [
            ("missing/a", "missing", "does not exist"),
            ("missing/more/a", "missing", "does not exist"),
            ("file/a", "file", "is not a folder"),
            ("file/more/a", "file", "is not a folder"),
        ] {
            let error = write(&path(target), true, b"").unwrap_err();
            let (target, named) = (path(target), path(named));
            let (target, named) = (target.display(), named.display());
            assert_eq!(error.kind(), ErrorKind::NoFolder);
            assert_eq!(
                error.to_string(),
                format!("{target}: the folder {named} {why}")
            );
        }
        check_folder("in_the_working_directory").unwrap();
        check_folder("/").unwrap();
    }

    #[test]
    fn a_file_that_appears_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a");
        let file = AtomicFile::create(&target, &MadeFrom::Nothing, false).unwrap();
        fs::write(&target, b"other").unwrap();
        assert_eq!(file.commit().unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&target).unwrap(), b"other");
    }

    #[test]
    fn only_a_file_gives_its_place_to_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("folder")).unwrap();
        let mut targets = vec!["folder", "folder/", "new/"];
        #[cfg(unix)]
        {
            let _listening = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
            std::os::unix::fs::symlink("socket", path("link")).unwrap();
            targets.extend(["socket", "link"]);
        }
        for target in targets {
            let before = fs::metadata(path(target))
                .map(|there| there.file_type())
                .ok();
            let error = write(&path(target), true, b"new").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{target}: {error}");
            let after = fs::metadata(path(target))
                .map(|there| there.file_type())
                .ok();
            assert_eq!(after, before, "{target}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_is_made_of_a_private_file_is_private() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mode = |name: &str| fs::metadata(path(name)).unwrap().permissions().mode() & 0o777;
        for (name, mode) in [("private", 0o600), ("open", 0o644), ("there", 0o640)] {
            fs::write(path(name), "").unwrap();
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        for target in ["new", "there"] {
            let made_from = MadeFrom::files([path("open"), path("private")]);
            let file = AtomicFile::create(path(target), &made_from, true).unwrap();
            file.commit().unwrap();
        }
        assert_eq!((mode("new"), mode("there")), (0o600, 0o640));
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd;
            let piped = tempfile::tempfile().unwrap();
            let name = format!("/proc/self/fd/{}", piped.as_raw_fd());
            let file = AtomicFile::create(path("piped"), &MadeFrom::files([name]), false).unwrap();
            file.commit().unwrap();
            fs::write(path("like any"), "").unwrap();
            assert_eq!(mode("piped"), mode("like any"));
        }
    }

    #[cfg(unix)]
    #[test]
    fn symlinks_are_written_through_and_modes_kept() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("a"), folder.path().join("link"));
        fs::write(&target, b"old").unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("a", &link).unwrap();
        write(&link, true, b"new").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(
            fs::metadata(&target).unwrap().permissions().mode() & 0o777,
            0o640
        );
    }
}
