//! What a file is that is taken for a message and isn't one, by what it begins with.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use proto_splitter::formats::{ALL, Candidate};
use proto_splitter::record_file::ReadAt;
use proto_splitter::wire::{SourceInput, WireCursor};

/// How much of the file is looked at.
const HEAD: usize = 512;

/// What other files begin with, and what they are.
const BEGINNINGS: &[(&[u8], &str)] = &[
    (b"\x1f\x8b", "it is compressed with gzip"),
    (b"\x28\xb5\x2f\xfd", "it is compressed with zstd"),
    (b"BZh", "it is compressed with bzip2"),
    (b"\xfd7zXZ\0", "it is compressed with xz"),
    (b"PK\x03\x04", "it is a zip archive"),
    (b"\x89HDF\r\n\x1a\n", "it is an HDF5 file"),
];

/// Says what a file is if it is none that is known, but begins like something that is often taken
/// for a message.
pub(crate) fn what_else(path: &Path) -> Option<String> {
    // A pipe is not opened again.
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_file() || ALL.recognize(&Candidate::new(path).ok()?).is_some() {
        return None;
    }
    let mut head = Vec::new();
    let file = File::open(path).ok()?;
    (&file).take(HEAD as u64).read_to_end(&mut head).ok()?;
    describe(&head, metadata.len()).or_else(|| how_much_is_cut(&file, metadata.len()))
}

/// Says how many bytes are missing, if all is a message but for the end of its last field.
fn how_much_is_cut(file: &File, size: u64) -> Option<String> {
    let endless = Endless { file, size };
    let mut cursor = WireCursor::new(SourceInput::new(&endless, MOST));
    while cursor.position() < size {
        cursor.next().ok()??;
    }
    let missing = cursor.position() - size;
    (missing > 0).then(|| format!("if the file is cut, {missing} bytes are missing"))
}

/// The largest message that is thought of: 1 TiB.
const MOST: u64 = 1 << 40;

/// A file with zeros behind it.
struct Endless<'a> {
    file: &'a File,
    size: u64,
}

impl ReadAt for Endless<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if offset < self.size {
            return ReadAt::read_at(self.file, offset, buf);
        }
        buf.fill(0);
        Ok(buf.len())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(MOST)
    }
}

/// What a file of this size is that begins like this.
fn describe(head: &[u8], size: u64) -> Option<String> {
    let known = BEGINNINGS.iter().find(|(magic, _)| head.starts_with(magic));
    if let Some((_, what)) = known {
        return Some((*what).to_owned());
    }
    if let Some(identifier) = flatbuffer(head, size) {
        return Some(format!("it is a FlatBuffer of the kind {identifier}"));
    }
    let text = text(head)?;
    Some(match text.trim_start().chars().next()? {
        '{' | '[' => "it is text, by its beginning JSON".to_owned(),
        '<' => "it is text, by its beginning XML or HTML".to_owned(),
        _ => "it is text, maybe in protobuf's text format".to_owned(),
    })
}

/// The identifier of a FlatBuffer: four letters or digits behind the offset of its root.
fn flatbuffer(head: &[u8], size: u64) -> Option<&str> {
    let (root, rest) = head.split_first_chunk::<4>()?;
    let identifier = rest.get(..4)?;
    let is_name = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    let inside = (8..size).contains(&u64::from(u32::from_le_bytes(*root)));
    if inside && identifier.iter().all(is_name) {
        std::str::from_utf8(identifier).ok()
    } else {
        None
    }
}

/// The beginning of a file of text.
fn text(head: &[u8]) -> Option<&str> {
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // A character may be cut at the end.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&head[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let printable = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    text.chars().all(printable).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_message_says_how_much_is_missing() {
        let whole = b"\x08\x01\x12\x05hello\x1a\x0aabcdefghij";
        let cut = |len: usize| {
            let mut file = tempfile::tempfile().unwrap();
            std::io::Write::write_all(&mut file, &whole[..len]).unwrap();
            how_much_is_cut(&file, len as u64)
        };
        assert_eq!(cut(whole.len()), None);
        assert_eq!(cut(9), None);
        let said = |missing| Some(format!("if the file is cut, {missing} bytes are missing"));
        assert_eq!(cut(whole.len() - 3), said(3));
        assert_eq!(cut(4), said(5));
    }

    #[test]
    fn what_is_not_a_message_is_named() {
        for (head, what) in [
            (&b"\x1f\x8b\x08\0"[..], Some("gzip")),
            (b"\x28\xb5\x2f\xfd\x04", Some("zstd")),
            (b"PK\x03\x04\x14\0", Some("zip archive")),
            (b"\x89HDF\r\n\x1a\n\0", Some("HDF5")),
            (
                b"\x1c\0\0\0TFL3\0\0\0\0",
                Some("FlatBuffer of the kind TFL3"),
            ),
            (b"{\n  \"node\": []", Some("JSON")),
            (b"[1, 2]", Some("JSON")),
            (b"<!doctype html>", Some("HTML")),
            (b"node {\n  name: \"x\xc3", Some("protobuf's text format")),
            (b"", None),
            (b"\x0a\x03abc", None),
            (b"\x08\x01", None),
            (b"\xff\xff\xff\xffTFL3", None),
        ] {
            let found = describe(head, 100);
            match what {
                None => assert_eq!(found, None, "{}", head.escape_ascii()),
                Some(what) => assert!(found.unwrap().contains(what), "{what}"),
            }
        }
    }
}
