//! Writing parameter files from scratch, and appending to them.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use proto_splitter_core::atomic::{AtomicFile, MadeFrom, at_target};
use proto_splitter_core::{Error, Result};

use super::ParameterFile;
use crate::stream::{Layout, TensorSpec, write_stream, write_vocabulary};

/// A writer for a file of streams. The file appears at its path once it is finished.
///
/// The file doesn't contain the names of tensors. Paddle assigns the tensors in the file, in order,
/// to the program's parameters, sorted by name.
///
/// ```
/// use proto_splitter_paddle::proto::framework::var_type::Type;
/// use proto_splitter_paddle::stream::{Layout, TensorSpec};
/// use proto_splitter_paddle::{ParameterFile, ParameterWriter, append};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("parameters");
/// let scalar = TensorSpec::dense(Type::Int8, []);
/// let mut writer = ParameterWriter::create(&path, Layout::Sized, false)?;
/// assert_eq!(writer.write(&scalar, &mut &[1][..])?, 0);
/// assert_eq!(writer.write(&scalar, &mut &[2][..])?, 1);
/// writer.finish()?;
///
/// assert_eq!(append(&path, &scalar, &mut &[3][..])?, 2);
/// assert_eq!(ParameterFile::open(&path, None, None)?.parameters().len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ParameterWriter {
    file: AtomicFile,
    layout: Layout,
    count: u64,
}

impl ParameterWriter {
    /// Creates a file of streams in this layout. Replaces an existing file only with `force`.
    ///
    /// # Errors
    ///
    /// The errors of [`AtomicFile::create`].
    pub fn create(path: impl AsRef<Path>, layout: Layout, force: bool) -> Result<Self> {
        Ok(ParameterWriter {
            file: AtomicFile::create(path, &MadeFrom::Nothing, force)?,
            layout,
            count: 0,
        })
    }

    /// Writes a tensor with its data, and returns its counter. The first tensor has counter 0.
    ///
    /// # Errors
    ///
    /// The errors of [`write_stream`]. After an error, don't finish the file.
    pub fn write(&mut self, spec: &TensorSpec, data: &mut impl Read) -> Result<u64> {
        let mut sink = BufWriter::new(self.file.as_file_mut());
        write_stream(&mut sink, spec, self.layout, data)?;
        sink.flush()?;
        self.count += 1;
        Ok(self.count - 1)
    }

    /// Writes a vocabulary, and returns its counter.
    ///
    /// # Errors
    ///
    /// The errors of [`write_vocabulary`]. After an error, don't finish the file.
    pub fn write_vocabulary<I, T>(&mut self, words: I) -> Result<u64>
    where
        I: IntoIterator<Item = (T, i32), IntoIter: Clone>,
        T: AsRef<str>,
    {
        let mut sink = BufWriter::new(self.file.as_file_mut());
        write_vocabulary(&mut sink, words, self.layout)?;
        sink.flush()?;
        self.count += 1;
        Ok(self.count - 1)
    }

    /// Moves the file into place.
    ///
    /// # Errors
    ///
    /// The errors of [`AtomicFile::commit`].
    pub fn finish(self) -> Result<()> {
        self.file.commit()
    }
}

/// Appends a tensor with its data to a file in the sized layout, and returns its counter. The
/// existing content is unchanged. If appending fails, the file is truncated to its old size.
///
/// The size before the tensor is written last, after everything else is on the disk. If the process
/// ends earlier, readers report that the tensor has no size, and the offset at which to truncate
/// the file.
///
/// # Errors
///
/// The errors of [`ParameterFile::open`], which also fails if the file is incomplete or has another
/// layout; the errors of [`write_stream`].
pub fn append(path: impl AsRef<Path>, spec: &TensorSpec, data: &mut impl Read) -> Result<u64> {
    append_checked(path.as_ref(), spec, data, |_| Ok(()), |_| Ok(()))
}

/// Appends a tensor like [`append`]. Fails if `before` returns an error for the tensor's counter,
/// or `after` for the remaining data.
pub(crate) fn append_checked<R: Read>(
    path: &Path,
    spec: &TensorSpec,
    data: &mut R,
    before: impl FnOnce(u64) -> Result<()>,
    after: impl FnOnce(&mut R) -> Result<()>,
) -> Result<u64> {
    let failed = |error: std::io::Error| Error::from(error).in_file(path);
    let open = OpenOptions::new().write(true).open(path);
    let mut file = open.map_err(failed)?;
    let end = file.metadata().map_err(failed)?.len();
    let count = match end {
        0 => 0,
        _ => ParameterFile::open(path, None, Some(Layout::Sized))?
            .parameters()
            .len() as u64,
    };
    before(count)?;
    let written = write_behind(&mut file, end, spec, data, after);
    if let Err(error) = written {
        file.set_len(end).map_err(failed)?;
        return Err(at_target(error, path));
    }
    Ok(count)
}

fn write_behind<R: Read>(
    file: &mut File,
    end: u64,
    spec: &TensorSpec,
    data: &mut R,
    after: impl FnOnce(&mut R) -> Result<()>,
) -> Result<()> {
    file.seek(SeekFrom::Start(end))?;
    let size = write_without_size(file, spec, data)?;
    after(data)?;
    file.sync_all()?;
    file.seek(SeekFrom::Start(end))?;
    file.write_all(&size)?;
    Ok(file.sync_all()?)
}

/// Writes a stream with zeros in place of its size, and returns the size.
fn write_without_size(file: &mut File, spec: &TensorSpec, data: &mut impl Read) -> Result<Vec<u8>> {
    let mut sink = WithoutSize {
        sink: BufWriter::new(file),
        size: Vec::with_capacity(SIZE_LEN),
    };
    write_stream(&mut sink, spec, Layout::Sized, data)?;
    sink.flush()?;
    Ok(sink.size)
}

/// Size of the length before a stream, in bytes.
const SIZE_LEN: usize = 8;

/// A writer that replaces the size of a stream with zeros, which are an invalid size, and stores
/// the actual size.
struct WithoutSize<W> {
    sink: W,
    size: Vec<u8>,
}

impl<W: Write> Write for WithoutSize<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let missing = (SIZE_LEN - self.size.len()).min(bytes.len());
        if missing == 0 {
            return self.sink.write(bytes);
        }
        self.sink.write_all(&[0; SIZE_LEN][..missing])?;
        self.size.extend_from_slice(&bytes[..missing]);
        Ok(missing)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}
