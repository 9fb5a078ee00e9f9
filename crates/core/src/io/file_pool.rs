//! Pools of many files, with few of them open at once.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use record_file::ReadAt;

use super::open::open_file;
use super::stamp::Stamp;

/// Maximum number of open files in a pool by default. A process can usually have 1,024 files open,
/// and a larger pool would help only if more than 64 threads read at once.
const MOST_OPEN: usize = 64;

/// A set of files that are opened when they are read, and closed when too many others are open.
#[derive(Debug)]
pub struct FilePool {
    /// Open files, each with its number in the pool. The most recently used file is last.
    open: Mutex<Vec<(usize, Arc<File>)>>,
    /// Maximum number of open files.
    most: usize,
}

/// A file in a [`FilePool`]. Reading the file opens it again if it was closed.
#[derive(Debug)]
pub(crate) struct PooledFile {
    pool: Arc<FilePool>,
    number: usize,
    path: PathBuf,
    /// Stamp of the file when it was first opened. Reading fails if the stamp differs when the file
    /// is opened again, since the file was then changed or replaced.
    stamp: Stamp,
    size: u64,
}

impl PooledFile {
    /// Adds an open file to a pool, in which `number` identifies it.
    pub(crate) fn new(
        pool: &Arc<FilePool>,
        number: usize,
        file: File,
        path: PathBuf,
    ) -> io::Result<Self> {
        let metadata = file.metadata()?;
        pool.keep(number, Arc::new(file));
        Ok(PooledFile {
            pool: Arc::clone(pool),
            number,
            path,
            stamp: Stamp::of(&metadata),
            size: metadata.len(),
        })
    }

    fn file(&self) -> io::Result<Arc<File>> {
        if let Some(file) = self.pool.find(self.number) {
            return Ok(file);
        }
        let file = open_file(&self.path).map_err(io::Error::other)?;
        if Stamp::of(&file.metadata()?) != self.stamp {
            let message = format!(
                "{}: it was changed or replaced while it was read",
                self.path.display()
            );
            return Err(io::Error::other(message));
        }
        let file = Arc::new(file);
        self.pool.keep(self.number, Arc::clone(&file));
        Ok(file)
    }
}

impl Default for FilePool {
    fn default() -> Self {
        FilePool::new(MOST_OPEN)
    }
}

impl FilePool {
    /// Creates a pool with at most this many open files.
    pub(crate) const fn new(most: usize) -> Self {
        FilePool {
            open: Mutex::new(Vec::new()),
            most,
        }
    }

    /// Returns the file with this number; `None` if it isn't open.
    pub fn find(&self, number: usize) -> Option<Arc<File>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let at = open.iter().rposition(|(known, _)| *known == number)?;
        // The file moves to the end, since it is now the most recently used.
        open[at..].rotate_left(1);
        open.last().map(|(_, file)| Arc::clone(file))
    }

    /// Adds an open file. Closes the files used longest ago, unless they are in use, if there would
    /// be too many.
    pub fn keep(&self, number: usize, file: Arc<File>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have opened the same file meanwhile.
        open.retain(|(known, _)| *known != number);
        let excess = (open.len() + 1).saturating_sub(self.most).min(open.len());
        open.drain(..excess);
        open.push((number, file));
    }

    #[cfg(test)]
    pub(crate) fn open_count(&self) -> usize {
        self.open.lock().unwrap().len()
    }
}

impl ReadAt for PooledFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        ReadAt::read_at(&*self.file()?, offset, buf)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_vectored_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.file()?.read_vectored_at(offset, bufs)
    }

    fn is_vectored(&self) -> bool {
        cfg!(target_os = "linux")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn any_number_of_files_is_read_with_few_of_them_open() {
        let folder = tempfile::tempdir().unwrap();
        let pool = Arc::<FilePool>::default();
        let files: Vec<PooledFile> = (0..3 * MOST_OPEN)
            .map(|number| {
                let path = folder.path().join(number.to_string());
                fs::write(&path, number.to_le_bytes()).unwrap();
                let file = open_file(&path).unwrap();
                PooledFile::new(&pool, number, file, path).unwrap()
            })
            .collect();
        for turn in 0..3 {
            for (number, file) in files.iter().enumerate() {
                let mut bytes = [0; size_of::<usize>()];
                file.read_exact_at(0, &mut bytes).unwrap();
                assert_eq!(usize::from_le_bytes(bytes), number, "{turn}");
                assert!(pool.open_count() <= MOST_OPEN);
            }
        }
    }

    #[test]
    fn another_file_at_the_same_path_is_not_read_instead() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, b"one").unwrap();
        let pool = Arc::<FilePool>::default();
        let file = PooledFile::new(&pool, 0, open_file(&path).unwrap(), path.clone()).unwrap();
        fs::write(folder.path().join("other"), b"two").unwrap();
        fs::rename(folder.path().join("other"), &path).unwrap();
        let mut bytes = [0; 3];
        // As long as the pool has the original file open, reads return that file's bytes.
        file.read_exact_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"one");
        pool.open.lock().unwrap().clear();
        let error = file.read_exact_at(0, &mut bytes).unwrap_err().to_string();
        assert!(error.contains("changed or replaced"), "{error}");
    }
}
