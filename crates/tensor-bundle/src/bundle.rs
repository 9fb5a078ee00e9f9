//! Opening a bundle and reading its tensors.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter_core::atomic::open_regular;
use proto_splitter_core::part_work::FilePool;
use proto_splitter_core::tensor::element_count;
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_graph_def::proto::DataType;
use record_file::ReadAt;

pub use crate::data::BundleReader;
use crate::data::{CheckedSpan, Seen};
use crate::dtype::{dtype_name, element_size};
use crate::files::{data_path, index_path, prefix_of};
use crate::index::{Index, Slice, Span, Tensor, TensorLocation};
use crate::strings::strings;

/// A TensorFlow checkpoint in format V2, from which tensors are read by name.
///
/// Opening a checkpoint reads its index, and keeps the index in memory: about 200 bytes for each
/// tensor. Data files are opened on demand, when their tensors are read.
#[derive(Debug)]
pub struct Bundle {
    prefix: PathBuf,
    num_shards: u32,
    tensors: Vec<Tensor>,
    open: FilePool,
}

impl Bundle {
    /// Opens a bundle. `prefix` is the common prefix of its files, or the path of any of them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the index can't be read, or isn't a regular file;
    /// [`ErrorKind::InvalidMessage`] if the file isn't an index, or the index contradicts itself;
    /// [`ErrorKind::ChecksumMismatch`] if the index is damaged;
    /// [`ErrorKind::UnsupportedVersion`] if the bundle is big-endian or has a newer version;
    /// [`ErrorKind::LimitExceeded`] if the names of the tensors, or the keys of their slices, have
    /// more than 256 MiB, or the entry of a tensor has more than 4 MiB.
    pub fn open(prefix: impl AsRef<Path>) -> Result<Bundle> {
        let path = prefix.as_ref();
        let prefix = prefix_of(path).unwrap_or_else(|| path.to_owned());
        let index = index_path(&prefix);
        let at_index = |error: Error| error.in_file(&index);
        let file = open_regular(&index).map_err(|error| at_index(error.into()))?;
        let Index {
            num_shards,
            tensors,
        } = Index::read(file).map_err(at_index)?;
        Ok(Bundle {
            prefix,
            num_shards,
            tensors,
            open: FilePool::default(),
        })
    }

    /// Returns the common prefix of the bundle's files.
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// Returns the number of data files.
    pub fn num_shards(&self) -> u32 {
        self.num_shards
    }

