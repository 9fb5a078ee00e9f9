//! Data files in the safetensors format: a JSON header, then the tensors without gaps.
//!
//! ```text
//! model.safetensors   | length, u64 LE | header, padded with spaces to 8 bytes | tensors ... |
//! ```
//!
//! Types that the format lacks are stored as bytes (`U8`); the model declares the real type.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use proto_splitter_core::tensor::safetensors::{METADATA, start_of_file};
use proto_splitter_core::{Error, ErrorKind, Result};
use safetensors::tensor::{Dtype, Metadata, TensorInfo};

use super::ExternalOptions;
use super::leaving::{DataFile, Leaving, numbered, stem_and_ending};
use crate::archive::dtype;
use crate::data_type::element_bits;
use crate::proto::tensor_proto::DataType;

/// Ending for the names of data files.
pub(super) const ENDING: &str = ".safetensors";

/// Returns the element type and the shape with which a safetensors file stores a tensor; `None` if
/// it can't store the tensor.
pub(crate) fn stored_as(data_type: DataType, dims: &[i64], len: u64) -> Option<(Dtype, Vec<u64>)> {
    // onnx-safetensors and onnx-ir store these types as bytes, and don't support the format's own
    // names for them.
    let as_bytes = [DataType::Float8e4m3fnuz, DataType::Float8e5m2fnuz].contains(&data_type);
    let name = dtype(data_type).safetensors();
    let known = name.and_then(|name| serde_json::from_value(name.into()).ok());
    let known = if as_bytes { Some(Dtype::U8) } else { known };
    Some(match (known, element_bits(data_type)?) {
        // Two elements fill a byte. If their number is odd, half of the last byte is unused.
        (Some(Dtype::F4), _) => (Dtype::F4, vec![len.checked_mul(2)?]),
        (Some(dtype), 8..) => {
            let dims = dims.iter().map(|&dim| u64::try_from(dim).ok());
            (dtype, dims.collect::<Option<_>>()?)
        }
        _ => (Dtype::U8, vec![len]),
    })
}

/// Assigns offsets in the file to tensors, one after another, and returns the header and the size
/// of the file in bytes. The widest elements come first, so that each tensor begins at a multiple
/// of its elements' width. The offsets in the header are relative to the end of the header.
pub(super) fn header<'a>(
    leaving: impl Iterator<Item = &'a mut Leaving>,
    metadata: Option<(&str, String)>,
) -> Result<(Vec<u8>, u64)> {
    let mut leaving: Vec<&mut Leaving> = leaving.collect();
    leaving.sort_by_key(|one| Reverse(element_bits(one.data_type).unwrap_or(0).min(64)));
    let (mut at, mut listed) = (0_u64, Vec::with_capacity(leaving.len()));
    for one in &mut leaving {
        let end = at.checked_add(one.len).ok_or_else(|| too_large(one))?;
        listed.push((one.name.clone(), info(one, (at, end))?));
        (one.offset, one.is_copy) = (at, false);
        at = end;
    }
    let metadata = metadata.map(|(key, value)| [(key.to_owned(), value)].into_iter().collect());
    let metadata =
        Metadata::new(metadata, listed).map_err(|error| Error::invalid(error.to_string()))?;
    let head = start_of_file(serde_json::to_vec(&metadata).map_err(json_error)?)?;
    let start = head.len() as u64;
    for one in leaving {
        one.offset += start;
    }
    Ok((head, start + at))
}

/// Returns a tensor's entry in the header, with these offsets.
fn info(one: &Leaving, offsets: (u64, u64)) -> Result<TensorInfo> {
    let stored = stored_as(one.data_type, &one.dims, one.len);
    let (dtype, shape) = stored.ok_or_else(|| too_large(one))?;
    let fits = |number: u64| usize::try_from(number).map_err(|_| too_large(one));
    Ok(TensorInfo {
        dtype,
        shape: shape.into_iter().map(fits).collect::<Result<_>>()?,
        data_offsets: (fits(offsets.0)?, fits(offsets.1)?),
    })
}

#[cold]
fn too_large(one: &Leaving) -> Error {
    Error::invalid(format!("tensor \"{}\": too large for the format", one.name))
}

fn json_error(error: serde_json::Error) -> Error {
    Error::from(std::io::Error::from(error))
}

