//! The header of a NumPy file.
//!
//! ```text
//! | 93 "NUMPY" | version, 2 bytes | length of the header, u16 LE or from version 2 on u32 LE | header | elements |
//! ```
//!
//! The header is a dictionary in Python's syntax, with the keys `descr`, `fortran_order` and
//! `shape`.

use std::io::{ErrorKind as IoKind, Read};

use proto_splitter_core::tensor::{ByteOrder, DType, TensorInfo};
use proto_splitter_core::{Error, ErrorKind, Result};

/// The first bytes of a NumPy file.
const NPY_MAGIC: [u8; 6] = *b"\x93NUMPY";

/// Maximum size of a header, in bytes. NumPy's own limit is 10,000.
const MAX_HEADER: u32 = 64 << 10;

/// Reads the header of a NumPy file from `source`, which then continues with the first element. The
/// returned tensor has no name.
///
/// NumPy stores elements whose type it doesn't support, such as `bfloat16`, as opaque bytes. They
/// are returned as elements of the type `bytes` with the same width.
///
/// ```
/// use proto_splitter_core::tensor::{DType, TensorInfo, TensorReader};
/// use proto_splitter_ops::{read_npy_header, write_npy};
///
/// let tensor = TensorInfo::new("t", DType::F32, vec![2, 1]);
/// let mut file = Vec::new();
/// write_npy(TensorReader::of_bytes(tensor, vec![7; 8]), &mut file)?;
///
/// let mut source = &file[..];
/// let header = read_npy_header(&mut source)?;
/// assert_eq!((header.dtype, &header.shape[..], source), (DType::F32, &[2, 1][..], &[7; 8][..]));
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::InvalidMessage`] if `source` isn't a NumPy file, the elements aren't numbers, or
/// they are in Fortran order; [`ErrorKind::Io`] if `source` can't be read.
pub fn read_npy_header(source: &mut dyn Read) -> Result<TensorInfo> {
    let mut front = [0; 8];
    fill(source, &mut front)?;
    if front[..6] != NPY_MAGIC {
        return Err(Error::invalid("the file doesn't begin as NumPy's files do"));
    }
    let len = match front[6] {
        1 => {
            let mut len = [0; 2];
            fill(source, &mut len)?;
            u32::from(u16::from_le_bytes(len))
        }
        2 | 3 => {
            let mut len = [0; 4];
            fill(source, &mut len)?;
            u32::from_le_bytes(len)
        }
        version => {
            let message = format!("version {version} of NumPy's file format is unknown");
            return Err(Error::new(ErrorKind::UnsupportedVersion, message));
        }
    };
    if len > MAX_HEADER {
        let message = format!("the header has {len} bytes, over the limit of {MAX_HEADER}");
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    let mut text = vec![0; usize::try_from(len).unwrap_or_default()];
    fill(source, &mut text)?;
    let text = String::from_utf8(text).map_err(|_| Error::invalid("the header isn't text"))?;
    parse(&text)
}

fn fill(source: &mut dyn Read, buffer: &mut [u8]) -> Result<()> {
    source
        .read_exact(buffer)
        .map_err(|error| match error.kind() {
            IoKind::UnexpectedEof => Error::invalid("the header of the NumPy file is incomplete"),
            _ => error.into(),
        })
}

fn parse(text: &str) -> Result<TensorInfo> {
    let shown = || {
        Error::invalid(format!(
            "{:?} isn't the header of a NumPy file",
            text.trim()
        ))
    };
    let inner = text
        .trim()
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'));
    let mut rest = inner.ok_or_else(shown)?.trim();
    let (mut descr, mut fortran, mut shape) = (None, None, None);
    while !rest.is_empty() {
        let (key, value) = entry(rest).ok_or_else(shown)?;
        let (value, after) = match (key, value.chars().next()) {
            (_, Some('(')) => value.split_once(')'),
            (_, Some('\'')) => value[1..].split_once('\''),
            ("descr", Some('[')) => {
                return Err(Error::invalid(
                    "the elements are records, not single numbers",
                ));
            }
            _ => Some(value.split_once(',').unwrap_or((value, ""))),
        }
        .ok_or_else(shown)?;
        match key {
            "descr" => descr = Some(value),
            "fortran_order" => fortran = Some(value.trim() == "True"),
            "shape" => shape = Some(sizes(value).ok_or_else(shown)?),
            _ => return Err(shown()),
        }
        let after = after.trim();
        rest = after.strip_prefix(',').unwrap_or(after).trim();
    }
    let (Some(descr), Some(fortran), Some(shape)) = (descr, fortran, shape) else {
        return Err(shown());
    };
    let several = shape.iter().filter(|size| **size > 1).count() > 1;
    if fortran && several {
        let message =
            "the elements are in Fortran order; use numpy.ascontiguousarray to put them in C order";
        return Err(Error::invalid(message));
    }
    described(descr, shape)
}

/// Returns the first key in a dictionary's text, and the text that starts with the key's value.
fn entry(text: &str) -> Option<(&str, &str)> {
    let (key, rest) = text.strip_prefix('\'')?.split_once('\'')?;
    Some((key, rest.trim_start().strip_prefix(':')?.trim_start()))
}

/// Parses the sizes in a tuple. `text` has the opening parenthesis, but not the closing one.
fn sizes(text: &str) -> Option<Vec<u64>> {
    let sizes = text.strip_prefix('(')?.split(',').map(str::trim);
    let sizes = sizes.filter(|size| !size.is_empty());
    sizes.map(|size| size.parse().ok()).collect()
}

fn described(descr: &str, shape: Vec<u64>) -> Result<TensorInfo> {
    let (order, kind) = match descr.chars().next() {
        Some('<' | '|' | '=') => (ByteOrder::Little, &descr[1..]),
        Some('>') => (ByteOrder::Big, &descr[1..]),
        _ => (ByteOrder::Little, descr),
    };
    let unknown = || {
        Error::invalid(format!(
            "the elements have the type {descr:?}, so they aren't numbers"
        ))
    };
    let overflow = || {
        Error::invalid(format!(
            "an array of shape {shape:?} has more bytes than can be counted"
        ))
    };
    if let Some(width) = kind.strip_prefix('V') {
        let width: u64 = width.parse().map_err(|_| unknown())?;
        let info = TensorInfo::new("", DType::Other("bytes"), shape.clone());
        let bytes = info.elements().and_then(|count| count.checked_mul(width));
        return Ok(info.sized(bytes.ok_or_else(overflow)?));
    }
    let all = [
        DType::Bool,
        DType::I8,
        DType::U8,
        DType::I16,
        DType::U16,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::U64,
        DType::F16,
        DType::F32,
        DType::F64,
        DType::C64,
        DType::C128,
    ];
    let dtype = all.into_iter().find(|dtype| dtype.npy() == Some(kind));
    let dtype = dtype.ok_or_else(unknown)?;
    let info = TensorInfo::new("", dtype, shape.clone()).ordered(order);
    let count = info.elements().ok_or_else(overflow)?;
    dtype.packed_bytes(count).ok_or_else(overflow)?;
    Ok(info)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(version: u8, text: &str) -> Vec<u8> {
        let len = u32::try_from(text.len()).unwrap().to_le_bytes();
        let len = if version == 1 { &len[..2] } else { &len[..] };
        [&NPY_MAGIC[..], &[version, 0], len, text.as_bytes(), b"rest"].concat()
    }

    fn read(version: u8, text: &str) -> Result<TensorInfo> {
        let file = file(version, text);
        let mut source = &file[..];
        let info = read_npy_header(&mut source)?;
        assert_eq!(source, b"rest");
        Ok(info)
    }

    #[test]
    fn the_type_the_order_and_the_shape_are_read() {
        for (text, dtype, order, shape, bytes) in [
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n",
                DType::F32,
                ByteOrder::Little,
                &[2, 3][..],
                24,
            ),
            (
                "{'shape': (5,), 'fortran_order': True, 'descr': '>i8'}",
                DType::I64,
                ByteOrder::Big,
                &[5],
                40,
            ),
            (
                "{'descr': '|b1', 'fortran_order': False, 'shape': ()}",
                DType::Bool,
                ByteOrder::Little,
                &[],
                1,
            ),
            (
                "{'descr': '<V2', 'fortran_order': False, 'shape': (0, 9)}",
                DType::Other("bytes"),
                ByteOrder::Little,
                &[0, 9],
                0,
            ),
            (
                "{'descr': '|V2', 'fortran_order': False, 'shape': (3,), }",
                DType::Other("bytes"),
                ByteOrder::Little,
                &[3],
                6,
            ),
        ] {
            for version in 1..4 {
                let info = read(version, text).unwrap();
                let found = (info.dtype, info.byte_order, &info.shape[..], info.bytes);
                assert_eq!(found, (dtype, order, shape, bytes), "{text}");
            }
        }
    }

    #[test]
    fn what_is_no_header_of_numbers_is_refused() {
        for (text, wanted) in [
            ("", "isn't the header"),
            ("{}", "isn't the header"),
            ("{'descr': '<f4', 'shape': (2,)}", "isn't the header"),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
                "isn't the header",
            ),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (1",
                "isn't the header",
            ),
            ("{'descr': '<f4', 'x': 1}", "isn't the header"),
            (
                "{'descr': '|O', 'fortran_order': False, 'shape': ()}",
                "aren't numbers",
            ),
            (
                "{'descr': '<U3', 'fortran_order': False, 'shape': ()}",
                "aren't numbers",
            ),
            (
                "{'descr': '<V', 'fortran_order': False, 'shape': ()}",
                "aren't numbers",
            ),
            (
                "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}",
                "are records",
            ),
            (
                "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}",
                "Fortran order",
            ),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9)}",
                "more bytes than can be counted",
            ),
        ] {
            let error = read(1, text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
        let good = file(2, "{}");
        for (bytes, wanted) in [
            (&b"\x93NUMPX\x01\x00"[..], "doesn't begin"),
            (&good[..3], "is incomplete"),
            (&good[..9], "is incomplete"),
            (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "over the limit"),
            (b"\x93NUMPY\x04\x00", "version 4"),
        ] {
            let error = read_npy_header(&mut &bytes[..]).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
