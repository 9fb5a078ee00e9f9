//! Detecting whether a file stores its message in chunks or in one piece.

use std::path::Path;

use record_file::is_record_file;

use super::file_names::is_named_chunked;
use super::open::open_file;
use crate::{Error, Result};

/// Returns true if a file stores its message in chunks.
///
/// A file whose name ends in `.cpb` is in chunks. Any other file, such as `model.onnx`, is judged
/// by its first bytes, since even a `.pb` file may contain chunks instead of a plain message.
///
/// # Errors
///
/// [`ErrorKind::Io`](crate::ErrorKind::Io) if the file's first bytes are needed and can't be read.
///
/// # Examples
///
/// ```
/// use proto_splitter_core::container::is_chunked;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("model.onnx");
/// std::fs::write(&path, b"\x08\x07")?;
/// assert!(!is_chunked(&path)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn is_chunked(path: impl AsRef<Path>) -> Result<bool> {
    let path = path.as_ref();
    if is_named_chunked(path) {
        return Ok(true);
    }
    let file = open_file(path)?;
    is_record_file(&file).map_err(|error| Error::from(error).in_file(path))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use record_file::RecordWriter;

    use super::*;

    #[test]
    fn a_name_tells_and_else_what_the_file_begins_with() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = RecordWriter::with_defaults(Vec::new());
        writer.write_record(b"a record").unwrap();
        let records = writer.finish().unwrap();
        let message = b"\x0a\x03abc";
        let cases: [(&str, &[u8], bool); 8] = [
            ("a.cpb", &records, true),
            ("b.cpb", message, true),
            ("a.pb", message, false),
            ("b.pb", &records, true),
            ("a.onnx", message, false),
            ("b.onnx", &records, true),
            ("c.onnx", &records[..20], true),
            ("empty", b"", false),
        ];
        for (name, content, expected) in cases {
            let path = folder.path().join(name);
            fs::write(&path, content).unwrap();
            assert_eq!(is_chunked(&path).unwrap(), expected, "{name}");
        }
        for damaged in 0..64 {
            let mut records = records.clone();
            records[damaged] ^= 1;
            let path = folder.path().join("damaged.onnx");
            fs::write(&path, records).unwrap();
            assert!(is_chunked(&path).unwrap(), "byte {damaged}");
        }
        let error = is_chunked(folder.path().join("missing.onnx")).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Io);
    }
}
