//! Reading the index of a bundle, which lists its tensors.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_graph_def::proto::{DataType, TensorShapeProto, VersionDef};
use record_file::ReadAt;

use crate::checksum::unmask_crc;
use crate::dtype::{dtype_name, tensor_size};
use crate::options::MAX_SHARDS;
use crate::proto::bundle_header_proto::Endianness;
use crate::proto::{BundleEntryProto, BundleHeaderProto};
use crate::slice::{self, slice_key};
use crate::table::TableReader;

/// Format version of the bundles that this crate writes. Bundles that need a newer version aren't
/// accepted.
pub(crate) const VERSION: i32 = 1;

/// Maximum total size of the keys in an index, in bytes. Keys share prefixes, which are stored once,
/// so the keys may be far larger than the index. The keys of all slices, each of which contains its
/// tensor's name, have the same limit.
const MAX_KEYS: u64 = 256 << 20;

/// Maximum size of an entry, in bytes. In memory, the dimensions and slices in an entry may take
/// tens of times its size.
const MAX_ENTRY: usize = 4 << 20;

/// A tensor in a bundle: its name, type, shape and location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    name: String,
    dtype: DataType,
    shape: Vec<u64>,
    size: u64,
    location: TensorLocation,
}

/// The location of a tensor's bytes in the data files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TensorLocation {
    /// All bytes are contiguous.
    Whole(Span),
    /// The tensor is stored in slices, each in a separate byte range.
    Slices(Vec<Slice>),
}

/// A range of bytes in one of a bundle's data files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Number of the data file, counted from 0.
    pub shard: u32,
    /// Offset at which the range begins in the data file, in bytes.
    pub offset: u64,
    /// Size of the range, in bytes.
    pub size: u64,
    /// Unmasked crc32c of the bytes. For strings and variants, it covers each length as a
    /// fixed-size number of 4 or 8 bytes instead of the stored varint.
    pub crc32c: u32,
}

/// A rectangular part of a tensor that is stored separately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Index of the slice's first element in each dimension of the tensor.
    pub start: Vec<u64>,
    /// Size of the slice in each dimension.
    pub shape: Vec<u64>,
    /// Location of the slice's bytes.
    pub span: Span,
}

impl Tensor {
    /// Returns the tensor's name in the index.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the type of the tensor's elements.
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// Returns the tensor's dimensions; empty for a scalar.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the tensor's size in the data files, in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the location of the tensor's bytes.
    pub fn location(&self) -> &TensorLocation {
        &self.location
    }

    /// Returns all byte ranges in which the tensor is stored.
    pub fn spans(&self) -> impl Iterator<Item = &Span> {
        let (whole, slices) = match &self.location {
            TensorLocation::Whole(span) => (Some(span), &[][..]),
            TensorLocation::Slices(slices) => (None, slices.as_slice()),
        };
        whole
            .into_iter()
            .chain(slices.iter().map(|slice| &slice.span))
    }
}

/// The content of an index.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) num_shards: u32,
    /// Tensors, sorted by name.
    pub(crate) tensors: Vec<Tensor>,
}

impl Index {
    pub(crate) fn read(source: impl ReadAt) -> Result<Index> {
        let table = TableReader::open(source)?;
        let mut num_shards = None;
        let mut entries = Vec::new();
        let mut slices = BTreeMap::new();
        let (mut size, mut size_of_slices) = (0u64, 0u64);
        table.for_each(|key, value| {
            size = size.saturating_add(key.len() as u64);
            if size > MAX_KEYS {
                let message = format!("the keys of the index have more than {MAX_KEYS} bytes");
                return Err(Error::new(ErrorKind::LimitExceeded, message));
            }
            let name = String::from_utf8_lossy(key).into_owned();
            if value.len() > MAX_ENTRY {
                let message = format!(
                    "the entry has {} bytes, but at most {MAX_ENTRY} are read",
                    value.len()
                );
                return Err(Error::new(ErrorKind::LimitExceeded, message).at_path(name));
            }
            let Some(shards) = num_shards else {
                if !key.is_empty() {
                    return Err(Error::invalid(
                        "the first entry of the index is not its header",
                    ));
                }
                num_shards = Some(header(value)?);
                return Ok(());
            };
            let entry = BundleEntryProto::decode(value)
                .map_err(|error| Error::invalid(error.to_string()).at_path(&name))?;
            let entry = Entry::check(entry, shards).map_err(|error| error.at_path(&name))?;
            for slice in &entry.slices {
                size_of_slices = size_of_slices.saturating_add(slice::key_len(key, slice));
            }
            if size_of_slices > MAX_KEYS {
                let message =
                    format!("the keys of the slices have more than {MAX_KEYS} bytes in total");
                return Err(Error::new(ErrorKind::LimitExceeded, message));
            }
            if key.first() == Some(&slice::FIRST_BYTE) {
                slices.insert(key.to_vec(), entry);
            } else if std::str::from_utf8(key).is_ok() {
                entries.push((name, entry));
            } else {
                return Err(Error::invalid("the name is not UTF-8").at_path(name));
            }
            Ok(())
        })?;
        let num_shards = num_shards.ok_or_else(|| Error::invalid("the index has no header"))?;
        let tensors = entries
            .into_iter()
            .map(|(name, entry)| entry.resolve(name, &slices))
            .collect::<Result<_>>()?;
        Ok(Index {
            num_shards,
            tensors,
        })
    }
}

