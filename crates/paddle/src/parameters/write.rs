//! Writing new parameter files, and appending to existing ones.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use proto_splitter_core::atomic::{AtomicFile, MadeFrom, at_target};
use proto_splitter_core::{Error, Result};

use super::ParameterFile;
use crate::stream::{Layout, TensorSpec, write_stream, write_vocabulary};

/// A writer for a parameter file. The file appears at its path when it is finished.
///
/// The file doesn't contain the names of parameters. Paddle assumes that the tensors in the file
/// are those of the program's parameters, in the order of the parameters' names.
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
    /// Creates a parameter file with streams in this layout. If the file exists, replaces it only
    /// if `force` is true.
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

    /// Writes a tensor with its data, and returns its index in the file, starting at 0.
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

    /// Writes a vocabulary, and returns its index in the file.
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

    /// Moves the complete file to its path.
    ///
    /// # Errors
    ///
    /// The errors of [`AtomicFile::commit`].
    pub fn finish(self) -> Result<()> {
        self.file.commit()
    }
}

/// Appends a tensor with its data to a file in the sized layout, and returns the tensor's index in
/// the file. The existing content is unchanged. If appending fails, the file is truncated to its
/// old size.
///
/// The size that precedes the tensor is written last, once everything else is on the disk. If the
/// process ends before that, readers report that the tensor has no size. The file can then be
/// truncated at the reported offset.
///
/// # Errors
///
/// The errors of [`ParameterFile::open`], for example if the file is incomplete or has another
/// layout; the errors of [`write_stream`].
pub fn append(path: impl AsRef<Path>, spec: &TensorSpec, data: &mut impl Read) -> Result<u64> {
    append_checked(path.as_ref(), spec, data, |_| Ok(()), |_| Ok(()))
}

/// Appends a tensor as [`append`] does. Before writing the tensor, calls `before` with the tensor's
/// index. After writing the tensor, calls `after` with `data`, from which the tensor has been read.
/// Fails if either call fails.
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

/// Writes a stream with zeros in place of its size. Returns the bytes of the actual size.
fn write_without_size(file: &mut File, spec: &TensorSpec, data: &mut impl Read) -> Result<Vec<u8>> {
    let mut sink = WithoutSize {
        sink: BufWriter::new(file),
        size: Vec::with_capacity(SIZE_LEN),
    };
    write_stream(&mut sink, spec, Layout::Sized, data)?;
    sink.flush()?;
    Ok(sink.size)
}

/// Size in bytes of the number that precedes a stream and specifies the stream's size.
const SIZE_LEN: usize = 8;

/// A writer for a stream that begins with its size. It collects the bytes of the size in `size`,
/// and writes zeros in their place. A size of zero is invalid.
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