    /// Returns the paths of all files in the bundle. The index is first.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let shards = (0..self.num_shards).map(|shard| self.data_path(shard));
        std::iter::once(index_path(&self.prefix)).chain(shards)
    }

    /// Returns all tensors in the bundle, sorted by name.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Returns the tensor with this name; `None` if there is none.
    pub fn find(&self, name: &str) -> Option<&Tensor> {
        let found = self
            .tensors
            .binary_search_by(|tensor| tensor.name().cmp(name));
        found.ok().and_then(|at| self.tensors.get(at))
    }

    /// Returns a random-access reader for a tensor's bytes. Once all bytes have been read, the
    /// reader verifies their checksum: see [`BundleReader`].
    ///
    /// Elements are little-endian and in C order, which means that the last dimension varies
    /// fastest. [`read_strings`](Self::read_strings) describes how strings are stored.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if a data file can't be opened, or isn't a regular file;
    /// [`ErrorKind::InvalidMessage`] if a data file is too short for the tensor, or the tensor is
    /// sliced and has elements without a fixed size.
    pub fn reader(&self, tensor: &Tensor) -> Result<BundleReader> {
        match tensor.location() {
            TensorLocation::Whole(span) => {
                let span = self.span_reader(tensor, span, tensor.shape())?;
                Ok(BundleReader::whole(span))
            }
            TensorLocation::Slices(slices) => {
                let Some(width) = element_size(tensor.dtype()) else {
                    let name = dtype_name(tensor.dtype());
                    let message = format!("a tensor of type {name} can't be sliced");
                    let error = Error::new(ErrorKind::InvalidMessage, message);
                    return Err(error.at_path(tensor.name()));
                };
                let open = |slice: &Slice| -> Result<(Slice, CheckedSpan)> {
                    let span = self.span_reader(tensor, &slice.span, &slice.shape)?;
                    Ok((slice.clone(), span))
                };
                let slices = slices.iter().map(open).collect::<Result<_>>()?;
                let shape = tensor.shape().to_vec();
                Ok(BundleReader::sliced(shape, width, tensor.size(), slices))
            }
        }
    }

    /// Returns a reader for one of a tensor's spans, which contains the elements of a tensor of the
    /// shape `shape`.
    pub(crate) fn span_reader(
        &self,
        tensor: &Tensor,
        span: &Span,
        shape: &[u64],
    ) -> Result<CheckedSpan> {
        let file = self
            .checked(span)
            .map_err(|error| error.at_path(tensor.name()))?;
        let seen = match element_size(tensor.dtype()) {
            Some(_) => Seen::numbers(span),
            None => {
                let is_strings = tensor.dtype() == DataType::DtString;
                let count = element_count(shape).unwrap_or(u64::MAX);
                Seen::elements(span, is_strings, count)
            }
        };
        let path = self.data_path(span.shard);
        CheckedSpan::new(file, path, tensor.name(), *span, seen)
    }

    /// Reads all bytes of a tensor, and verifies the tensor's checksum.
    ///
    /// # Errors
    ///
    /// The errors of [`reader`](Self::reader); [`ErrorKind::ChecksumMismatch`] if the bytes are
    /// damaged; [`ErrorKind::LimitExceeded`] if the bytes don't fit in memory.
    pub fn read(&self, tensor: &Tensor) -> Result<Vec<u8>> {
        let reader = self.reader(tensor)?;
        let mut bytes = Vec::new();
        // The data files are at least this large, so a false size can't cause a huge allocation.
        let len = usize::try_from(reader.len()).ok();
        if len.is_none_or(|len| bytes.try_reserve_exact(len).is_err()) {
            let message = format!("{} bytes don't fit in memory", reader.len());
            return Err(Error::new(ErrorKind::LimitExceeded, message).at_path(tensor.name()));
        }
        bytes.resize(len.unwrap_or_default(), 0);
        reader.read_exact_at(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads the elements of a string tensor, and verifies its checksums. The stored form is:
    ///
    /// ```text
    /// varint length of each string | masked crc32c of the lengths (4) | the strings
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`read`](Self::read); [`ErrorKind::InvalidConfig`] if the elements aren't
    /// strings.
    pub fn read_strings(&self, tensor: &Tensor) -> Result<Vec<Vec<u8>>> {
        let (DataType::DtString, Some(count)) = (tensor.dtype(), element_count(tensor.shape()))
        else {
            let message = format!(
                "the tensor is of type {}, and has no strings",
                dtype_name(tensor.dtype())
            );
            return Err(Error::new(ErrorKind::InvalidConfig, message).at_path(tensor.name()));
        };
        strings(&self.read(tensor)?, count).map_err(|error| error.at_path(tensor.name()))
    }

    pub(crate) fn data_path(&self, shard: u32) -> PathBuf {
        data_path(&self.prefix, shard, self.num_shards)
    }

    /// Opens the data file that contains a span. Fails if the file ends before the span does.
    pub(crate) fn checked(&self, span: &Span) -> Result<Arc<File>> {
        let path = self.data_path(span.shard);
        let at_file = |error: Error| error.in_file(&path);
        let file = self.file(span.shard).map_err(at_file)?;
        let len = file
            .metadata()
            .map_err(|error| at_file(error.into()))?
            .len();
        // The sum can't overflow, since both numbers are below 2^63.
        if span.offset + span.size > len {
            let message = format!(
                "{} bytes at {} run past the end of the file of {len} bytes",
                span.size, span.offset
            );
            return Err(at_file(Error::new(ErrorKind::InvalidMessage, message)));
        }
        Ok(file)
    }

    fn file(&self, shard: u32) -> Result<Arc<File>> {
        if let Some(file) = self.open.find(shard as usize) {
            return Ok(file);
        }
        let file = Arc::new(open_regular(&self.data_path(shard))?);
        self.open.keep(shard as usize, Arc::clone(&file));
        Ok(file)
    }
}
