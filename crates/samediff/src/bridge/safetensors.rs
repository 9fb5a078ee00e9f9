//! Conversion to and from safetensors files, which contain named tensors but no graph.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use proto_splitter_core::tensor::safetensors::{LEN_LEN, MAX_HEADER_LEN, METADATA, start_of_file};
use record_file::ReadAt;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use super::{not_convertible, write_file};
use crate::draft::SameDiffWriteOptions;
use crate::fb::Value;
use crate::fb::schema::flat_graph::flat_graph as slots;
use crate::{
    Array, ArrayInfo, Error, ErrorKind, Graph, Nd4jType, Result, SameDiffVariable, TagContent,
    TagView, VarType,
};

/// Returns the length of a safetensors file's header, or `None` if the source isn't a safetensors
/// file.
pub(super) fn read_header_len(source: &dyn ReadAt) -> Result<Option<u64>> {
    let mut head = [0; 9];
    let size = source.size()?;
    if size < head.len() as u64 {
        return Ok(None);
    }
    source.read_exact_at(0, &mut head)?;
    Ok(header_len(&head, size))
}

/// Returns the length of the safetensors header in a file of `size` bytes that begins with `head`;
/// `None` if there is no such header. The header's length comes first, followed by the header,
/// which begins with `{`.
pub(crate) fn header_len(head: &[u8], size: u64) -> Option<u64> {
    let (len, rest) = head.split_first_chunk()?;
    let len = u64::from_le_bytes(*len);
    let fits = len <= size.checked_sub(LEN_LEN)? && len <= MAX_HEADER_LEN;
    (rest.first() == Some(&b'{') && fits).then_some(len)
}

/// Reads a safetensors file. All of its tensors become variables, and the other content of its
/// header becomes metadata of the graph.
pub(super) fn read(source: Arc<dyn ReadAt>, header_len: u64) -> Result<TagContent> {
    let invalid = |message: String| Error::new(ErrorKind::InvalidArray, message);
    // The header isn't longer than the file, so a wrong length can't cause a huge allocation.
    let mut header = vec![0; usize::try_from(header_len).unwrap_or(usize::MAX)];
    source.read_exact_at(LEN_LEN, &mut header)?;
    let metadata: Metadata = serde_json::from_slice(&header)
        .map_err(|error| invalid(format!("the header is damaged: {error}")))?;
    let start = LEN_LEN + header_len;
    let expected = start.saturating_add(metadata.data_len() as u64);
    let size = source.size()?;
    if expected != size {
        return Err(invalid(format!(
            "the file has {size} bytes, but its header requires {expected}"
        )));
    }
    let mut graph = Graph::default();
    let mut arrays = Vec::new();
    for name in metadata.offset_keys() {
        let Some(tensor) = metadata.info(&name) else {
            continue;
        };
        let about = |error: Error| error.about("tensor", &name);
        let dtype = dtype(tensor.dtype).map_err(about)?;
        let shape: Vec<u64> = tensor.shape.iter().map(|&dim| dim as u64).collect();
        let dims: Vec<i64> = shape
            .iter()
            .map(|&dim| i64::try_from(dim).unwrap_or(i64::MAX))
            .collect();
        let (from, to) = tensor.data_offsets;
        let info = ArrayInfo::new(dtype, shape).map_err(about)?;
        let offset = start + from as u64;
        let array = Array::from_source(info, Arc::clone(&source), offset, (to - from) as u64);
        graph.variables.push(SameDiffVariable::new(
            &*name,
            VarType::Variable,
            dtype,
            dims,
        ));
        arrays.push((name.clone(), array.map_err(about)?));
    }
    if let Some(said) = metadata.metadata() {
        let said: BTreeMap<&String, &String> = said.iter().collect();
        let (keys, values): (Vec<String>, Vec<String>) = said
            .into_iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .unzip();
        graph.classic.set_strings(slots::METADATA_KEYS, &keys);
        graph.classic.set_strings(slots::METADATA_VALUES, &values);
    }
    let content = TagContent::new(graph);
    Ok(arrays.into_iter().fold(content, |content, (name, array)| {
        content.parameter(name, array)
    }))
}

fn dtype(dtype: Dtype) -> Result<Nd4jType> {
    let name = dtype.to_string();
    let is_same = |own: &Nd4jType| own.tensor_type().safetensors() == Some(&*name);
    Nd4jType::ALL.into_iter().find(is_same).ok_or_else(|| {
        let message = format!("SameDiff has no type for {dtype}");
        Error::new(ErrorKind::UnsupportedArray, message)
    })
}

fn dtype_back(dtype: Nd4jType) -> Result<Dtype> {
    let name = dtype.tensor_type().safetensors();
    let known = name.and_then(|name| serde_json::from_value(name.into()).ok());
    known.ok_or_else(|| not_convertible("safetensors has no string tensors"))
}

