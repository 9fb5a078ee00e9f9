//! Parsing `external_data`: the file and range of a tensor's data.
//!
//! ONNX's `ExternalData.md` describes the keys and their values. Readers disagree about deviations
//! from it, so ambiguous input is an error here.

use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use proto_splitter_core::wire::{Field, Input, WireCursor, WireType};
use proto_splitter_core::{Error, ErrorKind, Result};

/// Maximum number of entries in the `external_data` of a tensor. ONNX defines five keys.
pub const MAX_ENTRIES: usize = 64;

/// Maximum size of a key or value in `external_data`, in bytes. Paths have at most 4096 bytes.
pub const MAX_ENTRY_LEN: u64 = 8 << 10;

/// The key-value pairs of `external_data`, as stored in the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entries(Vec<(String, String)>);

impl Entries {
    /// Adds the entry in the field `entry`, which contains a `StringStringEntryProto`. In this
    /// message, field 1 is the key, and field 2 is the value.
    pub(crate) fn add<I: Input>(
        &mut self,
        cursor: &mut WireCursor<I>,
        entry: &Field,
    ) -> Result<()> {
        if self.0.len() >= MAX_ENTRIES {
            let message = format!("more than {MAX_ENTRIES} entries of external_data");
            return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(entry.start));
        }
        let mut pair = (String::new(), String::new());
        cursor.set_range(entry.value.clone());
        while let Some(field) = cursor.next()? {
            let text = match (field.number.0, field.wire_type) {
                (1, WireType::Len) => &mut pair.0,
                (2, WireType::Len) => &mut pair.1,
                _ => continue,
            };
            if field.value.end - field.value.start > MAX_ENTRY_LEN {
                let message =
                    format!("an entry of external_data has more than {MAX_ENTRY_LEN} bytes");
                return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(field.start));
            }
            let bytes = cursor.bytes(field.value.clone())?;
            let Ok(valid) = std::str::from_utf8(bytes) else {
                let message = "external_data is not UTF-8";
                return Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(field.start));
            };
            valid.clone_into(text);
        }
        self.0.push(pair);
        Ok(())
    }

    /// Creates entries from literals.
    #[cfg(test)]
    pub(crate) fn of(entries: &[(&str, &str)]) -> Entries {
        let pair = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        Entries(entries.iter().map(pair).collect())
    }
}

/// A tensor's reference to a range of a file next to the model.
///
/// ```
/// use proto_splitter_onnx::ExternalReference;
///
/// let entries = [("location", "model.onnx.data"), ("offset", "4096"), ("length", "24")];
/// let reference = ExternalReference::parse(entries)?;
/// assert_eq!(reference.location.to_str(), Some("model.onnx.data"));
/// assert_eq!((reference.offset, reference.length), (4096, Some(24)));
///
/// let error = ExternalReference::parse([("location", "../secret")]).unwrap_err();
/// assert_eq!(error.to_string(), "location \"../secret\" leaves the model's folder");
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalReference {
    /// Path of the file, relative to the model's folder and normalized. It contains no `..`.
    pub location: PathBuf,
    /// Offset of the data in the file, in bytes.
    pub offset: u64,
    /// Size of the data, in bytes; `None` if it isn't specified or, as in onnxruntime, if it is
    /// specified as 0.
    pub length: Option<u64>,
    /// SHA-1 of the whole file in hexadecimal, if specified.
    pub checksum: Option<String>,
    /// Keys that ONNX doesn't define. onnxruntime refuses a model that has any.
    pub unknown_keys: Vec<String>,
}

impl ExternalReference {
    /// Parses the keys and values of a tensor's `external_data`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidMessage`] if there is no location, or it isn't a relative path that
    /// stays beneath the model's folder; if an offset or a length isn't a plain decimal number
    /// below 2^63; or if a defined key occurs twice.
    pub fn parse<'a>(
        entries: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<ExternalReference> {
        let (mut location, mut offset, mut length, mut checksum) = (None, None, None, None);
        let mut unknown_keys = Vec::new();
        for (key, value) in entries {
            let slot = match key {
                "location" => &mut location,
                "offset" => &mut offset,
                "length" => &mut length,
                "checksum" => &mut checksum,
                // These are onnxruntime's keys for reordered weights. References with these keys
                // also have the usual keys.
                prepacked if prepacked.starts_with("prepacked") => continue,
                unknown => {
                    unknown_keys.push(unknown.to_owned());
                    continue;
                }
            };
            if slot.replace(value).is_some() {
                return Err(Error::invalid(format!("external_data has \"{key}\" twice")));
            }
        }
        let location = location.ok_or_else(|| Error::invalid("external_data has no location"))?;
        Ok(ExternalReference {
            location: beneath(location)?,
            offset: offset.map_or(Ok(0), |value| number("offset", value))?,
            length: length
                .map(|value| number("length", value))
                .transpose()?
                .filter(|length| *length > 0),
            checksum: checksum.map(str::to_owned),
            unknown_keys,
        })
    }

    pub(crate) fn of(entries: &Entries) -> Result<ExternalReference> {
        let pairs = entries.0.iter();
        ExternalReference::parse(pairs.map(|(key, value)| (key.as_str(), value.as_str())))
    }