/// Returns the name of the data file with index `at`, of `count` files, for a model called `name`.
fn file_name(name: &str, at: usize, count: usize) -> String {
    numbered(stem_and_ending(name).0, ENDING, at, count)
}

/// Returns the name of the index, which maps tensors to data files, for a model called `name`.
pub(super) fn index_name(name: &str) -> String {
    format!("{}.index.json", file_name(name, 0, 1))
}

/// Maximum number of bytes in a file other than its tensors and their entries in the header: the
/// header's length, its braces, and the padding to 8 bytes.
const FRAME: u64 = 8 + 2 + 7;

/// Returns the largest size in the header of a tensor's entry in a file of up to `limit` bytes.
fn entry_len(one: &Leaving, limit: u64) -> Result<u64> {
    let entry = info(one, (limit, limit))?;
    let text = serde_json::to_string(&(&one.name, entry)).map_err(json_error)?;
    // In the header, a colon and a comma take the place of the pair's brackets and comma.
    Ok(text.len() as u64)
}

/// Assigns each tensor to a data file. A new file begins when the current file would exceed a size
/// limit with the next tensor: that of the file, or that of the tensors in it.
pub(super) fn lay_out(
    leaving: &mut [Leaving],
    options: &ExternalOptions,
    name: &str,
) -> Result<Vec<DataFile>> {
    unique_names(leaving);
    let most = options.shard_size.unwrap_or(u64::MAX);
    let (mut count, mut tensors, mut file) = (0, None::<u64>, 0_u64);
    for one in leaving.iter_mut() {
        one.check_len(options)?;
        let own = match options.max_file_size {
            Some(limit) => one.len.saturating_add(entry_len(one, limit)?),
            None => 0,
        };
        let end = tensors.and_then(|tensors| tensors.checked_add(one.len));
        let whole = file.saturating_add(own);
        let fits =
            |end: &u64| *end <= most && options.max_file_size.is_none_or(|limit| whole <= limit);
        let end = end.filter(fits);
        count += usize::from(end.is_none());
        (tensors, file) = match end {
            Some(end) => (Some(end), whole),
            None => (Some(one.len), FRAME.saturating_add(own)),
        };
        one.file = count - 1;
    }
    let files = leaving.chunk_by_mut(|a, b| a.file == b.file);
    let files = files.enumerate().map(|(at, inside)| {
        let (head, size) = header(inside.iter_mut(), None)?;
        let name = file_name(name, at, count);
        if let Some(limit) = options.max_file_size.filter(|&limit| size > limit) {
            let message = format!(
                "{name}: {size} bytes with the header, over the maximum file size of {limit}"
            );
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        Ok(DataFile { name, head, size })
    });
    files.collect()
}

/// Appends a number to the name of each tensor that has the same name as an earlier one, or as the
/// metadata, since names must be unique in a header.
fn unique_names(leaving: &mut [Leaving]) {
    let mut known: HashSet<String> = HashSet::with_capacity(leaving.len());
    for one in leaving.iter() {
        known.insert(one.name.clone());
    }
    let mut seen: HashMap<String, u64> = HashMap::with_capacity(leaving.len());
    seen.insert(METADATA.to_owned(), 1);
    for one in leaving.iter_mut() {
        let count = seen.entry(one.name.clone()).or_insert(0);
        *count += 1;
        while *count > 1 {
            let numbered = format!("{}#{count}", one.name);
            if !known.contains(&numbered) {
                known.insert(numbered.clone());
                one.name = numbered;
                break;
            }
            *count += 1;
        }
    }
}

/// Returns the index as JSON: a map from tensors to data files, as the libraries of the format
/// write it.
pub(super) fn index(leaving: &[Leaving], files: &[DataFile]) -> Result<String> {
    let total: u64 = leaving.iter().map(|one| one.len).sum();
    let places = leaving.iter().filter_map(|one| {
        let file = files.get(one.file)?;
        Some((one.name.as_str(), file.name.as_str()))
    });
    let places: BTreeMap<&str, &str> = places.collect();
    let index = serde_json::json!({
        "metadata": { "total_size": total },
        "weight_map": places,
    });
    serde_json::to_string_pretty(&index).map_err(|error| Error::from(std::io::Error::from(error)))
}
