//! Planning the layout of a bundle, and writing it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use prost::Message;
use proto_splitter_core::atomic::{AtomicFile, at_target};
use proto_splitter_core::checksum::combine;
use proto_splitter_core::progress::Meter;
use proto_splitter_core::spans::read_pieces;
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_graph_def::proto::tensor_shape_proto::Dim;
use proto_splitter_graph_def::proto::{DataType, TensorShapeProto, VersionDef};
use record_file::ReadAt;

use crate::checksum::mask_crc;
use crate::dtype::{dtype_name, tensor_size};
use crate::files::{data_path, index_path};
use crate::index::VERSION;
use crate::options::{BundleOptions, MAX_SHARDS};
use crate::proto::{BundleEntryProto, BundleHeaderProto};
use crate::slice;
use crate::table::TableWriter;
use crate::work;

/// A tensor to write to a bundle.
pub struct NewTensor<'a> {
    name: String,
    dtype: DataType,
    shape: Vec<u64>,
    data: &'a dyn ReadAt,
}

impl<'a> NewTensor<'a> {
    /// Creates a numeric tensor. `data` contains the elements, little-endian and in C order.
    pub fn new(
        name: impl Into<String>,
        dtype: DataType,
        shape: impl Into<Vec<u64>>,
        data: &'a dyn ReadAt,
    ) -> Self {
        NewTensor {
            name: name.into(),
            dtype,
            shape: shape.into(),
            data,
        }
    }
}

impl std::fmt::Debug for NewTensor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let dtype = dtype_name(self.dtype);
        write!(f, "{} {dtype}{:?}", self.name, self.shape)
    }
}

/// A plan for writing a bundle. It assigns each tensor to a location in a data file.
///
/// The tensors are stored in the order of their names, without gaps. If there are several data
/// files, they have about the same size.
#[derive(Debug)]
pub struct BundlePlan<'a> {
    tensors: Vec<Placed<'a>>,
    /// Size of each data file, in bytes.
    shards: Vec<u64>,
}

#[derive(Debug)]
struct Placed<'a> {
    tensor: NewTensor<'a>,
    shard: u32,
    offset: u64,
    size: u64,
}

/// The result of writing a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenBundle {
    /// Paths of the bundle's files. The index is first.
    pub files: Vec<PathBuf>,
    /// Total size of the tensors, in bytes.
    pub bytes: u64,
    /// Unmasked crc32c of each tensor, by the tensor's name.
    pub crcs: BTreeMap<String, u32>,
}

impl<'a> BundlePlan<'a> {
    /// Plans a bundle that stores these tensors in `num_shards` data files.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if two tensors have the same name, a name is empty or begins
    /// with a zero byte, the elements of a tensor aren't numbers, the size of its data doesn't
    /// match its type and shape, or `num_shards` is 0 or more than [`MAX_SHARDS`].
    pub fn new(tensors: Vec<NewTensor<'a>>, num_shards: u32) -> Result<Self> {
        let invalid = |message: String| Error::new(ErrorKind::InvalidConfig, message);
        if !(1..=MAX_SHARDS).contains(&num_shards) {
            let message = format!("{num_shards} data files, but there must be 1 to {MAX_SHARDS}");
            return Err(invalid(message));
        }
        let mut tensors = tensors;
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        let mut total = 0u64;
        let mut placed: Vec<Placed<'a>> = Vec::with_capacity(tensors.len());
        for tensor in tensors {
            let at_name = |message: String| invalid(message).at_path(&tensor.name);
            if tensor.name.is_empty() || tensor.name.as_bytes()[0] == slice::FIRST_BYTE {
                let message = format!("{:?} can't be the name of a tensor", tensor.name);
                return Err(invalid(message));
            }
            if placed
                .last()
                .is_some_and(|last| last.tensor.name == tensor.name)
            {
                return Err(at_name("two tensors have this name".to_owned()));
            }
            let dtype = dtype_name(tensor.dtype);
            let Some(size) = tensor_size(tensor.dtype, &tensor.shape) else {
                let message = format!("a tensor {dtype}{:?} can't be written", tensor.shape);
                return Err(at_name(message));
            };
            let have = tensor.data.size()?;
            if have != size {
                let message = format!(
                    "the data has {have} bytes, but {dtype}{:?} takes {size}",
                    tensor.shape
                );
                return Err(at_name(message));
            }
            total = total
                .checked_add(size)
                .filter(|total| i64::try_from(*total).is_ok())
                .ok_or_else(|| at_name("more than 2^63 bytes in all".to_owned()))?;
            placed.push(Placed {
                tensor,
                shard: 0,
                offset: 0,
                size,
            });
        }
        // To fill the files evenly, each is assigned the tensors whose first byte is in its share
        // of the total size.
        let share = total.div_ceil(u64::from(num_shards)).max(1);
        let mut shards = vec![0; num_shards as usize];
        let mut before = 0;
        for tensor in &mut placed {
            let shard = u32::try_from(before / share).unwrap_or(u32::MAX);
            tensor.shard = shard.min(num_shards - 1);
            let end = &mut shards[tensor.shard as usize];
            tensor.offset = *end;
            *end += tensor.size;
            before += tensor.size;
        }
        Ok(BundlePlan {
            tensors: placed,
            shards,
        })
    }

    /// Returns the total size of the tensors, in bytes.
    pub fn size(&self) -> u64 {
        self.shards.iter().sum()
    }