/// Checks the header of an index, and returns the number of data files in the bundle.
fn header(value: &[u8]) -> Result<u32> {
    let header = BundleHeaderProto::decode(value)
        .map_err(|error| Error::invalid(format!("the header of the index: {error}")))?;
    let unsupported = |message| Err(Error::new(ErrorKind::UnsupportedVersion, message));
    if header.endianness() == Endianness::Big {
        return unsupported(
            "the tensors are big-endian, but only little-endian tensors can be read".to_owned(),
        );
    }
    let VersionDef {
        min_consumer,
        bad_consumers,
        ..
    } = header.version.unwrap_or_default();
    if min_consumer > VERSION || bad_consumers.contains(&VERSION) {
        return unsupported(format!(
            "the bundle needs a reader of version {min_consumer}, but this one is of version {VERSION}"
        ));
    }
    match u32::try_from(header.num_shards) {
        Ok(shards @ 1..=MAX_SHARDS) => Ok(shards),
        _ => Err(Error::invalid(format!(
            "{} data files, but there must be 1 to {MAX_SHARDS}",
            header.num_shards
        ))),
    }
}

/// A validated entry of an index.
struct Entry {
    dtype: DataType,
    shape: Vec<u64>,
    span: Span,
    slices: Vec<crate::proto::TensorSliceProto>,
}

impl Entry {
    fn check(entry: BundleEntryProto, shards: u32) -> Result<Entry> {
        let dtype = DataType::try_from(entry.dtype).map_err(|_| {
            Error::invalid(format!("the tensor is of the unknown type {}", entry.dtype))
        })?;
        let shape = shape(&entry.shape.unwrap_or_default())?;
        let sliced = !entry.slices.is_empty();
        let at = |number: i64, what: &str| {
            u64::try_from(number)
                .map_err(|_| Error::invalid(format!("{number} can't be the {what} of a tensor")))
        };
        let (offset, size) = (at(entry.offset, "offset")?, at(entry.size, "size")?);
        let shard = u32::try_from(entry.shard_id)
            .ok()
            .filter(|shard| *shard < shards);
        let Some(shard) = shard else {
            return Err(Error::invalid(format!(
                "there is no data file {} of {shards}",
                entry.shard_id
            )));
        };
        if offset
            .checked_add(size)
            .is_none_or(|end| i64::try_from(end).is_err())
        {
            return Err(Error::invalid(format!(
                "{size} bytes at {offset} are past the end of any file"
            )));
        }
        match tensor_size(dtype, &shape) {
            Some(expected) if expected != size && !sliced => {
                let name = dtype_name(dtype);
                return Err(Error::invalid(format!(
                    "the tensor has {size} bytes, but {name}{shape:?} takes {expected}"
                )));
            }
            None if crate::dtype::element_size(dtype).is_some() => {
                return Err(Error::invalid(format!(
                    "the tensor has more than 2^64 bytes: {shape:?}"
                )));
            }
            _ => {}
        }
        Ok(Entry {
            dtype,
            shape,
            span: Span {
                shard,
                offset,
                size,
                crc32c: unmask_crc(entry.crc32c),
            },
            slices: entry.slices,
        })
    }

    fn resolve(self, name: String, stored: &BTreeMap<Vec<u8>, Entry>) -> Result<Tensor> {
        let Entry {
            dtype,
            shape,
            span,
            slices,
        } = self;
        if slices.is_empty() {
            return Ok(Tensor {
                name,
                dtype,
                shape,
                size: span.size,
                location: TensorLocation::Whole(span),
            });
        }
        let mut starts = BTreeSet::new();
        let resolve = |proto| -> Result<Slice> {
            let (start, extent) = slice::bounds(proto, &shape)?;
            // An empty slice takes no place.
            if !extent.contains(&0) && !starts.insert(start.clone()) {
                return Err(Error::invalid(format!("two slices begin at {start:?}")));
            }
            let stored = stored.get(&slice_key(name.as_bytes(), proto)?);
            match stored {
                Some(entry) if !entry.slices.is_empty() => Err(Error::invalid(
                    "a slice is itself in slices, not in one range of bytes",
                )),
                Some(entry) if entry.dtype == dtype && entry.shape == extent => Ok(Slice {
                    start,
                    shape: extent,
                    span: entry.span,
                }),
                Some(_) => Err(Error::invalid(
                    "the type or shape of a slice differs from the index",
                )),
                None => Err(Error::invalid("a slice is not in the index")),
            }
        };
        let slices: Result<Vec<Slice>> = slices.iter().map(resolve).collect();
        let slices = slices.map_err(|error| error.at_path(&name))?;
        let size = slices
            .iter()
            .try_fold(0u64, |all, slice| all.checked_add(slice.span.size));
        let size = size
            .ok_or_else(|| Error::invalid("the slices have more than 2^64 bytes").at_path(&name))?;
        if let Some(expected) = tensor_size(dtype, &shape).filter(|expected| *expected != size) {
            let message =
                format!("the slices have {size} bytes, but the whole tensor takes {expected}");
            return Err(Error::invalid(message).at_path(&name));
        }
        Ok(Tensor {
            name,
            dtype,
            shape,
            size,
            location: TensorLocation::Slices(slices),
        })
    }
}

fn shape(shape: &TensorShapeProto) -> Result<Vec<u64>> {
    /// Maximum number of dimensions of a tensor in TensorFlow.
    const MAX_RANK: usize = 254;
    if shape.unknown_rank || shape.dim.len() > MAX_RANK {
        return Err(Error::invalid(format!(
            "the shape has no rank, or a rank of more than {MAX_RANK}"
        )));
    }
    let dims = shape.dim.iter().map(|dim| {
        u64::try_from(dim.size)
            .map_err(|_| Error::invalid(format!("the shape has a dimension of {}", dim.size)))
    });
    dims.collect()
}
