//! NumPy's archive format: an uncompressed zip file that contains a NumPy file for each array.

use std::borrow::Cow;
use std::io::{Seek, Write};

use proto_splitter_core::atomic::FailsOnce;
use proto_splitter_core::formats::Opened;
use proto_splitter_core::progress::Meter;
use proto_splitter_core::tensor::TensorInfo;
use proto_splitter_core::{Error, ErrorKind};
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::npy;

pub(super) fn write(
    opened: &Opened,
    tensors: &[TensorInfo],
    sink: &mut (impl Write + Seek),
    meter: &Meter,
) -> Result<(), Error> {
    // `FailsOnce` is needed because dropping a `ZipWriter` completes the archive even after a
    // failed write.
    let mut archive = ZipWriter::new(FailsOnce::new(sink));
    for tensor in tensors {
        let at_tensor = |error: Error| error.context(format!("tensor {:?}", tensor.name));
        let reader = opened.read_tensor(tensor).map_err(at_tensor)?;
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(npy::size(tensor).map_err(at_tensor)? > u64::from(u32::MAX));
        // NumPy uses an entry's name, without `.npy`, as the array's name.
        archive
            .start_file(format!("{}.npy", safe_name(&tensor.name)), options)
            .map_err(|error| at_tensor(failure(error)))?;
        npy::write_npy(reader, &mut meter.written_to(&mut archive)).map_err(at_tensor)?;
    }
    archive.finish().map_err(failure)?.into_inner()?;
    Ok(())
}

fn failure(error: ZipError) -> Error {
    match error {
        ZipError::Io(error) => error.into(),
        error => Error::new(ErrorKind::InvalidMessage, error.to_string()),
    }
}

/// Returns an array's name, changed if necessary so that the archive is safe to unpack on any
/// system. Characters that could place the array's file outside the archive's folder are replaced
/// by `%` and two hexadecimal digits.
pub(super) fn safe_name(name: &str) -> Cow<'_, str> {
    let below = name.trim_start_matches(SEPARATORS);
    let (root, drive) = (name.len() - below.len(), has_drive(name));
    let mut safe = String::with_capacity(name.len());
    let mut put = |char: char, is_escaped: bool| {
        if is_escaped || char == '\0' {
            safe.push_str(&format!("%{:02X}", u32::from(char)));
        } else {
            safe.push(char);
        }
    };
    name[..root].chars().for_each(|char| put(char, true));
    for (index, step) in below.split_inclusive(SEPARATORS).enumerate() {
        // Some systems ignore spaces and dots at the end of a file name.
        let climbs = step.starts_with("..")
            && step
                .trim_end_matches(SEPARATORS)
                .trim_end_matches(['.', ' '])
                .is_empty();
        for char in step.chars() {
            let is_drive = char == ':' && drive && index == 0;
            put(char, climbs && char == '.' || is_drive);
        }
    }
    if safe == name {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(safe)
    }
}

/// Characters that separate the components of a path on any system.
const SEPARATORS: [char; 2] = ['/', '\\'];

/// Returns true if a name starts with a drive, such as `C:`. A name that consists of a letter, a
/// colon and a number, such as `x:0`, has no drive: it is the name of a graph's output.
fn has_drive(name: &str) -> bool {
    let step = name.split(SEPARATORS).next().unwrap_or_default();
    match step.as_bytes() {
        [letter, b':', behind @ ..] => {
            let is_number = !behind.is_empty() && behind.iter().all(u8::is_ascii_digit);
            letter.is_ascii_alphabetic() && !is_number
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_leads_elsewhere_is_escaped_and_no_other() {
        for (name, safe) in [
            ("layer/w", "layer/w"),
            ("x:0", "x:0"),
            ("layer/b:0", "layer/b:0"),
            ("a..b/.c/...d", "a..b/.c/...d"),
            ("50%", "50%"),
            ("../../evil", "%2E%2E/%2E%2E/evil"),
            ("a/../../evil", "a/%2E%2E/%2E%2E/evil"),
            ("..\\evil", "%2E%2E\\evil"),
            ("a/.. /evil", "a/%2E%2E /evil"),
            ("/etc/evil", "%2Fetc/evil"),
            ("//host/evil", "%2F%2Fhost/evil"),
            ("\\evil", "%5Cevil"),
            ("C:\\evil", "C%3A\\evil"),
            ("c:/evil", "c%3A/evil"),
            ("C:evil", "C%3Aevil"),
            ("a\0b", "a%00b"),
        ] {
            assert_eq!(safe_name(name), safe, "{name:?}");
        }
    }
}