/// Writes the parameters of a tag as a safetensors file, and returns the file's size in bytes. The
/// file stores arrays in C order, sorted by descending element size and then by name, so that every
/// array is aligned. If several parameters share an array file, each of them gets a copy. An array
/// of rank 0 without elements becomes an array of shape `[0]`. The graph's metadata becomes
/// `__metadata__`.
///
/// # Errors
///
/// [`ErrorKind::NotConvertible`] if a parameter consists of strings, or its name is `__metadata__`;
/// [`ErrorKind::LimitExceeded`] if the header exceeds the 100 MB that readers accept; any error in
/// the model or from writing.
pub fn write_safetensors(
    tag: &TagView<'_>,
    path: impl AsRef<Path>,
    options: &SameDiffWriteOptions,
) -> Result<u64> {
    let path = path.as_ref();
    let lay_out = || {
        let arrays = arrays(tag)?;
        let (header, total) = header(&arrays, &said(&tag.graph()?))?;
        Ok((arrays, header, total))
    };
    let (arrays, header, total) =
        lay_out().map_err(|error: Error| error.in_file(path.display()))?;
    write_file(path, options, total, |output| {
        output.file.write_all(&header)?;
        for (_, _, array) in &arrays {
            output.put(array.values()?)?;
        }
        Ok(header.len() as u64 + total)
    })
}

/// Returns the arrays of a tag with their names and types, in the order of the safetensors file.
fn arrays(tag: &TagView<'_>) -> Result<Vec<(String, Dtype, Array)>> {
    let parameters = tag.parameters()?;
    let mut arrays = Vec::new();
    for (name, files) in parameters.iter() {
        for file in files {
            let array = parameters.open(file)?.without_head();
            let dtype = dtype_back(array.info().dtype());
            let dtype = dtype.map_err(|error| error.about("parameter", name))?;
            arrays.push((name.to_owned(), dtype, array));
        }
    }
    arrays.sort_by(|a, b| {
        b.1.bitsize()
            .cmp(&a.1.bitsize())
            .then_with(|| a.0.cmp(&b.0))
    });
    let mut names = HashSet::new();
    debug_assert!(arrays.iter().all(|(name, ..)| names.insert(name)));
    Ok(arrays)
}

/// Returns the metadata of a graph, sorted by key.
fn said(graph: &Graph) -> BTreeMap<&str, &str> {
    let texts = |slot| match graph.classic.get(slot) {
        Some(Value::Strings(texts)) => texts.as_slice(),
        _ => &[],
    };
    let values = texts(slots::METADATA_VALUES).iter();
    let said = texts(slots::METADATA_KEYS).iter().zip(values);
    said.map(|(key, value)| (key.as_str(), value.as_str()))
        .collect()
}

/// Returns the bytes before the data, and the total length of the data.
fn header(
    arrays: &[(String, Dtype, Array)],
    said: &BTreeMap<&str, &str>,
) -> Result<(Vec<u8>, u64)> {
    let too_large = |_| not_convertible("an array is too large for this machine");
    let mut at = 0_usize;
    let mut tensors = Vec::new();
    for (name, dtype, array) in arrays {
        if name == METADATA {
            let error = not_convertible("safetensors reserves this name");
            return Err(error.about("parameter", name));
        }
        let info = array.info();
        let shape = if info.is_empty_scalar() {
            vec![0]
        } else {
            let dims = info.shape().iter().map(|&dim| usize::try_from(dim));
            dims.collect::<Result<_, _>>().map_err(too_large)?
        };
        let len = usize::try_from(array.data_len()).map_err(too_large)?;
        let end = at
            .checked_add(len)
            .ok_or_else(|| not_convertible("the arrays are too large"))?;
        let info = TensorInfo {
            dtype: *dtype,
            shape,
            data_offsets: (at, end),
        };
        tensors.push((name.clone(), info));
        at = end;
    }
    let metadata = Metadata::new(None, tensors);
    let metadata = metadata.map_err(|error| not_convertible(error.to_string()))?;
    let mut header = serde_json::to_vec(&metadata).map_err(io::Error::other)?;
    if !said.is_empty() {
        // Serializes the metadata here, since the crate `safetensors` would write it in a different
        // order each time.
        let said = serde_json::to_string(said).map_err(io::Error::other)?;
        let comma = if arrays.is_empty() { "" } else { "," };
        let said = format!("\"{METADATA}\":{said}{comma}");
        header.splice(1..1, said.into_bytes());
    }
    Ok((start_of_file(header)?, at as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the kind of the error about a parameter's name.
    fn refused(name: &str) -> ErrorKind {
        let info = ArrayInfo::new(Nd4jType::UInt8, [1]).unwrap();
        let array = Array::from_bytes(info, vec![7_u8]).unwrap();
        let arrays = [(name.to_owned(), Dtype::U8, array)];
        let header = header(&arrays, &BTreeMap::new()).map(|(header, _)| header.len());
        header.unwrap_err().kind()
    }

    #[test]
    fn a_parameter_is_not_written_under_the_name_of_the_metadata() {
        assert_eq!(refused("__metadata__"), ErrorKind::NotConvertible);
    }

    #[test]
    fn a_header_that_no_reader_accepts_is_not_written() {
        // In JSON, each of these characters takes six bytes.
        let name = "\u{1}".repeat(17_000_000);
        assert_eq!(refused(&name), ErrorKind::LimitExceeded);
    }
}