    /// Returns the byte range of the data in its file, which has `size` bytes. `needed` is the
    /// number of bytes that the tensor's type and shape require; `None` if they don't determine a
    /// size.
    pub(crate) fn range(&self, needed: Option<u64>, size: u64) -> Result<Range<u64>> {
        let Some(left) = size.checked_sub(self.offset) else {
            return Err(Error::invalid(format!(
                "offset {} is past the end of {}, which has {size} bytes",
                self.offset,
                self.location.display()
            )));
        };
        let length = match (self.length, needed) {
            (Some(length), Some(needed)) if length != needed => {
                return Err(Error::invalid(format!(
                    "the length is {length}, but its type and shape require {needed} bytes"
                )));
            }
            (Some(length), _) | (None, Some(length)) => length,
            (None, None) => left,
        };
        if length > left {
            return Err(Error::invalid(format!(
                "{length} bytes from offset {} go past the end of {}, which has {size}",
                self.offset,
                self.location.display()
            )));
        }
        Ok(self.offset..self.offset + length)
    }
}

/// Parses a plain decimal number below 2^63: no sign, no space, no other base.
fn number(key: &str, value: &str) -> Result<u64> {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    value
        .parse::<i64>()
        .ok()
        .filter(|_| digits)
        .and_then(|number| u64::try_from(number).ok())
        .ok_or_else(|| {
            Error::invalid(format!(
                "{key} \"{}\" is not a plain decimal number below 2^63",
                value.escape_debug()
            ))
        })
}

/// Removes `.` and `..` from a path. Fails if the path isn't relative or leaves its starting
/// folder.
pub(crate) fn beneath(location: &str) -> Result<PathBuf> {
    let shown = location.escape_debug();
    if location.is_empty() {
        return Err(Error::invalid("location is empty"));
    }
    if location.contains(['\\', '\0']) {
        let message = format!("location \"{shown}\" has a backslash or a zero byte");
        return Err(Error::invalid(message));
    }
    let mut path = PathBuf::new();
    for component in Path::new(location).components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => path.push(name),
            Component::ParentDir => {
                if !path.pop() {
                    let message = format!("location \"{shown}\" leaves the model's folder");
                    return Err(Error::invalid(message));
                }
            }
            Component::RootDir | Component::Prefix(_) => {
                return Err(Error::invalid(format!(
                    "location \"{shown}\" is an absolute path"
                )));
            }
        }
    }
    if path.as_os_str().is_empty() || location.ends_with('/') {
        Err(Error::invalid(format!("location \"{shown}\" is a folder")))
    } else {
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(entries: &[(&str, &str)]) -> Result<ExternalReference> {
        ExternalReference::of(&Entries::of(entries))
    }

    #[test]
    fn a_location_stays_beneath_the_models_folder() {
        for (location, expected) in [
            ("w", "w"),
            ("./w", "w"),
            ("sub/w", "sub/w"),
            ("sub//w", "sub/w"),
            ("sub/../w", "w"),
            ("a..b", "a..b"),
            ("w:0", "w:0"),
            ("sub/./x/../w", "sub/w"),
        ] {
            let found = parse(&[("location", location)]).unwrap().location;
            assert_eq!(found, Path::new(expected), "{location}");
        }
        for (location, why) in [
            ("", "location is empty"),
            ("../w", "leaves the model's folder"),
            ("sub/../../w", "leaves the model's folder"),
            ("..", "leaves the model's folder"),
            ("/abs/w", "is an absolute path"),
            ("sub\\w", "has a backslash or a zero byte"),
            ("w\0", "has a backslash or a zero byte"),
            (".", "is a folder"),
            ("sub/", "is a folder"),
            ("sub/..", "is a folder"),
        ] {
            let error = parse(&[("location", location)]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidMessage, "{location}");
            assert!(error.to_string().ends_with(why), "{location}: {error}");
        }
    }

    #[test]
    fn offsets_and_lengths_are_plain_decimal_numbers() {
        let with = |key, value| parse(&[("location", "w"), (key, value)]);
        for (value, expected) in [("0", 0), ("007", 7), ("9223372036854775807", i64::MAX)] {
            let expected = expected.cast_unsigned();
            assert_eq!(with("offset", value).unwrap().offset, expected);
            let length = Some(expected).filter(|length| *length > 0);
            assert_eq!(with("length", value).unwrap().length, length, "{value}");
        }
        for value in [
            "",
            " 0",
            "0 ",
            "x",
            "0x0",
            "-1",
            "+1",
            "1e3",
            "1.0",
            "1_000",
            "٣",
            "9223372036854775808",
            "99999999999999999999999",
        ] {
            for key in ["offset", "length"] {
                let error = with(key, value).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidMessage, "{value}");
                assert!(error.to_string().starts_with(key), "{error}");
            }
        }
    }

    #[test]
    fn what_is_there_twice_or_missing_is_an_error_and_unknown_keys_are_kept() {
        let error = parse(&[("offset", "1")]).unwrap_err();
        assert_eq!(error.to_string(), "external_data has no location");
        for key in ["location", "offset", "length", "checksum"] {
            let entries = [("location", "w"), (key, "1"), (key, "1")];
            let error = parse(&entries).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("external_data has \"{key}\" twice")
            );
        }
        let entries = [
            ("location", "w"),
            ("basepath", "/"),
            ("prepacked_0", "x"),
            ("checksum", "ab"),
        ];
        let found = parse(&entries).unwrap();
        assert_eq!(found.unknown_keys, ["basepath"]);
        assert_eq!(found.checksum.as_deref(), Some("ab"));
    }
}