    /// Writes the bundle to files with this prefix.
    ///
    /// Each file is written atomically. The index is written last.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::AlreadyExists`] if a file exists and `force` isn't set; [`ErrorKind::NoFolder`]
    /// if the folder doesn't exist; [`ErrorKind::SourceChanged`] if the data of a tensor ends
    /// before its reported size; [`ErrorKind::Io`]; [`ErrorKind::Cancelled`].
    pub fn write(
        &self,
        prefix: impl AsRef<Path>,
        options: &BundleOptions,
    ) -> Result<WrittenBundle> {
        let prefix = prefix.as_ref();
        let num_shards = u32::try_from(self.shards.len()).unwrap_or(MAX_SHARDS);
        let mut index = AtomicFile::create(index_path(prefix), &options.made_from, options.force)?;
        index.check_space(self.size())?;
        let mut shards = Vec::with_capacity(self.shards.len());
        for (shard, len) in (0..num_shards).zip(&self.shards) {
            let path = data_path(prefix, shard, num_shards);
            let file = AtomicFile::create(&path, &options.made_from, options.force)?;
            file.as_file()
                .set_len(*len)
                .map_err(|error| Error::from(error).in_file(&path))?;
            shards.push(file);
        }
        let crcs = self.write_tensors(&shards, options)?;
        self.write_index(index.as_file_mut(), num_shards, &crcs)
            .map_err(|error| at_target(error, index.target()))?;
        let mut files = vec![index.target().to_owned()];
        for shard in shards {
            files.push(shard.target().to_owned());
            shard.commit()?;
        }
        index.commit()?;
        let names = self.tensors.iter().map(|placed| placed.tensor.name.clone());
        Ok(WrittenBundle {
            files,
            bytes: self.size(),
            crcs: names.zip(crcs).collect(),
        })
    }

    /// Copies all tensors to the data files, and returns the crc32c of each tensor.
    fn write_tensors(&self, shards: &[AtomicFile], options: &BundleOptions) -> Result<Vec<u32>> {
        let meter = options.progress.meter(self.size());
        let jobs: Vec<(usize, u64, u64)> = self
            .tensors
            .iter()
            .enumerate()
            .flat_map(|(at, tensor)| {
                work::pieces(tensor.size).map(move |(start, len)| (at, start, len))
            })
            .collect();
        let made = work::map(options.thread_count(), jobs.len(), |at, buffer| {
            let (tensor, start, len) = jobs[at];
            let placed = &self.tensors[tensor];
            let file = &shards[placed.shard as usize];
            copy_piece(placed, file, start, len, buffer, &meter)
                .map_err(|error| at_target(error.at_path(&placed.tensor.name), file.target()))
        })?;
        let mut crcs = vec![0; self.tensors.len()];
        for ((tensor, _, len), crc) in jobs.into_iter().zip(made) {
            crcs[tensor] = combine(crcs[tensor], crc, len);
        }
        Ok(crcs)
    }

    fn write_index(&self, file: &mut File, num_shards: u32, crcs: &[u32]) -> Result<()> {
        let mut table = TableWriter::new(BufWriter::new(file));
        let header = BundleHeaderProto {
            num_shards: i32::try_from(num_shards).unwrap_or(i32::MAX),
            version: Some(VersionDef {
                producer: VERSION,
                ..VersionDef::default()
            }),
            ..BundleHeaderProto::default()
        };
        table.add(b"", &header.encode_to_vec())?;
        for (placed, crc) in self.tensors.iter().zip(crcs) {
            table.add(
                placed.tensor.name.as_bytes(),
                &placed.entry(*crc).encode_to_vec(),
            )?;
        }
        table.finish()?.flush()?;
        Ok(())
    }
}

impl Placed<'_> {
    fn entry(&self, crc: u32) -> BundleEntryProto {
        // The numbers fit in `i64`: the plan has checked that they are below 2^63.
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let dims = self.tensor.shape.iter().map(|dim| Dim {
            size: number(*dim),
            ..Dim::default()
        });
        BundleEntryProto {
            dtype: self.tensor.dtype.into(),
            shape: Some(TensorShapeProto {
                dim: dims.collect(),
                ..TensorShapeProto::default()
            }),
            shard_id: i32::try_from(self.shard).unwrap_or(i32::MAX),
            offset: number(self.offset),
            size: number(self.size),
            crc32c: mask_crc(crc),
            ..BundleEntryProto::default()
        }
    }
}

/// Copies a piece of a tensor, and returns its crc32c.
fn copy_piece(
    placed: &Placed<'_>,
    target: &AtomicFile,
    start: u64,
    len: u64,
    buffer: &mut Vec<u8>,
    meter: &Meter,
) -> Result<u32> {
    let mut crc = 0;
    let data = &placed.tensor.data;
    read_pieces(data, start..start + len, buffer, |at, bytes| {
        crc = crc32c::crc32c_append(crc, bytes);
        target
            .writer_at(placed.offset + at)
            .write_all(bytes)
            .map_err(|error| Error::from(error).in_file(target.target()))?;
        meter.advance(bytes.len() as u64)
    })
    .map_err(|error| match error.io_kind() {
        Some(io::ErrorKind::UnexpectedEof) => {
            let size = placed.size;
            let message = format!("the data ended before all {size} bytes were read");
            Error::new(ErrorKind::SourceChanged, message).at_offset(start)
        }
        _ => error,
    })?;
    Ok(crc)
}
